// SPDX-License-Identifier: Apache-2.0
#include "base/deep_stack.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <new>
#include <thread>

namespace halyard {
namespace {

// Takes about `bytes` of stack, in frames that are really used.
__attribute__((noinline)) int Descend(size_t bytes) {
  volatile char frame[4096];
  frame[0] = 1;
  return bytes <= sizeof(frame) ? frame[0] : frame[0] + Descend(bytes - sizeof(frame));
}

// Runs `body` on a thread with a stack of so many bytes.
void OnThread(size_t stack_bytes, const std::function<void()>& body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, stack_bytes), 0);
  pthread_t thread;
  const auto call = [](void* f) -> void* {
    (*static_cast<const std::function<void()>*>(f))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, call, const_cast<std::function<void()>*>(&body)),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST(DeepStack, AThreadWithLittleStackHasAnotherDoIt) {
  // Sanitizers take more of it.
  OnThread(256 << 10, [] {
    const auto caller = std::this_thread::get_id();
    const Result<int> sum = OnDeepStack([&]() -> Result<int> {
      EXPECT_NE(std::this_thread::get_id(), caller);
      return Descend(2 << 20);
    });
    ASSERT_TRUE(sum.ok());
    EXPECT_EQ(*sum, (2 << 20) / 4096);
  });
}

TEST(DeepStack, AThreadWithEnoughDoesItItself) {
  OnThread(4 << 20, [] {
    const auto caller = std::this_thread::get_id();
    EXPECT_TRUE(OnDeepStack([&]() -> Status {
                  EXPECT_EQ(std::this_thread::get_id(), caller);
                  return OkStatus();
                }).ok());
  });
}

TEST(DeepStack, FailuresComeBack) {
  for (const size_t stack : {size_t{256} << 10, size_t{4} << 20}) {
    OnThread(stack, [] {
      EXPECT_EQ(OnDeepStack([]() -> Status { return Busy("x"); }).code(), StatusCode::kBusy);
      EXPECT_EQ(OnDeepStack([]() -> Status { throw std::bad_alloc(); }).code(),
                StatusCode::kOutOfMemory);
    });
  }
}

}  // namespace
}  // namespace halyard
