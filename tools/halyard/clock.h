// SPDX-License-Identifier: Apache-2.0
// Time that has passed.
#pragma once

#include <chrono>

namespace halyard::tools {

inline double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace halyard::tools
