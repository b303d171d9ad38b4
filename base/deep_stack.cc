// SPDX-License-Identifier: Apache-2.0
#include "base/deep_stack.h"

#include <pthread.h>

#include <cstdint>
#include <cstring>

namespace halyard {
namespace {

struct StackRange {
  uintptr_t low = 0;
  size_t size = 0;
  bool is_known = false;  // false: the system does not say
};

StackRange ReadStackRange() {
  StackRange range;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return range;
  range.is_known = true;
  void* lowest = nullptr;
  if (pthread_attr_getstack(&attributes, &lowest, &range.size) != 0) range.size = 0;
  pthread_attr_destroy(&attributes);
  range.low = reinterpret_cast<uintptr_t>(lowest);
  return range;
}

// Of the calling thread. Where the system does not say, as much as any thread has by default.
size_t StackBytesLeft() {
  // Asked once: for the first thread of a process glibc reads all of /proc/self/maps, which takes
  // 0.4 ms where a GPU's driver has mapped its memory.
  thread_local const StackRange range = ReadStackRange();
  if (!range.is_known) return kDeepStackBytes;
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  // A coroutine's stack is elsewhere, and nothing is known of it.
  if (here < range.low || here - range.low > range.size) return 0;
  return here - range.low;
}

void* CallBody(void* body) {
  (*static_cast<const std::function<void()>*>(body))();
  return nullptr;
}

}  // namespace

Status CallOnDeepStack(const std::function<void()>& body) {
  if (StackBytesLeft() >= kEnoughStackBytes) {
    body();
    return OkStatus();
  }
  pthread_attr_t attributes;
  int error = pthread_attr_init(&attributes);
  if (error == 0) {
    error = pthread_attr_setstacksize(&attributes, kDeepStackBytes);
    pthread_t thread;
    if (error == 0) {
      error = pthread_create(&thread, &attributes, &CallBody,
                             const_cast<std::function<void()>*>(&body));
    }
    pthread_attr_destroy(&attributes);
    if (error == 0) {
      pthread_join(thread, nullptr);
      return OkStatus();
    }
  }
  return OutOfMemory("A thread with a stack of {} bytes cannot be made: {}.", kDeepStackBytes,
                     std::strerror(error));
}

}  // namespace halyard
