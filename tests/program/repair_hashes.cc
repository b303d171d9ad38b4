// SPDX-License-Identifier: Apache-2.0
// Knows the head of the file format: 32 bytes, then 32 per section.
#include "tests/program/repair_hashes.h"

#include <cstring>

#include "base/hash.h"

namespace halyard::program {

void RepairHashes(std::vector<uint8_t>& bytes) {
  if (bytes.size() < 32) return;
  uint32_t count = 0;
  std::memcpy(&count, bytes.data() + 12, 4);
  const uint64_t file_bytes = bytes.size();
  std::memcpy(bytes.data() + 16, &file_bytes, 8);
  if (32 + uint64_t{count} * 32 > bytes.size()) return;
  for (uint32_t i = 0; i < count; ++i) {
    uint8_t* section = bytes.data() + 32 + size_t{i} * 32;
    uint64_t offset = 0, size = 0;
    std::memcpy(&offset, section + 8, 8);
    std::memcpy(&size, section + 16, 8);
    if (offset > bytes.size() || size > bytes.size() - offset) continue;
    const uint64_t hash = HashBytes({bytes.data() + offset, size});
    std::memcpy(section + 24, &hash, 8);
  }
  const uint64_t hash = HashBytes({bytes.data() + 32, uint64_t{count} * 32});
  std::memcpy(bytes.data() + 24, &hash, 8);
}

}  // namespace halyard::program
