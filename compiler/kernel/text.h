// SPDX-License-Identifier: Apache-2.0
// The text form of Kernel IR: one op a line, result types written, values numbered in the order in
// which they are printed. For a verified module, Format(Parse(Format(m))) == Format(m).
//
//   kernel scale workgroup(1, 1, 1) {
//     buffer x f32 global read
//     buffer y f32 global write
//     scalar n
//     site "node" "index of Gather"
//     %0 = const f32x16 0.5
//     %1 = scalar i64 [0]
//     for i64 %4 = %2 to %1 step %3 carry() unroll 0 {
//       %5 = load f32x16 @x, %4 align=16
//       %6 = mul f32x16 %5, %0
//       store @y, %4, %6
//       yield
//     }
//   }
//
// A GPU kernel that relies on a subgroup size opens with
// `kernel scale workgroup(256, 1, 1) subgroup(32) {`.
#pragma once

#include <string>
#include <string_view>

#include "compiler/kernel/kernel_ir.h"

namespace halyard::kernel {

std::string FormatKernel(const Kernel& kernel);
std::string FormatModule(const Module& module);

// INVALID_ARGUMENT with the line number on a syntax error, an unknown name or a value used before
// it is defined. The result is syntactically complete but not verified. Lines that start with //
// are skipped.
Result<Module> ParseModule(std::string_view text);

}  // namespace halyard::kernel
