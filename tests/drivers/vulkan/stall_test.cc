// SPDX-License-Identifier: Apache-2.0
// A device that stops ending work: everybody who waits is told, nothing that it may still touch
// goes, closing does not wait for it, and what comes late on the host's side is no stall.
#include <atomic>
#include <thread>

#include "drivers/vulkan/device.h"
#include "hal/point_wait.h"
#include "tests/drivers/vulkan/vulkan_fixture.h"

namespace halyard::drivers::vulkan {
namespace {

std::atomic<bool> g_is_held{false};
PFN_vkWaitSemaphores g_wait = nullptr;
PFN_vkGetSemaphoreCounterValue g_counter = nullptr;

// While held, every timeline stays where it was and says so.
VKAPI_ATTR VkResult VKAPI_CALL HeldWait(VkDevice device, const VkSemaphoreWaitInfo* info,
                                        uint64_t timeout) {
  if (!g_is_held) return g_wait(device, info, timeout);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return VK_TIMEOUT;
}
VKAPI_ATTR VkResult VKAPI_CALL HeldCounter(VkDevice device, VkSemaphore semaphore,
                                           uint64_t* value) {
  if (!g_is_held) return g_counter(device, semaphore, value);
  *value = 0;
  return VK_SUCCESS;
}

class VulkanStallTest : public VulkanTest {
 protected:
  ~VulkanStallTest() override { g_is_held = false; }

  // Adds 1 to eight numbers, as the work `signal` behind `wait`.
  Status Add(const Ref<hal::Semaphore>& timeline, uint64_t wait, uint64_t signal) {
    const Ref<hal::Executable> executable = LoadTestKernels();
    const Ref<hal::CommandBuffer> commands = Must(device_->CreateCommandBuffer());
    const hal::CommandRange bindings[] = {hal::CommandRange::Slot(0, 0, 64),
                                          hal::CommandRange::Slot(0, 0, 64)};
    const int64_t one = 1;
    hal::DispatchCommand command;
    command.executable = executable.get();
    command.grid[0] = 8;
    command.bindings = bindings;
    command.scalars = {&one, 1};
    command.label = "slow";
    EXPECT_OK(commands->Dispatch(command));
    EXPECT_OK(commands->Finish());
    const hal::SemaphorePoint before{timeline.get(), wait}, after{timeline.get(), signal};
    const hal::BufferRange table[] = {{buffer_.get(), 0, 64}};
    return device_->Submit(0, {{{&before, 1}, {&after, 1}}, commands.get(), table});
  }

  Ref<hal::Buffer> buffer_;
};

// The queue itself waits for what never comes; the device stays behind until the process ends.
TEST_F(VulkanStallTest, AWaitWithoutALimitEndsAndClosingDoesNotWait) {
  Use("?wait_limit_s=1&hang_at=1");
  buffer_ = Must(device_->AllocateBuffer(hal::MemoryKind::kDevice, 64));
  const Ref<hal::Semaphore> timeline = NewSemaphore();
  EXPECT_OK(Add(timeline, 0, 1));
  EXPECT_OK(Add(timeline, 1, 2));
  const hal::SemaphorePoint first{timeline.get(), 1}, second{timeline.get(), 2};
  EXPECT_FAILS(device_->Wait({&first, 1}, hal::WaitMode::kAll, 50'000'000), kDeadlineExceeded,
               "50000000 ns");
  constexpr char kSays[] =
      "'vulkan:0' is lost for this process: Hardware queue 0 ended no work for 1 s, the limit of "
      "option 'wait_limit_s'. In flight: the submission of 1 dispatch: 'slow'; the submission of 1 "
      "dispatch: 'slow'.";
  EXPECT_FAILS(device_->Wait({&second, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout), kDeviceLost,
               kSays);
  EXPECT_FAILS(hal::WaitAsleep({&first, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout, nullptr),
               kDeviceLost, kSays);
  EXPECT_FAILS(device_->health(), kDeviceLost, kSays);
  EXPECT_FAILS(device_->AllocateBuffer(hal::MemoryKind::kDevice, 64), kDeviceLost, kSays);
  buffer_.reset();
  // Another one works.
  Use();
  const std::vector<uint8_t> bytes = RandomBytes(512, 1);
  EXPECT_EQ(Download(Upload(bytes)), bytes);
}

TEST_F(VulkanStallTest, WhatItWasGivenGoesWhenItGoesOn) {
  Use("?wait_limit_s=1&queues=2");
  auto& handle = const_cast<DeviceHandle&>(static_cast<VulkanDevice*>(device_.get())->handle());
  g_wait = handle.vk.vkWaitSemaphores;
  g_counter = handle.vk.vkGetSemaphoreCounterValue;
  handle.vk.vkWaitSemaphores = &HeldWait;
  handle.vk.vkGetSemaphoreCounterValue = &HeldCounter;
  buffer_ = Must(device_->AllocateBuffer(hal::MemoryKind::kDevice, 64));
  const Ref<hal::Semaphore> timeline = NewSemaphore();
  g_is_held = true;
  EXPECT_OK(Add(timeline, 0, 1));
  EXPECT_OK(Add(timeline, 1, 2));
  EXPECT_OK(device_->Flush());
  const hal::SemaphorePoint point{timeline.get(), 2};
  EXPECT_FAILS(hal::WaitAsleep({&point, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout, nullptr),
               kDeviceLost, "the limit of option 'wait_limit_s'");
  device_.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_GT(buffer_->ref_count(), 1);
  g_is_held = false;
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (buffer_->ref_count() > 1 && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(buffer_->ref_count(), 1);
}

TEST_F(VulkanStallTest, ALateHostIsNoStall) {
  Use("?wait_limit_s=1");
  buffer_ = Must(device_->AllocateBuffer(hal::MemoryKind::kDevice, 64));
  const Ref<hal::Semaphore> timeline = NewSemaphore();
  EXPECT_OK(Add(timeline, 1, 2));
  const hal::SemaphorePoint point{timeline.get(), 2};
  EXPECT_FAILS(device_->Wait({&point, 1}, hal::WaitMode::kAll, 1'700'000'000), kDeadlineExceeded,
               "not reached");
  EXPECT_OK(timeline->Signal(1));
  EXPECT_OK(WaitFor(timeline, 2));
}

}  // namespace
}  // namespace halyard::drivers::vulkan
