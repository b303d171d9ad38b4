// SPDX-License-Identifier: Apache-2.0
// Makes, for one opcode, the kernels that exercise it on every dtype it takes and on 1, 4, 8 and 16
// lanes, and the random inputs they read. An opcode without a case fails the completeness test.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "compiler/kernel/kernel_ir.h"

namespace halyard::testing {

// Elements of every buffer of a case; loops run over the first kCaseElements, the rest catches
// overruns.
inline constexpr int64_t kCaseElements = 256;
inline constexpr int64_t kCaseSlack = 64;

struct OpCase {
  kernel::Kernel kernel;
  bool small_indices = false;  // integer inputs are valid indices: 0 to kCaseElements - 1
};

// `has_fma`: the target can fuse f64; without it f64 fma is refused and gets no case.
std::vector<OpCase> CasesFor(kernel::Opcode opcode, bool has_fma);

// Fills `count` elements of `dtype`: half special values, half random bits or small numbers.
void FillRandom(DType dtype, bool small_indices, int64_t count, std::mt19937_64* random, void* out);

// Bit-equal, or both NaN.
bool SameElement(DType dtype, const void* a, const void* b);

}  // namespace halyard::testing
