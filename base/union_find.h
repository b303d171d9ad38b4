// SPDX-License-Identifier: Apache-2.0
// Disjoint sets as a forest: parent[x] is x where x stands for its set.
#pragma once

#include <cstdint>
#include <vector>

namespace halyard {

// Who stands for the set of x. Halves the path to it.
inline uint32_t FindRoot(std::vector<uint32_t>& parent, uint32_t x) {
  while (parent[x] != x) x = parent[x] = parent[parent[x]];
  return x;
}

}  // namespace halyard
