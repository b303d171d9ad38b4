// SPDX-License-Identifier: Apache-2.0
// Timer: two timestamps around one submission: a pair of native command buffers that go in front of
// the submission's own and behind it, and the pool of two queries that they write.
#pragma once

#include <memory>

#include "drivers/vulkan/device_handle.h"

namespace halyard::drivers::vulkan {

// One submission at a time; used again for later ones. Dies before its device.
class Timer {
 public:
  // False when the queues that run kernels have no clock.
  static bool IsPossible(const DeviceHandle& device);
  static Result<std::unique_ptr<Timer>> Make(const DeviceHandle& device);
  ~Timer();

  // When everything before it in the queue is done, and when everything up to it is.
  VkCommandBuffer start() const { return commands_[0]; }
  VkCommandBuffer end() const { return commands_[1]; }
  // After the submission is done.
  Result<int64_t> ReadNanoseconds() const;

 private:
  explicit Timer(const DeviceHandle& device) : device_(device) {}
  Status Record();

  const DeviceHandle& device_;
  VkQueryPool queries_ = VK_NULL_HANDLE;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_[2] = {};
};

}  // namespace halyard::drivers::vulkan
