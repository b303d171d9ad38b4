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

#if !HALYARD_SANITIZED
void Note(size_t size) {
  g_count.fetch_add(1, std::memory_order_relaxed);
  size_t largest = g_largest.load(std::memory_order_relaxed);
  while (largest < size &&
         !g_largest.compare_exchange_weak(largest, size, std::memory_order_relaxed)) {
  }
}
#endif

}  // namespace

int64_t AllocationCount() { return g_count.load(); }
int64_t NewCount() { return g_new_count.load(); }
size_t LargestAllocation() { return g_largest.load(); }
void ForgetLargestAllocation() { g_largest.store(0); }
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
  halyard::Note(size);
  return __libc_malloc(size);
}
HY_VISIBLE void* calloc(size_t count, size_t size) {
  size_t bytes = 0;
  halyard::Note(__builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes);
  return __libc_calloc(count, size);
}
HY_VISIBLE void* realloc(void* memory, size_t size) {
  halyard::Note(size);
  return __libc_realloc(memory, size);
}
HY_VISIBLE void* memalign(size_t alignment, size_t size) {
  halyard::Note(size);
  return __libc_memalign(alignment, size);
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
