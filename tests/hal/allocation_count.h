// SPDX-License-Identifier: Apache-2.0
// Counts calls of operator new in this test program, from all threads.
#pragma once

#include <cstdint>

namespace halyard {

int64_t AllocationCount();
// False under a sanitizer, which brings an operator new of its own; the count then stays 0.
bool CountsAllocations();

}  // namespace halyard
