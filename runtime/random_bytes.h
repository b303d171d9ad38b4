// SPDX-License-Identifier: Apache-2.0
// Content for buffers of kernels that are timed.
#pragma once

#include <cstdint>
#include <random>
#include <span>

#include "base/dtype.h"

namespace halyard::runtime {

// Values that are no special case: floats in [-1, 1), f16 and bf16 in [0.5, 2), integers in
// [0, below), as far as their dtype goes; `below` is at least 1. A random block of 64 KiB is
// repeated: kernels do not see that, and making every byte anew would cost more than a measurement.
void FillRandom(std::mt19937& random, DType dtype, std::span<uint8_t> bytes, int64_t below = 4);

}  // namespace halyard::runtime
