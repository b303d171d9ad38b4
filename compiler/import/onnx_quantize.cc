// SPDX-License-Identifier: Apache-2.0
// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear as arithmetic.
#include <limits>

#include "base/quantity.h"
#include "compiler/import/onnx_context.h"
#include "compiler/import/onnx_tensor.h"

namespace halyard::onnx {
namespace {

// A scale or zero point in a shape that broadcasts against x: per tensor, per axis, or per block of
// an axis.
V Spread(NodeContext& c, V parameter, V x, int64_t axis) {
  if (!c.ok()) return parameter;
  const int64_t rank = c.Rank(parameter);
  const std::vector<Expr> dims = c.Dims(x);
  const int64_t block = c.Int("block_size", 0);
  if (rank == 0) return parameter;
  if (rank == 1 && block == 0) {
    if (c.exprs().IsConst(c.Dims(parameter)[0], 1)) return c.ReshapeTo(parameter, {});
    std::vector<Expr> shape(dims.size(), c.Const(1));
    const auto at = static_cast<size_t>(c.Axis(axis, c.Rank(x)));
    if (!c.ok()) return parameter;
    shape[at] = c.Dims(parameter)[0];
    return c.ReshapeTo(parameter, shape);
  }
  const auto at = static_cast<size_t>(c.Axis(axis, c.Rank(x)));
  if (!c.ok()) return parameter;
  if (block < 1 || rank != c.Rank(x)) {
    return c.Fail(
        InvalidArgument("A scale of {} needs block_size and an input of as many; it is {} and {}.",
                        Counted(rank, "dimension"), block, c.Rank(x)));
  }
  // [.., k, ..] becomes [.., k, block, ..], is merged, and cut where the last block is not full.
  std::vector<Expr> split = c.Dims(parameter);
  std::vector<Expr> merged = split;
  merged[at] = c.exprs().Mul(split[at], c.Const(block));
  split.insert(split.begin() + static_cast<int64_t>(at) + 1, c.Const(1));
  std::vector<Expr> wide = split;
  wide[at + 1] = c.Const(block);
  const V spread = c.ReshapeTo(c.BroadcastTo(c.ReshapeTo(parameter, split), wide), merged);
  return c.SliceAxis(spread, static_cast<int64_t>(at), c.Const(0), dims[at]);
}

std::vector<V> ImportDequantizeLinear(NodeContext& c) {
  const V x = c.In(0);
  const V scale = c.In(1);
  const int64_t axis = c.Int("axis", 1);
  DType dtype = c.DTypeOf(scale);
  if (c.Int("output_dtype", 0) != 0) {
    const Result<DType> given = DTypeOf(c.Int("output_dtype", 0));
    if (!given.ok()) {
      c.Fail(given.status());
      return {};
    }
    dtype = *given;
  }
  // i32 values do not fit f32's mantissa, so the difference is taken in integers where it cannot
  // overflow.
  const bool is_integer = IsInteger(c.DTypeOf(x));
  V difference = c.Cast(x, is_integer ? DType::kI32 : DType::kF32);
  if (c.Has(2)) {
    difference =
        difference - Spread(c, c.Cast(c.In(2), is_integer ? DType::kI32 : DType::kF32), x, axis);
  }
  const V wide = c.Cast(difference, DType::kF32) * Spread(c, c.Cast(scale, DType::kF32), x, axis);
  return {c.Cast(wide, dtype)};
}

std::vector<V> ImportQuantizeLinear(NodeContext& c) {
  const V x = c.In(0);
  const V scale = c.In(1);
  const int64_t axis = c.Int("axis", 1);
  DType dtype = DType::kU8;
  if (c.Has(2)) {
    dtype = c.DTypeOf(c.In(2));
  } else if (c.Int("output_dtype", 0) != 0) {
    const Result<DType> given = DTypeOf(c.Int("output_dtype", 0));
    if (!given.ok()) {
      c.Fail(given.status());
      return {};
    }
    dtype = *given;
  }
  V y = c.Cast(x, DType::kF32) / Spread(c, c.Cast(scale, DType::kF32), x, axis);
  if (IsInteger(dtype)) y = c.Unary("round_even", y);
  if (c.Has(2)) y = y + Spread(c, c.Cast(c.In(2), DType::kF32), x, axis);
  if (IsInteger(dtype)) {
    // Values beyond the type saturate; so does cast, but 4-bit types are cut here for every target
    // alike.
    const int bits = BitWidth(dtype);
    const double top = IsSigned(dtype) ? (1ll << (bits - 1)) - 1 : (1ll << bits) - 1;
    const double bottom = IsSigned(dtype) ? -static_cast<double>(1ll << (bits - 1)) : 0;
    y = c.Binary("min", c.Binary("max", y, c.Like(y, bottom)), c.Like(y, top));
  } else if (c.Int("saturate", 1) != 0 && BitWidth(dtype) == 8) {
    const double limit = dtype == DType::kF8E4M3 ? 448 : 57344;
    y = c.Binary("min", c.Binary("max", y, c.Like(y, -limit)), c.Like(y, limit));
  }
  return {c.Cast(y, dtype)};
}

std::vector<V> ImportDynamicQuantizeLinear(NodeContext& c) {
  const V x = c.In(0);
  if (!c.ok()) return {};
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < c.Rank(x); ++i) axes.push_back(i);
  const V zero = c.Like(x, 0);
  const V low = c.Binary("min", c.Reduce("reduce_min", x, axes, false), zero);
  const V high = c.Binary("max", c.Reduce("reduce_max", x, axes, false), zero);
  // Of zeros alone the scale is 1, as ONNX Runtime has it: any would do but 0, which divides.
  const V scale = c.Select(c.Binary("eq", high, low), c.Like(x, 1), (high - low) / 255.0);
  const auto clamp = [&](V v) { return c.Binary("min", c.Binary("max", v, zero), c.Like(x, 255)); };
  const V zero_point = c.Unary("round_even", clamp(zero - low / scale));
  const V y = clamp(c.Unary("round_even", x / scale) + zero_point);
  return {c.Cast(y, DType::kU8), scale, c.Cast(zero_point, DType::kU8)};
}

constexpr ImportRow kQuantizeRows[] = {
    {"DequantizeLinear", 10, 0, 2, 3, 1, "axis block_size output_dtype", ImportDequantizeLinear},
    {"DynamicQuantizeLinear", 11, 0, 1, 1, 3, "", ImportDynamicQuantizeLinear},
    {"QuantizeLinear", 10, 0, 2, 3, 1, "axis block_size output_dtype precision saturate",
     ImportQuantizeLinear},
};

}  // namespace

std::span<const ImportRow> QuantizeRows() { return kQuantizeRows; }

}  // namespace halyard::onnx
