// SPDX-License-Identifier: Apache-2.0
// Arithmetic, comparison, logic and conversion, element by element.
#include <cmath>
#include <string_view>
#include <utility>

#include "compiler/import/onnx_context.h"
#include "compiler/import/onnx_tensor.h"

namespace halyard::onnx {
namespace {

// ONNX ops that are one op here.
constexpr std::pair<std::string_view, std::string_view> kSameOps[] = {
    {"Abs", "abs"},
    {"Acos", "acos"},
    {"Acosh", "acosh"},
    {"Asin", "asin"},
    {"Asinh", "asinh"},
    {"Atan", "atan"},
    {"Atanh", "atanh"},
    {"Ceil", "ceil"},
    {"Cos", "cos"},
    {"Cosh", "cosh"},
    {"Erf", "erf"},
    {"Exp", "exp"},
    {"Floor", "floor"},
    {"Log", "log"},
    {"Neg", "neg"},
    {"Not", "not"},
    {"Round", "round_even"},
    {"Sin", "sin"},
    {"Sinh", "sinh"},
    {"Sqrt", "sqrt"},
    {"Tan", "tan"},
    {"Tanh", "tanh"},
    {"BitwiseNot", "not"},
    {"Add", "add"},
    {"Sub", "sub"},
    {"Mul", "mul"},
    {"Div", "div"},
    {"And", "and"},
    {"Or", "or"},
    {"Xor", "xor"},
    {"BitwiseAnd", "and"},
    {"BitwiseOr", "or"},
    {"BitwiseXor", "xor"},
    {"Equal", "eq"},
    {"Less", "lt"},
    {"Greater", "gt"},
    {"LessOrEqual", "le"},
    {"GreaterOrEqual", "ge"},
};

std::string_view SameOp(std::string_view onnx) {
  for (const auto& [name, op] : kSameOps) {
    if (name == onnx) return op;
  }
  return {};
}

std::vector<V> ImportUnary(NodeContext& c) { return {c.Unary(SameOp(c.node.op_type), c.In(0))}; }

std::vector<V> ImportBinary(NodeContext& c) {
  return {c.Binary(SameOp(c.node.op_type), c.In(0), c.In(1))};
}

std::vector<V> ImportReciprocal(NodeContext& c) { return {1.0 / c.In(0)}; }

std::vector<V> ImportSign(NodeContext& c) {
  const V x = c.In(0);
  if (!c.ok()) return {};
  const V zero = c.Like(x, 0);
  if (KindOf(c.DTypeOf(x)) == DTypeKind::kUnsigned) {
    return {c.Select(c.Binary("gt", x, zero), c.Like(x, 1), zero)};
  }
  // Of NaN it is NaN.
  return {c.Select(c.Binary("gt", x, zero), c.Like(x, 1),
                   c.Select(c.Binary("lt", x, zero), c.Like(x, -1), x))};
}

std::vector<V> ImportPow(NodeContext& c) {
  const V x = c.In(0);
  const V y = c.In(1);
  const DType dtype = c.DTypeOf(x);
  if (!c.ok() || dtype == c.DTypeOf(y)) return {c.Binary("pow", x, y)};
  // The result has the type of the base; mixed kinds are computed in floats.
  if (IsInteger(dtype) && IsFloat(c.DTypeOf(y))) {
    const DType wide = DType::kF64;
    return {c.Cast(c.Binary("pow", c.Cast(x, wide), c.Cast(y, wide)), dtype)};
  }
  return {c.Binary("pow", x, c.Cast(y, dtype))};
}

std::vector<V> ImportMod(NodeContext& c) {
  const V x = c.In(0);
  const V y = c.In(1);
  const bool is_fmod = c.Int("fmod", 0) != 0;
  const V rest = c.Binary("rem", x, y);
  if (!c.ok()) return {};
  if (is_fmod) return {rest};
  if (KindOf(c.DTypeOf(x)) == DTypeKind::kUnsigned) return {rest};
  // The sign of the divisor, as in Python.
  const V zero = c.Like(x, 0);
  const V differs = c.Binary("xor", c.Binary("lt", rest, zero), c.Binary("lt", y, zero));
  return {c.Select(c.Binary("and", c.Binary("ne", rest, zero), differs), rest + y, rest)};
}

std::vector<V> ImportBitShift(NodeContext& c) {
  const std::string direction = c.String("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    c.Fail(InvalidArgument("Attribute 'direction' is '{}'; it must be LEFT or RIGHT.", direction));
    return {};
  }
  return {c.Binary(direction == "LEFT" ? "shl" : "shr", c.In(0), c.In(1))};
}

V Fold(NodeContext& c, std::string_view op) {
  V result = c.In(0);
  for (size_t i = 1; i < c.input_count(); ++i) result = c.Binary(op, result, c.In(i));
  return result;
}

std::vector<V> ImportMax(NodeContext& c) { return {Fold(c, "max")}; }
std::vector<V> ImportMin(NodeContext& c) { return {Fold(c, "min")}; }
std::vector<V> ImportSum(NodeContext& c) { return {Fold(c, "add")}; }
std::vector<V> ImportMean(NodeContext& c) {
  return {Fold(c, "add") / static_cast<double>(c.input_count())};
}

std::vector<V> ImportWhere(NodeContext& c) { return {c.Select(c.In(0), c.In(1), c.In(2))}; }

std::vector<V> ImportClip(NodeContext& c) {
  V x = c.In(0);
  if (c.opset < 11) {
    if (c.HasAttribute("min")) x = c.Binary("max", x, c.Like(x, c.Float("min", 0)));
    if (c.HasAttribute("max")) x = c.Binary("min", x, c.Like(x, c.Float("max", 0)));
    return {x};
  }
  if (c.Has(1)) x = c.Binary("max", x, c.In(1));
  if (c.Has(2)) x = c.Binary("min", x, c.In(2));
  return {x};
}

V ConvertTo(NodeContext& c, V x, DType dtype) {
  const bool narrows = dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2;
  if (narrows && c.Int("saturate", 1) != 0 && IsFloat(c.DTypeOf(x)) && c.DTypeOf(x) != dtype) {
    // The greatest finite value; NaN stays NaN, and infinity becomes that value.
    const double limit = dtype == DType::kF8E4M3 ? 448 : 57344;
    x = c.Binary("max", c.Binary("min", x, c.Like(x, limit)), c.Like(x, -limit));
  }
  // Out of range, ONNX keeps the low bits of 4-bit integers.
  if (BitWidth(dtype) == 4 && IsFloat(c.DTypeOf(x))) x = c.Cast(x, DType::kI32);
  return c.Cast(x, dtype);
}

std::vector<V> ImportCast(NodeContext& c) {
  const Result<DType> dtype = DTypeOf(c.Int("to", 0));
  if (!dtype.ok()) {
    c.Fail(dtype.status());
    return {};
  }
  return {ConvertTo(c, c.In(0), *dtype)};
}

std::vector<V> ImportCastLike(NodeContext& c) {
  const V x = c.In(0);
  return {ConvertTo(c, x, c.DTypeOf(c.In(1)))};
}

std::vector<V> ImportBitCast(NodeContext& c) {
  const Result<DType> dtype = DTypeOf(c.Int("to", 0));
  if (!dtype.ok()) {
    c.Fail(dtype.status());
    return {};
  }
  V x = c.In(0);
  // A bool is a byte of 0 or 1 in ONNX.
  if (c.DTypeOf(x) == DType::kBool) x = c.Cast(x, DType::kU8);
  if (*dtype == DType::kBool) return {c.Binary("ne", x, c.Like(x, 0))};
  return {c.Op("bitcast", {x}, {{"dtype", *dtype}})};
}

std::vector<V> ImportIsNaN(NodeContext& c) { return {c.Binary("ne", c.In(0), c.In(0))}; }

std::vector<V> ImportIsInf(NodeContext& c) {
  const V x = c.In(0);
  const bool positive = c.Int("detect_positive", 1) != 0;
  const bool negative = c.Int("detect_negative", 1) != 0;
  const V infinity = c.Like(x, HUGE_VAL);
  if (positive && negative) return {c.Binary("eq", c.Unary("abs", x), infinity)};
  if (negative) return {c.Binary("eq", x, c.Like(x, -HUGE_VAL))};
  if (positive) return {c.Binary("eq", x, infinity)};
  return {c.BroadcastTo(c.Number(DType::kBool, 0), c.Dims(x))};
}

std::vector<V> ImportIdentity(NodeContext& c) { return {c.In(0)}; }

// A tensor is there or it is not; other optionals are no values here.
std::vector<V> ImportOptionalHasElement(NodeContext& c) {
  return {c.Number(DType::kBool, c.Has(0) ? 1 : 0)};
}

constexpr ImportRow kElementwiseRows[] = {
    {"Abs", 6, 0, 1, 1, 1, "", ImportUnary},
    {"Acos", 7, 0, 1, 1, 1, "", ImportUnary},
    {"Acosh", 9, 0, 1, 1, 1, "", ImportUnary},
    {"Add", 7, 0, 2, 2, 1, "", ImportBinary},
    {"And", 7, 0, 2, 2, 1, "", ImportBinary},
    {"Asin", 7, 0, 1, 1, 1, "", ImportUnary},
    {"Asinh", 9, 0, 1, 1, 1, "", ImportUnary},
    {"Atan", 7, 0, 1, 1, 1, "", ImportUnary},
    {"Atanh", 9, 0, 1, 1, 1, "", ImportUnary},
    {"BitCast", 26, 0, 1, 1, 1, "to", ImportBitCast},
    {"BitShift", 11, 0, 2, 2, 1, "direction", ImportBitShift},
    {"BitwiseAnd", 18, 0, 2, 2, 1, "", ImportBinary},
    {"BitwiseNot", 18, 0, 1, 1, 1, "", ImportUnary},
    {"BitwiseOr", 18, 0, 2, 2, 1, "", ImportBinary},
    {"BitwiseXor", 18, 0, 2, 2, 1, "", ImportBinary},
    {"Cast", 6, 0, 1, 1, 1, "to saturate round_mode", ImportCast, "no strings"},
    {"CastLike", 15, 0, 2, 2, 1, "saturate round_mode", ImportCastLike, "no strings"},
    {"Ceil", 6, 0, 1, 1, 1, "", ImportUnary},
    {"Clip", 6, 0, 1, 3, 1, "min max", ImportClip},
    {"Cos", 7, 0, 1, 1, 1, "", ImportUnary},
    {"Cosh", 9, 0, 1, 1, 1, "", ImportUnary},
    {"Div", 7, 0, 2, 2, 1, "", ImportBinary},
    {"Equal", 7, 0, 2, 2, 1, "", ImportBinary, "no strings"},
    {"Erf", 9, 0, 1, 1, 1, "", ImportUnary},
    {"Exp", 6, 0, 1, 1, 1, "", ImportUnary},
    {"Floor", 6, 0, 1, 1, 1, "", ImportUnary},
    {"Greater", 7, 0, 2, 2, 1, "", ImportBinary},
    {"GreaterOrEqual", 12, 0, 2, 2, 1, "", ImportBinary},
    {"Identity", 1, 0, 1, 1, 1, "", ImportIdentity, "tensors only"},
    {"IsInf", 10, 0, 1, 1, 1, "detect_negative detect_positive", ImportIsInf},
    {"IsNaN", 9, 0, 1, 1, 1, "", ImportIsNaN},
    {"Less", 7, 0, 2, 2, 1, "", ImportBinary},
    {"LessOrEqual", 12, 0, 2, 2, 1, "", ImportBinary},
    {"Log", 6, 0, 1, 1, 1, "", ImportUnary},
    {"Max", 6, 0, 1, -1, 1, "", ImportMax},
    {"Mean", 6, 0, 1, -1, 1, "", ImportMean},
    {"Min", 6, 0, 1, -1, 1, "", ImportMin},
    {"Mod", 10, 0, 2, 2, 1, "fmod", ImportMod},
    {"Mul", 7, 0, 2, 2, 1, "", ImportBinary},
    {"Neg", 6, 0, 1, 1, 1, "", ImportUnary},
    {"Not", 1, 0, 1, 1, 1, "", ImportUnary},
    {"OptionalGetElement", 18, 0, 1, 1, 1, "", ImportIdentity, "tensors only"},
    {"OptionalHasElement", 15, 0, 0, 1, 1, "", ImportOptionalHasElement, "tensors only"},
    {"Or", 7, 0, 2, 2, 1, "", ImportBinary},
    {"Pow", 7, 0, 2, 2, 1, "", ImportPow},
    {"Reciprocal", 6, 0, 1, 1, 1, "", ImportReciprocal},
    {"Round", 11, 0, 1, 1, 1, "", ImportUnary},
    {"Sign", 9, 0, 1, 1, 1, "", ImportSign},
    {"Sin", 7, 0, 1, 1, 1, "", ImportUnary},
    {"Sinh", 9, 0, 1, 1, 1, "", ImportUnary},
    {"Sqrt", 6, 0, 1, 1, 1, "", ImportUnary},
    {"Sub", 7, 0, 2, 2, 1, "", ImportBinary},
    {"Sum", 6, 0, 1, -1, 1, "", ImportSum},
    {"Tan", 7, 0, 1, 1, 1, "", ImportUnary},
    {"Tanh", 6, 0, 1, 1, 1, "", ImportUnary},
    {"Where", 9, 0, 3, 3, 1, "", ImportWhere},
    {"Xor", 7, 0, 2, 2, 1, "", ImportBinary},
};

}  // namespace

std::span<const ImportRow> ElementwiseRows() { return kElementwiseRows; }

}  // namespace halyard::onnx
