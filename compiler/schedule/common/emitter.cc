// SPDX-License-Identifier: Apache-2.0
// Symbols, buffers, index expressions and straight-line ops. Loops are in emitter_loops.cc.
#include "compiler/schedule/common/emitter.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace halyard::schedule {

using kernel::kNone;
using kernel::Opcode;
using kernel::Type;
using loop::OpKind;
using V = kernel::ValueId;

Emitter::Emitter(const loop::Function& function, const loop::Kernel& kernel, Writer& writer,
                 Options options)
    : exprs_(*function.exprs),
      function_(function),
      kernel_(kernel),
      writer_(writer),
      options_(std::move(options)),
      values_(kernel.values.size(), kNone) {
  for (const loop::Op& op : kernel.ops) {
    if (op.kind == OpKind::kLoad) read_.insert(op.buffer);
    if (op.kind == OpKind::kStore) written_.insert(op.buffer);
    if (op.kind == OpKind::kScatter) {
      written_.insert(op.buffer);
      if (!op.reduces.empty() && op.reduces[0] != loop::ReduceKind::kNone) read_.insert(op.buffer);
    }
  }
}

V Emitter::ValueOf(loop::ValueId value) {
  HY_CHECK(values_[value] != kNone, "kernel '{}' uses value {} before it is emitted", kernel_.name,
           value);
  return values_[value];
}

void Emitter::Bind(Expr symbol, V value) { symbols_[symbol.id] = value; }

void Emitter::BeginVector(Expr symbol, V base, int lanes, V mask) {
  HY_CHECK(axis_.lanes == 1, "two vector axes in kernel '{}'", kernel_.name);
  if (lanes == 1) {
    Bind(symbol, base);
    return;
  }
  axis_.symbol = symbol;
  axis_.base = base;
  axis_.lanes = lanes;
  axis_.mask = mask;
}

void Emitter::EndVector() { axis_ = Axis{}; }

void Emitter::Flatten(Expr flat, std::vector<std::pair<Expr, Expr>> digits) {
  groups_.push_back(Group{flat, std::move(digits)});
}

void Emitter::Shift(Expr symbol, Expr base, int64_t offset) {
  Expr to = exprs_.Add(base, exprs_.Const(offset));
  for (auto& shift : shifts_) {
    if (shift.first != symbol) continue;
    shift.second = to;
    return;
  }
  shifts_.emplace_back(symbol, to);
}

Expr Emitter::Resolve(Expr e) {
  if (!groups_.empty()) {
    auto [it, added] = resolved_.try_emplace(e.id, e);
    if (added) {
      for (const Group& group : groups_) {
        std::vector<std::pair<Expr, Expr>> replacements;
        Expr rest = group.flat;
        for (size_t i = group.digits.size(); i-- > 0;) {
          auto [symbol, extent] = group.digits[i];
          replacements.emplace_back(symbol, i == 0 ? rest : exprs_.Mod(rest, extent));
          if (i > 0) rest = exprs_.FloorDiv(rest, extent);
        }
        it->second = exprs_.Substitute(it->second, replacements);
      }
    }
    e = it->second;
  }
  return shifts_.empty() ? e : exprs_.Substitute(e, shifts_);
}

bool Emitter::Varies(Expr e) {
  if (axis_.lanes == 1) return false;
  for (Expr symbol : exprs_.SymbolsOf(e)) {
    if (symbol == axis_.symbol) return true;
    auto it = symbols_.find(symbol.id);
    if (it != symbols_.end() && writer_.LanesOf(it->second) > 1) return true;
  }
  return false;
}

V Emitter::Evaluate(Expr e) { return EvaluateIn(Resolve(e), false); }

V Emitter::EvaluateIn(Expr e, bool vector) {
  switch (exprs_.KindOf(e)) {
    case ExprKind::kConst:
      return writer_.Index(*exprs_.AsConst(e));
    case ExprKind::kSymbol: {
      if (axis_.lanes > 1 && e == axis_.symbol) {
        if (!vector) return axis_.base;
        return writer_.Add(axis_.base, writer_.Iota(writer_.index_dtype(), axis_.lanes));
      }
      if (auto it = symbols_.find(e.id); it != symbols_.end()) return it->second;
      HY_CHECK(exprs_.SymbolKindOf(e) == SymbolKind::kDim,
               "kernel '{}' uses the loop variable '{}' "
               "outside its loop",
               kernel_.name, exprs_.SymbolName(e));
      auto [it, added] = parameters_.try_emplace(e.id, 0);
      if (added) {
        it->second = writer_.AddScalar(exprs_.SymbolName(e));
        scalars.push_back(e);
      }
      return writer_.ScalarParameter(it->second);
    }
    case ExprKind::kAdd: {
      // Outermost terms first: what does not depend on inner loops becomes one value outside them.
      std::vector<V> terms;
      V constant = writer_.Index(0);
      for (Expr term : exprs_.OperandsOf(e)) {
        V v = EvaluateIn(term, vector);
        if (writer_.AsConst(v)) {
          constant = writer_.Add(constant, v);
        } else {
          terms.push_back(v);
        }
      }
      std::stable_sort(terms.begin(), terms.end(), [&](V a, V b) {
        return std::pair(writer_.LanesOf(a), writer_.DepthOf(a)) <
               std::pair(writer_.LanesOf(b), writer_.DepthOf(b));
      });
      V sum = terms.empty() ? writer_.Index(0) : terms[0];
      for (size_t i = 1; i < terms.size(); ++i) sum = writer_.Add(sum, terms[i]);
      return writer_.Add(sum, constant);
    }
    case ExprKind::kMul: {
      std::vector<V> factors;
      for (Expr factor : exprs_.OperandsOf(e)) factors.push_back(EvaluateIn(factor, vector));
      std::stable_sort(factors.begin(), factors.end(), [&](V a, V b) {
        return std::pair(writer_.LanesOf(a), writer_.DepthOf(a)) <
               std::pair(writer_.LanesOf(b), writer_.DepthOf(b));
      });
      V product = factors[0];
      for (size_t i = 1; i < factors.size(); ++i) product = writer_.Mul(product, factors[i]);
      return product;
    }
    case ExprKind::kFloorDiv:
    case ExprKind::kMod: {
      auto operands = exprs_.OperandsOf(e);
      Expr x = operands[0], d = operands[1];
      bool is_div = exprs_.KindOf(e) == ExprKind::kFloorDiv;
      bool non_negative = exprs_.RangeOf(x).lo >= 0;
      V a = EvaluateIn(x, vector), b = EvaluateIn(d, vector);
      return is_div ? writer_.FloorDiv(a, b, non_negative) : writer_.FloorMod(a, b, non_negative);
    }
    case ExprKind::kMin:
    case ExprKind::kMax: {
      bool is_min = exprs_.KindOf(e) == ExprKind::kMin;
      std::vector<Expr> operands(exprs_.OperandsOf(e).begin(), exprs_.OperandsOf(e).end());
      V v = EvaluateIn(operands[0], vector);
      for (size_t i = 1; i < operands.size(); ++i) {
        V other = EvaluateIn(operands[i], vector);
        v = is_min ? writer_.Min(v, other) : writer_.Max(v, other);
      }
      return v;
    }
  }
  HY_UNREACHABLE("expression kind");
}

Emitter::Index Emitter::LowerIndex(Expr e) {
  e = Resolve(e);
  Index index;
  if (!Varies(e)) {
    index.value = EvaluateIn(e, false);
    return index;
  }
  bool only_axis = true;
  for (Expr symbol : exprs_.SymbolsOf(e)) {
    auto it = symbols_.find(symbol.id);
    only_axis &= symbol == axis_.symbol || it == symbols_.end() || writer_.LanesOf(it->second) == 1;
  }
  index.kind = Index::Kind::kVector;
  if (only_axis) {
    std::optional<Expr> stride = exprs_.StrideOf(e, axis_.symbol);
    Expr at_base = e;
    if (options_.state_alignment && stride && exprs_.IsConst(*stride, 1)) {
      std::pair<Expr, Expr> base(axis_.symbol, exprs_.Const(0));
      index.align = AlignmentOf(exprs_.Substitute(e, {&base, 1}));
    }
    if (!stride) {
      // Within an aligned vector, division and remainder by a multiple of the lanes change in one
      // place only: symbol = quotient * lanes + lane lets the arena see that.
      uint64_t key = (uint64_t{axis_.symbol.id} << 8) | static_cast<uint64_t>(axis_.lanes);
      auto [it, added] = splits_.try_emplace(key);
      Split& split = it->second;
      if (added) {
        Expr lanes = exprs_.Const(axis_.lanes);
        ExprRange range = exprs_.RangeOf(axis_.symbol);
        split.quotient = exprs_.Loop("quotient", range.hi == INT64_MAX
                                                     ? exprs_.Const(INT64_MAX / axis_.lanes)
                                                     : exprs_.Const(range.hi / axis_.lanes + 1));
        split.lane = exprs_.Loop("lane", lanes);
      }
      Expr sum = exprs_.Add(exprs_.Mul(split.quotient, exprs_.Const(axis_.lanes)), split.lane);
      std::pair<Expr, Expr> replacement(axis_.symbol, sum);
      Expr rewritten = exprs_.Substitute(e, {&replacement, 1});
      stride = exprs_.StrideOf(rewritten, split.lane);
      if (stride) {
        std::pair<Expr, Expr> zero(split.lane, exprs_.Const(0));
        at_base = exprs_.Substitute(rewritten, {&zero, 1});
        if (options_.state_alignment) index.align = AlignmentOf(at_base);
        Bind(split.quotient, writer_.FloorDiv(axis_.base, writer_.Index(axis_.lanes), true));
      }
    }
    if (stride && !Varies(*stride)) {
      index.value = EvaluateIn(at_base, false);
      if (exprs_.IsConst(*stride, 0)) {
        index.kind = Index::Kind::kUniform;
      } else if (exprs_.IsConst(*stride, 1)) {
        index.kind = Index::Kind::kContiguous;
      } else {
        V steps = writer_.Mul(writer_.Iota(writer_.index_dtype(), axis_.lanes),
                              writer_.Splat(EvaluateIn(*stride, false), axis_.lanes));
        index.value = writer_.Add(index.value, steps);
      }
      return index;
    }
  }
  index.value = writer_.Splat(EvaluateIn(e, true), axis_.lanes);
  return index;
}

int Emitter::AlignmentOf(Expr base) {
  int align = axis_.lanes;
  while (align > 1 && (axis_.lanes % align != 0 || !exprs_.KnownMultipleOf(base, align)))
    align /= 2;
  return align;
}

Emitter::Index Emitter::Shifted(Index index, const Place& place) {
  if (place.offset == kNone) return index;
  index.value = writer_.Add(index.value, place.offset);
  index.align = 1;
  return index;
}

V Emitter::Vectorised(Index index) {
  if (index.kind == Index::Kind::kContiguous)
    return writer_.Add(index.value, writer_.Iota(writer_.index_dtype(), axis_.lanes));
  return writer_.Splat(index.value, axis_.lanes);
}

V Emitter::AndMask(V a, V b) {
  if (a == kNone) return b;
  if (b == kNone) return a;
  int lanes = std::max(writer_.LanesOf(a), writer_.LanesOf(b));
  a = writer_.Splat(a, lanes), b = writer_.Splat(b, lanes);
  return writer_.Pure(Opcode::kAnd, writer_.TypeOf(a), {a, b});
}

V Emitter::IndirectMask(Expr index) {
  V mask = kNone;
  if (indirect_good_.empty()) return mask;
  for (Expr symbol : exprs_.SymbolsOf(index))
    if (auto it = indirect_good_.find(symbol.id); it != indirect_good_.end())
      mask = AndMask(mask, it->second);
  return mask;
}

kernel::BufferId Emitter::AddBinding(Binding binding, kernel::Buffer buffer) {
  bindings.push_back(binding);
  return writer_.AddParameter(std::move(buffer));
}

void Emitter::PlaceLocal(loop::BufferId buffer, kernel::BufferId place, V offset) {
  places_[buffer] = Place{place, offset};
}

Emitter::Place Emitter::PlaceOf(loop::BufferId buffer) {
  auto [it, added] = places_.try_emplace(buffer);
  if (!added) return it->second;
  const loop::Buffer& source = function_.buffers[buffer];
  HY_CHECK(source.role != loop::BufferRole::kLocal, "local buffer '{}' has no place", source.name);
  kernel::Buffer parameter;
  parameter.name = source.name;
  parameter.dtype = source.dtype;
  bool is_read = read_.count(buffer) > 0, is_written = written_.count(buffer) > 0;
  parameter.access = is_read && is_written ? kernel::Access::kReadWrite
                     : is_written          ? kernel::Access::kWrite
                                           : kernel::Access::kRead;
  it->second.buffer = AddBinding(Binding{Binding::Kind::kBuffer, buffer}, std::move(parameter));
  return it->second;
}

kernel::BufferId Emitter::BufferOf(loop::BufferId buffer) { return PlaceOf(buffer).buffer; }

Status Emitter::EmitOp(loop::OpId id) {
  const loop::Op& op = kernel_.ops[id];
  switch (op.kind) {
    case OpKind::kScalar:
      return EmitScalar(op);
    case OpKind::kConst:
      values_[op.results[0]] = writer_.Const(op.dtype, op.immediate);
      return OkStatus();
    case OpKind::kIndex: {
      Index index = LowerIndex(op.index);
      V v = index.kind == Index::Kind::kUniform ? index.value : Vectorised(index);
      values_[op.results[0]] = writer_.Convert(v, op.dtype);
      return OkStatus();
    }
    case OpKind::kLoad:
      return EmitLoad(op);
    case OpKind::kStore:
      return EmitStore(op);
    case OpKind::kScatter:
      return EmitScatter(op);
    case OpKind::kIndirect:
      return EmitIndirect(op);
    case OpKind::kYield:
      return OkStatus();
    case OpKind::kLoop:
      return EmitLoop(id);
  }
  HY_UNREACHABLE("loop op kind");
}

Status Emitter::EmitLoop(loop::OpId id) {
  const loop::Op& op = kernel_.ops[id];
  if (op.loop == loop::LoopKind::kParallel) return EmitParallel(id, kNone, kNone);
  if (op.loop == loop::LoopKind::kReduce) return EmitReduce(id);
  return EmitSequential(op);
}

Status Emitter::EmitBlock(loop::BlockId block) {
  for (loop::OpId op : kernel_.blocks[block].ops) HY_TRY(EmitOp(op));
  return OkStatus();
}

std::vector<V> Emitter::YieldsOf(loop::BlockId block) {
  std::vector<V> values;
  const auto& ops = kernel_.blocks[block].ops;
  if (ops.empty() || kernel_.ops[ops.back()].kind != OpKind::kYield) return values;
  for (loop::ValueId v : kernel_.ops[ops.back()].operands) values.push_back(ValueOf(v));
  return values;
}

Emitter::V Emitter::Folded(const loop::Op& op) {
  const auto index_of = [&](loop::ValueId v) -> Expr {
    const loop::OpId id = kernel_.values[v].producer;
    if (id == loop::kNone || !IsInteger(kernel_.values[v].dtype)) return {};
    const loop::Op& producer = kernel_.ops[id];
    if (producer.kind == loop::OpKind::kIndex) return producer.index;
    return producer.kind == loop::OpKind::kConst ? exprs_.Const(producer.immediate) : Expr();
  };
  if (op.opcode >= Opcode::kEq && op.opcode <= Opcode::kGe) {
    const Expr a = index_of(op.operands[0]), b = index_of(op.operands[1]);
    if (!a.valid() || !b.valid()) return kNone;
    const ExprRange range = exprs_.RangeOf(Resolve(exprs_.Sub(a, b)));
    const bool less = range.hi<0, greater = range.lo> 0, at_most = range.hi <= 0,
               at_least = range.lo >= 0;
    bool is_true = false, is_false = false;
    if (op.opcode == Opcode::kLt) is_true = less, is_false = at_least;
    if (op.opcode == Opcode::kLe) is_true = at_most, is_false = greater;
    if (op.opcode == Opcode::kGt) is_true = greater, is_false = at_most;
    if (op.opcode == Opcode::kGe) is_true = at_least, is_false = less;
    return is_true || is_false ? writer_.Const(DType::kBool, is_true) : kNone;
  }
  if (op.opcode == Opcode::kAnd && op.dtype == DType::kBool) {
    for (size_t i = 0; i < 2; ++i) {
      const V v = ValueOf(op.operands[i]);
      const std::optional<int64_t> known = writer_.AsConst(v);
      if (known) return *known != 0 ? ValueOf(op.operands[1 - i]) : v;
    }
  }
  if (op.opcode == Opcode::kSelect) {
    const std::optional<int64_t> known = writer_.AsConst(ValueOf(op.operands[0]));
    if (known) return ValueOf(op.operands[*known != 0 ? 1 : 2]);
  }
  return kNone;
}

Status Emitter::EmitScalar(const loop::Op& op) {
  if (options_.fold_masks) {
    if (const V known = Folded(op); known != kNone) {
      values_[op.results[0]] = known;
      return OkStatus();
    }
  }
  if (op.opcode == Opcode::kConvert) {
    unrounded_.erase(op.results[0]);  // of an earlier iteration
    const auto at = unrounded_.find(op.operands[0]);
    if (op.dtype == DType::kF32 && at != unrounded_.end()) {
      values_[op.results[0]] = at->second;
      return OkStatus();
    }
  }
  std::vector<V> operands;
  int lanes = 1;
  for (loop::ValueId v : op.operands) {
    operands.push_back(ValueOf(v));
    lanes = std::max(lanes, writer_.LanesOf(operands.back()));
  }
  bool compares = op.opcode >= Opcode::kEq && op.opcode <= Opcode::kGe;
  if (compares && writer_.index_dtype() == DType::kI32) {
    // Indices are i64 in Loop IR, and masks compare them.
    V a = writer_.AsI32(operands[0]), b = writer_.AsI32(operands[1]);
    if (a != kNone && b != kNone) operands = {a, b};
  }
  for (V& v : operands) v = writer_.Splat(v, lanes);
  std::vector<int64_t> immediates;
  values_[op.results[0]] = writer_.Pure(op.opcode, Type{op.dtype, static_cast<uint16_t>(lanes)},
                                        std::move(operands), std::move(immediates));
  return OkStatus();
}

Status Emitter::EmitLoad(const loop::Op& op) {
  Place place = PlaceOf(op.buffer);
  Index index = Shifted(LowerIndex(op.index), place);
  bool stable = written_.count(op.buffer) == 0;
  V mask = kNone, other = kNone;
  if (!op.operands.empty()) mask = ValueOf(op.operands[0]), other = ValueOf(op.operands[1]);
  if (V good = IndirectMask(op.index); good != kNone) {
    mask = AndMask(mask, good);
    if (other == kNone) other = writer_.Const(op.dtype, 0);
  }
  if (mask != kNone && writer_.AsConst(mask)) {
    if (*writer_.AsConst(mask) == 0) {
      values_[op.results[0]] = other;
      return OkStatus();
    }
    mask = kNone;
  }
  V& result = values_[op.results[0]];
  bool varying_mask = mask != kNone && writer_.LanesOf(mask) > 1;
  if (index.kind == Index::Kind::kUniform && !varying_mask) {
    // Lane 0 is always active, so a tail mask alone does not matter here.
    if (mask == kNone) {
      result = writer_.Load(place.buffer, index.value, 1, stable);
      return OkStatus();
    }
    int lanes = writer_.LanesOf(other);
    writer_.BeginIf(mask);
    V loaded = writer_.Splat(writer_.Load(place.buffer, index.value, 1, stable), lanes);
    writer_.BeginElse(std::span(&loaded, 1));
    result = writer_.EndIf(std::span(&other, 1))[0];
    return OkStatus();
  }
  V all = AndMask(mask, axis_.mask);
  if (all != kNone) {
    all = writer_.Splat(all, axis_.lanes);
    if (other == kNone) other = writer_.Const(op.dtype, 0);
  }
  if (index.kind == Index::Kind::kContiguous) {
    result = all == kNone
                 ? writer_.Load(place.buffer, index.value, axis_.lanes, stable, index.align)
                 : writer_.LoadMasked(place.buffer, index.value, all, other, stable, index.align);
  } else {
    V indices = Vectorised(index);
    result = all == kNone ? writer_.Gather(place.buffer, indices, stable)
                          : writer_.GatherMasked(place.buffer, indices, all, other, stable);
  }
  return OkStatus();
}

Status Emitter::EmitStore(const loop::Op& op) {
  Place place = PlaceOf(op.buffer);
  Index index = Shifted(LowerIndex(op.index), place);
  V value = ValueOf(op.operands[0]);
  V mask = op.operands.size() > 1 ? ValueOf(op.operands[1]) : kNone;
  mask = AndMask(mask, IndirectMask(op.index));
  if (mask != kNone && writer_.AsConst(mask)) {
    if (*writer_.AsConst(mask) == 0) return OkStatus();
    mask = kNone;
  }
  if (axis_.lanes == 1) {
    if (mask != kNone) writer_.BeginIf(mask);
    writer_.Store(place.buffer, index.value, value);
    if (mask != kNone) writer_.EndIf({});
    return OkStatus();
  }
  V all = AndMask(mask, axis_.mask);
  if (all != kNone) all = writer_.Splat(all, axis_.lanes);
  value = writer_.Splat(value, axis_.lanes);
  if (index.kind == Index::Kind::kContiguous) {
    writer_.Store(place.buffer, index.value, value, all, index.align);
  } else {
    writer_.Scatter(place.buffer, Vectorised(index), value, all);
  }
  return OkStatus();
}

Status Emitter::EmitScatter(const loop::Op& op) {
  Place place = PlaceOf(op.buffer);
  Index index = Shifted(LowerIndex(op.index), place);
  V value = ValueOf(op.operands[0]);
  V mask = op.operands.size() > 1 ? ValueOf(op.operands[1]) : kNone;
  mask = AndMask(mask, IndirectMask(op.index));
  loop::ReduceKind reduce = op.reduces.empty() ? loop::ReduceKind::kNone : op.reduces[0];
  Opcode opcode = Opcode::kAdd;
  switch (reduce) {
    case loop::ReduceKind::kNone:
    case loop::ReduceKind::kSum:
      break;
    case loop::ReduceKind::kProd:
      opcode = Opcode::kMul;
      break;
    case loop::ReduceKind::kMax:
      opcode = Opcode::kMax;
      break;
    case loop::ReduceKind::kMin:
      opcode = Opcode::kMin;
      break;
    case loop::ReduceKind::kAny:
      opcode = Opcode::kOr;
      break;
    case loop::ReduceKind::kAll:
      opcode = Opcode::kAnd;
      break;
    default:
      return Unimplemented("Kernel '{}' scatters with an argmax or argmin; no schedule covers it.",
                           kernel_.name);
  }
  bool combines = reduce != loop::ReduceKind::kNone;
  if (axis_.lanes == 1) {
    if (mask != kNone) writer_.BeginIf(mask);
    if (combines) {
      V old = writer_.Load(place.buffer, index.value, 1, false);
      value = writer_.Pure(opcode, writer_.TypeOf(old), {old, value});
    }
    writer_.Store(place.buffer, index.value, value);
    if (mask != kNone) writer_.EndIf({});
    return OkStatus();
  }
  // Scheduling has shown that the lanes of one vector name different elements.
  V all = AndMask(mask, axis_.mask);
  if (all != kNone) all = writer_.Splat(all, axis_.lanes);
  value = writer_.Splat(value, axis_.lanes);
  bool contiguous = index.kind == Index::Kind::kContiguous;
  V at = contiguous ? index.value : Vectorised(index);
  if (combines) {
    V zero = writer_.Const(writer_.TypeOf(value).dtype, 0);
    V old = contiguous ? (all == kNone ? writer_.Load(place.buffer, at, axis_.lanes, false)
                                       : writer_.LoadMasked(place.buffer, at, all, zero, false))
                       : (all == kNone ? writer_.Gather(place.buffer, at, false)
                                       : writer_.GatherMasked(place.buffer, at, all, zero, false));
    value = writer_.Pure(opcode, writer_.TypeOf(old), {old, value});
  }
  if (contiguous) {
    writer_.Store(place.buffer, at, value, all);
  } else {
    writer_.Scatter(place.buffer, at, value, all);
  }
  return OkStatus();
}

Status Emitter::EmitIndirect(const loop::Op& op) {
  V data = ValueOf(op.operands[0]);
  // In 32 bits where both the data and the extent have them.
  DType dtype = writer_.TypeOf(data).dtype;
  bool narrow =
      writer_.index_dtype() == DType::kI32 && (dtype == DType::kI32 || BitWidth(dtype) < 32);
  DType work = narrow ? DType::kI32 : DType::kI64;
  V raw = writer_.Convert(data, work);
  int lanes = writer_.LanesOf(raw);
  V extent = writer_.Convert(EvaluateIn(Resolve(op.extent), false), work);
  V zero = writer_.Const(work, 0);
  V wrapped = raw;
  if (op.immediate == 0) {
    wrapped =
        writer_.Select(writer_.Compare(Opcode::kLt, raw, zero), writer_.Add(raw, extent), raw);
  }
  V low = writer_.Compare(Opcode::kLt, wrapped, zero);
  V bad = writer_.Pure(Opcode::kOr, writer_.TypeOf(low),
                       {low, writer_.Compare(Opcode::kGe, wrapped, extent)});
  V active = bad;
  if (lanes > 1 && axis_.mask != kNone) active = AndMask(bad, axis_.mask);
  uint32_t site = op.site == loop::kNone ? writer_.AddSite({kernel_.name, "index"})
                                         : writer_.AddSite(kernel_.sites[op.site]);
  writer_.Report(active, writer_.Convert(raw, DType::kI64), writer_.Convert(extent, DType::kI64),
                 static_cast<int64_t>(KernelErrorReason::kIndexOutOfRange), site);
  symbols_[op.symbol.id] =
      writer_.Convert(writer_.Select(bad, zero, wrapped), writer_.index_dtype());
  if (exprs_.RangeOf(Resolve(op.extent)).lo < 1)
    indirect_good_[op.symbol.id] = writer_.Pure(Opcode::kNot, writer_.TypeOf(bad), {bad});
  return OkStatus();
}

}  // namespace halyard::schedule
