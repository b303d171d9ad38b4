// SPDX-License-Identifier: Apache-2.0
// Team: the threads of one run of a recording, which stay together over all of its stages. One
// thread leads: it opens the stages one by one; the others help where something is left. No thread
// waits for a helper that has claimed nothing, so a helper that comes late or never costs nothing
// but speed; nor does the one that leads wait for helpers that sleep, or have not come, when the
// work ends: they leave when they get to it, from a team that they own together.
//
// The units of a stage are divided into one contiguous share for each thread. A thread takes its
// own share first, a piece at a time, then what is left of the others: the same thread touches the
// same part of a tensor in stage after stage, and threads meet on one cache line only when one of
// them has nothing left.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "drivers/cpu/executor.h"

namespace halyard::drivers::cpu {

// Work in stages of units. Units of one stage may run in any order and at once.
class StagedWork {
 public:
  virtual size_t stage_count() const = 0;
  virtual int64_t unit_count(size_t stage) const = 0;
  // Called by several threads at once; may not throw.
  virtual void Run(size_t stage, int64_t begin, int64_t end) = 0;
  // Asked between stages.
  virtual bool is_failed() const = 0;

 protected:
  ~StagedWork() = default;
};

class Team {
 public:
  static constexpr int kUnitBits = 40;
  static constexpr int64_t kMostUnits = int64_t{1} << (kUnitBits - 1);  // of one stage
  static constexpr size_t kMostStages = size_t{1} << (63 - kUnitBits);

  // Before each Lead. `threads`: how many may take part. `spin_us`: how long a thread that waits
  // for another one watches before it sleeps. `is_one_unit`: pieces of one unit each. The work
  // stays within the limits above and is not touched after Lead.
  void Prepare(StagedWork& work, int threads, int64_t spin_us, bool is_one_unit);

  // Returns when the work is done or has failed; once after each Prepare. Where the work takes
  // longer than `alone`, and the leader is between two pieces, `invite` (may be null) is called
  // once.
  void Lead(void (*invite)(void* context) = nullptr, void* context = nullptr,
            std::chrono::nanoseconds alone = {});
  // On any other thread, any time after Prepare; returns when the work has ended.
  void Help();

 private:
  static constexpr int kMostShares = 64;
  static constexpr uint32_t kOver = UINT32_MAX;
  struct alignas(64) Share {
    // Above kUnitBits the stage that it speaks of, counted from 1; below, the next unclaimed unit.
    // A share that still speaks of an earlier stage is untouched.
    std::atomic<uint64_t> next{0};
  };
  // Helpers of one slot that may touch the work; on a cache line that nobody else writes.
  struct alignas(64) Presence {
    std::atomic<int> count{0};
  };

  void RunStage(int slot, size_t stage, bool leads);
  bool Claim(int share, size_t stage, int64_t* begin, int64_t* end);
  void RunShare(int share, size_t stage, bool leads);
  void InviteIfLong();
  void AwaitChange(std::atomic<uint32_t>& value, uint32_t old) const;
  int TakeSlot();

  StagedWork* work_ = nullptr;
  int shares_ = 1;
  int64_t spin_us_ = 0;
  bool is_one_unit_ = false;
  void (*invite_)(void* context) = nullptr;  // the leader's own
  void* invite_context_ = nullptr;
  std::chrono::steady_clock::time_point invite_at_;
  std::atomic<uint64_t> slots_{1};             // taken; the leader's is 0
  alignas(64) std::atomic<uint32_t> open_{0};  // the open stage, counted from 1; kOver at the end
  int64_t due_ = 0;  // units up to and with the open stage; written before it opens
  alignas(64) std::atomic<int64_t> done_{0};  // units
  std::atomic<uint32_t> finished_{0};         // stages whose last unit is done, counted as open_
  Share states_[kMostShares];
  Presence present_[kMostShares];
};

// Whether the runs of one recording are worth helpers, by how long the last ones took. To invite
// fifteen threads takes the one that invites some ten microseconds, of which a short run is over
// in two. Any thread.
class RunLength {
 public:
  // `alone`: after this a leader that began alone invites helpers. `short_run`: with helpers from
  // the start a run that takes less might have been as short without.
  explicit RunLength(std::chrono::nanoseconds alone = std::chrono::microseconds(4),
                     std::chrono::nanoseconds short_run = std::chrono::microseconds(20))
      : alone_(alone), short_(short_run) {}

  std::chrono::nanoseconds alone() const { return alone_; }
  // Whether helpers are invited at once; if not, the leader begins alone.
  bool is_long() const { return long_runs_.load(std::memory_order_relaxed) > 0; }
  // After a run with helpers from the start.
  void Took(std::chrono::nanoseconds time);
  // After a run that was begun alone.
  void BeganAlone(bool has_invited);

 private:
  static constexpr int kTrust = 64;  // runs after one that was too long for its leader alone
  std::atomic<int> long_runs_{1};    // that begin with helpers, unless they are short
  const std::chrono::nanoseconds alone_, short_;
};

// Leads `work` on this thread with helpers from `executor`, as many as a stage has units for, in a
// team of this thread that nobody is left of; alone where all of its teams still have helpers to
// come, and at first where the last runs were short.
void RunStaged(StagedWork& work, Executor& executor, int64_t spin_us, bool is_one_unit,
               RunLength& length);

}  // namespace halyard::drivers::cpu
