// SPDX-License-Identifier: Apache-2.0
// OnDeepStack: work that takes more stack than a thread of the host may have, such as compiling,
// drivers' start and whatever follows the nesting of a file.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "base/check.h"
#include "base/status.h"

namespace halyard {

// What the calling thread must have left for the work to run on it.
inline constexpr size_t kEnoughStackBytes = size_t{1} << 20;
inline constexpr size_t kDeepStackBytes = size_t{8} << 20;

// Calls `body` and returns when it has returned: on the calling thread where that has
// kEnoughStackBytes left, else on one of its own with kDeepStackBytes. `body` throws nothing.
// OUT_OF_MEMORY where there is no such thread; `body` is not called then.
Status CallOnDeepStack(const std::function<void()>& body);

// The same for a body that returns Status or Result<T>; what it throws becomes its Status.
template <typename Body>
auto OnDeepStack(Body&& body) -> decltype(body()) {
  std::optional<decltype(body())> out;
  HY_TRY(CallOnDeepStack([&] { out.emplace(CatchAll(body)); }));
  return std::move(*out);
}

}  // namespace halyard
