// SPDX-License-Identifier: Apache-2.0
// Counts calls of operator new in this test program, from all threads.
#pragma once

#include <cstdint>

namespace halyard {

int64_t AllocationCount();

}  // namespace halyard
