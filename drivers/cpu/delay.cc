// SPDX-License-Identifier: Apache-2.0
#include "drivers/cpu/delay.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/thread_end.h"

namespace halyard::drivers::cpu {

struct DelayThread::State {
  struct Item {
    Time due;
    Work* work;
  };
  std::function<void(Work*)> pass_on;
  std::mutex mutex;  // everything below
  std::condition_variable changed;
  std::vector<Item> items;
  bool is_stopping = false;
};

DelayThread::DelayThread(std::function<void(Work*)> pass_on) : state_(std::make_shared<State>()) {
  state_->pass_on = std::move(pass_on);
  state_->items.reserve(1024);
  thread_ = std::thread([state = state_] { Serve(*state); });
}

DelayThread::~DelayThread() {
  {
    std::lock_guard lock(state_->mutex);
    state_->is_stopping = true;
    state_->changed.notify_all();
  }
  JoinOrLeave(thread_);
}

void DelayThread::Add(Work* work, Time due) {
  std::lock_guard lock(state_->mutex);
  state_->items.push_back({due, work});
  state_->changed.notify_all();
}

void DelayThread::Serve(State& state) {
  std::unique_lock lock(state.mutex);
  for (;;) {
    if (state.items.empty()) {
      if (state.is_stopping) return;
      state.changed.wait(lock);
      continue;
    }
    auto earliest = std::min_element(state.items.begin(), state.items.end(),
                                     [](const auto& a, const auto& b) { return a.due < b.due; });
    if (earliest->due > std::chrono::steady_clock::now()) {
      auto due = earliest->due;
      state.changed.wait_until(lock, due);
      continue;
    }
    Work* work = earliest->work;
    *earliest = state.items.back();
    state.items.pop_back();
    lock.unlock();
    state.pass_on(work);
    lock.lock();
  }
}

}  // namespace halyard::drivers::cpu
