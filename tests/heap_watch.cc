// SPDX-License-Identifier: Apache-2.0
// Stands in front of glibc's malloc: symbols of the program come before those of shared libraries.
#include "tests/heap_watch.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

#include "tests/sanitized.h"

namespace halyard {
namespace {

std::atomic<int64_t> g_count{0};
std::atomic<int64_t> g_new_count{0};
std::atomic<size_t> g_largest{0};
std::atomic<int64_t> g_left{INT64_MAX};  // allocations that succeed

#if !HALYARD_SANITIZED
// Whether it succeeds.
bool Note(size_t size) {
  g_count.fetch_add(1, std::memory_order_relaxed);
  size_t largest = g_largest.load(std::memory_order_relaxed);
  while (largest < size &&
         !g_largest.compare_exchange_weak(largest, size, std::memory_order_relaxed)) {
  }
  if (g_left.load(std::memory_order_relaxed) == INT64_MAX) return true;
  if (g_left.fetch_sub(1, std::memory_order_relaxed) > 0) return true;
  errno = ENOMEM;
  return false;
}
#endif

}  // namespace

int64_t AllocationCount() { return g_count.load(); }
int64_t NewCount() { return g_new_count.load(); }
size_t LargestAllocation() { return g_largest.load(); }
void ForgetLargestAllocation() { g_largest.store(0); }
void FailAllocationsFrom(int64_t nth) { g_left = nth; }
void FailNoAllocations() { g_left = INT64_MAX; }
bool WatchesHeap() { return !HALYARD_SANITIZED; }

}  // namespace halyard

#if !HALYARD_SANITIZED
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

#define HY_VISIBLE __attribute__((visibility("default")))

HY_VISIBLE void* malloc(size_t size) {
  return !halyard::Note(size) ? nullptr : __libc_malloc(size);
}
HY_VISIBLE void* calloc(size_t count, size_t size) {
  size_t bytes = 0;
  const bool is_too_much = __builtin_mul_overflow(count, size, &bytes);
  return !halyard::Note(is_too_much ? SIZE_MAX : bytes) ? nullptr : __libc_calloc(count, size);
}
HY_VISIBLE void* realloc(void* memory, size_t size) {
  return !halyard::Note(size) ? nullptr : __libc_realloc(memory, size);
}
HY_VISIBLE void* memalign(size_t alignment, size_t size) {
  return !halyard::Note(size) ? nullptr : __libc_memalign(alignment, size);
}
HY_VISIBLE void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
HY_VISIBLE int posix_memalign(void** out, size_t alignment, size_t size) {
  void* memory = memalign(alignment, size);
  if (memory == nullptr) return ENOMEM;
  *out = memory;
  return 0;
}
}

HY_VISIBLE void* operator new(size_t size) {
  halyard::g_new_count.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
HY_VISIBLE void operator delete(void* memory) noexcept { std::free(memory); }
HY_VISIBLE void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif
