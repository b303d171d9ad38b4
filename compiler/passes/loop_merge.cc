// SPDX-License-Identifier: Apache-2.0
// MergeLoops: two perfectly nested loops a (outer) and b (inner, of extent E) become one variable f
// with a = floordiv(f, E) and b = mod(f, E), wherever every expression stays linear in f.
#include <algorithm>

#include "compiler/passes/loop_fuse.h"

namespace halyard::loop {

namespace {

class Merger {
 public:
  Merger(Function& function, Kernel& kernel) : exprs_(*function.exprs), kernel_(kernel) {}

  void Run() {
    bool changed = true;
    while (changed) {
      changed = false;
      for (OpId id = 0; id < kernel_.ops.size() && !changed; ++id) changed = TryMerge(id);
    }
  }

 private:
  // The op whose body holds nothing but the loop that is merged into it; kNone where there is none.
  OpId InnerOf(const Op& outer) const {
    if (outer.kind != OpKind::kLoop || outer.loop == LoopKind::kSequential) return kNone;
    const std::vector<OpId>& ops = kernel_.blocks[outer.body].ops;
    size_t count = outer.loop == LoopKind::kReduce ? 2 : 1;
    if (ops.size() != count) return kNone;
    const Op& inner = kernel_.ops[ops[0]];
    if (inner.kind != OpKind::kLoop || inner.loop != outer.loop || inner.reduces != outer.reduces)
      return kNone;
    for (ReduceKind reduce : outer.reduces) {
      if (reduce == ReduceKind::kArgMax || reduce == ReduceKind::kArgMin) return kNone;
    }
    if (count == 2 && kernel_.ops[ops[1]].operands != inner.results) return kNone;
    if (exprs_.DependsOn(inner.extent, outer.symbol)) return kNone;
    return ops[0];
  }

  bool SameRole(Expr a, Expr b) const {
    for (const std::vector<Expr>* role :
         {&kernel_.roles.batch, &kernel_.roles.m, &kernel_.roles.n, &kernel_.roles.k}) {
      bool has_a = std::find(role->begin(), role->end(), a) != role->end();
      bool has_b = std::find(role->begin(), role->end(), b) != role->end();
      if (has_a != has_b) return false;
    }
    return true;
  }

  bool TryMerge(OpId id) {
    OpId inner_id = InnerOf(kernel_.ops[id]);
    if (inner_id == kNone) return false;
    Expr a = kernel_.ops[id].symbol, b = kernel_.ops[inner_id].symbol;
    if (!SameRole(a, b)) return false;
    Expr size = kernel_.ops[inner_id].extent;
    // Cheap refusal first: the strides must agree where both are known.
    auto uses = [&](Expr e) {
      return e.valid() && (exprs_.DependsOn(e, a) || exprs_.DependsOn(e, b));
    };
    for (const Op& op : kernel_.ops) {
      for (Expr e : {op.index, op.kind == OpKind::kLoop || op.kind == OpKind::kIndirect ? op.extent
                                                                                        : Expr{}}) {
        if (!uses(e)) continue;
        std::optional<Expr> sa = exprs_.StrideOf(e, a), sb = exprs_.StrideOf(e, b);
        if (sa && sb && *sa != exprs_.Mul(*sb, size)) return false;
      }
    }
    Expr extent = exprs_.Mul(kernel_.ops[id].extent, size);
    Expr f = exprs_.Loop(exprs_.SymbolName(a), extent);
    const std::pair<Expr, Expr> map[] = {{a, exprs_.FloorDiv(f, size)}, {b, exprs_.Mod(f, size)}};
    std::vector<std::pair<Expr*, Expr>> edits;
    for (Op& op : kernel_.ops) {
      for (Expr* e : {&op.index, &op.extent}) {
        if (!uses(*e)) continue;
        Expr merged = exprs_.Substitute(*e, map);
        if (!exprs_.StrideOf(merged, f)) return false;
        edits.emplace_back(e, merged);
      }
    }
    for (auto& [target, value] : edits) *target = value;
    Op& outer = kernel_.ops[id];
    outer.body = kernel_.ops[inner_id].body;
    outer.symbol = f;
    outer.extent = extent;
    // The inner loop is no longer in any block; empty it so that no pass takes it for a live op.
    kernel_.ops[inner_id] = Op();
    kernel_.ops[inner_id].kind = OpKind::kYield;
    for (std::vector<Expr>* role :
         {&kernel_.roles.batch, &kernel_.roles.m, &kernel_.roles.n, &kernel_.roles.k}) {
      std::replace(role->begin(), role->end(), a, f);
      std::erase(*role, b);
    }
    return true;
  }

  ExprArena& exprs_;
  Kernel& kernel_;
};

}  // namespace

void MergeLoops(Function& function) {
  for (Kernel& kernel : function.kernels) Merger(function, kernel).Run();
}

}  // namespace halyard::loop
