// SPDX-License-Identifier: Apache-2.0
// Counts of tiles and blocks, for sizes that are numbers; ExprArena::CeilDiv is the same for
// expressions. Neither argument is negative, the second is not 0.
#pragma once

#include <cstdint>

namespace halyard::schedule {

constexpr int64_t CeilDiv(int64_t n, int64_t each) { return (n + each - 1) / each; }
constexpr int64_t RoundUp(int64_t n, int64_t to) { return CeilDiv(n, to) * to; }

}  // namespace halyard::schedule
