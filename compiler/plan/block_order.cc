// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/block_order.h"

#include <algorithm>

namespace halyard::plan {

BlockOrder::BlockOrder(std::span<const program::Block> blocks) : before_(blocks.size()) {
  for (size_t b = 0; b < blocks.size(); ++b) {
    std::vector<uint64_t>& before = before_[b];
    before.assign(blocks.size() / 64 + 1, 0);
    for (const uint32_t wait : blocks[b].waits) {
      for (size_t i = 0; i < before.size(); ++i) before[i] |= before_[wait][i];
      before[wait / 64] |= uint64_t{1} << (wait % 64);
    }
  }
}

size_t RemoveDominatedWaits(std::span<program::Block> blocks) {
  const BlockOrder order(blocks);
  size_t removed = 0;
  for (program::Block& block : blocks) {
    std::vector<uint32_t> waits = block.waits;
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    std::vector<uint32_t> kept;
    for (const uint32_t wait : waits) {
      const auto implies = [&](uint32_t other) { return order.Precedes(wait, other); };
      if (std::none_of(waits.begin(), waits.end(), implies)) kept.push_back(wait);
    }
    removed += block.waits.size() - kept.size();
    block.waits = std::move(kept);
  }
  return removed;
}

}  // namespace halyard::plan
