// SPDX-License-Identifier: Apache-2.0
// libFuzzer target of the program loader. Whatever loads must verify, and what is formatted must
// parse again. Hashes are repaired first: with wrong ones the loader refuses nearly every file
// early.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "compiler/program/file.h"
#include "tests/program/repair_hashes.h"

using namespace halyard;  // NOLINT: a test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> bytes(data, data + size);
  program::RepairHashes(bytes);
  const auto loaded = program::LoadFromMemory(bytes, nullptr);
  if (loaded.ok()) {
    if (!program::Verify(*loaded).ok()) std::abort();
    const std::string text = program::Format(*loaded);
    const auto parsed = program::Parse(text);
    if (!parsed.ok() || program::Format(*parsed) != text) std::abort();
  }
  program::ReadRequirements(bytes).status().Ignore();
  return 0;
}
