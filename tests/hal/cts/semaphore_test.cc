// SPDX-License-Identifier: Apache-2.0
// Semaphores and host waits, without queues.
#include <atomic>
#include <thread>

#include "tests/hal/cts/cts.h"

namespace halyard::cts {
namespace {

constexpr int64_t kShortNs = 2'000'000;

HAL_CASE(SemaphoreGrowsAndWaits) {
  Ref<hal::Semaphore> semaphore = NewSemaphore(5);
  EXPECT_EQ(semaphore->value(), 5u);
  EXPECT_OK(WaitFor(semaphore.get(), 5));
  hal::SemaphorePoint point{semaphore.get(), 6};
  EXPECT_FAILS(device_->Wait({&point, 1}, hal::WaitMode::kAll, 0), kDeadlineExceeded,
               "not reached");
  EXPECT_FAILS(device_->Wait({&point, 1}, hal::WaitMode::kAll, kShortNs), kDeadlineExceeded,
               "2000000 ns");
  EXPECT_OK(semaphore->Signal(9));
  EXPECT_EQ(semaphore->value(), 9u);
  EXPECT_OK(WaitFor(semaphore.get(), 6));
}

HAL_CASE(SemaphoreSignalThatDoesNotGrowFailsIt) {
  Ref<hal::Semaphore> semaphore = NewSemaphore(5);
  EXPECT_FAILS(semaphore->Signal(5), kInvalidArgument, "at 5 was signalled with 5");
  EXPECT_OK(WaitFor(semaphore.get(), 5));
  EXPECT_FAILS(WaitFor(semaphore.get(), 6), kInvalidArgument, "at 5 was signalled with 5");
}

HAL_CASE(SemaphoreFailureIsFinalAndKeepsWhatWasReached) {
  Ref<hal::Semaphore> semaphore = NewSemaphore(2);
  semaphore->Fail(DataLoss("first"));
  semaphore->Fail(Aborted("second"));
  EXPECT_OK(semaphore->Signal(100));
  EXPECT_EQ(semaphore->value(), 2u);
  EXPECT_FAILS(semaphore->status(), kDataLoss, "first");
  EXPECT_OK(WaitFor(semaphore.get(), 2));
  EXPECT_FAILS(WaitFor(semaphore.get(), 3), kDataLoss, "first");
}

HAL_CASE(SemaphoreWaitAnyAndAll) {
  Ref<hal::Semaphore> a = NewSemaphore(), b = NewSemaphore(), c = NewSemaphore();
  hal::SemaphorePoint points[] = {{a.get(), 1}, {b.get(), 1}, {c.get(), 1}};
  EXPECT_OK(b->Signal(1));
  size_t index = 99;
  EXPECT_OK(device_->Wait(points, hal::WaitMode::kAny, hal::kInfiniteTimeout, &index));
  EXPECT_EQ(index, 1u);
  EXPECT_FAILS(device_->Wait(points, hal::WaitMode::kAll, kShortNs), kDeadlineExceeded,
               "not reached");
  std::thread late([&] {
    EXPECT_OK(a->Signal(1));
    EXPECT_OK(c->Signal(1));
  });
  EXPECT_OK(device_->Wait(points, hal::WaitMode::kAll, hal::kInfiniteTimeout));
  late.join();
  EXPECT_OK(device_->Wait({}, hal::WaitMode::kAll, 0));
}

HAL_CASE(SemaphoreFailureWakesWaiters) {
  Ref<hal::Semaphore> a = NewSemaphore(), b = NewSemaphore();
  hal::SemaphorePoint points[] = {{a.get(), 1}, {b.get(), 1}};
  std::thread late([&] { b->Fail(Cancelled("stop")); });
  EXPECT_FAILS(device_->Wait(points, hal::WaitMode::kAll, hal::kInfiniteTimeout), kCancelled,
               "stop");
  late.join();
}

HAL_CASE(SemaphoreManyWaitersOnManyPoints) {
  Ref<hal::Semaphore> semaphore = NewSemaphore();
  constexpr uint64_t kSteps = 200;
  std::atomic<int> failures{0};
  std::vector<std::thread> waiters;
  for (int t = 0; t < 4; ++t) {
    waiters.emplace_back([&, t] {
      for (uint64_t value = 1 + static_cast<uint64_t>(t); value <= kSteps; value += 3) {
        failures += !WaitFor(semaphore.get(), value).ok();
        failures += semaphore->value() < value;
      }
    });
  }
  for (uint64_t value = 1; value <= kSteps; ++value) EXPECT_OK(semaphore->Signal(value));
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(failures.load(), 0);
}

HAL_CASE(SemaphoreNullIsRefused) {
  hal::SemaphorePoint point;
  EXPECT_FAILS(device_->Wait({&point, 1}, hal::WaitMode::kAll, 0), kInvalidArgument,
               "no semaphore");
}

HAL_CASE(SemaphoreMoreThanAFewPoints) {
  std::vector<Ref<hal::Semaphore>> semaphores;
  std::vector<hal::SemaphorePoint> points;
  for (int i = 0; i < 20; ++i) {
    semaphores.push_back(NewSemaphore());
    points.push_back({semaphores.back().get(), 1});
  }
  std::thread late([&] {
    for (auto& semaphore : semaphores) EXPECT_OK(semaphore->Signal(1));
  });
  EXPECT_OK(device_->Wait(points, hal::WaitMode::kAll, hal::kInfiniteTimeout));
  late.join();
}

}  // namespace
}  // namespace halyard::cts
