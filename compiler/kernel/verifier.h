// SPDX-License-Identifier: Apache-2.0
// The rules of Kernel IR that do not depend on the values at run time. Every pass's output and
// every parsed text is verified; the interpreter and the emitters assume a verified module.
#pragma once

#include "compiler/kernel/kernel_ir.h"

namespace halyard::kernel {

// INTERNAL, naming the kernel, the op (as text) and the rule that is broken.
Status VerifyKernel(const Kernel& kernel);
Status VerifyModule(const Module& module);

}  // namespace halyard::kernel
