// SPDX-License-Identifier: Apache-2.0
// The limit of what a named size may be, which everything keeps to that takes one from outside.
#pragma once

#include <cstdint>

namespace halyard {

// The largest value of a dimension symbol, whether it stays open (ExprArena::Dim) or is fixed when
// compiling.
inline constexpr int64_t kLargestSymbol = INT32_MAX;

}  // namespace halyard
