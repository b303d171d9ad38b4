// SPDX-License-Identifier: Apache-2.0
// DelayThread: hands work on after a random while, so that the test mode `discrete` starts it late
// and out of order. Not used otherwise.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace halyard::drivers::cpu {

struct Work;

class DelayThread {
 public:
  // `pass_on` is called on this thread for each work when its time has come.
  DelayThread(uint64_t seed, std::function<void(Work*)> pass_on);
  ~DelayThread();  // nothing may be waiting

  void Add(Work* work);

 private:
  static constexpr int kMaxDelayUs = 300;
  struct Item {
    std::chrono::steady_clock::time_point due;
    Work* work;
  };
  void Serve();

  std::function<void(Work*)> pass_on_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::minstd_rand random_;
  std::vector<Item> items_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace halyard::drivers::cpu
