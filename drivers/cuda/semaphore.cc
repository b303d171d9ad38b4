// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/semaphore.h"

namespace halyard::drivers::cuda {

void CudaSemaphore::Promise(uint64_t value, Ref<Event> event) {
  std::lock_guard lock(mutex_);
  promises_.push_back({value, std::move(event)});
}

void CudaSemaphore::Withdraw(uint64_t value, const Event* event) {
  Ref<Event> withdrawn;  // released after the lock
  std::lock_guard lock(mutex_);
  for (Entry& entry : promises_) {
    if (entry.value != value || entry.event.get() != event) continue;
    withdrawn = std::move(entry.event);
    entry = std::move(promises_.back());
    promises_.pop_back();
    return;
  }
}

Ref<Event> CudaSemaphore::FindPromise(uint64_t value) const {
  std::lock_guard lock(mutex_);
  const Entry* found = nullptr;
  for (const Entry& entry : promises_) {
    if (entry.value >= value && (!found || entry.value < found->value)) found = &entry;
  }
  return found ? found->event : Ref<Event>();
}

}  // namespace halyard::drivers::cuda
