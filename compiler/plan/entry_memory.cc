// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/entry_memory.h"

#include <algorithm>
#include <set>

#include "compiler/plan/arena_plan.h"
#include "compiler/plan/block_order.h"
#include "compiler/plan/size_convert.h"

namespace halyard::plan {
namespace {

using program::StorageKind;

class Placer {
 public:
  Placer(ExprArena& exprs, std::span<const Expr> symbols, std::span<const Expr> sizes,
         const std::vector<std::vector<CommandUses>>& uses, std::span<const RangePart> parts,
         program::Entry* entry)
      : exprs_(exprs),
        symbols_(symbols),
        sizes_(sizes),
        uses_(uses),
        parts_(parts),
        entry_(*entry),
        order_(entry->blocks) {
    for (uint32_t i = 0; i < entry_.buffers.size(); ++i) whole_of_.push_back(i);
    for (const RangePart& part : parts_) whole_of_[part.range] = part.whole;
  }

  Result<std::vector<ArenaSummary>> Run(int64_t alignment) {
    FindLives();
    std::vector<ArenaSummary> summaries;
    for (uint32_t arena = 0; arena < entry_.arenas.size(); ++arena) {
      std::vector<SymbolicRange> live;
      std::vector<uint32_t> owners;
      for (const uint32_t range : in_order_) {
        if (entry_.buffers[range].index != arena) continue;
        const Life& life = lives_[range];
        live.push_back({sizes_[range], life.first, LastStep(arena, life)});
        owners.push_back(range);
      }
      HY_ASSIGN(const ArenaPlan plan, PlanArena(exprs_, live, alignment));
      for (size_t i = 0; i < owners.size(); ++i) {
        HY_ASSIGN(entry_.buffers[owners[i]].offset, ConvertSize(exprs_, plan.offsets[i], symbols_));
        for (const RangePart& part : parts_) {
          if (part.whole != owners[i]) continue;
          HY_ASSIGN(entry_.buffers[part.range].offset,
                    ConvertSize(exprs_, exprs_.Add(plan.offsets[i], part.offset), symbols_));
        }
      }
      HY_ASSIGN(entry_.arenas[arena].size_bytes, ConvertSize(exprs_, plan.arena_bytes, symbols_));
      summaries.push_back({plan.arena_bytes, plan.lower_bound_bytes, owners.size()});
    }
    for (size_t b = 0; b < uses_.size(); ++b) OrderCommands(b);
    return summaries;
  }

 private:
  struct Life {
    int64_t first = -1, last = -1;  // steps: commands in the order of the blocks
    std::vector<uint32_t> blocks;   // that use it, ascending
  };

  bool IsInArena(uint32_t range) const { return entry_.buffers[range].kind == StorageKind::kArena; }
  bool HoldsTransfers(size_t block) const {
    const auto& commands = entry_.blocks[block].commands;
    return !commands.empty() && commands[0].kind == program::CommandKind::kTransfer;
  }

  void FindLives() {
    lives_.resize(entry_.buffers.size());
    blocks_of_arena_.resize(entry_.arenas.size());
    int64_t step = 0;
    for (uint32_t b = 0; b < uses_.size(); ++b) {
      const int64_t begin = step, end = step + static_cast<int64_t>(uses_[b].size());
      for (const CommandUses& command : uses_[b]) {
        for (const RangeUse& use : command) {
          if (!IsInArena(use.range)) continue;
          const uint32_t range = whole_of_[use.range];
          Life& life = lives_[range];
          // The transfers of a block run in any order.
          const bool is_any = HoldsTransfers(b);
          if (life.blocks.empty()) {
            in_order_.push_back(range);
            life.first = is_any ? begin : step;
          }
          life.last = is_any ? end - 1 : step;
          if (life.blocks.empty() || life.blocks.back() != b) life.blocks.push_back(b);
          auto& of_arena = blocks_of_arena_[entry_.buffers[use.range].index];
          if (of_arena.empty() || of_arena.back() != b) of_arena.push_back(b);
        }
        ++step;
      }
      last_step_of_block_.push_back(step - 1);
    }
    // Memory that nobody uses takes no space.
    for (uint32_t i = 0; i < entry_.buffers.size(); ++i) {
      if (IsInArena(i) && lives_[whole_of_[i]].blocks.empty()) {
        entry_.buffers[i].size = program::SizeExpr::Constant(0);
      }
    }
  }

  // A later block that may run before the last use is over must not reuse the bytes: the life ends
  // with the last such block.
  int64_t LastStep(uint32_t arena, const Life& life) const {
    int64_t last = life.last;
    const std::vector<uint32_t>& blocks = blocks_of_arena_[arena];
    for (auto it = std::upper_bound(blocks.begin(), blocks.end(), life.blocks.front());
         it != blocks.end(); ++it) {
      const uint32_t other = *it;
      const auto is_over = [&](uint32_t user) {
        return user == other || order_.Precedes(user, other);
      };
      if (!std::all_of(life.blocks.begin(), life.blocks.end(), is_over)) {
        last = std::max(last, last_step_of_block_[other]);
      }
    }
    return last;
  }

  // Arena ranges overlap when they are equal or may share bytes.
  bool Overlap(uint32_t a, uint32_t b) const {
    if (a == b) return true;
    const program::BufferRange& x = entry_.buffers[a];
    const program::BufferRange& y = entry_.buffers[b];
    if (!IsInArena(a) || !IsInArena(b) || x.index != y.index) return false;
    const auto x0 = x.offset.AsConstant(), y0 = y.offset.AsConstant();
    const auto xs = x.size.AsConstant(), ys = y.size.AsConstant();
    if (!x0 || !y0 || !xs || !ys) return true;  // symbolic: assume the worst
    return *x0 < *y0 + *ys && *y0 < *x0 + *xs;
  }

  bool Conflict(const CommandUses& a, const CommandUses& b) const {
    for (const RangeUse& use : a) {
      for (const RangeUse& earlier : b) {
        if ((use.writes || earlier.writes) && Overlap(use.range, earlier.range)) return true;
      }
    }
    return false;
  }

  // Commands of a block wait for the earlier ones that they conflict with, but for those that they
  // wait for through others.
  void OrderCommands(size_t block) {
    std::vector<program::Command>& commands = entry_.blocks[block].commands;
    for (size_t i = 0; i < commands.size(); ++i) {
      std::set<uint32_t> covered;
      for (size_t j = i; j-- > 0;) {
        if (covered.count(static_cast<uint32_t>(j))) continue;
        if (!Conflict(uses_[block][i], uses_[block][j])) continue;
        commands[i].after.push_back(static_cast<uint32_t>(j));
        std::vector<uint32_t> stack{static_cast<uint32_t>(j)};
        while (!stack.empty()) {
          const uint32_t top = stack.back();
          stack.pop_back();
          for (const uint32_t before : commands[top].after) {
            if (covered.insert(before).second) stack.push_back(before);
          }
        }
      }
      std::sort(commands[i].after.begin(), commands[i].after.end());
    }
  }

  ExprArena& exprs_;
  const std::span<const Expr> symbols_, sizes_;
  const std::vector<std::vector<CommandUses>>& uses_;
  const std::span<const RangePart> parts_;
  program::Entry& entry_;
  const BlockOrder order_;
  std::vector<uint32_t> whole_of_;  // per range; itself where it is no part
  std::vector<Life> lives_;         // per range
  std::vector<uint32_t> in_order_;  // arena ranges by first use
  std::vector<std::vector<uint32_t>> blocks_of_arena_;
  std::vector<int64_t> last_step_of_block_;
};

}  // namespace

Result<std::vector<ArenaSummary>> PlaceEntryMemory(
    ExprArena& exprs, std::span<const Expr> symbols, std::span<const Expr> sizes,
    const std::vector<std::vector<CommandUses>>& uses, int64_t alignment, program::Entry* entry,
    std::span<const RangePart> parts) {
  return Placer(exprs, symbols, sizes, uses, parts, entry).Run(alignment);
}

}  // namespace halyard::plan
