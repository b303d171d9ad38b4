// SPDX-License-Identifier: Apache-2.0
// Replay: what one submission of a recording needs for itself: the kernels' arguments, an error
// record and, for a recording that is a graph, an executable graph. Reused by later submissions,
// which change only what their buffers change.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "drivers/cuda/command_buffer.h"

namespace halyard::drivers::cuda {

// Used by one submission at a time.
class Replay {
 public:
  // `recording` outlives the replay.
  static Result<std::unique_ptr<Replay>> Create(const CudaCommandBuffer& recording);
  ~Replay();

  // Whether Bind with these addresses would change nothing.
  bool HasSlots(std::span<const CUdeviceptr> slots) const;
  // Puts the commands onto the stream with `slots` as the addresses of the binding slots. The
  // context is current. `out_enqueued`: whether anything may have reached the stream.
  Status Launch(std::span<const CUdeviceptr> slots, CUstream stream, bool* out_enqueued);
  // After the work is done: the failure that a kernel reported. Clears the record.
  Status TakeFailure();

 private:
  explicit Replay(const CudaCommandBuffer& recording);
  using Command = CudaCommandBuffer::Command;

  CUdeviceptr AddressOf(uint32_t range) const;
  bool UsesChangedSlot(const Command& command) const;
  void WriteBindings(const Command& command);
  Status Rebind(std::span<const CUdeviceptr> slots);
  CUDA_KERNEL_NODE_PARAMS KernelNode(const Command& command);
  CUDA_MEMSET_NODE_PARAMS FillNode(const Command& command) const;
  CUDA_MEMCPY3D CopyNode(const Command& command) const;
  bool HasDependentLaunch() const;
  Status BuildGraph();
  std::span<const uint64_t> BindingsOf(const Command& command) const;
  // The library call as a graph of its own, which the caller destroys.
  Result<CUgraph> Capture(const Command& command) const;
  Status AddNode(const Command& command, std::span<const CUgraphNode> after, CUgraphNode* node);
  Status UpdateNode(const Command& command, CUgraphNode node);
  void DestroyGraph();
  Status LaunchSingly(CUstream stream, bool* out_enqueued);

  const CudaCommandBuffer& recording_;
  Context& context_;
  RecordSlot record_;
  std::vector<CUdeviceptr> slots_;  // as bound now
  std::vector<uint8_t> changed_;    // per slot, during Rebind
  bool is_bound_ = false;
  std::vector<uint64_t> arguments_;       // of all kernels, one after the other
  std::vector<void*> argument_pointers_;  // to each of them
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
  std::vector<CUgraphNode> nodes_;  // per command
};

}  // namespace halyard::drivers::cuda
