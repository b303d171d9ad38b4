// SPDX-License-Identifier: Apache-2.0
// The order of blocks: who must be done before whom, and which waits say no more than others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/program/program.h"

namespace halyard::plan {

// The partial order that the waits of blocks make. Blocks wait for earlier ones only.
class BlockOrder {
 public:
  explicit BlockOrder(std::span<const program::Block> blocks);

  // Whether `a` is done before `b` starts.
  bool Precedes(uint32_t a, uint32_t b) const { return (before_[b][a / 64] >> (a % 64) & 1) != 0; }

 private:
  std::vector<std::vector<uint64_t>> before_;  // per block, one bit per block
};

// Removes every wait that another one of the same block implies, and repetitions; the rest stand in
// ascending order. Returns how many were removed. Blocks wait for earlier ones only.
size_t RemoveDominatedWaits(std::span<program::Block> blocks);

}  // namespace halyard::plan
