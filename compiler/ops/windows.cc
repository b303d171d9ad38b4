// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/windows.h"

#include "compiler/ops/shape_rules.h"

namespace halyard::graph {

Result<WindowAttributes> WindowsOf(const InferContext& context, size_t count, bool may_crop) {
  const int64_t least_pad = may_crop ? -(int64_t{1} << 40) : 0;
  WindowAttributes windows;
  HY_ASSIGN(windows.strides, IntsPerAxis(context, "strides", count, 1));
  HY_ASSIGN(windows.pads_low, IntsPerAxis(context, "pads_low", count, least_pad));
  HY_ASSIGN(windows.pads_high, IntsPerAxis(context, "pads_high", count, least_pad));
  HY_ASSIGN(windows.dilations, IntsPerAxis(context, "dilations", count, 1));
  return windows;
}

Result<WindowAttributes> WindowsOf(const Node& node) {
  WindowAttributes windows;
  HY_ASSIGN(windows.strides, GetInts(node, "strides"));
  HY_ASSIGN(windows.pads_low, GetInts(node, "pads_low"));
  HY_ASSIGN(windows.pads_high, GetInts(node, "pads_high"));
  HY_ASSIGN(windows.dilations, GetInts(node, "dilations"));
  return windows;
}

Result<Expr> WindowCount(const InferContext& context, Expr dim, Expr window,
                         const WindowAttributes& attributes, size_t axis) {
  ExprArena& exprs = context.module.exprs;
  const Expr one = exprs.Const(1);
  const Expr reach = exprs.Mul(exprs.Const(attributes.dilations[axis]), exprs.Sub(window, one));
  const Expr padded =
      exprs.Add(dim, exprs.Const(attributes.pads_low[axis] + attributes.pads_high[axis]));
  const Expr covered = exprs.Add(reach, one);
  const std::string what = fmt::format("a window of {} with dilation {}", exprs.Format(window),
                                       attributes.dilations[axis]);
  const std::string into =
      fmt::format("{} padded by {} and {} along spatial axis {}", exprs.Format(dim),
                  attributes.pads_low[axis], attributes.pads_high[axis], axis);
  if (!AssumeAtMost(context, covered, padded, fmt::format("{} in {}", what, into))) {
    return InvalidArgument("A{} does not fit into {} of {}", what.substr(1), into,
                           DescribeOperand(context, 0));
  }
  const Expr room = exprs.Sub(padded, covered);
  return exprs.Add(exprs.FloorDiv(room, exprs.Const(attributes.strides[axis])), one);
}

}  // namespace halyard::graph
