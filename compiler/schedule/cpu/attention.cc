// SPDX-License-Identifier: Apache-2.0
// Reading: the parallel loops around the row body, the last of them over rows; in the body,
// parallel loops around one sum of products are contractions, everything else belongs to a row.
// What a row computes and a later step reads is kept in an array over the rows of the task. Local
// buffers get one copy per row of the task.
#include "compiler/schedule/cpu/attention.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/check.h"
#include "compiler/schedule/common/emitter.h"
#include "compiler/schedule/common/nest.h"
#include "compiler/schedule/common/pieces.h"

namespace halyard::schedule {

using kernel::kNone;
using kernel::Opcode;
using kernel::Type;
using loop::LoopKind;
using loop::Op;
using loop::OpId;
using loop::OpKind;
using V = kernel::ValueId;

namespace {

// The row buffers and panels of a task stay within this.
constexpr int64_t kMaxTaskBytes = int64_t{4} << 20;
constexpr int64_t kTasksPerWorker = 4;
// Rows of a task where their number is not known.
constexpr int64_t kRowsOfUnknown = 32;
// An epilogue of more ops runs as a loop over the rows of a tile.
constexpr size_t kDirectEpilogueOps = 4;

struct Operand {
  loop::ValueId value = loop::kNone;
  std::vector<OpId> ops;
};

struct Contraction {
  Expr n, n_extent, k, k_extent;
  Operand rows, vectors;
  loop::ValueId sum = loop::kNone;
  DType dtype = DType::kInvalid;
  std::vector<OpId> epilogue;  // every other op of the body of the n loop
  bool is_contiguous = false;  // the vector operand along n
};

struct Step {
  std::optional<Contraction> contraction;
  std::vector<OpId> ops;  // of a row, where there is no contraction
};

struct Problem {
  std::vector<std::pair<Expr, Expr>> batch;  // symbol, extent; outermost first
  Expr batch_extent;
  Expr m, m_extent;
  std::vector<OpId> constants;  // outside the steps
  std::vector<Step> steps;
  std::vector<loop::ValueId> kept;  // of a row, read in another step
  std::vector<loop::BufferId> locals;
};

class Reader {
 public:
  Reader(const loop::Function& function, const loop::Kernel& kernel)
      : function_(function), kernel_(kernel), exprs_(*function.exprs) {}

  std::optional<Problem> Read() {
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
    if (loops.empty()) return false;
    if (kernel_.roles.m.size() != 1 || loops.back().first != kernel_.roles.m[0]) return false;
    problem_.m = loops.back().first;
    problem_.m_extent = loops.back().second;
    loops.pop_back();
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

  std::optional<Contraction> ReadContraction(const Op& outer) {
    Contraction c;
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
  bool Slice(const std::vector<OpId>& body, Operand& operand) const {
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

  bool DependsOn(const Operand& operand, Expr symbol) const {
    for (OpId id : operand.ops) {
      const Op& op = kernel_.ops[id];
      if (op.index.valid() && exprs_.DependsOn(op.index, symbol)) return true;
      // One copy per row.
      if (symbol == problem_.m && op.buffer != loop::kNone && IsLocal(op.buffer)) return true;
    }
    return false;
  }

  bool IsContiguous(const Operand& operand, Expr symbol) const {
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
      const Step& one = problem_.steps[step];
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
  Problem problem_;
  loop::BlockId body_ = 0;
  std::set<loop::ValueId> outside_;  // constants
};

class AttentionBuilder {
 public:
  AttentionBuilder(const loop::Function& function, const loop::Kernel& kernel,
                   const ScheduleRecord& record, const Target& target, Problem problem)
      : function_(function),
        kernel_(kernel),
        exprs_(*function.exprs),
        record_(record),
        problem_(std::move(problem)),
        writer_(KernelName(kernel.name, "")),
        emitter_(function, kernel, writer_, OptionsFor(function, kernel, record, target)),
        lanes_(record.lanes) {}

  Result<ScheduledKernel> Build() {
    if (lanes_ < 1 || lanes_ > 64 || (lanes_ & (lanes_ - 1)) != 0) return Bad("bad lanes");
    if (record_.mr < 1 || record_.nv < 1 || record_.mr * record_.nv > 128) return Bad("bad tile");
    if (record_.unroll < 1 || record_.unroll > 16 || (record_.unroll & (record_.unroll - 1)) != 0) {
      return Bad("bad unroll");
    }
    if (record_.mc < 1 || record_.mc > 65536) return Bad("bad task size");
    r0_ = exprs_.Loop("row", problem_.m_extent);
    emitter_.Shift(problem_.m, r0_, 0);
    Dispatch dispatch;
    dispatch.grid[0] = exprs_.CeilDiv(problem_.m_extent, exprs_.Const(record_.mc));
    dispatch.grid[1] = problem_.batch_extent;
    dispatch.grid[2] = exprs_.Const(1);

    V rest = writer_.WorkgroupId(1);
    for (size_t i = problem_.batch.size(); i-- > 0;) {
      const auto& [symbol, extent] = problem_.batch[i];
      if (i == 0) {
        emitter_.Bind(symbol, rest);
        break;
      }
      const V size = emitter_.Evaluate(extent);
      const V outer = writer_.FloorDiv(rest, size, true);
      emitter_.Bind(symbol, writer_.Sub(rest, writer_.Mul(outer, size)));
      rest = outer;
    }
    const V total = emitter_.Evaluate(problem_.m_extent);
    row_lo_ = writer_.Mul(writer_.WorkgroupId(0), writer_.I64(record_.mc));
    row_hi_ = writer_.Add(row_lo_, writer_.I64(record_.mc));
    is_whole_ = exprs_.KnownMultipleOf(problem_.m_extent, record_.mc);
    if (!is_whole_) row_hi_ = writer_.Min(row_hi_, total);

    for (OpId id : problem_.constants) HY_TRY(emitter_.EmitOp(id));
    for (loop::BufferId id : problem_.locals) {
      const loop::Buffer& local = function_.buffers[id];
      const int64_t elements = std::max<int64_t>(1, *exprs_.AsConst(local.elements));
      locals_[id] = {writer_.AddAllocation(local.name, local.dtype, elements * record_.mc),
                     elements};
    }
    for (loop::ValueId v : problem_.kept) {
      kept_[v] = writer_.AddAllocation("kept", kernel_.values[v].dtype, record_.mc);
    }
    for (size_t i = 0; i < problem_.steps.size(); ++i) {
      const Step& step = problem_.steps[i];
      HY_TRY(step.contraction ? EmitContraction(*step.contraction) : EmitRows(step.ops));
    }
    ScheduledKernel scheduled;
    scheduled.record = record_;
    dispatch.bindings = emitter_.bindings;
    dispatch.scalars = emitter_.scalars;
    scheduled.kernels.push_back(writer_.Finish());
    scheduled.dispatches.push_back(std::move(dispatch));
    return scheduled;
  }

 private:
  static Emitter::Options OptionsFor(const loop::Function& function, const loop::Kernel& kernel,
                                     const ScheduleRecord& record, const Target& target) {
    Emitter::Options options;
    options.lanes = record.lanes;
    options.unroll = record.unroll;
    options.masked_tails = target.vector_bytes >= 32;
    // The innermost loops; those of contractions are not emitted as loops.
    const Nest nest(function, kernel);
    for (size_t i = 0; i < nest.loops.size(); ++i) {
      if (nest.loops[i].children.empty() && nest.CanVectorise(static_cast<int>(i))) {
        options.vector_loops.insert(nest.loops[i].op);
      }
    }
    return options;
  }

  Status Bad(std::string_view why) const {
    return InvalidArgument("Schedule '{}' does not fit kernel '{}': {}.", FormatSchedule(record_),
                           kernel_.name, why);
  }

  // Row `base + offset` is the one that ops of a row mean from here on.
  void SetRow(V base, int64_t offset) {
    emitter_.Bind(r0_, base);
    emitter_.Shift(problem_.m, r0_, offset);
    in_task_ = writer_.Add(writer_.Sub(base, row_lo_), writer_.I64(offset));
    for (const auto& [id, local] : locals_) {
      emitter_.PlaceLocal(id, local.first, writer_.Mul(in_task_, writer_.I64(local.second)));
    }
  }

  void ReadKept() {
    for (const auto& [value, place] : kept_) {
      if (written_.contains(value)) {
        emitter_.SetValue(value, writer_.Load(place, in_task_, 1, /*stable=*/false));
      }
    }
  }

  Status EmitRows(const std::vector<OpId>& ops) {
    const Writer::Loop rows =
        writer_.BeginFor(row_lo_, row_hi_, writer_.I64(1), {}, /*runs_at_least_once=*/true);
    SetRow(rows.variable, 0);
    ReadKept();
    for (OpId id : ops) HY_TRY(emitter_.EmitOp(id));
    for (OpId id : ops) {
      for (loop::ValueId v : kernel_.ops[id].results) {
        if (!kept_.contains(v)) continue;
        writer_.Store(kept_[v], in_task_, emitter_.ValueOf(v));
        written_.insert(v);
      }
    }
    writer_.EndFor({});
    return OkStatus();
  }

  // Vectors v0 to v0 + nv * lanes - 1 along n, at rows m0 to m0 + h - 1.
  struct Tile {
    int h = 0, nv = 0;
    V m0 = kNone, v0 = kNone;
    std::vector<V> masks;  // per vector; kNone: whole
  };

  Status EmitContraction(const Contraction& c) {
    v0_ = exprs_.Loop("vector", c.n_extent);
    k0_ = exprs_.Loop("step", c.k_extent);
    emitter_.Shift(c.n, v0_, 0);
    emitter_.Shift(c.k, k0_, 0);
    const int64_t width = int64_t{record_.nv} * lanes_;
    const std::optional<int64_t> k = exprs_.AsConst(c.k_extent), n = exprs_.AsConst(c.n_extent);
    panel_ = kNone;
    if (k && !(c.is_contiguous && c.vectors.ops.size() == 1)) {
      if (*k > kMaxTaskBytes / 8 / width) return Bad("a panel is too large");
      panel_ = writer_.AddAllocation("panel", c.dtype, std::max<int64_t>(1, *k * width));
    }
    tile_ = kNone;
    if (c.epilogue.size() > kDirectEpilogueOps) {
      tile_ = writer_.AddAllocation("tile", c.dtype, record_.mr * width);
    }
    const V total = emitter_.Evaluate(c.n_extent);
    const V whole =
        writer_.Mul(writer_.FloorDiv(total, writer_.I64(width), true), writer_.I64(width));
    Tile tile;
    tile.nv = record_.nv;
    tile.masks.assign(static_cast<size_t>(tile.nv), kNone);
    if (!n || *n >= width) {
      const Writer::Loop loop =
          writer_.BeginFor(writer_.I64(0), whole, writer_.I64(width), {}, n.has_value());
      tile.v0 = loop.variable;
      HY_TRY(EmitPanel(c, tile));
      writer_.EndFor({});
    }
    if (n && *n % width == 0) return OkStatus();
    const V rest = writer_.Sub(total, whole);
    if (!n) writer_.BeginIf(writer_.Compare(Opcode::kGt, rest, writer_.I64(0)));
    tile.v0 = whole;
    if (n) tile.nv = static_cast<int>((*n % width + lanes_ - 1) / lanes_);
    tile.masks.clear();
    for (int j = 0; j < tile.nv; ++j) {
      const V left = writer_.Sub(rest, writer_.I64(int64_t{j} * lanes_));
      const auto count = writer_.AsConst(left);
      const bool is_full = (count && *count >= lanes_) || lanes_ == 1;
      tile.masks.push_back(
          is_full ? kNone : writer_.Compare(Opcode::kLt, writer_.Iota(DType::kI64, lanes_), left));
    }
    HY_TRY(EmitPanel(c, tile));
    if (!n) writer_.EndIf({});
    return OkStatus();
  }

  Status EmitPanel(const Contraction& c, Tile tile) {
    if (panel_ != kNone) HY_TRY(Pack(c, tile));
    const V count = writer_.Sub(row_hi_, row_lo_);
    const bool is_even = is_whole_ && record_.mc % record_.mr == 0;
    const V rest =
        is_even ? writer_.I64(0) : writer_.FloorMod(count, writer_.I64(record_.mr), true);
    const V split = writer_.Sub(row_hi_, rest);
    const Writer::Loop tiles =
        writer_.BeginFor(row_lo_, split, writer_.I64(record_.mr), {}, is_even);
    tile.m0 = tiles.variable;
    tile.h = record_.mr;
    HY_TRY(EmitTile(c, tile));
    writer_.EndFor({});
    if (is_even || record_.mr == 1) return OkStatus();
    const Writer::Loop last = writer_.BeginFor(split, row_hi_, writer_.I64(1), {}, false);
    tile.m0 = last.variable;
    tile.h = 1;
    HY_TRY(EmitTile(c, tile));
    writer_.EndFor({});
    return OkStatus();
  }

  // The vector operand at k and the vectors of the tile.
  Result<std::vector<V>> Vectors(const Contraction& c, const Tile& tile) {
    std::vector<V> vectors;
    for (int j = 0; j < tile.nv; ++j) {
      emitter_.Bind(v0_, tile.v0);
      emitter_.Shift(c.n, v0_, int64_t{j} * lanes_);
      emitter_.BeginVector(v0_, tile.v0, lanes_, /*aligned=*/true,
                           tile.masks[static_cast<size_t>(j)]);
      for (OpId id : c.vectors.ops) HY_TRY(emitter_.EmitOp(id));
      emitter_.EndVector();
      vectors.push_back(writer_.Splat(emitter_.ValueOf(c.vectors.value), lanes_));
    }
    return vectors;
  }

  // panel[k * width + lane], whatever the operand gives where lanes are masked off.
  Status Pack(const Contraction& c, const Tile& tile) {
    emitter_.Shift(c.k, k0_, 0);
    const Writer::Loop loop =
        writer_.BeginFor(writer_.I64(0), emitter_.Evaluate(c.k_extent), writer_.I64(1), {}, false);
    emitter_.Bind(k0_, loop.variable);
    HY_ASSIGN(const std::vector<V> vectors, Vectors(c, tile));
    const V base = writer_.Mul(loop.variable, writer_.I64(int64_t{record_.nv} * lanes_));
    for (size_t j = 0; j < vectors.size(); ++j) {
      const auto at = static_cast<int64_t>(j) * lanes_;
      writer_.Store(panel_, writer_.Add(base, writer_.I64(at)), vectors[j]);
    }
    writer_.EndFor({});
    return OkStatus();
  }

  // sums += rows[k + u] * vectors[k + u]
  Status EmitStep(const Contraction& c, const Tile& tile, V k, int64_t u, std::vector<V>& sums) {
    emitter_.Bind(k0_, k);
    emitter_.Shift(c.k, k0_, u);
    std::vector<V> vectors;
    if (panel_ != kNone) {
      const int64_t width = int64_t{record_.nv} * lanes_;
      const V base = writer_.Mul(k, writer_.I64(width));
      for (int j = 0; j < tile.nv; ++j) {
        const V at = writer_.Add(base, writer_.I64(u * width + int64_t{j} * lanes_));
        vectors.push_back(writer_.Load(panel_, at, lanes_, /*stable=*/false));
      }
    } else {
      HY_ASSIGN(vectors, Vectors(c, tile));
    }
    const Type type{c.dtype, static_cast<uint16_t>(lanes_)};
    for (int i = 0; i < tile.h; ++i) {
      SetRow(tile.m0, i);
      for (OpId id : c.rows.ops) HY_TRY(emitter_.EmitOp(id));
      const V a = writer_.Splat(emitter_.ValueOf(c.rows.value), lanes_);
      for (int j = 0; j < tile.nv; ++j) {
        V& sum = sums[static_cast<size_t>(i * tile.nv + j)];
        sum = writer_.Pure(Opcode::kFma, type, {a, vectors[static_cast<size_t>(j)], sum});
      }
    }
    return OkStatus();
  }

  Status EmitTile(const Contraction& c, const Tile& tile) {
    std::vector<V> sums(static_cast<size_t>(tile.h * tile.nv), writer_.Const(c.dtype, 0, lanes_));
    const std::optional<int64_t> k = exprs_.AsConst(c.k_extent);
    const int64_t step = k ? std::min<int64_t>(record_.unroll, std::max<int64_t>(*k, 1)) : 1;
    const V total = emitter_.Evaluate(c.k_extent);
    const V main = writer_.Sub(total, writer_.FloorMod(total, writer_.I64(step), true));
    const Writer::Loop loop = writer_.BeginFor(writer_.I64(0), main, writer_.I64(step), sums,
                                               k.has_value() && *k >= step);
    sums = loop.carried;
    for (int64_t u = 0; u < step; ++u) HY_TRY(EmitStep(c, tile, loop.variable, u, sums));
    sums = writer_.EndFor(sums);
    if (k) {
      for (int64_t u = 0; u < *k % step; ++u) HY_TRY(EmitStep(c, tile, main, u, sums));
    }
    return EmitEpilogue(c, tile, sums);
  }

  Status EmitEpilogue(const Contraction& c, const Tile& tile, const std::vector<V>& sums) {
    const int64_t width = int64_t{record_.nv} * lanes_;
    const auto one_vector = [&](int j, V sum) -> Status {
      emitter_.Bind(v0_, tile.v0);
      emitter_.Shift(c.n, v0_, int64_t{j} * lanes_);
      emitter_.BeginVector(v0_, tile.v0, lanes_, /*aligned=*/true,
                           tile.masks[static_cast<size_t>(j)]);
      emitter_.SetValue(c.sum, sum);
      for (OpId id : c.epilogue) HY_TRY(emitter_.EmitOp(id));
      emitter_.EndVector();
      return OkStatus();
    };
    if (tile_ == kNone) {
      for (int i = 0; i < tile.h; ++i) {
        SetRow(tile.m0, i);
        ReadKept();
        for (int j = 0; j < tile.nv; ++j) {
          HY_TRY(one_vector(j, sums[static_cast<size_t>(i * tile.nv + j)]));
        }
      }
      return OkStatus();
    }
    for (int i = 0; i < tile.h; ++i) {
      for (int j = 0; j < tile.nv; ++j) {
        writer_.Store(tile_, writer_.I64(i * width + int64_t{j} * lanes_),
                      sums[static_cast<size_t>(i * tile.nv + j)]);
      }
    }
    const Writer::Loop rows =
        writer_.BeginFor(writer_.I64(0), writer_.I64(tile.h), writer_.I64(1), {}, true);
    SetRow(writer_.Add(tile.m0, rows.variable), 0);
    ReadKept();
    const V base = writer_.Mul(rows.variable, writer_.I64(width));
    for (int j = 0; j < tile.nv; ++j) {
      const V at = writer_.Add(base, writer_.I64(int64_t{j} * lanes_));
      HY_TRY(one_vector(j, writer_.Load(tile_, at, lanes_, /*stable=*/false)));
    }
    writer_.EndFor({});
    return OkStatus();
  }

  const loop::Function& function_;
  const loop::Kernel& kernel_;
  ExprArena& exprs_;
  const ScheduleRecord& record_;
  Problem problem_;
  Writer writer_;
  Emitter emitter_;
  int lanes_;
  Expr r0_, v0_, k0_;
  V row_lo_ = kNone, row_hi_ = kNone, in_task_ = kNone;
  bool is_whole_ = false;  // every task has record_.mc rows
  kernel::BufferId panel_ = kNone, tile_ = kNone;
  std::map<loop::BufferId, std::pair<kernel::BufferId, int64_t>> locals_;  // place, elements
  std::map<loop::ValueId, kernel::BufferId> kept_;
  std::set<loop::ValueId> written_;  // of those, in the steps so far
};

}  // namespace

std::vector<ScheduleRecord> EnumerateAttention(const loop::Function& function, uint32_t kernel,
                                               const Target& target) {
  std::vector<ScheduleRecord> records;
  const loop::Kernel& source = function.kernels[kernel];
  if (source.template_kind != loop::TemplateKind::kAttention) return records;
  std::optional<Problem> problem = Reader(function, source).Read();
  if (!problem) return records;
  ExprArena& exprs = *function.exprs;
  DType dtype = DType::kF32;
  for (const Step& step : problem->steps) {
    if (step.contraction) dtype = step.contraction->dtype;
  }
  int64_t row_bytes = 0;
  for (loop::BufferId id : problem->locals) {
    const loop::Buffer& local = function.buffers[id];
    row_bytes += *exprs.AsConst(local.elements) * (BitWidth(local.dtype) / 8);
  }
  const std::optional<int64_t> rows = exprs.AsConst(problem->m_extent);
  const int64_t batches = std::max<int64_t>(1, exprs.AsConst(problem->batch_extent).value_or(1));
  const int64_t workers = std::max(1, target.worker_count);
  struct Shape {
    int32_t mr, nv;
  };
  const std::vector<Shape> shapes = target.vector_registers >= 32
                                        ? std::vector<Shape>{{4, 4}, {6, 4}, {8, 2}}
                                        : std::vector<Shape>{{4, 2}, {6, 2}, {2, 4}};
  for (const Shape& shape : shapes) {
    ScheduleRecord record;
    record.kind = ScheduleKind::kAttention;
    record.lanes = std::max(1, target.vector_bytes / (BitWidth(dtype) / 8));
    record.unroll = 4;
    record.mr = shape.mr;
    record.nv = shape.nv;
    // Every task packs the keys again, so as few tasks of one batch as keep the workers busy.
    int64_t mc = kRowsOfUnknown;
    if (rows) {
      const int64_t tasks = std::max<int64_t>(1, workers * kTasksPerWorker / batches);
      mc = std::max<int64_t>(1, (*rows + tasks - 1) / tasks);
    }
    // Half of the second-level cache for what the rows keep.
    const int64_t room = std::max<int64_t>(target.l2_bytes / 2, 64 << 10);
    if (row_bytes > 0) mc = std::min(mc, std::max<int64_t>(room / row_bytes, shape.mr));
    mc = (mc + shape.mr - 1) / shape.mr * shape.mr;
    if (row_bytes > kMaxTaskBytes / mc) continue;
    record.mc = mc;
    if (BuildAttention(function, kernel, record, target).ok()) records.push_back(record);
  }
  return records;
}

Result<ScheduledKernel> BuildAttention(const loop::Function& function, uint32_t kernel,
                                       const ScheduleRecord& record, const Target& target) {
  const loop::Kernel& source = function.kernels[kernel];
  std::optional<Problem> problem = Reader(function, source).Read();
  if (!problem) {
    return InvalidArgument(
        "Schedule '{}' needs rows of contractions; kernel '{}' has not that form.",
        FormatSchedule(record), source.name);
  }
  return AttentionBuilder(function, source, record, target, std::move(*problem)).Build();
}

}  // namespace halyard::schedule
