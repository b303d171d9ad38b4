// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/gpu/online_softmax.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

namespace halyard::schedule {

using kernel::Opcode;
using loop::LoopKind;
using loop::Op;
using loop::OpId;
using loop::OpKind;
using loop::ReduceKind;

namespace {

class SoftmaxReader {
 public:
  SoftmaxReader(const loop::Function& function, const loop::Kernel& kernel)
      : function_(function), kernel_(kernel), exprs_(*function.exprs) {}

  std::optional<OnlineSoftmax> Read() {
    std::optional<AttentionProblem> attention = ReadAttention(function_, kernel_);
    if (!attention || attention->steps.size() != 3) return {};
    if (!attention->steps[0].contraction || attention->steps[1].contraction ||
        !attention->steps[2].contraction) {
      return {};
    }
    online_.attention = std::move(*attention);
    online_.scores = *online_.attention.steps[0].contraction;
    online_.values = *online_.attention.steps[2].contraction;
    if (!ReadScores() || !ReadRow() || !ReadValues()) return {};
    FindVisibleEnd();
    return std::move(online_);
  }

 private:
  const Op* Producer(loop::ValueId value) const {
    const OpId id = kernel_.values[value].producer;
    return id == loop::kNone ? nullptr : &kernel_.ops[id];
  }

  // A buffer that no one else reads.
  bool IsOwn(loop::BufferId buffer) const {
    const loop::BufferRole role = function_.buffers[buffer].role;
    if (role == loop::BufferRole::kLocal) return true;
    if (role != loop::BufferRole::kTemp) return false;
    for (const loop::Kernel& other : function_.kernels) {
      if (&other == &kernel_) continue;
      for (const Op& op : other.ops) {
        if (op.buffer == buffer) return false;
      }
    }
    return true;
  }

  // The element that `op` names, were its loop over `symbol` one over the scores' keys.
  Expr AtKey(const Op& op, Expr symbol) const {
    const std::pair<Expr, Expr> same(symbol, online_.scores.n);
    return exprs_.Substitute(op.index, {&same, 1});
  }
  bool IsLoadOf(const Op* op, loop::BufferId buffer, Expr symbol, Expr index) const {
    return op != nullptr && op->kind == OpKind::kLoad && op->buffer == buffer &&
           op->operands.empty() && AtKey(*op, symbol) == index;
  }

  bool ReadScores() {
    const Op* store = nullptr;
    for (OpId id : online_.scores.epilogue) {
      const Op& op = kernel_.ops[id];
      if (op.kind == OpKind::kIndirect) return false;
      if (op.kind != OpKind::kStore) {
        online_.score_ops.push_back(id);
        continue;
      }
      if (store != nullptr || op.operands.size() != 1 || !IsOwn(op.buffer)) return false;
      store = &op;
    }
    if (store == nullptr || online_.scores.dtype != DType::kF32) return false;
    online_.score = store->operands[0];
    if (kernel_.values[online_.score].dtype != DType::kF32) return false;
    scores_ = store->buffer;
    scores_at_ = store->index;
    return true;
  }

  // The maximum, the weights with their sum, and what follows from the sum.
  bool ReadRow() {
    loop::ValueId maximum = loop::kNone;
    for (OpId id : online_.attention.steps[1].ops) {
      const Op& op = kernel_.ops[id];
      if (op.kind == OpKind::kConst || op.kind == OpKind::kScalar || op.kind == OpKind::kIndex) {
        for (loop::ValueId v : op.operands) {
          if (v == maximum) return false;
        }
        online_.row_ops.push_back(id);
        continue;
      }
      if (op.kind != OpKind::kLoop || op.loop != LoopKind::kReduce || op.reduces.size() != 1 ||
          op.extent != online_.scores.n_extent) {
        return false;
      }
      const std::vector<OpId>& body = kernel_.blocks[op.body].ops;
      const Op* yielded = Producer(kernel_.ops[body.back()].operands[0]);
      if (op.reduces[0] == ReduceKind::kMax && maximum == loop::kNone) {
        if (body.size() != 2 || !IsLoadOf(yielded, scores_, op.symbol, scores_at_)) return false;
        maximum = op.results[0];
        continue;
      }
      if (op.reduces[0] != ReduceKind::kSum || maximum == loop::kNone ||
          online_.sum != loop::kNone) {
        return false;
      }
      // load, sub, exp, store, yield
      if (yielded == nullptr || yielded->opcode != Opcode::kExp || body.size() != 5) return false;
      const Op* shifted = Producer(yielded->operands[0]);
      if (shifted == nullptr || shifted->opcode != Opcode::kSub ||
          shifted->operands[1] != maximum ||
          !IsLoadOf(Producer(shifted->operands[0]), scores_, op.symbol, scores_at_)) {
        return false;
      }
      for (OpId inner : body) {
        const Op& store = kernel_.ops[inner];
        if (store.kind != OpKind::kStore) continue;
        if (store.operands.size() != 1 || store.operands[0] != yielded->results[0] ||
            !IsOwn(store.buffer)) {
          return false;
        }
        weights_ = store.buffer;
        weights_at_ = AtKey(store, op.symbol);
      }
      if (weights_ == loop::kNone) return false;
      online_.sum = op.results[0];
    }
    return online_.sum != loop::kNone;
  }

  bool ReadValues() {
    const AttentionContraction& values = online_.values;
    if (values.dtype != DType::kF32 || values.k_extent != online_.scores.n_extent) return false;
    if (!IsLoadOf(Producer(values.rows.value), weights_, values.k, weights_at_)) return false;
    for (OpId id : values.epilogue) {
      const Op& op = kernel_.ops[id];
      if (op.kind == OpKind::kIndirect) return false;
      if (op.kind == OpKind::kLoad && (op.buffer == scores_ || op.buffer == weights_)) return false;
    }
    // Of the steps before, the epilogue may use the sum and what row_ops make of it.
    for (loop::ValueId kept : online_.attention.kept) {
      const bool is_row_op =
          std::any_of(online_.row_ops.begin(), online_.row_ops.end(),
                      [&](OpId id) { return kernel_.ops[id].results[0] == kept; });
      if (kept != online_.sum && !is_row_op) return false;
    }
    return true;
  }

  // The end that a comparison with the key's index puts to the keys: key < end wherever it is true.
  Expr EndOf(const Op& op) const {
    if (op.kind != OpKind::kScalar || op.operands.size() != 2) return {};
    const bool key_first = op.opcode == Opcode::kLt || op.opcode == Opcode::kLe;
    if (!key_first && op.opcode != Opcode::kGt && op.opcode != Opcode::kGe) return {};
    const Op* key = Producer(op.operands[key_first ? 0 : 1]);
    const Op* end = Producer(op.operands[key_first ? 1 : 0]);
    if (key == nullptr || end == nullptr || key->kind != OpKind::kIndex ||
        key->index != online_.scores.n) {
      return {};
    }
    Expr limit;
    if (end->kind == OpKind::kIndex) limit = end->index;
    if (end->kind == OpKind::kConst) limit = exprs_.Const(end->immediate);
    if (!limit.valid() || exprs_.DependsOn(limit, online_.scores.n)) return {};
    const bool is_strict = op.opcode == Opcode::kLt || op.opcode == Opcode::kGt;
    return is_strict ? limit : exprs_.Add(limit, exprs_.Const(1));
  }

  // The score where comparison `no` is false, as far as that decides it. What is added to an
  // infinity is taken for a finite number.
  std::optional<double> ScoreWithout(OpId no) const {
    std::map<loop::ValueId, double> known;
    const auto at = [&](loop::ValueId value) -> std::optional<double> {
      if (const auto found = known.find(value); found != known.end()) return found->second;
      const Op* constant = Producer(value);
      if (constant == nullptr || constant->kind != OpKind::kConst) return {};
      return IsFloat(kernel_.values[value].dtype) ? std::bit_cast<double>(constant->immediate)
                                                  : static_cast<double>(constant->immediate);
    };
    for (OpId id : online_.score_ops) {
      const Op& op = kernel_.ops[id];
      if (op.kind != OpKind::kScalar) continue;
      const std::optional<double> a = at(op.operands[0]), b = at(op.operands.back());
      std::optional<double> result;
      switch (op.opcode) {
        case Opcode::kAnd:
          if ((a && *a == 0) || (b && *b == 0)) result = 0;
          break;
        case Opcode::kOr:
          if (op.dtype == DType::kBool && ((a && *a != 0) || (b && *b != 0))) result = 1;
          break;
        case Opcode::kEq:
          if (a && b) result = *a == *b;
          break;
        case Opcode::kNe:
          if (a && b) result = *a != *b;
          break;
        case Opcode::kSelect:
          if (a) result = at(op.operands[*a != 0 ? 1 : 2]);
          break;
        case Opcode::kMax:
          if (a && b) result = std::max(*a, *b);
          break;
        case Opcode::kAdd:
          if (a && std::isinf(*a)) result = a;
          if (b && std::isinf(*b)) result = b;
          break;
        case Opcode::kConvert:
          if (a && (std::isinf(*a) || *a == 0)) result = a;
          break;
        default:
          break;
      }
      if (id == no) result = 0;
      if (result) known[op.results[0]] = *result;
    }
    return at(online_.score);
  }

  // A mask that hides every key beyond one that grows with the row.
  void FindVisibleEnd() {
    for (OpId id : online_.score_ops) {
      const Expr end = EndOf(kernel_.ops[id]);
      if (!end.valid()) continue;
      const std::optional<Expr> stride = exprs_.StrideOf(end, online_.attention.m);
      if (!stride || exprs_.RangeOf(*stride).lo < 0) continue;
      if (ScoreWithout(id) != -std::numeric_limits<double>::infinity()) continue;
      online_.visible_end = end;
      return;
    }
  }

  const loop::Function& function_;
  const loop::Kernel& kernel_;
  ExprArena& exprs_;
  OnlineSoftmax online_;
  loop::BufferId scores_ = loop::kNone, weights_ = loop::kNone;
  Expr scores_at_, weights_at_;
};

}  // namespace

std::optional<OnlineSoftmax> ReadOnlineSoftmax(const loop::Function& function,
                                               const loop::Kernel& kernel) {
  return SoftmaxReader(function, kernel).Read();
}

}  // namespace halyard::schedule
