// SPDX-License-Identifier: Apache-2.0
// Queues: order by semaphores alone, failures that travel, calls that never block.
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "tests/hal/cts/cts.h"

namespace halyard::cts {
namespace {

struct Counter {
  std::atomic<int> calls{0};
  std::atomic<int> releases{0};
  Status answer;
};

hal::HostCall Count(Counter* counter) {
  hal::HostCall call;
  call.context = counter;
  call.function = [](void* context) {
    auto* counter = static_cast<Counter*>(context);
    ++counter->calls;
    return counter->answer;
  };
  call.release = [](void* context) { ++static_cast<Counter*>(context)->releases; };
  return call;
}

HAL_CASE(QueueCopyFillUpdate) {
  std::vector<int64_t> values(1000);
  std::mt19937_64 random(1);
  for (int64_t& value : values) value = static_cast<int64_t>(random());
  Ref<hal::Buffer> source = Upload(values);
  EXPECT_EQ(Download(source.get()), values);
  Ref<hal::Buffer> target = Allocate(8000);
  Ref<hal::Semaphore> timeline = NewSemaphore();
  hal::SemaphorePoint points[] = {{timeline.get(), 1}, {timeline.get(), 2}, {timeline.get(), 3}};
  EXPECT_OK(device_->QueueFill(0, {{}, {&points[0], 1}}, Whole(target), 0x0102030405060708, 8));
  EXPECT_OK(device_->QueueCopy(0, {{&points[0], 1}, {&points[1], 1}}, {source.get(), 80, 160},
                               {target.get(), 800, 160}));
  EXPECT_OK(device_->QueueFill(0, {{&points[1], 1}, {&points[2], 1}}, {target.get(), 4000, 12},
                               0xabcd1234, 4));
  EXPECT_OK(WaitFor(timeline.get(), 3));
  std::vector<int64_t> expected(1000, 0x0102030405060708);
  std::copy(values.begin() + 10, values.begin() + 30, expected.begin() + 100);
  expected[500] = static_cast<int64_t>(0xabcd1234abcd1234);
  expected[501] = 0x01020304abcd1234;
  EXPECT_EQ(Download(target.get()), expected);
}

HAL_CASE(QueueFillPatternsOfEverySize) {
  for (uint32_t bytes : {1u, 2u, 4u, 8u}) {
    Ref<hal::Buffer> target = Allocate(16);
    Ref<hal::Semaphore> done = NewSemaphore();
    hal::SemaphorePoint signal{done.get(), 1};
    EXPECT_OK(device_->QueueFill(0, {{}, {&signal, 1}}, Whole(target), 0x1122334455667788, bytes));
    EXPECT_OK(WaitFor(done.get(), 1));
    uint64_t expected = 0;
    for (uint32_t at = 0; at < 8; at += bytes) {
      uint64_t part =
          bytes == 8 ? 0x1122334455667788 : 0x1122334455667788 & ((uint64_t{1} << 8 * bytes) - 1);
      expected |= part << 8 * at;
    }
    EXPECT_EQ(Download(target.get()), std::vector<int64_t>(2, static_cast<int64_t>(expected)))
        << bytes;
  }
}

HAL_CASE(QueueBigCopyIsWhole) {
  std::vector<int64_t> values(700001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i * i);
  Ref<hal::Buffer> source = Upload(values);
  EXPECT_EQ(Download(source.get()), values);
}

HAL_CASE(QueueSubmitWithAnUnsignalledWaitReturnsAtOnce) {
  Ref<hal::Semaphore> gate = NewSemaphore(), done = NewSemaphore();
  Counter counter;
  hal::SemaphorePoint wait{gate.get(), 1}, signal{done.get(), 1};
  EXPECT_OK(device_->QueueHostCall(0, {{&wait, 1}, {&signal, 1}}, Count(&counter)));
  EXPECT_OK(device_->Flush());
  EXPECT_FAILS(device_->Wait({&signal, 1}, hal::WaitMode::kAll, 5'000'000), kDeadlineExceeded,
               "not reached");
  EXPECT_EQ(counter.calls, 0);
  EXPECT_OK(gate->Signal(1));
  EXPECT_OK(WaitFor(done.get(), 1));
  EXPECT_EQ(counter.calls, 1);
  EXPECT_EQ(counter.releases, 1);
}

HAL_CASE(QueueProgressesWithoutAWaiter) {
  Ref<hal::Semaphore> gate = NewSemaphore(), done = NewSemaphore();
  hal::SemaphorePoint wait{gate.get(), 1}, middle{done.get(), 1}, signal{done.get(), 2};
  Counter counter;
  EXPECT_OK(device_->QueueHostCall(0, {{&middle, 1}, {&signal, 1}}, Count(&counter)));
  EXPECT_OK(device_->QueueHostCall(0, {{&wait, 1}, {&middle, 1}}, Count(&counter)));
  EXPECT_OK(gate->Signal(1));
  auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (done->value() < 2 && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  EXPECT_EQ(done->value(), 2u);
  EXPECT_EQ(counter.calls, 2);
}

HAL_CASE(QueueFlushStartsWorkWhoseCallerDoesNotWait) {
  Ref<hal::Semaphore> done = NewSemaphore();
  hal::SemaphorePoint signal{done.get(), 1};
  EXPECT_OK(device_->Submit(0, {{{}, {&signal, 1}, true}, nullptr, {}}));
  EXPECT_OK(device_->Flush());
  auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (done->value() < 1 && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  EXPECT_EQ(done->value(), 1u);
}

// Every step of one queue waits for a step of the other, queued in the worst order: whoever runs
// one queue to its end before the other, or holds a thread while it waits, never finishes.
HAL_CASE(QueueRendezvous) {
  constexpr uint64_t kSteps = 100;
  uint32_t other = device_->queue_count() > 1 ? 1 : 0;
  Ref<hal::Semaphore> a = NewSemaphore(), b = NewSemaphore();
  Counter counter;
  for (uint64_t step = kSteps; step >= 1; --step) {
    hal::SemaphorePoint b_before{b.get(), step - 1}, a_now{a.get(), step}, b_now{b.get(), step};
    EXPECT_OK(device_->QueueHostCall(0, {{&b_before, 1}, {&a_now, 1}}, Count(&counter)));
    EXPECT_OK(device_->QueueHostCall(other, {{&a_now, 1}, {&b_now, 1}}, Count(&counter)));
  }
  EXPECT_OK(WaitFor(b.get(), kSteps));
  EXPECT_OK(WaitFor(a.get(), kSteps));
  EXPECT_EQ(counter.calls, static_cast<int>(2 * kSteps));
}

HAL_CASE(QueueFailedWaitPoisonsSuccessorsOnly) {
  Ref<hal::Semaphore> bad = NewSemaphore(), never = NewSemaphore();
  Ref<hal::Semaphore> after = NewSemaphore(), far = NewSemaphore(), beside = NewSemaphore();
  Counter poisoned, sound;
  hal::SemaphorePoint waits[] = {{never.get(), 1}, {bad.get(), 1}};
  hal::SemaphorePoint after_one{after.get(), 1}, far_one{far.get(), 1}, beside_one{beside.get(), 1};
  EXPECT_OK(device_->QueueHostCall(0, {waits, {&after_one, 1}}, Count(&poisoned)));
  EXPECT_OK(device_->QueueHostCall(0, {{&after_one, 1}, {&far_one, 1}}, Count(&poisoned)));
  EXPECT_OK(device_->QueueHostCall(0, {{}, {&beside_one, 1}}, Count(&sound)));
  bad->Fail(DataLoss("the model file lied"));
  EXPECT_FAILS(WaitFor(far.get(), 1), kDataLoss, "the model file lied");
  EXPECT_FAILS(WaitFor(after.get(), 1), kDataLoss, "the model file lied");
  EXPECT_OK(WaitFor(beside.get(), 1));
  EXPECT_EQ(poisoned.calls, 0);
  EXPECT_EQ(poisoned.releases, 2);
  EXPECT_EQ(sound.calls, 1);
  EXPECT_OK(never->status());
  // The queue itself is as good as before.
  Ref<hal::Semaphore> later = NewSemaphore();
  hal::SemaphorePoint later_one{later.get(), 1};
  EXPECT_OK(device_->QueueHostCall(0, {{&beside_one, 1}, {&later_one, 1}}, Count(&sound)));
  EXPECT_OK(WaitFor(later.get(), 1));
}

HAL_CASE(QueueHostCallFailureFailsItsSignals) {
  Counter counter;
  counter.answer = Aborted("the host said no");
  Ref<hal::Semaphore> a = NewSemaphore(), b = NewSemaphore(3);
  hal::SemaphorePoint signals[] = {{a.get(), 1}, {b.get(), 4}};
  EXPECT_OK(device_->QueueHostCall(0, {{}, signals}, Count(&counter)));
  EXPECT_FAILS(WaitFor(a.get(), 1), kAborted, "the host said no");
  EXPECT_FAILS(WaitFor(b.get(), 4), kAborted, "the host said no");
  EXPECT_OK(WaitFor(b.get(), 3));
}

HAL_CASE(QueueSubmissionsFromManyThreads) {
  constexpr int kThreads = 4, kEach = 100;
  Counter counter;
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Ref<hal::Semaphore> timeline = NewSemaphore();
      for (int i = 0; i < kEach; ++i) {
        auto value = static_cast<uint64_t>(i);
        hal::SemaphorePoint wait{timeline.get(), value}, signal{timeline.get(), value + 1};
        uint32_t queue = static_cast<uint32_t>(t) % device_->queue_count();
        failures +=
            !device_->QueueHostCall(queue, {{&wait, 1}, {&signal, 1}, i % 2 == 0}, Count(&counter))
                 .ok();
        if (i % 10 == 0) failures += !WaitFor(timeline.get(), value + 1).ok();
      }
      failures += !WaitFor(timeline.get(), kEach).ok();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(counter.calls, kThreads * kEach);
}

HAL_CASE(QueueWorkKeepsWhatItNames) {
  Ref<hal::Semaphore> gate = NewSemaphore(), done = NewSemaphore();
  int64_t before = device_->memory_statistics().live_bytes;
  Ref<hal::Buffer> target = Allocate(64);
  hal::SemaphorePoint wait{gate.get(), 1}, signal{done.get(), 1};
  EXPECT_OK(device_->QueueFill(0, {{&wait, 1}, {&signal, 1}}, Whole(target), 1, 1));
  target.reset();
  EXPECT_EQ(device_->memory_statistics().live_bytes, before + 64);
  EXPECT_OK(gate->Signal(1));
  EXPECT_OK(WaitFor(done.get(), 1));
  EXPECT_EQ(device_->memory_statistics().live_bytes, before);
}

HAL_CASE(QueueDeviceMayBeDroppedWhileWorkIsQueued) {
  Ref<hal::Semaphore> gate = NewSemaphore(), done = NewSemaphore();
  hal::SemaphorePoint wait{gate.get(), 1}, signal{done.get(), 1};
  Counter counter;
  EXPECT_OK(device_->QueueHostCall(0, {{&wait, 1}, {&signal, 1}}, Count(&counter)));
  device_.reset();
  EXPECT_OK(gate->Signal(1));
  auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (done->value() < 1 && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  EXPECT_EQ(done->value(), 1u);
}

HAL_CASE(QueueCallsCheckTheirArguments) {
  Ref<hal::Buffer> a = Allocate(64), b = Allocate(32);
  EXPECT_FAILS(device_->Submit(device_->queue_count(), {}), kOutOfRange, "the device has");
  EXPECT_FAILS(device_->QueueCopy(0, {}, Whole(a), Whole(b)), kInvalidArgument,
               "64 bytes and its target 32");
  EXPECT_FAILS(device_->QueueCopy(0, {}, {a.get(), 40, 32}, Whole(b)), kOutOfRange, "only 64");
  EXPECT_FAILS(device_->QueueCopy(0, {}, {a.get(), 0, 32}, {a.get(), 16, 32}), kInvalidArgument,
               "overlaps itself");
  EXPECT_FAILS(device_->QueueCopy(0, {}, {}, Whole(b)), kInvalidArgument, "no buffer");
  EXPECT_FAILS(device_->QueueFill(0, {}, {a.get(), 2, 8}, 0, 4), kInvalidArgument, "multiples");
  EXPECT_FAILS(device_->QueueFill(0, {}, Whole(a), 0, 3), kInvalidArgument, "3 bytes");
  std::vector<uint8_t> bytes(10);
  EXPECT_FAILS(device_->QueueUpdate(0, {}, bytes, Whole(b)), kInvalidArgument,
               "10 bytes for a target of 32");
  EXPECT_FAILS(device_->QueueHostCall(0, {}, {}), kInvalidArgument, "no function");
  hal::SemaphorePoint none;
  EXPECT_FAILS(device_->QueueFill(0, {{&none, 1}, {}}, Whole(a), 0, 1), kInvalidArgument,
               "A wait names");
  EXPECT_FAILS(device_->QueueFill(0, {{}, {&none, 1}}, Whole(a), 0, 1), kInvalidArgument,
               "A signal names");
}

HAL_CASE(DeviceDescribesItself) {
  EXPECT_FALSE(device_->path().empty());
  EXPECT_GE(device_->queue_count(), 1u);
  EXPECT_OK(device_->health());
  EXPECT_TRUE(device_->capabilities().identity.driver_name.known());
  // What is unknown has no value, and what is known is not 0 where 0 makes no sense.
  hal::VisitFields(device_->capabilities(),
                   [](const hal::FieldView& field) {
                     EXPECT_EQ(field.text.empty(), field.source == hal::Source::kUnknown)
                         << field.name;
                     if (field.name.find("size_bytes") != std::string_view::npos) {
                       EXPECT_NE(field.text, "0") << field.name;
                     }
                   });
  hal::VisitFields(device_->ReadState(), [](const hal::FieldView& field) {
    EXPECT_EQ(field.text.empty(), field.source == hal::Source::kUnknown) << field.name;
  });
  Result<hal::LinkInfo> self = device_->LinkTo(*device_);
  EXPECT_OK(self);
}

}  // namespace
}  // namespace halyard::cts
