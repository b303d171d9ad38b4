// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/gpu/piece_plan.h"

#include <algorithm>
#include <cstdlib>

#include "compiler/schedule/gpu/team.h"

namespace halyard::schedule {

using loop::LoopKind;
using loop::Op;
using loop::OpKind;

bool IsInPiece(const Piece& piece, const AccessSite& site) {
  return piece.chain.empty() || (!site.loops.empty() && site.loops[0] == piece.chain[0]);
}

Expr CountOf(const Nest& nest, const std::vector<int>& loops) {
  Expr count = nest.exprs.Const(1);
  for (int loop : loops) count = nest.exprs.Mul(count, nest.OpOf(loop).extent);
  return count;
}

namespace {

constexpr int64_t kMostWindow = 16;  // taps along one dimension of a window

// Iterations of the loops name distinct elements in every scatter of the piece: each stride is
// larger than all that the smaller ones can add up to.
bool ScattersAreDistinct(const Nest& nest, const Piece& piece, const std::vector<int>& loops) {
  ExprArena& exprs = nest.exprs;
  for (const AccessSite& site : nest.accesses) {
    const Op& op = nest.kernel.ops[site.op];
    if (op.kind != OpKind::kScatter || !IsInPiece(piece, site)) continue;
    if (nest.function.buffers[op.buffer].role == loop::BufferRole::kLocal) continue;
    std::vector<std::pair<int64_t, int64_t>> steps;  // stride, extent
    Expr rest = op.index;
    for (int loop : loops) {
      std::optional<Expr> stride = exprs.StrideOf(op.index, nest.OpOf(loop).symbol);
      int64_t step = stride ? exprs.AsConst(*stride).value_or(0) : 0;
      if (step == 0) return false;
      steps.emplace_back(std::abs(step), exprs.RangeOf(nest.OpOf(loop).extent).hi);
      std::pair<Expr, Expr> zero(nest.OpOf(loop).symbol, exprs.Const(0));
      rest = exprs.Substitute(rest, {&zero, 1});
    }
    std::sort(steps.begin(), steps.end());
    // What is left moves within an iteration or through data: it must not be in steps of its own
    // that meet these, which only a known common multiple shows.
    int64_t reach = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].first <= reach) return false;
      int64_t add = 0;
      if (__builtin_mul_overflow(steps[i].first, steps[i].second - 1, &add) ||
          __builtin_add_overflow(reach, add, &reach)) {
        if (i + 1 < steps.size()) return false;
        reach = INT64_MAX;
      }
    }
    ExprRange range = exprs.RangeOf(rest);
    int64_t width = 0;
    if (steps.empty() ||
        (!__builtin_sub_overflow(range.hi, range.lo, &width) && width < steps[0].first))
      continue;
    if (reach == INT64_MAX || !exprs.KnownMultipleOf(rest, reach + 1)) return false;
  }
  return true;
}

bool HasIndirect(const Nest& nest, Expr e) {
  for (Expr s : nest.exprs.SymbolsOf(e))
    for (const Nest::Indirect& indirect : nest.indirects)
      if (indirect.symbol == s) return true;
  return false;
}

}  // namespace

ChainSplit SplitChain(const Nest& nest, const Piece& piece) {
  ChainSplit split;
  for (int loop : piece.chain) {
    std::vector<int> with = split.grid;
    with.push_back(loop);
    if (nest.WritesAreDistinct(loop) && ScattersAreDistinct(nest, piece, with))
      split.grid.push_back(loop);
    else
      split.serial.push_back(loop);
  }
  return split;
}

const std::vector<loop::OpId>& RowOps(const Nest& nest, const Piece& piece) {
  return piece.chain.empty() ? piece.ops
                             : nest.kernel.blocks[nest.OpOf(piece.chain.back()).body].ops;
}

bool MayVectorise(const Nest& nest, const std::vector<int>& loops) {
  return std::all_of(loops.begin(), loops.end(), [&](int loop) { return nest.CanVectorise(loop); });
}

std::vector<RowLoop> RowLoops(const Nest& nest, const Piece& piece) {
  std::vector<RowLoop> loops;
  const std::vector<loop::OpId>& ops = RowOps(nest, piece);
  auto index_of = [&](loop::OpId op) {
    for (size_t i = 0; i < nest.loops.size(); ++i)
      if (nest.loops[i].op == op) return static_cast<int>(i);
    return -1;
  };
  std::map<loop::OpId, TeamLoop> team = TeamLoops(nest, ops, nullptr);
  for (loop::OpId id : ops) {
    auto it = team.find(id);
    if (it == team.end()) continue;
    RowLoop row;
    row.outer = index_of(id);
    row.inner = index_of(it->second.nest.back());
    row.extent = it->second.extent;
    row.is_reduce = nest.kernel.ops[id].loop == LoopKind::kReduce;
    loops.push_back(row);
  }
  return loops;
}

bool MayBeTeam(const Nest& nest, const Piece& piece) {
  if (nest.kernel.ordered_reductions) return false;
  if (!SplitChain(nest, piece).serial.empty()) return false;
  bool spreads = false;
  for (loop::OpId id : RowOps(nest, piece)) {
    const Op& op = nest.kernel.ops[id];
    if (op.kind != OpKind::kLoop) continue;
    if (op.loop == LoopKind::kSequential) return false;
    spreads = true;
    // Its extent must be known outside it, and equal for all members.
    if (HasIndirect(nest, op.extent)) return false;
  }
  if (!spreads) return false;
  for (const AccessSite& site : nest.accesses) {
    loop::BufferId id = nest.kernel.ops[site.op].buffer;
    if (IsInPiece(piece, site) && nest.function.buffers[id].role == loop::BufferRole::kLocal &&
        nest.ScopeOf(id) != piece.chain)
      return false;
  }
  for (const RowLoop& loop : RowLoops(nest, piece)) {
    // Members must not write the same elements.
    int at = loop.inner;
    for (;;) {
      if (!nest.WritesAreDistinct(at)) return false;
      if (at == loop.outer) break;
      at = nest.loops[static_cast<size_t>(at)].parent;
    }
    for (const AccessSite& site : nest.accesses)
      if (nest.kernel.ops[site.op].kind == OpKind::kScatter &&
          nest.Encloses(loop.outer, site.loops))
        return false;
  }
  return true;
}

bool ReadsItsStores(const Nest& nest, const Piece& piece) {
  std::set<loop::BufferId> read, written;
  for (const AccessSite& site : nest.accesses) {
    const Op& op = nest.kernel.ops[site.op];
    if (!IsInPiece(piece, site)) continue;
    if (nest.function.buffers[op.buffer].role == loop::BufferRole::kLocal) continue;
    if (op.kind != OpKind::kStore) read.insert(op.buffer);
    if (op.kind != OpKind::kLoad) written.insert(op.buffer);
  }
  return std::any_of(read.begin(), read.end(),
                     [&](loop::BufferId b) { return written.count(b) > 0; });
}

bool MaySplit(const Nest& nest, const Piece& piece) {
  if (!MayBeTeam(nest, piece) || ReadsItsStores(nest, piece)) return false;
  for (loop::OpId id : RowOps(nest, piece)) {
    const Op& op = nest.kernel.ops[id];
    if (op.kind == OpKind::kStore &&
        nest.function.buffers[op.buffer].role == loop::BufferRole::kLocal)
      return false;
  }
  auto is_fixed = [&](Expr e) {
    for (Expr symbol : nest.exprs.SymbolsOf(e))
      if (nest.exprs.SymbolKindOf(symbol) != SymbolKind::kDim) return false;
    return true;
  };
  for (const RowLoop& loop : RowLoops(nest, piece))
    if (!is_fixed(loop.extent)) return false;
  return true;
}

int ContiguousAccesses(const Nest& nest, const Piece& piece, int loop, int inside) {
  int count = 0;
  for (const AccessSite& site : nest.accesses) {
    if (!IsInPiece(piece, site)) continue;
    if (inside >= 0 && !nest.Encloses(inside, site.loops)) continue;
    const Op& op = nest.kernel.ops[site.op];
    if (nest.function.buffers[op.buffer].role == loop::BufferRole::kLocal) continue;
    std::optional<Expr> stride = nest.exprs.StrideOf(op.index, nest.OpOf(loop).symbol);
    if (!stride) {
      // Divisions by multiples of the vector's length leave its elements neighbours.
      Expr q = nest.exprs.Loop("q", nest.exprs.Const(1 << 20));
      Expr l = nest.exprs.Loop("l", nest.exprs.Const(4));
      std::pair<Expr, Expr> parts(nest.OpOf(loop).symbol,
                                  nest.exprs.Add(nest.exprs.Mul(q, nest.exprs.Const(4)), l));
      stride = nest.exprs.StrideOf(nest.exprs.Substitute(op.index, {&parts, 1}), l);
    }
    if (stride && nest.exprs.IsConst(*stride, 1)) count += op.kind == OpKind::kStore ? 2 : 1;
  }
  return count;
}

int VectorLanes(const Nest& nest, const Piece& piece) {
  int widest = 1;
  for (const AccessSite& site : nest.accesses) {
    if (!IsInPiece(piece, site)) continue;
    const loop::Buffer& buffer = nest.function.buffers[nest.kernel.ops[site.op].buffer];
    if (buffer.role == loop::BufferRole::kLocal) continue;
    widest = std::max(widest, BitWidth(buffer.dtype) / 8);
  }
  return std::max(2, 16 / widest);
}

bool Slides(const Nest& nest, const Piece& piece, int loop) {
  ExprArena& exprs = nest.exprs;
  const auto stride_of = [&](Expr index, int of) {
    const std::optional<Expr> stride = exprs.StrideOf(index, nest.OpOf(of).symbol);
    return stride ? std::abs(exprs.AsConst(*stride).value_or(0)) : 0;
  };
  bool slides = false;
  for (const AccessSite& site : nest.accesses) {
    if (!IsInPiece(piece, site)) continue;
    const Op& op = nest.kernel.ops[site.op];
    if (op.kind == OpKind::kScatter) return false;
    if (op.kind == OpKind::kStore && site.loops.size() > piece.chain.size()) return false;
    for (size_t i = piece.chain.size(); i < site.loops.size(); ++i) {
      const Op& inner = nest.OpOf(site.loops[i]);
      const std::optional<int64_t> extent = exprs.AsConst(inner.extent);
      if (inner.loop != LoopKind::kReduce || !extent || *extent > kMostWindow) return false;
      if (op.kind != OpKind::kLoad || *extent < 2) continue;
      const int64_t step = stride_of(op.index, loop), tap = stride_of(op.index, site.loops[i]);
      slides |= step != 0 && tap != 0 && step % tap == 0 && step / tap < *extent;
    }
  }
  return slides;
}

int SlidingLoop(const Nest& nest, const Piece& piece, const std::vector<int>& grid, int fastest) {
  if (piece.chain.empty() || piece.chain.size() != grid.size()) return -1;
  int best = -1;
  for (int loop : grid) {
    if (loop != fastest && Slides(nest, piece, loop)) best = std::max(best, loop);
  }
  return best;
}

int64_t WindowSteps(const Nest& nest, const Piece& piece) {
  int64_t most = 1;
  for (const AccessSite& site : nest.accesses) {
    if (!IsInPiece(piece, site)) continue;
    int64_t steps = 1;
    for (size_t i = piece.chain.size(); i < site.loops.size(); ++i) {
      steps *= nest.exprs.AsConst(nest.OpOf(site.loops[i]).extent).value_or(1);
    }
    most = std::max(most, steps);
  }
  return most;
}

}  // namespace halyard::schedule
