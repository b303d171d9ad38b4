// SPDX-License-Identifier: Apache-2.0
// libFuzzer target of the program loader and the program text parser. Whatever loads must verify,
// and what is formatted must parse again. A first byte of 'T' marks text; other inputs are files
// whose hashes are not checked for (the loader refuses most early), so half of them get their
// hashes repaired.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "compiler/program/file.h"

using namespace halyard;  // NOLINT: a test

namespace {

void RepairHashes(std::vector<uint8_t>& bytes) {
  if (bytes.size() < 32) return;
  uint32_t count = 0;
  std::memcpy(&count, bytes.data() + 12, 4);
  const uint64_t file_bytes = bytes.size();
  std::memcpy(bytes.data() + 16, &file_bytes, 8);
  if (32 + uint64_t{count} * 32 > bytes.size()) return;
  for (uint32_t i = 0; i < count; ++i) {
    uint8_t* section = bytes.data() + 32 + i * 32;
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

void CheckProgram(const program::Program& program) {
  if (!program::Verify(program).ok()) std::abort();
  const std::string text = program::Format(program);
  const auto parsed = program::Parse(text);
  if (!parsed.ok() || program::Format(*parsed) != text) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0 && data[0] == 'T') {
    const auto parsed = program::Parse({reinterpret_cast<const char*>(data) + 1, size - 1});
    if (parsed.ok()) {
      const std::string text = program::Format(*parsed);
      const auto again = program::Parse(text);
      if (!again.ok() || program::Format(*again) != text) std::abort();
    }
    return 0;
  }
  std::vector<uint8_t> bytes(data, data + size);
  RepairHashes(bytes);
  const auto loaded = program::LoadFromMemory(bytes, nullptr, {.verify_data = true});
  if (loaded.ok()) CheckProgram(*loaded);
  program::ReadRequirements(bytes).status().Ignore();
  return 0;
}
