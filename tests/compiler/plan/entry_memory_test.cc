// SPDX-License-Identifier: Apache-2.0
// Memory and waits of entries with many blocks: random orders, judged by a search through the
// waits.
#include "compiler/plan/entry_memory.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "compiler/plan/block_order.h"

namespace halyard::plan {
namespace {

using program::Block;
using program::Entry;

// Every block that is done before `block` starts.
std::set<uint32_t> Before(const std::vector<Block>& blocks, uint32_t block) {
  std::set<uint32_t> found;
  std::vector<uint32_t> stack(blocks[block].waits);
  while (!stack.empty()) {
    const uint32_t top = stack.back();
    stack.pop_back();
    if (!found.insert(top).second) continue;
    stack.insert(stack.end(), blocks[top].waits.begin(), blocks[top].waits.end());
  }
  return found;
}

std::vector<Block> RandomBlocks(std::mt19937& random, uint32_t count) {
  std::vector<Block> blocks(count);
  for (uint32_t b = 1; b < count; ++b) {
    for (uint32_t i = random() % 4; i > 0; --i) blocks[b].waits.push_back(random() % b);
  }
  return blocks;
}

TEST(BlockOrderTest, WaitsThatOthersImplyGoAndNoOtherOnes) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::vector<Block> blocks = RandomBlocks(random, 1 + random() % 80);
    std::vector<Block> reduced = blocks;
    const size_t removed = RemoveDominatedWaits(reduced);
    size_t before = 0, after = 0;
    const BlockOrder order(reduced);
    for (uint32_t b = 0; b < blocks.size(); ++b) {
      before += blocks[b].waits.size();
      after += reduced[b].waits.size();
      const std::set<uint32_t> wanted = Before(blocks, b);
      EXPECT_EQ(Before(reduced, b), wanted);
      for (uint32_t a = 0; a < blocks.size(); ++a) {
        EXPECT_EQ(order.Precedes(a, b), wanted.count(a) == 1);
      }
      // None is left that the rest implies.
      for (const uint32_t wait : reduced[b].waits) {
        for (const uint32_t other : reduced[b].waits) {
          EXPECT_EQ(Before(reduced, other).count(wait), 0u);
        }
      }
    }
    EXPECT_EQ(removed, before - after);
  }
}

TEST(EntryMemoryTest, RangesShareBytesOnlyWhereTheirUsesAreOrdered) {
  std::mt19937 random(2);
  size_t shared = 0;
  for (int round = 0; round < 200; ++round) {
    ExprArena exprs;
    Entry entry;
    entry.blocks = RandomBlocks(random, 1 + random() % 12);
    entry.arenas.resize(1 + random() % 3);
    std::vector<Expr> sizes;
    const uint32_t ranges = 1 + random() % 20;
    for (uint32_t i = 0; i < ranges; ++i) {
      program::BufferRange range;
      range.kind = program::StorageKind::kArena;
      range.index = random() % entry.arenas.size();
      const int64_t size = 64 * (1 + random() % 5);
      range.offset = program::SizeExpr::Constant(0);
      range.size = program::SizeExpr::Constant(size);
      entry.buffers.push_back(range);
      sizes.push_back(exprs.Const(size));
    }
    std::vector<std::vector<CommandUses>> uses(entry.blocks.size());
    std::vector<std::set<uint32_t>> blocks_of(ranges);
    for (uint32_t b = 0; b < entry.blocks.size(); ++b) {
      const bool brings = random() % 3 == 0;
      for (uint32_t c = random() % 4; c > 0; --c) {
        entry.blocks[b].commands.emplace_back().kind =
            brings ? program::CommandKind::kTransfer : program::CommandKind::kDispatch;
        CommandUses& command = uses[b].emplace_back();
        for (uint32_t u = 1 + random() % 3; u > 0; --u) {
          const uint32_t range = random() % ranges;
          command.push_back({range, true, random() % 2 == 0});
          blocks_of[range].insert(b);
        }
      }
    }
    const auto summaries = PlaceEntryMemory(exprs, {}, sizes, uses, 64, &entry);
    ASSERT_TRUE(summaries.ok()) << summaries.status().ToString();
    ASSERT_EQ(summaries->size(), entry.arenas.size());
    const auto all_before = [&](uint32_t x, uint32_t y) {
      for (const uint32_t later : blocks_of[y]) {
        const std::set<uint32_t> before = Before(entry.blocks, later);
        for (const uint32_t earlier : blocks_of[x]) {
          // Within one block the commands' own order holds; a block of transfers has none.
          const bool in_block =
              earlier == later && !entry.blocks[later].commands.empty() &&
              entry.blocks[later].commands[0].kind != program::CommandKind::kTransfer;
          if (!in_block && !before.count(earlier)) return false;
        }
      }
      return true;
    };
    for (uint32_t x = 0; x < ranges; ++x) {
      if (blocks_of[x].empty()) {
        EXPECT_EQ(entry.buffers[x].size.AsConstant(), 0);
        continue;
      }
      const int64_t x0 = *entry.buffers[x].offset.AsConstant();
      const int64_t x1 = x0 + *entry.buffers[x].size.AsConstant();
      EXPECT_LE(x1, *entry.arenas[entry.buffers[x].index].size_bytes.AsConstant());
      for (uint32_t y = 0; y < x; ++y) {
        if (blocks_of[y].empty() || entry.buffers[x].index != entry.buffers[y].index) continue;
        const int64_t y0 = *entry.buffers[y].offset.AsConstant();
        const int64_t y1 = y0 + *entry.buffers[y].size.AsConstant();
        if (x1 <= y0 || y1 <= x0) continue;
        ++shared;
        EXPECT_TRUE(all_before(x, y) || all_before(y, x)) << "round " << round;
      }
    }
  }
  EXPECT_GT(shared, 100u);  // or nothing was tested
}

// Counters of several commands, cleared by one command before them.
TEST(EntryMemoryTest, PartsMoveWithTheWholeAndOrderOnlyWhatTheyShare) {
  ExprArena exprs;
  Entry entry;
  entry.blocks.resize(1);
  entry.arenas.resize(1);
  std::vector<Expr> sizes;
  for (const int64_t bytes : {256, 128, 64, 64}) {  // a value, the whole, its parts
    program::BufferRange range;
    range.kind = program::StorageKind::kArena;
    range.size = program::SizeExpr::Constant(bytes);
    entry.buffers.push_back(range);
    sizes.push_back(exprs.Const(bytes));
  }
  entry.blocks[0].commands.resize(4);
  const std::vector<std::vector<CommandUses>> uses = {{{{1, false, true}},
                                                       {{2, true, true}, {0, false, true}},
                                                       {{3, true, true}},
                                                       {{2, true, true}, {0, true, false}}}};
  const RangePart parts[] = {{2, 1, exprs.Const(0)}, {3, 1, exprs.Const(64)}};
  const auto plan = PlaceEntryMemory(exprs, {}, sizes, uses, 64, &entry, parts);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  const auto offset = [&](size_t range) { return *entry.buffers[range].offset.AsConstant(); };
  EXPECT_EQ(offset(2), offset(1));
  EXPECT_EQ(offset(3), offset(1) + 64);
  EXPECT_TRUE(offset(0) >= offset(1) + 128 || offset(1) >= offset(0) + 256);
  EXPECT_EQ(*entry.arenas[0].size_bytes.AsConstant(), 384);
  EXPECT_EQ(*entry.buffers[3].size.AsConstant(), 64);
  const std::vector<program::Command>& commands = entry.blocks[0].commands;
  EXPECT_EQ(commands[1].after, std::vector<uint32_t>{0});
  EXPECT_EQ(commands[2].after, std::vector<uint32_t>{0});
  EXPECT_EQ(commands[3].after, std::vector<uint32_t>{1});
}

}  // namespace
}  // namespace halyard::plan
