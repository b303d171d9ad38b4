// SPDX-License-Identifier: Apache-2.0
// Ops that order or select elements by value.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/quantity.h"
#include "compiler/ops/families.h"
#include "compiler/ops/reference.h"
#include "compiler/ops/shape_rules.h"

namespace halyard::graph {
namespace {

Result<std::vector<Value>> InferSort(const InferContext& context) {
  const TensorType& type = context.operand(0).type;
  HY_TRY(RequireDType(context, 0, type.dtype != DType::kBool, "integers and floats"));
  HY_TRY(AxisOf(context, "axis", type.dims.size()));
  HY_TRY(RequireFlag(context, "descending"));
  std::vector<Value> results(2);
  results[0].type = type;
  results[1].type = TensorType{DType::kI64, type.dims};
  return results;
}

Result<std::vector<Value>> InferTopk(const InferContext& context) {
  TensorType type = context.operand(0).type;
  HY_TRY(RequireDType(context, 0, type.dtype != DType::kBool, "integers and floats"));
  HY_ASSIGN(const size_t axis, AxisOf(context, "axis", type.dims.size()));
  HY_TRY(RequireFlag(context, "largest"));
  HY_ASSIGN(const std::vector<Expr> k, GetExprs(context.node, "k"));
  if (k.size() != 1)
    return InvalidArgument("topk has {} of k; it takes one", Counted(k.size(), "value"));
  if (!AssumeAtMost(context, k[0], type.dims[axis])) {
    return InvalidArgument("topk takes {} elements of {} along axis {}",
                           context.module.exprs.Format(k[0]), DescribeOperand(context, 0), axis);
  }
  type.dims[axis] = k[0];
  std::vector<Value> results(2);
  results[0].type = type;
  results[1].type = TensorType{DType::kI64, type.dims};
  return results;
}

// An element of a row: a number that is the less the earlier the element comes, and where it was.
struct Placed {
  uint64_t key;
  int64_t index;
  // No two are equal: the first of equal elements comes first.
  bool operator<(const Placed& other) const {
    return key != other.key ? key < other.key : index < other.index;
  }
};

constexpr uint64_t kSign = uint64_t{1} << 63;
constexpr size_t kFewParts = 16;  // of a row: so few that they are found in one pass

// Numbers as keys in ascending order: both zeros are equal, and all NaNs, which are the greatest.
uint64_t KeyOf(double value) {
  if (std::isnan(value)) return ~uint64_t{0};
  const auto bits = std::bit_cast<uint64_t>(value + 0.0);
  return bits & kSign ? ~bits : bits | kSign;
}
uint64_t KeyOf(int64_t value, DType dtype) {
  const auto bits = static_cast<uint64_t>(value);
  return dtype == DType::kU64 ? bits : bits ^ kSign;
}

// The row's elements as keys. Each element is loaded once: loading takes several times as long as
// comparing.
void PlaceRow(const Tensor& x, int64_t first, int64_t stride, bool is_descending,
              std::vector<Placed>* row) {
  const bool is_float = IsFloat(x.dtype);
  const uint64_t flip = is_descending ? ~uint64_t{0} : 0;
  for (size_t i = 0; i < row->size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    const int64_t at = first + index * stride;
    const uint64_t key = is_float ? KeyOf(LoadFloat(x, at)) : KeyOf(LoadInt(x, at), x.dtype);
    (*row)[i] = {key ^ flip, index};
  }
}

// The first `kept` of the row in order. Few are chosen in one pass that compares with the last of
// them.
void OrderRow(std::vector<Placed>* row, int64_t kept) {
  const auto end_of_kept = row->begin() + kept;
  if (static_cast<size_t>(kept) <= row->size() / kFewParts) {
    std::partial_sort(row->begin(), end_of_kept, row->end());
    return;
  }
  if (end_of_kept != row->end()) std::nth_element(row->begin(), end_of_kept, row->end());
  std::sort(row->begin(), end_of_kept);
}

// Sorts each row along `axis` and keeps the first `kept` elements.
Result<std::vector<Tensor>> SortRows(const EvalContext& context, size_t axis, int64_t kept,
                                     bool is_descending) {
  const Tensor& x = context.operands[0];
  std::vector<int64_t> dims = x.dims;
  dims[axis] = kept;
  HY_ASSIGN(Tensor values, MakeResultOf(context, dims, 0));
  HY_ASSIGN(Tensor indices, MakeResultOf(context, dims, 1));
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i < axis) outer *= dims[i];
    if (i > axis) inner *= dims[i];
  }
  std::vector<Placed> row(static_cast<size_t>(x.dims[axis]));
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t n = 0; n < inner; ++n) {
      const int64_t first = o * x.dims[axis] * inner + n;
      PlaceRow(x, first, inner, is_descending, &row);
      OrderRow(&row, kept);
      for (int64_t i = 0; i < kept; ++i) {
        const int64_t to = (o * kept + i) * inner + n;
        const int64_t index = row[static_cast<size_t>(i)].index;
        CopyElement(x, first + index * inner, values, to);
        StoreInt(indices, to, index);
      }
    }
  }
  std::vector<Tensor> results;
  results.push_back(std::move(values));
  results.push_back(std::move(indices));
  return results;
}

Result<std::vector<Tensor>> EvaluateSort(const EvalContext& context) {
  HY_ASSIGN(const int64_t axis, GetInt(context.node, "axis"));
  return SortRows(context, static_cast<size_t>(axis),
                  context.operands[0].dims[static_cast<size_t>(axis)],
                  IntOr(context.node, "descending", 0) != 0);
}

Result<std::vector<Tensor>> EvaluateTopk(const EvalContext& context) {
  HY_ASSIGN(const int64_t axis, GetInt(context.node, "axis"));
  HY_ASSIGN(const std::vector<int64_t> k, EvaluateExprs(context, "k"));
  const int64_t dim = context.operands[0].dims[static_cast<size_t>(axis)];
  if (k[0] < 0 || k[0] > dim) {
    return OutOfRange("topk takes {} of {} (node '{}').", k[0], Counted(dim, "element"),
                      context.node.name);
  }
  return SortRows(context, static_cast<size_t>(axis), k[0], IntOr(context.node, "largest", 1) != 0);
}

Result<std::vector<Value>> InferNonzero(const InferContext& context) {
  HY_ASSIGN(const std::vector<Expr> count, GetExprs(context.node, "count"));
  ExprArena& exprs = context.module.exprs;
  if (count.size() != 1 || exprs.KindOf(count[0]) != ExprKind::kSymbol ||
      exprs.SymbolKindOf(count[0]) != SymbolKind::kDim) {
    return InvalidArgument("The count of nonzero is no dim symbol");
  }
  const auto rank = static_cast<int64_t>(context.operand(0).type.dims.size());
  return OneResult(DType::kI64, {exprs.Const(rank), count[0]});
}

Result<std::vector<Tensor>> EvaluateNonzero(const EvalContext& context) {
  const Tensor& x = context.operands[0];
  std::vector<std::vector<int64_t>> found;
  int64_t at = 0;
  HY_TRY(ForEachIndex(x.dims, [&](const std::vector<int64_t>& index) {
    const bool is_set = IsFloat(x.dtype) ? LoadFloat(x, at) != 0 : LoadInt(x, at) != 0;
    if (is_set) found.push_back(index);
    ++at;
    return OkStatus();
  }));
  const auto count = static_cast<int64_t>(found.size());
  HY_ASSIGN(Tensor result, MakeResultOf(context, {static_cast<int64_t>(x.dims.size()), count}));
  for (size_t axis = 0; axis < x.dims.size(); ++axis) {
    for (size_t i = 0; i < found.size(); ++i) {
      StoreInt(result, static_cast<int64_t>(axis) * count + static_cast<int64_t>(i),
               found[i][axis]);
    }
  }
  return OneTensor(std::move(result));
}

constexpr AttributeDef kSortAttributes[] = {
    {"axis", AttributeKind::kInt, true, "In [0, rank)."},
    {"descending", AttributeKind::kInt, false, "1: greatest first. Default 0."},
};

constexpr AttributeDef kTopkAttributes[] = {
    {"axis", AttributeKind::kInt, true, "In [0, rank)."},
    {"k", AttributeKind::kExprs, true, "One expression: how many; at most the dim."},
    {"largest", AttributeKind::kInt, false, "0 takes the least. Default 1."},
};

constexpr AttributeDef kNonzeroAttributes[] = {
    {"count", AttributeKind::kExprs, true,
     "One expression: a dim symbol of its own, bound to the number found."},
};

constexpr OpCase kSortCases[] = {
    {"f32[4]{3, nan, 1, 2}", "axis = 0", "f32[4]{1, 2, 3, nan}; i64[4]{2, 3, 0, 1}"},
    {"i32[2, 2]{1, 2, 1, 3}", "axis = 0, descending = 1",
     "i32[2, 2]{1, 3, 1, 2}; i64[2, 2]{0, 1, 1, 0}"},
};

constexpr OpCase kTopkCases[] = {
    {"f32[3, 4]{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}", "axis = 1, k = [3]",
     "f32[3, 3]{3, 2, 1, 7, 6, 5, 11, 10, 9}; i64[3, 3]{3, 2, 1, 3, 2, 1, 3, 2, 1}"},
    {"i32[4]{5, 1, 1, 0}", "axis = 0, k = [3], largest = 0", "i32[3]{0, 1, 1}; i64[3]{3, 1, 2}"},
    {"f32[32]{0, -0, -inf, 7, -8, nan, 7, 1, 2, 3, 4, 5, 6, -1, -2, -3, "
     "0, 1, 2, 3, 4, 5, 6, inf, nan, -1, -2, -3, -4, -5, -6, -7}",
     "axis = 0, k = [2]", "f32[2]{nan, nan}; i64[2]{5, 24}"},
    {"f32[32]{0, -0, -1, 7, -8, nan, 7, 1, 2, 3, 4, 5, 6, -1, -2, -3, "
     "0, 1, 2, 3, 4, 5, 6, 7, 7, -1, -2, -8, -4, -5, -6, -7}",
     "axis = 0, k = [2], largest = 0", "f32[2]{-8, -8}; i64[2]{4, 27}"},
    {"u64[3]{1, 18446744073709551615, 0}", "axis = 0, k = [2]",
     "u64[2]{18446744073709551615, 1}; i64[2]{1, 0}"},
    {"i8[3]{-1, 1, 0}", "axis = 0, k = [2], largest = 0", "i8[2]{-1, 0}; i64[2]{0, 2}"},
    {"f32[3]{-0, 0, -0}", "axis = 0, k = [3]", "f32[3]{-0, 0, -0}; i64[3]{0, 1, 2}"},
};

constexpr OpCase kNonzeroCases[] = {
    {"i32[2, 2]{1, 0, 1, 1}", "count = [count]", "i64[2, 3]{0, 1, 1, 0, 0, 1}"},
    {"f32[2]{0, -0}", "count = [count]", "i64[1, 0]{}"},
};

constexpr OpDef kOrderingOps[] = {
    {
        .name = "sort",
        .doc = "Results: the values in order along the axis, and their indices (i64). "
               "Stable; NaN is the greatest. Integers and floats.",
        .traits = kTemplate,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kSortAttributes,
        .infer = InferSort,
        .evaluate = EvaluateSort,
        .cases = kSortCases,
    },
    {
        .name = "topk",
        .doc = "Results: the k greatest (or least) values along the axis in order, and "
               "their indices (i64). The first of equal elements comes first; NaN is "
               "the greatest.",
        .traits = kTemplate,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kTopkAttributes,
        .infer = InferTopk,
        .evaluate = EvaluateTopk,
        .cases = kTopkCases,
    },
    {
        .name = "nonzero",
        .doc = "i64[rank, count]: the indices of the elements that are not 0, in row-major "
               "order. The count is data, so the result's dim is a symbol that running the node "
               "binds: the interpreter of graphs does; a program, whose sizes follow from those of "
               "its inputs, has no such node.",
        .traits = 0,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kNonzeroAttributes,
        .infer = InferNonzero,
        .evaluate = EvaluateNonzero,
        .cases = kNonzeroCases,
    },
};

}  // namespace

std::span<const OpDef> OrderingOps() { return kOrderingOps; }

}  // namespace halyard::graph
