// SPDX-License-Identifier: Apache-2.0
// Session: runs a loaded program, one run at a time. It owns the activations, the recordings and
// the semaphores; weights and code belong to the LoadedProgram that sessions share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "hal/device.h"
#include "runtime/interpreter.h"
#include "runtime/loaded_program.h"
#include "runtime/poison.h"
#include "runtime/recording.h"
#include "runtime/symbol_binding.h"

namespace halyard::runtime {

enum class NewShapes : int32_t { kGeneric = 0, kCompile = 1, kError = 2, kCompileLater = 3 };

struct SessionOptions {
  NewShapes on_new_shapes = NewShapes::kGeneric;
  int64_t memory_limit_bytes = INT64_MAX;  // of activations
  Interpreter interpreter;                 // for ops that run in the interpreter; may be empty
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
};

// The end of a run; copyable. Keeps everything alive that the run uses.
struct RunEvent {
  std::shared_ptr<const void> keep_alive;
  Ref<hal::Device> device;
  Ref<hal::Semaphore> semaphore;
  uint64_t value = 0;

  // As hal::Device::Wait.
  Status Wait(int64_t timeout_ns) const;
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
  // The same without waiting.
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
  struct CopyOut {
    const uint8_t* from = nullptr;
    uint8_t* to = nullptr;
    int64_t size_bytes = 0;
  };
  struct InterpretCall {
    Session* session = nullptr;
    const Recording* recording = nullptr;
    uint32_t step = 0;
  };

  Status Bind(std::span<const CallTensor> inputs, std::span<const CallTensor> outputs,
              std::span<CallResult> results);
  Status Start(std::span<const CallTensor> inputs, std::span<const CallTensor> outputs,
               std::span<CallResult> results, bool caller_waits);
  Result<std::shared_ptr<const Recording>> FindRecording(std::span<const CallTensor> inputs);
  // The program for exactly the present symbols, by the policy; null: the one for any sizes runs.
  Result<std::shared_ptr<LoadedProgram>> FindVariant();
  void DropMeanwhile();
  Status EnsurePort(Port& port, const Recording::Storage& storage, const Recording& recording,
                    bool is_arena);
  Status BindInput(size_t index, const CallTensor& tensor);
  Status BindOutput(size_t index, const CallTensor& tensor, CallResult& result);
  Status BindArenas();
  Status SubmitSteps(bool caller_waits);
  Status SubmitStep(uint32_t index, bool caller_waits);
  Result<hal::Semaphore*> StepSemaphore(uint32_t index, const Recording& recording);
  Result<Ref<hal::Buffer>> Import(hal::Device& device, Port& port, void* data, int64_t size_bytes,
                                  bool is_read_only);
  Result<uint8_t*> HostAddress(const hal::CommandRange& range);
  Status RunInterpreted(const InterpretCall& call);
  void CopyOutputs();
  void Abandon();  // waits for what a failed submission had queued, then forgets
  void Forget();   // after a failure: semaphores that failed are not used again

  const std::shared_ptr<LoadedProgram> program_;
  const SessionOptions options_;
  std::atomic<bool> is_busy_{false};
  Poison poison_;

  std::vector<int64_t> symbols_;
  std::vector<TensorShape> shapes_;
  std::vector<std::shared_ptr<const Recording>> recordings_;  // the most recent first
  std::shared_ptr<const Recording> current_;
  uint64_t seen_background_count_ =
      0;  // of variants, when recordings_ was last cleared of what ran meanwhile

  std::vector<Port> input_ports_, output_ports_, arena_ports_;
  std::vector<hal::BufferRange> bindings_;
  std::vector<CopyOut> copy_outs_;
  std::vector<Ref<hal::Semaphore>> step_semaphores_;
  std::vector<uint32_t> step_semaphore_devices_;
  Ref<hal::Semaphore> transfer_semaphore_;  // uploads before the steps, downloads after them
  uint64_t transfer_value_ = 0;
  std::vector<hal::SemaphorePoint> wait_points_;
  std::vector<InterpretCall> interpret_calls_;
  uint64_t serial_ = 0;
  uint32_t queued_steps_ = 0;  // of the run being submitted
  RunEvent last_;              // of the run in flight
  bool in_flight_ = false;
};

}  // namespace halyard::runtime
