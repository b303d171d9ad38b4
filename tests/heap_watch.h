// SPDX-License-Identifier: Apache-2.0
// Watches the heap of a test program, from all threads: how many blocks were asked for, and how
// large the largest one was. Covers malloc and its relatives, and with them operator new, also
// where shared libraries call them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halyard {

int64_t AllocationCount();
// Calls of operator new alone: by our code, but not by vendors' libraries, which use malloc or
// bring an operator new of their own.
int64_t NewCount();
// In bytes, since the last call of ForgetLargestAllocation.
size_t LargestAllocation();
void ForgetLargestAllocation();
// From the nth allocation on, counted from 0, none succeeds, on any thread, until
// FailNoAllocations.
void FailAllocationsFrom(int64_t nth);
void FailNoAllocations();
// False under a sanitizer, which brings a malloc of its own; the figures then stay 0 and nothing
// fails.
bool WatchesHeap();

}  // namespace halyard
