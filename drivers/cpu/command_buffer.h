// SPDX-License-Identifier: Apache-2.0
// CpuCommandBuffer: a recording as a list of tasks in stages. Tasks of one stage may run in any
// order and at once; a barrier starts a new stage.
#pragma once

#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "base/cpu_kernel_abi.h"
#include "drivers/cpu/buffer.h"
#include "drivers/cpu/executable.h"
#include "drivers/cpu/executor.h"
#include "drivers/cpu/team.h"
#include "hal/command_buffer.h"
#include "hal/command_checks.h"

namespace halyard::drivers::cpu {

class CpuCommandBuffer final : public hal::CommandBuffer {
 public:
  explicit CpuCommandBuffer(Ref<CpuDevice> device);
  ~CpuCommandBuffer() override;

  hal::Device* device() const override;

  Status Dispatch(const hal::DispatchCommand& command) override;
  Status Copy(const hal::CommandRange& source, const hal::CommandRange& target) override;
  Status Fill(const hal::CommandRange& target, uint64_t pattern, uint32_t pattern_bytes) override;
  Status Barrier() override;
  Status Finish() override;
  bool is_finished() const override { return is_finished_.load(std::memory_order_acquire); }
  uint32_t slot_count() const override { return static_cast<uint32_t>(slot_needs_.size()); }
  uint32_t dispatch_count() const override { return static_cast<uint32_t>(dispatches_.size()); }

  std::span<const hal::SlotNeed> slot_needs() const { return slot_needs_; }
  size_t range_count() const { return ranges_.size(); }

  // Runs everything. `slots`: the host address of each binding slot. `addresses`: scratch for
  // range_count() addresses. Returns the failure that a kernel reported through `error`, or
  // OUT_OF_MEMORY when a thread could not get its workgroup memory.
  Status Run(std::span<uint8_t* const> slots, std::span<void*> addresses, ErrorRecord* error,
             Executor& executor) const;

 private:
  enum class TaskKind : uint8_t { kDispatch, kCopy, kFill };
  // A range whose address a submission computes: a fixed address, or a slot's plus an offset.
  struct Range {
    uint8_t* address = nullptr;
    uint32_t slot = 0;
    int64_t offset = 0;
  };
  struct Task {
    TaskKind kind = TaskKind::kDispatch;
    uint32_t first_range = 0;  // bindings; or source and target; or target
    int64_t first_unit = 0;    // within the stage
    int64_t unit_count = 0;    // workgroups, or chunks of a copy or fill
    // kDispatch
    CpuKernelFunction function = nullptr;
    size_t first_scalar = 0;
    int64_t grid[3] = {0, 0, 0};
    uint32_t dispatch = 0;
    size_t workgroup_memory_bytes = 0;
    // kCopy and kFill
    int64_t size_bytes = 0;
    uint64_t pattern = 0;
    uint32_t pattern_bytes = 0;
  };
  struct Stage {
    size_t first_task = 0;
    size_t task_count = 0;
    int64_t unit_count = 0;
  };
  struct DispatchInfo {
    std::string label;
    const CpuExecutable* executable = nullptr;
    uint32_t entry = 0;
  };
  struct Running;

  Status CheckRecording() const;
  Status FailureOf(const ErrorRecord& error) const;
  Status AddTask(Task task);
  void AddRange(const hal::CommandRange& range, bool is_dispatched);
  bool RunUnits(const Running& running, const Stage& stage, int64_t begin, int64_t end) const;
  bool RunWorkgroups(const Running& running, const Task& task, int64_t begin, int64_t end) const;
  void RunCopy(const Running& running, const Task& task, int64_t begin, int64_t end) const;
  void RunFill(const Running& running, const Task& task, int64_t begin, int64_t end) const;

  Ref<CpuDevice> device_;
  int64_t chunk_bytes_;  // of copies and fills; a multiple of 8
  bool is_one_element_;  // test mode: parallel loops hand out single units
  mutable RunLength length_;
  std::atomic<bool> is_finished_{false};
  std::vector<Task> tasks_;
  std::vector<Stage> stages_;
  std::vector<Range> ranges_;
  std::vector<int64_t> scalars_;
  std::vector<DispatchInfo> dispatches_;
  std::vector<hal::SlotNeed> slot_needs_;
  std::vector<Ref<hal::Buffer>> buffers_;
  std::vector<Ref<hal::Executable>> executables_;
};

// Sequential forms for queue copies and fills outside recordings.
void FillBytes(uint8_t* target, int64_t size_bytes, uint64_t pattern, uint32_t pattern_bytes);

}  // namespace halyard::drivers::cpu
