// SPDX-License-Identifier: Apache-2.0
// The text of a kernel without the names that come from the model: kernels of equal canonical text
// are the same code, so that the layers of a network are compiled and raced once.
#pragma once

#include <string>

#include "compiler/kernel/kernel_ir.h"

namespace halyard::pipeline {

// `with_sites`: the report sites count too, as they do where two kernels are to share a table of
// sites.
std::string CanonicalText(kernel::Kernel code, bool with_sites);

}  // namespace halyard::pipeline
