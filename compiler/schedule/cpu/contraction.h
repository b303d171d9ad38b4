// SPDX-License-Identifier: Apache-2.0
// The contraction schedule: sums of products as register tiles. A Problem is a loop kernel read as
// C(batch, m, n) = sum over k of A(batch, m, k) * B(batch, n, k) with operand bodies and an
// epilogue; the roles follow from what each factor depends on. One side of a tile is broadcast
// (rows), the other fills vectors; `swap` in the record exchanges them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "compiler/loop/loop_ir.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

// The loops of one role, outermost first, flattened into one index.
struct Side {
  std::vector<std::pair<Expr, Expr>> digits;  // symbol, extent
  Expr flat;                                  // counts through all combinations
  Expr extent;                                // their number
};

// One factor of the product.
struct Factor {
  loop::ValueId value = loop::kNone;
  std::vector<loop::OpId> ops;    // what computes it, in order
  loop::OpId load = loop::kNone;  // when it is one unmasked load, at most converted after
  bool converted = false;
  Expr index;                      // of that load, over the flat symbols
  std::optional<Expr> k_stride;    // of index, where linear
  std::optional<Expr> own_stride;  // along m (A) or n (B)
};

struct Problem {
  Side batch, m, n, k;
  Factor a, b;
  loop::ValueId accumulator = loop::kNone;
  DType dtype = DType::kInvalid;                   // of the accumulator
  std::vector<loop::OpId> epilogue;                // every op outside the reduction, in order
  double epilogue_weight = 0;                      // arithmetic ops per element
  std::optional<Expr> out_stride_m, out_stride_n;  // of the first store
};

// Nothing where the kernel is not such a contraction; `why` says what stands in the way.
std::optional<Problem> ReadContraction(const loop::Function& function, const loop::Kernel& kernel,
                                       std::string* why);

// e over the flat symbols.
Expr FlatIndex(ExprArena& exprs, const Problem& problem, Expr e);

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
