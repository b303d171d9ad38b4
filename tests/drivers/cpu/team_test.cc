// SPDX-License-Identifier: Apache-2.0
// Teams: every unit runs once, stages keep their order, and helpers may come late or never.
#include "drivers/cpu/team.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>
#include <vector>

namespace halyard::drivers::cpu {
namespace {

// Counts how often each unit runs and which of them ran before the stage below was done.
class Counted final : public StagedWork {
 public:
  explicit Counted(std::vector<int64_t> units)
      : units_(std::move(units)), runs_(units_.size()), done_(units_.size()) {
    for (size_t s = 0; s < units_.size(); ++s)
      runs_[s] = std::vector<std::atomic<int>>(static_cast<size_t>(units_[s]));
  }

  size_t stage_count() const override { return units_.size(); }
  int64_t unit_count(size_t stage) const override { return units_[stage]; }
  void Run(size_t stage, int64_t begin, int64_t end) override {
    for (size_t s = 0; s < stage; ++s)
      if (done_[s].load(std::memory_order_relaxed) != units_[s]) early_.fetch_add(1);
    largest_.store(std::max(largest_.load(), end - begin));
    for (int64_t unit = begin; unit < end; ++unit) {
      runs_[stage][static_cast<size_t>(unit)].fetch_add(1, std::memory_order_relaxed);
      if (stage == fail_stage) is_failed_.store(true, std::memory_order_relaxed);
    }
    done_[stage].fetch_add(end - begin, std::memory_order_relaxed);
  }
  bool is_failed() const override { return is_failed_.load(std::memory_order_relaxed); }

  // Stages whose every unit ran once; the others must not have run at all.
  size_t CompleteStages() const {
    size_t complete = 0;
    for (size_t s = 0; s < units_.size(); ++s) {
      for (const std::atomic<int>& runs : runs_[s])
        EXPECT_EQ(runs.load(), runs_[s].front().load()) << "stage " << s;
      if (runs_[s].empty() || runs_[s].front().load() == 1) ++complete;
    }
    return complete;
  }
  int early() const { return early_.load(); }
  int64_t largest() const { return largest_.load(); }

  size_t fail_stage = SIZE_MAX;

 private:
  std::vector<int64_t> units_;
  std::vector<std::vector<std::atomic<int>>> runs_;
  std::vector<std::atomic<int64_t>> done_;
  std::atomic<int> early_{0};
  std::atomic<int64_t> largest_{0};
  std::atomic<bool> is_failed_{false};
};

void JoinWith(Team& team, int helpers, int late_us) {
  std::vector<std::thread> threads;
  for (int i = 0; i < helpers; ++i) {
    threads.emplace_back([&team, i, late_us] {
      std::this_thread::sleep_for(std::chrono::microseconds(i * late_us));
      team.Join();
    });
  }
  team.Join();
  for (std::thread& thread : threads) thread.join();
}

TEST(Team, RunsEveryUnitOnceInStageOrder) {
  std::mt19937 random(7);
  for (int64_t spin_us : {0, 5, 1000}) {
    for (int helpers : {0, 1, 3, 7}) {
      for (int late_us : {0, 30}) {
        std::vector<int64_t> units;
        const int64_t sizes[] = {0, 1, 2, 3, 7, 64, 1000};
        for (int s = 0; s < 200; ++s) units.push_back(sizes[random() % std::size(sizes)]);
        Counted work(units);
        Team team(work, helpers + 1, spin_us, false);
        JoinWith(team, helpers, late_us);
        EXPECT_EQ(work.CompleteStages(), units.size());
        EXPECT_EQ(work.early(), 0);
      }
    }
  }
}

TEST(Team, AThreadAloneDoesTheSharesOfAll) {
  Counted work({5, 0, 100000, 1});
  Team team(work, 16, 50, false);
  team.Join();
  EXPECT_EQ(work.CompleteStages(), 4u);
}

TEST(Team, TakesMoreThreadsThanShares) {
  Counted work(std::vector<int64_t>(50, 300));
  Team team(work, 4096, 5, false);
  JoinWith(team, 80, 0);
  EXPECT_EQ(work.CompleteStages(), 50u);
  EXPECT_EQ(work.early(), 0);
}

TEST(Team, HandsOutSingleUnitsWhenAsked) {
  Counted work({5000});
  Team team(work, 2, 50, true);
  JoinWith(team, 1, 0);
  EXPECT_EQ(work.CompleteStages(), 1u);
  EXPECT_EQ(work.largest(), 1);
}

TEST(Team, EndsAfterTheStageThatFails) {
  Counted work({10, 20, 30, 40});
  work.fail_stage = 1;
  Team team(work, 3, 50, false);
  JoinWith(team, 2, 0);
  EXPECT_EQ(work.CompleteStages(), 2u);
}

}  // namespace
}  // namespace halyard::drivers::cpu
