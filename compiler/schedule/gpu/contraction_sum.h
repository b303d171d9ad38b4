// SPDX-License-Identifier: Apache-2.0
// The parts of a contraction whose k is split, added in their order whoever adds them. Two ways: a
// workspace [part][batch][row][column] of the sum's type and a second dispatch that adds and runs
// the epilogue; or, for fragments, a workspace [part][tile][subgroup][fragment] and a counter for
// each tile, whose last workgroup goes on with the sum.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "compiler/schedule/common/contraction_problem.h"
#include "compiler/schedule/common/emitter.h"
#include "compiler/schedule/common/writer.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

// kI32 where no index into the kernel's buffers, nor into 16 parts of its largest, passes it.
DType IndexDType(const loop::Function& function, const loop::Kernel& kernel);

Workspace PartialWorkspace(ExprArena& exprs, const Problem& problem, int64_t parts);
// The workspace as a parameter of the emitter's kernel.
kernel::BufferId AddPartial(Emitter& emitter, const Problem& problem, bool is_written);
// Of element (part, the batch that is bound, row, col).
kernel::ValueId PartialIndex(ExprArena& exprs, Emitter& emitter, Writer& writer,
                             const Problem& problem, bool swap, kernel::ValueId part,
                             kernel::ValueId row, kernel::ValueId col);

// Appends the second dispatch; the first one's workspace is workspaces[0].
Status AddSumOfParts(const loop::Function& function, const loop::Kernel& kernel,
                     const Problem& problem, const ScheduleRecord& record, int64_t parts,
                     const Target& target, ScheduledKernel& scheduled);

// Where the parts of one tile are joined.
struct PartsOfTile {
  kernel::BufferId parts = kernel::kNone, counters = kernel::kNone;
  kernel::ValueId tile = kernel::kNone,
                  tiles = kernel::kNone;  // its number, and how many there are
  kernel::ValueId part = kernel::kNone, subgroup = kernel::kNone;
  int64_t split = 1, subgroups = 1;
};
// The workspaces of all tiles, and their parameters.
void AddJoin(ExprArena& exprs, Emitter& emitter, const Problem& problem, Expr tiles,
             const GpuTile& tile, ScheduledKernel& scheduled, PartsOfTile* place);
// Stores the fragments of this part and begins an If that only the tile's last workgroup takes;
// returns the sums of all parts there.
std::vector<kernel::ValueId> BeginJoined(Writer& writer, const PartsOfTile& place,
                                         std::span<const kernel::ValueId> sums);

}  // namespace halyard::schedule
