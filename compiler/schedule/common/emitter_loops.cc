// SPDX-License-Identifier: Apache-2.0
// The loops of Emitter: parallel, reduction and sequential ones, as written or with vector lanes.
// A vector loop has a body of whole vectors and then one masked vector, or scalars where the target
// has no cheap masks. Vectorised reductions keep `unroll` accumulators and combine them in a fixed
// order.
#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "compiler/schedule/common/emitter.h"

namespace halyard::schedule {

using kernel::kNone;
using kernel::Opcode;
using kernel::Type;
using loop::LoopKind;
using loop::OpKind;
using loop::ReduceKind;
using V = kernel::ValueId;

namespace {

// A loop is written out when it is this short and holds this few ops in all its copies.
constexpr int64_t kMaxCopies = 9;
constexpr int64_t kMaxCopiedOps = 220;

int64_t CountOps(const loop::Kernel& kernel, loop::BlockId block) {
  int64_t count = 0;
  for (loop::OpId id : kernel.blocks[block].ops) {
    const loop::Op& op = kernel.ops[id];
    count += op.kind == OpKind::kLoop ? kMaxCopiedOps : 1;
  }
  return count;
}

bool HasLoops(const loop::Kernel& kernel, loop::BlockId block) {
  for (loop::OpId id : kernel.blocks[block].ops)
    if (kernel.ops[id].kind == OpKind::kLoop) return true;
  return false;
}

}  // namespace

bool Emitter::IsSmall(const loop::Op& op, int64_t copies) const {
  return copies <= kMaxCopies && copies * CountOps(kernel_, op.body) <= kMaxCopiedOps;
}

Status Emitter::EmitParallel(loop::OpId id, V lo, V hi, int64_t divisor, loop::BlockId body) {
  const loop::Op& op = kernel_.ops[id];
  if (body == loop::kNone) body = op.body;
  std::optional<int64_t> extent = exprs_.AsConst(Resolve(op.extent));
  bool runs = lo == kNone && exprs_.RangeOf(Resolve(op.extent)).lo >= 1;
  bool whole = lo == kNone;
  if (whole) lo = writer_.Index(0), hi = Evaluate(op.extent);
  V one = writer_.Index(1);
  if (axis_.lanes > 1 || options_.lanes == 1 || options_.vector_loops.count(id) == 0) {
    if (whole && extent && IsSmall(op, *extent)) {
      for (int64_t i = 0; i < *extent; ++i) {
        Bind(op.symbol, writer_.Index(i));
        HY_TRY(EmitBlock(body));
      }
      return OkStatus();
    }
    Writer::Loop loop = writer_.BeginFor(lo, hi, one, {}, runs);
    Bind(op.symbol, loop.variable);
    HY_TRY(EmitBlock(body));
    writer_.EndFor({});
    return OkStatus();
  }
  // Callers give lo as a multiple of the lanes, so every vector but the last is whole and aligned.
  int lanes = options_.lanes;
  if (extent && whole)
    lanes = static_cast<int>(
        std::min<uint64_t>(static_cast<uint64_t>(lanes),
                           std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(*extent, 1)))));
  V count = writer_.Sub(hi, lo);
  V rest =
      divisor % lanes == 0 ? writer_.Index(0) : writer_.FloorMod(count, writer_.Index(lanes), true);
  V main = writer_.Sub(hi, rest);
  std::optional<int64_t> const_main;
  if (writer_.AsConst(main) && writer_.AsConst(lo))
    const_main = *writer_.AsConst(main) - *writer_.AsConst(lo);
  if (!const_main || *const_main > 0) {
    Writer::Loop loop =
        writer_.BeginFor(lo, main, writer_.Index(lanes), {}, const_main.has_value());
    BeginVector(op.symbol, loop.variable, lanes, kNone);
    HY_TRY(EmitBlock(body));
    EndVector();
    writer_.EndFor({});
  }
  if (writer_.AsConst(rest) == 0) return OkStatus();
  if (options_.masked_tails) {
    bool conditional = !writer_.AsConst(rest);
    if (conditional) writer_.BeginIf(writer_.Compare(Opcode::kGt, rest, writer_.Index(0)));
    V mask = writer_.Compare(Opcode::kLt, writer_.Iota(writer_.index_dtype(), lanes), rest);
    BeginVector(op.symbol, main, lanes, mask);
    HY_TRY(EmitBlock(body));
    EndVector();
    if (conditional) writer_.EndIf({});
  } else {
    Writer::Loop loop = writer_.BeginFor(main, hi, one, {}, writer_.AsConst(rest).has_value());
    Bind(op.symbol, loop.variable);
    HY_TRY(EmitBlock(body));
    writer_.EndFor({});
  }
  return OkStatus();
}

namespace {

bool IsArg(ReduceKind kind) { return kind == ReduceKind::kArgMax || kind == ReduceKind::kArgMin; }

// Accumulators of a reduction: one per entry, two (value, index) for an arg reduction.
struct Slot {
  ReduceKind kind;
  size_t at;    // first accumulator
  DType dtype;  // of it
};

std::vector<Slot> SlotsOf(const loop::Kernel& kernel, const loop::Op& op) {
  std::vector<Slot> slots;
  const loop::Op& yield = kernel.ops[kernel.blocks[op.body].ops.back()];
  size_t at = 0;
  for (ReduceKind kind : op.reduces) {
    slots.push_back(Slot{kind, at, kernel.values[yield.operands[at]].dtype});
    at += IsArg(kind) ? 2 : 1;
  }
  return slots;
}

// Bits of the least or greatest value of an integer or bool.
int64_t IntegerLimit(DType dtype, bool lowest) {
  int bits = BitWidth(dtype);
  if (dtype == DType::kBool) return lowest ? 0 : 1;
  if (IsSigned(dtype)) {
    int64_t min = bits == 64 ? INT64_MIN : -(int64_t{1} << (bits - 1));
    return lowest ? min : -(min + 1);
  }
  if (lowest) return 0;
  return bits == 64 ? -1 : (int64_t{1} << bits) - 1;
}

}  // namespace

std::vector<V> Emitter::Identities(const loop::Op& op, int lanes) {
  std::vector<V> identities;
  auto limit = [&](DType dtype, bool lowest) {
    double infinity = std::numeric_limits<double>::infinity();
    return IsFloat(dtype) ? writer_.Float(dtype, lowest ? -infinity : infinity, lanes)
                          : writer_.Const(dtype, IntegerLimit(dtype, lowest), lanes);
  };
  const loop::Op& yield = kernel_.ops[kernel_.blocks[op.body].ops.back()];
  for (const Slot& slot : SlotsOf(kernel_, op)) {
    switch (slot.kind) {
      case ReduceKind::kSum:
      case ReduceKind::kAny:
        identities.push_back(writer_.Const(slot.dtype, 0, lanes));
        break;
      case ReduceKind::kProd:
        identities.push_back(IsFloat(slot.dtype) ? writer_.Float(slot.dtype, 1.0, lanes)
                                                 : writer_.Const(slot.dtype, 1, lanes));
        break;
      case ReduceKind::kAll:
        identities.push_back(writer_.Const(slot.dtype, 1, lanes));
        break;
      case ReduceKind::kMax:
        identities.push_back(limit(slot.dtype, true));
        break;
      case ReduceKind::kMin:
        identities.push_back(limit(slot.dtype, false));
        break;
      case ReduceKind::kArgMax:
      case ReduceKind::kArgMin: {
        DType index = kernel_.values[yield.operands[slot.at + 1]].dtype;
        identities.push_back(limit(slot.dtype, slot.kind == ReduceKind::kArgMax));
        identities.push_back(writer_.Const(index, IntegerLimit(index, false), lanes));
        break;
      }
      case ReduceKind::kNone:
        HY_UNREACHABLE("a reduction without a kind");
    }
  }
  return identities;
}

void Emitter::Combine(const loop::Op& op, std::vector<V>& accumulators,
                      const std::vector<V>& values) {
  for (const Slot& slot : SlotsOf(kernel_, op)) {
    auto pair = [&](size_t at) {
      V x = accumulators[at], y = values[at];
      int lanes = std::max(writer_.LanesOf(x), writer_.LanesOf(y));
      return std::pair(writer_.Splat(x, lanes), writer_.Splat(y, lanes));
    };
    auto [a, b] = pair(slot.at);
    const bool is_extreme = slot.kind == ReduceKind::kMax || slot.kind == ReduceKind::kMin;
    if (is_extreme && a == Identities(op, writer_.LanesOf(a))[slot.at]) {
      accumulators[slot.at] = b;
      continue;
    }
    bool is_bool = slot.dtype == DType::kBool;
    Opcode opcode = Opcode::kAdd;
    switch (slot.kind) {
      case ReduceKind::kSum:
        opcode = Opcode::kAdd;
        break;
      case ReduceKind::kProd:
        opcode = Opcode::kMul;
        break;
      case ReduceKind::kMax:
        opcode = is_bool ? Opcode::kOr : Opcode::kMax;
        break;
      case ReduceKind::kMin:
        opcode = is_bool ? Opcode::kAnd : Opcode::kMin;
        break;
      case ReduceKind::kAny:
        opcode = Opcode::kOr;
        break;
      case ReduceKind::kAll:
        opcode = Opcode::kAnd;
        break;
      case ReduceKind::kArgMax:
      case ReduceKind::kArgMin: {
        auto [i, j] = pair(slot.at + 1);
        bool max = slot.kind == ReduceKind::kArgMax;
        V better, equal;
        auto both = [&](Opcode op, V x, V y) {
          return writer_.Pure(op, writer_.TypeOf(x), {x, y});
        };
        if (is_bool) {
          V wins = max ? b : writer_.Pure(Opcode::kNot, writer_.TypeOf(b), {b});
          V loses = max ? writer_.Pure(Opcode::kNot, writer_.TypeOf(a), {a}) : a;
          better = both(Opcode::kAnd, wins, loses);
          equal = writer_.Compare(Opcode::kEq, a, b);
        } else {
          better = writer_.Compare(max ? Opcode::kGt : Opcode::kLt, b, a);
          equal = writer_.Compare(Opcode::kEq, a, b);
          if (IsFloat(slot.dtype)) {
            V nan_a = writer_.Compare(Opcode::kNe, a, a),
              nan_b = writer_.Compare(Opcode::kNe, b, b);
            V ok_a = writer_.Compare(Opcode::kEq, a, a);
            better = both(Opcode::kOr, better, both(Opcode::kAnd, nan_b, ok_a));
            // A number never beats NaN: comparisons with NaN are false already.
            equal = both(Opcode::kOr, equal, both(Opcode::kAnd, nan_a, nan_b));
          }
        }
        V earlier = both(Opcode::kAnd, equal, writer_.Compare(Opcode::kLt, j, i));
        V take = both(Opcode::kOr, better, earlier);
        accumulators[slot.at] = writer_.Select(take, b, a);
        accumulators[slot.at + 1] = writer_.Select(take, j, i);
        continue;
      }
      case ReduceKind::kNone:
        HY_UNREACHABLE("a reduction without a kind");
    }
    // The check of a maximum's first operand for NaN is then none of the chain from sum to sum.
    const bool swaps = opcode == Opcode::kMax || opcode == Opcode::kMin;
    accumulators[slot.at] = writer_.Pure(opcode, writer_.TypeOf(a), {swaps ? b : a, swaps ? a : b});
  }
}

// A float sum of products becomes a fused multiply-add.
Status Emitter::Accumulate(const loop::Op& op, std::vector<V>& accumulators) {
  HY_TRY(EmitBlock(op.body));
  std::vector<V> values = YieldsOf(op.body);
  if (op.reduces.size() == 1 && op.reduces[0] == ReduceKind::kSum && IsFloat(op.dtype) &&
      !kernel_.ordered_reductions) {
    const loop::Op& yield = kernel_.ops[kernel_.blocks[op.body].ops.back()];
    loop::OpId producer = kernel_.values[yield.operands[0]].producer;
    if (producer != loop::kNone && kernel_.ops[producer].kind == OpKind::kScalar &&
        kernel_.ops[producer].opcode == Opcode::kMul && BitWidth(op.dtype) >= 32) {
      const auto& factors = kernel_.ops[producer].operands;
      V a = ValueOf(factors[0]), b = ValueOf(factors[1]), c = accumulators[0];
      int lanes = std::max({writer_.LanesOf(a), writer_.LanesOf(b), writer_.LanesOf(c)});
      accumulators[0] =
          writer_.Pure(Opcode::kFma, Type{op.dtype, static_cast<uint16_t>(lanes)},
                       {writer_.Splat(a, lanes), writer_.Splat(b, lanes), writer_.Splat(c, lanes)});
    } else {
      Combine(op, accumulators, values);
    }
  } else {
    Combine(op, accumulators, values);
  }
  return OkStatus();
}

Status Emitter::ReduceStep(const loop::Op& op, std::vector<V>& accumulators) {
  std::vector<V> before = accumulators;
  HY_TRY(Accumulate(op, accumulators));
  if (axis_.lanes > 1 && axis_.mask != kNone && axis_.symbol == op.symbol)
    for (size_t i = 0; i < accumulators.size(); ++i)
      accumulators[i] = writer_.Select(axis_.mask, accumulators[i], before[i]);
  return OkStatus();
}

Status Emitter::ReduceLoop(const loop::Op& op, V lo, V hi, int64_t stride, bool runs,
                           const Step& step, std::vector<V>& accumulators) {
  const auto is_float_sum = [](const Slot& slot) {
    return slot.kind == ReduceKind::kSum && IsFloat(slot.dtype);
  };
  const std::vector<Slot> slots = SlotsOf(kernel_, op);
  const int64_t block = stride * options_.sum_block;
  const bool is_blocked = block > 0 && !kernel_.ordered_reductions &&
                          exprs_.RangeOf(Resolve(op.extent)).hi > block &&
                          std::any_of(slots.begin(), slots.end(), is_float_sum);
  const auto loop_over = [&](V from, V to, bool is_run, std::vector<V>& values) -> Status {
    Writer::Loop loop = writer_.BeginFor(from, to, writer_.Index(stride), values, is_run);
    std::vector<V> carried = loop.carried;
    HY_TRY(step(loop.variable, carried));
    values = writer_.EndFor(carried);
    return OkStatus();
  };
  if (!is_blocked) return loop_over(lo, hi, runs, accumulators);
  Writer::Loop outer = writer_.BeginFor(lo, hi, writer_.Index(block), accumulators, runs);
  const V end = writer_.Min(writer_.Add(outer.variable, writer_.Index(block)), hi);
  const std::vector<V> identity = Identities(op, writer_.LanesOf(accumulators[0]));
  std::vector<V> sums;  // as many chains as there are accumulators
  while (sums.size() < accumulators.size()) {
    sums.insert(sums.end(), identity.begin(), identity.end());
  }
  HY_TRY(loop_over(outer.variable, end, true, sums));
  std::vector<V> totals;
  for (size_t at = 0; at < sums.size(); at += identity.size()) {
    const auto chain = [&](const std::vector<V>& from) {
      const auto first = from.begin() + static_cast<ptrdiff_t>(at);
      return std::vector<V>(first, first + static_cast<ptrdiff_t>(identity.size()));
    };
    std::vector<V> total = chain(outer.carried);
    Combine(op, total, chain(sums));
    totals.insert(totals.end(), total.begin(), total.end());
  }
  accumulators = writer_.EndFor(totals);
  return OkStatus();
}

Status Emitter::ReduceScalarLoop(const loop::Op& op, V lo, V hi, std::vector<V>& accumulators) {
  return ReduceLoop(
      op, lo, hi, 1, exprs_.RangeOf(Resolve(op.extent)).lo >= 1,
      [&](V at, std::vector<V>& carried) {
        Bind(op.symbol, at);
        return ReduceStep(op, carried);
      },
      accumulators);
}

Status Emitter::EmitReduce(loop::OpId id) {
  const loop::Op& op = kernel_.ops[id];
  std::vector<V> results;
  if (axis_.lanes == 1 && options_.lanes > 1 && options_.vector_loops.count(id) > 0) {
    HY_TRY(ReduceVectorLoop(op, results));
  } else {
    int lanes = axis_.lanes;
    results = Identities(op, lanes);
    std::optional<int64_t> extent = exprs_.AsConst(Resolve(op.extent));
    if (extent && IsSmall(op, *extent)) {
      for (int64_t i = 0; i < *extent; ++i) {
        Bind(op.symbol, writer_.Index(i));
        HY_TRY(ReduceStep(op, results));
      }
    } else if (lanes > 1 && options_.unroll > 1 && !kernel_.ordered_reductions &&
               !HasLoops(kernel_, op.body) && results.size() == 1) {
      // Independent chains: iteration i adds to accumulator i mod unroll.
      int chains = options_.unroll;
      V hi = Evaluate(op.extent);
      V rest = writer_.FloorMod(hi, writer_.Index(chains), true);
      V main = writer_.Sub(hi, rest);
      std::vector<V> initial(static_cast<size_t>(chains), results[0]);
      std::vector<V> sums = std::move(initial);
      HY_TRY(ReduceLoop(
          op, writer_.Index(0), main, chains, exprs_.RangeOf(Resolve(op.extent)).lo >= chains,
          [&](V at, std::vector<V>& carried) -> Status {
            for (int c = 0; c < chains; ++c) {
              Bind(op.symbol, writer_.Add(at, writer_.Index(c)));
              std::vector<V> one = {carried[static_cast<size_t>(c)]};
              HY_TRY(ReduceStep(op, one));
              carried[static_cast<size_t>(c)] = one[0];
            }
            return OkStatus();
          },
          sums));
      for (size_t width = sums.size() / 2; width > 0; width /= 2)
        for (size_t c = 0; c < width; ++c) {
          std::vector<V> one = {sums[c]};
          Combine(op, one, {sums[c + width]});
          sums[c] = one[0];
        }
      results = {sums[0]};
      Writer::Loop tail = writer_.BeginFor(main, hi, writer_.Index(1), results, false);
      Bind(op.symbol, tail.variable);
      std::vector<V> carried = tail.carried;
      HY_TRY(ReduceStep(op, carried));
      results = writer_.EndFor(carried);
    } else {
      HY_TRY(ReduceScalarLoop(op, writer_.Index(0), Evaluate(op.extent), results));
    }
  }
  FinishReduce(op, op.extent, results);
  return OkStatus();
}

void Emitter::FinishReduce(const loop::Op& op, Expr extent, const std::vector<V>& accumulators) {
  std::vector<Slot> slots = SlotsOf(kernel_, op);
  for (size_t i = 0; i < slots.size(); ++i) {
    V result = accumulators[slots[i].at + (IsArg(slots[i].kind) ? 1 : 0)];
    if (IsArg(slots[i].kind) && exprs_.RangeOf(Resolve(extent)).lo < 1) {
      V none = writer_.Compare(Opcode::kEq, Evaluate(extent), writer_.Index(0));
      result = writer_.Select(none, writer_.Const(writer_.TypeOf(result).dtype, 0), result);
    }
    values_[op.results[i]] = result;
  }
}

// Accumulators of all chains (chain-major) to scalars: chains pairwise by halves, then across
// lanes.
std::vector<V> Emitter::ReduceLanes(const loop::Op& op, std::vector<V> accumulators, int chains) {
  size_t n = accumulators.size() / static_cast<size_t>(chains);
  auto chain = [&](int c) {
    auto begin = accumulators.begin() + static_cast<ptrdiff_t>(n) * c;
    return std::vector<V>(begin, begin + static_cast<ptrdiff_t>(n));
  };
  for (int width = chains / 2; width > 0; width /= 2) {
    for (int c = 0; c < width; ++c) {
      std::vector<V> sum = chain(c);
      Combine(op, sum, chain(c + width));
      std::copy(sum.begin(), sum.end(), accumulators.begin() + static_cast<ptrdiff_t>(n) * c);
    }
  }
  std::vector<V> results = chain(0);
  if (writer_.LanesOf(results[0]) == 1) return results;
  for (const Slot& slot : SlotsOf(kernel_, op)) {
    V v = results[slot.at];
    bool is_bool = slot.dtype == DType::kBool;
    Opcode opcode = Opcode::kReduceAdd;
    switch (slot.kind) {
      case ReduceKind::kSum:
        opcode = Opcode::kReduceAdd;
        break;
      case ReduceKind::kProd:
        opcode = Opcode::kReduceMul;
        break;
      case ReduceKind::kMax:
      case ReduceKind::kArgMax:
        opcode = is_bool ? Opcode::kReduceOr : Opcode::kReduceMax;
        break;
      case ReduceKind::kMin:
      case ReduceKind::kArgMin:
        opcode = is_bool ? Opcode::kReduceAnd : Opcode::kReduceMin;
        break;
      case ReduceKind::kAny:
        opcode = Opcode::kReduceOr;
        break;
      case ReduceKind::kAll:
        opcode = Opcode::kReduceAnd;
        break;
      case ReduceKind::kNone:
        HY_UNREACHABLE("a reduction without a kind");
    }
    V best = writer_.Pure(opcode, Type{slot.dtype, 1}, {v});
    results[slot.at] = best;
    if (!IsArg(slot.kind)) continue;
    // The smallest index among the lanes that hold the best value.
    V index = results[slot.at + 1];
    DType index_type = writer_.TypeOf(index).dtype;
    V hit = writer_.Compare(Opcode::kEq, v, best);
    if (IsFloat(slot.dtype)) {
      V nan = writer_.Compare(Opcode::kNe, v, v);
      hit = writer_.Pure(Opcode::kOr, writer_.TypeOf(hit), {hit, nan});
    }
    V masked =
        writer_.Select(hit, index, writer_.Const(index_type, IntegerLimit(index_type, false)));
    results[slot.at + 1] = writer_.Pure(Opcode::kReduceMin, Type{index_type, 1}, {masked});
  }
  return results;
}

Status Emitter::ReduceVectorLoop(const loop::Op& op, std::vector<V>& results) {
  std::optional<int64_t> extent = exprs_.AsConst(Resolve(op.extent));
  int lanes = options_.lanes;
  if (extent)
    lanes = static_cast<int>(
        std::min<uint64_t>(static_cast<uint64_t>(lanes),
                           std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(*extent, 1)))));
  int chains = HasLoops(kernel_, op.body) ? 1 : options_.unroll;
  if (extent)
    while (chains > 1 && *extent / lanes < chains) chains /= 2;
  V hi = Evaluate(op.extent);
  V main = writer_.Sub(hi, writer_.FloorMod(hi, writer_.Index(int64_t{lanes} * chains), true));
  V whole = writer_.Sub(hi, writer_.FloorMod(hi, writer_.Index(lanes), true));
  V rest = writer_.FloorMod(hi, writer_.Index(lanes), true);
  std::vector<V> identity = Identities(op, lanes);
  size_t n = identity.size();
  std::vector<V> accumulators;  // chain-major
  for (int c = 0; c < chains; ++c)
    accumulators.insert(accumulators.end(), identity.begin(), identity.end());
  auto step_at = [&](V base, V mask, std::span<V> chain) -> Status {
    BeginVector(op.symbol, base, lanes, mask);
    std::vector<V> values(chain.begin(), chain.end());
    Status status = ReduceStep(op, values);
    EndVector();
    std::copy(values.begin(), values.end(), chain.begin());
    return status;
  };
  if (writer_.AsConst(main) != 0) {
    HY_TRY(ReduceLoop(
        op, writer_.Index(0), main, int64_t{lanes} * chains, writer_.AsConst(main).has_value(),
        [&](V at, std::vector<V>& carried) -> Status {
          for (int c = 0; c < chains; ++c)
            HY_TRY(step_at(writer_.Add(at, writer_.Index(int64_t{c} * lanes)), kNone,
                           std::span(carried).subspan(static_cast<size_t>(c) * n, n)));
          return OkStatus();
        },
        accumulators));
  }
  if (chains > 1) {
    std::span<V> first(accumulators.data(), n);
    if (writer_.AsConst(main) && writer_.AsConst(whole)) {
      int c = 0;
      for (int64_t at = *writer_.AsConst(main); at < *writer_.AsConst(whole); at += lanes, ++c)
        HY_TRY(step_at(writer_.Index(at), kNone,
                       std::span(accumulators).subspan(static_cast<size_t>(c % chains) * n, n)));
    } else {
      std::vector<V> initial(first.begin(), first.end());
      Writer::Loop loop = writer_.BeginFor(main, whole, writer_.Index(lanes), initial, false);
      std::vector<V> carried = loop.carried;
      HY_TRY(step_at(loop.variable, kNone, carried));
      carried = writer_.EndFor(carried);
      std::copy(carried.begin(), carried.end(), accumulators.begin());
    }
  }
  bool has_rest = writer_.AsConst(rest) != 0;
  if (has_rest && options_.masked_tails && lanes > 1) {
    bool conditional = !writer_.AsConst(rest);
    std::vector<V> old(accumulators.begin(), accumulators.begin() + static_cast<ptrdiff_t>(n));
    std::vector<V> updated = old;
    if (conditional) writer_.BeginIf(writer_.Compare(Opcode::kGt, rest, writer_.Index(0)));
    V mask = writer_.Compare(Opcode::kLt, writer_.Iota(writer_.index_dtype(), lanes), rest);
    HY_TRY(step_at(whole, mask, updated));
    if (conditional) {
      writer_.BeginElse(updated);
      updated = writer_.EndIf(old);
    }
    std::copy(updated.begin(), updated.end(), accumulators.begin());
  }
  results = ReduceLanes(op, accumulators, chains);
  if (has_rest && !options_.masked_tails) HY_TRY(ReduceScalarLoop(op, whole, hi, results));
  return OkStatus();
}

Status Emitter::EmitSequential(const loop::Op& op) {
  std::vector<V> initial;
  for (loop::ValueId v : op.operands) initial.push_back(writer_.Splat(ValueOf(v), axis_.lanes));
  Writer::Loop loop = writer_.BeginFor(writer_.Index(0), Evaluate(op.extent), writer_.Index(1),
                                       initial, exprs_.RangeOf(Resolve(op.extent)).lo >= 1);
  Bind(op.symbol, loop.variable);
  const loop::Block& body = kernel_.blocks[op.body];
  for (size_t i = 0; i < body.parameters.size(); ++i) values_[body.parameters[i]] = loop.carried[i];
  HY_TRY(EmitBlock(op.body));
  std::vector<V> yields = YieldsOf(op.body);
  for (V& v : yields) v = writer_.Splat(v, axis_.lanes);
  std::vector<V> results = writer_.EndFor(yields);
  for (size_t i = 0; i < op.results.size(); ++i) values_[op.results[i]] = results[i];
  return OkStatus();
}

}  // namespace halyard::schedule
