// SPDX-License-Identifier: Apache-2.0
// Replaces the global operator new by one that counts.
#include "tests/hal/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace halyard {
namespace {
std::atomic<int64_t> g_count{0};
}  // namespace

int64_t AllocationCount() { return g_count.load(); }

}  // namespace halyard

void* operator new(size_t size) {
  halyard::g_count.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (!memory) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
