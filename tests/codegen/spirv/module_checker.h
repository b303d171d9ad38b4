// SPDX-License-Identifier: Apache-2.0
// A structural check of SPIR-V modules as our emitter writes them, for those that the packaged
// validator does not know (cooperative matrices). Knows the instructions that the emitter uses and
// no others: ids are defined once and before their use in every path, operand and result types
// match, blocks are well formed, phis name their predecessors.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace halyard::testing {

// What is wrong with the module, one sentence; empty when nothing is.
std::string CheckSpirvModule(std::span<const uint32_t> words);

}  // namespace halyard::testing
