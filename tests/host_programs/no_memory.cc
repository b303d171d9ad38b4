// SPDX-License-Identifier: Apache-2.0
// For LD_PRELOAD: operator new that throws from its HALYARD_TEST_FAIL_AT-th call on, forever. What
// a library that was linked with an operator new of its own allocates is left alone.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> calls{0};
std::atomic<long> first_failure{-1};

[[gnu::constructor]] void ReadEnvironment() {
  const char* at = std::getenv("HALYARD_TEST_FAIL_AT");
  if (at != nullptr) first_failure = std::atol(at);
}

void* Allocate(size_t size, size_t alignment) {
  const long first = first_failure;
  if (first >= 0 && calls++ >= first) return nullptr;
  return std::aligned_alloc(alignment, (size + alignment) / alignment * alignment);
}

void* AllocateOrThrow(size_t size, size_t alignment) {
  void* memory = Allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

constexpr size_t kAlignment = alignof(std::max_align_t);

}  // namespace

void* operator new(size_t size) { return AllocateOrThrow(size, kAlignment); }
void* operator new[](size_t size) { return AllocateOrThrow(size, kAlignment); }
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return Allocate(size, kAlignment);
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return Allocate(size, kAlignment);
}
void* operator new(size_t size, std::align_val_t a) {
  return AllocateOrThrow(size, static_cast<size_t>(a));
}
void* operator new[](size_t size, std::align_val_t a) {
  return AllocateOrThrow(size, static_cast<size_t>(a));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
