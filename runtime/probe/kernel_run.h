// SPDX-License-Identifier: Apache-2.0
// KernelRun: the program of a small graph for one device, its operands in the device's memory, and
// its dispatches recorded many times over, so that one submission is long against what it costs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/place/prediction.h"
#include "runtime/device_turn.h"
#include "runtime/loaded_program.h"

namespace halyard::runtime {

// One thread at a time.
class KernelRun {
 public:
  // Of a program for that device alone. What times it holds the turn; Make takes it by itself.
  // OUT_OF_MEMORY when the operands do not fit.
  static Result<std::unique_ptr<KernelRun>> Make(Ref<hal::Device> device, program::Program program,
                                                 std::shared_ptr<DeviceTurn> turn);

  // Seconds from submitting `repeats` executions, each after the one before, to their end. `during`
  // (may be empty) runs between the two.
  Result<double> Time(int repeats, const std::function<void()>& during = {});
  // What the device says that one of `repeats` executions takes, each after the one before, without
  // their launch (runtime/launch_time.h), as runs time their commands. UNIMPLEMENTED where it has
  // no clock for that.
  Result<double> TimeByDevice(int repeats);
  // As TimeByDevice, of a few.
  Result<double> TimeOne() { return TimeByDevice(kTogether); }
  // As TimeOne, of an execution whose inputs were just written, by all of the device and in parts,
  // as the kernel before leaves them: each core of a processor finds most of them in caches of
  // others.
  Result<double> TimeFed();
  // As TimeFed, of an execution behind others that left nothing of its weights and code in caches
  // of `cache_bytes`, as in a model of more weights than that.
  Result<double> TimeCold(int64_t cache_bytes);
  // As TimeFed, of executions that each have weights of their own, of more than `cache_bytes`
  // together: where that much takes long to write over, its noise hides the kernel. Of a kernel
  // without weights it is TimeFed.
  Result<double> TimeWithOtherWeights(int64_t cache_bytes);
  // Bytes of constants that an execution reads.
  int64_t weight_bytes() const { return weight_bytes_; }
  // The host's part of submitting, of the last Time.
  double submit_seconds() const { return submit_seconds_; }
  // What placement expects of the graph, if that is one cluster; FAILED_PRECONDITION if not.
  Result<place::KernelPrediction> Prediction() const;
  // Dispatches, copies and fills of one execution.
  size_t command_count() const;

 private:
  KernelRun(Ref<hal::Device> device, std::shared_ptr<DeviceTurn> turn)
      : device_(std::move(device)), turn_(std::move(turn)) {}
  static constexpr int kTogether = 8;  // executions of a recording that tells what one takes
  // What a recording has.
  enum class Content : uint8_t {
    kExecutions,      // one behind the other
    kFedExecutions,   // each behind what brings the inputs, and with the next copy of the weights
    kFeeds,           // what stands before each of those alone
    kColdExecutions,  // each behind what empties the caches and brings the inputs
    kEvictions,       // what stands before each of those alone
  };
  Status MakeOperands();
  // A second copy of each input.
  Status MakeBrought();
  // Memory to write over, as large as the caches.
  Status MakeEvicted(int64_t cache_bytes);
  Status MakeOtherWeights(int64_t copies);
  // Each input in so many copies, of which each core does some.
  Status RecordFeed(hal::CommandBuffer& commands, int64_t parts) const;
  // `set`: of the weights, modulo how many there are.
  Status RecordExecution(hal::CommandBuffer& commands, size_t set) const;
  Result<hal::CommandBuffer*> Record(int repeats, Content content = Content::kExecutions);
  // What `repeats` of `with` take more than those of `without`, each.
  Result<double> TimeBeyond(int repeats, Content with, Content without);
  // By the device's clock.
  Result<double> TimeOnDevice(hal::CommandBuffer& commands);

  Ref<hal::Device> device_;
  std::shared_ptr<DeviceTurn> turn_;
  std::shared_ptr<LoadedProgram> program_;
  std::vector<Ref<hal::Buffer>> buffers_;
  std::vector<hal::CommandRange> ranges_;  // per buffer of the entry
  std::vector<hal::Buffer*> inputs_;       // of buffers_
  std::vector<uint32_t> weights_;          // of ranges_, those that constants are in
  int64_t weight_bytes_ = 0;
  Ref<hal::Buffer> evicting_;              // null until an execution is to be cold
  std::vector<Ref<hal::Buffer>> brought_;  // the second copies of inputs_
  // Per copy of the weights beyond the first, a range for each of weights_.
  std::vector<std::vector<hal::CommandRange>> other_weights_;
  std::map<std::pair<int, Content>, Ref<hal::CommandBuffer>> recordings_;
  Ref<hal::Semaphore> semaphore_;
  uint64_t value_ = 0;
  double submit_seconds_ = 0;
};

}  // namespace halyard::runtime
