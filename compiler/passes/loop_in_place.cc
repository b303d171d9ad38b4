// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/loop_in_place.h"

#include <algorithm>
#include <optional>

namespace halyard::loop {
namespace {

// An access with the block it stands in and its place in the order of the kernel's accesses.
struct Access {
  const Op* op = nullptr;
  BlockId block = kNone;
  uint32_t position = 0;
};

// What one kernel does with one buffer.
struct Uses {
  std::vector<Access> loads, stores;
  bool scatters = false;
};

// All accesses of a kernel by buffer, and the variables of the loops around each block.
class KernelUses {
 public:
  KernelUses(const Kernel& kernel, size_t buffer_count)
      : kernel_(kernel), uses_(buffer_count), loops_(kernel.blocks.size()) {
    Walk(0, {});
  }
  const Uses& Of(BufferId buffer) const { return uses_[buffer]; }
  bool Touches(BufferId buffer) const {
    const Uses& uses = uses_[buffer];
    return !uses.loads.empty() || !uses.stores.empty() || uses.scatters;
  }
  // After the accesses of `from` became accesses of `to`.
  void Rename(BufferId from, BufferId to) {
    Uses& target = uses_[to];
    Uses& source = uses_[from];
    target.loads.insert(target.loads.end(), source.loads.begin(), source.loads.end());
    target.stores.insert(target.stores.end(), source.stores.begin(), source.stores.end());
    target.scatters = target.scatters || source.scatters;
    source = {};
  }
  const std::vector<Expr>& LoopsAround(BlockId block) const { return loops_[block]; }

 private:
  void Walk(BlockId block, std::vector<Expr> loops) {
    loops_[block] = loops;
    for (const OpId id : kernel_.blocks[block].ops) {
      const Op& op = kernel_.ops[id];
      switch (op.kind) {
        case OpKind::kLoad:
          uses_[op.buffer].loads.push_back({&op, block, position_++});
          break;
        case OpKind::kStore:
          uses_[op.buffer].stores.push_back({&op, block, position_++});
          break;
        case OpKind::kScatter:
          uses_[op.buffer].scatters = true;
          break;
        case OpKind::kLoop:
          loops.push_back(op.symbol);
          Walk(op.body, loops);
          loops.pop_back();
          break;
        default:
          break;
      }
    }
  }

  const Kernel& kernel_;
  std::vector<Uses> uses_;
  std::vector<std::vector<Expr>> loops_;
  uint32_t position_ = 0;
};

class InPlace {
 public:
  InPlace(Function& function, std::vector<InPlaceRecord>* records)
      : function_(function), records_(records) {}

  void Run() {
    for (const Kernel& kernel : function_.kernels) {
      uses_.emplace_back(kernel, function_.buffers.size());
    }
    for (uint32_t k = 0; k < function_.kernels.size(); ++k) {
      for (BufferId value = 0; value < function_.buffers.size(); ++value) {
        if (const auto place = FindPlace(k, value)) Take(k, value, *place);
      }
    }
  }

 private:
  // The temporary whose elements `value`, made by kernel `k`, may replace one by one.
  std::optional<BufferId> FindPlace(uint32_t k, BufferId value) const {
    const Buffer& made = function_.buffers[value];
    if (made.role != BufferRole::kTemp) return std::nullopt;
    const Uses& here = uses_[k].Of(value);
    if (here.stores.size() != 1 || !here.loads.empty() || here.scatters) return std::nullopt;
    const Access store = here.stores[0];
    if (store.op->operands.size() > 1) return std::nullopt;  // masked: not every element
    // Each iteration has an element of its own.
    const std::vector<Expr> symbols = function_.exprs->SymbolsOf(store.op->index);
    for (const Expr loop : uses_[k].LoopsAround(store.block)) {
      if (std::find(symbols.begin(), symbols.end(), loop) == symbols.end()) return std::nullopt;
    }
    for (uint32_t other = 0; other < uses_.size(); ++other) {
      const Uses& there = uses_[other].Of(value);
      if (other != k && (!there.stores.empty() || there.scatters)) return std::nullopt;
    }
    for (BufferId place = 0; place < function_.buffers.size(); ++place) {
      if (place != value && IsFreedBy(k, place, made, store)) return place;
    }
    return std::nullopt;
  }

  bool IsFreedBy(uint32_t k, BufferId place, const Buffer& made, const Access& store) const {
    const Buffer& old = function_.buffers[place];
    if (old.role != BufferRole::kTemp || old.dtype != made.dtype || old.elements != made.elements) {
      return false;
    }
    const Uses& here = uses_[k].Of(place);
    if (here.loads.empty() || !here.stores.empty() || here.scatters) return false;
    // What is read of the old value is read before it goes: a kernel with two results may read it
    // after the first of them.
    for (const Access& load : here.loads) {
      if (load.block != store.block || load.op->index != store.op->index) return false;
      if (load.position > store.position) return false;
    }
    for (uint32_t later = k + 1; later < uses_.size(); ++later) {
      if (uses_[later].Touches(place)) return false;
    }
    return true;
  }

  void Take(uint32_t k, BufferId value, BufferId place) {
    if (records_ != nullptr) {
      records_->push_back({function_.kernels[k].name, function_.buffers[value].name,
                           function_.buffers[place].name});
    }
    for (uint32_t later = k; later < function_.kernels.size(); ++later) {
      for (Op& op : function_.kernels[later].ops) {
        if (op.buffer == value) op.buffer = place;
      }
      uses_[later].Rename(value, place);
    }
  }

  Function& function_;
  std::vector<InPlaceRecord>* records_;
  std::vector<KernelUses> uses_;  // per kernel
};

}  // namespace

void WriteInPlace(Function& function, std::vector<InPlaceRecord>* records) {
  InPlace(function, records).Run();
}

}  // namespace halyard::loop
