// SPDX-License-Identifier: Apache-2.0
// The transpose schedule: where some operands are contiguous along one outer loop and the results
// along another (transposes, fused or not), a workgroup reads a square of those two loops in the
// order of the operands into workgroup memory and computes it in the order of the results. Rows of
// the square are one element longer than its side, which spreads columns over the banks.
#pragma once

#include <optional>
#include <vector>

#include "base/status.h"
#include "compiler/schedule/common/nest.h"
#include "compiler/schedule/common/pieces.h"
#include "compiler/schedule/gpu/grid.h"
#include "compiler/schedule/schedule.h"

namespace halyard::schedule {

struct TransposePlan {
  int read = -1;                  // the loop along which the staged loads are contiguous
  int write = -1;                 // the loop along which the stores are
  std::vector<int> rest;          // the other loops of the chain
  std::vector<loop::OpId> loads;  // go through workgroup memory
};

// Nothing where no transposition is in the piece.
std::optional<TransposePlan> PlanTranspose(const Nest& nest, const Piece& piece);

// Bytes of workgroup memory of a tile.
int64_t TileBytes(const Nest& nest, const TransposePlan& plan, int64_t side);

// Writes the body of one kernel; the caller makes the dispatch.
Result<Grid> EmitTranspose(const Nest& nest, const Piece& piece, const TransposePlan& plan,
                           const ScheduleRecord& record, const Target& target, Writer& writer,
                           std::vector<Binding>* bindings, std::vector<Expr>* scalars);

}  // namespace halyard::schedule
