// SPDX-License-Identifier: Apache-2.0
// Reads and writes at indices that are data. Indices are i32 or i64; a negative one counts from the
// end; one outside [-dim, dim) is an error at run time.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/quantity.h"
#include "compiler/ops/elements.h"
#include "compiler/ops/families.h"
#include "compiler/ops/reference.h"
#include "compiler/ops/shape_rules.h"

namespace halyard::graph {
namespace {

Result<std::vector<Value>> InferGather(const InferContext& context) {
  const TensorType& x = context.operand(0).type;
  const TensorType& indices = context.operand(1).type;
  HY_ASSIGN(const size_t axis, AxisOf(context, "axis", x.dims.size()));
  HY_TRY(RequireIndexDType(context, 1));
  const auto split = static_cast<ptrdiff_t>(axis);
  std::vector<Expr> dims(x.dims.begin(), x.dims.begin() + split);
  dims.insert(dims.end(), indices.dims.begin(), indices.dims.end());
  dims.insert(dims.end(), x.dims.begin() + split + 1, x.dims.end());
  std::vector<Value> results = OneResult(x.dtype, std::move(dims));
  results[0].elements = RoutedElements(context, results[0].type, 1);
  return results;
}

Result<std::vector<Tensor>> EvaluateGather(const EvalContext& context) {
  const Tensor& x = context.operands[0];
  const Tensor& indices = context.operands[1];
  HY_ASSIGN(Tensor result, MakeResult(context));
  HY_ASSIGN(const int64_t axis_value, GetInt(context.node, "axis"));
  const auto axis = static_cast<size_t>(axis_value);
  int64_t before = 1, after = 1;
  for (size_t i = 0; i < x.dims.size(); ++i)
    (i < axis ? before : after) *= i == axis ? 1 : x.dims[i];
  const int64_t count = indices.elements();
  for (int64_t a = 0; a < before; ++a) {
    for (int64_t j = 0; j < count; ++j) {
      HY_ASSIGN(const int64_t at, WrapIndex(context, LoadInt(indices, j), x.dims[axis]));
      for (int64_t b = 0; b < after; ++b) {
        CopyElement(x, (a * x.dims[axis] + at) * after + b, result, (a * count + j) * after + b);
      }
    }
  }
  return OneTensor(std::move(result));
}

Result<std::vector<Value>> InferGatherElements(const InferContext& context) {
  const TensorType& x = context.operand(0).type;
  const TensorType& indices = context.operand(1).type;
  HY_ASSIGN(const size_t axis, AxisOf(context, "axis", x.dims.size()));
  HY_TRY(RequireIndexDType(context, 1));
  HY_TRY(RequireRank(context, 1, x.dims.size(), x.dims.size()));
  for (size_t i = 0; i < x.dims.size(); ++i) {
    if (i != axis && !AssumeAtMost(context, indices.dims[i], x.dims[i])) {
      return InvalidArgument("{} exceeds {} along axis {}", DescribeOperand(context, 1),
                             DescribeOperand(context, 0), i);
    }
  }
  std::vector<Value> results = OneResult(x.dtype, indices.dims);
  results[0].elements = RoutedElements(context, results[0].type, 1);
  return results;
}

// Other axes than `axis` must not exceed x; symbolic shapes are checked here.
Status RequireInside(const EvalContext& context, const Tensor& x, const Tensor& indices,
                     size_t axis) {
  for (size_t i = 0; i < x.dims.size(); ++i) {
    if (i != axis && indices.dims[i] > x.dims[i]) {
      return OutOfRange("The indices have size {} along axis {}; x has {} (node '{}').",
                        indices.dims[i], i, x.dims[i], context.node.name);
    }
  }
  return OkStatus();
}

Result<std::vector<Tensor>> EvaluateGatherElements(const EvalContext& context) {
  const Tensor& x = context.operands[0];
  const Tensor& indices = context.operands[1];
  HY_ASSIGN(Tensor result, MakeResult(context));
  HY_ASSIGN(const int64_t axis_value, GetInt(context.node, "axis"));
  const auto axis = static_cast<size_t>(axis_value);
  HY_TRY(RequireInside(context, x, indices, axis));
  const std::vector<int64_t> strides = RowMajorStrides(x.dims);
  int64_t at = 0;
  HY_TRY(ForEachIndex(indices.dims, [&](std::vector<int64_t> index) -> Status {
    HY_ASSIGN(index[axis], WrapIndex(context, LoadInt(indices, at), x.dims[axis]));
    CopyElement(x, FlatIndex(index, strides), result, at++);
    return OkStatus();
  }));
  return OneTensor(std::move(result));
}

// The coordinates per index of gather_nd and scatter_nd: the last dim of the indices.
Result<size_t> CoordinatesOf(const InferContext& context, size_t most) {
  HY_TRY(RequireIndexDType(context, 1));
  HY_TRY(RequireRank(context, 1, 1));
  const std::optional<int64_t> count =
      context.module.exprs.AsConst(context.operand(1).type.dims.back());
  if (!count || *count < 0 || static_cast<uint64_t>(*count) > most) {
    return InvalidArgument("{} needs a constant last dimension of at most {}",
                           DescribeOperand(context, 1), most);
  }
  return static_cast<size_t>(*count);
}

Result<std::vector<Value>> InferGatherNd(const InferContext& context) {
  const TensorType& x = context.operand(0).type;
  const TensorType& indices = context.operand(1).type;
  const int64_t batch_value = IntOr(context.node, "batch_dims", 0);
  if (batch_value < 0 || static_cast<size_t>(batch_value) > x.dims.size() ||
      static_cast<size_t>(batch_value) >= std::max<size_t>(1, indices.dims.size())) {
    return InvalidArgument("gather_nd has {} batch dims; {} and {} do not have so many",
                           batch_value, DescribeOperand(context, 0), DescribeOperand(context, 1));
  }
  const auto batch = static_cast<size_t>(batch_value);
  HY_ASSIGN(const size_t depth, CoordinatesOf(context, x.dims.size() - batch));
  std::vector<Expr> dims(indices.dims.begin(), indices.dims.end() - 1);
  for (size_t i = 0; i < batch; ++i) {
    if (!AssumeEqual(context, x.dims[i], indices.dims[i])) {
      return InvalidArgument("{} and {} differ in the batch axis {}", DescribeOperand(context, 0),
                             DescribeOperand(context, 1), i);
    }
  }
  dims.insert(dims.end(), x.dims.begin() + static_cast<ptrdiff_t>(batch + depth), x.dims.end());
  return OneResult(x.dtype, std::move(dims));
}

// Walks over the slices that indices[j..., k] of x name: body(j, offset of the slice in x).
template <typename Body>
Status ForEachSlice(const EvalContext& context, const std::vector<int64_t>& x_dims,
                    const Tensor& indices, size_t batch, Body&& body) {
  const auto depth = static_cast<size_t>(indices.dims.back());
  const std::vector<int64_t> strides = RowMajorStrides(x_dims);
  const std::vector<int64_t> outer(indices.dims.begin(), indices.dims.end() - 1);
  int64_t at = 0;
  return ForEachIndex(outer, [&](const std::vector<int64_t>& index) -> Status {
    int64_t offset = 0;
    for (size_t i = 0; i < batch; ++i) offset += index[i] * strides[i];
    for (size_t c = 0; c < depth; ++c) {
      const int64_t raw =
          LoadInt(indices, at * static_cast<int64_t>(depth) + static_cast<int64_t>(c));
      HY_ASSIGN(const int64_t wrapped, WrapIndex(context, raw, x_dims[batch + c]));
      offset += wrapped * strides[batch + c];
    }
    return body(at++, offset);
  });
}

int64_t SliceSize(const std::vector<int64_t>& dims, size_t first) {
  int64_t size = 1;
  for (size_t i = first; i < dims.size(); ++i) size *= dims[i];
  return size;
}

Result<std::vector<Tensor>> EvaluateGatherNd(const EvalContext& context) {
  const Tensor& x = context.operands[0];
  const Tensor& indices = context.operands[1];
  HY_ASSIGN(Tensor result, MakeResult(context));
  const auto batch = static_cast<size_t>(IntOr(context.node, "batch_dims", 0));
  const int64_t size = SliceSize(x.dims, batch + static_cast<size_t>(indices.dims.back()));
  HY_TRY(ForEachSlice(context, x.dims, indices, batch, [&](int64_t j, int64_t offset) {
    for (int64_t k = 0; k < size; ++k) CopyElement(x, offset + k, result, j * size + k);
    return OkStatus();
  }));
  return OneTensor(std::move(result));
}

Status CheckScatter(const InferContext& context) {
  HY_TRY(RequireIndexDType(context, 1));
  HY_TRY(RequireSameDType(context, 0, 2));
  HY_TRY(RequireOneOf(context, "reduction", {"none", "add", "mul", "min", "max"}));
  const bool combines = StringOr(context.node, "reduction", "none") != "none";
  return RequireDType(context, 0, !combines || context.operand(0).type.dtype != DType::kBool,
                      "integers and floats with a reduction");
}

Result<std::vector<Value>> InferScatterElements(const InferContext& context) {
  HY_TRY(CheckScatter(context));
  const TensorType& x = context.operand(0).type;
  const TensorType& indices = context.operand(1).type;
  HY_ASSIGN(const size_t axis, AxisOf(context, "axis", x.dims.size()));
  HY_TRY(RequireRank(context, 1, x.dims.size(), x.dims.size()));
  HY_TRY(RequireRank(context, 2, x.dims.size(), x.dims.size()));
  for (size_t i = 0; i < x.dims.size(); ++i) {
    if (!AssumeEqual(context, indices.dims[i], context.operand(2).type.dims[i])) {
      return InvalidArgument("{} and {} differ in shape", DescribeOperand(context, 1),
                             DescribeOperand(context, 2));
    }
    if (i != axis && !AssumeAtMost(context, indices.dims[i], x.dims[i])) {
      return InvalidArgument("{} exceeds {} along axis {}", DescribeOperand(context, 1),
                             DescribeOperand(context, 0), i);
    }
  }
  return OneResult(x);
}

// result[to] = result[to] (reduction) updates[from].
void Combine(const std::string& reduction, const Tensor& updates, int64_t from, Tensor& result,
             int64_t to) {
  if (reduction == "none") return CopyElement(updates, from, result, to);
  if (IsFloat(result.dtype)) {
    const double a = LoadFloat(result, to);
    const double b = LoadFloat(updates, from);
    const bool has_nan = std::isnan(a) || std::isnan(b);
    if (reduction == "add") return StoreFloat(result, to, a + b);
    if (reduction == "mul") return StoreFloat(result, to, a * b);
    if (has_nan) return StoreFloat(result, to, std::numeric_limits<double>::quiet_NaN());
    return StoreFloat(result, to, reduction == "min" ? std::min(a, b) : std::max(a, b));
  }
  const int64_t a = LoadInt(result, to);
  const int64_t b = LoadInt(updates, from);
  const auto ua = static_cast<uint64_t>(a);
  const auto ub = static_cast<uint64_t>(b);
  if (reduction == "add") return StoreInt(result, to, static_cast<int64_t>(ua + ub));
  if (reduction == "mul") return StoreInt(result, to, static_cast<int64_t>(ua * ub));
  const bool is_less = result.dtype == DType::kU64 ? ub < ua : b < a;
  if (is_less == (reduction == "min")) StoreInt(result, to, b);
}

Result<std::vector<Tensor>> EvaluateScatterElements(const EvalContext& context) {
  Tensor result = context.operands[0];
  const Tensor& indices = context.operands[1];
  const std::string reduction = StringOr(context.node, "reduction", "none");
  HY_ASSIGN(const int64_t axis_value, GetInt(context.node, "axis"));
  const auto axis = static_cast<size_t>(axis_value);
  HY_TRY(RequireInside(context, result, indices, axis));
  const std::vector<int64_t> strides = RowMajorStrides(result.dims);
  int64_t at = 0;
  HY_TRY(ForEachIndex(indices.dims, [&](std::vector<int64_t> index) -> Status {
    HY_ASSIGN(index[axis], WrapIndex(context, LoadInt(indices, at), result.dims[axis]));
    Combine(reduction, context.operands[2], at++, result, FlatIndex(index, strides));
    return OkStatus();
  }));
  return OneTensor(std::move(result));
}

Result<std::vector<Value>> InferScatterNd(const InferContext& context) {
  HY_TRY(CheckScatter(context));
  const TensorType& x = context.operand(0).type;
  const TensorType& indices = context.operand(1).type;
  HY_ASSIGN(const size_t depth, CoordinatesOf(context, x.dims.size()));
  std::vector<Expr> expected(indices.dims.begin(), indices.dims.end() - 1);
  expected.insert(expected.end(), x.dims.begin() + static_cast<ptrdiff_t>(depth), x.dims.end());
  const std::vector<Expr>& updates = context.operand(2).type.dims;
  bool fits = updates.size() == expected.size();
  for (size_t i = 0; fits && i < expected.size(); ++i) {
    fits = AssumeEqual(context, updates[i], expected[i]);
  }
  if (!fits) {
    return InvalidArgument("{} should have the shape {}", DescribeOperand(context, 2),
                           FormatDims(context.module.exprs, expected));
  }
  return OneResult(x);
}

Result<std::vector<Tensor>> EvaluateScatterNd(const EvalContext& context) {
  Tensor result = context.operands[0];
  const Tensor& indices = context.operands[1];
  const std::string reduction = StringOr(context.node, "reduction", "none");
  const int64_t size = SliceSize(result.dims, static_cast<size_t>(indices.dims.back()));
  HY_TRY(ForEachSlice(context, result.dims, indices, 0, [&](int64_t j, int64_t offset) {
    for (int64_t k = 0; k < size; ++k) {
      Combine(reduction, context.operands[2], j * size + k, result, offset + k);
    }
    return OkStatus();
  }));
  return OneTensor(std::move(result));
}

Result<std::vector<Value>> InferCheckIndex(const InferContext& context) {
  HY_TRY(RequireIndexDType(context, 0));
  HY_ASSIGN(const std::vector<Expr> size, GetExprs(context.node, "size"));
  if (size.size() != 1) {
    return InvalidArgument("check_index has {} of size; it takes one",
                           Counted(size.size(), "value"));
  }
  if (!AssumeAtMost(context, context.module.exprs.Const(0), size[0])) {
    return InvalidArgument("The size of check_index is {}; the least is 0",
                           context.module.exprs.Format(size[0]));
  }
  return OneResult(context.operand(0).type);
}

Result<std::vector<Tensor>> EvaluateCheckIndex(const EvalContext& context) {
  const Tensor& x = context.operands[0];
  HY_ASSIGN(const std::vector<int64_t> size, EvaluateExprs(context, "size"));
  for (int64_t i = 0; i < x.elements(); ++i) {
    const int64_t value = LoadInt(x, i);
    if (value >= 0 && value < size[0]) continue;
    return OutOfRange("The {} {} lies outside [0, {}) (node '{}').",
                      StringOr(context.node, "what", "index"), value, size[0], context.node.name);
  }
  return OneTensor(x);
}

constexpr AttributeDef kCheckIndexAttributes[] = {
    {"size", AttributeKind::kExprs, true, "One: what every element must be below."},
    {"what", AttributeKind::kString, false, "What the elements are, for the error. Default index."},
};

constexpr AttributeDef kGatherAttributes[] = {
    {"axis", AttributeKind::kInt, true, "In [0, rank)."},
};

constexpr AttributeDef kGatherNdAttributes[] = {
    {"batch_dims", AttributeKind::kInt, false, "Leading axes shared by x and indices. Default 0."},
};

constexpr AttributeDef kScatterElementsAttributes[] = {
    {"axis", AttributeKind::kInt, true, "In [0, rank)."},
    {"reduction", AttributeKind::kString, false,
     "\"none\" (the default: the last update in row-major order wins), \"add\", "
     "\"mul\", \"min\" or \"max\"."},
};

constexpr AttributeDef kScatterNdAttributes[] = {
    {"reduction", AttributeKind::kString, false, "As in scatter_elements."},
};

constexpr OpCase kCheckIndexCases[] = {
    {"i64[3]{0, 4, 2}", "size = [5]", "i64[3]{0, 4, 2}"},
    {"i32[2, 1]{1, 0}", "size = [2], what = \"length\"", "i32[2, 1]{1, 0}"},
};

constexpr OpCase kGatherCases[] = {
    {"f32[3, 2]{1, 1.2, 2.3, 3.4, 4.5, 5.7}; i64[2, 2]{0, 1, 1, 2}", "axis = 0",
     "f32[2, 2, 2]{1, 1.2, 2.3, 3.4, 2.3, 3.4, 4.5, 5.7}"},
    {"f32[2, 3]{1, 1.2, 1.9, 2.3, 3.4, 3.9}; i32[1, 2]{0, -1}", "axis = 1",
     "f32[2, 1, 2]{1, 1.9, 2.3, 3.9}"},
    {"i32[3]{5, 6, 7}; i64[]{2}", "axis = 0", "i32[]{7}"},
};

constexpr OpCase kGatherElementsCases[] = {
    {"i32[2, 2]{1, 2, 3, 4}; i64[2, 2]{0, 0, 1, 0}", "axis = 1", "i32[2, 2]{1, 1, 4, 3}"},
    {"i32[3, 3]{1, 2, 3, 4, 5, 6, 7, 8, 9}; i64[2, 3]{1, 2, 0, 2, 0, 0}", "axis = 0",
     "i32[2, 3]{4, 8, 3, 7, 2, 3}"},
};

constexpr OpCase kGatherNdCases[] = {
    {"i32[2, 2]{0, 1, 2, 3}; i64[2, 2]{0, 0, 1, 1}", "", "i32[2]{0, 3}"},
    {"i32[2, 2]{0, 1, 2, 3}; i64[2, 1]{1, 0}", "", "i32[2, 2]{2, 3, 0, 1}"},
    {"i32[2, 2, 2]{0, 1, 2, 3, 4, 5, 6, 7}; i64[2, 1]{1, 0}", "batch_dims = 1",
     "i32[2, 2]{2, 3, 4, 5}"},
};

constexpr OpCase kScatterElementsCases[] = {
    {"f32[1, 5]{1, 2, 3, 4, 5}; i64[1, 2]{1, 3}; f32[1, 2]{1.5, 2.5}", "axis = 1",
     "f32[1, 5]{1, 1.5, 3, 2.5, 5}"},
    {"f32[1, 5]{1, 2, 3, 4, 5}; i64[1, 2]{1, 1}; f32[1, 2]{1.5, 2.5}",
     "axis = 1, reduction = \"add\"", "f32[1, 5]{1, 6, 3, 4, 5}"},
    {"i32[3]{5, 5, 5}; i64[2]{-1, 0}; i32[2]{3, 9}", "axis = 0, reduction = \"min\"",
     "i32[3]{5, 5, 3}"},
    {"i32[2]{1, 1}; i64[2]{0, 0}; i32[2]{7, 8}", "axis = 0", "i32[2]{8, 1}"},
};

constexpr OpCase kScatterNdCases[] = {
    {"i32[8]{1, 2, 3, 4, 5, 6, 7, 8}; i64[4, 1]{4, 3, 1, 7}; i32[4]{9, 10, 11, 12}", "",
     "i32[8]{1, 11, 3, 10, 9, 6, 7, 12}"},
    {"i32[2, 2]{1, 2, 3, 4}; i64[2, 1]{1, 1}; i32[2, 2]{1, 1, 2, 2}", "reduction = \"mul\"",
     "i32[2, 2]{1, 2, 6, 8}"},
};

constexpr OpDef kIndexingOps[] = {
    {
        .name = "gather",
        .doc = "Operands: x, indices. result[a..., j..., b...] = x[a..., "
               "indices[j...], b...], where a are the axes before `axis` and b those "
               "after it.",
        .traits = 0,
        .min_operands = 2,
        .max_operands = 2,
        .attributes = kGatherAttributes,
        .infer = InferGather,
        .evaluate = EvaluateGather,
        .cases = kGatherCases,
    },
    {
        .name = "gather_elements",
        .doc = "Operands: x, indices of the same rank. result[i...] = x[i... with "
               "indices[i...] at `axis`]; the shape is that of indices, whose other "
               "dims do not exceed x's.",
        .traits = 0,
        .min_operands = 2,
        .max_operands = 2,
        .attributes = kGatherAttributes,
        .infer = InferGatherElements,
        .evaluate = EvaluateGatherElements,
        .cases = kGatherElementsCases,
    },
    {
        .name = "gather_nd",
        .doc = "Operands: x, indices[batch..., j..., k]. The last dim holds k "
               "coordinates into the axes of x after the batch axes; the result is "
               "[batch..., j..., rest of x].",
        .traits = 0,
        .min_operands = 2,
        .max_operands = 2,
        .attributes = kGatherNdAttributes,
        .infer = InferGatherNd,
        .evaluate = EvaluateGatherNd,
        .cases = kGatherNdCases,
    },
    {
        .name = "scatter_elements",
        .doc = "Operands: x, indices, updates (the shape of indices). A copy of x in "
               "which element [i... with indices[i...] at `axis`] is combined with "
               "updates[i...].",
        .traits = 0,
        .min_operands = 3,
        .max_operands = 3,
        .attributes = kScatterElementsAttributes,
        .infer = InferScatterElements,
        .evaluate = EvaluateScatterElements,
        .cases = kScatterElementsCases,
    },
    {
        .name = "scatter_nd",
        .doc = "Operands: x, indices[j..., k], updates[j..., rest of x]. A copy of x "
               "in which the slice at the k coordinates is combined with the update.",
        .traits = 0,
        .min_operands = 3,
        .max_operands = 3,
        .attributes = kScatterNdAttributes,
        .infer = InferScatterNd,
        .evaluate = EvaluateScatterNd,
        .cases = kScatterNdCases,
    },
    {
        .name = "check_index",
        .doc = "x itself, whose elements must lie in [0, size): one outside, also a negative one, "
               "is an error at run time.",
        .traits = 0,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kCheckIndexAttributes,
        .infer = InferCheckIndex,
        .evaluate = EvaluateCheckIndex,
        .cases = kCheckIndexCases,
    },
};

}  // namespace

std::span<const OpDef> IndexingOps() { return kIndexingOps; }

}  // namespace halyard::graph
