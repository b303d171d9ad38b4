// SPDX-License-Identifier: Apache-2.0
// CudaSemaphore: a timeline in host memory that also knows which of its values the GPU will reach
// by work that nothing on the host holds back any more, so that later work waits for that on the
// GPU.
#pragma once

#include <mutex>
#include <vector>

#include "drivers/cuda/context.h"
#include "hal/host_semaphore.h"

namespace halyard::drivers::cuda {

class CudaSemaphore final : public hal::Semaphore {
 public:
  explicit CudaSemaphore(uint64_t initial_value) : host_(initial_value) {}

  uint64_t value() const override { return host_.value(); }
  Status status() const override { return host_.status(); }
  Status Signal(uint64_t value) override { return host_.Signal(value); }
  void Fail(const Status& status) override { host_.Fail(status); }
  void AddWaiter(hal::SemaphoreWaiter* waiter) override { host_.AddWaiter(waiter); }
  bool RemoveWaiter(hal::SemaphoreWaiter* waiter) override { return host_.RemoveWaiter(waiter); }

  // `event` will stand in a stream, and `value` be signalled once it is reached.
  void Promise(uint64_t value, Ref<Event> event);
  // The promise is about to be kept or broken.
  void Withdraw(uint64_t value, const Event* event);
  // The event of the least promised value that is at least `value`; null when there is none.
  Ref<Event> FindPromise(uint64_t value) const;

 private:
  struct Entry {
    uint64_t value;
    Ref<Event> event;
  };
  hal::HostSemaphore host_;
  mutable std::mutex mutex_;
  std::vector<Entry> promises_;
};

}  // namespace halyard::drivers::cuda
