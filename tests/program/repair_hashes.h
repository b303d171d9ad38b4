// SPDX-License-Identifier: Apache-2.0
// Makes the hashes of a damaged program file right again, so that the damage reaches the reader
// behind them.
#pragma once

#include <cstdint>
#include <vector>

namespace halyard::program {

// Leaves alone what has no section table, and sections that lie outside the file.
void RepairHashes(std::vector<uint8_t>& bytes);

}  // namespace halyard::program
