// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/loop_localize.h"

#include <algorithm>
#include <map>

#include "compiler/passes/loop_clone.h"

namespace halyard::loop {

std::optional<RowAccess> RowOf(ExprArena& exprs, Expr index, const std::set<Expr>& inner) {
  struct Part {
    Expr stride, extent;
  };
  std::vector<Part> parts;
  std::vector<std::pair<Expr, Expr>> zero;
  for (Expr symbol : exprs.SymbolsOf(index)) {
    if (!inner.contains(symbol)) continue;
    std::optional<Expr> stride = exprs.StrideOf(index, symbol);
    Expr extent = exprs.LoopExtent(symbol);
    if (!stride || !extent.valid()) return std::nullopt;
    parts.push_back({*stride, extent});
    zero.emplace_back(symbol, exprs.Const(0));
  }
  RowAccess row{exprs.Substitute(index, zero), exprs.Const(1)};
  while (!parts.empty()) {
    auto next = std::find_if(parts.begin(), parts.end(),
                             [&](const Part& p) { return p.stride == row.length; });
    if (next == parts.end()) return std::nullopt;
    row.length = exprs.Mul(row.length, next->extent);
    parts.erase(next);
  }
  return row;
}

bool ReadsRow(ExprArena& exprs, Expr index, const RowAccess& row, const std::set<Expr>& shared) {
  Expr offset = exprs.Sub(index, row.base);
  for (Expr symbol : exprs.SymbolsOf(offset)) {
    if (shared.contains(symbol)) return false;
  }
  return exprs.KnownLessOrEqual(exprs.Const(0), offset) && exprs.KnownLess(offset, row.length);
}

namespace {

class DeadCode {
 public:
  explicit DeadCode(Kernel& kernel) : kernel_(kernel) {}

  void Run() {
    live_op_.assign(kernel_.ops.size(), false);
    live_value_.assign(kernel_.values.size(), false);
    for (ValueId v :
         {kernel_.roles.product_a, kernel_.roles.product_b, kernel_.roles.accumulator}) {
      if (v != kNone) live_value_[v] = true;
    }
    // Loops may carry values backwards, so until nothing changes.
    bool changed = true;
    while (changed) {
      changed_ = false;
      Mark(0);
      changed = changed_;
    }
    for (Block& block : kernel_.blocks) {
      std::erase_if(block.ops, [&](OpId id) { return !live_op_[id]; });
    }
  }

 private:
  bool Mark(BlockId block) {
    bool any = false;
    const std::vector<OpId>& ops = kernel_.blocks[block].ops;
    for (size_t i = ops.size(); i-- > 0;) {
      const Op& op = kernel_.ops[ops[i]];
      bool live = live_op_[ops[i]];
      switch (op.kind) {
        case OpKind::kStore:
        case OpKind::kScatter:
          live = true;
          break;
        case OpKind::kIndirect:
          live = true;
          break;
        case OpKind::kLoop: {
          for (ValueId v : op.results) live |= live_value_[v];
          live |= Mark(op.body);
          if (live && op.loop != LoopKind::kParallel) {
            OpId yield = kernel_.blocks[op.body].ops.back();
            SetLive(yield);
          }
          Mark(op.body);
          break;
        }
        case OpKind::kYield:
          break;
        default:
          for (ValueId v : op.results) live |= live_value_[v];
      }
      if (live) SetLive(ops[i]);
      any |= live && op.kind != OpKind::kYield;
    }
    return any;
  }

  void SetLive(OpId id) {
    if (!live_op_[id]) changed_ = true;
    live_op_[id] = true;
    for (ValueId v : kernel_.ops[id].operands) {
      if (!live_value_[v]) changed_ = true;
      live_value_[v] = true;
    }
  }

  Kernel& kernel_;
  std::vector<bool> live_op_, live_value_;
  bool changed_ = false;
};

// Ops of a block and of the loops inside it.
template <typename Visit>
void ForEachOp(const Kernel& kernel, BlockId block, const Visit& visit) {
  for (OpId id : kernel.blocks[block].ops) {
    visit(kernel.ops[id], id);
    if (kernel.ops[id].kind == OpKind::kLoop) ForEachOp(kernel, kernel.ops[id].body, visit);
  }
}

bool IsStore(const Op& op) { return op.kind == OpKind::kStore || op.kind == OpKind::kScatter; }

// Finds and joins one pair of neighbouring loops.
class SiblingMerger {
 public:
  SiblingMerger(Function& function, uint32_t index)
      : function_(function), kernel_(function.kernels[index]) {}

  std::optional<Kernel> TryOnce() {
    if (kernel_.template_kind != TemplateKind::kNone) return std::nullopt;
    for (BlockId block = 0; block < kernel_.blocks.size(); ++block) {
      std::vector<OpId> ops = kernel_.blocks[block].ops;
      for (size_t x = 0; x < ops.size(); ++x) {
        if (!IsLoop(ops[x])) continue;
        for (size_t y = x + 1; y < ops.size(); ++y) {
          const Op& between = kernel_.ops[ops[y]];
          if (!IsLoop(ops[y])) {
            if (IsStore(between) || between.kind == OpKind::kIndirect ||
                between.kind == OpKind::kLoop)
              break;
            continue;
          }
          if (std::optional<Kernel> merged = TryPair(block, x, y)) return merged;
          break;
        }
      }
    }
    return std::nullopt;
  }

 private:
  bool IsLoop(OpId id) const {
    const Op& op = kernel_.ops[id];
    return op.kind == OpKind::kLoop && op.loop != LoopKind::kSequential;
  }

  std::optional<Kernel> TryPair(BlockId block, size_t x, size_t y) {
    const std::vector<OpId>& ops = kernel_.blocks[block].ops;
    const Op& first = kernel_.ops[ops[x]];
    const Op& second = kernel_.ops[ops[y]];
    if (first.extent != second.extent) return std::nullopt;
    // What the first defines and writes; values between that depend on it wait until after the
    // loops.
    std::set<ValueId> tainted(first.results.begin(), first.results.end());
    std::map<BufferId, std::vector<const Op*>> writes;
    std::set<BufferId> reads_first, reads_second, writes_second;
    ForEachOp(kernel_, first.body, [&](const Op& op, OpId) {
      if (IsStore(op)) writes[op.buffer].push_back(&op);
      if (op.kind == OpKind::kLoad) reads_first.insert(op.buffer);
    });
    ForEachOp(kernel_, second.body, [&](const Op& op, OpId) {
      if (IsStore(op)) writes_second.insert(op.buffer);
      if (op.kind == OpKind::kLoad) reads_second.insert(op.buffer);
    });
    std::set<OpId> deferred;
    for (size_t i = x + 1; i < y; ++i) {
      const Op& op = kernel_.ops[ops[i]];
      bool depends = op.kind == OpKind::kLoad && writes.contains(op.buffer);
      for (ValueId v : op.operands) depends |= tainted.contains(v);
      if (!depends) continue;
      deferred.insert(ops[i]);
      tainted.insert(op.results.begin(), op.results.end());
    }
    bool is_legal = true, shares = false;
    ForEachOp(kernel_, second.body, [&](const Op& op, OpId) {
      for (ValueId v : op.operands) is_legal &= !tainted.contains(v);
    });
    for (BufferId buffer : reads_second)
      shares |= reads_first.contains(buffer) || writes.contains(buffer);
    for (BufferId buffer : writes_second) {
      is_legal &= !writes.contains(buffer) && !reads_first.contains(buffer);
    }
    if (!is_legal || !shares) return std::nullopt;

    KernelBuilder builder(function_, kernel_.name);
    KernelCloner cloner(kernel_, builder);
    Target target{block, ops[x], ops[y], deferred, &writes, {}, true};
    Rebuild(cloner, builder, 0, target);
    if (!target.is_legal) return std::nullopt;
    Kernel merged = builder.Finish();
    merged.nodes = kernel_.nodes;
    merged.ordered_reductions = kernel_.ordered_reductions;
    return merged;
  }

  struct Target {
    BlockId block;
    OpId first, second;
    std::set<OpId> deferred;
    const std::map<BufferId, std::vector<const Op*>>* writes;
    std::map<BufferId, std::pair<Expr, ValueId>> stored;  // in this iteration
    bool is_legal;
  };

  bool Contains(BlockId block, BlockId target) const {
    if (block == target) return true;
    for (OpId id : kernel_.blocks[block].ops) {
      if (kernel_.ops[id].kind == OpKind::kLoop && Contains(kernel_.ops[id].body, target))
        return true;
    }
    return false;
  }

  void Rebuild(KernelCloner& cloner, KernelBuilder& builder, BlockId block, Target& target) {
    for (OpId id : kernel_.blocks[block].ops) {
      const Op& op = kernel_.ops[id];
      if (block == target.block) {
        if (id == target.first || target.deferred.contains(id)) continue;
        if (id == target.second) {
          Both(cloner, builder, target);
          for (OpId late : kernel_.blocks[block].ops) {
            if (target.deferred.contains(late)) cloner.One(late);
          }
          continue;
        }
      }
      if (op.kind == OpKind::kLoop && Contains(op.body, target.block)) {
        cloner.OpenLoop(op);
        Rebuild(cloner, builder, op.body, target);
        cloner.CloseLoop(op);
      } else {
        cloner.One(id);
      }
    }
  }

  void Both(KernelCloner& cloner, KernelBuilder& builder, Target& target) {
    const Op& first = kernel_.ops[target.first];
    const Op& second = kernel_.ops[target.second];
    bool reduces = first.loop == LoopKind::kReduce || second.loop == LoopKind::kReduce;
    std::vector<ReduceKind> kinds = first.reduces;
    kinds.insert(kinds.end(), second.reduces.begin(), second.reduces.end());
    Expr variable = builder.BeginLoop(reduces ? LoopKind::kReduce : LoopKind::kParallel,
                                      builder.exprs().SymbolName(first.symbol),
                                      cloner.Rename(first.extent), kinds);
    int depth = builder.depth();
    cloner.symbols.emplace_back(first.symbol, variable);
    cloner.symbols.emplace_back(second.symbol, variable);
    cloner.replace = [&](const Op& op) -> std::optional<ValueId> {
      if (IsStore(op)) {
        bool is_plain =
            op.kind == OpKind::kStore && op.operands.size() == 1 && builder.depth() == depth;
        if (is_plain && target.writes->at(op.buffer).size() == 1) {
          target.stored[op.buffer] = {op.index, op.operands[0]};
        }
      }
      return std::nullopt;
    };
    cloner.Block(first.body);
    cloner.replace = [&](const Op& op) -> std::optional<ValueId> {
      if (op.kind != OpKind::kLoad || !target.writes->contains(op.buffer)) return std::nullopt;
      auto it = target.stored.find(op.buffer);
      if (it == target.stored.end() || it->second.first != op.index) {
        target.is_legal = false;
        return std::nullopt;
      }
      if (op.operands.empty()) return it->second.second;
      return builder.Scalar(kernel::Opcode::kSelect,
                            {op.operands[0], it->second.second, op.operands[1]});
    };
    cloner.Block(second.body);
    cloner.replace = nullptr;
    std::vector<ValueId> yields;
    for (const Op* loop : {&first, &second}) {
      if (loop->loop != LoopKind::kReduce) continue;
      for (ValueId v : kernel_.ops[kernel_.blocks[loop->body].ops.back()].operands) {
        yields.push_back(cloner.values.at(v));
      }
    }
    std::vector<ValueId> results = builder.EndLoop(yields);
    size_t next = 0;
    for (const Op* loop : {&first, &second}) {
      for (ValueId v : loop->results) cloner.values[v] = results[next++];
    }
  }

  Function& function_;
  const Kernel& kernel_;
};

}  // namespace

std::set<BufferId> LoadsOf(const Kernel& kernel) {
  std::set<BufferId> loads;
  ForEachOp(kernel, 0, [&](const Op& op, OpId) {
    if (op.kind == OpKind::kLoad) loads.insert(op.buffer);
  });
  return loads;
}

void DropUnreadStores(Function& function) {
  std::set<BufferId> read;
  for (const Kernel& kernel : function.kernels) read.merge(LoadsOf(kernel));
  const auto is_read = [&](BufferId buffer) { return read.contains(buffer); };
  for (Kernel& kernel : function.kernels) DropUnreadStores(function, kernel, is_read);
}

bool DropUnreadStores(const Function& function, Kernel& kernel,
                      const std::function<bool(BufferId)>& is_read) {
  bool dropped = false;
  for (Block& block : kernel.blocks) {
    dropped |= std::erase_if(block.ops, [&](OpId id) {
                 const Op& op = kernel.ops[id];
                 if (!IsStore(op) || is_read(op.buffer)) return false;
                 BufferRole role = function.buffers[op.buffer].role;
                 return role == BufferRole::kTemp || role == BufferRole::kLocal;
               }) > 0;
  }
  if (dropped) DeadCode(kernel).Run();
  return dropped;
}

void MergeSiblingLoops(Function& function) {
  for (uint32_t k = 0; k < function.kernels.size(); ++k) {
    for (int round = 0; round < 32; ++round) {
      std::optional<Kernel> merged = SiblingMerger(function, k).TryOnce();
      if (!merged) break;
      function.kernels[k] = std::move(*merged);
    }
  }
  DropUnreadStores(function);
}

void Localize(Function& function, int64_t max_local_bytes) {
  ExprArena& exprs = *function.exprs;
  std::map<BufferId, std::set<uint32_t>> users;
  for (uint32_t k = 0; k < function.kernels.size(); ++k) {
    ForEachOp(function.kernels[k], 0, [&](const Op& op, OpId) {
      if (op.buffer != kNone) users[op.buffer].insert(k);
    });
  }
  for (uint32_t k = 0; k < function.kernels.size(); ++k) {
    Kernel& kernel = function.kernels[k];
    int64_t local_bytes = 0;
    // The loops around everything are the iteration that a local buffer lives in.
    std::set<Expr> shared, inner;
    BlockId block = 0;
    while (kernel.blocks[block].ops.size() == 1) {
      const Op& op = kernel.ops[kernel.blocks[block].ops[0]];
      if (op.kind != OpKind::kLoop || op.loop != LoopKind::kParallel) break;
      shared.insert(op.symbol);
      block = op.body;
    }
    std::map<BufferId, std::vector<OpId>> stores, loads;
    ForEachOp(kernel, 0, [&](const Op& op, OpId id) {
      if (op.kind == OpKind::kLoop && !shared.contains(op.symbol)) inner.insert(op.symbol);
      if (IsStore(op)) stores[op.buffer].push_back(id);
      if (op.kind == OpKind::kLoad) loads[op.buffer].push_back(id);
    });
    for (auto& [buffer, ids] : stores) {
      Buffer& b = function.buffers[buffer];
      if (b.role != BufferRole::kTemp || users[buffer].size() != 1 || ids.size() != 1) continue;
      Op& store = kernel.ops[ids[0]];
      if (store.kind != OpKind::kStore || store.operands.size() != 1) continue;
      std::optional<RowAccess> row = RowOf(exprs, store.index, inner);
      if (!row) continue;
      int64_t length = exprs.RangeOf(row->length).hi;
      int64_t element_bytes = BitWidth(b.dtype) / 8;
      // The rows of attention never go to memory as long as their size is known; its schedule cuts
      // what is large.
      const bool is_attention = kernel.template_kind == TemplateKind::kAttention &&
                                exprs.AsConst(row->length).has_value();
      if (!is_attention &&
          (length <= 0 || length > (max_local_bytes - local_bytes) / element_bytes)) {
        continue;
      }
      bool reads_row = true;
      for (OpId load : loads[buffer])
        reads_row &= ReadsRow(exprs, kernel.ops[load].index, *row, shared);
      if (!reads_row) continue;
      if (!is_attention) local_bytes += length * element_bytes;
      store.index = exprs.Sub(store.index, row->base);
      for (OpId load : loads[buffer])
        kernel.ops[load].index = exprs.Sub(kernel.ops[load].index, row->base);
      b.role = BufferRole::kLocal;
      b.kernel = k;
      b.elements = exprs.Const(length);
    }
  }
  // Drop temporaries that nothing uses any more; inputs, outputs and constants keep their place.
  std::vector<BufferId> moved(function.buffers.size(), kNone);
  std::vector<Buffer> kept;
  for (BufferId b = 0; b < function.buffers.size(); ++b) {
    BufferRole role = function.buffers[b].role;
    bool is_needed = role == BufferRole::kInput || role == BufferRole::kOutput || users.contains(b);
    if (!is_needed) continue;
    moved[b] = static_cast<BufferId>(kept.size());
    kept.push_back(std::move(function.buffers[b]));
  }
  function.buffers = std::move(kept);
  for (Kernel& kernel : function.kernels) {
    for (Op& op : kernel.ops) {
      if (op.buffer != kNone) op.buffer = moved[op.buffer];
    }
  }
}

}  // namespace halyard::loop
