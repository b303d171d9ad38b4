// SPDX-License-Identifier: Apache-2.0
// Sliding windows: the attributes and result dims that convolutions and pooling share.
#pragma once

#include <vector>

#include "compiler/ops/op_def.h"

namespace halyard::graph {

struct WindowAttributes {
  std::vector<int64_t> strides;
  std::vector<int64_t> pads_low;
  std::vector<int64_t> pads_high;
  std::vector<int64_t> dilations;
};

// Checked against `count` spatial axes. Pads may be negative where `may_crop`.
Result<WindowAttributes> WindowsOf(const InferContext& context, size_t count, bool may_crop);
// The same without checks, for nodes that passed them.
Result<WindowAttributes> WindowsOf(const Node& node);
// floor((dim + low + high - dilation * (window - 1) - 1) / stride) + 1; fails when the window does
// not fit into the padded operand.
Result<Expr> WindowCount(const InferContext& context, Expr dim, Expr window,
                         const WindowAttributes& attributes, size_t axis);

}  // namespace halyard::graph
