// SPDX-License-Identifier: Apache-2.0
// Contractions on a GPU: a workgroup computes one tile of C from tiles of both operands in
// workgroup memory, as register tiles of its workitems (ScheduleKind::kGpuTile) or with the matrix
// units (kGpuMatrix, and kGpuWgmma on compute capability 9.0). Operands pass through their bodies
// on the way into workgroup memory, the epilogue runs on vectors of C before they are stored. Where
// tiles are few and k is long, the parts of a split k go to a workspace and a second dispatch adds
// them in order.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "compiler/loop/loop_ir.h"
#include "compiler/schedule/common/contraction_problem.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

// Workgroup memory that a CUDA device takes for itself beside that of each workgroup.
inline constexpr int64_t kWorkgroupOverheadBytes = 1 << 10;

// How the workitems of a workgroup read one operand from global memory.
struct OperandAccess {
  bool along_k = false;  // neighbouring workitems and the lanes run along k, not along the side
  int lanes = 1;    // elements per access: consecutive in memory, aligned, never across an edge
  int64_t run = 1;  // consecutive elements along that direction, at least
};
OperandAccess AccessOf(const loop::Function& function, const loop::Kernel& kernel,
                       const Problem& problem, const Factor& factor, const Side& side);

// The value of `factor` that a matrix unit takes: f16, bf16 or int8 before its conversion to the
// type of the sum; nothing where the factor is wider.
std::optional<loop::ValueId> NarrowValue(const loop::Kernel& kernel, const Factor& factor);

// The shape that multiplies the problem's operands; nothing where the target has none.
std::optional<MatrixShape> MatrixShapeFor(const loop::Kernel& kernel, const Problem& problem,
                                          const Target& target);

// Best first, with the model's nanoseconds; empty where no such schedule applies.
std::vector<std::pair<ScheduleRecord, double>> RankGpuContraction(const loop::Function& function,
                                                                  const loop::Kernel& kernel,
                                                                  const Problem& problem,
                                                                  const Target& target);

// The best records of every contraction schedule of this folder, all of which build; empty where
// the kernel is no contraction that they cover.
std::vector<ScheduleRecord> EnumerateGpuContraction(const loop::Function& function, uint32_t kernel,
                                                    const Target& target);

// Of one tile schedule, or of kGpuVector (gemv.h).
Result<ScheduledKernel> BuildGpuContraction(const loop::Function& function, uint32_t kernel,
                                            const ScheduleRecord& record, const Target& target);

}  // namespace halyard::schedule
