// SPDX-License-Identifier: Apache-2.0
// What is particular to the CPU driver: options, capabilities, who runs work and who is woken.
#include "drivers/cpu/device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/cpu_kernel_abi.h"
#include "drivers/cpu/driver.h"
#include "drivers/cpu/executor.h"
#include "drivers/cpu/scheduler.h"

namespace halyard::drivers::cpu {
namespace {

Ref<CpuDevice> Open(CpuOptions options = {}) {
  Result<Ref<CpuDevice>> device = CpuDevice::Open(options);
  EXPECT_TRUE(device.ok()) << device.status().ToString();
  return *device;
}

TEST(CpuOptions, ParsesAndRefuses) {
  const hal::DeviceOption good[] = {{"threads", "2"}, {"discrete", "7"}, {"numa", "-1"}};
  Result<CpuOptions> options = ParseCpuOptions(good);
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->threads, 2);
  EXPECT_EQ(options->discrete, 7);
  const hal::DeviceOption unknown[] = {{"thread", "2"}};
  EXPECT_NE(ParseCpuOptions(unknown).status().message().find(
                "no option 'thread'; it has: threads, queues, memory_bytes, spin_us, numa."),
            std::string::npos);
  for (const char* value : {"", "two", "2x", "-1", "5000"}) {
    const hal::DeviceOption bad[] = {{"threads", value}};
    EXPECT_EQ(ParseCpuOptions(bad).status().code(), StatusCode::kInvalidArgument) << value;
  }
}

TEST(CpuDriver, ListsOneDevice) {
  Ref<hal::Driver> driver = OpenCpuDriver().value();
  Result<std::vector<hal::DeviceInfo>> devices = driver->EnumerateDevices();
  ASSERT_TRUE(devices.ok());
  ASSERT_EQ(devices->size(), 1u);
  EXPECT_EQ((*devices)[0].path, "cpu:0");
  EXPECT_EQ(driver->CreateDevice(1, {}).status().code(), StatusCode::kNotFound);
  const hal::DeviceOption node[] = {{"numa", "900"}};
  EXPECT_EQ(driver->CreateDevice(0, node).status().code(), StatusCode::kNotFound);
}

TEST(CpuDevice, CapabilitiesHaveTheEssentials) {
  Ref<CpuDevice> device = Open();
  const hal::Capabilities& caps = device->capabilities();
  EXPECT_EQ(caps.identity.type.value, hal::DeviceType::kCpu);
  EXPECT_GE(caps.compute.usable_worker_count.value, 1);
  EXPECT_LE(caps.compute.usable_worker_count.value, caps.compute.affinity_thread_count.value);
  EXPECT_GT(caps.memory.total_bytes.value, 0);
  EXPECT_EQ(caps.memory.buffer_alignment.value, 64);
#if defined(__x86_64__)
  EXPECT_TRUE(caps.compute.cpu_features.known());
  EXPECT_TRUE(caps.compute.vector_bytes.value == 16 || caps.compute.vector_bytes.value == 32 ||
              caps.compute.vector_bytes.value == 64);
#endif
  EXPECT_NE(hal::FormatCapabilities(caps).find("compute.usable_worker_count = "),
            std::string::npos);
}

TEST(CpuDevice, FeaturesCanBeNarrowed) {
  CpuOptions options;
  options.feature_mask = static_cast<uint64_t>(CpuFeature::kSse42);
  Ref<CpuDevice> device = Open(options);
  EXPECT_EQ(device->capabilities().compute.cpu_features.value & ~options.feature_mask, 0u);
  EXPECT_EQ(device->capabilities().compute.vector_bytes.value, 16);
}

TEST(CpuDevice, MemoryLimitIsKept) {
  CpuOptions options;
  options.memory_bytes = 1000;
  Ref<CpuDevice> device = Open(options);
  Result<Ref<hal::Buffer>> first = device->AllocateBuffer(hal::MemoryKind::kDevice, 600);
  ASSERT_TRUE(first.ok());
  Result<Ref<hal::Buffer>> second = device->AllocateBuffer(hal::MemoryKind::kDevice, 401);
  EXPECT_EQ(second.status().message(),
            "A buffer of 401 bytes does not fit 'cpu:0': 400 of 1000 bytes are left.");
  EXPECT_TRUE(device->AllocateBuffer(hal::MemoryKind::kDevice, 400).ok());
  EXPECT_FALSE(device->AllocateBuffer(hal::MemoryKind::kStaging, 401).ok());
}

// Its staging memory is the host's, which the limit of its own says nothing about.
TEST(CpuDevice, TheLimitOfADeviceWithMemoryOfItsOwnIsForThatOnly) {
  CpuOptions options;
  options.memory_bytes = 1000;
  options.synthetic = 1;
  Ref<CpuDevice> device = Open(options);
  {
    Result<Ref<hal::Buffer>> own = device->AllocateBuffer(hal::MemoryKind::kDevice, 600);
    ASSERT_TRUE(own.ok());
    Result<Ref<hal::Buffer>> staging = device->AllocateBuffer(hal::MemoryKind::kStaging, 5000);
    ASSERT_TRUE(staging.ok()) << staging.status().ToString();
    EXPECT_EQ(device->AllocateBuffer(hal::MemoryKind::kDevice, 401).status().message(),
              "A buffer of 401 bytes does not fit 'cpu:0': 400 of 1000 bytes are left.");
    EXPECT_EQ(device->memory_statistics().live_bytes, 5600);
  }
  EXPECT_EQ(device->memory_statistics().live_bytes, 0);
  EXPECT_EQ(device->memory_statistics().peak_bytes, 5600);
  EXPECT_TRUE(device->AllocateBuffer(hal::MemoryKind::kDevice, 1000).ok());
}

// No thread fills 32 MiB in less than 0.3 ms, so a device of a hundredth of the speed needs 30 ms.
TEST(CpuDevice, TheClockOfASlowDeviceIsSlow) {
  constexpr int64_t kBytes = 32 << 20;
  constexpr double kLeastSeconds = 0.03;
  CpuOptions options;
  options.threads = 1;
  options.speed_percent = 1;
  Ref<CpuDevice> device = Open(options);
  Ref<hal::Buffer> buffer = device->AllocateBuffer(hal::MemoryKind::kDevice, kBytes).value();
  Ref<hal::CommandBuffer> commands = device->CreateCommandBuffer().value();
  ASSERT_TRUE(commands->Fill(hal::CommandRange::Direct(buffer.get(), 0, kBytes), 1, 4).ok());
  ASSERT_TRUE(commands->Finish().ok());
  Ref<hal::Semaphore> timeline = device->CreateSemaphore(0).value();
  for (uint64_t i = 0; i < 2; ++i) {  // the first run touches the memory
    const hal::SemaphorePoint wait{timeline.get(), i}, signal{timeline.get(), i + 1};
    const auto time = MakeRef<hal::CommandTime>();
    hal::SubmitInfo info;
    info.ordering = {{&wait, 1}, {&signal, 1}, true};
    info.commands = commands.get();
    info.time = time.get();
    ASSERT_TRUE(device->Submit(0, info).ok());
    ASSERT_TRUE(
        device->Wait({&signal, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout, nullptr).ok());
    EXPECT_GE(static_cast<double>(time->nanoseconds()) * 1e-9, kLeastSeconds);
  }
}

// The caller runs its own work: no thread is started and nobody is woken.
TEST(CpuScheduler, SubmitAndWaitWakesNobody) {
  Ref<CpuDevice> device = Open();
  Ref<hal::Semaphore> timeline = device->CreateSemaphore(0).value();
  std::thread::id ran_on;
  hal::HostCall call;
  call.context = &ran_on;
  call.function = [](void* context) {
    *static_cast<std::thread::id*>(context) = std::this_thread::get_id();
    return OkStatus();
  };
  for (uint64_t i = 0; i < 100; ++i) {
    hal::SemaphorePoint wait{timeline.get(), i}, signal{timeline.get(), i + 1};
    ASSERT_TRUE(device->QueueHostCall(0, {{&wait, 1}, {&signal, 1}, true}, call).ok());
    ASSERT_TRUE(
        device->Wait({&signal, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout, nullptr).ok());
    ASSERT_EQ(ran_on, std::this_thread::get_id());
  }
  EXPECT_EQ(device->scheduler().wake_count(), 0);
  EXPECT_EQ(device->scheduler().background_thread_count(), 0);
}

TEST(CpuScheduler, WorksOfOneQueueDoNotOverlap) {
  CpuOptions options;
  options.queues = 2;
  Ref<CpuDevice> device = Open(options);
  struct Inside {
    std::atomic<int> now{0};
    std::atomic<int> most{0};
  } inside;
  hal::HostCall call;
  call.context = &inside;
  call.function = [](void* context) {
    auto* inside = static_cast<Inside*>(context);
    int now = ++inside->now;
    if (now > inside->most) inside->most = now;
    std::this_thread::yield();
    --inside->now;
    return OkStatus();
  };
  std::vector<Ref<hal::Semaphore>> semaphores;
  std::vector<hal::SemaphorePoint> points;
  points.reserve(50);
  for (int i = 0; i < 50; ++i) {
    semaphores.push_back(device->CreateSemaphore(0).value());
    points.push_back({semaphores.back().get(), 1});
    ASSERT_TRUE(device->QueueHostCall(1, {{}, {&points.back(), 1}}, call).ok());
  }
  ASSERT_TRUE(device->Wait(points, hal::WaitMode::kAll, hal::kInfiniteTimeout, nullptr).ok());
  EXPECT_EQ(inside.most, 1);
}

TEST(CpuExecutor, CoversEveryElementOnce) {
  for (int concurrency : {1, 2}) {
    std::unique_ptr<Executor> executor = MakeExecutor(concurrency, {}).value();
    EXPECT_EQ(executor->concurrency(), concurrency);
    for (int64_t count : {0, 1, 7, 1000, 100003}) {
      for (int64_t grain : {1, 64, 200000}) {
        std::vector<std::atomic<uint8_t>> hits(static_cast<size_t>(count));
        auto body = [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
        };
        executor->ParallelFor(count, grain, MakeRangeBody(body));
        for (auto& hit : hits) ASSERT_EQ(hit, 1);
      }
    }
  }
}

TEST(CpuExecutor, LoopsFromSeveralThreadsAtOnce) {
  std::unique_ptr<Executor> executor = MakeExecutor(2, {}).value();
  std::atomic<int64_t> total{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        auto body = [&](int64_t begin, int64_t end) { total += end - begin; };
        executor->ParallelFor(100, 1, MakeRangeBody(body));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(total, 4 * 50 * 100);
}

}  // namespace
}  // namespace halyard::drivers::cpu
