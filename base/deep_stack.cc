// SPDX-License-Identifier: Apache-2.0
#include "base/deep_stack.h"

#include <pthread.h>

#include <cstdint>
#include <cstring>

namespace halyard {
namespace {

// Of the calling thread. Where the system does not say, as much as any thread has by default.
size_t StackBytesLeft() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return kDeepStackBytes;
  void* lowest = nullptr;
  size_t size = 0;
  const int error = pthread_attr_getstack(&attributes, &lowest, &size);
  pthread_attr_destroy(&attributes);
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  const auto low = reinterpret_cast<uintptr_t>(lowest);
  // A coroutine's stack is elsewhere, and nothing is known of it.
  if (error != 0 || here < low || here - low > size) return 0;
  return here - low;
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
