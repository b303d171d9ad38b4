// SPDX-License-Identifier: Apache-2.0
// Nest: the loops of one loop kernel as a tree, and what scheduling asks about them: may a loop be
// vectorised, may its iterations be separate tasks, what would a vectorisation cost.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "compiler/loop/loop_ir.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

struct LoopNode {
  loop::OpId op = loop::kNone;
  int parent = -1;  // index into Nest::loops
  std::vector<int> children;
  int depth = 0;
};

// One use of a buffer, with the loops around it (outermost first).
struct AccessSite {
  loop::OpId op = loop::kNone;
  std::vector<int> loops;
};

struct Nest {
  Nest(const loop::Function& function, const loop::Kernel& kernel);

  const loop::Function& function;
  const loop::Kernel& kernel;
  ExprArena& exprs;
  std::vector<LoopNode> loops;       // text order
  std::vector<AccessSite> accesses;  // loads, stores, scatters
  // Symbols that indirect loads define, each with the loops its definition stands in.
  struct Indirect {
    Expr symbol;
    std::vector<int> loops;
  };
  std::vector<Indirect> indirects;

  const loop::Op& OpOf(int loop) const { return kernel.ops[loops[static_cast<size_t>(loop)].op]; }
  bool Encloses(int outer, const std::vector<int>& path) const;
  // The loops around every use of a local buffer, outermost first.
  std::vector<int> ScopeOf(loop::BufferId local) const;
  // True when e takes another value in another iteration of the loop (through indirect symbols
  // too).
  bool Varies(Expr e, int loop) const;
  // Distinct iterations of the loop never touch the same element of a scatter's or store's target.
  bool WritesAreDistinct(int loop) const;
  bool CanVectorise(int loop) const;

  // Cost in rough cycles of everything below `loop` for one iteration of the loops around it;
  // vector: the loop on the lanes (-1: none yet); picks the best loops into `chosen` when it may.
  double Cost(int loop, int lanes, std::set<int>* chosen) const;
  // The same with `vector` on the lanes and nothing else.
  double CostWith(int loop, int vector, int lanes) const;
  // Scalar operations of one iteration of the loops around `loop`; for task sizes.
  double Work(int loop) const;
  int64_t ExtentHint(int loop) const;

 private:
  double BodyCost(int loop, loop::BlockId block, int vector, int lanes,
                  std::set<int>* chosen) const;
  double OpCost(const loop::Op& op, int vector, int lanes) const;
  void Visit(loop::BlockId block, int parent, std::vector<int>& path);
};

}  // namespace halyard::schedule
