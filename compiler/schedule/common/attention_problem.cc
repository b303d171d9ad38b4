// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/common/attention_problem.h"

#include <algorithm>
#include <map>
#include <set>

namespace halyard::schedule {

using kernel::Opcode;
using loop::LoopKind;
using loop::Op;
using loop::OpId;
using loop::OpKind;

namespace {

class AttentionReader {
 public:
  AttentionReader(const loop::Function& function, const loop::Kernel& kernel)
      : function_(function), kernel_(kernel), exprs_(*function.exprs) {}

  std::optional<AttentionProblem> Read() {
    if (kernel_.ordered_reductions) return std::nullopt;
    for (const Op& op : kernel_.ops) {
      if (op.kind == OpKind::kScatter) return std::nullopt;
    }
    if (!Descend()) return std::nullopt;
    bool has_contraction = false;
    for (OpId id : kernel_.blocks[body_].ops) {
      const Op& op = kernel_.ops[id];
      if (op.kind == OpKind::kConst) {
        problem_.constants.push_back(id);
        outside_.insert(op.results[0]);
        continue;
      }
      if (op.kind == OpKind::kIndirect) return std::nullopt;
      if (op.kind == OpKind::kLoop && op.loop == LoopKind::kParallel) {
        if (auto contraction = ReadContraction(op)) {
          problem_.steps.emplace_back().contraction = std::move(contraction);
          has_contraction = true;
          continue;
        }
      }
      if (problem_.steps.empty() || problem_.steps.back().contraction)
        problem_.steps.emplace_back();
      problem_.steps.back().ops.push_back(id);
    }
    if (!has_contraction || !FindLocals()) return std::nullopt;
    FindKept();
    return std::move(problem_);
  }

 private:
  bool Descend() {
    std::vector<std::pair<Expr, Expr>> loops;
    for (;;) {
      OpId inner = loop::kNone;
      bool is_body = false;
      for (OpId id : kernel_.blocks[body_].ops) {
        const Op& op = kernel_.ops[id];
        if (op.kind == OpKind::kConst) continue;
        is_body |=
            op.kind != OpKind::kLoop || op.loop != LoopKind::kParallel || inner != loop::kNone;
        inner = id;
      }
      if (inner == loop::kNone) return false;
      if (is_body) break;
      for (OpId id : kernel_.blocks[body_].ops) {
        if (id == inner) continue;
        problem_.constants.push_back(id);
        outside_.insert(kernel_.ops[id].results[0]);
      }
      const Op& loop = kernel_.ops[inner];
      if (!IsPlain(loop.extent)) return false;
      loops.emplace_back(loop.symbol, loop.extent);
      body_ = loop.body;
    }
    if (kernel_.roles.m.empty()) {
      // One row, which has no loop.
      if (kernel_.template_kind != loop::TemplateKind::kAttention) return false;
      problem_.m_extent = exprs_.Const(1);
      problem_.m = exprs_.Loop("row", problem_.m_extent);
    } else {
      if (loops.empty() || kernel_.roles.m.size() != 1 ||
          loops.back().first != kernel_.roles.m[0]) {
        return false;
      }
      problem_.m = loops.back().first;
      problem_.m_extent = loops.back().second;
      loops.pop_back();
    }
    problem_.batch_extent = exprs_.Const(1);
    for (const auto& loop : loops) {
      problem_.batch_extent = exprs_.Mul(problem_.batch_extent, loop.second);
    }
    problem_.batch = std::move(loops);
    return true;
  }

  bool IsPlain(Expr extent) const {
    for (Expr symbol : exprs_.SymbolsOf(extent)) {
      if (exprs_.SymbolKindOf(symbol) != SymbolKind::kDim) return false;
    }
    return true;
  }

  std::optional<AttentionContraction> ReadContraction(const Op& outer) {
    AttentionContraction c;
    c.n = outer.symbol;
    c.n_extent = outer.extent;
    const Op* reduce = nullptr;
    for (OpId id : kernel_.blocks[outer.body].ops) {
      const Op& op = kernel_.ops[id];
      if (op.kind != OpKind::kLoop) {
        c.epilogue.push_back(id);
        continue;
      }
      if (reduce != nullptr || op.loop != LoopKind::kReduce) return std::nullopt;
      reduce = &op;
    }
    if (reduce == nullptr || reduce->reduces.size() != 1 ||
        reduce->reduces[0] != loop::ReduceKind::kSum) {
      return std::nullopt;
    }
    c.k = reduce->symbol;
    c.k_extent = reduce->extent;
    c.sum = reduce->results[0];
    if (!IsPlain(c.n_extent) || !IsPlain(c.k_extent)) return std::nullopt;
    const std::vector<OpId>& ops = kernel_.blocks[reduce->body].ops;
    for (OpId id : ops) {
      const OpKind kind = kernel_.ops[id].kind;
      if (kind == OpKind::kLoop || kind == OpKind::kStore || kind == OpKind::kIndirect) {
        return std::nullopt;
      }
    }
    const OpId producer = kernel_.values[kernel_.ops[ops.back()].operands[0]].producer;
    if (producer == loop::kNone) return std::nullopt;
    const Op& product = kernel_.ops[producer];
    if (product.kind != OpKind::kScalar || product.opcode != Opcode::kMul ||
        !IsFloat(product.dtype) || BitWidth(product.dtype) < 32) {
      return std::nullopt;
    }
    c.dtype = product.dtype;
    for (const bool swap : {false, true}) {
      c.rows.value = product.operands[swap ? 1 : 0];
      c.vectors.value = product.operands[swap ? 0 : 1];
      if (Slice(ops, c.rows) && Slice(ops, c.vectors) && !DependsOn(c.rows, c.n) &&
          !DependsOn(c.vectors, problem_.m)) {
        c.is_contiguous = IsContiguous(c.vectors, c.n);
        return c;
      }
    }
    return std::nullopt;
  }

  // What computes the operand: ops of the sum's body and constants from outside.
  bool Slice(const std::vector<OpId>& body, AttentionOperand& operand) const {
    std::set<OpId> slice;
    std::vector<loop::ValueId> todo = {operand.value};
    while (!todo.empty()) {
      const loop::ValueId value = todo.back();
      todo.pop_back();
      if (outside_.contains(value)) continue;
      const OpId id = kernel_.values[value].producer;
      const bool is_constant = id != loop::kNone && kernel_.ops[id].kind == OpKind::kConst;
      if (!is_constant && std::find(body.begin(), body.end(), id) == body.end()) return false;
      if (!slice.insert(id).second) continue;
      for (loop::ValueId v : kernel_.ops[id].operands) todo.push_back(v);
    }
    operand.ops.assign(slice.begin(), slice.end());
    // Constants of an enclosing block first, then in the order of the body.
    const auto place = [&](OpId id) {
      const auto found = std::find(body.begin(), body.end(), id);
      return found == body.end() ? -1 : found - body.begin();
    };
    std::sort(operand.ops.begin(), operand.ops.end(),
              [&](OpId x, OpId y) { return place(x) < place(y); });
    return true;
  }

  bool DependsOn(const AttentionOperand& operand, Expr symbol) const {
    for (OpId id : operand.ops) {
      const Op& op = kernel_.ops[id];
      if (op.index.valid() && exprs_.DependsOn(op.index, symbol)) return true;
      // One copy per row.
      if (symbol == problem_.m && op.buffer != loop::kNone && IsLocal(op.buffer)) return true;
    }
    return false;
  }

  bool IsContiguous(const AttentionOperand& operand, Expr symbol) const {
    for (OpId id : operand.ops) {
      const Op& op = kernel_.ops[id];
      if (op.kind != OpKind::kLoad) continue;
      const std::optional<Expr> stride = exprs_.StrideOf(op.index, symbol);
      if (!stride || !(exprs_.IsConst(*stride, 0) || exprs_.IsConst(*stride, 1))) return false;
    }
    return true;
  }

  bool IsLocal(loop::BufferId id) const {
    return function_.buffers[id].role == loop::BufferRole::kLocal;
  }

  bool FindLocals() {
    std::set<loop::BufferId> locals;
    for (const Op& op : kernel_.ops) {
      if (op.buffer != loop::kNone && IsLocal(op.buffer)) locals.insert(op.buffer);
    }
    problem_.locals.assign(locals.begin(), locals.end());
    return std::all_of(locals.begin(), locals.end(), [&](loop::BufferId id) {
      return exprs_.AsConst(function_.buffers[id].elements).has_value();
    });
  }

  void FindKept() {
    std::map<loop::ValueId, size_t> step_of;
    std::set<loop::ValueId> kept;
    const auto use = [&](const Op& op, size_t step) {
      for (loop::ValueId v : op.operands) {
        const auto found = step_of.find(v);
        if (found != step_of.end() && found->second != step) kept.insert(v);
      }
    };
    for (size_t step = 0; step < problem_.steps.size(); ++step) {
      const AttentionStep& one = problem_.steps[step];
      if (one.contraction) {
        for (OpId id : one.contraction->epilogue) use(kernel_.ops[id], step);
        continue;
      }
      for (OpId id : one.ops) {
        Visit(id, [&](const Op& op) { use(op, step); });
        for (loop::ValueId v : kernel_.ops[id].results) step_of[v] = step;
      }
    }
    problem_.kept.assign(kept.begin(), kept.end());
  }

  template <typename Body>
  void Visit(OpId id, const Body& body) const {
    body(kernel_.ops[id]);
    if (kernel_.ops[id].kind != OpKind::kLoop) return;
    for (OpId inner : kernel_.blocks[kernel_.ops[id].body].ops) Visit(inner, body);
  }

  const loop::Function& function_;
  const loop::Kernel& kernel_;
  ExprArena& exprs_;
  AttentionProblem problem_;
  loop::BlockId body_ = 0;
  std::set<loop::ValueId> outside_;  // constants
};

}  // namespace

std::optional<AttentionProblem> ReadAttention(const loop::Function& function,
                                              const loop::Kernel& kernel) {
  return AttentionReader(function, kernel).Read();
}

Side SideOf(Expr symbol, Expr extent) {
  Side side;
  side.digits = {{symbol, extent}};
  side.flat = symbol;
  side.extent = extent;
  return side;
}

Factor FactorOf(const AttentionOperand& operand) {
  Factor factor;
  factor.value = operand.value;
  factor.ops = operand.ops;
  return factor;
}

}  // namespace halyard::schedule
