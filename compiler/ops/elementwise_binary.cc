// SPDX-License-Identifier: Apache-2.0
// Elementwise ops of two operands of one type, which is the type of the result.
#include <cmath>
#include <limits>

#include "base/check.h"
#include "compiler/ops/elements.h"
#include "compiler/ops/families.h"
#include "compiler/ops/reference.h"
#include "compiler/ops/shape_rules.h"

namespace halyard::graph {
namespace {

enum class BinaryTakes { kNumbers, kIntegers, kBits };

template <BinaryTakes kTakes>
Result<std::vector<Value>> InferBinary(const InferContext& context) {
  const DType dtype = context.operand(0).type.dtype;
  switch (kTakes) {
    case BinaryTakes::kNumbers:
      HY_TRY(RequireDType(context, 0, dtype != DType::kBool, "integers and floats"));
      break;
    case BinaryTakes::kIntegers:
      HY_TRY(RequireDType(context, 0, IsInteger(dtype), "integers"));
      break;
    case BinaryTakes::kBits:
      HY_TRY(RequireDType(context, 0, !IsFloat(dtype), "bool and integers"));
      break;
  }
  HY_TRY(RequireSameDType(context, 0, 1));
  HY_ASSIGN(std::vector<Expr> dims, CommonShape(context));
  std::vector<Value> results = OneResult(dtype, std::move(dims));
  results[0].elements = ElementwiseElements(context);
  return results;
}

// What an integer function needs to know about its dtype.
struct IntegerKind {
  int width;
  bool is_signed;
};

using BinaryFloat = double (*)(double, double);
using IntegerFunction = int64_t (*)(int64_t, int64_t, IntegerKind);

// The f32 sum, product and quotient of doubles rounds to the same f32 as the direct operation,
// because a double has more than twice the digits.
template <BinaryFloat kFloat, IntegerFunction kInteger>
Result<std::vector<Tensor>> Evaluate(const EvalContext& context) {
  HY_ASSIGN(Tensor result, MakeResult(context));
  const IntegerKind kind{BitWidth(result.dtype), IsSigned(result.dtype)};
  for (int64_t i = 0; i < result.elements(); ++i) {
    if (IsFloat(result.dtype)) {
      StoreFloat(result, i,
                 kFloat(LoadFloat(context.operands[0], i), LoadFloat(context.operands[1], i)));
    } else {
      StoreInt(result, i,
               kInteger(LoadInt(context.operands[0], i), LoadInt(context.operands[1], i), kind));
    }
  }
  return OneTensor(std::move(result));
}

uint64_t U(int64_t x) { return static_cast<uint64_t>(x); }
int64_t S(uint64_t x) { return static_cast<int64_t>(x); }

double AddFloat(double a, double b) { return a + b; }
double SubFloat(double a, double b) { return a - b; }
double MulFloat(double a, double b) { return a * b; }
double DivFloat(double a, double b) { return a / b; }
double RemFloat(double a, double b) { return std::fmod(a, b); }
double PowFloat(double a, double b) { return std::pow(a, b); }
double MinFloat(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return b < a ? b : a;
}
double MaxFloat(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return b > a ? b : a;
}
double NoFloat(double, double) { HY_UNREACHABLE("the shape rule takes no floats"); }

int64_t AddInt(int64_t a, int64_t b, IntegerKind) { return S(U(a) + U(b)); }
int64_t SubInt(int64_t a, int64_t b, IntegerKind) { return S(U(a) - U(b)); }
int64_t MulInt(int64_t a, int64_t b, IntegerKind) { return S(U(a) * U(b)); }
int64_t DivInt(int64_t a, int64_t b, IntegerKind kind) {
  if (b == 0) return 0;
  if (!kind.is_signed) return S(U(a) / U(b));
  return b == -1 ? S(0 - U(a)) : a / b;
}
int64_t RemInt(int64_t a, int64_t b, IntegerKind kind) {
  if (b == 0) return 0;
  if (!kind.is_signed) return S(U(a) % U(b));
  return b == -1 ? 0 : a % b;
}
int64_t PowInt(int64_t a, int64_t b, IntegerKind kind) {
  if (kind.is_signed && b < 0) {
    if (a == 1) return 1;
    if (a == -1) return b % 2 == 0 ? 1 : -1;
    return 0;
  }
  uint64_t power = 1;
  uint64_t square = U(a);
  for (uint64_t rest = U(b); rest != 0; rest >>= 1) {
    if (rest & 1) power *= square;
    square *= square;
  }
  return S(power);
}
bool IsLess(int64_t a, int64_t b, IntegerKind kind) { return kind.is_signed ? a < b : U(a) < U(b); }
int64_t MinInt(int64_t a, int64_t b, IntegerKind kind) { return IsLess(b, a, kind) ? b : a; }
int64_t MaxInt(int64_t a, int64_t b, IntegerKind kind) { return IsLess(a, b, kind) ? b : a; }
int64_t AndInt(int64_t a, int64_t b, IntegerKind) { return a & b; }
int64_t OrInt(int64_t a, int64_t b, IntegerKind) { return a | b; }
int64_t XorInt(int64_t a, int64_t b, IntegerKind) { return a ^ b; }
int64_t ShlInt(int64_t a, int64_t b, IntegerKind kind) {
  return U(b) >= static_cast<uint64_t>(kind.width) ? 0 : S(U(a) << b);
}
int64_t ShrInt(int64_t a, int64_t b, IntegerKind kind) {
  const bool is_out = U(b) >= static_cast<uint64_t>(kind.width);
  if (kind.is_signed) return is_out ? (a < 0 ? -1 : 0) : a >> b;
  return is_out ? 0 : S(U(a) >> b);
}

constexpr OpCase kAddCases[] = {
    {"f32[2]{1, 2}; f32[2]{3, 4}", "", "f32[2]{4, 6}"},
    {"i8[1]{127}; i8[1]{1}", "", "i8[1]{-128}"},
    {"u8[1]{255}; u8[1]{2}", "", "u8[1]{1}"},
    {"f32[1]{16777216}; f32[1]{1}", "", "f32[1]{16777216}"},
    {"bf16[1]{256}; bf16[1]{1}", "", "bf16[1]{256}"},
};

constexpr OpCase kSubCases[] = {
    {"i64[1]{-9223372036854775808}; i64[1]{1}", "", "i64[1]{9223372036854775807}"},
    {"f32[2]{1, inf}; f32[2]{3, inf}", "", "f32[2]{-2, nan}"},
};

constexpr OpCase kMulCases[] = {
    {"i32[1]{65536}; i32[1]{65536}", "", "i32[1]{0}"},
    {"f32[2]{3, 0}; f32[2]{-2, inf}", "", "f32[2]{-6, nan}"},
};

constexpr OpCase kDivCases[] = {
    {"i32[5]{7, -7, 7, 5, -2147483648}; i32[5]{2, 2, -2, 0, -1}", "",
     "i32[5]{3, -3, -3, 0, -2147483648}"},
    {"f32[3]{1, -1, 0}; f32[3]{0, 0, 0}", "", "f32[3]{inf, -inf, nan}"},
    {"u64[1]{18446744073709551615}; u64[1]{2}", "", "u64[1]{9223372036854775807}"},
    {"i64[1]{-9223372036854775808}; i64[1]{-1}", "", "i64[1]{-9223372036854775808}"},
};

constexpr OpCase kRemCases[] = {
    {"i32[5]{7, -7, 7, 5, -2147483648}; i32[5]{3, 3, -3, 0, -1}", "", "i32[5]{1, -1, 1, 0, 0}"},
    {"f32[3]{5.5, -5.5, 1}; f32[3]{2, 2, 0}", "", "f32[3]{1.5, -1.5, nan}"},
};

constexpr OpCase kPowCases[] = {
    {"f32[3]{2, 2, -8}; f32[3]{10, -1, 0.5}", "", "f32[3]{1024, 0.5, nan}"},
    {"i32[5]{3, 2, -1, 1, 0}; i32[5]{4, -1, -3, -7, -1}", "", "i32[5]{81, 0, -1, 1, 0}"},
};

constexpr OpCase kMinCases[] = {
    {"f32[3]{1, nan, 2}; f32[3]{2, 1, nan}", "", "f32[3]{1, nan, nan}"},
    {"u64[1]{18446744073709551615}; u64[1]{1}", "", "u64[1]{1}"},
};

constexpr OpCase kMaxCases[] = {
    {"f32[3]{1, nan, -inf}; f32[3]{2, 1, -5}", "", "f32[3]{2, nan, -5}"},
    {"i8[1]{-1}; i8[1]{1}", "", "i8[1]{1}"},
    {"u8[1]{255}; u8[1]{1}", "", "u8[1]{255}"},
};

constexpr OpCase kAndCases[] = {
    {"bool[4]{true, true, false, false}; bool[4]{true, false, true, false}", "",
     "bool[4]{true, false, false, false}"},
    {"u8[1]{12}; u8[1]{10}", "", "u8[1]{8}"},
};

constexpr OpCase kOrCases[] = {
    {"bool[2]{false, false}; bool[2]{true, false}", "", "bool[2]{true, false}"},
    {"u8[1]{12}; u8[1]{10}", "", "u8[1]{14}"},
};

constexpr OpCase kXorCases[] = {
    {"bool[2]{true, true}; bool[2]{true, false}", "", "bool[2]{false, true}"},
    {"u8[1]{12}; u8[1]{10}", "", "u8[1]{6}"},
};

constexpr OpCase kShlCases[] = {
    {"u8[4]{1, 255, 1, 1}; u8[4]{3, 1, 8, 255}", "", "u8[4]{8, 254, 0, 0}"},
    {"i32[2]{1, 1}; i32[2]{31, -1}", "", "i32[2]{-2147483648, 0}"},
};

constexpr OpCase kShrCases[] = {
    {"i8[3]{-128, -1, 64}; i8[3]{3, 9, 9}", "", "i8[3]{-16, -1, 0}"},
    {"u8[2]{128, 255}; u8[2]{3, 9}", "", "u8[2]{16, 0}"},
    {"u64[1]{18446744073709551615}; u64[1]{63}", "", "u64[1]{1}"},
};

constexpr OpDef kBinaryOps[] = {
    {
        .name = "add",
        .doc = "a + b. Integers and floats.",
        .traits = kElementwise | kCommutative,
        .min_operands = 2,
        .max_operands = 2,
        .infer = InferBinary<BinaryTakes::kNumbers>,
        .evaluate = Evaluate<AddFloat, AddInt>,
        .cases = kAddCases,
    },
    {
        .name = "sub",
        .doc = "a - b. Integers and floats.",
        .traits = kElementwise,
        .min_operands = 2,
        .max_operands = 2,
        .infer = InferBinary<BinaryTakes::kNumbers>,
        .evaluate = Evaluate<SubFloat, SubInt>,
        .cases = kSubCases,
    },
    {
        .name = "mul",
        .doc = "a * b. Integers and floats.",
        .traits = kElementwise | kCommutative,
        .min_operands = 2,
        .max_operands = 2,
        .infer = InferBinary<BinaryTakes::kNumbers>,
        .evaluate = Evaluate<MulFloat, MulInt>,
        .cases = kMulCases,
    },
    {
        .name = "div",
        .doc = "a / b. Integers truncate towards zero; x / 0 is 0 and the least "
               "integer / -1 is itself.",
        .traits = kElementwise,
        .min_operands = 2,
        .max_operands = 2,
        .infer = InferBinary<BinaryTakes::kNumbers>,
        .evaluate = Evaluate<DivFloat, DivInt>,
        .cases = kDivCases,
    },
    {
        .name = "rem",
        .doc = "Remainder of the truncating division, with the sign of a; x rem 0 is 0 "
               "for integers and NaN for floats (C fmod).",
        .traits = kElementwise,
        .min_operands = 2,
        .max_operands = 2,
        .infer = InferBinary<BinaryTakes::kNumbers>,
        .evaluate = Evaluate<RemFloat, RemInt>,
        .cases = kRemCases,
    },
    {
        .name = "pow",
        .doc = "a to the power b. Floats as C pow; integers wrap, and a negative "
               "exponent gives the truncated quotient (0, 1 or -1; 0 for base 0).",
        .traits = kElementwise,
        .min_operands = 2,
        .max_operands = 2,
        .infer = InferBinary<BinaryTakes::kNumbers>,
        .evaluate = Evaluate<PowFloat, PowInt>,
        .cases = kPowCases,
    },
    {
        .name = "min",
        .doc = "The lesser; NaN when an operand is NaN. Integers and floats.",
        .traits = kElementwise | kCommutative,
        .min_operands = 2,
        .max_operands = 2,
        .infer = InferBinary<BinaryTakes::kNumbers>,
        .evaluate = Evaluate<MinFloat, MinInt>,
        .cases = kMinCases,
    },
    {
        .name = "max",
        .doc = "The greater; NaN when an operand is NaN. Integers and floats.",
        .traits = kElementwise | kCommutative,
        .min_operands = 2,
        .max_operands = 2,
        .infer = InferBinary<BinaryTakes::kNumbers>,
        .evaluate = Evaluate<MaxFloat, MaxInt>,
        .cases = kMaxCases,
    },
    {
        .name = "and",
        .doc = "Logical and of bool, bitwise and of integers.",
        .traits = kElementwise | kCommutative,
        .min_operands = 2,
        .max_operands = 2,
        .infer = InferBinary<BinaryTakes::kBits>,
        .evaluate = Evaluate<NoFloat, AndInt>,
        .cases = kAndCases,
    },
    {
        .name = "or",
        .doc = "Logical or of bool, bitwise or of integers.",
        .traits = kElementwise | kCommutative,
        .min_operands = 2,
        .max_operands = 2,
        .infer = InferBinary<BinaryTakes::kBits>,
        .evaluate = Evaluate<NoFloat, OrInt>,
        .cases = kOrCases,
    },
    {
        .name = "xor",
        .doc = "Exclusive or of bool or of the bits of integers.",
        .traits = kElementwise | kCommutative,
        .min_operands = 2,
        .max_operands = 2,
        .infer = InferBinary<BinaryTakes::kBits>,
        .evaluate = Evaluate<NoFloat, XorInt>,
        .cases = kXorCases,
    },
    {
        .name = "shl",
        .doc = "a << b; 0 when b is negative or not less than the width. Integers.",
        .traits = kElementwise,
        .min_operands = 2,
        .max_operands = 2,
        .infer = InferBinary<BinaryTakes::kIntegers>,
        .evaluate = Evaluate<NoFloat, ShlInt>,
        .cases = kShlCases,
    },
    {
        .name = "shr",
        .doc = "a >> b, arithmetic for signed types; 0 (signed: the sign, 0 or -1) "
               "when b is negative or not less than the width. Integers.",
        .traits = kElementwise,
        .min_operands = 2,
        .max_operands = 2,
        .infer = InferBinary<BinaryTakes::kIntegers>,
        .evaluate = Evaluate<NoFloat, ShrInt>,
        .cases = kShrCases,
    },
};

}  // namespace

std::span<const OpDef> BinaryOps() { return kBinaryOps; }

}  // namespace halyard::graph
