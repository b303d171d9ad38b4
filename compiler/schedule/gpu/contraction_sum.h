// SPDX-License-Identifier: Apache-2.0
// The parts of a contraction whose k is split: a workspace [part][batch][row][column] of the sum's
// type, and the dispatch that adds the parts in order and runs the epilogue.
#pragma once

#include <cstdint>

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

}  // namespace halyard::schedule
