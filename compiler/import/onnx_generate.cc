// SPDX-License-Identifier: Apache-2.0
// Ops that make tensors from attributes and shapes: constants, ranges, shapes, masks.
#include <cmath>
#include <limits>

#include "base/quantity.h"
#include "compiler/import/onnx_context.h"
#include "compiler/import/onnx_tensor.h"

namespace halyard::onnx {
namespace {

std::vector<V> ImportConstant(NodeContext& c) {
  if (const AttributeProto* value = c.Find("value")) {
    if (value->t == nullptr) {
      c.Fail(InvalidArgument("Attribute 'value' is {}; it must be a tensor.",
                             FormatAttributeType(value->type)));
      return {};
    }
    return {TensorConstant(c, *value->t)};
  }
  if (c.HasAttribute("value_int")) return {c.Integer(DType::kI64, c.Int("value_int", 0))};
  if (c.HasAttribute("value_float")) return {c.Number(DType::kF32, c.Float("value_float", 0))};
  if (c.HasAttribute("value_ints")) return {c.Ints64(c.Ints("value_ints"))};
  if (c.HasAttribute("value_floats")) {
    const std::vector<double> values = c.Floats("value_floats");
    if (!c.ok()) return {};
    return {c.Take(c.b.ConstantOf(
        graph::TensorOfFloats(DType::kF32, {static_cast<int64_t>(values.size())}, values)))};
  }
  if (c.HasAttribute("value_string") || c.HasAttribute("value_strings")) {
    c.Fail(Unimplemented("String constants are not supported."));
  } else if (c.HasAttribute("sparse_value")) {
    c.Fail(Unimplemented("Sparse constants are not supported."));
  } else {
    c.Fail(InvalidArgument("No attribute holds the value."));
  }
  return {};
}

std::vector<V> ImportConstantOfShape(NodeContext& c) {
  const std::vector<Expr> dims = c.ExprsOf(0, "shape");
  if (!c.ok()) return {};
  for (const Expr dim : dims) {
    if (c.exprs().AsConst(dim).value_or(0) < 0) {
      c.Fail(
          InvalidArgument("Input 'shape' holds {}; dims are at least 0.", c.exprs().Format(dim)));
      return {};
    }
  }
  V value = {&c, kNone};
  if (const AttributeProto* attribute = c.Find("value");
      attribute != nullptr && attribute->t != nullptr) {
    value = c.ReshapeTo(TensorConstant(c, *attribute->t), {});
  } else {
    value = c.Number(DType::kF32, 0);
  }
  return {c.BroadcastTo(value, dims)};
}

std::vector<V> ImportShape(NodeContext& c) {
  const V x = c.In(0);
  const int64_t rank = c.Rank(x);
  const auto clamp = [&](int64_t at) {
    return std::min(std::max<int64_t>(at < 0 ? at + rank : at, 0), rank);
  };
  const int64_t start = clamp(c.Int("start", 0));
  const int64_t end = std::max(start, clamp(c.Int("end", rank)));
  const std::vector<Expr> dims = c.Dims(x);
  const std::vector<Expr> part(dims.begin() + start, dims.begin() + end);
  return {c.Symbolic(part, {end - start})};
}

std::vector<V> ImportSize(NodeContext& c) {
  const V x = c.In(0);
  if (!c.ok()) return {};
  return {c.Symbolic({graph::ElementCount(c.exprs(), c.TypeOf(x))}, {})};
}

std::vector<V> ImportRange(NodeContext& c) {
  const V start = c.In(0);
  const V delta = c.In(2);
  const DType dtype = c.DTypeOf(start);
  if (!c.ok()) return {};
  Expr count;
  if (IsInteger(dtype)) {
    const auto from = c.ExprsOf(0, "start");
    const auto to = c.ExprsOf(1, "limit");
    const std::vector<int64_t> step = c.IntsOf(2, "delta");
    if (!c.ok()) return {};
    if (from.size() != 1 || to.size() != 1 || step.size() != 1 || step[0] == 0 ||
        step[0] == INT64_MIN) {
      c.Fail(InvalidArgument("Start, limit and delta must be scalars, and delta not 0."));
      return {};
    }
    ExprArena& e = c.exprs();
    const Expr span = step[0] > 0 ? e.Sub(to[0], from[0]) : e.Sub(from[0], to[0]);
    count = e.Max(c.Const(0), e.CeilDiv(span, c.Const(std::abs(step[0]))));
  } else {
    const std::vector<double> from = c.FloatsOf(0, "start");
    const std::vector<double> to = c.FloatsOf(1, "limit");
    const std::vector<double> step = c.FloatsOf(2, "delta");
    if (!c.ok()) return {};
    const double elements = from.empty() || to.empty() || step.empty()
                                ? std::numeric_limits<double>::quiet_NaN()
                                : std::ceil((to[0] - from[0]) / step[0]);
    if (!(elements <= 1e12)) {
      c.Fail(OutOfRange("Start, limit and delta give {} elements; the limit is 1e12.", elements));
      return {};
    }
    count = c.Const(std::max<int64_t>(0, static_cast<int64_t>(elements)));
  }
  const V index = c.Iota(dtype, {count}, 0);
  return {c.ReshapeTo(start, {}) + index * c.ReshapeTo(delta, {})};
}

std::vector<V> ImportEyeLike(NodeContext& c) {
  const V x = c.In(0);
  if (!c.ok()) return {};
  if (c.Rank(x) != 2) {
    c.Fail(InvalidArgument("The input has {}; it must have 2.", Counted(c.Rank(x), "dimension")));
    return {};
  }
  DType dtype = c.DTypeOf(x);
  if (c.HasAttribute("dtype")) {
    const Result<DType> given = DTypeOf(c.Int("dtype", 0));
    if (!given.ok()) {
      c.Fail(given.status());
      return {};
    }
    dtype = *given;
  }
  const V row = c.Iota(DType::kI64, c.Dims(x), 0);
  const V column = c.Iota(DType::kI64, c.Dims(x), 1);
  return {c.Cast(c.Binary("eq", row + c.Integer(DType::kI64, c.Int("k", 0)), column), dtype)};
}

std::vector<V> ImportTrilu(NodeContext& c) {
  const V x = c.In(0);
  if (!c.ok()) return {};
  const int64_t rank = c.Rank(x);
  if (rank < 2) {
    c.Fail(
        InvalidArgument("The input has {}; it must have at least 2.", Counted(rank, "dimension")));
    return {};
  }
  const std::vector<Expr> dims = c.Dims(x);
  const std::vector<Expr> matrix(dims.end() - 2, dims.end());
  V row = c.Iota(DType::kI64, matrix, 0);
  const V column = c.Iota(DType::kI64, matrix, 1);
  if (c.Has(1)) row = row + c.ReshapeTo(c.In(1), {});
  const bool upper = c.Int("upper", 1) != 0;
  return {c.Select(c.Binary(upper ? "ge" : "le", column, row), x, c.Like(x, 0))};
}

std::vector<V> ImportOneHot(NodeContext& c) {
  V indices = c.In(0);
  const std::vector<Expr> depth = [&] {
    const V v = c.In(1);
    if (c.ok() && IsFloat(c.DTypeOf(v))) {
      const std::vector<double> values = c.FloatsOf(1, "depth");
      return values.empty() ? std::vector<Expr>()
                            : std::vector<Expr>{c.Const(static_cast<int64_t>(values[0]))};
    }
    return c.ExprsOf(1, "depth");
  }();
  const V values = c.In(2);
  if (!c.ok()) return {};
  if (depth.size() != 1 || c.Rank(values) != 1) {
    c.Fail(InvalidArgument("Depth must be one number and values must have 1 dimension."));
    return {};
  }
  const int64_t rank = c.Rank(indices) + 1;
  const int64_t axis = c.Axis(c.Int("axis", -1), rank);
  if (!c.ok()) return {};
  // Indices count from the end when negative; those outside give `off` everywhere.
  indices = c.Cast(indices, DType::kI64);
  const V size = c.Symbolic({depth[0]}, {});
  indices = c.Select(c.Binary("lt", indices, c.Like(indices, 0)), indices + size, indices);
  std::vector<Expr> dims = c.Dims(indices);
  dims.insert(dims.begin() + axis, depth[0]);
  const V hit = c.Binary("eq", c.Iota(DType::kI64, dims, axis), c.Unsqueeze(indices, {axis}));
  const V off = c.ReshapeTo(c.SliceAxis(values, 0, c.Const(0), c.Const(1)), {});
  const V on = c.ReshapeTo(c.SliceAxis(values, 0, c.Const(1), c.Const(1)), {});
  return {c.Select(hit, on, off)};
}

constexpr ImportRow kGenerateRows[] = {
    {"Constant", 1, 0, 0, 0, 1,
     "value value_float value_floats value_int value_ints value_string value_strings sparse_value",
     ImportConstant, "no strings, not sparse"},
    {"ConstantOfShape", 9, 0, 1, 1, 1, "value", ImportConstantOfShape,
     "shape known before the run"},
    {"EyeLike", 9, 0, 1, 1, 1, "dtype k", ImportEyeLike},
    {"OneHot", 9, 0, 3, 3, 1, "axis", ImportOneHot, "depth known before the run"},
    {"Range", 11, 0, 3, 3, 1, "stash_type", ImportRange, "length known before the run"},
    {"Shape", 1, 0, 1, 1, 1, "end start", ImportShape},
    {"Size", 1, 0, 1, 1, 1, "", ImportSize},
    {"Trilu", 14, 0, 1, 2, 1, "upper", ImportTrilu},
};

}  // namespace

std::span<const ImportRow> GenerateRows() { return kGenerateRows; }

}  // namespace halyard::onnx
