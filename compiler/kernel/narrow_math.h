// SPDX-License-Identifier: Apache-2.0
// Cheaper arithmetic where an f32 is rounded to 16 bits in the end: quotients by constants, or by
// what all lanes share (the sum of a row), become products, and 1 + erf(x) and 1 + tanh(x), of
// which GELU is made, an exponential or two instructions more. For GPUs, whose functions are
// written for f32; not for the interpreter's or the CPU's.
#pragma once

#include "compiler/kernel/kernel_ir.h"

namespace halyard::kernel {

// `kernel` must be verified; the result is. A quotient that is not rounded to 16 bits after a few
// more elementwise ops stays; so does a sum that does not get there by products alone. Errors, next
// to the 2^-12 of an f16: of a quotient 1.5 ULP of f32; of 1 + erf(x) and 1 + tanh(x) 2^-17 of the
// result, also where it is close to 0.
Kernel NarrowMath(const Kernel& kernel);

}  // namespace halyard::kernel
