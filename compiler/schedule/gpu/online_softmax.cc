// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/gpu/online_softmax.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/float16.h"

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
        if (maximum != loop::kNone && online_.is_hidden == loop::kNone &&
            op.opcode == Opcode::kEq && op.operands[0] == maximum &&
            Constant({}, op.operands[1]) == -std::numeric_limits<double>::infinity()) {
          online_.is_hidden = op.results[0];
          continue;
        }
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
    // Of the steps before, the epilogue may use the sum, is_hidden and what row_ops make of them.
    for (loop::ValueId kept : online_.attention.kept) {
      const bool is_row_op =
          std::any_of(online_.row_ops.begin(), online_.row_ops.end(),
                      [&](OpId id) { return kernel_.ops[id].results[0] == kept; });
      if (kept != online_.sum && kept != online_.is_hidden && !is_row_op) return false;
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

  using Choice = ShownOp::Choice;
  // What an assumption makes of the scores' ops.
  struct Facts {
    std::map<loop::ValueId, Choice> choices;
    std::map<loop::ValueId, loop::ValueId> same;
  };
  static loop::ValueId Resolve(const Facts& facts, loop::ValueId value) {
    const auto found = facts.same.find(value);
    return found == facts.same.end() ? value : found->second;
  }
  // Constants included.
  std::optional<Choice> ChoiceOf(const Facts& facts, loop::ValueId value) const {
    if (const auto found = facts.choices.find(value); found != facts.choices.end()) {
      return found->second;
    }
    const Op* constant = Producer(value);
    if (constant == nullptr || constant->kind != OpKind::kConst) return {};
    const double number = IsFloat(kernel_.values[value].dtype)
                              ? std::bit_cast<double>(constant->immediate)
                              : static_cast<double>(constant->immediate);
    return Choice{loop::kNone, number, number};
  }
  std::optional<double> Constant(const Facts& facts, loop::ValueId value) const {
    const std::optional<Choice> choice = ChoiceOf(facts, value);
    if (!choice || choice->condition != loop::kNone) return {};
    return choice->yes;
  }

  // Of numbers; nothing where the op is none of those that masks are made of.
  static std::optional<double> Compute(const Op& op, double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return {};
    switch (op.opcode) {
      case Opcode::kAnd:
        if (op.dtype == DType::kBool) return a != 0 && b != 0;
        return {};
      case Opcode::kOr:
        if (op.dtype == DType::kBool) return a != 0 || b != 0;
        return {};
      case Opcode::kEq:
        return a == b;
      case Opcode::kNe:
        return a != b;
      case Opcode::kMax:
        return std::max(a, b);
      case Opcode::kConvert:
        if (op.dtype == DType::kF16) return F32FromF16(F16FromF32(static_cast<float>(a)));
        if (op.dtype == DType::kF32 || op.dtype == DType::kF64 || std::isinf(a) || a == 0) return a;
        return {};
      default:
        return {};
    }
  }

  void Learn(Facts& facts, const Op& op) const {
    const loop::ValueId result = op.results[0];
    const std::optional<Choice> a = ChoiceOf(facts, op.operands[0]);
    const std::optional<Choice> b = ChoiceOf(facts, op.operands.back());
    const auto constant = [](const std::optional<Choice>& choice) {
      return choice && choice->condition == loop::kNone ? std::optional(choice->yes) : std::nullopt;
    };
    const auto equals = [&](loop::ValueId value) {
      facts.same[result] = Resolve(facts, value);
      if (const auto choice = ChoiceOf(facts, value)) facts.choices[result] = *choice;
    };
    if (op.opcode == Opcode::kSelect) {
      const std::optional<Choice> yes = ChoiceOf(facts, op.operands[1]);
      if (const auto condition = constant(a)) {
        equals(op.operands[*condition != 0 ? 1 : 2]);
      } else if (const auto x = constant(yes), y = constant(b); !a && x && y) {
        facts.choices[result] = {Resolve(facts, op.operands[0]), *x, *y};
      }
      return;
    }
    if (op.operands.size() > 2) return;
    for (const size_t side : {0, 1}) {
      const std::optional<double> one = constant(side == 0 ? a : b);
      if (!one || op.operands.size() != 2) continue;
      const loop::ValueId other = op.operands[1 - side];
      const bool is_neutral = (op.opcode == Opcode::kAdd && *one == 0) ||
                              (op.opcode == Opcode::kAnd && op.dtype == DType::kBool && *one != 0);
      // What is added to an infinity is taken for a finite number.
      const bool decides = (op.opcode == Opcode::kAdd && std::isinf(*one)) ||
                           (op.opcode == Opcode::kAnd && *one == 0) ||
                           (op.opcode == Opcode::kOr && op.dtype == DType::kBool && *one != 0);
      if (decides) {
        facts.choices[result] = {loop::kNone, *one, *one};
        return;
      }
      if (is_neutral) return equals(other);
    }
    if (!a || !b) return;
    const loop::ValueId condition = a->condition != loop::kNone ? a->condition : b->condition;
    if (b->condition != loop::kNone && b->condition != condition) return;
    const std::optional<double> yes = Compute(op, a->yes, b->yes), no = Compute(op, a->no, b->no);
    if (yes && no) facts.choices[result] = {*yes == *no ? loop::kNone : condition, *yes, *no};
  }

  // What the scores' ops give where comparison `no` gives `assumed`, as far as that decides it.
  Facts WhereComparison(OpId no, std::optional<bool> assumed) const {
    Facts facts;
    for (OpId id : online_.score_ops) {
      const Op& op = kernel_.ops[id];
      if (op.kind != OpKind::kScalar) continue;
      if (id == no && assumed) {
        const double value = *assumed;
        facts.choices[op.results[0]] = {loop::kNone, value, value};
      } else {
        Learn(facts, op);
      }
    }
    return facts;
  }

  // What the score adds to something, where that is known.
  std::optional<double> AddedTo(const Facts& facts) const {
    const Op* add = Producer(Resolve(facts, online_.score));
    if (add == nullptr || add->kind != OpKind::kScalar || add->opcode != Opcode::kAdd) return {};
    const std::optional<double> left = Constant(facts, add->operands[0]);
    return left ? left : Constant(facts, add->operands[1]);
  }

  // A mask that hides every key beyond one that grows with the row.
  void FindVisibleEnd() {
    Facts shown = WhereComparison(0, {});
    for (OpId id : online_.score_ops) {
      const Expr end = EndOf(kernel_.ops[id]);
      if (!end.valid()) continue;
      const std::optional<Expr> stride = exprs_.StrideOf(end, online_.attention.m);
      if (!stride || exprs_.RangeOf(*stride).lo < 0) continue;
      const Facts hidden = WhereComparison(id, false);
      const bool is_hidden =
          Constant(hidden, online_.score) == -std::numeric_limits<double>::infinity();
      if (!is_hidden && AddedTo(hidden).value_or(0) > kHidingScore) continue;
      (is_hidden ? online_.visible_end : online_.shown_end) = end;
      shown = WhereComparison(id, true);
      break;
    }
    FindShownScore(shown);
  }

  // unit * the sum.
  std::optional<double> UnitOf(const Facts& facts, loop::ValueId value) const {
    const Op* scaled = Producer(value);
    if (scaled == nullptr || scaled->kind != OpKind::kScalar || scaled->opcode != Opcode::kMul) {
      return {};
    }
    const size_t side = scaled->operands[0] == online_.scores.sum ? 1 : 0;
    if (scaled->operands[1 - side] != online_.scores.sum) return {};
    const std::optional<double> unit = Constant(facts, scaled->operands[side]);
    if (!unit || !(*unit > 0) || !std::isfinite(*unit)) return {};
    return unit;
  }

  // Of the scores' ops those that the score of a key that is not hidden needs.
  void FindShownScore(const Facts& facts) {
    online_.shown_score = Resolve(facts, online_.score);
    if (const auto unit = UnitOf(facts, online_.shown_score)) {
      online_.shown_score = online_.scores.sum;
      online_.unit = *unit;
    }
    const Op* add = Producer(online_.shown_score);
    if (add != nullptr && add->kind == OpKind::kScalar && add->opcode == Opcode::kAdd) {
      for (const size_t side : {0, 1}) {
        const auto factor = UnitOf(facts, Resolve(facts, add->operands[side]));
        if (!factor) continue;
        online_.shown_score = online_.scores.sum;
        online_.shown_factor = *factor;
        online_.shown_bias = Resolve(facts, add->operands[1 - side]);
        break;
      }
    }
    std::set<loop::ValueId> needed = {online_.shown_score, online_.shown_bias};
    for (size_t i = online_.score_ops.size(); i-- > 0;) {
      ShownOp shown;
      shown.op = online_.score_ops[i];
      const Op& op = kernel_.ops[shown.op];
      if (op.results.empty() || !needed.contains(op.results[0])) continue;
      if (const auto found = facts.choices.find(op.results[0]); found != facts.choices.end()) {
        shown.choice = found->second;
        if (found->second.condition != loop::kNone) needed.insert(found->second.condition);
      } else if (const auto alias = facts.same.find(op.results[0]); alias != facts.same.end()) {
        needed.insert(shown.same = alias->second);
      } else {
        needed.insert(op.operands.begin(), op.operands.end());
      }
      online_.shown_ops.push_back(shown);
    }
    std::reverse(online_.shown_ops.begin(), online_.shown_ops.end());
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
