// SPDX-License-Identifier: Apache-2.0
// DelayThread: hands work on at a later time, so that the test mode `discrete` starts it late and
// out of order, and a synthetic device ends it when a slower device would. Not used otherwise.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

namespace halyard::drivers::cpu {

struct Work;

class DelayThread {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `pass_on` is called on this thread for each work when its time has come.
  explicit DelayThread(std::function<void(Work*)> pass_on);
  // Nothing may be waiting. May run on the thread itself, inside `pass_on`.
  ~DelayThread();

  void Add(Work* work, Time due);

 private:
  struct State;
  static void Serve(State& state);

  std::shared_ptr<State> state_;  // the thread's too
  std::thread thread_;
};

}  // namespace halyard::drivers::cpu
