// SPDX-License-Identifier: Apache-2.0
// See loop_evaluator.h.
#include "tests/codegen/schedule/loop_evaluator.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace halyard::schedule {

using kernel::Opcode;
using loop::OpKind;
using loop::ReduceKind;

int64_t LoopEvaluator::Eval(Expr e) {
  Result<int64_t> value = exprs_.Evaluate(e, [&](Expr symbol) -> std::optional<int64_t> {
    if (auto it = symbols_.find(symbol.id); it != symbols_.end()) return it->second;
    if (auto it = dims_.find(exprs_.SymbolName(symbol)); it != dims_.end()) return it->second;
    return std::nullopt;
  });
  HY_CHECK(value.ok(), "{}", value.status().ToString());
  return *value;
}

void LoopEvaluator::Run(uint32_t kernel, std::vector<TestBuffer>& buffers) {
  kernel_ = &function_.kernels[kernel];
  buffers_ = &buffers;
  values_.assign(kernel_->values.size(), Scalar{});
  Block(0);
}

std::vector<LoopEvaluator::Scalar> LoopEvaluator::Block(loop::BlockId block) {
  std::vector<Scalar> yields;
  for (loop::OpId id : kernel_->blocks[block].ops) {
    const loop::Op& op = kernel_->ops[id];
    if (op.kind == OpKind::kYield) {
      for (loop::ValueId v : op.operands) yields.push_back(values_[v]);
    } else {
      Op(op);
    }
  }
  return yields;
}

LoopEvaluator::Scalar LoopEvaluator::Identity(ReduceKind kind, DType dtype) {
  double infinity = std::numeric_limits<double>::infinity();
  Scalar s;
  switch (kind) {
    case ReduceKind::kProd:
      s.f = 1, s.i = 1;
      break;
    case ReduceKind::kAll:
      s.i = 1;
      break;
    case ReduceKind::kMax:
    case ReduceKind::kArgMax:
      s.f = -infinity, s.i = dtype == DType::kI32 ? INT32_MIN : INT64_MIN;
      break;
    case ReduceKind::kMin:
    case ReduceKind::kArgMin:
      s.f = infinity, s.i = dtype == DType::kI32 ? INT32_MAX : INT64_MAX;
      break;
    default:
      break;
  }
  return s;
}

LoopEvaluator::Scalar LoopEvaluator::Combine(ReduceKind kind, DType dtype, Scalar a, Scalar b) {
  Scalar s = b;
  bool is_float = IsFloat(dtype);
  switch (kind) {
    case ReduceKind::kNone:
      break;
    case ReduceKind::kSum:
      s.f = a.f + b.f, s.i = a.i + b.i;
      break;
    case ReduceKind::kProd:
      s.f = a.f * b.f, s.i = a.i * b.i;
      break;
    case ReduceKind::kMax:
      if (is_float)
        s.f = std::isnan(a.f) || std::isnan(b.f) ? NAN : std::max(a.f, b.f);
      else
        s.i = std::max(a.i, b.i);
      break;
    case ReduceKind::kMin:
      if (is_float)
        s.f = std::isnan(a.f) || std::isnan(b.f) ? NAN : std::min(a.f, b.f);
      else
        s.i = std::min(a.i, b.i);
      break;
    case ReduceKind::kAny:
      s.i = a.i | b.i;
      break;
    case ReduceKind::kAll:
      s.i = a.i & b.i;
      break;
    default:
      HY_UNREACHABLE("arg reductions are handled by the loop");
  }
  return s;
}

LoopEvaluator::Scalar LoopEvaluator::Arithmetic(const loop::Op& op) {
  auto arg = [&](size_t n) { return values_[op.operands[n]]; };
  DType from = kernel_->values[op.operands[0]].dtype;
  bool is_float = IsFloat(from);
  Scalar a = arg(0), b = op.operands.size() > 1 ? arg(1) : Scalar{}, s;
  auto compare = [&](auto test) { s.i = is_float ? test(a.f, b.f) : test(a.i, b.i); };
  switch (op.opcode) {
    case Opcode::kAdd:
      s.f = a.f + b.f, s.i = a.i + b.i;
      break;
    case Opcode::kSub:
      s.f = a.f - b.f, s.i = a.i - b.i;
      break;
    case Opcode::kMul:
      s.f = a.f * b.f, s.i = a.i * b.i;
      break;
    case Opcode::kDiv:
      s.f = a.f / b.f, s.i = b.i == 0 ? 0 : a.i / b.i;
      break;
    case Opcode::kMax:
      s.f = std::isnan(a.f) || std::isnan(b.f) ? NAN : std::max(a.f, b.f), s.i = std::max(a.i, b.i);
      break;
    case Opcode::kMin:
      s.f = std::isnan(a.f) || std::isnan(b.f) ? NAN : std::min(a.f, b.f), s.i = std::min(a.i, b.i);
      break;
    case Opcode::kNeg:
      s.f = -a.f, s.i = -a.i;
      break;
    case Opcode::kAbs:
      s.f = std::fabs(a.f), s.i = std::abs(a.i);
      break;
    case Opcode::kSqrt:
      s.f = std::sqrt(a.f);
      break;
    case Opcode::kExp:
      s.f = std::exp(a.f);
      break;
    case Opcode::kErf:
      s.f = std::erf(a.f);
      break;
    case Opcode::kTanh:
      s.f = std::tanh(a.f);
      break;
    case Opcode::kPow:
      s.f = std::pow(a.f, b.f);
      break;
    case Opcode::kAnd:
      s.i = a.i & b.i;
      break;
    case Opcode::kOr:
      s.i = a.i | b.i;
      break;
    case Opcode::kNot:
      s.i = op.dtype == DType::kBool ? !a.i : ~a.i;
      break;
    case Opcode::kEq:
      compare([](auto x, auto y) { return x == y; });
      break;
    case Opcode::kNe:
      compare([](auto x, auto y) { return x != y; });
      break;
    case Opcode::kLt:
      compare([](auto x, auto y) { return x < y; });
      break;
    case Opcode::kLe:
      compare([](auto x, auto y) { return x <= y; });
      break;
    case Opcode::kGt:
      compare([](auto x, auto y) { return x > y; });
      break;
    case Opcode::kGe:
      compare([](auto x, auto y) { return x >= y; });
      break;
    case Opcode::kSelect:
      s = a.i ? b : arg(2);
      break;
    case Opcode::kConvert:
      if (is_float && IsFloat(op.dtype))
        s.f = a.f;
      else if (is_float)
        s.i = static_cast<int64_t>(a.f);
      else if (IsFloat(op.dtype))
        s.f = static_cast<double>(a.i);
      else
        s.i = a.i;
      break;
    default:
      HY_UNREACHABLE("opcode {} in the loop evaluator", static_cast<int>(op.opcode));
  }
  return s;
}

void LoopEvaluator::Op(const loop::Op& op) {
  auto arg = [&](size_t n) { return values_[op.operands[n]]; };
  switch (op.kind) {
    case OpKind::kScalar:
      values_[op.results[0]] = Arithmetic(op);
      break;
    case OpKind::kConst: {
      Scalar s;
      if (IsFloat(op.dtype))
        s.f = std::bit_cast<double>(op.immediate);
      else
        s.i = op.immediate;
      values_[op.results[0]] = s;
      break;
    }
    case OpKind::kIndex: {
      Scalar s;
      s.i = Eval(op.index);
      s.f = static_cast<double>(s.i);
      values_[op.results[0]] = s;
      break;
    }
    case OpKind::kLoad: {
      if (!op.operands.empty() && arg(0).i == 0) {
        values_[op.results[0]] = arg(1);
        break;
      }
      TestBuffer& buffer = (*buffers_)[op.buffer];
      auto at = static_cast<size_t>(Eval(op.index));
      Scalar s;
      if (IsFloat(op.dtype))
        s.f = buffer.f.at(at);
      else
        s.i = buffer.i.at(at);
      values_[op.results[0]] = s;
      break;
    }
    case OpKind::kStore:
    case OpKind::kScatter: {
      if (op.operands.size() > 1 && arg(1).i == 0) break;
      TestBuffer& buffer = (*buffers_)[op.buffer];
      auto at = static_cast<size_t>(Eval(op.index));
      DType dtype = function_.buffers[op.buffer].dtype;
      Scalar s = arg(0);
      if (IsFloat(dtype)) {
        Scalar old;
        old.f = buffer.f.at(at);
        if (op.kind == OpKind::kScatter) s = Combine(op.reduces[0], dtype, old, s);
        buffer.f.at(at) = dtype == DType::kF32 ? static_cast<float>(s.f) : s.f;
      } else {
        Scalar old;
        old.i = buffer.i.at(at);
        if (op.kind == OpKind::kScatter) s = Combine(op.reduces[0], dtype, old, s);
        buffer.i.at(at) = s.i;
      }
      break;
    }
    case OpKind::kIndirect: {
      int64_t v = arg(0).i, extent = Eval(op.extent);
      if (v < 0) v += extent;
      HY_CHECK(v >= 0 && v < extent, "index {} out of {} in a test", v, extent);
      symbols_[op.symbol.id] = v;
      break;
    }
    case OpKind::kLoop: {
      int64_t extent = Eval(op.extent);
      std::vector<Scalar> carried;
      if (op.loop == loop::LoopKind::kSequential)
        for (size_t n = 0; n < op.operands.size(); ++n) carried.push_back(arg(n));
      std::vector<DType> dtypes;
      if (op.loop == loop::LoopKind::kReduce) {
        const loop::Op& yield = kernel_->ops[kernel_->blocks[op.body].ops.back()];
        size_t at = 0;
        for (ReduceKind kind : op.reduces) {
          DType dtype = kernel_->values[yield.operands[at]].dtype;
          dtypes.push_back(dtype);
          carried.push_back(Identity(kind, dtype));
          ++at;
          if (kind == ReduceKind::kArgMax || kind == ReduceKind::kArgMin)
            carried.push_back({}), ++at;
        }
      }
      for (int64_t it = 0; it < extent; ++it) {
        symbols_[op.symbol.id] = it;
        const auto& parameters = kernel_->blocks[op.body].parameters;
        for (size_t n = 0; n < parameters.size(); ++n) values_[parameters[n]] = carried[n];
        std::vector<Scalar> yields = Block(op.body);
        if (op.loop == loop::LoopKind::kSequential) carried = yields;
        if (op.loop != loop::LoopKind::kReduce) continue;
        size_t at = 0;
        for (size_t n = 0; n < op.reduces.size(); ++n) {
          ReduceKind kind = op.reduces[n];
          if (kind == ReduceKind::kArgMax || kind == ReduceKind::kArgMin) {
            double a = IsFloat(dtypes[n]) ? carried[at].f : static_cast<double>(carried[at].i);
            double b = IsFloat(dtypes[n]) ? yields[at].f : static_cast<double>(yields[at].i);
            bool better = it == 0 || (kind == ReduceKind::kArgMax ? b > a : b < a) ||
                          (std::isnan(b) && !std::isnan(a));
            if (better) carried[at] = yields[at], carried[at + 1] = yields[at + 1];
            at += 2;
          } else {
            carried[at] = Combine(kind, dtypes[n], carried[at], yields[at]);
            ++at;
          }
        }
      }
      if (op.loop == loop::LoopKind::kReduce) {
        size_t at = 0;
        for (size_t n = 0; n < op.reduces.size(); ++n) {
          bool arg_kind =
              op.reduces[n] == ReduceKind::kArgMax || op.reduces[n] == ReduceKind::kArgMin;
          values_[op.results[n]] = carried[at + (arg_kind ? 1 : 0)];
          at += arg_kind ? 2 : 1;
        }
      } else {
        for (size_t n = 0; n < op.results.size(); ++n) values_[op.results[n]] = carried[n];
      }
      break;
    }
    case OpKind::kYield:
      break;
  }
}

}  // namespace halyard::schedule
