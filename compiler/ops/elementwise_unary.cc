// SPDX-License-Identifier: Apache-2.0
// Elementwise ops of one operand; the result has the type of the operand.
#include <cmath>

#include "compiler/ops/elements.h"
#include "compiler/ops/families.h"
#include "compiler/ops/reference.h"
#include "compiler/ops/shape_rules.h"

namespace halyard::graph {
namespace {

enum class UnaryTakes { kFloats, kNumbers, kSignedAndFloats, kBits };

template <UnaryTakes kTakes>
Result<std::vector<Value>> InferUnary(const InferContext& context) {
  const TensorType& type = context.operand(0).type;
  const DType dtype = type.dtype;
  const bool is_number = IsFloat(dtype) || IsInteger(dtype);
  switch (kTakes) {
    case UnaryTakes::kFloats:
      HY_TRY(RequireDType(context, 0, IsFloat(dtype), "floats"));
      break;
    case UnaryTakes::kNumbers:
      HY_TRY(RequireDType(context, 0, is_number, "integers and floats"));
      break;
    case UnaryTakes::kSignedAndFloats:
      HY_TRY(RequireDType(context, 0, IsFloat(dtype) || IsSigned(dtype),
                          "signed integers and floats"));
      break;
    case UnaryTakes::kBits:
      HY_TRY(RequireDType(context, 0, !IsFloat(dtype), "bool and integers"));
      break;
  }
  std::vector<Value> results = OneResult(type);
  results[0].elements = ElementwiseElements(context);
  return results;
}

using UnaryFloat = double (*)(double);

template <UnaryFloat kFunction>
Result<std::vector<Tensor>> EvaluateFloats(const EvalContext& context) {
  HY_ASSIGN(Tensor result, MakeResult(context));
  for (int64_t i = 0; i < result.elements(); ++i) {
    StoreFloat(result, i, kFunction(LoadFloat(context.operands[0], i)));
  }
  return OneTensor(std::move(result));
}

double ReciprocalSqrt(double x) { return 1 / std::sqrt(x); }
double RoundEven(double x) { return std::nearbyint(x); }  // in the default rounding mode

Result<std::vector<Tensor>> EvaluateNeg(const EvalContext& context) {
  HY_ASSIGN(Tensor result, MakeResult(context));
  for (int64_t i = 0; i < result.elements(); ++i) {
    if (IsFloat(result.dtype)) {
      StoreFloat(result, i, -LoadFloat(context.operands[0], i));
    } else {
      StoreInt(result, i,
               static_cast<int64_t>(0 - static_cast<uint64_t>(LoadInt(context.operands[0], i))));
    }
  }
  return OneTensor(std::move(result));
}

Result<std::vector<Tensor>> EvaluateAbs(const EvalContext& context) {
  HY_ASSIGN(Tensor result, MakeResult(context));
  for (int64_t i = 0; i < result.elements(); ++i) {
    if (IsFloat(result.dtype)) {
      StoreFloat(result, i, std::fabs(LoadFloat(context.operands[0], i)));
      continue;
    }
    const int64_t value = LoadInt(context.operands[0], i);
    const bool is_negative = IsSigned(result.dtype) && value < 0;
    StoreInt(result, i,
             is_negative ? static_cast<int64_t>(0 - static_cast<uint64_t>(value)) : value);
  }
  return OneTensor(std::move(result));
}

Result<std::vector<Tensor>> EvaluateNot(const EvalContext& context) {
  HY_ASSIGN(Tensor result, MakeResult(context));
  for (int64_t i = 0; i < result.elements(); ++i) {
    const int64_t value = LoadInt(context.operands[0], i);
    StoreInt(result, i, result.dtype == DType::kBool ? value == 0 : ~value);
  }
  return OneTensor(std::move(result));
}

constexpr OpCase kNegCases[] = {
    {"f32[2]{1.5, -0}", "", "f32[2]{-1.5, 0}"},
    {"i8[2]{-128, 5}", "", "i8[2]{-128, -5}"},
};

constexpr OpCase kAbsCases[] = {
    {"f32[3]{-2, 0.5, -inf}", "", "f32[3]{2, 0.5, inf}"},
    {"i8[2]{-128, -3}", "", "i8[2]{-128, 3}"},
    {"u8[1]{200}", "", "u8[1]{200}"},
};

constexpr OpCase kNotCases[] = {
    {"bool[2]{true, false}", "", "bool[2]{false, true}"},
    {"i8[2]{0, 5}", "", "i8[2]{-1, -6}"},
    {"u8[1]{1}", "", "u8[1]{254}"},
};

constexpr OpCase kSqrtCases[] = {
    {"f32[3]{4, 2, -1}", "", "f32[3]{2, 1.4142135, nan}"},
};

constexpr OpCase kRsqrtCases[] = {
    {"f32[3]{4, 0, 2}", "", "f32[3]{0.5, inf, 0.70710677}"},
};

constexpr OpCase kExpCases[] = {
    {"f64[3]{0, 1, -inf}", "", "f64[3]{1, 2.718281828459045, 0}"},
    {"f16[1]{100}", "", "f16[1]{inf}"},
};

constexpr OpCase kLogCases[] = {
    {"f64[4]{1, 0, -1, 10}", "", "f64[4]{0, -inf, nan, 2.302585092994046}"},
};

constexpr OpCase kSinCases[] = {
    {"f64[2]{0, 1}", "", "f64[2]{0, 0.8414709848078965}"},
};

constexpr OpCase kCosCases[] = {
    {"f64[2]{0, 1}", "", "f64[2]{1, 0.5403023058681398}"},
};

constexpr OpCase kTanCases[] = {
    {"f64[2]{0, 1}", "", "f64[2]{0, 1.5574077246549023}"},
};

constexpr OpCase kAsinCases[] = {
    {"f64[2]{1, 2}", "", "f64[2]{1.5707963267948966, nan}"},
};

constexpr OpCase kAcosCases[] = {
    {"f64[2]{1, -1}", "", "f64[2]{0, 3.141592653589793}"},
};

constexpr OpCase kAtanCases[] = {
    {"f64[2]{1, inf}", "", "f64[2]{0.7853981633974483, 1.5707963267948966}"},
};

constexpr OpCase kSinhCases[] = {
    {"f64[2]{0, 1}", "", "f64[2]{0, 1.1752011936438014}"},
};

constexpr OpCase kCoshCases[] = {
    {"f64[2]{0, 1}", "", "f64[2]{1, 1.543080634815244}"},
};

constexpr OpCase kTanhCases[] = {
    {"f64[3]{0, 1, inf}", "", "f64[3]{0, 0.7615941559557649, 1}"},
};

constexpr OpCase kAsinhCases[] = {
    {"f64[2]{0, 1}", "", "f64[2]{0, 0.881373587019543}"},
};

constexpr OpCase kAcoshCases[] = {
    {"f64[2]{1, 2}", "", "f64[2]{0, 1.3169578969248166}"},
};

constexpr OpCase kAtanhCases[] = {
    {"f64[2]{0, 0.5}", "", "f64[2]{0, 0.5493061443340548}"},
};

constexpr OpCase kErfCases[] = {
    {"f64[2]{0, 1}", "", "f64[2]{0, 0.8427007929497149}"},
};

constexpr OpCase kFloorCases[] = {
    {"f32[3]{1.5, -1.5, -0.5}", "", "f32[3]{1, -2, -1}"},
};

constexpr OpCase kCeilCases[] = {
    {"f32[3]{1.5, -1.5, 0.2}", "", "f32[3]{2, -1, 1}"},
};

constexpr OpCase kTruncCases[] = {
    {"f32[3]{1.9, -1.9, inf}", "", "f32[3]{1, -1, inf}"},
};

constexpr OpCase kRoundEvenCases[] = {
    {"f32[5]{0.5, 1.5, 2.5, -0.5, -1.5}", "", "f32[5]{0, 2, 2, -0, -2}"},
};

constexpr OpDef kUnaryOps[] = {
    {
        .name = "neg",
        .doc = "-x; integers wrap. Signed integers and floats.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kSignedAndFloats>,
        .evaluate = EvaluateNeg,
        .cases = kNegCases,
    },
    {
        .name = "abs",
        .doc = "|x|; the least integer stays itself. Integers and floats.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kNumbers>,
        .evaluate = EvaluateAbs,
        .cases = kAbsCases,
    },
    {
        .name = "not",
        .doc = "Logical complement of bool, bitwise complement of integers.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kBits>,
        .evaluate = EvaluateNot,
        .cases = kNotCases,
    },
    {
        .name = "sqrt",
        .doc = "Square root; NaN below 0. Floats, as all that follow.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kFloats>,
        .evaluate = EvaluateFloats<static_cast<UnaryFloat>(std::sqrt)>,
        .cases = kSqrtCases,
    },
    {
        .name = "rsqrt",
        .doc = "1 / sqrt(x); +inf at +0.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kFloats>,
        .evaluate = EvaluateFloats<ReciprocalSqrt>,
        .cases = kRsqrtCases,
    },
    {
        .name = "exp",
        .doc = "e to the power x.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kFloats>,
        .evaluate = EvaluateFloats<static_cast<UnaryFloat>(std::exp)>,
        .cases = kExpCases,
    },
    {
        .name = "log",
        .doc = "Natural logarithm; NaN below 0, -inf at 0.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kFloats>,
        .evaluate = EvaluateFloats<static_cast<UnaryFloat>(std::log)>,
        .cases = kLogCases,
    },
    {
        .name = "sin",
        .doc = "Sine of radians. Of f64 beyond 1.6e6 the absolute error grows as |x| * 2^-52.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kFloats>,
        .evaluate = EvaluateFloats<static_cast<UnaryFloat>(std::sin)>,
        .cases = kSinCases,
    },
    {
        .name = "cos",
        .doc = "Cosine of radians. Of f64 beyond 1.6e6 the absolute error grows as |x| * 2^-52.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kFloats>,
        .evaluate = EvaluateFloats<static_cast<UnaryFloat>(std::cos)>,
        .cases = kCosCases,
    },
    {
        .name = "tan",
        .doc = "Tangent of radians. Of f64 beyond 1.6e6 the absolute error grows as |x| * 2^-52.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kFloats>,
        .evaluate = EvaluateFloats<static_cast<UnaryFloat>(std::tan)>,
        .cases = kTanCases,
    },
    {
        .name = "asin",
        .doc = "Arc sine.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kFloats>,
        .evaluate = EvaluateFloats<static_cast<UnaryFloat>(std::asin)>,
        .cases = kAsinCases,
    },
    {
        .name = "acos",
        .doc = "Arc cosine.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kFloats>,
        .evaluate = EvaluateFloats<static_cast<UnaryFloat>(std::acos)>,
        .cases = kAcosCases,
    },
    {
        .name = "atan",
        .doc = "Arc tangent.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kFloats>,
        .evaluate = EvaluateFloats<static_cast<UnaryFloat>(std::atan)>,
        .cases = kAtanCases,
    },
    {
        .name = "sinh",
        .doc = "Hyperbolic sine.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kFloats>,
        .evaluate = EvaluateFloats<static_cast<UnaryFloat>(std::sinh)>,
        .cases = kSinhCases,
    },
    {
        .name = "cosh",
        .doc = "Hyperbolic cosine.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kFloats>,
        .evaluate = EvaluateFloats<static_cast<UnaryFloat>(std::cosh)>,
        .cases = kCoshCases,
    },
    {
        .name = "tanh",
        .doc = "Hyperbolic tangent.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kFloats>,
        .evaluate = EvaluateFloats<static_cast<UnaryFloat>(std::tanh)>,
        .cases = kTanhCases,
    },
    {
        .name = "asinh",
        .doc = "Inverse hyperbolic sine.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kFloats>,
        .evaluate = EvaluateFloats<static_cast<UnaryFloat>(std::asinh)>,
        .cases = kAsinhCases,
    },
    {
        .name = "acosh",
        .doc = "Inverse hyperbolic cosine.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kFloats>,
        .evaluate = EvaluateFloats<static_cast<UnaryFloat>(std::acosh)>,
        .cases = kAcoshCases,
    },
    {
        .name = "atanh",
        .doc = "Inverse hyperbolic tangent.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kFloats>,
        .evaluate = EvaluateFloats<static_cast<UnaryFloat>(std::atanh)>,
        .cases = kAtanhCases,
    },
    {
        .name = "erf",
        .doc = "The Gauss error function.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kFloats>,
        .evaluate = EvaluateFloats<static_cast<UnaryFloat>(std::erf)>,
        .cases = kErfCases,
    },
    {
        .name = "floor",
        .doc = "Rounds towards minus infinity.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kFloats>,
        .evaluate = EvaluateFloats<static_cast<UnaryFloat>(std::floor)>,
        .cases = kFloorCases,
    },
    {
        .name = "ceil",
        .doc = "Rounds towards plus infinity.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kFloats>,
        .evaluate = EvaluateFloats<static_cast<UnaryFloat>(std::ceil)>,
        .cases = kCeilCases,
    },
    {
        .name = "trunc",
        .doc = "Rounds towards zero.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kFloats>,
        .evaluate = EvaluateFloats<static_cast<UnaryFloat>(std::trunc)>,
        .cases = kTruncCases,
    },
    {
        .name = "round_even",
        .doc = "Rounds to the nearest integer, ties to even.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferUnary<UnaryTakes::kFloats>,
        .evaluate = EvaluateFloats<RoundEven>,
        .cases = kRoundEvenCases,
    },
};

}  // namespace

std::span<const OpDef> UnaryOps() { return kUnaryOps; }

}  // namespace halyard::graph
