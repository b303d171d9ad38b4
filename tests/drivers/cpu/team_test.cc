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
      team.Help();
    });
  }
  team.Lead();
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
        Team team;
        team.Prepare(work, helpers + 1, spin_us, false);
        JoinWith(team, helpers, late_us);
        EXPECT_EQ(work.CompleteStages(), units.size());
        EXPECT_EQ(work.early(), 0);
      }
    }
  }
}

TEST(Team, AThreadAloneDoesTheSharesOfAll) {
  Counted work({5, 0, 100000, 1});
  Team team;
  team.Prepare(work, 16, 50, false);
  team.Lead();
  EXPECT_EQ(work.CompleteStages(), 4u);
}

TEST(Team, TakesMoreThreadsThanShares) {
  Counted work(std::vector<int64_t>(50, 300));
  Team team;
  team.Prepare(work, 4096, 5, false);
  JoinWith(team, 80, 0);
  EXPECT_EQ(work.CompleteStages(), 50u);
  EXPECT_EQ(work.early(), 0);
}

TEST(Team, HandsOutSingleUnitsWhenAsked) {
  Counted work({5000});
  Team team;
  team.Prepare(work, 2, 50, true);
  JoinWith(team, 1, 0);
  EXPECT_EQ(work.CompleteStages(), 1u);
  EXPECT_EQ(work.largest(), 1);
}

TEST(Team, EndsAfterTheStageThatFails) {
  Counted work({10, 20, 30, 40});
  work.fail_stage = 1;
  Team team;
  team.Prepare(work, 3, 50, false);
  JoinWith(team, 2, 0);
  EXPECT_EQ(work.CompleteStages(), 2u);
}

TEST(Team, HelpersOfAnExecutorComeAndGo) {
  const auto executor = MakeExecutor(4, {});
  ASSERT_TRUE(executor.ok());
  std::mt19937 random(3);
  RunLength length;
  for (int run = 0; run < 2000; ++run) {
    std::vector<int64_t> units;
    for (uint32_t s = random() % 6; s > 0; --s) units.push_back(random() % 40);
    Counted work(units);  // gone before late helpers look
    RunStaged(work, **executor, run % 3 == 0 ? 0 : 20, run % 2 == 0, length);
    ASSERT_EQ(work.CompleteStages(), units.size());
    ASSERT_EQ(work.early(), 0);
  }
}

// Counts invitations and returns them at once.
class DecliningExecutor final : public Executor {
 public:
  int concurrency() const override { return 16; }
  void ParallelFor(int64_t count, int64_t, RangeBody body) override { body(0, count); }
  void Invite(const std::shared_ptr<Invitation>& invitation, int count) override {
    invited += count;
    for (int i = 0; i < count; ++i) invitation->Return();
  }
  int invited = 0;
};

// Notes how many were invited when its first unit ran, which takes `first_unit`.
class Noting final : public StagedWork {
 public:
  Noting(const DecliningExecutor& executor, int64_t units,
         std::chrono::milliseconds first_unit = {})
      : executor_(executor), units_(units), first_unit_(first_unit) {}
  size_t stage_count() const override { return 1; }
  int64_t unit_count(size_t) const override { return units_; }
  void Run(size_t, int64_t begin, int64_t) override {
    if (begin > 0) return;
    invited_at_first = executor_.invited;
    std::this_thread::sleep_for(first_unit_);
  }
  bool is_failed() const override { return false; }

  int invited_at_first = -1;

 private:
  const DecliningExecutor& executor_;
  int64_t units_;
  std::chrono::milliseconds first_unit_;
};

int InvitedBy(DecliningExecutor& executor, Noting work, RunLength& length) {
  const int before = executor.invited;
  RunStaged(work, executor, 0, false, length);
  return executor.invited - before;
}

// The limits leave no doubt what is short, however busy the machine is.
TEST(Team, ShortRunsInviteNobodyAndLongOnesNoMoreThanHaveUnits) {
  DecliningExecutor executor;
  RunLength patient(std::chrono::hours(1), std::chrono::hours(1));
  EXPECT_EQ(InvitedBy(executor, Noting(executor, 3), patient), 2)
      << "nothing is known of the first run";
  for (int run = 0; run < 100; ++run) {
    ASSERT_FALSE(patient.is_long());
    ASSERT_EQ(InvitedBy(executor, Noting(executor, 3), patient), 0);
  }
  RunLength strict(std::chrono::hours(1), {});
  for (int run = 0; run < 100; ++run) {
    ASSERT_TRUE(strict.is_long());
    ASSERT_EQ(InvitedBy(executor, Noting(executor, 3), strict), 2);
  }

  // What turns out to be long invites between two units, and from then on before the first.
  RunLength length(std::chrono::milliseconds(300), std::chrono::hours(1));
  EXPECT_EQ(InvitedBy(executor, Noting(executor, 3), length), 2);
  ASSERT_FALSE(length.is_long());
  int before = executor.invited;
  Noting first(executor, 3, std::chrono::milliseconds(400));
  RunStaged(first, executor, 0, false, length);
  EXPECT_EQ(executor.invited - before, 2);
  EXPECT_EQ(first.invited_at_first, before);
  EXPECT_TRUE(length.is_long());
  before = executor.invited;
  Noting second(executor, 3);
  RunStaged(second, executor, 0, false, length);
  EXPECT_EQ(second.invited_at_first, before + 2);
  EXPECT_TRUE(length.is_long()) << "one short run is not enough";
  // One unit is the leader's own.
  EXPECT_EQ(InvitedBy(executor, Noting(executor, 1), length), 0);
}

// Keeps invitations for later.
class LateExecutor final : public Executor {
 public:
  int concurrency() const override { return 3; }
  void ParallelFor(int64_t count, int64_t, RangeBody body) override { body(0, count); }
  void Invite(const std::shared_ptr<Invitation>& invitation, int count) override {
    for (int i = 0; i < count; ++i) invitations.push_back(invitation);
  }
  std::vector<std::shared_ptr<Invitation>> invitations;
};

void RunWithLateHelpers() {
  LateExecutor executor;
  for (int run = 0; run < 10; ++run) {
    Counted work({3, 50, 0, 7});
    RunLength length;
    RunStaged(work, executor, 20, false, length);
    ASSERT_EQ(work.CompleteStages(), 4u);
  }
  // The teams of this thread wait for helpers, so that the later runs have invited nobody.
  const size_t before = executor.invitations.size();
  EXPECT_EQ(before, 8u);
  for (const std::shared_ptr<Invitation>& invitation : executor.invitations) {
    invitation->Accept();
    invitation->Return();
  }
  Counted work({3, 50, 0, 7});
  RunLength length;
  RunStaged(work, executor, 20, false, length);
  EXPECT_EQ(work.CompleteStages(), 4u);
  EXPECT_EQ(executor.invitations.size(), before + 2);
  for (size_t i = before; i < executor.invitations.size(); ++i) executor.invitations[i]->Return();
}

// On a thread of its own, which has teams of its own.
// Otherwise they and what they own stay with the library of threads until the process ends.
TEST(Executor, ItsEndTakesBackWhatNobodyAccepted) {
  struct Counting final : Invitation {
    std::atomic<int> accepted{0}, returned{0};
    void Accept() override { accepted.fetch_add(1); }
    void Return() override { returned.fetch_add(1); }
  };
  for (int round = 0; round < 20; ++round) {
    auto invitation = std::make_shared<Counting>();
    {
      auto executor = MakeExecutor(3, {}).value();
      executor->Invite(invitation, 500);
    }
    EXPECT_EQ(invitation->returned.load(), 500);
    EXPECT_LE(invitation->accepted.load(), 500);
    EXPECT_EQ(invitation.use_count(), 1);  // no task holds it
  }
}

TEST(Team, NobodyWaitsForHelpersThatHaveNotCome) { std::thread(RunWithLateHelpers).join(); }

}  // namespace
}  // namespace halyard::drivers::cpu
