// SPDX-License-Identifier: Apache-2.0
// Ops that move or repeat elements and compute nothing.
#include "base/excerpt.h"
#include "base/quantity.h"
#include "compiler/ops/elements.h"
#include "compiler/ops/families.h"
#include "compiler/ops/reference.h"
#include "compiler/ops/shape_rules.h"

namespace halyard::graph {
namespace {

Result<std::vector<Value>> InferBroadcast(const InferContext& context) {
  HY_ASSIGN(const std::vector<Expr> shape, GetExprs(context.node, "shape"));
  const std::vector<Expr>& dims = context.operand(0).type.dims;
  bool fits = dims.size() <= shape.size();
  for (size_t i = 0; fits && i < dims.size(); ++i) {
    const Expr target = shape[shape.size() - dims.size() + i];
    fits = context.module.exprs.IsConst(dims[i], 1) ||
           AssumeEqual(context, dims[i], target, "an open size of 1 is not repeated");
  }
  if (!fits) {
    return InvalidArgument("{} does not broadcast to {}", DescribeOperand(context, 0),
                           FormatDims(context.module.exprs, shape));
  }
  std::vector<Value> results = OneResult(context.operand(0).type.dtype, shape);
  results[0].elements = RoutedElements(context, results[0].type);
  return results;
}

Result<std::vector<Tensor>> EvaluateBroadcast(const EvalContext& context) {
  const Tensor& x = context.operands[0];
  HY_ASSIGN(const std::vector<int64_t> shape, EvaluateExprs(context, "shape"));
  HY_ASSIGN(Tensor result, MakeResultOf(context, shape));
  std::vector<int64_t> strides = RowMajorStrides(x.dims);
  for (size_t i = 0; i < x.dims.size(); ++i) {
    if (x.dims[i] == 1) strides[i] = 0;
  }
  strides.insert(strides.begin(), shape.size() - x.dims.size(), 0);
  int64_t at = 0;
  HY_TRY(ForEachIndex(shape, [&](const std::vector<int64_t>& index) {
    CopyElement(x, FlatIndex(index, strides), result, at++);
    return OkStatus();
  }));
  return OneTensor(std::move(result));
}

Result<std::vector<Value>> InferReshape(const InferContext& context) {
  HY_ASSIGN(const std::vector<Expr> shape, GetExprs(context.node, "shape"));
  std::vector<Value> results = OneResult(context.operand(0).type.dtype, shape);
  const Expr from = ElementCount(context.module.exprs, context.operand(0).type);
  const Expr to = ElementCount(context.module.exprs, results[0].type);
  if (!AssumeEqual(context, from, to)) {
    return InvalidArgument("{} has {} elements; the shape {} has {}", DescribeOperand(context, 0),
                           context.module.exprs.Format(from),
                           FormatDims(context.module.exprs, shape),
                           context.module.exprs.Format(to));
  }
  if (FewElements(context.module.exprs, shape)) results[0].elements = context.operand(0).elements;
  return results;
}

Result<std::vector<Tensor>> EvaluateReshape(const EvalContext& context) {
  HY_ASSIGN(Tensor result, MakeResult(context));
  if (result.elements() != context.operands[0].elements()) {
    return InvalidArgument("Reshape from {} to {} (node '{}').", context.operands[0].elements(),
                           Counted(result.elements(), "element"), context.node.name);
  }
  result.bytes = context.operands[0].bytes;
  return OneTensor(std::move(result));
}

Result<std::vector<Value>> InferTranspose(const InferContext& context) {
  HY_ASSIGN(const std::vector<int64_t> perm, GetInts(context.node, "perm"));
  const TensorType& type = context.operand(0).type;
  std::vector<bool> is_used(type.dims.size(), false);
  bool is_permutation = perm.size() == type.dims.size();
  std::vector<Expr> dims;
  for (size_t i = 0; is_permutation && i < perm.size(); ++i) {
    const auto axis = static_cast<uint64_t>(perm[i]);
    is_permutation = axis < perm.size() && !is_used[axis];
    if (!is_permutation) break;
    is_used[axis] = true;
    dims.push_back(type.dims[axis]);
  }
  if (!is_permutation) {
    return InvalidArgument("The perm [{}] is no permutation of the axes of {}", Excerpt(perm),
                           DescribeOperand(context, 0));
  }
  std::vector<Value> results = OneResult(type.dtype, std::move(dims));
  results[0].elements = RoutedElements(context, results[0].type);
  return results;
}

Result<std::vector<Tensor>> EvaluateTranspose(const EvalContext& context) {
  const Tensor& x = context.operands[0];
  HY_ASSIGN(Tensor result, MakeResult(context));
  HY_ASSIGN(const std::vector<int64_t> perm, GetInts(context.node, "perm"));
  const std::vector<int64_t> strides = RowMajorStrides(x.dims);
  std::vector<int64_t> permuted;
  for (const int64_t axis : perm) permuted.push_back(strides[static_cast<size_t>(axis)]);
  int64_t at = 0;
  HY_TRY(ForEachIndex(result.dims, [&](const std::vector<int64_t>& index) {
    CopyElement(x, FlatIndex(index, permuted), result, at++);
    return OkStatus();
  }));
  return OneTensor(std::move(result));
}

// Whether `size` reads from `start` by `step` stay in [0, dim): false only when they provably leave
// it; otherwise what is not proven is assumed.
bool AssumeWithin(const InferContext& context, Expr dim, Expr start, Expr size, int64_t step) {
  ExprArena& e = context.module.exprs;
  const std::optional<int64_t> d = e.AsConst(dim), s = e.AsConst(start), n = e.AsConst(size);
  if (d && s && n) {
    if (*n <= 0) return true;
    const __int128 last = *s + static_cast<__int128>(*n - 1) * step;
    return *s >= 0 && *s < *d && last >= 0 && last < *d;
  }
  const Expr zero = e.Const(0), one = e.Const(1);
  if (e.KnownLessOrEqual(size, zero)) return true;
  const Expr last = e.Add(start, e.Mul(e.Sub(size, one), e.Const(step)));
  const Expr low = step > 0 ? start : last, high = step > 0 ? last : start;
  for (const Expr room : {low, e.Sub(e.Sub(dim, one), high)}) {
    if (e.KnownLessOrEqual(zero, room)) continue;
    // Where there is nothing to read, any place will do.
    const bool is_read = e.KnownLess(zero, size);
    if (!AssumeAtMost(context, zero, is_read ? room : e.Max(room, e.Sub(zero, size)))) return false;
  }
  return true;
}

Result<std::vector<Value>> InferSlice(const InferContext& context) {
  const TensorType& type = context.operand(0).type;
  HY_ASSIGN(const std::vector<Expr> starts, GetExprs(context.node, "starts"));
  HY_ASSIGN(const std::vector<Expr> sizes, GetExprs(context.node, "sizes"));
  HY_ASSIGN(const std::vector<int64_t> steps,
            IntsPerAxis(context, "steps", type.dims.size(), -(int64_t{1} << 40)));
  if (starts.size() != type.dims.size() || sizes.size() != type.dims.size()) {
    return InvalidArgument("{} has {}; slice has {} and {}", DescribeOperand(context, 0),
                           Counted(type.dims.size(), "dimension"), Counted(starts.size(), "start"),
                           Counted(sizes.size(), "size"));
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i] == 0) return InvalidArgument("The step of slice along axis {} is 0", i);
    if (!AssumeAtMost(context, context.module.exprs.Const(0), sizes[i])) {
      return InvalidArgument("The size of slice along axis {} is {}", i,
                             context.module.exprs.Format(sizes[i]));
    }
    if (!AssumeWithin(context, type.dims[i], starts[i], sizes[i], steps[i])) {
      return InvalidArgument(
          "{} elements from {} by {} leave axis {} of {}", context.module.exprs.Format(sizes[i]),
          context.module.exprs.Format(starts[i]), steps[i], i, DescribeOperand(context, 0));
    }
  }
  std::vector<Value> results = OneResult(type.dtype, sizes);
  results[0].elements = RoutedElements(context, results[0].type);
  return results;
}

Result<std::vector<Tensor>> EvaluateSlice(const EvalContext& context) {
  const Tensor& x = context.operands[0];
  HY_ASSIGN(const std::vector<int64_t> starts, EvaluateExprs(context, "starts"));
  HY_ASSIGN(const std::vector<int64_t> sizes, EvaluateExprs(context, "sizes"));
  HY_ASSIGN(const std::vector<int64_t> steps, GetInts(context.node, "steps"));
  HY_ASSIGN(Tensor result, MakeResultOf(context, sizes));
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) continue;
    const __int128 last = starts[i] + static_cast<__int128>(sizes[i] - 1) * steps[i];
    if (starts[i] < 0 || starts[i] >= x.dims[i] || last < 0 || last >= x.dims[i]) {
      return OutOfRange("{} from {} by {} leave axis {} of size {} (node '{}').",
                        Counted(sizes[i], "element"), starts[i], steps[i], i, x.dims[i],
                        context.node.name);
    }
  }
  const std::vector<int64_t> strides = RowMajorStrides(x.dims);
  int64_t at = 0;
  HY_TRY(ForEachIndex(sizes, [&](const std::vector<int64_t>& index) {
    int64_t from = 0;
    for (size_t i = 0; i < index.size(); ++i)
      from += (starts[i] + index[i] * steps[i]) * strides[i];
    CopyElement(x, from, result, at++);
    return OkStatus();
  }));
  return OneTensor(std::move(result));
}

Result<std::vector<Value>> InferPad(const InferContext& context) {
  const TensorType& type = context.operand(0).type;
  ExprArena& exprs = context.module.exprs;
  HY_ASSIGN(const std::vector<Expr> low, GetExprs(context.node, "low"));
  HY_ASSIGN(const std::vector<Expr> high, GetExprs(context.node, "high"));
  HY_TRY(RequireOneOf(context, "mode", {"constant", "edge", "reflect", "wrap"}));
  const std::string mode = StringOr(context.node, "mode", "constant");
  if (low.size() != type.dims.size() || high.size() != type.dims.size()) {
    return InvalidArgument("{} has {}; pad has {} low and {} high entries",
                           DescribeOperand(context, 0), Counted(type.dims.size(), "dimension"),
                           low.size(), high.size());
  }
  if (context.has(1)) {
    if (mode != "constant") return InvalidArgument("pad takes a value in mode constant only");
    HY_TRY(RequireSameDType(context, 0, 1));
    HY_TRY(RequireRank(context, 1, 0, 0));
  }
  const Expr zero = exprs.Const(0);
  std::vector<Expr> dims;
  for (size_t i = 0; i < low.size(); ++i) {
    for (const Expr pad : {low[i], high[i]}) {
      if (!AssumeAtMost(context, zero, pad)) {
        return InvalidArgument("A pad of axis {} is {}; the least is 0", i, exprs.Format(pad));
      }
      if (mode == "constant" || exprs.IsConst(pad, 0)) continue;
      // Without a pad there is nothing to read.
      const Expr least = mode == "reflect" ? exprs.Add(pad, exprs.Const(1)) : exprs.Const(1);
      const Expr needed =
          exprs.KnownLess(zero, pad) ? least : exprs.Mul(least, exprs.Min(pad, exprs.Const(1)));
      if (!AssumeAtMost(context, needed, type.dims[i])) {
        return InvalidArgument("{} is too small along axis {} for a pad of {} in mode {}",
                               DescribeOperand(context, 0), i, exprs.Format(pad), mode);
      }
    }
    dims.push_back(exprs.Add(exprs.Add(low[i], type.dims[i]), high[i]));
  }
  std::vector<Value> results = OneResult(type.dtype, std::move(dims));
  // Without a value operand the padding has no position to be routed from.
  if (mode != "constant" || context.has(1)) {
    results[0].elements = RoutedElements(context, results[0].type);
  }
  return results;
}

// The operand index that padded index `i` reads; nothing: the pad value.
std::optional<int64_t> PadSource(const std::string& mode, int64_t i, int64_t dim) {
  if (i >= 0 && i < dim) return i;
  if (mode == "edge") return i < 0 ? 0 : dim - 1;
  if (mode == "reflect") return i < 0 ? -i : 2 * (dim - 1) - i;
  if (mode == "wrap") return ((i % dim) + dim) % dim;
  return std::nullopt;
}

Result<std::vector<Tensor>> EvaluatePad(const EvalContext& context) {
  const Tensor& x = context.operands[0];
  HY_ASSIGN(const std::vector<int64_t> low, EvaluateExprs(context, "low"));
  HY_ASSIGN(const std::vector<int64_t> high, EvaluateExprs(context, "high"));
  const std::string mode = StringOr(context.node, "mode", "constant");
  std::vector<int64_t> dims;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    for (const int64_t pad : {low[i], high[i]}) {
      const bool is_too_wide = (mode == "reflect" && pad > 0 && pad >= x.dims[i]) ||
                               (mode != "constant" && pad > 0 && x.dims[i] == 0);
      if (pad < 0 || is_too_wide) {
        return OutOfRange("A pad of {} does not suit axis {} of size {} in mode {} (node '{}').",
                          pad, i, x.dims[i], mode, context.node.name);
      }
    }
    dims.push_back(low[i] + x.dims[i] + high[i]);
  }
  HY_ASSIGN(Tensor result, MakeResultOf(context, dims));
  const std::vector<int64_t> strides = RowMajorStrides(x.dims);
  int64_t at = 0;
  HY_TRY(ForEachIndex(dims, [&](const std::vector<int64_t>& index) {
    int64_t from = 0;
    bool is_inside = true;
    for (size_t i = 0; i < index.size(); ++i) {
      const std::optional<int64_t> source = PadSource(mode, index[i] - low[i], x.dims[i]);
      is_inside &= source.has_value();
      from += source.value_or(0) * strides[i];
    }
    if (is_inside) {
      CopyElement(x, from, result, at);
    } else if (Has(context, 1)) {
      CopyElement(context.operands[1], 0, result, at);
    }
    ++at;
    return OkStatus();
  }));
  return OneTensor(std::move(result));
}

Result<std::vector<Value>> InferConcat(const InferContext& context) {
  std::vector<Expr> dims = context.operand(0).type.dims;
  HY_ASSIGN(const size_t axis, AxisOf(context, "axis", dims.size()));
  for (size_t i = 1; i < context.node.operands.size(); ++i) {
    HY_TRY(RequireSameDType(context, 0, i));
    const std::vector<Expr>& other = context.operand(i).type.dims;
    bool fits = other.size() == dims.size();
    for (size_t d = 0; fits && d < dims.size(); ++d) {
      if (d == axis) {
        dims[d] = context.module.exprs.Add(dims[d], other[d]);
      } else {
        fits = AssumeEqual(context, dims[d], other[d]);
        dims[d] = MoreKnown(context.module.exprs, dims[d], other[d]);
      }
    }
    if (!fits) {
      return InvalidArgument("{} and {} do not join along axis {}", DescribeOperand(context, 0),
                             DescribeOperand(context, i), axis);
    }
  }
  std::vector<Value> results = OneResult(context.operand(0).type.dtype, std::move(dims));
  results[0].elements = RoutedElements(context, results[0].type);
  return results;
}

Result<std::vector<Tensor>> EvaluateConcat(const EvalContext& context) {
  HY_ASSIGN(Tensor result, MakeResult(context));
  HY_ASSIGN(const int64_t axis, GetInt(context.node, "axis"));
  const std::vector<int64_t> strides = RowMajorStrides(result.dims);
  int64_t offset = 0;
  for (const Tensor& x : context.operands) {
    int64_t at = 0;
    HY_TRY(ForEachIndex(x.dims, [&](const std::vector<int64_t>& index) {
      const int64_t to = FlatIndex(index, strides) + offset * strides[static_cast<size_t>(axis)];
      CopyElement(x, at++, result, to);
      return OkStatus();
    }));
    offset += x.dims[static_cast<size_t>(axis)];
  }
  return OneTensor(std::move(result));
}

constexpr AttributeDef kShapeAttributes[] = {
    {"shape", AttributeKind::kExprs, true, "The dims of the result."},
};

constexpr AttributeDef kTransposeAttributes[] = {
    {"perm", AttributeKind::kInts, true, "Result axis i is operand axis perm[i]."},
};

constexpr AttributeDef kSliceAttributes[] = {
    {"starts", AttributeKind::kExprs, true, "The first index per axis, one for every axis."},
    {"sizes", AttributeKind::kExprs, true, "The dims of the result."},
    {"steps", AttributeKind::kInts, true,
     "The step per axis, not 0; negative steps walk backwards from the "
     "start."},
};

constexpr AttributeDef kPadAttributes[] = {
    {"low", AttributeKind::kExprs, true, "Elements put before, per axis; at least 0."},
    {"high", AttributeKind::kExprs, true, "Elements put after, per axis; at least 0."},
    {"mode", AttributeKind::kString, false,
     "\"constant\" (the default), \"edge\", \"reflect\" (without the edge) or "
     "\"wrap\"."},
};

constexpr AttributeDef kConcatAttributes[] = {
    {"axis", AttributeKind::kInt, true, "In [0, rank)."},
};

constexpr OpCase kBroadcastCases[] = {
    {"f32[3]{1, 2, 3}", "shape = [2, 3]", "f32[2, 3]{1, 2, 3, 1, 2, 3}"},
    {"f32[2, 1]{1, 2}", "shape = [2, 2]", "f32[2, 2]{1, 1, 2, 2}"},
    {"i64[]{7}", "shape = [2]", "i64[2]{7, 7}"},
    {"f32[1]{1}", "shape = [0]", "f32[0]{}"},
};

constexpr OpCase kReshapeCases[] = {
    {"i32[2, 3]{1, 2, 3, 4, 5, 6}", "shape = [3, 2]", "i32[3, 2]{1, 2, 3, 4, 5, 6}"},
    {"i32[1]{9}", "shape = []", "i32[]{9}"},
};

constexpr OpCase kTransposeCases[] = {
    {"i32[2, 3]{1, 2, 3, 4, 5, 6}", "perm = [1, 0]", "i32[3, 2]{1, 4, 2, 5, 3, 6}"},
    {"i32[1, 2, 2]{1, 2, 3, 4}", "perm = [2, 0, 1]", "i32[2, 1, 2]{1, 3, 2, 4}"},
};

constexpr OpCase kSliceCases[] = {
    {"i32[5]{0, 1, 2, 3, 4}", "starts = [1], sizes = [2], steps = [2]", "i32[2]{1, 3}"},
    {"i32[5]{0, 1, 2, 3, 4}", "starts = [4], sizes = [3], steps = [-2]", "i32[3]{4, 2, 0}"},
    {"i32[2, 3]{1, 2, 3, 4, 5, 6}", "starts = [0, 1], sizes = [2, 2], steps = [1, 1]",
     "i32[2, 2]{2, 3, 5, 6}"},
    {"i32[3]{1, 2, 3}", "starts = [3], sizes = [0], steps = [1]", "i32[0]{}"},
};

constexpr OpCase kPadCases[] = {
    {"i32[3]{1, 2, 3}; i32[]{9}", "low = [1], high = [2]", "i32[6]{9, 1, 2, 3, 9, 9}"},
    {"f32[1, 2]{1, 2}", "low = [1, 0], high = [0, 1]", "f32[2, 3]{0, 0, 0, 1, 2, 0}"},
    {"i32[3]{1, 2, 3}", "low = [2], high = [2], mode = \"reflect\"", "i32[7]{3, 2, 1, 2, 3, 2, 1}"},
    {"i32[3]{1, 2, 3}", "low = [2], high = [1], mode = \"edge\"", "i32[6]{1, 1, 1, 2, 3, 3}"},
    {"i32[3]{1, 2, 3}", "low = [1], high = [4], mode = \"wrap\"", "i32[8]{3, 1, 2, 3, 1, 2, 3, 1}"},
};

constexpr OpCase kConcatCases[] = {
    {"i32[2, 1]{1, 2}; i32[2, 2]{3, 4, 5, 6}", "axis = 1", "i32[2, 3]{1, 3, 4, 2, 5, 6}"},
    {"i32[0]{}; i32[2]{1, 2}; i32[1]{3}", "axis = 0", "i32[3]{1, 2, 3}"},
};

constexpr OpDef kViewOps[] = {
    {
        .name = "broadcast",
        .doc = "Repeats dims of size 1. The operand's dims align with the last dims of "
               "the shape; each is 1 or the same; missing leading dims count as 1.",
        .traits = kView,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kShapeAttributes,
        .infer = InferBroadcast,
        .evaluate = EvaluateBroadcast,
        .cases = kBroadcastCases,
    },
    {
        .name = "reshape",
        .doc = "The same elements in row-major order under another shape of equal "
               "count.",
        .traits = kView,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kShapeAttributes,
        .infer = InferReshape,
        .evaluate = EvaluateReshape,
        .cases = kReshapeCases,
    },
    {
        .name = "transpose",
        .doc = "Permutes the axes.",
        .traits = kView,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kTransposeAttributes,
        .infer = InferTranspose,
        .evaluate = EvaluateTranspose,
        .cases = kTransposeCases,
    },
    {
        .name = "slice",
        .doc = "result[i...] = x[starts + i * steps], for i below sizes. Every index "
               "read must exist; clamping is the importer's work.",
        .traits = kView,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kSliceAttributes,
        .infer = InferSlice,
        .evaluate = EvaluateSlice,
        .cases = kSliceCases,
    },
    {
        .name = "pad",
        .doc = "Surrounds the operand. Operands: x, and in mode constant optionally "
               "the scalar value (default 0). Reflect needs pads below the dim.",
        .traits = kView,
        .min_operands = 1,
        .max_operands = 2,
        .attributes = kPadAttributes,
        .infer = InferPad,
        .evaluate = EvaluatePad,
        .cases = kPadCases,
    },
    {
        .name = "concat",
        .doc = "Joins operands of one dtype along an axis; the other dims are equal.",
        .traits = kView,
        .min_operands = 1,
        .max_operands = -1,
        .attributes = kConcatAttributes,
        .infer = InferConcat,
        .evaluate = EvaluateConcat,
        .cases = kConcatCases,
    },
};

}  // namespace

std::span<const OpDef> ViewOps() { return kViewOps; }

}  // namespace halyard::graph
