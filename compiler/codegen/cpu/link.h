// SPDX-License-Identifier: Apache-2.0
// Turns the relocatable ELF object that LLVM writes into a flat image: sections placed, the
// object's own PC-relative references resolved. Not a general linker: anything else is an error.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace halyard::cpu {

// One kernel of the image: the symbol that holds its code and the numbers of its entry record.
struct LinkEntry {
  std::string name;
  std::string symbol;
  uint64_t workgroup_memory_bytes = 0;
  uint32_t binding_count = 0;
  uint32_t scalar_count = 0;
};

// `features`: CpuFeature bits that the code needs. INTERNAL, naming the symbol or section, on an
// undefined symbol, an absolute or other relocation, or writable data.
Result<std::vector<uint8_t>> LinkFlatImage(std::span<const uint8_t> object,
                                           std::span<const LinkEntry> entries, uint64_t features);

}  // namespace halyard::cpu
