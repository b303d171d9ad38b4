// SPDX-License-Identifier: Apache-2.0
// Writes the transcendental ops of a kernel as Kernel IR arithmetic: any number of lanes, no table, no
// slow path for special values, and branch-free but for sin, cos and tan of f32 beyond 2^20 * pi/2,
// which branch where any lane is. Runs after scheduling and before code
// generation, on targets whose code cannot call a library.
//
// Largest error found by tests/codegen/math_test.cc over 100,000 samples each, in units of the last
// place, with and without FMA hardware. f32: exp exp2 1.2 (0.9 with FMA), log 0.8, log2 0.9, tanh
// 1.3, erf 1.3 (1 with FMA), rsqrt 1.5, the rest 0.51. f64: exp exp2 log log2 sin cos 1, erf 1.1, rsqrt 1.5, tan tanh
// asinh acosh atanh 2.1, sinh cosh 2.9, asin acos atan 4.5; the relative error of pow grows to
// 2^-42 with |y ln x|. sin, cos and tan of f32 are that exact for every argument, those of f64 for |x| up
// to 2^20 * pi/2; beyond, their absolute error grows as |x| * 2^-52 and sin and cos stay within
// [-1, 1]. NaN, infinities, zeros
// and subnormal arguments and results are those of C's functions; pow(x, 0) and pow(1, y) are 1.
// pow with the constant 2 or 3 is x * x or x * x * x: 0.5 and 1.
#pragma once

#include "compiler/kernel/kernel_ir.h"

namespace halyard::kernel {

struct ExpandMathOptions {
  // The target fuses multiply and add. Without it polynomials are written as mul and add.
  bool has_fma = true;
  // The target has `scale` as an instruction.
  bool has_scale = false;
  // The target's compiler has every one of them for f32; these stay.
  bool has_f32_functions = false;
  // The target has exp2 of f32; it stays, and exp, tanh and erf are made of it. With the 3 + 2 |x|
  // ULP that Vulkan allows it, they have 4 + 4 |x|, 7 and 5, where results are normal numbers.
  bool has_exp2 = false;
};

// `kernel` must be verified; the result is.
Kernel ExpandMath(const Kernel& kernel, ExpandMathOptions options);
Module ExpandMath(const Module& module, ExpandMathOptions options);

// For targets without FMA: writes each fma as mul and add, which rounds twice. Scheduling's choice
// to write fma is a choice of speed, and without the hardware the exact emulation costs ten times
// as much. Runs before ExpandMath.
Kernel SplitFma(const Kernel& kernel);

}  // namespace halyard::kernel
