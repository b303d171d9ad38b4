// SPDX-License-Identifier: Apache-2.0
// Bounds checks of a CUBIN before the CUDA driver reads it: that takes no size and follows every
// offset.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"

namespace halyard::drivers::cuda {

// DATA_LOSS unless `code` is a 64-bit ELF file whose header tables and sections lie inside it.
Status CheckCubin(std::span<const uint8_t> code);

}  // namespace halyard::drivers::cuda
