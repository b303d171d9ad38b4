// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/interpreter.h"

#include <bit>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "compiler/kernel/opcode.h"
#include "compiler/loop/text.h"

namespace halyard::loop {

namespace {

using graph::Tensor;
using kernel::Opcode;

// A float as double, everything else as int64 (u64: its bits).
union Cell {
  int64_t i;
  double f;
};

double RoundTo(DType dtype, double v) {
  if (dtype == DType::kF64) return v;
  if (dtype == DType::kF32) return static_cast<double>(static_cast<float>(v));
  Tensor t{dtype, {1}, std::vector<uint8_t>(8)};
  graph::StoreFloat(t, 0, v);
  return graph::LoadFloat(t, 0);
}

int64_t WrapTo(DType dtype, int64_t v) {
  int bits = BitWidth(dtype);
  if (dtype == DType::kBool) return v != 0;
  if (bits >= 64) return v;
  auto u = static_cast<uint64_t>(v) & ((uint64_t{1} << bits) - 1);
  if (IsSigned(dtype) && (u >> (bits - 1)) != 0) u |= ~uint64_t{0} << bits;
  return static_cast<int64_t>(u);
}

Cell ConvertCell(DType from, DType to, Cell v) {
  Cell r;
  if (IsFloat(from) && IsFloat(to)) {
    r.f = RoundTo(to, from == DType::kF64 && BitWidth(to) < 32 ? static_cast<float>(v.f) : v.f);
  } else if (IsFloat(from)) {
    Tensor a{from, {1}, std::vector<uint8_t>(8)}, b{to, {1}, std::vector<uint8_t>(8)};
    graph::StoreFloat(a, 0, v.f);
    graph::ConvertElement(a, 0, b, 0);
    r.i = graph::LoadInt(b, 0);
  } else if (IsFloat(to)) {
    if (from == DType::kU64) {
      r.f = RoundTo(to, to == DType::kF32 ? static_cast<float>(static_cast<uint64_t>(v.i))
                                          : static_cast<double>(static_cast<uint64_t>(v.i)));
    } else {
      r.f = to == DType::kF64 ? static_cast<double>(v.i) : RoundTo(to, static_cast<float>(v.i));
    }
  } else {
    r.i = WrapTo(to, v.i);
  }
  return r;
}

Cell FloatOp(Opcode opcode, DType dtype, const Cell* a) {
  double x = a[0].f, y = a[1].f, r = 0;
  bool is_f32 = dtype == DType::kF32;
  switch (opcode) {
    case Opcode::kAdd:
      r = x + y;
      break;
    case Opcode::kSub:
      r = x - y;
      break;
    case Opcode::kMul:
      r = x * y;
      break;
    case Opcode::kDiv:
      r = x / y;
      break;
    case Opcode::kMin:
      r = std::isnan(x) || std::isnan(y) ? std::nan("") : x < y ? x : y;
      break;
    case Opcode::kMax:
      r = std::isnan(x) || std::isnan(y) ? std::nan("") : x > y ? x : y;
      break;
    case Opcode::kNeg:
      r = -x;
      break;
    case Opcode::kAbs:
      r = std::fabs(x);
      break;
    case Opcode::kFma:
      r = is_f32
              ? std::fma(static_cast<float>(x), static_cast<float>(y), static_cast<float>(a[2].f))
              : std::fma(x, y, a[2].f);
      break;
    case Opcode::kSqrt:
      r = std::sqrt(x);
      break;
    case Opcode::kRsqrt:
      r = 1 / std::sqrt(x);
      break;
    case Opcode::kFloor:
      r = std::floor(x);
      break;
    case Opcode::kCeil:
      r = std::ceil(x);
      break;
    case Opcode::kTrunc:
      r = std::trunc(x);
      break;
    case Opcode::kRoundEven:
      r = std::nearbyint(x);
      break;
    case Opcode::kCopySign:
      r = std::copysign(x, y);
      break;
    case Opcode::kExp:
      r = std::exp(x);
      break;
    case Opcode::kExp2:
      r = std::exp2(x);
      break;
    case Opcode::kLog:
      r = std::log(x);
      break;
    case Opcode::kLog2:
      r = std::log2(x);
      break;
    case Opcode::kSin:
      r = std::sin(x);
      break;
    case Opcode::kCos:
      r = std::cos(x);
      break;
    case Opcode::kTan:
      r = std::tan(x);
      break;
    case Opcode::kTanh:
      r = std::tanh(x);
      break;
    case Opcode::kErf:
      r = std::erf(x);
      break;
    case Opcode::kPow:
      r = std::pow(x, y);
      break;
    case Opcode::kAsin:
      r = std::asin(x);
      break;
    case Opcode::kAcos:
      r = std::acos(x);
      break;
    case Opcode::kAtan:
      r = std::atan(x);
      break;
    case Opcode::kSinh:
      r = std::sinh(x);
      break;
    case Opcode::kCosh:
      r = std::cosh(x);
      break;
    case Opcode::kAsinh:
      r = std::asinh(x);
      break;
    case Opcode::kAcosh:
      r = std::acosh(x);
      break;
    case Opcode::kAtanh:
      r = std::atanh(x);
      break;
    default:
      break;
  }
  Cell cell;
  cell.f = RoundTo(dtype, r);
  return cell;
}

Cell IntOp(Opcode opcode, DType dtype, const Cell* a) {
  int64_t x = a[0].i, y = a[1].i;
  auto ux = static_cast<uint64_t>(x), uy = static_cast<uint64_t>(y);
  bool is_signed = IsSigned(dtype) || dtype == DType::kBool;
  auto bits = static_cast<uint64_t>(BitWidth(dtype));
  bool less = is_signed ? x < y : ux < uy;
  bool is_wide = !is_signed || x != INT64_MIN || y != -1;
  int64_t r = 0;
  switch (opcode) {
    case Opcode::kAdd:
      r = static_cast<int64_t>(ux + uy);
      break;
    case Opcode::kSub:
      r = static_cast<int64_t>(ux - uy);
      break;
    case Opcode::kMul:
      r = static_cast<int64_t>(ux * uy);
      break;
    case Opcode::kDiv:
      r = y == 0 ? 0 : !is_wide ? x : is_signed ? x / y : static_cast<int64_t>(ux / uy);
      break;
    case Opcode::kRem:
      r = y == 0 || !is_wide ? 0 : is_signed ? x % y : static_cast<int64_t>(ux % uy);
      break;
    case Opcode::kMin:
      r = less ? x : y;
      break;
    case Opcode::kMax:
      r = less ? y : x;
      break;
    case Opcode::kNeg:
      r = static_cast<int64_t>(0 - ux);
      break;
    case Opcode::kAbs:
      r = is_signed && x < 0 ? static_cast<int64_t>(0 - ux) : x;
      break;
    case Opcode::kAnd:
      r = x & y;
      break;
    case Opcode::kOr:
      r = x | y;
      break;
    case Opcode::kXor:
      r = x ^ y;
      break;
    case Opcode::kNot:
      r = dtype == DType::kBool ? x == 0 : ~x;
      break;
    case Opcode::kShl:
      r = y < 0 || uy >= bits ? 0 : static_cast<int64_t>(ux << uy);
      break;
    case Opcode::kShr:
      if (is_signed) {
        r = y < 0 || uy >= bits ? (x < 0 ? -1 : 0) : x >> y;
      } else {
        r = y < 0 || uy >= bits ? 0 : static_cast<int64_t>(ux >> uy);
      }
      break;
    default:
      break;
  }
  Cell cell;
  cell.i = WrapTo(dtype, r);
  return cell;
}

Cell CompareOp(Opcode opcode, DType dtype, const Cell* a) {
  bool less, equal, unordered = false;
  if (IsFloat(dtype)) {
    unordered = std::isnan(a[0].f) || std::isnan(a[1].f);
    less = a[0].f < a[1].f;
    equal = a[0].f == a[1].f;
  } else {
    bool is_signed = IsSigned(dtype);
    less =
        is_signed ? a[0].i < a[1].i : static_cast<uint64_t>(a[0].i) < static_cast<uint64_t>(a[1].i);
    equal = a[0].i == a[1].i;
  }
  bool r = false;
  switch (opcode) {
    case Opcode::kEq:
      r = equal;
      break;
    case Opcode::kNe:
      r = !equal;
      break;
    case Opcode::kLt:
      r = less;
      break;
    case Opcode::kLe:
      r = less || equal;
      break;
    case Opcode::kGt:
      r = !less && !equal && !unordered;
      break;
    default:
      r = !less && !unordered;
      break;
  }
  Cell cell;
  cell.i = r;
  return cell;
}

class Interpreter {
 public:
  Interpreter(const Function& function, const InterpretOptions& options,
              std::vector<Tensor>& buffers)
      : function_(function), options_(options), buffers_(buffers) {}

  Status Run() {
    if (buffers_.size() != function_.buffers.size()) {
      return InvalidArgument("The function has {} buffers, {} tensors are given.",
                             function_.buffers.size(), buffers_.size());
    }
    written_.resize(buffers_.size());
    for (BufferId b = 0; b < buffers_.size(); ++b) HY_TRY(Prepare(b));
    for (uint32_t k = 0; k < function_.kernels.size(); ++k) {
      kernel_ = &function_.kernels[k];
      number_ = k + 1;
      cells_.assign(kernel_->values.size(), Cell{0});
      symbols_.clear();
      for (BufferId b = 0; b < buffers_.size(); ++b) {
        if (function_.buffers[b].role == BufferRole::kLocal && function_.buffers[b].kernel == k) {
          HY_TRY(Prepare(b));
        }
      }
      std::vector<Cell> yields;
      HY_TRY_CONTEXT(RunBlock(0, &yields), "interpreting loop kernel '{}'", kernel_->name);
    }
    return OkStatus();
  }

 private:
  Result<int64_t> Value(Expr e) {
    return function_.exprs->Evaluate(e, [&](Expr symbol) -> std::optional<int64_t> {
      if (auto it = symbols_.find(symbol.id); it != symbols_.end()) return it->second;
      return options_.value_of ? options_.value_of(symbol) : std::nullopt;
    });
  }

  Status Prepare(BufferId b) {
    const Buffer& buffer = function_.buffers[b];
    HY_ASSIGN(int64_t elements, Value(buffer.elements));
    HY_ASSIGN(int64_t bytes, StorageBytes(buffer.dtype, elements));
    bool is_given = buffer.role == BufferRole::kInput || buffer.role == BufferRole::kConstant;
    if (is_given) {
      if (buffers_[b].dtype != buffer.dtype ||
          static_cast<int64_t>(buffers_[b].bytes.size()) != bytes) {
        return InvalidArgument("The tensor of buffer '{}' has {} of {} bytes or another dtype.",
                               buffer.name, buffers_[b].bytes.size(), bytes);
      }
      return OkStatus();
    }
    buffers_[b] =
        Tensor{buffer.dtype, {elements}, std::vector<uint8_t>(static_cast<size_t>(bytes), 0xA5)};
    written_[b].assign(static_cast<size_t>(elements), 0);
    return OkStatus();
  }

  Result<int64_t> Locate(const Op& op, bool is_write) {
    HY_ASSIGN(int64_t at, Value(op.index));
    const Buffer& buffer = function_.buffers[op.buffer];
    int64_t count =
        static_cast<int64_t>(buffers_[op.buffer].bytes.size()) / (BitWidth(buffer.dtype) / 8);
    if (at < 0 || at >= count) {
      return OutOfRange("The access {}[{}] is at {}; the buffer has {} elements.", buffer.name,
                        function_.exprs->Format(op.index), at, count);
    }
    if (written_[op.buffer].empty()) return at;
    uint32_t& mark = written_[op.buffer][static_cast<size_t>(at)];
    if (is_write) {
      bool is_local = buffer.role == BufferRole::kLocal;
      if (mark == number_ && !is_local && op.kind == OpKind::kStore) {
        return FailedPrecondition("The element {} of '{}' is written twice.", at, buffer.name);
      }
      mark = number_;
    } else if (mark == 0) {
      return FailedPrecondition("The access {}[{}] reads element {}, which nothing wrote.",
                                buffer.name, function_.exprs->Format(op.index), at);
    }
    return at;
  }

  Cell Read(const Tensor& t, int64_t at) {
    Cell c;
    if (IsFloat(t.dtype)) {
      c.f = graph::LoadFloat(t, at);
    } else {
      c.i = graph::LoadInt(t, at);
    }
    return c;
  }
  void Write(Tensor& t, int64_t at, Cell c) {
    if (IsFloat(t.dtype)) {
      graph::StoreFloat(t, at, c.f);
    } else {
      graph::StoreInt(t, at, c.i);
    }
  }

  static Cell Identity(ReduceKind kind, DType dtype) {
    Cell c{0};
    bool is_float = IsFloat(dtype);
    switch (kind) {
      case ReduceKind::kProd:
      case ReduceKind::kAll:
        if (is_float) {
          c.f = 1;
        } else {
          c.i = 1;
        }
        break;
      case ReduceKind::kMax:
      case ReduceKind::kArgMax:
        if (is_float) {
          c.f = -std::numeric_limits<double>::infinity();
        } else if (IsSigned(dtype)) {
          c.i = -(int64_t{1} << (BitWidth(dtype) - 2)) * 2;
        }
        break;
      case ReduceKind::kMin:
      case ReduceKind::kArgMin:
        if (is_float) {
          c.f = std::numeric_limits<double>::infinity();
        } else {
          c.i = IsSigned(dtype) ? ~(-(int64_t{1} << (BitWidth(dtype) - 2)) * 2) : WrapTo(dtype, -1);
        }
        break;
      default:
        break;
    }
    return c;
  }

  static Cell Combine(ReduceKind kind, DType dtype, Cell a, Cell b) {
    Opcode opcode = kind == ReduceKind::kSum    ? Opcode::kAdd
                    : kind == ReduceKind::kProd ? Opcode::kMul
                    : kind == ReduceKind::kMax  ? Opcode::kMax
                    : kind == ReduceKind::kMin  ? Opcode::kMin
                    : kind == ReduceKind::kAny  ? Opcode::kOr
                                                : Opcode::kAnd;
    Cell operands[] = {a, b, {0}};
    return IsFloat(dtype) ? FloatOp(opcode, dtype, operands) : IntOp(opcode, dtype, operands);
  }

  Status RunBlock(BlockId block, std::vector<Cell>* yields) {
    for (OpId id : kernel_->blocks[block].ops) {
      const Op& op = kernel_->ops[id];
      Cell operands[4] = {{0}, {0}, {0}, {0}};
      for (size_t i = 0; i < op.operands.size() && i < 4; ++i) operands[i] = cells_[op.operands[i]];
      Cell result{0};
      switch (op.kind) {
        case OpKind::kScalar: {
          DType type = kernel_->values[op.operands[0]].dtype;
          switch (kernel::InfoOf(op.opcode).op_class) {
            case kernel::OpClass::kCompare:
              result = CompareOp(op.opcode, type, operands);
              break;
            case kernel::OpClass::kSelect:
              result = operands[0].i != 0 ? operands[1] : operands[2];
              break;
            case kernel::OpClass::kConvert:
              if (op.opcode == Opcode::kConvert) {
                result = ConvertCell(type, op.dtype, operands[0]);
              } else {
                Tensor t{type, {1}, std::vector<uint8_t>(8)};
                Write(t, 0, operands[0]);
                t.dtype = op.dtype;
                result = Read(t, 0);
              }
              break;
            default:
              result = IsFloat(type) ? FloatOp(op.opcode, type, operands)
                                     : IntOp(op.opcode, type, operands);
          }
          break;
        }
        case OpKind::kConst:
          result.i = op.immediate;
          if (IsFloat(op.dtype)) result.f = RoundTo(op.dtype, std::bit_cast<double>(op.immediate));
          break;
        case OpKind::kIndex: {
          HY_ASSIGN(int64_t value, Value(op.index));
          result = ConvertCell(DType::kI64, op.dtype, Cell{value});
          break;
        }
        case OpKind::kLoad: {
          if (op.operands.size() == 2 && operands[0].i == 0) {
            result = operands[1];
            break;
          }
          HY_ASSIGN(int64_t at, Locate(op, false));
          result = Read(buffers_[op.buffer], at);
          break;
        }
        case OpKind::kStore:
        case OpKind::kScatter: {
          if (op.operands.size() == 2 && operands[1].i == 0) break;
          HY_ASSIGN(int64_t at, Locate(op, true));
          Cell value = operands[0];
          if (op.kind == OpKind::kScatter && op.reduces[0] != ReduceKind::kNone) {
            DType dtype = buffers_[op.buffer].dtype;
            value = Combine(op.reduces[0], dtype, Read(buffers_[op.buffer], at), value);
          }
          Write(buffers_[op.buffer], at, value);
          break;
        }
        case OpKind::kIndirect: {
          HY_ASSIGN(int64_t extent, Value(op.extent));
          bool wraps = operands[0].i < 0 && op.immediate == 0;
          int64_t at = wraps ? operands[0].i + extent : operands[0].i;
          if (at < 0 || at >= extent) {
            return OutOfRange("The {} is {}; the limit is {} (node '{}').",
                              kernel_->sites[op.site].what, operands[0].i, extent,
                              kernel_->sites[op.site].node);
          }
          symbols_[op.symbol.id] = at;
          break;
        }
        case OpKind::kYield:
          yields->clear();
          for (ValueId v : op.operands) yields->push_back(cells_[v]);
          break;
        case OpKind::kLoop:
          HY_TRY(RunLoop(op));
          continue;
      }
      if (!op.results.empty()) cells_[op.results[0]] = result;
    }
    return OkStatus();
  }

  Status RunLoop(const Op& op) {
    HY_ASSIGN(int64_t trips, Value(op.extent));
    std::vector<Cell> yields, state;
    bool backwards = options_.reverse_parallel && op.loop == LoopKind::kParallel;
    std::vector<bool> has_any(op.reduces.size(), false);
    std::vector<Cell> best(op.reduces.size(), Cell{0});
    if (op.loop == LoopKind::kReduce) {
      for (size_t i = 0; i < op.reduces.size(); ++i) {
        bool is_arg = op.reduces[i] == ReduceKind::kArgMax || op.reduces[i] == ReduceKind::kArgMin;
        state.push_back(is_arg ? Cell{0}
                               : Identity(op.reduces[i], kernel_->values[op.results[i]].dtype));
      }
    } else {
      for (ValueId v : op.operands) state.push_back(cells_[v]);
    }
    for (int64_t trip = 0; trip < trips; ++trip) {
      symbols_[op.symbol.id] = backwards ? trips - 1 - trip : trip;
      const Block& body = kernel_->blocks[op.body];
      for (size_t i = 0; i < body.parameters.size(); ++i) cells_[body.parameters[i]] = state[i];
      HY_TRY(RunBlock(op.body, &yields));
      if (op.loop == LoopKind::kSequential) state = yields;
      if (op.loop != LoopKind::kReduce) continue;
      size_t next = 0;
      const Op& yield = kernel_->ops[body.ops.back()];
      for (size_t i = 0; i < op.reduces.size(); ++i) {
        DType dtype = kernel_->values[yield.operands[next]].dtype;
        Cell value = yields[next++];
        bool is_max = op.reduces[i] == ReduceKind::kArgMax;
        if (!is_max && op.reduces[i] != ReduceKind::kArgMin) {
          state[i] = Combine(op.reduces[i], dtype, state[i], value);
          continue;
        }
        Cell at = yields[next++];
        Cell pair[] = {value, best[i]};
        bool wins = CompareOp(is_max ? Opcode::kGt : Opcode::kLt, dtype, pair).i != 0;
        if (IsFloat(dtype)) wins = (wins || std::isnan(value.f)) && !std::isnan(best[i].f);
        if (!has_any[i] || wins) {
          best[i] = value;
          state[i] = at;
          has_any[i] = true;
        }
      }
    }
    for (size_t i = 0; i < op.results.size(); ++i) cells_[op.results[i]] = state[i];
    return OkStatus();
  }

  const Function& function_;
  const InterpretOptions& options_;
  std::vector<Tensor>& buffers_;
  // Per buffer and element: the number of the kernel that wrote it last, from 1; empty: given.
  std::vector<std::vector<uint32_t>> written_;
  uint32_t number_ = 0;  // of the kernel that runs
  const Kernel* kernel_ = nullptr;
  std::vector<Cell> cells_;
  std::unordered_map<uint32_t, int64_t> symbols_;
};

}  // namespace

Status InterpretFunction(const Function& function, const InterpretOptions& options,
                         std::vector<Tensor>& buffers) {
  return Interpreter(function, options, buffers).Run();
}

}  // namespace halyard::loop
