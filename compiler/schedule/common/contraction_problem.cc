// SPDX-License-Identifier: Apache-2.0
// Reads a loop kernel as a contraction: a perfect nest of parallel loops around one sum of products
// and straight-line ops before and after it.
#include "compiler/schedule/common/contraction_problem.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"

namespace halyard::schedule {

using loop::LoopKind;
using loop::Op;
using loop::OpId;
using loop::OpKind;

namespace {

class ContractionReader {
 public:
  ContractionReader(const loop::Function& function, const loop::Kernel& kernel, std::string* why)
      : function_(function), kernel_(kernel), exprs_(*function.exprs), why_(why) {}

  std::optional<Problem> Read() {
    if (!Descend()) return std::nullopt;
    if (!Product()) return std::nullopt;
    if (!Roles()) return std::nullopt;
    Describe(problem_.a, problem_.m);
    Describe(problem_.b, problem_.n);
    Output();
    return std::move(problem_);
  }

 private:
  bool No(std::string why) {
    if (why_) *why_ = std::move(why);
    return false;
  }

  // Down the parallel loops to the block that holds the reduction.
  bool Descend() {
    loop::BlockId block = 0;
    for (;;) {
      OpId inner = loop::kNone;
      for (OpId id : kernel_.blocks[block].ops) {
        const Op& op = kernel_.ops[id];
        order_[id] = static_cast<int>(order_.size());
        if (op.kind != OpKind::kLoop) {
          problem_.epilogue.push_back(id);
          if (op.kind == OpKind::kScatter) return No("it scatters");
          if (op.buffer != loop::kNone &&
              function_.buffers[op.buffer].role == loop::BufferRole::kLocal)
            return No("it has local buffers");
          continue;
        }
        if (inner != loop::kNone) return No("a block holds two loops");
        inner = id;
      }
      if (inner == loop::kNone) return No("it has no reduction");
      const Op& loop = kernel_.ops[inner];
      if (loop.loop == LoopKind::kReduce) {
        reduce_ = inner;
        break;
      }
      if (loop.loop == LoopKind::kSequential) return No("it has a sequential loop");
      for (OpId id : kernel_.blocks[block].ops)
        if (kernel_.ops[id].kind == OpKind::kStore) return No("it stores between the loops");
      if (!IsPlainExtent(loop.extent)) return No("a loop extent depends on a loop");
      parallel_.push_back({loop.symbol, loop.extent});
      block = loop.body;
    }
    return true;
  }

  bool IsPlainExtent(Expr extent) const {
    for (Expr symbol : exprs_.SymbolsOf(extent))
      if (exprs_.SymbolKindOf(symbol) != SymbolKind::kDim) return false;
    return true;
  }

  // Down the reductions to the product.
  bool Product() {
    OpId id = reduce_;
    problem_.accumulator = kernel_.ops[id].results[0];
    for (;;) {
      const Op& loop = kernel_.ops[id];
      if (loop.reduces.size() != 1 || loop.reduces[0] != loop::ReduceKind::kSum)
        return No("its reduction is no sum");
      if (!IsPlainExtent(loop.extent)) return No("a loop extent depends on a loop");
      problem_.k.digits.push_back({loop.symbol, loop.extent});
      OpId inner = loop::kNone;
      for (OpId body : kernel_.blocks[loop.body].ops) {
        order_[body] = static_cast<int>(order_.size());
        const Op& op = kernel_.ops[body];
        if (op.kind == OpKind::kStore || op.kind == OpKind::kScatter)
          return No("its reduction stores");
        if (op.kind == OpKind::kLoop) {
          if (op.loop != LoopKind::kReduce || inner != loop::kNone)
            return No("loops within its reduction are no plain sums");
          inner = body;
        }
      }
      const Op& yield = kernel_.ops[kernel_.blocks[loop.body].ops.back()];
      OpId producer = kernel_.values[yield.operands[0]].producer;
      if (inner != loop::kNone) {
        if (producer != inner) return No("a nested sum is not yielded as it is");
        id = inner;
        continue;
      }
      if (producer == loop::kNone || kernel_.ops[producer].kind != OpKind::kScalar ||
          kernel_.ops[producer].opcode != kernel::Opcode::kMul)
        return No("the sum's term is no product");
      const Op& mul = kernel_.ops[producer];
      problem_.dtype = mul.dtype;
      if (problem_.dtype == DType::kBool || BitWidth(problem_.dtype) < 32)
        return No("its accumulator is narrower than 32 bits");
      problem_.a.value = mul.operands[0];
      problem_.b.value = mul.operands[1];
      if (kernel_.roles.product_a == mul.operands[1]) std::swap(problem_.a.value, problem_.b.value);
      return Slice(problem_.a) && Slice(problem_.b);
    }
  }

  bool Slice(Factor& factor) {
    std::set<OpId> ops;
    std::vector<loop::ValueId> todo = {factor.value};
    std::vector<Expr> exprs;
    auto need_symbols = [&](Expr e) {
      if (!e.valid()) return;
      for (Expr symbol : exprs_.SymbolsOf(e))
        for (OpId id = 0; id < kernel_.ops.size(); ++id)
          if (kernel_.ops[id].kind == OpKind::kIndirect && kernel_.ops[id].symbol == symbol &&
              ops.insert(id).second)
            todo.push_back(kernel_.ops[id].operands[0]);
    };
    while (!todo.empty()) {
      loop::ValueId v = todo.back();
      todo.pop_back();
      OpId id = kernel_.values[v].producer;
      if (id == loop::kNone) return No("a factor comes from a sequential loop");
      const Op& op = kernel_.ops[id];
      if (op.kind == OpKind::kLoop) return No("a factor comes from another loop");
      if (!ops.insert(id).second) continue;
      for (loop::ValueId operand : op.operands) todo.push_back(operand);
      need_symbols(op.index);
    }
    factor.ops.assign(ops.begin(), ops.end());
    for (OpId id : factor.ops)
      if (order_.count(id) == 0) return No("a factor's op is outside the nest");
    std::sort(factor.ops.begin(), factor.ops.end(),
              [this](OpId x, OpId y) { return order_[x] < order_[y]; });
    return true;
  }

  bool DependsOn(const Factor& factor, Expr symbol) const {
    for (OpId id : factor.ops) {
      const Op& op = kernel_.ops[id];
      if (op.index.valid() && exprs_.DependsOn(op.index, symbol)) return true;
    }
    return false;
  }

  bool Roles() {
    for (const auto& loop : parallel_) {
      bool in_a = DependsOn(problem_.a, loop.first), in_b = DependsOn(problem_.b, loop.first);
      Side& side = in_a == in_b ? problem_.batch : in_a ? problem_.m : problem_.n;
      side.digits.push_back(loop);
    }
    SplitOff(problem_.m);
    SplitOff(problem_.n);
    Finish(problem_.batch, "batch");
    Finish(problem_.m, "m");
    Finish(problem_.n, "n");
    Finish(problem_.k, "k");
    return true;
  }

  // A leading loop that the output does not continue into the next (the images of a batch in NCHW)
  // makes every flat index a division. Where the rest is large enough, it counts as a batch.
  void SplitOff(Side& side) {
    constexpr int64_t kEnough = 32;
    for (OpId id : problem_.epilogue) {
      const Op& op = kernel_.ops[id];
      if (op.kind != OpKind::kStore) continue;
      while (side.digits.size() > 1) {
        int64_t rest = 1;
        for (size_t i = 1; i < side.digits.size(); ++i) {
          int64_t extent = exprs_.HintOf(side.digits[i].second);
          rest = extent > kEnough || rest > kEnough ? kEnough : rest * extent;
        }
        std::optional<Expr> outer = exprs_.StrideOf(op.index, side.digits[0].first);
        std::optional<Expr> inner = exprs_.StrideOf(op.index, side.digits[1].first);
        if (outer && inner && *outer == exprs_.Mul(*inner, side.digits[1].second)) return;
        if (rest < kEnough) return;
        problem_.batch.digits.push_back(side.digits[0]);
        side.digits.erase(side.digits.begin());
      }
      return;
    }
  }

  void Finish(Side& side, std::string_view name) {
    side.extent = exprs_.Const(1);
    for (auto [symbol, extent] : side.digits) side.extent = exprs_.Mul(side.extent, extent);
    side.flat = side.digits.size() == 1 ? side.digits[0].first : exprs_.Loop(name, side.extent);
  }

  // StrideOf, where the stride itself is the same everywhere.
  std::optional<Expr> FixedStride(Expr e, Expr symbol) {
    std::optional<Expr> stride = exprs_.StrideOf(e, symbol);
    if (stride && !IsPlainExtent(*stride)) stride.reset();
    return stride;
  }

  void Describe(Factor& factor, const Side& own) {
    OpId id = kernel_.values[factor.value].producer;
    const Op* op = &kernel_.ops[id];
    if (op->kind == OpKind::kScalar && op->opcode == kernel::Opcode::kConvert) {
      factor.converted = true;
      id = kernel_.values[op->operands[0]].producer;
      if (id == loop::kNone) return;
      op = &kernel_.ops[id];
    }
    if (op->kind != OpKind::kLoad || !op->operands.empty()) return;
    // Nothing indirect: every op of the slice is the load or the conversion.
    if (factor.ops.size() > (factor.converted ? 2u : 1u)) return;
    for (Expr symbol : exprs_.SymbolsOf(op->index))
      for (const Op& other : kernel_.ops)
        if (other.kind == OpKind::kIndirect && other.symbol == symbol) return;
    factor.load = id;
    factor.index = FlatIndex(exprs_, problem_, op->index);
    factor.k_stride = FixedStride(factor.index, problem_.k.flat);
    factor.own_stride = FixedStride(factor.index, own.flat);
  }

  void Output() {
    bool first = true;
    for (OpId id : problem_.epilogue) {
      const Op& op = kernel_.ops[id];
      if (op.kind == OpKind::kScalar) {
        bool heavy = op.opcode >= kernel::Opcode::kExp && op.opcode <= kernel::Opcode::kRsqrt;
        problem_.epilogue_weight += heavy ? 20 : 1;
      } else if (op.kind == OpKind::kLoad) {
        problem_.epilogue_weight += 1;
      }
      if (op.kind != OpKind::kStore || !first) continue;
      first = false;
      Expr index = FlatIndex(exprs_, problem_, op.index);
      problem_.out_stride_m = FixedStride(index, problem_.m.flat);
      problem_.out_stride_n = FixedStride(index, problem_.n.flat);
    }
  }

  const loop::Function& function_;
  const loop::Kernel& kernel_;
  ExprArena& exprs_;
  std::string* why_;
  Problem problem_;
  OpId reduce_ = loop::kNone;
  std::vector<std::pair<Expr, Expr>> parallel_;
  std::map<OpId, int> order_;
};

}  // namespace

Expr FlatIndex(ExprArena& exprs, const Problem& problem, Expr e) {
  for (const Side* side : {&problem.batch, &problem.m, &problem.n, &problem.k}) {
    if (side->digits.size() <= 1) continue;
    std::vector<std::pair<Expr, Expr>> replacements;
    Expr rest = side->flat;
    for (size_t i = side->digits.size(); i-- > 0;) {
      auto [symbol, extent] = side->digits[i];
      replacements.emplace_back(symbol, i == 0 ? rest : exprs.Mod(rest, extent));
      if (i > 0) rest = exprs.FloorDiv(rest, extent);
    }
    e = exprs.Substitute(e, replacements);
  }
  return e;
}

std::optional<Problem> ReadContraction(const loop::Function& function, const loop::Kernel& kernel,
                                       std::string* why) {
  return ContractionReader(function, kernel, why).Read();
}

}  // namespace halyard::schedule
