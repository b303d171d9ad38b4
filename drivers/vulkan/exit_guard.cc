// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/exit_guard.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "drivers/vulkan/kernels.h"
#include "drivers/vulkan/scheduler.h"

namespace halyard::drivers::vulkan {
namespace {

constexpr std::chrono::seconds kMostForWork{1}, kMostForThreads{1};

struct Guarded {
  std::weak_ptr<DeviceHandle> handle;
  std::weak_ptr<Scheduler> scheduler;
  std::weak_ptr<Kernels> kernels;
  pid_t process;
};

// Never destroyed: used while the process exits.
struct Guard {
  std::mutex mutex;
  std::vector<Guarded> devices;
};

Guard& TheGuard() {
  static Guard* guard = new Guard;
  return *guard;
}

std::atomic<bool> g_is_forgotten{false};

}  // namespace

void GuardExit(const std::shared_ptr<DeviceHandle>& handle,
               const std::shared_ptr<Scheduler>& scheduler,
               const std::shared_ptr<Kernels>& kernels) {
  Guard& guard = TheGuard();
  {
    std::lock_guard lock(guard.mutex);
    std::erase_if(guard.devices, [](const Guarded& device) { return device.handle.expired(); });
    guard.devices.push_back({handle, scheduler, kernels, getpid()});
  }
  // For every device, since a driver may register its handlers as late as when a device is made.
  // Without room for one the process exits as it would without this file.
  (void)std::atexit(&ForgetDrivers);
}

void ForgetDrivers() {
  g_is_forgotten.store(true, std::memory_order_relaxed);
  Guard& guard = TheGuard();
  std::vector<Guarded> devices;
  {
    std::lock_guard lock(guard.mutex);
    devices.swap(guard.devices);
  }
  const hal::Deadline work_end = std::chrono::steady_clock::now() + kMostForWork;
  const hal::Deadline thread_end = work_end + kMostForThreads;
  for (const Guarded& device : devices) {
    std::shared_ptr<DeviceHandle> handle = device.handle.lock();
    std::shared_ptr<Scheduler> scheduler = device.scheduler.lock();
    if (!handle) continue;
    // A forked process has none of the threads, and locks may be held for ever.
    if (device.process != getpid()) {
      handle->vk.Forget();
      continue;
    }
    auto abandon = [&]() -> Status {
      if (scheduler) scheduler->Abandon(*handle, work_end, thread_end);
      if (std::shared_ptr<Kernels> kernels = device.kernels.lock()) kernels->SaveCache();
      return OkStatus();
    };
    auto end = [&]() -> Status {
      if (scheduler) scheduler->EndAbandoned();
      return OkStatus();
    };
    const Status status = CatchAll(abandon);
    handle->vk.Forget();
    for (const Status& each : {status, CatchAll(end)}) {
      if (!each.ok()) HY_LOG(kError, "Leaving a Vulkan device failed: {}", each.ToLine());
    }
  }
}

bool AreDriversForgotten() { return g_is_forgotten.load(std::memory_order_relaxed); }

}  // namespace halyard::drivers::vulkan
