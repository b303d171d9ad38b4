// SPDX-License-Identifier: Apache-2.0
// Where placement ends counting the bytes of one tensor or weight.
#pragma once

#include <cstdint>
#include <string>

#include "base/quantity.h"

namespace halyard::place {

// Sums over all items stay within 64 bits. A tensor of so many bytes has as many or more.
inline constexpr int64_t kMostTensorBytes = int64_t{1} << 42;

// "4.0 KiB"; "4096.0 GiB or more" where the count has ended.
inline std::string FormatTensorBytes(int64_t bytes) {
  return FormatBytes(bytes) + (bytes >= kMostTensorBytes ? " or more" : "");
}

}  // namespace halyard::place
