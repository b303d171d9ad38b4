// SPDX-License-Identifier: Apache-2.0
// The meaning of each arithmetic op on one lane, as plain scalar code. A lane is the bits of its
// dtype in the low end of a uint64 (bool: 0 or 1), higher bits zero. The interpreter is built from
// it; it shares nothing with the emitters that it judges.
#pragma once

#include <cstdint>

#include "compiler/kernel/kernel_ir.h"

namespace halyard::kernel {

// The lane that a kConst of `dtype` with immediate `bits` holds.
uint64_t ConstLane(DType dtype, int64_t bits);

// kArithmetic and kCpu ops; unused operands are ignored. Transcendentals are the correctly rounded libm
// value in most cases: right to one unit in the last place, not a bit-exact definition.
uint64_t ArithmeticLane(Opcode opcode, DType dtype, uint64_t a, uint64_t b, uint64_t c);
bool CompareLane(Opcode opcode, DType dtype, uint64_t a, uint64_t b);
uint64_t ConvertLane(DType from, DType to, uint64_t a);

// Value of an integer or bool lane; value of a float lane (every float dtype is exact in double).
int64_t LaneToInt(DType dtype, uint64_t lane);
double LaneToDouble(DType dtype, uint64_t lane);

}  // namespace halyard::kernel
