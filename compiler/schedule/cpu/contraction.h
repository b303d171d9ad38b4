// SPDX-License-Identifier: Apache-2.0
// The contraction schedule: sums of products as register tiles. One side of a tile is broadcast
// (rows), the other fills vectors; `swap` in the record exchanges them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "compiler/loop/loop_ir.h"
#include "compiler/schedule/common/contraction_problem.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

// Best first, with the model's cycles; empty where the schedule does not apply.
std::vector<std::pair<ScheduleRecord, double>> RankContraction(const loop::Function& function,
                                                               const loop::Kernel& kernel,
                                                               const Problem& problem,
                                                               const Target& target);

Result<ScheduledKernel> BuildContraction(const loop::Function& function, uint32_t kernel,
                                         const ScheduleRecord& record, const Target& target);

// Panels of a constant operand: element (batch, v, k) at ((batch * panels + v / width) * K + k) *
// width + v % width, zero beyond the last v.
struct PanelPacking {
  DType dtype = DType::kInvalid;
  int64_t width = 0;
  int64_t offset = 0;  // of element 0 in the source, in elements
  std::vector<std::pair<int64_t, int64_t>> batch, v,
      k;  // extent, stride in elements; outermost first
};
std::string FormatPacking(const PanelPacking& packing);
Result<PanelPacking> ParsePacking(std::string_view text);
Result<int64_t> PackedBytes(const PanelPacking& packing);
// How `factor` would be packed; nothing unless it is a load of a constant with constant strides.
std::optional<PanelPacking> PackingOf(const loop::Function& function, const loop::Kernel& kernel,
                                      const Problem& problem, bool swap, int64_t width);

}  // namespace halyard::schedule
