// SPDX-License-Identifier: Apache-2.0
// CudaCommandBuffer: a recording as a list of commands in stages, and the pool of replays that
// submit it. A barrier starts a new stage.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "drivers/cuda/buffer.h"
#include "drivers/cuda/executable.h"
#include "hal/command_buffer.h"
#include "hal/command_checks.h"

namespace halyard::drivers::cuda {

class Replay;

class CudaCommandBuffer final : public hal::CommandBuffer {
 public:
  enum class Kind : uint8_t { kDispatch, kLibraryCall, kCopy, kFill };
  // A range whose address a submission computes: a fixed address, or a slot's plus an offset.
  struct Range {
    CUdeviceptr address = 0;  // of a fixed range; 0: use the slot
    uint32_t slot = 0;
    int64_t offset = 0;
  };
  // One node of a graph, or one launch.
  struct Command {
    Kind kind = Kind::kDispatch;
    uint32_t stage = 0;
    uint32_t first_range = 0;  // bindings; or source and target; or target
    uint32_t range_count = 0;
    // kDispatch; of a library call, which is a dispatch too, the kernel, the bindings and the index
    const CudaExecutable::Kernel* kernel = nullptr;
    size_t first_scalar = 0;
    uint32_t scalar_count = 0;
    uint32_t grid[3] = {0, 0, 0};
    uint32_t dispatch = 0;      // index among the recording's dispatches
    size_t first_argument = 0;  // of the recording's 8-byte arguments
    // kCopy and kFill; a fill with pitch 8 writes 4 bytes of every 8
    int64_t size_bytes = 0;
    uint32_t value = 0;
    uint32_t element_bytes = 0;
    bool is_every_other = false;
  };

  explicit CudaCommandBuffer(Ref<CudaDevice> device);
  ~CudaCommandBuffer() override;

  hal::Device* device() const override;
  Status Dispatch(const hal::DispatchCommand& command) override;
  Status Copy(const hal::CommandRange& source, const hal::CommandRange& target) override;
  Status Fill(const hal::CommandRange& target, uint64_t pattern, uint32_t pattern_bytes) override;
  Status Barrier() override;
  Status Finish() override;
  bool is_finished() const override { return is_finished_.load(std::memory_order_acquire); }
  uint32_t slot_count() const override { return static_cast<uint32_t>(slot_needs_.size()); }
  uint32_t dispatch_count() const override { return static_cast<uint32_t>(dispatches_.size()); }

  CudaDevice& cuda_device() const { return *device_; }
  std::span<const hal::SlotNeed> slot_needs() const { return slot_needs_; }
  std::span<const Command> commands() const { return commands_; }
  std::span<const Range> ranges() const { return ranges_; }
  std::span<const int64_t> scalars() const { return scalars_; }
  size_t argument_count() const { return argument_count_; }
  bool is_graph() const { return is_graph_; }

  // A replay that nobody uses, made when there is none; null when as many as may exist are in use.
  // Goes back through ReleaseReplay.
  Result<Replay*> AcquireReplay(std::span<const CUdeviceptr> slots);
  void ReleaseReplay(Replay* replay);

  // The failure that a kernel reported.
  Status FailureOf(const ErrorRecord& error) const;
  // "dispatch 'gemm_3', kernel 'matmul'".
  std::string DescribeDispatch(uint32_t dispatch) const;
  // "the submission of 3 dispatches: 'a', 'b', 'c'".
  std::string Describe() const;

 private:
  struct DispatchInfo {
    std::string label;
    const CudaExecutable* executable = nullptr;
    uint32_t entry = 0;
  };

  Status CheckRecording() const;
  void AddRange(const hal::CommandRange& range, int64_t extra_offset, Command* command);
  void AddFill(const hal::CommandRange& target, int64_t extra_offset, int64_t size_bytes,
               uint32_t value, uint32_t element_bytes, bool is_every_other);

  Ref<CudaDevice> device_;
  std::atomic<bool> is_finished_{false};
  bool is_graph_ = false;
  uint32_t stage_ = 0;
  std::vector<Command> commands_;
  std::vector<Range> ranges_;
  std::vector<int64_t> scalars_;
  size_t argument_count_ = 0;
  std::vector<DispatchInfo> dispatches_;
  std::vector<hal::SlotNeed> slot_needs_;
  std::vector<Ref<hal::Buffer>> buffers_;
  std::vector<Ref<hal::Executable>> executables_;

  std::mutex mutex_;  // the two below
  std::vector<std::unique_ptr<Replay>> replays_;
  std::vector<Replay*> free_replays_;
};

}  // namespace halyard::drivers::cuda
