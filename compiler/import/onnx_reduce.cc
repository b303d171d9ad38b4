// SPDX-License-Identifier: Apache-2.0
// Reductions, softmax and what selects along an axis.
#include <cmath>
#include <numeric>

#include "base/quantity.h"

#include "compiler/import/onnx_context.h"

namespace halyard::onnx {
namespace {

// The axes of a ReduceX node. Without axes: all, or none when noop_with_empty_axes asks for it.
std::vector<int64_t> ReduceAxes(NodeContext& c, V x) {
  std::optional<std::vector<int64_t>> axes = c.IntsFrom("axes", 1);
  if (!c.ok()) return {};
  if (axes.has_value() && !axes->empty()) return c.Axes(*std::move(axes), c.Rank(x));
  if (c.Int("noop_with_empty_axes", 0) != 0) return {};
  std::vector<int64_t> all(static_cast<size_t>(c.Rank(x)));
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

std::vector<V> ImportReduce(NodeContext& c) {
  const V x = c.In(0);
  const std::vector<int64_t> axes = ReduceAxes(c, x);
  const bool keep = c.Int("keepdims", 1) != 0;
  if (!c.ok()) return {};
  const std::string& op = c.node.op_type;
  if (op == "ReduceSum") return {c.Reduce("reduce_sum", x, axes, keep)};
  if (op == "ReduceProd") return {c.Reduce("reduce_prod", x, axes, keep)};
  if (op == "ReduceMean") return {c.Mean(x, axes, keep)};
  if (op == "ReduceMax" || op == "ReduceMin") {
    const bool is_max = op == "ReduceMax";
    if (c.DTypeOf(x) == DType::kBool) {
      return {c.Reduce(is_max ? "reduce_any" : "reduce_all", x, axes, keep)};
    }
    return {c.Reduce(is_max ? "reduce_max" : "reduce_min", x, axes, keep)};
  }
  if (op == "ReduceL1") return {c.Reduce("reduce_sum", c.Unary("abs", x), axes, keep)};
  if (op == "ReduceSumSquare") return {c.Reduce("reduce_sum", x * x, axes, keep)};
  if (op == "ReduceL2") {
    const V sum = c.Reduce("reduce_sum", x * x, axes, keep);
    if (IsFloat(c.DTypeOf(x))) return {c.Unary("sqrt", sum)};
    return {c.Cast(c.Unary("sqrt", c.Cast(sum, DType::kF64)), c.DTypeOf(x))};
  }
  const auto log = [&](V v) {
    if (IsFloat(c.DTypeOf(v))) return c.Unary("log", v);
    return c.Cast(c.Unary("log", c.Cast(v, DType::kF64)), c.DTypeOf(v));
  };
  if (op == "ReduceLogSum") return {log(c.Reduce("reduce_sum", x, axes, keep))};
  // ReduceLogSumExp: the maximum is taken out so that nothing overflows; of infinite ones, nothing.
  const bool is_float = IsFloat(c.DTypeOf(x));
  const V y = is_float ? x : c.Cast(x, DType::kF64);
  const V top = c.Reduce("reduce_max", y, axes, true);
  const V finite =
      c.Select(c.Binary("eq", c.Unary("abs", top), c.Like(top, HUGE_VAL)), c.Like(top, 0), top);
  const V sum = c.Reduce("reduce_sum", c.Unary("exp", y - finite), axes, true);
  V result = c.Unary("log", sum) + finite;
  if (!keep) result = c.Squeeze(result, axes);
  return {is_float ? result : c.Cast(result, c.DTypeOf(x))};
}

std::vector<V> ImportArg(NodeContext& c) {
  const V x = c.In(0);
  const int64_t axis = c.Axis(c.Int("axis", 0), c.Rank(x));
  return {c.Op(c.node.op_type == "ArgMax" ? "argmax" : "argmin", {x},
               {{"axis", axis},
                {"keep_dims", c.Int("keepdims", 1)},
                {"select_last", c.Int("select_last_index", 0)}})};
}

// The axes over which softmax runs: from opset 13 one axis, before it all axes from `axis` on.
std::vector<int64_t> SoftmaxAxes(NodeContext& c, V x) {
  const int64_t rank = c.Rank(x);
  if (c.opset >= 13) return {c.Axis(c.Int("axis", -1), rank)};
  int64_t axis = c.Int("axis", 1);
  if (axis == rank) return {};  // allowed: rows of one element
  axis = c.Axis(axis, rank);
  std::vector<int64_t> axes;
  for (int64_t i = axis; i < rank; ++i) axes.push_back(i);
  return axes;
}

std::vector<V> ImportSoftmax(NodeContext& c) {
  const V x = c.In(0);
  const std::vector<int64_t> axes = SoftmaxAxes(c, x);
  const V shifted = x - c.Reduce("reduce_max", x, axes, true);
  const V exps = c.Unary("exp", shifted);
  const V sum = c.Reduce("reduce_sum", exps, axes, true);
  // One division for a row instead of one for each element.
  if (c.node.op_type == "Softmax") return {exps * (1.0 / sum)};
  return {shifted - c.Unary("log", sum)};
}

std::vector<V> ImportHardmax(NodeContext& c) {
  V x = c.In(0);
  std::vector<int64_t> axes = SoftmaxAxes(c, x);
  if (!c.ok()) return {};
  const std::vector<Expr> dims = c.Dims(x);
  const DType dtype = c.DTypeOf(x);
  if (axes.size() != 1) {
    // Several axes act as one.
    std::vector<Expr> flat(dims.begin(), dims.end() - static_cast<int64_t>(axes.size()));
    Expr count = c.Const(1);
    for (const int64_t axis : axes) count = c.exprs().Mul(count, dims[static_cast<size_t>(axis)]);
    flat.push_back(count);
    x = c.ReshapeTo(x, flat);
    axes = {static_cast<int64_t>(flat.size()) - 1};
  }
  // The least index of what is most, or of what is no number: as argmax chooses, which refuses rows
  // without elements.
  const V index = c.Iota(DType::kI64, c.Dims(x), axes[0]);
  const V is_most = c.Binary("or", c.Binary("eq", x, c.Reduce("reduce_max", x, axes, true)),
                             c.Binary("ne", x, x));
  const V at = c.Reduce("reduce_min", c.Select(is_most, index, c.Integer(DType::kI64, INT64_MAX)),
                        axes, true);
  return {c.ReshapeTo(c.Cast(c.Binary("eq", index, at), dtype), dims)};
}

// Running products in log(n) steps: after the step of `reach` each element is the product of the
// 2 * reach elements up to it.
V CumulativeProduct(NodeContext& c, V x, int64_t axis) {
  if (!c.ok()) return x;
  const bool is_exclusive = c.Int("exclusive", 0) != 0;
  const bool is_reversed = c.Int("reverse", 0) != 0;
  const auto at = static_cast<size_t>(axis);
  const std::vector<Expr> dims = c.Dims(x);
  const std::optional<int64_t> size = c.exprs().AsConst(dims[at]);
  if (!size.has_value()) {
    return c.Fail(Unimplemented("The dim of axis {} is {}; it must be a number.", axis,
                                c.exprs().Format(dims[at])));
  }
  // The elements `by` places before each one; ones where there are none.
  const auto shifted = [&](V v, int64_t by) {
    const std::vector<Expr> none(dims.size(), c.Const(0));
    std::vector<Expr> ones = none;
    ones[at] = c.Const(by);
    const V part = c.SliceAxis(v, axis, c.Const(is_reversed ? by : 0), c.Const(*size - by));
    return c.Op("pad", {part, c.Like(v, 1)},
                {{"low", is_reversed ? none : ones},
                 {"high", is_reversed ? ones : none},
                 {"mode", std::string("constant")}});
  };
  if (is_exclusive && *size > 0) x = shifted(x, 1);
  for (int64_t reach = 1; reach < *size; reach *= 2) x = x * shifted(x, reach);
  return x;
}

std::vector<V> ImportCumulative(NodeContext& c) {
  const V x = c.In(0);
  const std::vector<int64_t> axis = c.IntsOf(1, "axis");
  if (!c.ok()) return {};
  if (axis.size() != 1) {
    c.Fail(
        InvalidArgument("Input 'axis' has {}; it must have 1.", Counted(axis.size(), "element")));
    return {};
  }
  if (c.node.op_type == "CumProd") return {CumulativeProduct(c, x, c.Axis(axis[0], c.Rank(x)))};
  return {c.Op("cumsum", {x},
               {{"axis", c.Axis(axis[0], c.Rank(x))},
                {"exclusive", c.Int("exclusive", 0)},
                {"reverse", c.Int("reverse", 0)}})};
}

std::vector<V> ImportTopK(NodeContext& c) {
  const V x = c.In(0);
  const int64_t axis = c.Axis(c.Int("axis", -1), c.Rank(x));
  std::vector<Expr> k;
  if (c.opset < 10) {
    k = {c.Const(c.Int("k", 0))};
  } else {
    k = c.ExprsOf(1, "K");
  }
  if (!c.ok()) return {};
  if (k.size() != 1) {
    c.Fail(InvalidArgument("Input 'K' has {}; it must have 1.", Counted(k.size(), "element")));
    return {};
  }
  const V operands[] = {x};
  // Unsorted results may come in any order, so sorted ones are right too.
  (void)c.Int("sorted", 1);
  return c.Ops("topk", operands, {{"axis", axis}, {"k", k}, {"largest", c.Int("largest", 1)}});
}

constexpr std::string_view kReduceAttributes = "axes keepdims noop_with_empty_axes";

constexpr ImportRow kReduceRows[] = {
    {"ArgMax", 1, 0, 1, 1, 1, "axis keepdims select_last_index", ImportArg},
    {"ArgMin", 1, 0, 1, 1, 1, "axis keepdims select_last_index", ImportArg},
    {"CumProd", 26, 0, 2, 2, 1, "exclusive reverse", ImportCumulative,
     "axis known before the run; its dim is a number"},
    {"CumSum", 11, 0, 2, 2, 1, "exclusive reverse", ImportCumulative, "axis known before the run"},
    {"Hardmax", 1, 0, 1, 1, 1, "axis", ImportHardmax},
    {"LogSoftmax", 1, 0, 1, 1, 1, "axis", ImportSoftmax},
    {"ReduceL1", 1, 0, 1, 2, 1, kReduceAttributes, ImportReduce, "axes known before the run"},
    {"ReduceL2", 1, 0, 1, 2, 1, kReduceAttributes, ImportReduce, "axes known before the run"},
    {"ReduceLogSum", 1, 0, 1, 2, 1, kReduceAttributes, ImportReduce, "axes known before the run"},
    {"ReduceLogSumExp", 1, 0, 1, 2, 1, kReduceAttributes, ImportReduce,
     "axes known before the run"},
    {"ReduceMax", 1, 0, 1, 2, 1, kReduceAttributes, ImportReduce, "axes known before the run"},
    {"ReduceMean", 1, 0, 1, 2, 1, kReduceAttributes, ImportReduce, "axes known before the run"},
    {"ReduceMin", 1, 0, 1, 2, 1, kReduceAttributes, ImportReduce, "axes known before the run"},
    {"ReduceProd", 1, 0, 1, 2, 1, kReduceAttributes, ImportReduce, "axes known before the run"},
    {"ReduceSum", 1, 0, 1, 2, 1, kReduceAttributes, ImportReduce, "axes known before the run"},
    {"ReduceSumSquare", 1, 0, 1, 2, 1, kReduceAttributes, ImportReduce,
     "axes known before the run"},
    {"Softmax", 1, 0, 1, 1, 1, "axis", ImportSoftmax},
    {"TopK", 1, 0, 1, 2, 2, "axis k largest sorted", ImportTopK},
};

}  // namespace

std::span<const ImportRow> ReduceRows() { return kReduceRows; }

}  // namespace halyard::onnx
