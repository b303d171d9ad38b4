// SPDX-License-Identifier: Apache-2.0
// Replaces the global operator new by one that counts.
#include "tests/hal/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HY_HAS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HY_HAS_SANITIZER 1
#endif
#endif

namespace halyard {
namespace {
std::atomic<int64_t> g_count{0};
}  // namespace

int64_t AllocationCount() { return g_count.load(); }

#if defined(HY_HAS_SANITIZER)
bool CountsAllocations() { return false; }
#else
bool CountsAllocations() { return true; }
#endif

}  // namespace halyard

#if !defined(HY_HAS_SANITIZER)
void* operator new(size_t size) {
  halyard::g_count.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (!memory) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif
