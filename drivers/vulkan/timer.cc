// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/timer.h"

#include "drivers/vulkan/command_buffer.h"

namespace halyard::drivers::vulkan {
namespace {

uint32_t ClockBits(const DeviceHandle& device) {
  return device.physical->queue_families[device.compute_family].timestampValidBits;
}

}  // namespace

bool Timer::IsPossible(const DeviceHandle& device) { return ClockBits(device) > 0; }

Result<std::unique_ptr<Timer>> Timer::Make(const DeviceHandle& device) {
  std::unique_ptr<Timer> timer(new Timer(device));
  HY_TRY(timer->Record());
  return timer;
}

Timer::~Timer() {
  device_.vk.vkDestroyCommandPool(device_.device, pool_, nullptr);
  device_.vk.vkDestroyQueryPool(device_.device, queries_, nullptr);
}

Status Timer::Record() {
  const DeviceFunctions& vk = device_.vk;
  auto queries = Typed<VkQueryPoolCreateInfo>(VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO);
  queries.queryType = VK_QUERY_TYPE_TIMESTAMP;
  queries.queryCount = 2;
  HY_TRY(StatusFromVk(vk.vkCreateQueryPool(device_.device, &queries, nullptr, &queries_),
                      "vkCreateQueryPool"));
  auto pool = Typed<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  pool.queueFamilyIndex = device_.compute_family;
  HY_TRY(StatusFromVk(vk.vkCreateCommandPool(device_.device, &pool, nullptr, &pool_),
                      "vkCreateCommandPool"));
  auto info = Typed<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
  info.commandPool = pool_;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 2;
  HY_TRY(StatusFromVk(vk.vkAllocateCommandBuffers(device_.device, &info, commands_),
                      "vkAllocateCommandBuffers"));
  for (uint32_t i = 0; i < 2; ++i) {
    auto begin = Typed<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
    HY_TRY(StatusFromVk(vk.vkBeginCommandBuffer(commands_[i], &begin), "vkBeginCommandBuffer"));
    if (i == 0) {
      RecordStart(device_, commands_[i]);
      vk.vkCmdResetQueryPool(commands_[i], queries_, 0, 2);
    }
    // The last stage: written when all commands before it have ended.
    vk.vkCmdWriteTimestamp(commands_[i], VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries_, i);
    HY_TRY(StatusFromVk(vk.vkEndCommandBuffer(commands_[i]), "vkEndCommandBuffer"));
  }
  return OkStatus();
}

Result<int64_t> Timer::ReadNanoseconds() const {
  uint64_t ticks[2] = {};
  const VkResult result =
      device_.vk.vkGetQueryPoolResults(device_.device, queries_, 0, 2, sizeof(ticks), ticks,
                                       sizeof(ticks[0]), VK_QUERY_RESULT_64_BIT);
  HY_TRY(StatusFromVk(result, "vkGetQueryPoolResults"));
  if (result != VK_SUCCESS)
    return Internal("The timestamps of a submission that is done are missing.");
  const uint32_t bits = ClockBits(device_);
  uint64_t passed = ticks[1] - ticks[0];
  if (bits < 64) passed &= (uint64_t{1} << bits) - 1;  // the counter may have wrapped once
  return static_cast<int64_t>(static_cast<double>(passed) *
                              double{device_.physical->properties.limits.timestampPeriod});
}

}  // namespace halyard::drivers::vulkan
