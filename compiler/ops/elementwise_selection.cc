// SPDX-License-Identifier: Apache-2.0
// Comparison, selection and conversion, element by element.
#include "compiler/ops/elements.h"
#include "compiler/ops/families.h"
#include "compiler/ops/reference.h"
#include "compiler/ops/shape_rules.h"

namespace halyard::graph {
namespace {

Result<std::vector<Value>> InferEquality(const InferContext& context) {
  HY_TRY(RequireSameDType(context, 0, 1));
  HY_ASSIGN(std::vector<Expr> dims, CommonShape(context));
  std::vector<Value> results = OneResult(DType::kBool, std::move(dims));
  results[0].elements = ElementwiseElements(context);
  return results;
}

Result<std::vector<Value>> InferOrder(const InferContext& context) {
  HY_TRY(RequireDType(context, 0, context.operand(0).type.dtype != DType::kBool,
                      "integers and floats"));
  return InferEquality(context);
}

struct Order {
  bool is_less;
  bool is_equal;
  bool is_greater;  // none of the three: an operand is NaN
};

using Question = bool (*)(Order);

template <Question kQuestion>
Result<std::vector<Tensor>> EvaluateComparison(const EvalContext& context) {
  HY_ASSIGN(Tensor result, MakeResult(context));
  const DType dtype = context.operands[0].dtype;
  for (int64_t i = 0; i < result.elements(); ++i) {
    Order order;
    if (IsFloat(dtype)) {
      const double a = LoadFloat(context.operands[0], i);
      const double b = LoadFloat(context.operands[1], i);
      order = {a<b, a == b, a> b};
    } else if (dtype == DType::kU64) {
      const auto a = static_cast<uint64_t>(LoadInt(context.operands[0], i));
      const auto b = static_cast<uint64_t>(LoadInt(context.operands[1], i));
      order = {a<b, a == b, a> b};
    } else {
      const int64_t a = LoadInt(context.operands[0], i);
      const int64_t b = LoadInt(context.operands[1], i);
      order = {a<b, a == b, a> b};
    }
    StoreInt(result, i, kQuestion(order));
  }
  return OneTensor(std::move(result));
}

bool IsEqual(Order o) { return o.is_equal; }
bool IsUnequal(Order o) { return !o.is_equal; }
bool IsLess(Order o) { return o.is_less; }
bool IsLessOrEqual(Order o) { return o.is_less || o.is_equal; }
bool IsGreater(Order o) { return o.is_greater; }
bool IsGreaterOrEqual(Order o) { return o.is_greater || o.is_equal; }

Result<std::vector<Value>> InferSelect(const InferContext& context) {
  HY_TRY(
      RequireDType(context, 0, context.operand(0).type.dtype == DType::kBool, "a bool condition"));
  HY_TRY(RequireSameDType(context, 1, 2));
  HY_ASSIGN(std::vector<Expr> dims, CommonShape(context));
  std::vector<Value> results = OneResult(context.operand(1).type.dtype, std::move(dims));
  const Elements& condition = context.operand(0).elements;
  const Elements& a = context.operand(1).elements;
  const Elements& b = context.operand(2).elements;
  if (!condition || !a || !b) return results;
  std::vector<Expr> elements;
  for (size_t i = 0; i < condition->size(); ++i) {
    const std::optional<int64_t> truth = context.module.exprs.AsConst((*condition)[i]);
    if (!truth && (*a)[i] != (*b)[i]) return results;
    elements.push_back(truth.value_or(1) != 0 ? (*a)[i] : (*b)[i]);
  }
  results[0].elements = std::move(elements);
  return results;
}

Result<std::vector<Tensor>> EvaluateSelect(const EvalContext& context) {
  HY_ASSIGN(Tensor result, MakeResult(context));
  for (int64_t i = 0; i < result.elements(); ++i) {
    const size_t chosen = LoadInt(context.operands[0], i) != 0 ? 1 : 2;
    CopyElement(context.operands[chosen], i, result, i);
  }
  return OneTensor(std::move(result));
}

Result<std::vector<Value>> InferCast(const InferContext& context) {
  HY_ASSIGN(const DType dtype, GetDType(context.node, "dtype"));
  std::vector<Value> results = OneResult(dtype, context.operand(0).type.dims);
  const Elements& from = context.operand(0).elements;
  if (!from || IsFloat(dtype) || dtype == DType::kU64) return results;
  std::vector<Expr> elements;
  for (const Expr element : *from) {
    const std::optional<int64_t> value = context.module.exprs.AsConst(element);
    if (!value && dtype == DType::kBool) return results;
    elements.push_back(value ? context.module.exprs.Const(WrapTo(dtype, *value)) : element);
  }
  results[0].elements = std::move(elements);
  return results;
}

Result<std::vector<Tensor>> EvaluateCast(const EvalContext& context) {
  HY_ASSIGN(Tensor result, MakeResult(context));
  for (int64_t i = 0; i < result.elements(); ++i) {
    ConvertElement(context.operands[0], i, result, i);
  }
  return OneTensor(std::move(result));
}

Result<std::vector<Value>> InferBitcast(const InferContext& context) {
  HY_ASSIGN(const DType dtype, GetDType(context.node, "dtype"));
  const DType from = context.operand(0).type.dtype;
  HY_TRY(RequireDType(
      context, 0,
      BitWidth(from) == BitWidth(dtype) && from != DType::kBool && dtype != DType::kBool,
      fmt::format("dtypes of {} bits but bool", BitWidth(dtype))));
  return OneResult(dtype, context.operand(0).type.dims);
}

Result<std::vector<Tensor>> EvaluateBitcast(const EvalContext& context) {
  HY_ASSIGN(Tensor result, MakeResult(context));
  result.bytes = context.operands[0].bytes;
  return OneTensor(std::move(result));
}

constexpr AttributeDef kToAttributes[] = {
    {"dtype", AttributeKind::kDType, true, "The dtype of the result."},
};

constexpr OpCase kEqCases[] = {
    {"f32[3]{1, nan, 0}; f32[3]{1, nan, -0}", "", "bool[3]{true, false, true}"},
    {"bool[2]{true, false}; bool[2]{true, true}", "", "bool[2]{true, false}"},
};

constexpr OpCase kNeCases[] = {
    {"f32[2]{1, nan}; f32[2]{1, nan}", "", "bool[2]{false, true}"},
};

constexpr OpCase kLtCases[] = {
    {"f32[3]{1, nan, 2}; f32[3]{2, 1, 2}", "", "bool[3]{true, false, false}"},
    {"u64[1]{1}; u64[1]{18446744073709551615}", "", "bool[1]{true}"},
};

constexpr OpCase kLeCases[] = {
    {"i32[3]{1, 2, 3}; i32[3]{2, 2, 2}", "", "bool[3]{true, true, false}"},
};

constexpr OpCase kGtCases[] = {
    {"i32[3]{1, 2, 3}; i32[3]{2, 2, 2}", "", "bool[3]{false, false, true}"},
};

constexpr OpCase kGeCases[] = {
    {"f32[3]{1, nan, 2}; f32[3]{2, 1, 2}", "", "bool[3]{false, false, true}"},
};

constexpr OpCase kSelectCases[] = {
    {"bool[2]{true, false}; i64[2]{1, 2}; i64[2]{3, 4}", "", "i64[2]{1, 4}"},
    {"bool[3]{true, false, true}; f32[3]{1, 2, nan}; f32[3]{4, 5, 6}", "", "f32[3]{1, 5, nan}"},
};

constexpr OpCase kCastCases[] = {
    {"f32[6]{1.9, -1.9, nan, 300, -300, inf}", "dtype = i8", "i8[6]{1, -1, 0, 127, -128, 127}"},
    {"i32[3]{300, -1, 128}", "dtype = u8", "u8[3]{44, 255, 128}"},
    {"f32[3]{0, -0, 0.5}", "dtype = bool", "bool[3]{false, false, true}"},
    {"bool[2]{true, false}", "dtype = f32", "f32[2]{1, 0}"},
    {"f32[3]{65519, 65520, 1.0009765625}", "dtype = f16", "f16[3]{65500, inf, 1.001}"},
    {"f32[2]{1.00390625, 1.01171875}", "dtype = bf16", "bf16[2]{1, 1.016}"},
    {"i64[1]{16777217}", "dtype = f32", "f32[1]{16777216}"},
    {"f32[3]{448, 480, 0.001953125}", "dtype = f8e4m3", "f8e4m3[3]{448, nan, 0.001953125}"},
    {"f64[2]{1e20, -1}", "dtype = u64", "u64[2]{18446744073709551615, 0}"},
};

constexpr OpCase kBitcastCases[] = {
    {"f32[2]{1, -0}", "dtype = u32", "u32[2]{1065353216, 2147483648}"},
    {"u16[1]{15360}", "dtype = f16", "f16[1]{1}"},
};

constexpr OpDef kSelectionOps[] = {
    {
        .name = "eq",
        .doc = "a == b, bool. Any dtype; false when an operand is NaN.",
        .traits = kElementwise | kCommutative,
        .min_operands = 2,
        .max_operands = 2,
        .infer = InferEquality,
        .evaluate = EvaluateComparison<IsEqual>,
        .cases = kEqCases,
    },
    {
        .name = "ne",
        .doc = "a != b, bool. Any dtype; true when an operand is NaN.",
        .traits = kElementwise | kCommutative,
        .min_operands = 2,
        .max_operands = 2,
        .infer = InferEquality,
        .evaluate = EvaluateComparison<IsUnequal>,
        .cases = kNeCases,
    },
    {
        .name = "lt",
        .doc = "a < b, bool. Integers and floats; false when an operand is NaN.",
        .traits = kElementwise,
        .min_operands = 2,
        .max_operands = 2,
        .infer = InferOrder,
        .evaluate = EvaluateComparison<IsLess>,
        .cases = kLtCases,
    },
    {
        .name = "le",
        .doc = "a <= b, bool. As lt.",
        .traits = kElementwise,
        .min_operands = 2,
        .max_operands = 2,
        .infer = InferOrder,
        .evaluate = EvaluateComparison<IsLessOrEqual>,
        .cases = kLeCases,
    },
    {
        .name = "gt",
        .doc = "a > b, bool. As lt.",
        .traits = kElementwise,
        .min_operands = 2,
        .max_operands = 2,
        .infer = InferOrder,
        .evaluate = EvaluateComparison<IsGreater>,
        .cases = kGtCases,
    },
    {
        .name = "ge",
        .doc = "a >= b, bool. As lt.",
        .traits = kElementwise,
        .min_operands = 2,
        .max_operands = 2,
        .infer = InferOrder,
        .evaluate = EvaluateComparison<IsGreaterOrEqual>,
        .cases = kGeCases,
    },
    {
        .name = "select",
        .doc = "a where the condition (bool) is true, b elsewhere; all three have one "
               "shape.",
        .traits = kElementwise,
        .min_operands = 3,
        .max_operands = 3,
        .infer = InferSelect,
        .evaluate = EvaluateSelect,
        .cases = kSelectCases,
    },
    {
        .name = "cast",
        .doc = "Converts values. Float to integer truncates and saturates, NaN becomes "
               "0; integer to integer keeps the low bits; anything to bool is != 0; "
               "bool gives 0 or 1; to a float rounds to nearest even.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kToAttributes,
        .infer = InferCast,
        .evaluate = EvaluateCast,
        .cases = kCastCases,
    },
    {
        .name = "bitcast",
        .doc = "The same bits as another dtype of equal width.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kToAttributes,
        .infer = InferBitcast,
        .evaluate = EvaluateBitcast,
        .cases = kBitcastCases,
    },
};

}  // namespace

std::span<const OpDef> SelectionOps() { return kSelectionOps; }

}  // namespace halyard::graph
