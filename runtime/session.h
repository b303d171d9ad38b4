// SPDX-License-Identifier: Apache-2.0
// Session: runs a loaded program, one run at a time. It owns the activations, the recordings and
// the semaphores; weights and code belong to the LoadedProgram that sessions share.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "hal/device.h"
#include "runtime/interpreter.h"
#include "runtime/launch_time.h"
#include "runtime/loaded_program.h"
#include "runtime/poison.h"
#include "runtime/recording.h"
#include "runtime/run_profile.h"
#include "runtime/run_times.h"
#include "runtime/symbol_binding.h"

namespace halyard::runtime {

enum class NewShapes : int32_t { kGeneric = 0, kCompile = 1, kError = 2, kCompileLater = 3 };

struct SessionOptions {
  NewShapes on_new_shapes = NewShapes::kGeneric;
  int64_t memory_limit_bytes = INT64_MAX;  // of activations
  Interpreter interpreter;                 // for ops that run in the interpreter; may be empty
  bool time_runs = false;                  // the devices measure what each run takes
  bool time_commands = false;              // runs one command after the other and measures each
};

// A tensor of a call: host memory or a range of a HAL buffer; row-major and packed.
struct CallTensor {
  DType dtype = DType::kInvalid;
  std::span<const int64_t> dims;
  void* data = nullptr;
  int64_t size_bytes = 0;
  hal::Buffer* buffer = nullptr;  // instead of data
  int64_t buffer_offset = 0;
};

// What a run gives back; the spans live until the session's next run.
struct CallResult {
  DType dtype = DType::kInvalid;
  std::span<const int64_t> dims;
  void* data =
      nullptr;  // where the bytes are, for the host; null when they are in the caller's buffer
  int64_t size_bytes = 0;
  bool is_callers = false;  // the memory, whose size is the caller's to know
};

// The end of a run; copyable. Keeps everything alive that the run uses.
struct RunEvent {
  std::shared_ptr<const void> keep_alive;
  Ref<hal::Device> device;
  Ref<hal::Semaphore> semaphore;
  uint64_t value = 0;
  // Of the run's submissions; null unless the session measures its runs.
  std::shared_ptr<const std::vector<Ref<hal::CommandTime>>> times;
  std::shared_ptr<const RunProfile> profile;  // null unless the session times its commands

  // As hal::Device::Wait.
  Status Wait(int64_t timeout_ns) const;
  // What the run's commands took by the clocks of their devices, added up; without transfers and
  // without interpreted ops. FAILED_PRECONDITION when it was not measured, UNIMPLEMENTED when a
  // device has no clock, what Wait(0) says when the run is not done or has failed.
  Result<int64_t> DeviceNanoseconds() const;
};

// One thread at a time: a second one gets BUSY. Allocates nothing in a run that repeats the sizes
// and the host pointers of one before. After a failed run the next one starts afresh; after a
// failed check inside (something other than bad_alloc was thrown) every later one is
// FAILED_PRECONDITION.
class Session : public std::enable_shared_from_this<Session> {
 public:
  static std::shared_ptr<Session> Create(std::shared_ptr<LoadedProgram> program,
                                         SessionOptions options);
  ~Session();

  // Binds, runs and waits. Outputs with neither data nor buffer get memory of the session.
  Status Run(std::span<const CallTensor> inputs, std::span<const CallTensor> outputs,
             std::span<CallResult> results);
  // The same without waiting. A run whose tensors all are in the caller's buffers is queued behind
  // one of the same kind and sizes that is still going; every other run waits for the end of the
  // one before it. With time_commands the run is over when this returns.
  Result<RunEvent> Submit(std::span<const CallTensor> inputs, std::span<const CallTensor> outputs,
                          std::span<CallResult> results);
  // Blocks until the run in flight is done, whatever its outcome.
  void WaitIdle();

  const LoadedProgram& program() const { return *program_; }

 private:
  Session(std::shared_ptr<LoadedProgram> program, SessionOptions options);

  // The session's own memory for one input, output or arena; grows, never shrinks.
  struct Port {
    Ref<hal::Buffer> buffer;    // what the device uses
    Ref<hal::Buffer> staging;   // the host's end, where the device has memory of its own
    Ref<hal::Buffer> imported;  // the caller's memory of the last run
    const void* imported_data = nullptr;
    int64_t imported_bytes = 0;
    uint8_t* mapped = nullptr;  // of staging, or of buffer where the host addresses it
    int64_t capacity = 0;
  };
  // Memory of an output that was too small for a later run. Callers may bring it again, so it stays
  // until the session ends; each is at least twice as large as the one before.
  struct RetiredOutput {
    Ref<hal::Buffer> memory;
    const uint8_t* mapped = nullptr;
    int64_t capacity = 0;
  };
  struct CopyOut {
    const uint8_t* from = nullptr;
    uint8_t* to = nullptr;
    int64_t size_bytes = 0;
  };
  // A step that a thread of a device runs on the host.
  struct HostStep {
    Session* session = nullptr;
    const Recording* recording = nullptr;
    uint32_t step = 0;
  };

  Status Bind(std::span<const CallTensor> inputs, std::span<const CallTensor> outputs,
              std::span<CallResult> results);
  // Whether a run of `recording` with these tensors touches nothing of the session but activations,
  // and leaves all waiting to one device.
  static bool RunsOnDeviceAlone(const Recording& recording, std::span<const CallTensor> inputs,
                                std::span<const CallTensor> outputs);
  Status Start(std::span<const CallTensor> inputs, std::span<const CallTensor> outputs,
               std::span<CallResult> results, bool caller_waits);
  void ReplaceIfLost(const Status& status);
  Status Replace();
  Result<std::shared_ptr<const Recording>> FindRecording(std::span<const CallTensor> inputs);
  // The program for exactly the present symbols, by the policy; null: the one for any sizes runs.
  Result<std::shared_ptr<LoadedProgram>> FindVariant();
  void DropMeanwhile();
  Status EnsureOutput(Port& port, const Recording::Storage& storage, const Recording& recording);
  void RetireOutput(Port& port);
  // Whether earlier runs gave this memory to the caller, for an output without any.
  bool IsOwnOutput(const void* data) const;
  Status EnsurePort(Port& port, const Recording::Storage& storage, const Recording& recording,
                    bool is_arena);
  Status BindInput(size_t index, const CallTensor& tensor);
  Status BindOutput(size_t index, const CallTensor& tensor, CallResult& result);
  Status TimeInput(size_t index, int64_t start_ns);
  LaunchTime& LaunchOf(const Recording::Step& step);
  Status TimeStep(uint32_t index, int64_t start_ns);
  Status FinishTimedRun();
  Status WaitFor(hal::Device& device, hal::SemaphorePoint point);
  std::vector<int64_t> SymbolsOf(const LoadedProgram& program) const;
  Status BindArenas();
  Status BindStaging();
  void SplitBindings();
  Status SubmitSteps(bool caller_waits);
  Status SubmitStep(uint32_t index, bool caller_waits);
  Status SubmitCopies(const Recording::Step& step, hal::Ordering ordering);
  Result<hal::Semaphore*> StepSemaphore(uint32_t index, const Recording& recording);
  Result<Ref<hal::Buffer>> Import(hal::Device& device, Port& port, void* data, int64_t size_bytes,
                                  bool is_read_only);
  hal::BufferRange Resolve(const hal::CommandRange& range) const;
  Result<uint8_t*> HostAddress(const hal::CommandRange& range);
  Status RunHostStep(const HostStep& call);
  Status RunInterpreted(const Recording& recording, const Recording::Step& step);
  Status RunHostCopies(const Recording::Step& step);
  void CopyOutputs();
  void Abandon();  // waits for what a failed submission had queued, then forgets
  void Forget();   // after a failure: semaphores that failed are not used again

  const std::shared_ptr<LoadedProgram> program_;
  std::shared_ptr<LoadedProgram> active_;  // program_, or what replaced it when a device was lost
  bool has_lost_device_ = false;           // a run said so; the next one looks for a replacement
  const SessionOptions options_;
  std::atomic<bool> is_busy_{false};
  Poison poison_;

  std::vector<int64_t> symbols_;
  std::vector<TensorShape> shapes_;
  std::vector<std::shared_ptr<const Recording>> recordings_;  // the most recent first
  std::shared_ptr<const Recording> current_;
  uint64_t seen_background_count_ =
      0;  // of variants, when recordings_ was last cleared of what ran meanwhile

  std::vector<Port> input_ports_, output_ports_, arena_ports_, staging_ports_;
  std::vector<RetiredOutput> retired_outputs_;
  std::vector<hal::BufferRange> bindings_;
  // Per device of the program: the bindings in its memory, the others empty.
  std::vector<std::vector<hal::BufferRange>> device_bindings_;
  std::vector<CopyOut> copy_outs_;
  std::vector<Ref<hal::Semaphore>> step_semaphores_;
  std::vector<uint32_t> step_semaphore_devices_;
  Ref<hal::Semaphore> transfer_semaphore_;  // uploads before the steps, downloads after them
  uint64_t transfer_value_ = 0;
  std::vector<hal::SemaphorePoint> wait_points_;
  std::vector<HostStep> host_steps_;
  uint64_t serial_ = 0;
  uint32_t queued_steps_ = 0;  // of the run being submitted
  RunEvent last_;              // of the run in flight
  bool in_flight_ = false;
  bool is_alone_ = false;   // the run in flight, or being submitted, RunsOnDeviceAlone
  bool is_behind_ = false;  // the run being submitted waits for the one in flight on the device
  std::vector<Ref<hal::CommandTime>>* times_ = nullptr;  // of the run being submitted
  std::shared_ptr<RunProfile> profile_;  // of the run being submitted, with time_commands
  RunTimes run_times_;                   // of all those runs
  std::map<const hal::Device*, LaunchTime> launches_;  // with time_commands
};

}  // namespace halyard::runtime
