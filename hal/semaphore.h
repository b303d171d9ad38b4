// SPDX-License-Identifier: Apache-2.0
// Semaphore: a timeline that orders all asynchronous work, on one device and between devices. Its
// value only grows; it can fail, and then carries the Status to everything that waits for it.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "hal/ref.h"

namespace halyard::hal {

// One notification, linked into a semaphore's list without allocation. The owner keeps it in place
// from AddWaiter until `notify` ran or RemoveWaiter returned true.
struct SemaphoreWaiter {
  uint64_t value = 0;  // notified when the semaphore's value is at least this
  // OK when the value was reached, the semaphore's failure otherwise. Runs on the thread that
  // signals, under no lock; must not block and may free the waiter.
  void (*notify)(SemaphoreWaiter* waiter, const Status& status) = nullptr;
  SemaphoreWaiter* next = nullptr;      // of the semaphore
  SemaphoreWaiter* previous = nullptr;  // of the semaphore
  bool is_linked = false;               // of the semaphore
};

// Thread-safe. A value that was reached stays reached: a wait for it succeeds even after a later
// failure. A failure is final: every wait for a value above the one reached when it failed gets
// that Status, and later signals are ignored. Whoever needs to go on after a failure makes a new
// semaphore.
class Semaphore : public RefCounted {
 public:
  // The value reached so far.
  virtual uint64_t value() const = 0;
  // OK unless the semaphore has failed.
  virtual Status status() const = 0;

  // Advances the timeline from the host and runs whatever notifications that releases before it
  // returns. INVALID_ARGUMENT when `value` is not above the present one; that also fails the
  // semaphore, because a waiter may depend on a value that will now never come. OK and no effect
  // when it has failed already.
  virtual Status Signal(uint64_t value) = 0;
  // Fails the timeline. No effect when it has failed already. `status` must not be OK.
  virtual void Fail(const Status& status) = 0;

  // Calls waiter->notify exactly once: before returning when the value is reached or the semaphore
  // has failed, otherwise later.
  virtual void AddWaiter(SemaphoreWaiter* waiter) = 0;
  // True: the waiter was removed and will not be notified. False: its notification has run or is
  // running.
  virtual bool RemoveWaiter(SemaphoreWaiter* waiter) = 0;
};

// An event: a semaphore and a value. Borrowed by the call that takes it; what is queued retains it.
struct SemaphorePoint {
  Semaphore* semaphore = nullptr;
  uint64_t value = 0;
};

enum class WaitMode : uint8_t { kAll, kAny };

inline constexpr int64_t kInfiniteTimeout = INT64_MAX;

}  // namespace halyard::hal
