// SPDX-License-Identifier: Apache-2.0
// Values: constants, ids, lanes, arithmetic, conversions. Signed integers are added and multiplied
// as unsigned ones, since C++ leaves their overflow undefined.
#include <bit>
#include <cmath>

#include "base/float16.h"
#include "compiler/codegen/cuda/writer.h"

namespace halyard::cuda {

using kernel::Op;
using kernel::OpClass;
using kernel::Opcode;
using kernel::Type;

namespace {

// A literal that is no NaN, so that one comparison is enough for min and max.
bool IsNumber(const std::string& x) {
  return x[0] == '(' || (x[0] >= '0' && x[0] <= '9') || x == "__uint_as_float(0xff800000u)";
}

}  // namespace

std::string_view CTypeOf(DType dtype, bool in_memory) {
  if (dtype == DType::kBool) return in_memory ? "u8" : "bool";
  if (dtype == DType::kF16 || dtype == DType::kBF16) return "u16";
  return FormatDType(dtype);
}

std::string LiteralOf(DType dtype, int64_t bits) {
  if (IsFloat(dtype)) {
    const double value = std::bit_cast<double>(bits);
    const float narrow = static_cast<float>(value);
    if (dtype == DType::kF16) return fmt::format("u16({})", F16FromF32(narrow));
    if (dtype == DType::kBF16) return fmt::format("u16({})", BF16FromF32(narrow));
    if (dtype == DType::kF32 && !std::isfinite(narrow)) {
      return fmt::format("__uint_as_float({:#x}u)", std::bit_cast<uint32_t>(narrow));
    }
    if (!std::isfinite(value)) {
      return fmt::format("f64_of({:#x}ull)", std::bit_cast<uint64_t>(value));
    }
    std::string text = dtype == DType::kF32 ? fmt::format("{}", narrow) : fmt::format("{}", value);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    if (dtype == DType::kF32) text += 'f';
    return text[0] == '-' ? fmt::format("({})", text) : text;
  }
  switch (dtype) {
    case DType::kBool:
      return bits != 0 ? "true" : "false";
    case DType::kU64:
      return fmt::format("{}ull", static_cast<uint64_t>(bits));
    case DType::kI64:
      return bits < 0 ? fmt::format("i64({:#x}ull)", static_cast<uint64_t>(bits))
                      : fmt::format("{}ll", bits);
    case DType::kU32:
      return fmt::format("{}u", static_cast<uint32_t>(bits));
    case DType::kI32:
      return bits < 0 ? fmt::format("i32({:#x}u)", static_cast<uint32_t>(bits))
                      : fmt::format("{}", static_cast<uint32_t>(bits));
    default:
      return fmt::format("{}({})", CTypeOf(dtype), static_cast<int32_t>(bits));
  }
}

std::string ConvertExpression(DType from, DType to, const std::string& x) {
  const auto is_small = [](DType d) { return d == DType::kF16 || d == DType::kBF16; };
  if (from == to) return x;
  if (to == DType::kBool) {
    return is_small(from) ? fmt::format("({} & 0x7fff) != 0", x) : fmt::format("{} != 0", x);
  }
  if (is_small(from)) {
    const std::string wide =
        fmt::format("{}({})", from == DType::kF16 ? "from_f16" : "from_bf16", x);
    return ConvertExpression(DType::kF32, to, wide);
  }
  if (is_small(to)) {
    return fmt::format("{}({})", to == DType::kF16 ? "to_f16" : "to_bf16",
                       ConvertExpression(from, DType::kF32, x));
  }
  if (IsFloat(from) && !IsFloat(to)) return fmt::format("to_{}({})", CTypeOf(to), x);
  return fmt::format("{}({})", CTypeOf(to), x);
}

Names PackWords(DType dtype, const Names& elements) {
  Names words;
  const size_t size = static_cast<size_t>(BitWidth(dtype)) / 8;
  if (size == 8) {
    for (const std::string& x : elements) {
      const std::string bits =
          dtype == DType::kF64 ? fmt::format("bits_of({})", x) : fmt::format("u64({})", x);
      words.push_back(fmt::format("u32({})", bits));
      words.push_back(fmt::format("u32({} >> 32)", bits));
    }
    return words;
  }
  for (size_t i = 0; i < elements.size(); i += 4 / size) {
    if (size == 4) {
      words.push_back(
          fmt::format("{}({})", dtype == DType::kF32 ? "__float_as_uint" : "u32", elements[i]));
      continue;
    }
    std::string word;
    for (size_t part = 0; part < 4 / size && i + part < elements.size(); ++part) {
      const std::string bits =
          fmt::format("u32({}({}))", size == 1 ? "u8" : "u16", elements[i + part]);
      word += part == 0 ? bits : fmt::format(" | {} << {}", bits, 8 * size * part);
    }
    words.push_back(word);
  }
  return words;
}

Names UnpackWords(DType dtype, const Names& words, size_t elements) {
  Names out;
  const size_t size = static_cast<size_t>(BitWidth(dtype)) / 8;
  for (size_t i = 0; i < elements; ++i) {
    if (size == 8) {
      const std::string bits = fmt::format("join({}, {})", words[2 * i], words[2 * i + 1]);
      out.push_back(fmt::format("{}({})", dtype == DType::kF64 ? "f64_of" : CTypeOf(dtype), bits));
    } else if (size == 4) {
      if (dtype == DType::kF32) {
        out.push_back(fmt::format("__uint_as_float({})", words[i]));
      } else {
        out.push_back(fmt::format("{}({})", CTypeOf(dtype), words[i]));
      }
    } else {
      const size_t shift = i * size % 4 * 8;
      const std::string& word = words[i * size / 4];
      const std::string part = shift == 0 ? word : fmt::format("({}) >> {}", word, shift);
      out.push_back(dtype == DType::kBool ? fmt::format("u8({}) != 0", part)
                                          : fmt::format("{}({})", CTypeOf(dtype), part));
    }
  }
  return out;
}

Status KernelWriter::WriteSource(const Op& op) {
  const std::string_view type = CTypeOf(op.type.dtype);
  const auto axis = [&] { return "xyz"[op.immediates[0]]; };
  Names& names = values_[op.results[0]];
  switch (op.opcode) {
    case Opcode::kConst:
      names.assign(op.type.lanes, LiteralOf(op.type.dtype, op.immediates[0]));
      return OkStatus();
    case Opcode::kIota:
      for (int i = 0; i < op.type.lanes; ++i) names.push_back(LiteralOf(op.type.dtype, i));
      return OkStatus();
    case Opcode::kScalar:
      names = {fmt::format("s{}", op.immediates[0])};
      return OkStatus();
    case Opcode::kWorkgroupId:
      Define(op, {fmt::format("{}(blockIdx.{})", type, axis())});
      return OkStatus();
    case Opcode::kWorkitemId:
      Define(op, {fmt::format("{}(threadIdx.{})", type, axis())});
      return OkStatus();
    case Opcode::kSubgroupLane:
      Define(op, {fmt::format("{}({} & 31u)", type, LinearId())});
      return OkStatus();
    case Opcode::kSubgroupId:
      Define(op, {fmt::format("{}({} >> 5)", type, LinearId())});
      return OkStatus();
    default:
      names = {fmt::format("{}(32)", type)};
      return OkStatus();
  }
}

void KernelWriter::WriteLanes(const Op& op) {
  const Names& a = At(op.operands[0]);
  Names& names = values_[op.results[0]];
  switch (op.opcode) {
    case Opcode::kSplat:
      names.assign(op.type.lanes, a[0]);
      return;
    case Opcode::kExtract:
      names = {a[static_cast<size_t>(op.immediates[0])]};
      return;
    case Opcode::kInsert:
      names = a;
      names[static_cast<size_t>(op.immediates[0])] = One(op.operands[1]);
      return;
    case Opcode::kShuffle: {
      const Names& b = At(op.operands[1]);
      for (int64_t lane : op.immediates) {
        const size_t at = static_cast<size_t>(lane);
        names.push_back(at < a.size() ? a[at] : b[at - a.size()]);
      }
      return;
    }
    default: {
      Names expressions;
      for (size_t i = 0; i < op.type.lanes; ++i) {
        expressions.push_back(fmt::format("{} ? {} : {}", a[a.size() == 1 ? 0 : i],
                                          At(op.operands[1])[i], At(op.operands[2])[i]));
      }
      Define(op, expressions);
    }
  }
}

Status KernelWriter::WriteArithmetic(const Op& op) {
  const Type from = TypeOf(op.operands[0]);
  const Names& a = At(op.operands[0]);
  const Names& b = At(op.operands.size() > 1 ? op.operands[1] : op.operands[0]);
  const Names& c = At(op.operands.size() > 2 ? op.operands[2] : op.operands[0]);
  if (op.opcode == Opcode::kBitcast) {
    Names words = PackWords(from.dtype, a);
    for (std::string& word : words) {
      const std::string name = NewName();
      Line("const u32 {} = {};", name, word);
      word = name;
    }
    Define(op, UnpackWords(op.type.dtype, words, op.type.lanes));
    return OkStatus();
  }
  const bool is_small = op.type.dtype == DType::kF16 || op.type.dtype == DType::kBF16;
  if (op.opcode == Opcode::kConvert && from.dtype == DType::kF32 && is_small &&
      op.type.lanes % 2 == 0) {
    Names names;
    for (size_t i = 0; i < op.type.lanes; i += 2) {
      const std::string word = NewName();
      Line("const u32 {} = pack_{}({}, {});", word, FormatDType(op.type.dtype), a[i], a[i + 1]);
      names.push_back(fmt::format("u16({})", word));
      names.push_back(fmt::format("u16({} >> 16)", word));
    }
    values_[op.results[0]] = std::move(names);
    return OkStatus();
  }
  Names expressions;
  for (size_t i = 0; i < op.type.lanes; ++i) {
    if (op.opcode == Opcode::kConvert) {
      expressions.push_back(ConvertExpression(from.dtype, op.type.dtype, a[i]));
      continue;
    }
    HY_ASSIGN(std::string expression, Arithmetic(op.opcode, from.dtype, a[i], b[i], c[i]));
    expressions.push_back(std::move(expression));
  }
  Define(op, expressions);
  return OkStatus();
}

void KernelWriter::WriteReduce(const Op& op) {
  static constexpr std::pair<Opcode, Opcode> kCombine[] = {
      {Opcode::kReduceAdd, Opcode::kAdd}, {Opcode::kReduceMul, Opcode::kMul},
      {Opcode::kReduceMin, Opcode::kMin}, {Opcode::kReduceMax, Opcode::kMax},
      {Opcode::kReduceAnd, Opcode::kAnd}, {Opcode::kReduceOr, Opcode::kOr}};
  Opcode combine = Opcode::kAdd;
  for (const auto& [reduce, with] : kCombine) {
    if (reduce == op.opcode) combine = with;
  }
  Names lanes = At(op.operands[0]);
  for (size_t half = lanes.size() / 2; half >= 1; half /= 2) {
    for (size_t i = 0; i < half; ++i) {
      const std::string name = NewName();
      Line("const {} {} = {};", CTypeOf(op.type.dtype), name,
           *Arithmetic(combine, op.type.dtype, lanes[i], lanes[i + half], lanes[i]));
      lanes[i] = name;
    }
  }
  values_[op.results[0]] = {lanes[0]};
}

Result<std::string> KernelWriter::Arithmetic(Opcode opcode, DType dtype, const std::string& a,
                                             const std::string& b, const std::string& c) const {
  const bool is_float = IsFloat(dtype);
  const bool is_bool = dtype == DType::kBool;
  const bool is_signed = IsSigned(dtype);
  const int width = BitWidth(dtype);
  const std::string_view type = CTypeOf(dtype);
  const std::string_view as_unsigned = width == 64 ? "u64" : "u32";
  const std::string_view suffix = dtype == DType::kF32 ? "f" : "";
  const auto infix = [&](std::string_view symbol) -> std::string {
    if (is_float) return fmt::format("{} {} {}", a, symbol, b);
    return fmt::format("{0}({1}({2}) {3} {1}({4}))", type, as_unsigned, a, symbol, b);
  };
  const auto function = [&](std::string_view name) {
    return fmt::format("{}{}({})", name, suffix, a);
  };
  const auto pair = [&](std::string_view name, std::string_view kind) {
    return fmt::format("{}_{}<{}>({}, {})", name, kind, type, a, b);
  };
  // One instruction, NaN or not.
  const bool has_min = dtype == DType::kF32 && target_.gpu.compute_capability >= 80;
  const std::string_view kind = is_signed ? "signed" : "unsigned";
  switch (opcode) {
    case Opcode::kAdd:
      return infix("+");
    case Opcode::kSub:
      return infix("-");
    case Opcode::kMul:
      return infix("*");
    case Opcode::kDiv:
      return is_float ? infix("/") : pair("div", kind);
    case Opcode::kRem:
      return pair("rem", kind);
    case Opcode::kMin:
      return pair("min", is_float && !(IsNumber(a) && !has_min) ? "float" : "int");
    case Opcode::kMax:
      return pair("max", is_float && !(IsNumber(a) && !has_min) ? "float" : "int");
    case Opcode::kNeg:
      return is_float ? fmt::format("-{}", a) : fmt::format("{}(0 - {}({}))", type, as_unsigned, a);
    case Opcode::kAbs:
      if (is_float) return function("fabs");
      if (!is_signed) return a;
      return fmt::format("{0} < 0 ? {1}(0 - {2}({0})) : {0}", a, type, as_unsigned);
    case Opcode::kFma:
      return fmt::format("__f{}_rn({}, {}, {})", dtype == DType::kF32 ? "maf" : "ma", a, b, c);
    case Opcode::kAnd:
      return fmt::format("{}({} & {})", type, a, b);
    case Opcode::kOr:
      return fmt::format("{}({} | {})", type, a, b);
    case Opcode::kXor:
      return fmt::format("{}({} ^ {})", type, a, b);
    case Opcode::kNot:
      return is_bool ? fmt::format("!{}", a) : fmt::format("{}(~{})", type, a);
    case Opcode::kShl:
    case Opcode::kShr: {
      // The amount as the unsigned number of its own width.
      const std::string amount = fmt::format("u{}({})", width, b);
      if (opcode == Opcode::kShl) {
        return fmt::format("{0} < {1} ? {2}({3}({4}) << {0}) : {2}(0)", amount, width, type,
                           as_unsigned, a);
      }
      if (!is_signed) {
        return fmt::format("{0} < {1} ? {2}({3} >> {0}) : {2}(0)", amount, width, type, a);
      }
      return fmt::format("{0}({1} >> ({2} < {3} ? {2} : {3}))", type, a, amount, width - 1);
    }
    case Opcode::kSqrt:
      return function("sqrt");
    case Opcode::kFloor:
      return function("floor");
    case Opcode::kCeil:
      return function("ceil");
    case Opcode::kTrunc:
      return function("trunc");
    case Opcode::kRoundEven:
      return function("rint");
    case Opcode::kCopySign:
      return fmt::format("copysign{}({}, {})", suffix, a, b);
    case Opcode::kEq:
      return fmt::format("{} == {}", a, b);
    case Opcode::kNe:
      return fmt::format("{} != {}", a, b);
    case Opcode::kLt:
      return fmt::format("{} < {}", a, b);
    case Opcode::kLe:
      return fmt::format("{} <= {}", a, b);
    case Opcode::kGt:
      return fmt::format("{} > {}", a, b);
    case Opcode::kGe:
      return fmt::format("{} >= {}", a, b);
    default:
      break;
  }
  if (kernel::InfoOf(opcode).transcendental && dtype == DType::kF32) {
    if (opcode == Opcode::kExp2) return fmt::format("exp2_of({})", a);
    if (opcode == Opcode::kPow) return fmt::format("powf({}, {})", a, b);
    return function(kernel::FormatOpcode(opcode));
  }
  return Lacks("op '{}' of {} was not expanded", kernel::FormatOpcode(opcode), FormatDType(dtype));
}

}  // namespace halyard::cuda
