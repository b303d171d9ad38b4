// SPDX-License-Identifier: Apache-2.0
// Times without launches, on a device whose clock is made up: a launch costs 5 us, or 7 us where
// several dispatches go in one recording, an empty kernel adds 500 ns, and what a kernel adds its
// first scalar says.
#include "runtime/launch_time.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/cpu_kernel_abi.h"
#include "drivers/init.h"
#include "hal/registry.h"
#include "runtime/measurer.h"

namespace halyard::runtime {
namespace {

constexpr int64_t kLaunchNs = 5000, kRecordingNs = 7000, kEmptyNs = 500;

// An image of kernels that do nothing, "empty" and one, "work", with a scalar. x86-64.
std::vector<uint8_t> ReturningImage() {
  constexpr size_t kCodeOffset = 4096;
  std::vector<uint8_t> image(kCodeOffset + 16);
  image[kCodeOffset] = 0xc3;  // ret
  CpuImageHeader header = {};
  header.magic = kCpuImageMagic;
  header.version = kCpuImageVersion;
  header.image_bytes = image.size();
  header.entry_count = 2;
  std::memcpy(image.data(), &header, sizeof(header));
  const size_t names = sizeof(header) + 2 * sizeof(CpuImageEntry);
  const char* const text = "emptywork";
  std::memcpy(image.data() + names, text, std::strlen(text));
  CpuImageEntry entries[2] = {};
  for (size_t i = 0; i < 2; ++i) {
    entries[i].name_offset = static_cast<uint32_t>(names + 5 * i);
    entries[i].name_bytes = i == 0 ? 5 : 4;
    entries[i].code_offset = kCodeOffset;
    entries[i].scalar_count = static_cast<uint32_t>(i);
  }
  std::memcpy(image.data() + sizeof(header), entries, sizeof(entries));
  return image;
}

class CountedCommands final : public hal::CommandBuffer {
 public:
  explicit CountedCommands(Ref<hal::CommandBuffer> inner) : inner_(std::move(inner)) {}
  hal::Device* device() const override { return inner_->device(); }
  Status Dispatch(const hal::DispatchCommand& command) override {
    nanoseconds_ += command.scalars.empty() ? kEmptyNs : command.scalars[0];
    return inner_->Dispatch(command);
  }
  Status Copy(const hal::CommandRange& source, const hal::CommandRange& target) override {
    return inner_->Copy(source, target);
  }
  Status Fill(const hal::CommandRange& target, uint64_t pattern, uint32_t bytes) override {
    return inner_->Fill(target, pattern, bytes);
  }
  Status Barrier() override { return inner_->Barrier(); }
  Status Finish() override { return inner_->Finish(); }
  bool is_finished() const override { return inner_->is_finished(); }
  uint32_t slot_count() const override { return inner_->slot_count(); }
  uint32_t dispatch_count() const override { return inner_->dispatch_count(); }

  hal::CommandBuffer* inner() const { return inner_.get(); }
  int64_t nanoseconds() const {
    return nanoseconds_ + (dispatch_count() < 4 ? kLaunchNs : kRecordingNs);
  }

 private:
  Ref<hal::CommandBuffer> inner_;
  int64_t nanoseconds_ = 0;
};

class LaunchingDevice final : public hal::Device {
 public:
  explicit LaunchingDevice(Ref<hal::Device> inner) : inner_(std::move(inner)) {}
  std::string_view path() const override { return inner_->path(); }
  const hal::Capabilities& capabilities() const override { return inner_->capabilities(); }
  uint32_t queue_count() const override { return inner_->queue_count(); }
  int64_t buffer_alignment() const override { return inner_->buffer_alignment(); }
  Status health() const override { return inner_->health(); }
  Result<Ref<hal::Buffer>> AllocateBuffer(hal::MemoryKind kind, int64_t size_bytes) override {
    return inner_->AllocateBuffer(kind, size_bytes);
  }
  Result<Ref<hal::Buffer>> ImportHostMemory(hal::HostMemory memory) override {
    return inner_->ImportHostMemory(std::move(memory));
  }
  hal::MemoryStatistics memory_statistics() const override { return inner_->memory_statistics(); }
  Result<Ref<hal::Semaphore>> CreateSemaphore(uint64_t value) override {
    return inner_->CreateSemaphore(value);
  }
  Result<Ref<hal::Executable>> LoadExecutable(const hal::ExecutableSource& source) override {
    return inner_->LoadExecutable(source);
  }
  Result<Ref<hal::CommandBuffer>> CreateCommandBuffer() override {
    HY_ASSIGN(auto commands, inner_->CreateCommandBuffer());
    return Ref<hal::CommandBuffer>(MakeRef<CountedCommands>(std::move(commands)));
  }
  Status Submit(uint32_t queue, const hal::SubmitInfo& info) override {
    hal::SubmitInfo inner = info;
    const auto* commands = static_cast<const CountedCommands*>(info.commands);
    inner.commands = commands->inner();
    inner.time = nullptr;
    HY_TRY(inner_->Submit(queue, inner));
    ++submissions_;
    // Behind work that keeps the device busy a slow host is not late.
    const bool is_slow =
        slow_submissions_ > 0 && commands->dispatch_count() == 1 && !is_behind_lead_;
    is_behind_lead_ = info.ordering.signals.empty() && commands->dispatch_count() > 1;
    if (is_slow) --slow_submissions_;
    if (info.time != nullptr) info.time->Add(commands->nanoseconds() + (is_slow ? 8000 : 0));
    return OkStatus();
  }
  Status QueueCopy(uint32_t queue, const hal::Ordering& ordering, const hal::BufferRange& source,
                   const hal::BufferRange& target) override {
    return inner_->QueueCopy(queue, ordering, source, target);
  }
  Status QueueFill(uint32_t queue, const hal::Ordering& ordering, const hal::BufferRange& target,
                   uint64_t pattern, uint32_t bytes) override {
    return inner_->QueueFill(queue, ordering, target, pattern, bytes);
  }
  Status QueueUpdate(uint32_t queue, const hal::Ordering& ordering, std::span<const uint8_t> source,
                     const hal::BufferRange& target) override {
    return inner_->QueueUpdate(queue, ordering, source, target);
  }
  Status QueueHostCall(uint32_t queue, const hal::Ordering& ordering,
                       const hal::HostCall& call) override {
    return inner_->QueueHostCall(queue, ordering, call);
  }
  Status Flush() override { return inner_->Flush(); }
  Status Wait(std::span<const hal::SemaphorePoint> points, hal::WaitMode mode, int64_t timeout_ns,
              size_t* out_index) override {
    return inner_->Wait(points, mode, timeout_ns, out_index);
  }
  Result<hal::LinkInfo> LinkTo(const hal::Device& other) const override {
    return inner_->LinkTo(other);
  }
  Result<std::vector<uint8_t>> EmptyKernel() const override { return ReturningImage(); }

  int submissions() const { return submissions_; }
  // So many submissions of one dispatch from now on reach the device 8 us later.
  void SlowDown(int submissions) { slow_submissions_ = submissions; }

 private:
  Ref<hal::Device> inner_;
  int submissions_ = 0, slow_submissions_ = 0;
  bool is_behind_lead_ = false;
};

class LaunchTimeTest : public testing::Test {
 protected:
  LaunchTimeTest() {
    hal::DriverRegistry registry;
    EXPECT_TRUE(RegisterAllDrivers(&registry).ok());
    cpu_ = registry.OpenDevice("cpu").value();
    device_ = MakeRef<LaunchingDevice>(cpu_);
  }
  Ref<hal::Device> cpu_;
  Ref<LaunchingDevice> device_;
};

TEST_F(LaunchTimeTest, WhatALaunchAddsIsTakenOff) {
  LaunchTime launch(device_);
  EXPECT_NEAR(launch.Without(12e-6, 1), 7e-6, 1e-12);
  EXPECT_NEAR(launch.Without(12e-6, 3), 7e-6, 1e-12);  // the others' stand behind the first one
  EXPECT_NEAR(launch.Without(12e-6, 4), 5e-6, 1e-12);
  EXPECT_NEAR(launch.Without(90e-6, 1000), 90e-6, 1e-12);  // no more than they took
  // No dispatch takes less than one that does nothing.
  EXPECT_NEAR(launch.Without(5.2e-6, 1), 0.5e-6, 1e-12);
  EXPECT_NEAR(launch.Without(5.2e-6, 2), 1e-6, 1e-12);
  // It is measured once.
  const int submissions = device_->submissions();
  EXPECT_NEAR(launch.Of(1), 5e-6, 1e-12);
  EXPECT_NEAR(launch.Of(64), 7e-6, 1e-12);
  EXPECT_EQ(device_->submissions(), submissions);
}

// How fast the host is, when launches are measured and when kernels are, is not in the times of
// kernels that follow a lead.
TEST_F(LaunchTimeTest, BehindALeadASlowHostIsNotInTheTime) {
  device_->SlowDown(1000);
  LaunchTime launch(device_);
  EXPECT_NEAR(launch.Of(1), 13e-6, 1e-12);  // measured without one
  EXPECT_NEAR(launch.WithoutLed(12e-6), 7e-6, 1e-12);
  EXPECT_NEAR(launch.WithoutLed(5.2e-6), 0.5e-6, 1e-12);
  const int submissions = device_->submissions();
  EXPECT_TRUE(launch.Lead().ok());
  EXPECT_EQ(device_->submissions(), submissions + 1);
}

TEST_F(LaunchTimeTest, WithoutLaunchesThereIsNoLead) {
  LaunchTime launch(cpu_);
  EXPECT_TRUE(launch.Lead().ok());
  EXPECT_EQ(launch.WithoutLed(12e-6), 12e-6);
}

TEST_F(LaunchTimeTest, AClockWithoutLaunchesIsBelieved) {
  LaunchTime launch(cpu_);
  EXPECT_EQ(cpu_->EmptyKernel().status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(launch.Of(1), 0);
  EXPECT_EQ(launch.Without(12e-6, 1), 12e-6);
}

// A race says what candidates take within a program, not what timing them costs.
TEST_F(LaunchTimeTest, RacesAreWithoutLaunches) {
  const std::vector<uint8_t> image = ReturningImage();
  std::vector<Measurer::Candidate> candidates(3);
  for (size_t i = 0; i < candidates.size(); ++i) {
    candidates[i].code = image;
    Measurer::Dispatch dispatch;
    dispatch.entry = "work";
    for (int axis = 0; axis < 3; ++axis) dispatch.grid[axis] = 1;
    dispatch.scalars = {static_cast<int64_t>(2000 + 300 * i)};
    candidates[i].dispatches.assign(i + 1, dispatch);
  }
  HalMeasurer measurer({device_}, nullptr);
  const auto medians = measurer.Measure(0, candidates);
  ASSERT_TRUE(medians.ok()) << medians.status().ToString();
  EXPECT_NEAR((*medians)[0], 2.0e-6, 1e-12);
  EXPECT_NEAR((*medians)[1], 4.6e-6, 1e-12);
  EXPECT_NEAR((*medians)[2], 7.8e-6, 1e-12);
}

}  // namespace
}  // namespace halyard::runtime
