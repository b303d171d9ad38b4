// SPDX-License-Identifier: Apache-2.0
// What the conformance suite cannot ask of every device: unaligned copies, waits inside the
// hardware, options, limits and a device that is lost.
#include <algorithm>
#include <numeric>
#include <thread>

#include "drivers/cpu/driver.h"
#include "drivers/vulkan/instance.h"
#include "drivers/vulkan/spirv_builder.h"
#include "tests/drivers/vulkan/vulkan_fixture.h"

namespace halyard::drivers::vulkan {
namespace {

using hal::CommandRange;

class VulkanDeviceTest : public VulkanTest {
 protected:
  // add_scalar over `count` numbers, from slot 0 to slot 1.
  Ref<hal::CommandBuffer> RecordAdd(const Ref<hal::Executable>& executable, int64_t scalar,
                                    int64_t count) {
    Ref<hal::CommandBuffer> commands = Must(device_->CreateCommandBuffer());
    const CommandRange bindings[] = {CommandRange::Slot(0, 0, 8 * count),
                                     CommandRange::Slot(1, 0, 8 * count)};
    hal::DispatchCommand command;
    command.executable = executable.get();
    command.entry = 0;
    command.grid[0] = count;
    command.bindings = bindings;
    command.scalars = {&scalar, 1};
    command.label = "add";
    EXPECT_OK(commands->Dispatch(command));
    EXPECT_OK(commands->Finish());
    return commands;
  }
};

TEST_F(VulkanDeviceTest, CopiesAndFillsOfEveryAlignment) {
  Use();
  constexpr int64_t kBytes = 70000;
  const std::vector<uint8_t> from = RandomBytes(kBytes, 1), before = RandomBytes(kBytes, 2);
  Ref<hal::Buffer> source = Upload(from);
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    Ref<hal::Buffer> target = Upload(before);
    std::vector<uint8_t> expected = before;
    // Multiples of 16, of 4, and anything.
    const int64_t unit = round % 3 == 0 ? 16 : round % 3 == 1 ? 4 : 1;
    auto draw = [&](int64_t below) {
      return static_cast<int64_t>(random()) % (below / unit) * unit;
    };
    int64_t size = draw(round % 2 ? 200 : 30000) + unit;
    int64_t at = draw(kBytes / 2 - size), to = draw(kBytes / 2 - size);
    std::copy_n(from.begin() + at, size, expected.begin() + to);
    const uint32_t pattern_bytes = uint32_t{1} << random() % 4;
    const uint64_t pattern = uint64_t{random()} << 32 | random();
    int64_t fill_size = (draw(20000) + unit) / pattern_bytes * pattern_bytes;
    int64_t fill_at = (kBytes / 2 + draw(10000) + 8) / pattern_bytes * pattern_bytes;
    for (int64_t i = 0; i < fill_size; ++i) {
      expected[static_cast<size_t>(fill_at + i)] =
          static_cast<uint8_t>(pattern >> 8 * (static_cast<uint64_t>(i) % pattern_bytes));
    }
    const bool is_recorded = round % 4 < 2, is_slot = round % 4 == 0;
    Ref<hal::Semaphore> done = NewSemaphore();
    hal::SemaphorePoint points[] = {{done.get(), 1}, {done.get(), 2}};
    if (is_recorded) {
      Ref<hal::CommandBuffer> commands = Must(device_->CreateCommandBuffer());
      auto range = [&](uint32_t slot, hal::Buffer* buffer, int64_t offset, int64_t bytes) {
        return is_slot ? CommandRange::Slot(slot, offset, bytes)
                       : CommandRange::Direct(buffer, offset, bytes);
      };
      EXPECT_OK(commands->Copy(range(0, source.get(), at, size), range(1, target.get(), to, size)));
      EXPECT_OK(commands->Fill(range(1, target.get(), fill_at, fill_size), pattern, pattern_bytes));
      EXPECT_OK(commands->Finish());
      hal::BufferRange table[] = {{source.get(), 0, kBytes}, {target.get(), 0, kBytes}};
      EXPECT_OK(device_->Submit(0, {{{}, {&points[1], 1}}, commands.get(), table}));
    } else {
      EXPECT_OK(device_->QueueCopy(0, {{}, {&points[0], 1}}, {source.get(), at, size},
                                   {target.get(), to, size}));
      EXPECT_OK(device_->QueueFill(0, {{&points[0], 1}, {&points[1], 1}},
                                   {target.get(), fill_at, fill_size}, pattern, pattern_bytes));
    }
    EXPECT_OK(WaitFor(done, 2));
    ASSERT_EQ(Download(target), expected) << "round " << round;
  }
}

// A long chain over several queues, queued before any of it can run: the hardware does the waiting,
// and nobody waits on the host until the end.
TEST_F(VulkanDeviceTest, ChainsRunInsideTheHardware) {
  for (const char* options : {"?queues=1", "?queues=3"}) {
    Use(options);
    Ref<hal::Executable> executable = LoadTestKernels();
    Ref<hal::CommandBuffer> commands = RecordAdd(executable, 1, 100);
    std::vector<int64_t> zeros(100, 0);
    Ref<hal::Buffer> a = UploadNumbers(zeros), b = UploadNumbers(zeros);
    Ref<hal::Semaphore> timeline = NewSemaphore();
    constexpr uint64_t kSteps = 300;
    // The gate comes last, so that everything is queued first.
    for (uint64_t step = 1; step <= kSteps; ++step) {
      hal::BufferRange table[] = {{step % 2 ? a.get() : b.get(), 0, 800},
                                  {step % 2 ? b.get() : a.get(), 0, 800}};
      hal::SemaphorePoint wait{timeline.get(), step}, signal{timeline.get(), step + 1};
      EXPECT_OK(device_->Submit(static_cast<uint32_t>(step) % device_->queue_count(),
                                {{{&wait, 1}, {&signal, 1}}, commands.get(), table}));
    }
    EXPECT_EQ(timeline->value(), 0u);
    EXPECT_OK(timeline->Signal(1));
    EXPECT_OK(WaitFor(timeline, kSteps + 1));
    EXPECT_EQ(DownloadNumbers(a), std::vector<int64_t>(100, kSteps)) << options;
  }
}

TEST_F(VulkanDeviceTest, AReportedFailureReachesWorkThatTheHardwareHeldBack) {
  Use();
  Ref<hal::Executable> executable = LoadTestKernels();
  const int64_t data[] = {1, 2, 3, 4}, bad_index[] = {0, 1, 7, 2};
  Ref<hal::Buffer> values = UploadNumbers(data), indices = UploadNumbers(bad_index);
  Ref<hal::Buffer> out = UploadNumbers(data);
  Ref<hal::CommandBuffer> gather = Must(device_->CreateCommandBuffer());
  const CommandRange ranges[] = {CommandRange::Direct(values.get(), 0, 32),
                                 CommandRange::Direct(indices.get(), 0, 32),
                                 CommandRange::Direct(out.get(), 0, 32)};
  const int64_t extent = 4;
  hal::DispatchCommand command;
  command.executable = executable.get();
  command.entry = 1;
  command.grid[0] = 4;
  command.bindings = ranges;
  command.scalars = {&extent, 1};
  command.label = "look-up";
  EXPECT_OK(gather->Dispatch(command));
  EXPECT_OK(gather->Finish());
  Ref<hal::CommandBuffer> add = RecordAdd(executable, 1, 4);
  Ref<hal::Semaphore> gate = NewSemaphore(), first = NewSemaphore(), second = NewSemaphore();
  Ref<hal::Semaphore> beside = NewSemaphore();
  hal::SemaphorePoint open{gate.get(), 1}, after_first{first.get(), 1};
  hal::SemaphorePoint after_second{second.get(), 1}, after_beside{beside.get(), 1};
  hal::BufferRange table[] = {{out.get(), 0, 32}, {values.get(), 0, 32}};
  EXPECT_OK(device_->Submit(0, {{{&after_first, 1}, {&after_second, 1}}, add.get(), table}));
  EXPECT_OK(device_->Submit(0, {{{&open, 1}, {&after_first, 1}}, gather.get(), {}}));
  EXPECT_OK(device_->Submit(0, {{{&open, 1}, {&after_beside, 1}}, add.get(), table}));
  EXPECT_OK(gate->Signal(1));
  EXPECT_FAILS(WaitFor(second, 1), kOutOfRange, "Index 7 is outside an extent of 4");
  EXPECT_FAILS(WaitFor(first, 1), kOutOfRange, "dispatch 'look-up'");
  EXPECT_OK(WaitFor(beside, 1));
}

TEST_F(VulkanDeviceTest, SemaphoresOfOtherDevicesReleaseWorkAndAreReleased) {
  Use();
  hal::DriverRegistry registry;
  EXPECT_OK(registry.Register("cpu", &cpu::OpenCpuDriver));
  Ref<hal::Device> cpu = Must(registry.OpenDevice("cpu"));
  const std::vector<uint8_t> zeros(64, 0);
  Ref<hal::Buffer> buffer = Upload(zeros);
  Ref<hal::Semaphore> theirs = Must(cpu->CreateSemaphore(0)), ours = NewSemaphore();
  Ref<hal::Semaphore> last = Must(cpu->CreateSemaphore(0));
  hal::SemaphorePoint their_point{theirs.get(), 1}, our_point{ours.get(), 1};
  hal::SemaphorePoint last_point{last.get(), 1};
  // cpu -> vulkan -> cpu, queued backwards.
  EXPECT_OK(cpu->Submit(0, {{{&our_point, 1}, {&last_point, 1}}, nullptr, {}}));
  EXPECT_OK(
      device_->QueueFill(0, {{&their_point, 1}, {&our_point, 1}}, {buffer.get(), 0, 64}, 9, 1));
  EXPECT_EQ(last->value(), 0u);
  EXPECT_OK(cpu->Submit(0, {{{}, {&their_point, 1}}, nullptr, {}}));
  EXPECT_OK(cpu->Wait({&last_point, 1}, hal::WaitMode::kAll, int64_t{60'000'000'000}));
  EXPECT_EQ(Download(buffer), std::vector<uint8_t>(64, 9));
}

TEST_F(VulkanDeviceTest, HostCallsAndNativeWorkOfOneQueueDoNotOverlap) {
  Use("?queues=1");
  constexpr int kRounds = 50;
  const std::vector<int64_t> zero(1, 0);
  Ref<hal::Buffer> buffer =
      Must(device_->AllocateBuffer(hal::MemoryKind::kHostVisible, int64_t{8 * kRounds}));
  struct Seen {
    Ref<hal::Buffer> buffer;
    int64_t* numbers;
    int round;
    bool is_torn = false;
  };
  auto* numbers = reinterpret_cast<int64_t*>(Must(buffer->Map(0, buffer->size_bytes())));
  std::fill_n(numbers, kRounds, -1);
  std::vector<Seen> seen;
  for (int i = 0; i < kRounds; ++i) seen.push_back({buffer, numbers, i});
  Ref<hal::Semaphore> done = NewSemaphore(), filled = NewSemaphore();
  for (int i = 0; i < kRounds; ++i) {
    // Independent but for the queue: whichever comes first, neither sees the other half-way.
    hal::SemaphorePoint fill_signal{filled.get(), static_cast<uint64_t>(i) + 1};
    hal::SemaphorePoint fill_wait{filled.get(), static_cast<uint64_t>(i)};
    hal::SemaphorePoint call_signal{done.get(), static_cast<uint64_t>(i) + 1};
    hal::SemaphorePoint call_wait{done.get(), static_cast<uint64_t>(i)};
    EXPECT_OK(device_->QueueFill(0, {{&fill_wait, 1}, {&fill_signal, 1}},
                                 {buffer.get(), 0, 8 * kRounds}, static_cast<uint64_t>(i), 8));
    hal::HostCall call;
    call.context = &seen[static_cast<size_t>(i)];
    call.function = [](void* context) {
      auto* s = static_cast<Seen*>(context);
      for (int n = 1; n < kRounds; ++n) s->is_torn |= s->numbers[n] != s->numbers[0];
      return OkStatus();
    };
    EXPECT_OK(device_->QueueHostCall(0, {{&call_wait, 1}, {&call_signal, 1}}, call));
  }
  EXPECT_OK(WaitFor(done, kRounds));
  EXPECT_OK(WaitFor(filled, kRounds));
  for (const Seen& s : seen) EXPECT_FALSE(s.is_torn);
}

// More arguments than push constants hold: the module itself expects a block.
TEST_F(VulkanDeviceTest, KernelsWithManyArguments) {
  Use();
  constexpr uint32_t kScalars = 40;
  // Like add_scalar, but it adds all scalars; its one push constant is the block's address.
  SpirvBuilder b("sum", 1, 1);
  auto wide = b.Uint(64);
  auto argument = [&](uint32_t i) {
    auto place = b.Op(spv::OpIAdd, wide, {b.Argument(0), b.Constant64(8 * uint64_t{i})});
    return b.LoadFrom(place, wide, 8);
  };
  auto sum = b.Constant64(0);
  for (uint32_t i = 0; i < kScalars; ++i) {
    sum =
        b.Op(spv::OpIAdd, wide, {b.Op(spv::OpIMul, wide, {sum, b.Constant64(3)}), argument(1 + i)});
  }
  b.StoreTo(argument(0), wide, sum, 8);
  std::vector<uint32_t> words = b.Finish();
  GpuImage image;
  GpuKernel kernel;
  kernel.name = "sum";
  kernel.module = {reinterpret_cast<const uint8_t*>(words.data()), 4 * words.size()};
  kernel.binding_count = 1;
  kernel.scalar_count = kScalars;
  image.kernels.push_back(kernel);
  std::vector<uint8_t> code = WriteGpuImage(image);
  hal::ExecutableSource source;
  source.format = "spirv-image";
  source.code = code;
  Ref<hal::Executable> executable = Must(device_->LoadExecutable(source));
  const int64_t zero[] = {0};
  Ref<hal::Buffer> out = UploadNumbers(zero);
  std::vector<int64_t> scalars(kScalars);
  std::mt19937 random(11);
  uint64_t expected = 0;
  for (int64_t& scalar : scalars) {
    scalar = static_cast<int64_t>(random());
    expected = 3 * expected + static_cast<uint64_t>(scalar);
  }
  Ref<hal::CommandBuffer> commands = Must(device_->CreateCommandBuffer());
  const CommandRange binding = CommandRange::Slot(0, 0, 8);
  hal::DispatchCommand command;
  command.executable = executable.get();
  command.bindings = {&binding, 1};
  command.scalars = scalars;
  EXPECT_OK(commands->Dispatch(command));
  EXPECT_OK(commands->Finish());
  Ref<hal::Semaphore> done = NewSemaphore();
  hal::SemaphorePoint signal{done.get(), 1};
  hal::BufferRange table{out.get(), 0, 8};
  EXPECT_OK(device_->Submit(0, {{{}, {&signal, 1}}, commands.get(), {&table, 1}}));
  EXPECT_OK(WaitFor(done, 1));
  EXPECT_EQ(static_cast<uint64_t>(DownloadNumbers(out)[0]), expected);
}

TEST_F(VulkanDeviceTest, GridsBeyondTheDevicesLimitAreRefused) {
  Use();
  Ref<hal::Executable> executable = LoadTestKernels();
  Ref<hal::CommandBuffer> commands = Must(device_->CreateCommandBuffer());
  const CommandRange ranges[] = {CommandRange::Slot(0, 0, 8), CommandRange::Slot(1, 0, 8)};
  const int64_t scalar = 0;
  hal::DispatchCommand command;
  command.executable = executable.get();
  command.grid[1] = device_->capabilities().compute.max_grid_y.value + 1;
  command.bindings = ranges;
  command.scalars = {&scalar, 1};
  command.label = "tall";
  EXPECT_FAILS(commands->Dispatch(command), kOutOfRange, "Dispatch 'tall' has a grid of 1 x ");
  EXPECT_EQ(commands->dispatch_count(), 0u);
}

TEST_F(VulkanDeviceTest, OptionsAndOrdinalsAreChecked) {
  EXPECT_FAILS(Open("?threads=2"), kInvalidArgument,
               "no option 'threads'; it has: queues, memory_limit, spin_us, wait_limit_s.");
  EXPECT_FAILS(Open("?queues=65"), kInvalidArgument, "whole number from 0 to 64");
  hal::DriverRegistry registry;
  EXPECT_OK(registry.Register("vulkan", &OpenVulkanDriver));
  EXPECT_FAILS(registry.OpenDevice("vulkan:99"), kNotFound, "There is no Vulkan device 99");
  Use("?queues=5");
  EXPECT_EQ(device_->queue_count(), 5u);
}

TEST_F(VulkanDeviceTest, DevicesListedAreThoseThatOpen) {
  hal::DriverRegistry registry;
  EXPECT_OK(registry.Register("vulkan", &OpenVulkanDriver));
  Ref<hal::Driver> driver = Must(registry.Open("vulkan"));
  std::vector<hal::DeviceInfo> infos = Must(driver->EnumerateDevices());
  ASSERT_FALSE(infos.empty());
  for (const hal::DeviceInfo& info : infos) {
    Ref<hal::Device> device = Must(registry.OpenDevice(info.path));
    EXPECT_EQ(device->path(), info.path);
    EXPECT_EQ(device->capabilities().identity.name.value, info.name);
    EXPECT_EQ(device->capabilities().identity.uuid.value, info.uuid);
    EXPECT_TRUE(device->capabilities().compute.gpu_features.known());
    EXPECT_EQ(device->capabilities().executable_formats, std::vector<std::string>{"spirv-image"});
  }
}

TEST_F(VulkanDeviceTest, TheMemoryLimitIsKept) {
  Use("?memory_limit=1000000");
  EXPECT_EQ(device_->memory_statistics().limit_bytes, 1000000);
  Ref<hal::Buffer> most = Must(device_->AllocateBuffer(hal::MemoryKind::kDevice, 900000));
  EXPECT_FAILS(
      device_->AllocateBuffer(hal::MemoryKind::kDevice, 100001), kOutOfMemory,
      "A buffer of 100001 bytes does not fit 'vulkan:0': 100000 of 1000000 bytes are left");
  EXPECT_OK(device_->AllocateBuffer(hal::MemoryKind::kStaging, 100000));
  most.reset();
  EXPECT_OK(device_->AllocateBuffer(hal::MemoryKind::kDevice, 1000000));
}

TEST_F(VulkanDeviceTest, ManyBuffersComeAndGo) {
  Use();
  std::mt19937 random(13);
  std::vector<std::pair<Ref<hal::Buffer>, uint8_t>> live;
  for (int step = 0; step < 400; ++step) {
    if (live.size() < 40 && random() % 3 != 0) {
      int64_t size = random() % 8 == 0 ? static_cast<int64_t>(random() % 9000000)
                                       : static_cast<int64_t>(random() % 5000);
      auto kind = random() % 2 ? hal::MemoryKind::kHostVisible : hal::MemoryKind::kStaging;
      Ref<hal::Buffer> buffer = Must(device_->AllocateBuffer(kind, size));
      auto mark = static_cast<uint8_t>(random());
      std::memset(Must(buffer->Map(0, size)), mark, static_cast<size_t>(size));
      live.push_back({buffer, mark});
    } else if (!live.empty()) {
      size_t i = random() % live.size();
      const Ref<hal::Buffer>& buffer = live[i].first;
      const uint8_t* bytes = Must(buffer->Map(0, buffer->size_bytes()));
      ASSERT_TRUE(std::all_of(bytes, bytes + buffer->size_bytes(),
                              [&](uint8_t byte) { return byte == live[i].second; }));
      live[i] = live.back();
      live.pop_back();
    }
  }
  live.clear();
  EXPECT_EQ(device_->memory_statistics().live_bytes, 0);
}

// Everything that is queued gets the failure, whatever it waits for, and every later call too.
TEST_F(VulkanDeviceTest, ALostDeviceFailsEverythingAndHangsNothing) {
  // The first three submissions are the uploads.
  Use("?lose_at=10&queues=2");
  Ref<hal::Executable> executable = LoadTestKernels();
  Ref<hal::CommandBuffer> commands = RecordAdd(executable, 1, 100);
  std::vector<int64_t> zeros(100, 0);
  Ref<hal::Buffer> a = UploadNumbers(zeros), b = UploadNumbers(zeros);
  hal::BufferRange table[] = {{a.get(), 0, 800}, {b.get(), 0, 800}};
  Ref<hal::Semaphore> timeline = NewSemaphore();
  Ref<hal::Semaphore> called = NewSemaphore(), never = NewSemaphore(), behind = NewSemaphore();
  for (uint64_t step = 0; step < 50; ++step) {
    hal::SemaphorePoint wait{timeline.get(), step}, signal{timeline.get(), step + 1};
    Status status = device_->Submit(static_cast<uint32_t>(step % 2),
                                    {{{&wait, 1}, {&signal, 1}}, commands.get(), table});
    if (!status.ok()) {
      EXPECT_EQ(status.code(), StatusCode::kDeviceLost);
      timeline->Fail(status);
      break;
    }
  }
  EXPECT_FAILS(WaitFor(timeline, 50), kDeviceLost, "'vulkan:0' was lost at its submission 10");
  EXPECT_FAILS(device_->health(), kDeviceLost, "submission 10");
  EXPECT_FAILS(device_->AllocateBuffer(hal::MemoryKind::kDevice, 1), kDeviceLost, "submission 10");
  EXPECT_FAILS(device_->QueueFill(0, {}, {a.get(), 0, 8}, 0, 8), kDeviceLost, "submission 10");
  EXPECT_FAILS(device_->CreateCommandBuffer(), kDeviceLost, "submission 10");
  // The host goes on with another device.
  Ref<hal::Device> lost = device_;
  Use();
  EXPECT_EQ(DownloadNumbers(UploadNumbers(zeros)), zeros);
}

TEST_F(VulkanDeviceTest, WorkThatWaitsForTheHostWhenTheDeviceIsLostFails) {
  Use("?lose_at=1");
  Ref<hal::Buffer> buffer = Must(device_->AllocateBuffer(hal::MemoryKind::kDevice, 64));
  Ref<hal::Semaphore> gate = NewSemaphore(), gated = NewSemaphore(), lost = NewSemaphore();
  Ref<hal::Semaphore> called = NewSemaphore();
  hal::SemaphorePoint open{gate.get(), 1}, gated_one{gated.get(), 1}, lost_one{lost.get(), 1};
  hal::SemaphorePoint called_one{called.get(), 1};
  EXPECT_OK(device_->QueueFill(0, {{&open, 1}, {&gated_one, 1}}, {buffer.get(), 0, 64}, 0, 1));
  hal::HostCall call;
  call.function = [](void*) { return OkStatus(); };
  EXPECT_OK(device_->QueueHostCall(0, {{&gated_one, 1}, {&called_one, 1}}, call));
  EXPECT_OK(device_->QueueFill(0, {{}, {&lost_one, 1}}, {buffer.get(), 0, 64}, 0, 1));
  EXPECT_FAILS(WaitFor(lost, 1), kDeviceLost, "submission 1");
  EXPECT_OK(gate->Signal(1));
  EXPECT_FAILS(WaitFor(called, 1), kDeviceLost, "submission 1");
  EXPECT_FAILS(WaitFor(gated, 1), kDeviceLost, "submission 1");
}

// No thread of ours may run while nothing is queued: the process's CPU time stands still.
TEST_F(VulkanDeviceTest, NothingRunsWhileNothingIsQueued) {
  Use();
  std::vector<int64_t> zeros(100, 0);
  EXPECT_EQ(DownloadNumbers(UploadNumbers(zeros)), zeros);
  auto cpu_seconds = [] {
    timespec time = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(cpu_seconds() - before, 0.1);
}

}  // namespace
}  // namespace halyard::drivers::vulkan
