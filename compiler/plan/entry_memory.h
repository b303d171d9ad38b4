// SPDX-License-Identifier: Apache-2.0
// Memory of a whole entry: gives every range of every arena its offset and orders the commands
// inside blocks accordingly. Lifetimes span the blocks of all queues: two ranges share bytes only
// where the waits between blocks put all uses of one before all uses of the other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "compiler/expr/expr.h"
#include "compiler/program/program.h"

namespace halyard::plan {

// What a command does with a range of Entry::buffers.
struct RangeUse {
  uint32_t range = 0;
  bool reads = false;
  bool writes = false;
};
using CommandUses = std::vector<RangeUse>;

// A range that lies in another one, `offset` bytes behind its start. The whole lives while one of
// its parts does; parts that share no bytes do not order the commands that use them.
struct RangePart {
  uint32_t range = 0, whole = 0;
  Expr offset;
};

// What became of one arena, for the records.
struct ArenaSummary {
  Expr arena_bytes;
  Expr lower_bound_bytes;
  size_t range_count = 0;
};

// `uses[b][c]`: of command c of block b, whose waits are final and name earlier blocks. `sizes`:
// bytes of each range. Fills the offsets of arena ranges, the sizes of arenas, and Command::after.
// Ranges that no command uses get size 0.
Result<std::vector<ArenaSummary>> PlaceEntryMemory(
    ExprArena& exprs, std::span<const Expr> symbols, std::span<const Expr> sizes,
    const std::vector<std::vector<CommandUses>>& uses, int64_t alignment, program::Entry* entry,
    std::span<const RangePart> parts = {});

}  // namespace halyard::plan
