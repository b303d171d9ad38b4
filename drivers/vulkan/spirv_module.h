// SPDX-License-Identifier: Apache-2.0
// SpirvModule: what the driver must know of a SPIR-V module before a vendor's compiler sees it, and
// the one change it makes. It is no validator of everything: spirv-val is, in tests.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace halyard::drivers::vulkan {

struct SpirvModule {
  struct EntryPoint {
    std::string name;
    uint32_t workgroup_size[3] = {0, 0, 0};  // 0 where the module does not say
  };
  std::vector<uint32_t> words;
  std::vector<uint32_t> capabilities;
  std::vector<EntryPoint> entry_points;

  const EntryPoint* Find(std::string_view name) const;
};

// Checks the header, the length of every instruction, that functions are whole and that kernels
// exist. DATA_LOSS says what is wrong.
Result<SpirvModule> ReadSpirv(std::span<const uint8_t> bytes);

// How far the push constants reach at least: one more than the offset of the last member, rounded
// up to eight bytes.
uint32_t PushConstantBytes(const SpirvModule& module);

// The same module with its push constants replaced by one device address, of a block that has the
// layout that the push constants had. So a recording can be submitted with other arguments without
// being recorded again. `argument_bytes`: what the block will hold. DATA_LOSS when the module reads
// beyond that; INCOMPATIBLE when it uses its push constants in a way that has no such form.
Result<std::vector<uint32_t>> MoveArgumentsToBlock(const SpirvModule& module,
                                                   uint32_t argument_bytes);

}  // namespace halyard::drivers::vulkan
