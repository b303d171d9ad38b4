// SPDX-License-Identifier: Apache-2.0
#include "drivers/cpu/delay.h"

#include <algorithm>

namespace halyard::drivers::cpu {

DelayThread::DelayThread(uint64_t seed, std::function<void(Work*)> pass_on)
    : pass_on_(std::move(pass_on)), random_(static_cast<std::minstd_rand::result_type>(seed)) {
  items_.reserve(1024);
  thread_ = std::thread([this] { Serve(); });
}

DelayThread::~DelayThread() {
  {
    std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DelayThread::Add(Work* work) {
  std::lock_guard lock(mutex_);
  std::uniform_int_distribution<int> delay_us(0, kMaxDelayUs);
  auto delay = std::chrono::microseconds(delay_us(random_));
  items_.push_back({std::chrono::steady_clock::now() + delay, work});
  changed_.notify_all();
}

void DelayThread::Serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (items_.empty()) {
      if (is_stopping_) return;
      changed_.wait(lock);
      continue;
    }
    auto earliest = std::min_element(items_.begin(), items_.end(),
                                     [](const Item& a, const Item& b) { return a.due < b.due; });
    if (earliest->due > std::chrono::steady_clock::now()) {
      auto due = earliest->due;
      changed_.wait_until(lock, due);
      continue;
    }
    Work* work = earliest->work;
    *earliest = items_.back();
    items_.pop_back();
    lock.unlock();
    pass_on_(work);
    lock.lock();
  }
}

}  // namespace halyard::drivers::cpu
