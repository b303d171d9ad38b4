// SPDX-License-Identifier: Apache-2.0
// Counts what a kernel of Loop IR does: exact over symbolic sizes, where the extents of its loops
// do not depend on one another.
#pragma once

#include <optional>

#include "compiler/loop/loop_ir.h"

namespace halyard::loop {

// Invalid expressions and a missing dtype: not known.
struct KernelCounts {
  Expr flops;                      // scalar operations on floats
  Expr read_bytes, written_bytes;  // of buffers outside the kernel, each byte at most once
  // Of the arithmetic of a contraction or attention: its factors', before they are widened for
  // sums.
  DType product = DType::kInvalid;
};

// What every iteration does counts as done, whatever its masks say. The arena of `function` gains
// expressions.
KernelCounts CountKernel(const Function& function, uint32_t kernel);

}  // namespace halyard::loop
