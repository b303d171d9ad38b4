// SPDX-License-Identifier: Apache-2.0
// The loop tree, the legality of vectors and tasks, and the cost model that picks vector loops.
// Costs are throughput guesses in cycles of a wide core: they rank, they do not predict.
#include "compiler/schedule/common/nest.h"

#include <algorithm>

#include "base/check.h"

namespace halyard::schedule {

using loop::LoopKind;
using loop::Op;
using loop::OpKind;

Nest::Nest(const loop::Function& function, const loop::Kernel& kernel)
    : function(function), kernel(kernel), exprs(*function.exprs) {
  std::vector<int> path;
  Visit(0, -1, path);
}

void Nest::Visit(loop::BlockId block, int parent, std::vector<int>& path) {
  for (loop::OpId id : kernel.blocks[block].ops) {
    const Op& op = kernel.ops[id];
    if (op.kind == OpKind::kLoad || op.kind == OpKind::kStore || op.kind == OpKind::kScatter)
      accesses.push_back(AccessSite{id, path});
    if (op.kind == OpKind::kIndirect) indirects.push_back(Indirect{op.symbol, path});
    if (op.kind != OpKind::kLoop) continue;
    int index = static_cast<int>(loops.size());
    LoopNode node;
    node.op = id;
    node.parent = parent;
    node.depth = static_cast<int>(path.size());
    loops.push_back(node);
    if (parent >= 0) loops[static_cast<size_t>(parent)].children.push_back(index);
    path.push_back(index);
    Visit(op.body, index, path);
    path.pop_back();
  }
}

bool Nest::Encloses(int outer, const std::vector<int>& path) const {
  return std::find(path.begin(), path.end(), outer) != path.end();
}

std::vector<int> Nest::ScopeOf(loop::BufferId local) const {
  std::vector<int> scope;
  bool first = true;
  for (const AccessSite& site : accesses) {
    if (kernel.ops[site.op].buffer != local) continue;
    if (first) {
      scope = site.loops;
      first = false;
      continue;
    }
    size_t common = 0;
    while (common < scope.size() && common < site.loops.size() &&
           scope[common] == site.loops[common])
      ++common;
    scope.resize(common);
  }
  return scope;
}

bool Nest::Varies(Expr e, int loop) const {
  Expr symbol = OpOf(loop).symbol;
  for (Expr s : exprs.SymbolsOf(e)) {
    if (s == symbol) return true;
    for (const Indirect& indirect : indirects)
      if (indirect.symbol == s && Encloses(loop, indirect.loops)) return true;
  }
  return false;
}

bool Nest::WritesAreDistinct(int loop) const {
  Expr symbol = OpOf(loop).symbol;
  for (const AccessSite& site : accesses) {
    const Op& op = kernel.ops[site.op];
    if (!Encloses(loop, site.loops)) continue;
    if (op.kind == OpKind::kLoad) continue;
    if (function.buffers[op.buffer].role == loop::BufferRole::kLocal &&
        Encloses(loop, ScopeOf(op.buffer)))
      continue;  // every iteration has its own
    if (op.kind == OpKind::kStore) {
      // Parallel iterations may not store to one element: an index that moves is enough.
      if (!exprs.DependsOn(op.index, symbol) && !Varies(op.index, loop)) return false;
      continue;
    }
    std::optional<Expr> stride = exprs.StrideOf(op.index, symbol);
    std::optional<int64_t> step = stride ? exprs.AsConst(*stride) : std::nullopt;
    if (!step || *step == 0) return false;
    std::pair<Expr, Expr> zero(symbol, exprs.Const(0));
    ExprRange rest = exprs.RangeOf(exprs.Substitute(op.index, {&zero, 1}));
    if (rest.lo == INT64_MIN || rest.hi == INT64_MAX) return false;
    int64_t width = 0;
    if (__builtin_sub_overflow(rest.hi, rest.lo, &width)) return false;
    if (width >= (*step < 0 ? -*step : *step)) {
      // Ranges of outer loops overlap by more than one step, yet the outer loops are fixed while
      // this one runs: only what varies inside counts. Without indirect symbols or inner loops
      // nothing does.
      for (Expr s : exprs.SymbolsOf(op.index)) {
        if (s == symbol) continue;
        bool fixed = true;
        for (const Indirect& indirect : indirects)
          if (indirect.symbol == s && Encloses(loop, indirect.loops)) fixed = false;
        for (int inner : site.loops)
          if (OpOf(inner).symbol == s &&
              loops[static_cast<size_t>(inner)].depth > loops[static_cast<size_t>(loop)].depth)
            fixed = false;
        if (!fixed) return false;
      }
    }
  }
  return true;
}

bool Nest::CanVectorise(int loop) const {
  const Op& op = OpOf(loop);
  if (op.loop == LoopKind::kSequential) return false;
  if (op.loop == LoopKind::kReduce) {
    if (kernel.ordered_reductions) return false;
  }
  if (!WritesAreDistinct(loop)) return false;
  for (size_t i = 0; i < loops.size(); ++i) {
    bool inside = false;
    for (int p = loops[i].parent; p >= 0; p = loops[static_cast<size_t>(p)].parent)
      inside |= p == loop;
    if (!inside) continue;
    if (Varies(kernel.ops[loops[i].op].extent, loop)) return false;
  }
  for (const AccessSite& site : accesses) {
    const Op& access = kernel.ops[site.op];
    if (function.buffers[access.buffer].role != loop::BufferRole::kLocal) continue;
    if (Encloses(loop, ScopeOf(access.buffer))) return false;  // needs a copy per lane
  }
  return true;
}

int64_t Nest::ExtentHint(int loop) const {
  return std::max<int64_t>(0, exprs.HintOf(OpOf(loop).extent));
}

double Nest::OpCost(const Op& op, int vector, int lanes) const {
  switch (op.kind) {
    case OpKind::kConst:
    case OpKind::kYield:
      return 0;
    case OpKind::kScalar: {
      bool heavy = op.opcode >= kernel::Opcode::kExp && op.opcode <= kernel::Opcode::kRsqrt;
      double cost = heavy                                                                     ? 12
                    : op.opcode == kernel::Opcode::kDiv || op.opcode == kernel::Opcode::kSqrt ? 6
                                                                                              : 0.5;
      if (vector >= 0 && BitWidth(op.dtype) == 64) cost *= 2;
      return cost;
    }
    case OpKind::kIndex:
      return 1;
    case OpKind::kIndirect:
      return vector >= 0 ? 6 : 3;
    case OpKind::kLoad:
    case OpKind::kStore:
    case OpKind::kScatter: {
      if (vector < 0) return op.operands.size() > 1 && op.kind == OpKind::kLoad ? 3 : 1;
      if (!Varies(op.index, vector)) return 0.5;
      std::optional<Expr> stride = exprs.StrideOf(op.index, OpOf(vector).symbol);
      if (stride && exprs.IsConst(*stride, 1)) return 1;
      if (!stride) {
        // Lanes often stay within one row: ask as the emitter will.
        Expr q = exprs.Loop("q", exprs.Const(1 << 20)), l = exprs.Loop("l", exprs.Const(lanes));
        std::pair<Expr, Expr> split(OpOf(vector).symbol,
                                    exprs.Add(exprs.Mul(q, exprs.Const(lanes)), l));
        std::optional<Expr> inner = exprs.StrideOf(exprs.Substitute(op.index, {&split, 1}), l);
        if (inner && exprs.IsConst(*inner, 1)) return 1;
        if (inner && exprs.IsConst(*inner, 0)) return 0.5;
        return (op.kind == OpKind::kLoad ? 1.2 : 1.6) * lanes + 8;
      }
      return (op.kind == OpKind::kLoad ? 1.0 : 1.4) * lanes;
    }
    case OpKind::kLoop:
      return 0;
  }
  return 1;
}

double Nest::BodyCost(int loop, loop::BlockId block, int vector, int lanes,
                      std::set<int>* chosen) const {
  double cost = 0.5;
  size_t child = 0;
  const auto& children = loops[static_cast<size_t>(loop)].children;
  for (loop::OpId id : kernel.blocks[block].ops) {
    const Op& op = kernel.ops[id];
    if (op.kind != OpKind::kLoop) {
      cost += OpCost(op, vector, lanes);
      continue;
    }
    int inner = children[child++];
    cost += vector >= 0 ? static_cast<double>(ExtentHint(inner)) *
                              BodyCost(inner, OpOf(inner).body, vector, lanes, nullptr)
                        : Cost(inner, lanes, chosen);
  }
  return cost;
}

double Nest::CostWith(int loop, int vector, int lanes) const {
  const Op& op = OpOf(loop);
  double trips = static_cast<double>(ExtentHint(loop));
  if (loop == vector) {
    double steps = static_cast<double>((ExtentHint(loop) + lanes - 1) / lanes);
    double cost = steps * BodyCost(loop, op.body, vector, lanes, nullptr);
    if (op.loop == LoopKind::kReduce) cost += 8 * static_cast<double>(op.reduces.size());
    return cost;
  }
  double cost = 0.5;
  size_t child = 0;
  for (loop::OpId id : kernel.blocks[op.body].ops) {
    const Op& inner = kernel.ops[id];
    if (inner.kind != OpKind::kLoop)
      cost += OpCost(inner, -1, lanes);
    else
      cost += CostWith(loops[static_cast<size_t>(loop)].children[child++], vector, lanes);
  }
  return trips * cost;
}

double Nest::Cost(int loop, int lanes, std::set<int>* chosen) const {
  std::set<int> below;
  double best =
      static_cast<double>(ExtentHint(loop)) * BodyCost(loop, OpOf(loop).body, -1, lanes, &below);
  // A reduction whose chain is scalar waits for each step.
  if (OpOf(loop).loop == LoopKind::kReduce && loops[static_cast<size_t>(loop)].children.empty())
    best += 3.0 * static_cast<double>(ExtentHint(loop));
  if (lanes > 1 && CanVectorise(loop)) {
    double cost = CostWith(loop, loop, lanes);
    if (cost < best) {
      best = cost;
      below = {loop};
    }
  }
  if (chosen) chosen->insert(below.begin(), below.end());
  return best;
}

double Nest::Work(int loop) const {
  double work = 0;
  size_t child = 0;
  for (loop::OpId id : kernel.blocks[OpOf(loop).body].ops) {
    const Op& op = kernel.ops[id];
    if (op.kind == OpKind::kLoop)
      work += Work(loops[static_cast<size_t>(loop)].children[child++]);
    else if (op.kind == OpKind::kScalar)
      work += op.opcode >= kernel::Opcode::kExp && op.opcode <= kernel::Opcode::kRsqrt ? 12 : 1;
    else if (op.kind != OpKind::kConst && op.kind != OpKind::kYield)
      work += 1;
  }
  return work * static_cast<double>(ExtentHint(loop));
}

}  // namespace halyard::schedule
