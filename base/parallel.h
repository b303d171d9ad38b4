// SPDX-License-Identifier: Apache-2.0
// ForEachInParallel: independent pieces of work on all processors that this process may use.
#pragma once

#include <cstddef>
#include <functional>

#include "base/status.h"

namespace halyard {

// At least 1.
size_t UsableProcessors();

// Calls body(0) ... body(count - 1), each once, on the calling thread and others; returns when all
// are done. The result is that of the lowest index that failed, so it does not depend on timing.
// Whatever a body throws becomes its Status.
Status ForEachInParallel(size_t count, const std::function<Status(size_t index)>& body);

}  // namespace halyard
