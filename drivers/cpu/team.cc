// SPDX-License-Identifier: Apache-2.0
#include "drivers/cpu/team.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <memory>
#include <thread>

namespace halyard::drivers::cpu {
namespace {

constexpr uint64_t kUnitMask = (uint64_t{1} << Team::kUnitBits) - 1;
// Pieces of a share: small enough for others to help, large enough to hide the cost of a claim.
constexpr int64_t kPieces = 16;

// The share that this thread had last: what it wrote then may still be in its cache.
thread_local int t_slot = 1;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void Team::Prepare(StagedWork& work, int threads, int64_t spin_us, bool is_one_unit) {
  work_ = &work;
  shares_ = std::clamp(threads, 1, kMostShares);
  spin_us_ = spin_us;
  is_one_unit_ = is_one_unit;
  due_ = 0;
  for (Share& share : states_) share.next.store(0, std::memory_order_relaxed);
  slots_.store(1, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  finished_.store(0, std::memory_order_relaxed);
  open_.store(0, std::memory_order_release);
}

// The open stage cannot end while units of it are claimed and not done, and a share of a stage that
// has ended holds nothing: whoever comes with an old stage finds it exhausted or speaking of a
// later one.
bool Team::Claim(int share, size_t stage, int64_t* begin, int64_t* end) {
  const int64_t units = work_->unit_count(stage);
  const int64_t first = (units * share + shares_ - 1) / shares_;
  const int64_t last = (units * (share + 1) + shares_ - 1) / shares_;
  if (first == last) return false;
  const uint64_t tag = stage + 1;
  const int64_t piece = is_one_unit_ ? 1 : std::max<int64_t>(1, (last - first) / kPieces);
  std::atomic<uint64_t>& next = states_[share].next;
  uint64_t seen = next.load(std::memory_order_acquire);
  for (;;) {
    const uint64_t told = seen >> kUnitBits;
    if (told > tag) return false;
    const int64_t at = told == tag ? static_cast<int64_t>(seen & kUnitMask) : first;
    if (at >= last) return false;
    const int64_t upto = std::min(at + piece, last);
    if (next.compare_exchange_weak(seen, tag << kUnitBits | static_cast<uint64_t>(upto),
                                   std::memory_order_acq_rel, std::memory_order_acquire)) {
      *begin = at;
      *end = upto;
      return true;
    }
  }
}

void Team::InviteIfLong() {
  if (invite_ == nullptr || std::chrono::steady_clock::now() < invite_at_) return;
  invite_(invite_context_);
  invite_ = nullptr;
}

void Team::RunShare(int share, size_t stage, bool leads) {
  int64_t begin = 0, end = 0, units = 0;
  while (Claim(share, stage, &begin, &end)) {
    if (leads) InviteIfLong();
    work_->Run(stage, begin, end);
    units += end - begin;
  }
  if (units == 0) return;
  // Read while these units hold the stage open: after the addition the leader may go on.
  const int64_t due = due_;
  if (done_.fetch_add(units, std::memory_order_acq_rel) + units != due) return;
  finished_.store(static_cast<uint32_t>(stage + 1), std::memory_order_release);
  finished_.notify_one();
}

void Team::RunStage(int slot, size_t stage, bool leads) {
  for (int i = 0; i < shares_; ++i) RunShare((slot + i) % shares_, stage, leads);
}

// Some hundred nanoseconds to see a change while spinning, some fifty microseconds to wake up.
void Team::AwaitChange(std::atomic<uint32_t>& value, uint32_t old) const {
  if (spin_us_ > 0) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(spin_us_);
    do {
      for (int i = 0; i < 32; ++i) {
        if (value.load(std::memory_order_acquire) != old) return;
        Pause();
      }
    } while (std::chrono::steady_clock::now() < end);
  }
  value.wait(old, std::memory_order_acquire);
}

void Team::Lead(void (*invite)(void* context), void* context, std::chrono::nanoseconds alone) {
  invite_ = invite;
  invite_context_ = context;
  if (invite != nullptr) invite_at_ = std::chrono::steady_clock::now() + alone;
  uint32_t finished = 0;
  for (size_t stage = 0; stage < work_->stage_count() && !work_->is_failed(); ++stage) {
    const int64_t units = work_->unit_count(stage);
    if (units == 0) continue;
    due_ += units;
    open_.store(static_cast<uint32_t>(stage + 1), std::memory_order_release);
    // Nobody needs to wake up for a unit that the leader takes.
    if (units > 1) open_.notify_all();
    RunStage(0, stage, true);
    while (finished_.load(std::memory_order_acquire) == finished) AwaitChange(finished_, finished);
    finished = static_cast<uint32_t>(stage + 1);
  }
  // Whoever is present may still look for units; whoever comes now sees that it is over.
  open_.store(kOver, std::memory_order_seq_cst);
  open_.notify_all();
  for (int slot = 0; slot < shares_; ++slot) {
    for (int i = 0; present_[slot].count.load(std::memory_order_seq_cst) != 0; ++i) {
      i % 64 == 63 ? std::this_thread::yield() : Pause();
    }
  }
}

int Team::TakeSlot() {
  uint64_t taken = slots_.load(std::memory_order_relaxed);
  for (;;) {
    int slot = t_slot;
    if (slot >= shares_ || (taken >> slot & 1) != 0) slot = std::countr_one(taken);
    if (slot >= shares_) return 0;  // more threads than shares: this one helps out
    if (slots_.compare_exchange_weak(taken, taken | uint64_t{1} << slot, std::memory_order_relaxed))
      return t_slot = slot;
  }
}

void Team::Help() {
  const int slot = TakeSlot();
  std::atomic<int>& present = present_[slot].count;
  uint32_t seen = 0;
  for (;;) {
    // Announced before the look: either the leader sees it, or this thread sees that it is over.
    present.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t open = open_.load(std::memory_order_seq_cst);
    const bool is_new = open != kOver && open != seen;
    if (is_new) RunStage(slot, open - 1, false);
    present.fetch_sub(1, std::memory_order_release);
    if (open == kOver) return;
    if (is_new) {
      seen = open;
    } else {
      AwaitChange(open_, seen);
    }
  }
}

namespace {

// A team and how many invitations to it are open. The invitations own it together with the thread
// that leads it.
struct Invited final : Invitation {
  Team team;
  std::atomic<int> open{0};

  void Accept() override { team.Help(); }
  void Return() override { open.fetch_sub(1, std::memory_order_release); }
};

// Of one thread: a helper of an earlier run may be late.
constexpr size_t kTeams = 4;
thread_local std::array<std::shared_ptr<Invited>, kTeams> t_teams;

}  // namespace

void RunStaged(StagedWork& work, Executor& executor, int64_t spin_us, bool is_one_unit,
               RunLength& length) {
  int64_t most_units = 0;
  for (size_t stage = 0; stage < work.stage_count(); ++stage) {
    most_units = std::max(most_units, work.unit_count(stage));
  }
  const int helpers = static_cast<int>(std::min<int64_t>(executor.concurrency(), most_units)) - 1;
  std::shared_ptr<Invited>* idle = nullptr;
  if (helpers > 0) {
    if (!t_teams[0]) {
      for (std::shared_ptr<Invited>& team : t_teams) team = std::make_shared<Invited>();
    }
    for (std::shared_ptr<Invited>& team : t_teams) {
      if (team->open.load(std::memory_order_acquire) == 0) idle = &team;
    }
  }
  if (idle == nullptr) {
    Team alone;
    alone.Prepare(work, 1, spin_us, is_one_unit);
    return alone.Lead();
  }
  struct Guests {
    const std::shared_ptr<Invited>& invited;
    Executor& executor;
    int count;
    bool are_invited = false;

    void Invite() {
      are_invited = true;
      invited->open.store(count, std::memory_order_relaxed);
      executor.Invite(invited, count);
    }
  };
  Guests guests{*idle, executor, helpers};
  Team& team = (*idle)->team;
  team.Prepare(work, helpers + 1, spin_us, is_one_unit);
  if (!length.is_long()) {
    team.Lead([](void* context) { static_cast<Guests*>(context)->Invite(); }, &guests,
              length.alone());
    return length.BeganAlone(guests.are_invited);
  }
  const auto start = std::chrono::steady_clock::now();
  guests.Invite();
  team.Lead();
  length.Took(std::chrono::steady_clock::now() - start);
}

void RunLength::Took(std::chrono::nanoseconds time) {
  if (time < short_) long_runs_.fetch_sub(1, std::memory_order_relaxed);
}

void RunLength::BeganAlone(bool has_invited) {
  if (has_invited) long_runs_.store(kTrust, std::memory_order_relaxed);
}

}  // namespace halyard::drivers::cpu
