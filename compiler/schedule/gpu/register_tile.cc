// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/gpu/register_tile.h"

namespace halyard::schedule {

using kernel::Opcode;
using kernel::Type;
using V = kernel::ValueId;

void MultiplyTile(Writer& writer, const RegisterTile& tile, V row_at, V col_at,
                  std::vector<V>& sums) {
  const Type type{tile.dtype, static_cast<uint16_t>(tile.col_lanes)};
  for (int64_t k = 0; k < tile.depth; ++k) {
    std::vector<V> columns;
    for (int64_t c = 0; c < tile.col_groups; ++c) {
      const int64_t offset = k * tile.col_stride + c * (tile.n / tile.col_groups);
      columns.push_back(writer.Load(tile.cols, writer.Add(col_at, writer.Index(offset)),
                                    tile.col_lanes, false, tile.col_lanes));
    }
    for (int64_t g = 0; g < tile.row_groups; ++g) {
      const int64_t offset = k * tile.row_stride + g * (tile.m / tile.row_groups);
      const V rows = writer.Load(tile.rows, writer.Add(row_at, writer.Index(offset)),
                                 tile.row_lanes, false, tile.row_lanes);
      for (int64_t i = 0; i < tile.row_lanes; ++i) {
        V row = rows;
        if (tile.row_lanes > 1)
          row = writer.Pure(Opcode::kExtract, Type{tile.dtype, 1}, {rows}, {i});
        row = writer.Splat(row, tile.col_lanes);
        for (int64_t c = 0; c < tile.col_groups; ++c) {
          V& sum = sums[tile.SumAt(g, i, c)];
          const V column = columns[static_cast<size_t>(c)];
          sum = IsFloat(tile.dtype)
                    ? writer.Pure(Opcode::kFma, type, {row, column, sum})
                    : writer.Add(sum, writer.Pure(Opcode::kMul, type, {row, column}));
        }
      }
    }
  }
}

}  // namespace halyard::schedule
