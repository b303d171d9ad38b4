// SPDX-License-Identifier: Apache-2.0
// Reductions and scans along axes. The order of combination is free; f16 and bf16 accumulate in
// f32.
#include <cmath>
#include <limits>

#include "base/excerpt.h"
#include "compiler/ops/elements.h"
#include "compiler/ops/families.h"
#include "compiler/ops/reference.h"
#include "compiler/ops/shape_rules.h"

namespace halyard::graph {
namespace {

// The operand's dims without the reduced axes (or with size 1 in their place).
std::vector<Expr> ReducedDims(const InferContext& context, const std::vector<bool>& is_reduced) {
  const bool keeps = IntOr(context.node, "keep_dims", 0) != 0;
  std::vector<Expr> dims;
  for (size_t i = 0; i < is_reduced.size(); ++i) {
    if (!is_reduced[i]) dims.push_back(context.operand(0).type.dims[i]);
    if (is_reduced[i] && keeps) dims.push_back(context.module.exprs.Const(1));
  }
  return dims;
}

// The single element of a full reduction of known elements.
Elements ReducedElements(const InferContext& context, const TensorType& result) {
  const Elements& from = context.operand(0).elements;
  const std::string_view name = context.node.op->name;
  const std::string_view op = name == "reduce_sum"    ? "add"
                              : name == "reduce_prod" ? "mul"
                              : name == "reduce_min"  ? "min"
                              : name == "reduce_max"  ? "max"
                                                      : "";
  if (!from || from->empty() || op.empty()) return std::nullopt;
  if (FewElements(context.module.exprs, result.dims) != 1) return std::nullopt;
  Expr all = (*from)[0];
  for (size_t i = 1; i < from->size(); ++i) {
    const std::optional<Expr> next =
        ElementOf(context.module.exprs, op, result.dtype, all, (*from)[i]);
    if (!next) return std::nullopt;
    all = *next;
  }
  return std::vector<Expr>{all};
}

Result<std::vector<Value>> InferReduce(const InferContext& context) {
  const TensorType& type = context.operand(0).type;
  const bool is_logical =
      context.node.op->name == "reduce_any" || context.node.op->name == "reduce_all";
  HY_TRY(RequireDType(context, 0, (type.dtype == DType::kBool) == is_logical,
                      is_logical ? "bool" : "integers and floats"));
  HY_TRY(RequireFlag(context, "keep_dims"));
  HY_ASSIGN(const std::vector<int64_t> axes, GetInts(context.node, "axes"));
  std::vector<bool> is_reduced(type.dims.size(), false);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || static_cast<size_t>(axes[i]) >= type.dims.size() ||
        (i > 0 && axes[i] <= axes[i - 1])) {
      return InvalidArgument("The axes [{}] are not distinct ascending axes of {}", Excerpt(axes),
                             DescribeOperand(context, 0));
    }
    is_reduced[static_cast<size_t>(axes[i])] = true;
  }
  std::vector<Value> results = OneResult(type.dtype, ReducedDims(context, is_reduced));
  results[0].elements = ReducedElements(context, results[0].type);
  return results;
}

// The accumulator of one result element: doubles for floats, wrapping int64 for the rest.
struct Accumulator {
  double real = 0;
  int64_t whole = 0;
};

struct Reduction {
  double (*real_start)();
  int64_t (*whole_start)(DType);
  double (*real_step)(double, double);
  int64_t (*whole_step)(int64_t, int64_t, DType);
};

int64_t LeastOf(DType dtype) {
  return IsSigned(dtype) ? -(int64_t{1} << (BitWidth(dtype) - 2)) * 2 : 0;
}
int64_t GreatestOf(DType dtype) {
  const int bits = BitWidth(dtype) - (IsSigned(dtype) ? 1 : 0);
  return static_cast<int64_t>(~uint64_t{0} >> (64 - bits));
}
bool IsLess(int64_t a, int64_t b, DType dtype) {
  return dtype == DType::kU64 ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}
double WithNan(double a, double b, double otherwise) {
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : otherwise;
}
constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr Reduction kSum{
    [] { return 0.0; }, [](DType) { return int64_t{0}; }, [](double a, double b) { return a + b; },
    [](int64_t a, int64_t b, DType) {
      return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    }};
constexpr Reduction kProd{
    [] { return 1.0; }, [](DType) { return int64_t{1}; }, [](double a, double b) { return a * b; },
    [](int64_t a, int64_t b, DType) {
      return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    }};
constexpr Reduction kMax{
    [] { return -kInfinity; }, LeastOf,
    [](double a, double b) { return WithNan(a, b, a < b ? b : a); },
    [](int64_t a, int64_t b, DType dtype) { return IsLess(a, b, dtype) ? b : a; }};
constexpr Reduction kMin{
    [] { return kInfinity; }, GreatestOf,
    [](double a, double b) { return WithNan(a, b, b < a ? b : a); },
    [](int64_t a, int64_t b, DType dtype) { return IsLess(b, a, dtype) ? b : a; }};
constexpr Reduction kAny{[] { return 0.0; }, [](DType) { return int64_t{0}; },
                         [](double a, double) { return a; },
                         [](int64_t a, int64_t b, DType) { return a | b; }};
constexpr Reduction kAll{[] { return 0.0; }, [](DType) { return int64_t{1}; },
                         [](double a, double) { return a; },
                         [](int64_t a, int64_t b, DType) { return a & b; }};

template <const Reduction& kReductionOp>
Result<std::vector<Tensor>> EvaluateReduce(const EvalContext& context) {
  const Tensor& x = context.operands[0];
  HY_ASSIGN(Tensor result, MakeResult(context));
  HY_ASSIGN(const std::vector<int64_t> axes, GetInts(context.node, "axes"));
  std::vector<int64_t> kept = x.dims;
  for (const int64_t axis : axes) kept[static_cast<size_t>(axis)] = 1;
  std::vector<int64_t> strides = RowMajorStrides(kept);
  for (const int64_t axis : axes) strides[static_cast<size_t>(axis)] = 0;
  std::vector<Accumulator> sums(static_cast<size_t>(result.elements()));
  for (Accumulator& sum : sums) {
    sum = {kReductionOp.real_start(), kReductionOp.whole_start(x.dtype)};
  }
  int64_t at = 0;
  HY_TRY(ForEachIndex(x.dims, [&](const std::vector<int64_t>& index) {
    Accumulator& sum = sums[static_cast<size_t>(FlatIndex(index, strides))];
    if (IsFloat(x.dtype)) {
      sum.real = kReductionOp.real_step(sum.real, LoadFloat(x, at));
    } else {
      sum.whole = kReductionOp.whole_step(sum.whole, LoadInt(x, at), x.dtype);
    }
    ++at;
    return OkStatus();
  }));
  for (size_t i = 0; i < sums.size(); ++i) {
    if (IsFloat(x.dtype)) {
      StoreFloat(result, static_cast<int64_t>(i), sums[i].real);
    } else {
      StoreInt(result, static_cast<int64_t>(i), sums[i].whole);
    }
  }
  return OneTensor(std::move(result));
}

Result<std::vector<Value>> InferArg(const InferContext& context) {
  const TensorType& type = context.operand(0).type;
  HY_TRY(RequireDType(context, 0, type.dtype != DType::kBool, "integers and floats"));
  HY_TRY(RequireFlag(context, "keep_dims"));
  HY_TRY(RequireFlag(context, "select_last"));
  HY_ASSIGN(const size_t axis, AxisOf(context, "axis", type.dims.size()));
  if (!AssumeAtMost(context, context.module.exprs.Const(1), type.dims[axis],
                    fmt::format("an index along axis {}", axis))) {
    return InvalidArgument("{} has no elements along axis {}; an index needs 1.",
                           DescribeOperand(context, 0), axis);
  }
  std::vector<bool> is_reduced(type.dims.size(), false);
  is_reduced[axis] = true;
  return OneResult(DType::kI64, ReducedDims(context, is_reduced));
}

// A view of one row along an axis: the flat positions of its elements are first + i * stride.
struct Rows {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};
Rows RowsAlong(const std::vector<int64_t>& dims, size_t axis) {
  Rows rows;
  rows.size = dims[axis];
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i < axis) rows.outer *= dims[i];
    if (i > axis) rows.inner *= dims[i];
  }
  return rows;
}

template <bool kGreatest>
Result<std::vector<Tensor>> EvaluateArg(const EvalContext& context) {
  const Tensor& x = context.operands[0];
  HY_ASSIGN(Tensor result, MakeResult(context));
  HY_ASSIGN(const int64_t axis, GetInt(context.node, "axis"));
  const bool takes_last = IntOr(context.node, "select_last", 0) != 0;
  const Rows rows = RowsAlong(x.dims, static_cast<size_t>(axis));
  if (rows.size == 0 && result.elements() > 0) {
    return OutOfRange("{} of no elements (node '{}').", context.node.op->name, context.node.name);
  }
  // Whether element a beats element b strictly.
  const auto beats = [&](int64_t a, int64_t b) {
    if (IsFloat(x.dtype)) {
      const double left = LoadFloat(x, a);
      const double right = LoadFloat(x, b);
      if (std::isnan(left) || std::isnan(right)) return std::isnan(left) && !std::isnan(right);
      return kGreatest ? left > right : left < right;
    }
    return kGreatest ? IsLess(LoadInt(x, b), LoadInt(x, a), x.dtype)
                     : IsLess(LoadInt(x, a), LoadInt(x, b), x.dtype);
  };
  for (int64_t o = 0; o < rows.outer; ++o) {
    for (int64_t n = 0; n < rows.inner; ++n) {
      const auto position = [&](int64_t i) { return (o * rows.size + i) * rows.inner + n; };
      int64_t best = 0;
      for (int64_t i = 1; i < rows.size; ++i) {
        const bool wins =
            takes_last ? !beats(position(best), position(i)) : beats(position(i), position(best));
        if (wins) best = i;
      }
      StoreInt(result, o * rows.inner + n, best);
    }
  }
  return OneTensor(std::move(result));
}

Result<std::vector<Value>> InferCumsum(const InferContext& context) {
  const TensorType& type = context.operand(0).type;
  HY_TRY(RequireDType(context, 0, type.dtype != DType::kBool, "integers and floats"));
  HY_TRY(AxisOf(context, "axis", type.dims.size()));
  HY_TRY(RequireFlag(context, "exclusive"));
  HY_TRY(RequireFlag(context, "reverse"));
  return OneResult(type);
}

Result<std::vector<Tensor>> EvaluateCumsum(const EvalContext& context) {
  const Tensor& x = context.operands[0];
  HY_ASSIGN(Tensor result, MakeResult(context));
  HY_ASSIGN(const int64_t axis, GetInt(context.node, "axis"));
  const bool is_exclusive = IntOr(context.node, "exclusive", 0) != 0;
  const bool is_reversed = IntOr(context.node, "reverse", 0) != 0;
  const Rows rows = RowsAlong(x.dims, static_cast<size_t>(axis));
  for (int64_t o = 0; o < rows.outer; ++o) {
    for (int64_t n = 0; n < rows.inner; ++n) {
      Accumulator sum;
      for (int64_t step = 0; step < rows.size; ++step) {
        const int64_t i = is_reversed ? rows.size - 1 - step : step;
        const int64_t at = (o * rows.size + i) * rows.inner + n;
        const auto store = [&] {
          if (IsFloat(x.dtype)) {
            StoreFloat(result, at, sum.real);
          } else {
            StoreInt(result, at, sum.whole);
          }
        };
        if (is_exclusive) store();
        if (IsFloat(x.dtype)) {
          sum.real += LoadFloat(x, at);
        } else {
          sum.whole = kSum.whole_step(sum.whole, LoadInt(x, at), x.dtype);
        }
        if (!is_exclusive) store();
      }
    }
  }
  return OneTensor(std::move(result));
}

constexpr AttributeDef kReduceAttributes[] = {
    {"axes", AttributeKind::kInts, true,
     "Distinct axes in ascending order, each in [0, rank). Empty: nothing is "
     "reduced."},
    {"keep_dims", AttributeKind::kInt, false, "1 keeps the reduced axes with size 1. Default 0."},
};

constexpr AttributeDef kArgAttributes[] = {
    {"axis", AttributeKind::kInt, true, "In [0, rank); its dim is at least 1."},
    {"keep_dims", AttributeKind::kInt, false, "1 keeps the axis with size 1. Default 0."},
    {"select_last", AttributeKind::kInt, false,
     "1 takes the last of equal elements instead of the first. Default 0."},
};

constexpr AttributeDef kCumsumAttributes[] = {
    {"axis", AttributeKind::kInt, true, "In [0, rank)."},
    {"exclusive", AttributeKind::kInt, false, "1 leaves the element itself out. Default 0."},
    {"reverse", AttributeKind::kInt, false, "1 runs from the end. Default 0."},
};

constexpr OpCase kReduceSumCases[] = {
    {"f32[2, 3]{1, 2, 3, 4, 5, 6}", "axes = [1]", "f32[2]{6, 15}"},
    {"f32[2, 3]{1, 2, 3, 4, 5, 6}", "axes = [0, 1], keep_dims = 1", "f32[1, 1]{21}"},
    {"i8[2]{100, 100}", "axes = [0]", "i8[]{-56}"},
    {"f32[0, 2]{}", "axes = [0]", "f32[2]{0, 0}"},
    {"f32[2]{1, 2}", "axes = []", "f32[2]{1, 2}"},
};

constexpr OpCase kReduceProdCases[] = {
    {"f32[2, 2]{1, 2, 3, 4}", "axes = [0]", "f32[2]{3, 8}"},
    {"i32[0]{}", "axes = [0]", "i32[]{1}"},
};

constexpr OpCase kReduceMaxCases[] = {
    {"f32[2, 2]{1, 2, nan, 4}", "axes = [0]", "f32[2]{nan, 4}"},
    {"f32[0]{}", "axes = [0]", "f32[]{-inf}"},
    {"i8[0]{}", "axes = [0]", "i8[]{-128}"},
    {"u8[2]{3, 200}", "axes = [0]", "u8[]{200}"},
};

constexpr OpCase kReduceMinCases[] = {
    {"i32[3]{3, -1, 2}", "axes = [0]", "i32[]{-1}"},
    {"i16[0]{}", "axes = [0]", "i16[]{32767}"},
    {"u64[2]{18446744073709551615, 7}", "axes = [0]", "u64[]{7}"},
};

constexpr OpCase kReduceAnyCases[] = {
    {"bool[2, 2]{false, true, false, false}", "axes = [1]", "bool[2]{true, false}"},
    {"bool[0]{}", "axes = [0]", "bool[]{false}"},
};

constexpr OpCase kReduceAllCases[] = {
    {"bool[2, 2]{true, true, false, true}", "axes = [1]", "bool[2]{true, false}"},
    {"bool[0]{}", "axes = [0]", "bool[]{true}"},
};

constexpr OpCase kArgmaxCases[] = {
    {"f32[2, 3]{1, 3, 3, 9, nan, 4}", "axis = 1", "i64[2]{1, 1}"},
    {"f32[1, 3]{1, 3, 3}", "axis = 1, keep_dims = 1, select_last = 1", "i64[1, 1]{2}"},
};

constexpr OpCase kArgminCases[] = {
    {"i32[2, 2]{2, 2, 5, 1}", "axis = 0", "i64[2]{0, 1}"},
    {"i32[3]{1, 0, 0}", "axis = 0, select_last = 1", "i64[]{2}"},
};

constexpr OpCase kCumsumCases[] = {
    {"f64[5]{1, 2, 3, 4, 5}", "axis = 0", "f64[5]{1, 3, 6, 10, 15}"},
    {"f64[5]{1, 2, 3, 4, 5}", "axis = 0, exclusive = 1", "f64[5]{0, 1, 3, 6, 10}"},
    {"f64[5]{1, 2, 3, 4, 5}", "axis = 0, exclusive = 1, reverse = 1", "f64[5]{14, 12, 9, 5, 0}"},
    {"i32[2, 2]{1, 2, 3, 4}", "axis = 0", "i32[2, 2]{1, 2, 4, 6}"},
};

constexpr OpDef kReductionOps[] = {
    {
        .name = "reduce_sum",
        .doc = "Sum; 0 of nothing. Integers wrap.",
        .traits = kReduction,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kReduceAttributes,
        .infer = InferReduce,
        .evaluate = EvaluateReduce<kSum>,
        .cases = kReduceSumCases,
    },
    {
        .name = "reduce_prod",
        .doc = "Product; 1 of nothing. Integers wrap.",
        .traits = kReduction,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kReduceAttributes,
        .infer = InferReduce,
        .evaluate = EvaluateReduce<kProd>,
        .cases = kReduceProdCases,
    },
    {
        .name = "reduce_max",
        .doc = "Greatest; NaN when one is NaN; of nothing -inf or the least integer.",
        .traits = kReduction,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kReduceAttributes,
        .infer = InferReduce,
        .evaluate = EvaluateReduce<kMax>,
        .cases = kReduceMaxCases,
    },
    {
        .name = "reduce_min",
        .doc = "Least; NaN when one is NaN; of nothing +inf or the greatest integer.",
        .traits = kReduction,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kReduceAttributes,
        .infer = InferReduce,
        .evaluate = EvaluateReduce<kMin>,
        .cases = kReduceMinCases,
    },
    {
        .name = "reduce_any",
        .doc = "Whether one bool is true; false of nothing.",
        .traits = kReduction,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kReduceAttributes,
        .infer = InferReduce,
        .evaluate = EvaluateReduce<kAny>,
        .cases = kReduceAnyCases,
    },
    {
        .name = "reduce_all",
        .doc = "Whether all bools are true; true of nothing.",
        .traits = kReduction,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kReduceAttributes,
        .infer = InferReduce,
        .evaluate = EvaluateReduce<kAll>,
        .cases = kReduceAllCases,
    },
    {
        .name = "argmax",
        .doc = "Index (i64) of the greatest element; NaN counts as the greatest.",
        .traits = kReduction,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kArgAttributes,
        .infer = InferArg,
        .evaluate = EvaluateArg<true>,
        .cases = kArgmaxCases,
    },
    {
        .name = "argmin",
        .doc = "Index (i64) of the least element; NaN counts as the least.",
        .traits = kReduction,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kArgAttributes,
        .infer = InferArg,
        .evaluate = EvaluateArg<false>,
        .cases = kArgminCases,
    },
    {
        .name = "cumsum",
        .doc = "Running sum along an axis. Integers wrap.",
        .traits = kTemplate,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kCumsumAttributes,
        .infer = InferCumsum,
        .evaluate = EvaluateCumsum,
        .cases = kCumsumCases,
    },
};

}  // namespace

std::span<const OpDef> ReductionOps() { return kReductionOps; }

}  // namespace halyard::graph
