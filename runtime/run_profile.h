// SPDX-License-Identifier: Apache-2.0
// RunProfile: what each command and each copy of one run took. The session that fills it runs one
// command after the other and waits for each, so a profile says what the parts cost, not how they
// overlap in a plain run.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "runtime/recording.h"

namespace halyard::runtime {

enum class TimedKind : int32_t {
  kDispatch = 0,
  kCopy = 1,
  kFill = 2,
  kInterpret = 3,
  kTransfer = 4,  // between devices
  kInput = 5,     // from the caller's memory to a device's, or to where it can read
  kOutput = 6,
};

struct TimedCommand {
  std::string label;   // of the fusion group, of a transfer's devices, or of the tensor
  std::string device;  // whose queue did it
  TimedKind kind = TimedKind::kDispatch;
  uint32_t queue = 0;
  // The host's clock, from the start of the run: before the call that submits, after it, and when
  // the host saw the end.
  int64_t start_ns = 0, submitted_ns = 0, end_ns = 0;
  // By the device's clock; of a dispatch without its launch (runtime/launch_time.h). -1: it has
  // none, or its queue did no commands.
  int64_t device_ns = -1;
  int64_t bytes = -1;  // moved; of a dispatch read and written, each byte once; -1: not known
  int64_t flops = -1;  // -1: not known
  // Of the arenas of all devices: what this command or a later one needs; -1: not a command.
  int64_t live_bytes = -1;
  DType product = DType::kInvalid;  // of the factors of a contraction or attention
};

class RunProfile {
 public:
  // Values of the symbols of `recording.program`, in its order.
  RunProfile(const Recording& recording, std::span<const int64_t> symbols);

  // From the start of the run.
  int64_t NowNs() const;
  // The step, submitted between `start_ns` and `submitted_ns`, has just ended; `device_ns` as
  // TimedCommand has it. A step without commands adds nothing.
  void AddStep(const Recording& recording, uint32_t step, int64_t start_ns, int64_t submitted_ns,
               int64_t device_ns);
  // A copy of the tensor `label` has just ended.
  void AddTensor(TimedKind kind, std::string label, const hal::Device& device, int64_t bytes,
                 int64_t start_ns, int64_t submitted_ns);

  const std::vector<TimedCommand>& commands() const { return commands_; }

 private:
  struct Work {
    int64_t flops = -1, bytes = -1;
    DType product = DType::kInvalid;
  };
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const std::vector<int64_t> symbols_;
  std::map<std::string, Work, std::less<>> work_of_label_;
  std::vector<int64_t> live_bytes_;  // per step of the recording
  std::vector<TimedCommand> commands_;
};

}  // namespace halyard::runtime
