// SPDX-License-Identifier: Apache-2.0
// The arithmetic of register tiles: a workitem's part of rows * columns, both k-major in workgroup
// memory. Its rows are groups of row_lanes neighbours, m / groups apart; its columns likewise, so
// that neighbouring workitems read neighbouring vectors.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/schedule/common/writer.h"

namespace halyard::schedule {

struct RegisterTile {
  int64_t m = 0, n = 0, depth = 0;  // of the workgroup's tile
  int64_t row_groups = 1, col_groups = 1;
  int row_lanes = 1, col_lanes = 1;
  DType dtype = DType::kInvalid;
  kernel::BufferId rows = kernel::kNone, cols = kernel::kNone;
  int64_t row_stride = 0, col_stride = 0;  // elements from one k to the next

  size_t sum_count() const { return static_cast<size_t>(row_groups * row_lanes * col_groups); }
  // Of row i of group g and column group c.
  size_t SumAt(int64_t g, int64_t i, int64_t c) const {
    return static_cast<size_t>((g * row_lanes + i) * col_groups + c);
  }
};

// sums += rows * columns over `depth` steps of k; row_at and col_at: the workitem's first element
// at the first k.
void MultiplyTile(Writer& writer, const RegisterTile& tile, kernel::ValueId row_at,
                  kernel::ValueId col_at, std::vector<kernel::ValueId>& sums);

}  // namespace halyard::schedule
