// SPDX-License-Identifier: Apache-2.0
// How work of the CUDA driver gets to the streams: what waits on the GPU and what on the host, what
// a replay changes, and what a fault does.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "hal/validation.h"
#include "tests/drivers/cuda/fake_cuda.h"

namespace halyard::drivers::cuda {
namespace {

using hal::CommandRange;

constexpr int64_t kShortNs = 3'000'000;

class CudaQueueTest : public FakeCudaTest {
 protected:
  void SetUp() override {
    FakeCudaTest::SetUp();
    OpenWith({});
  }
  void OpenWith(std::vector<hal::DeviceOption> options) {
    Forget();
    device_ = Open(0, std::move(options)).value();
    executable_ = LoadKernels(device_);
    for (auto& buffer : buffers_) {
      buffer = device_->AllocateBuffer(hal::MemoryKind::kHostVisible, 512).value();
      std::memset(buffer->Map(0, 512).value(), 0, 512);
    }
    timeline_ = device_->CreateSemaphore(0).value();
  }
  void Forget() {
    executable_.reset();
    for (auto& buffer : buffers_) buffer.reset();
    timeline_.reset();
    device_.reset();
  }
  void TearDown() override {
    fake_.hold_streams(0);
    Forget();
    FakeCudaTest::TearDown();
  }

  Ref<hal::Executable> LoadAddScalar(bool waits_itself) {
    std::vector<uint8_t> image = cts::CudaKernels().Image(device_->capabilities());
    image = cts::With(image, sizeof(GpuImageHeader) + offsetof(GpuImageEntry, flags),
                      uint32_t{waits_itself});
    hal::ExecutableSource source;
    source.format = "cuda-image";
    source.code = image;
    return device_->LoadExecutable(source).value();
  }
  // slot 0 -> slot 1 -> slot 2, adding 1 each time; `extra` more from slot 2 to itself.
  Ref<hal::CommandBuffer> RecordChain(int extra = 0) {
    Ref<hal::CommandBuffer> commands = device_->CreateCommandBuffer().value();
    const int64_t one = 1;
    for (uint32_t i = 0; i < 2; ++i) {
      const CommandRange bindings[2] = {CommandRange::Slot(i, 0, 64),
                                        CommandRange::Slot(i + 1, 0, 64)};
      EXPECT_OK(commands->Dispatch(
          AddCommand(executable_.get(), bindings, one, 8, i == 0 ? "first" : "second")));
      EXPECT_OK(commands->Barrier());
    }
    for (int i = 0; i < extra; ++i) {
      const CommandRange bindings[2] = {CommandRange::Slot(2, 0, 64), CommandRange::Slot(2, 0, 64)};
      EXPECT_OK(commands->Dispatch(AddCommand(executable_.get(), bindings, one, 8, "more")));
      EXPECT_OK(commands->Barrier());
    }
    EXPECT_OK(commands->Finish());
    return commands;
  }
  Status Submit(uint32_t queue, hal::CommandBuffer* commands, uint64_t wait, uint64_t signal,
                std::array<size_t, 3> slots = {0, 1, 2}) {
    std::vector<hal::BufferRange> table;
    for (size_t slot : slots) table.push_back(cts::Whole(buffers_[slot]));
    const hal::SemaphorePoint before{timeline_.get(), wait}, after{timeline_.get(), signal};
    return device_->Submit(queue, {{{&before, 1}, {&after, 1}}, commands, table});
  }
  int64_t First(size_t buffer) {
    int64_t value;
    std::memcpy(&value, buffers_[buffer]->Map(0, 8).value(), 8);
    return value;
  }

  Ref<hal::Executable> executable_;
  Ref<hal::Buffer> buffers_[5];
  Ref<hal::Semaphore> timeline_;
};

TEST_F(CudaQueueTest, WaitsForQueuedWorkStayOnTheGpu) {
  Ref<hal::CommandBuffer> commands = RecordChain();
  const long before = fake_.call_count("cuLaunchKernel");
  fake_.hold_streams(1);
  EXPECT_OK(Submit(0, commands.get(), 0, 1));
  EXPECT_OK(Submit(1, commands.get(), 1, 2, {2, 3, 4}));
  EXPECT_OK(Submit(0, commands.get(), 2, 3, {4, 1, 0}));
  // All three are launched although nothing has run.
  EXPECT_EQ(fake_.call_count("cuLaunchKernel"), before + 6);
  EXPECT_EQ(timeline_->value(), 0u);
  EXPECT_FAILS(WaitFor(timeline_.get(), 1, kShortNs), kDeadlineExceeded, "3000000 ns");
  fake_.hold_streams(0);
  EXPECT_OK(WaitFor(timeline_.get(), 3));
  EXPECT_EQ(First(0), 6);
}

TEST_F(CudaQueueTest, OtherWaitsStayOnTheHost) {
  Ref<hal::CommandBuffer> commands = RecordChain();
  const long before = fake_.call_count("cuLaunchKernel");
  EXPECT_OK(Submit(0, commands.get(), 1, 2));
  EXPECT_EQ(fake_.call_count("cuLaunchKernel"), before);
  EXPECT_OK(timeline_->Signal(1));
  EXPECT_EQ(fake_.call_count("cuLaunchKernel"), before + 2);
  EXPECT_OK(WaitFor(timeline_.get(), 2));
  EXPECT_EQ(First(2), 2);
}

TEST_F(CudaQueueTest, AReplayChangesOnlyTheNodesWhoseBuffersChange) {
  OpenWith({{"graph_commands", "1"}});
  Ref<hal::CommandBuffer> commands = RecordChain();
  const auto updates = [&] { return fake_.call_count("cuGraphExecKernelNodeSetParams_v2"); };
  const auto graphs = [&] { return fake_.call_count("cuGraphInstantiateWithFlags"); };
  const long first_updates = updates(), first_graphs = graphs();
  uint64_t value = 0;
  const auto run = [&](std::array<size_t, 3> slots) {
    EXPECT_OK(Submit(0, commands.get(), value, value + 1, slots));
    EXPECT_OK(WaitFor(timeline_.get(), ++value));
  };
  run({0, 1, 2});
  EXPECT_EQ(updates() - first_updates, 0);
  run({0, 1, 2});
  EXPECT_EQ(updates() - first_updates, 0);
  run({3, 1, 2});
  EXPECT_EQ(updates() - first_updates, 1);
  run({3, 0, 2});
  EXPECT_EQ(updates() - first_updates, 3);
  EXPECT_EQ(graphs() - first_graphs, 1);
}

TEST_F(CudaQueueTest, ManySubmissionsOfOneGraphShareAFew) {
  OpenWith({{"graph_commands", "1"}});
  Ref<hal::CommandBuffer> commands = RecordChain();
  const long graphs = fake_.call_count("cuGraphInstantiateWithFlags");
  fake_.hold_streams(1);
  for (uint64_t i = 0; i < 20; ++i) {
    EXPECT_OK(Submit(i % 2, commands.get(), i, i + 1, {2, 1, 2}));
  }
  EXPECT_LE(fake_.call_count("cuGraphInstantiateWithFlags") - graphs, 4);
  fake_.hold_streams(0);
  EXPECT_OK(WaitFor(timeline_.get(), 20));
  EXPECT_EQ(First(2), 40);
}

TEST_F(CudaQueueTest, ARefusedNodeUpdateBuildsANewGraph) {
  OpenWith({{"graph_commands", "1"}});
  Ref<hal::CommandBuffer> commands = RecordChain();
  EXPECT_OK(Submit(0, commands.get(), 0, 1));
  EXPECT_OK(WaitFor(timeline_.get(), 1));
  fake_.fail("cuGraphExecKernelNodeSetParams_v2", 1, 1);
  EXPECT_OK(Submit(0, commands.get(), 1, 2, {2, 3, 4}));
  EXPECT_OK(WaitFor(timeline_.get(), 2));
  EXPECT_EQ(First(4), 4);
}

TEST_F(CudaQueueTest, AFailedLaunchFailsItsSignalsAndNothingElse) {
  Ref<hal::CommandBuffer> commands = RecordChain();
  fake_.fail("cuLaunchKernel", 2, 1);
  EXPECT_OK(Submit(0, commands.get(), 0, 1));
  Status status = WaitFor(timeline_.get(), 1);
  EXPECT_FAILS(status, kInternal, "cuLaunchKernel failed with CUDA_ERROR_INVALID_VALUE");
  EXPECT_FAILS(status, kInternal, "dispatch 'second', kernel 'add_scalar'");
  EXPECT_OK(device_->health());
  timeline_ = device_->CreateSemaphore(0).value();
  EXPECT_OK(Submit(0, commands.get(), 0, 1));
  EXPECT_OK(WaitFor(timeline_.get(), 1));
}

// Slot 1 is too short by far for what the kernel writes.
TEST_F(CudaQueueTest, AFaultLosesTheDeviceAndEverythingPending) {
  Ref<hal::CommandBuffer> commands = device_->CreateCommandBuffer().value();
  const int64_t one = 1;
  const CommandRange bindings[2] = {CommandRange::Slot(0, 0, 64), CommandRange::Slot(1, 0, 64)};
  EXPECT_OK(commands->Dispatch(AddCommand(executable_.get(), bindings, one, 4096, "wild")));
  EXPECT_OK(commands->Finish());
  Ref<hal::Semaphore> pending = device_->CreateSemaphore(0).value();
  const hal::SemaphorePoint wait{timeline_.get(), 1}, signal{pending.get(), 1};
  fake_.hold_streams(1);
  EXPECT_OK(Submit(0, commands.get(), 0, 1));
  EXPECT_OK(device_->QueueFill(1, {{&wait, 1}, {&signal, 1}}, cts::Whole(buffers_[3]), 1, 1));
  fake_.hold_streams(0);
  Status status = WaitFor(timeline_.get(), 1);
  EXPECT_FAILS(status, kDeviceLost, "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_FAILS(status, kDeviceLost, "In flight: the submission of 1 dispatch: 'wild'");
  EXPECT_FAILS(WaitFor(pending.get(), 1), kDeviceLost, "'cuda:0' is lost for this process");
  EXPECT_FAILS(device_->health(), kDeviceLost, "is lost");
  EXPECT_FAILS(device_->AllocateBuffer(hal::MemoryKind::kDevice, 64), kDeviceLost, "is lost");
  EXPECT_FAILS(Submit(0, commands.get(), 0, 2), kDeviceLost, "is lost");
  // Also a wait for what nobody will signal any more.
  Ref<hal::Semaphore> never = device_->CreateSemaphore(0).value();
  EXPECT_FAILS(WaitFor(never.get(), 1), kDeviceLost, "is lost");
}

TEST_F(CudaQueueTest, ValidationNamesTheDispatchAtFault) {
  ScopedVariable validate("HALYARD_VALIDATE", "1");
  OpenWith({{"graph_commands", "1"}});
  Ref<hal::CommandBuffer> commands = device_->CreateCommandBuffer().value();
  const int64_t one = 1;
  const CommandRange bindings[2] = {CommandRange::Slot(0, 0, 64), CommandRange::Slot(1, 0, 64)};
  EXPECT_OK(commands->Dispatch(AddCommand(executable_.get(), bindings, one, 8, "tame")));
  EXPECT_OK(commands->Barrier());
  EXPECT_OK(commands->Dispatch(AddCommand(executable_.get(), bindings, one, 4096, "wild")));
  EXPECT_OK(commands->Barrier());
  EXPECT_OK(commands->Dispatch(AddCommand(executable_.get(), bindings, one, 8, "tame")));
  EXPECT_OK(commands->Finish());
  EXPECT_OK(Submit(0, commands.get(), 0, 1));
  EXPECT_FAILS(WaitFor(timeline_.get(), 1), kDeviceLost,
               "during dispatch 'wild', kernel 'add_scalar'");
}

TEST_F(CudaQueueTest, AWaitThatTimesOutLeavesTheWorkToTheThread) {
  fake_.hold_streams(1);
  Ref<hal::CommandBuffer> commands = RecordChain();
  std::vector<hal::BufferRange> table;
  for (size_t slot : {0, 1, 2}) table.push_back(cts::Whole(buffers_[slot]));
  const hal::SemaphorePoint signal{timeline_.get(), 1};
  // The caller promises to wait, so nobody else is woken at first.
  EXPECT_OK(device_->Submit(0, {{{}, {&signal, 1}, true}, commands.get(), table}));
  EXPECT_FAILS(WaitFor(timeline_.get(), 1, kShortNs), kDeadlineExceeded, "not reached");
  fake_.hold_streams(0);
  auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (timeline_->value() < 1 && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  EXPECT_EQ(timeline_->value(), 1u);
}

// A step of the host before the work takes less than a sleeping thread needs to wake up.
TEST_F(CudaQueueTest, WhoWaitsLooksAtEventsOfWorkThatStartsMeanwhile) {
  OpenWith({{"poll_us", "1000000"}});
  Ref<hal::CommandBuffer> commands = RecordChain();
  EXPECT_OK(Submit(0, commands.get(), 1, 2));
  fake_.hold_streams(1);
  std::atomic<bool> is_over{false};
  std::thread caller([&] {
    EXPECT_OK(WaitFor(timeline_.get(), 2));
    is_over = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const long before = fake_.call_count("cuEventQuery");
  EXPECT_OK(timeline_->Signal(1));
  // Who sleeps looks a few times a second.
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  while (fake_.call_count("cuEventQuery") < before + 100 &&
         std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
  }
  EXPECT_GE(fake_.call_count("cuEventQuery"), before + 100);
  EXPECT_FALSE(is_over);
  fake_.hold_streams(0);
  caller.join();
  EXPECT_EQ(First(2), 2);
}

TEST_F(CudaQueueTest, HostCallsStandBetweenTheWorksOfTheirQueue) {
  Ref<hal::CommandBuffer> commands = RecordChain();
  fake_.hold_streams(1);
  EXPECT_OK(Submit(0, commands.get(), 0, 1));
  struct Context {
    const uint8_t* bytes;
    int64_t seen = -1;
  } context{buffers_[2]->Map(0, 8).value()};
  hal::HostCall call;
  call.context = &context;
  call.function = [](void* raw) {
    auto* context = static_cast<Context*>(raw);
    std::memcpy(&context->seen, context->bytes, sizeof(context->seen));
    return OkStatus();
  };
  Ref<hal::Semaphore> called = device_->CreateSemaphore(0).value();
  const hal::SemaphorePoint signal{called.get(), 1};
  EXPECT_OK(device_->QueueHostCall(0, {{}, {&signal, 1}}, call));
  EXPECT_OK(Submit(0, commands.get(), 0, 2, {2, 3, 2}));
  fake_.hold_streams(0);
  EXPECT_OK(WaitFor(called.get(), 1));
  EXPECT_EQ(context.seen, 2);
  EXPECT_OK(WaitFor(timeline_.get(), 2));
  EXPECT_EQ(First(2), 4);
}

// Kernels that say that they wait themselves are connected by programmatic edges; the option and
// other kernels leave them out.
TEST_F(CudaQueueTest, DependentLaunchIsForKernelsThatSaySo) {
  for (const bool waits_itself : {true, false}) {
    for (const char* option : {"1", "0"}) {
      OpenWith({{"graph_commands", "1"}, {"dependent_launch", option}});
      executable_ = LoadAddScalar(waits_itself);
      const long before = fake_.call_count("cuGraphAddDependencies_v2");
      Ref<hal::CommandBuffer> commands = RecordChain(2);
      EXPECT_OK(Submit(0, commands.get(), 0, 1));
      EXPECT_OK(WaitFor(timeline_.get(), 1));
      EXPECT_EQ(First(2), 4);
      const bool is_on = waits_itself && option[0] == '1';
      EXPECT_EQ(fake_.call_count("cuGraphAddDependencies_v2") - before, is_on ? 3 : 0);
    }
  }
}

// Of 12 kernels the last `late` do not wait themselves.
TEST_F(CudaQueueTest, DependentLaunchIsForRecordingsWithFewKernelsBehindFullEdges) {
  for (const int late : {0, 3, 4}) {
    OpenWith({{"graph_commands", "1"}});
    const Ref<hal::Executable> early = LoadAddScalar(true), other = LoadAddScalar(false);
    Ref<hal::CommandBuffer> commands = device_->CreateCommandBuffer().value();
    const int64_t one = 1;
    for (int i = 0; i < 12; ++i) {
      const CommandRange bindings[2] = {CommandRange::Slot(0, 0, 64), CommandRange::Slot(0, 0, 64)};
      hal::Executable* executable = i < 12 - late ? early.get() : other.get();
      EXPECT_OK(commands->Dispatch(AddCommand(executable, bindings, one, 8, "more")));
      EXPECT_OK(commands->Barrier());
    }
    EXPECT_OK(commands->Finish());
    const long before = fake_.call_count("cuGraphAddDependencies_v2");
    EXPECT_OK(Submit(0, commands.get(), 0, 1));
    EXPECT_OK(WaitFor(timeline_.get(), 1));
    EXPECT_EQ(First(0), 12);
    EXPECT_EQ(fake_.call_count("cuGraphAddDependencies_v2") - before, late > 3 ? 0 : 11 - late);
  }
}

}  // namespace
}  // namespace halyard::drivers::cuda
