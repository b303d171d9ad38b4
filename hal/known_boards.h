// SPDX-License-Identifier: Apache-2.0
// What no query tells of the silicon on a GPU's board, by the PCI numbers of the board: from the
// vendors' data sheets and white papers.
#pragma once

#include <cstdint>
#include <string_view>

namespace halyard::hal {

struct KnownBoard {
  const char* model_id;     // as Identity::model_id
  const char* chip;         // "GH100 (Hopper)"
  const char* memory_kind;  // "HBM3e"
  int64_t l2_bytes;         // of the board, whose chip may have more
  // Clusters of the whole chip, of NVIDIA's; 0: not told.
  int64_t gpc_count_of_chip, tpcs_per_gpc_of_chip;
};

// Null for a board that the table does not have.
const KnownBoard* FindKnownBoard(std::string_view model_id);

}  // namespace halyard::hal
