// SPDX-License-Identifier: Apache-2.0
// A GPU that stops ending work: everybody who waits is told, nothing that it may still touch goes,
// closing does not wait for it, and what comes late on the host's side is no stall.
#include <thread>

#include "hal/point_wait.h"
#include "tests/drivers/cuda/fake_cuda.h"

namespace halyard::drivers::cuda {
namespace {

using hal::CommandRange;

constexpr char kSays[] =
    "'cuda:0' is lost for this process: Queue 0 ended no work for 1 s, the limit of option "
    "'wait_limit_s'. In flight: the submission of 1 dispatch: 'slow'";

class CudaStallTest : public FakeCudaTest {
 protected:
  void SetUp() override {
    FakeCudaTest::SetUp();
    device_ = Open(0, {{"wait_limit_s", "1"}}).value();
    executable_ = LoadKernels(device_);
    for (auto& buffer : buffers_) {
      buffer = device_->AllocateBuffer(hal::MemoryKind::kHostVisible, 512).value();
    }
    timeline_ = device_->CreateSemaphore(0).value();
    commands_ = device_->CreateCommandBuffer().value();
    const int64_t one = 1;
    const CommandRange bindings[2] = {CommandRange::Slot(0, 0, 64), CommandRange::Slot(1, 0, 64)};
    EXPECT_OK(commands_->Dispatch(AddCommand(executable_.get(), bindings, one, 8, "slow")));
    EXPECT_OK(commands_->Finish());
  }
  void Forget() {
    commands_.reset();
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
  Status Submit(uint64_t wait, uint64_t signal) {
    const hal::BufferRange table[] = {cts::Whole(buffers_[0]), cts::Whole(buffers_[1])};
    const hal::SemaphorePoint before{timeline_.get(), wait}, after{timeline_.get(), signal};
    return device_->Submit(0, {{{&before, 1}, {&after, 1}}, commands_.get(), table});
  }

  Ref<hal::Executable> executable_;
  Ref<hal::Buffer> buffers_[2];
  Ref<hal::Semaphore> timeline_;
  Ref<hal::CommandBuffer> commands_;
};

TEST_F(CudaStallTest, AWaitWithoutALimitEndsAndClosingDoesNotWait) {
  Ref<hal::Semaphore> behind = device_->CreateSemaphore(0).value();
  const hal::SemaphorePoint wait{timeline_.get(), 1}, signal{behind.get(), 1};
  alignas(64) static uint8_t imported[4096];
  bool is_released = false;
  Ref<hal::Buffer> host = device_
                              ->ImportHostMemory({imported, sizeof(imported), false,
                                                  [&is_released] { is_released = true; }})
                              .value();
  fake_.hold_streams(1);
  EXPECT_OK(Submit(0, 1));
  EXPECT_OK(device_->QueueFill(1, {{&wait, 1}, {&signal, 1}}, cts::Whole(host), 1, 1));
  EXPECT_FAILS(WaitFor(timeline_.get(), 1, 50'000'000), kDeadlineExceeded, "50000000 ns");
  EXPECT_FAILS(WaitFor(timeline_.get(), 1, hal::kInfiniteTimeout), kDeviceLost, kSays);
  EXPECT_FAILS(WaitFor(behind.get(), 1, hal::kInfiniteTimeout), kDeviceLost, kSays);
  EXPECT_FAILS(device_->health(), kDeviceLost, kSays);
  EXPECT_FAILS(Submit(0, 2), kDeviceLost, kSays);
  EXPECT_FAILS(device_->AllocateBuffer(hal::MemoryKind::kDevice, 64), kDeviceLost, kSays);
  // Everything is given back, and nothing that the streams still name goes.
  behind.reset();
  host.reset();
  Forget();
  EXPECT_FALSE(is_released);
  char text[512];
  EXPECT_GT(fake_.live_count(text, sizeof(text)), 0);
  // The GPU goes on after all: now it goes.
  fake_.hold_streams(0);
  EXPECT_EQ(fake_.Leaks(), "");
  EXPECT_TRUE(is_released);
}

// Whoever waits elsewhere, as a program over several devices does, is told as well.
TEST_F(CudaStallTest, NobodyNeedWaitForTheDeviceItself) {
  fake_.hold_streams(1);
  EXPECT_OK(Submit(0, 1));
  const hal::SemaphorePoint point{timeline_.get(), 1};
  EXPECT_FAILS(hal::WaitAsleep({&point, 1}, hal::WaitMode::kAll, 60'000'000'000, nullptr),
               kDeviceLost, kSays);
}

TEST_F(CudaStallTest, ALateHostIsNoStall) {
  EXPECT_OK(Submit(1, 2));
  EXPECT_FAILS(WaitFor(timeline_.get(), 2, 1'700'000'000), kDeadlineExceeded, "not reached");
  EXPECT_OK(device_->health());
  EXPECT_OK(timeline_->Signal(1));
  EXPECT_OK(WaitFor(timeline_.get(), 2));
  // Nor is a host call that takes its time.
  hal::HostCall call;
  call.function = [](void*) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    return OkStatus();
  };
  const hal::SemaphorePoint called{timeline_.get(), 3};
  EXPECT_OK(device_->QueueHostCall(0, {{}, {&called, 1}}, call));
  EXPECT_OK(Submit(3, 4));
  EXPECT_OK(WaitFor(timeline_.get(), 4));
}

TEST_F(CudaStallTest, WithoutALimitItWaits) {
  Forget();
  device_ = Open(0, {{"wait_limit_s", "0"}}).value();
  timeline_ = device_->CreateSemaphore(0).value();
  Ref<hal::Buffer> buffer = device_->AllocateBuffer(hal::MemoryKind::kDevice, 64).value();
  const hal::SemaphorePoint signal{timeline_.get(), 1};
  fake_.hold_streams(1);
  EXPECT_OK(device_->QueueFill(0, {{}, {&signal, 1}}, cts::Whole(buffer), 1, 1));
  EXPECT_FAILS(WaitFor(timeline_.get(), 1, 1'700'000'000), kDeadlineExceeded, "not reached");
  fake_.hold_streams(0);
  EXPECT_OK(WaitFor(timeline_.get(), 1));
}

}  // namespace
}  // namespace halyard::drivers::cuda
