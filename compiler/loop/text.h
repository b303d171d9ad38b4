// SPDX-License-Identifier: Apache-2.0
// Text form of Loop IR. One statement a line; values are numbered in text order; loop variables and
// buffers keep their names. ParseFunction(PrintFunction(f)) prints the same text.
//
//   function {
//     symbol n in [1, 512] divisor 4
//     buffer x: f32[128*n] input
//     buffer w: f32[64] constant 3
//     kernel soft nodes("scale", "softmax") {
//       local t: f32[128]
//       parallel i < n {
//         %0 = reduce max j < 128 {
//           %1 = load x[128*i + j]
//           yield %1
//         }
//         store y[i], %0
//       }
//     }
//   }
//
// Further statements: `const.f32 1.5`, `index.i64 [i + 1]`, `add %1, %2`, `convert.f16 %1`, `load
// x[i] mask %1 else %2`, `store y[i], %1 mask %2`, `scatter sum y[i], %1`, `indirect k = %1 < n
// site 0` with `site "node" "what"` at the kernel's head, `%3, %4 = sequential t < n carry (%1 =
// %0) { ... yield %2 }`. A kernel's head may say `ordered` and a template: `contraction(batch: b;
// m: i; n: j; k: l; product: %1, %2; sum: %4)`.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "compiler/loop/loop_ir.h"

namespace halyard::loop {

std::string PrintFunction(const Function& function);
std::string PrintKernel(const Function& function, uint32_t kernel);
// Makes its symbols in `exprs`, which the function borrows. The graph values that buffers stand for
// are not part of the text. INVALID_ARGUMENT with a line number; the result still needs
// VerifyFunction.
Result<Function> ParseFunction(std::string_view text, ExprArena& exprs);

std::string_view FormatReduceKind(ReduceKind kind);
Result<ReduceKind> ParseReduceKind(std::string_view text);
std::string_view FormatTemplateKind(TemplateKind kind);
Result<TemplateKind> ParseTemplateKind(std::string_view text);
std::string_view FormatBufferRole(BufferRole role);
Result<BufferRole> ParseBufferRole(std::string_view text);

}  // namespace halyard::loop
