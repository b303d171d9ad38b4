// SPDX-License-Identifier: Apache-2.0
// Loop limit: how many iterations the loops of one workitem make at most, for devices that end
// them after some number and go on behind them (GpuTarget::max_loop_iterations). What is counted is
// Kernel IR as the emitters write it: a loop tests at its start, so it makes one more iteration
// than its body has runs; workitems of a subgroup take both sides of a branch.
#pragma once

#include <optional>

#include "base/status.h"
#include "compiler/expr/expr.h"
#include "compiler/schedule/schedule.h"

namespace halyard::schedule {

// Of all loops of a workitem together, in the dispatch that makes most; over dimension symbols,
// never too low. Nothing where a loop's end is data. `exprs` is the arena of the kernel's function
// and gains expressions.
std::optional<Expr> MostLoopIterations(ExprArena& exprs, const ScheduledKernel& scheduled);

// UNIMPLEMENTED where the iterations certainly or, no symbol being involved, possibly exceed the
// target's limit. Where symbols decide, the program needs a guard (LoopGuard).
Status CheckLoopLimit(ExprArena& exprs, const ScheduledKernel& scheduled, const Target& target);

// What must be at least 0 for the kernel's loops to end where they should; nothing where that is
// known.
std::optional<Expr> LoopGuard(ExprArena& exprs, const ScheduledKernel& scheduled,
                              const Target& target);

}  // namespace halyard::schedule
