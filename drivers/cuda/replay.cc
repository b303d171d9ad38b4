// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/replay.h"

#include <algorithm>

#include "drivers/cuda/device.h"
#include "drivers/cuda/transfer.h"

namespace halyard::drivers::cuda {

Replay::Replay(const CudaCommandBuffer& recording)
    : recording_(recording), context_(recording.cuda_device().context()) {}

Replay::~Replay() {
  Context::Current current(context_);
  DestroyGraph();
  if (record_.host) context_.ReleaseRecord(record_);
}

Result<std::unique_ptr<Replay>> Replay::Create(const CudaCommandBuffer& recording) {
  std::unique_ptr<Replay> replay(new Replay(recording));
  if (recording.dispatch_count() > 0) {
    HY_ASSIGN(replay->record_, replay->context_.AcquireRecord());
  }
  replay->slots_.resize(recording.slot_count());
  replay->changed_.resize(recording.slot_count());
  replay->arguments_.resize(recording.argument_count());
  for (uint64_t& argument : replay->arguments_) replay->argument_pointers_.push_back(&argument);
  for (const Command& command : recording.commands()) {
    if (command.kind != CudaCommandBuffer::Kind::kDispatch) continue;
    uint64_t* to = &replay->arguments_[command.first_argument] + command.range_count;
    for (uint32_t i = 0; i < command.scalar_count; ++i) {
      *to++ = static_cast<uint64_t>(recording.scalars()[command.first_scalar + i]);
    }
    *to++ = replay->record_.device;
    *to = command.dispatch;
  }
  return replay;
}

bool Replay::HasSlots(std::span<const CUdeviceptr> slots) const {
  return is_bound_ && std::equal(slots_.begin(), slots_.end(), slots.begin());
}

CUdeviceptr Replay::AddressOf(uint32_t range) const {
  const CudaCommandBuffer::Range& r = recording_.ranges()[range];
  return r.address ? r.address : slots_[r.slot] + static_cast<CUdeviceptr>(r.offset);
}

bool Replay::UsesChangedSlot(const Command& command) const {
  for (uint32_t i = 0; i < command.range_count; ++i) {
    const CudaCommandBuffer::Range& range = recording_.ranges()[command.first_range + i];
    if (!range.address && changed_[range.slot]) return true;
  }
  return false;
}

void Replay::WriteBindings(const Command& command) {
  for (uint32_t i = 0; i < command.range_count; ++i) {
    arguments_[command.first_argument + i] = AddressOf(command.first_range + i);
  }
}

CUDA_KERNEL_NODE_PARAMS Replay::KernelNode(const Command& command) {
  const CudaExecutable::Kernel& kernel = *command.kernel;
  CUDA_KERNEL_NODE_PARAMS node = {};
  node.func = kernel.function;
  node.gridDimX = command.grid[0];
  node.gridDimY = command.grid[1];
  node.gridDimZ = command.grid[2];
  node.blockDimX = kernel.workgroup_size[0];
  node.blockDimY = kernel.workgroup_size[1];
  node.blockDimZ = kernel.workgroup_size[2];
  node.sharedMemBytes = kernel.dynamic_workgroup_bytes;
  node.kernelParams = &argument_pointers_[command.first_argument];
  return node;
}

CUDA_MEMSET_NODE_PARAMS Replay::FillNode(const Command& command) const {
  CUDA_MEMSET_NODE_PARAMS node = {};
  node.dst = AddressOf(command.first_range);
  node.value = command.value;
  node.elementSize = command.element_bytes;
  const auto count = static_cast<size_t>(command.size_bytes / command.element_bytes);
  node.pitch = command.is_every_other ? 8 : 0;
  node.width = command.is_every_other ? 1 : count;
  node.height = command.is_every_other ? count / 2 : 1;
  return node;
}

CUDA_MEMCPY3D Replay::CopyNode(const Command& command) const {
  CUDA_MEMCPY3D node = {};
  node.srcMemoryType = node.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  node.srcDevice = AddressOf(command.first_range);
  node.dstDevice = AddressOf(command.first_range + 1);
  node.WidthInBytes = static_cast<size_t>(command.size_bytes);
  node.srcPitch = node.dstPitch = node.WidthInBytes;
  node.srcHeight = node.dstHeight = 1;
  node.Height = node.Depth = 1;
  return node;
}

std::span<const uint64_t> Replay::BindingsOf(const Command& command) const {
  return std::span(arguments_).subspan(command.first_argument, command.range_count);
}

Result<CUgraph> Replay::Capture(const Command& command) const {
  auto graph = command.kernel->library->Capture(*command.kernel->library_call, BindingsOf(command));
  HY_TRY_CONTEXT(graph, "{}", recording_.DescribeDispatch(command.dispatch));
  return graph;
}

Status Replay::AddNode(const Command& command, std::span<const CUgraphNode> after,
                       CUgraphNode* node) {
  const CudaApi& api = context_.api();
  switch (command.kind) {
    case CudaCommandBuffer::Kind::kDispatch: {
      CUDA_KERNEL_NODE_PARAMS parameters = KernelNode(command);
      return context_
          .Check(api.cuGraphAddKernelNode_v2(node, graph_, after.data(), after.size(), &parameters),
                 "cuGraphAddKernelNode", "")
          .WithContext(recording_.DescribeDispatch(command.dispatch));
    }
    case CudaCommandBuffer::Kind::kLibraryCall: {
      HY_ASSIGN(const CUgraph child, Capture(command));
      // The graph takes a copy.
      const CUresult result =
          api.cuGraphAddChildGraphNode(node, graph_, after.data(), after.size(), child);
      api.cuGraphDestroy(child);
      return context_.Check(result, "cuGraphAddChildGraphNode", "")
          .WithContext(recording_.DescribeDispatch(command.dispatch));
    }
    case CudaCommandBuffer::Kind::kCopy: {
      CUDA_MEMCPY3D parameters = CopyNode(command);
      return context_.Check(api.cuGraphAddMemcpyNode(node, graph_, after.data(), after.size(),
                                                     &parameters, context_.handle()),
                            "cuGraphAddMemcpyNode", "a copy");
    }
    case CudaCommandBuffer::Kind::kFill:
      break;
  }
  CUDA_MEMSET_NODE_PARAMS parameters = FillNode(command);
  return context_.Check(api.cuGraphAddMemsetNode(node, graph_, after.data(), after.size(),
                                                 &parameters, context_.handle()),
                        "cuGraphAddMemsetNode", "a fill");
}

Status Replay::UpdateNode(const Command& command, CUgraphNode node) {
  const CudaApi& api = context_.api();
  switch (command.kind) {
    case CudaCommandBuffer::Kind::kDispatch: {
      CUDA_KERNEL_NODE_PARAMS parameters = KernelNode(command);
      return context_.Check(api.cuGraphExecKernelNodeSetParams_v2(exec_, node, &parameters),
                            "cuGraphExecKernelNodeSetParams", "");
    }
    // The library is asked again: which of its parameters are addresses, it alone knows. What it
    // answers has other kernels than before only by its own choice; the graph is then made anew.
    case CudaCommandBuffer::Kind::kLibraryCall: {
      HY_ASSIGN(const CUgraph child, Capture(command));
      const CUresult result = api.cuGraphExecChildGraphNodeSetParams(exec_, node, child);
      api.cuGraphDestroy(child);
      return context_.Check(result, "cuGraphExecChildGraphNodeSetParams", "");
    }
    case CudaCommandBuffer::Kind::kCopy: {
      CUDA_MEMCPY3D parameters = CopyNode(command);
      return context_.Check(
          api.cuGraphExecMemcpyNodeSetParams(exec_, node, &parameters, context_.handle()),
          "cuGraphExecMemcpyNodeSetParams", "");
    }
    case CudaCommandBuffer::Kind::kFill:
      break;
  }
  CUDA_MEMSET_NODE_PARAMS parameters = FillNode(command);
  return context_.Check(
      api.cuGraphExecMemsetNodeSetParams(exec_, node, &parameters, context_.handle()),
      "cuGraphExecMemsetNodeSetParams", "");
}

void Replay::DestroyGraph() {
  const CudaApi& api = context_.api();
  if (exec_) api.cuGraphExecDestroy(std::exchange(exec_, nullptr));
  if (graph_) api.cuGraphDestroy(std::exchange(graph_, nullptr));
  nodes_.clear();
}

// Whether kernels that wait themselves begin early: where more than a quarter of a recording's
// kernels start behind full edges, runs were up to 1.5 times as fast with full edges everywhere
// (fp32 models, docs/placement.md).
bool Replay::HasDependentLaunch() const {
  if (!recording_.cuda_device().has_dependent_launch()) return false;
  size_t kernels = 0, late = 0;
  for (const Command& command : recording_.commands()) {
    if (command.kind != CudaCommandBuffer::Kind::kDispatch) continue;
    ++kernels;
    late += command.kernel->waits_itself ? 0 : 1;
  }
  return 4 * late <= kernels;
}

// Every node of a stage comes after every node of the stage before. Where that would be many edges,
// an empty node stands between.
Status Replay::BuildGraph() {
  const CudaApi& api = context_.api();
  DestroyGraph();
  HY_TRY(context_.Check(api.cuGraphCreate(&graph_, 0), "cuGraphCreate", ""));
  const std::span<const Command> commands = recording_.commands();
  const bool has_dependent_launch = HasDependentLaunch();
  std::vector<CUgraphNode> before;       // what the present stage comes after
  const Command* only_before = nullptr;  // the one command of the stage before
  for (size_t first = 0; first < commands.size();) {
    size_t end = first;
    while (end < commands.size() && commands[end].stage == commands[first].stage) ++end;
    if (before.size() > 1 && before.size() * (end - first) > before.size() + (end - first)) {
      CUgraphNode join = nullptr;
      HY_TRY(context_.Check(api.cuGraphAddEmptyNode(&join, graph_, before.data(), before.size()),
                            "cuGraphAddEmptyNode", ""));
      before.assign(1, join);
    }
    const bool is_dependent_launch = has_dependent_launch && end - first == 1 && only_before &&
                                     only_before->kind == CudaCommandBuffer::Kind::kDispatch &&
                                     commands[first].kind == CudaCommandBuffer::Kind::kDispatch &&
                                     commands[first].kernel->waits_itself;
    for (size_t i = first; i < end; ++i) {
      CUgraphNode node = nullptr;
      std::span<const CUgraphNode> after = before;
      HY_TRY(AddNode(commands[i], is_dependent_launch ? after.first(0) : after, &node));
      nodes_.push_back(node);
    }
    if (is_dependent_launch) {
      CUgraphEdgeData edge = {};
      edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
      edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
      HY_TRY(context_.Check(
          api.cuGraphAddDependencies_v2(graph_, &before[0], &nodes_.back(), &edge, 1),
          "cuGraphAddDependencies", ""));
    }
    only_before = end - first == 1 ? &commands[first] : nullptr;
    before.assign(nodes_.begin() + static_cast<ptrdiff_t>(first), nodes_.end());
    first = end;
  }
  return context_.Check(api.cuGraphInstantiateWithFlags(&exec_, graph_, 0),
                        "cuGraphInstantiateWithFlags", "");
}

Status Replay::Rebind(std::span<const CUdeviceptr> slots) {
  if (HasSlots(slots)) return OkStatus();
  for (size_t i = 0; i < slots_.size(); ++i) {
    changed_[i] = !is_bound_ || slots_[i] != slots[i];
    slots_[i] = slots[i];
  }
  const bool was_bound = std::exchange(is_bound_, false);
  bool is_rebuilt = recording_.is_graph() && !exec_;
  const std::span<const Command> commands = recording_.commands();
  for (size_t i = 0; i < commands.size(); ++i) {
    if (was_bound && !UsesChangedSlot(commands[i])) continue;
    if (commands[i].kind == CudaCommandBuffer::Kind::kDispatch ||
        commands[i].kind == CudaCommandBuffer::Kind::kLibraryCall) {
      WriteBindings(commands[i]);
    }
    if (!recording_.is_graph() || is_rebuilt) continue;
    Status status = UpdateNode(commands[i], nodes_[i]);
    HY_TRY(context_.health());
    // Some changes, such as a copy from another kind of memory, need a new graph.
    is_rebuilt = !status.ok();
  }
  if (is_rebuilt) {
    Status status = BuildGraph();
    if (!status.ok()) {
      DestroyGraph();
      return status;
    }
  }
  is_bound_ = true;
  return OkStatus();
}

Status Replay::LaunchSingly(CUstream stream, bool* out_enqueued) {
  const CudaApi& api = context_.api();
  for (const Command& command : recording_.commands()) {
    *out_enqueued = true;
    switch (command.kind) {
      case CudaCommandBuffer::Kind::kDispatch: {
        CUDA_KERNEL_NODE_PARAMS node = KernelNode(command);
        CUresult result = api.cuLaunchKernel(
            node.func, node.gridDimX, node.gridDimY, node.gridDimZ, node.blockDimX, node.blockDimY,
            node.blockDimZ, node.sharedMemBytes, stream, node.kernelParams, nullptr);
        if (result == CUDA_SUCCESS && recording_.cuda_device().options().is_serial) {
          result = api.cuStreamSynchronize(stream);
        }
        if (result == CUDA_SUCCESS) [[likely]]
          break;
        std::string where = recording_.DescribeDispatch(command.dispatch);
        return context_.Check(result, "cuLaunchKernel", where);
      }
      case CudaCommandBuffer::Kind::kLibraryCall: {
        Status status = command.kernel->library_call->Enqueue(BindingsOf(command), stream);
        if (status.ok() && recording_.cuda_device().options().is_serial) {
          status = context_.Check(api.cuStreamSynchronize(stream), "cuStreamSynchronize", "");
        }
        if (!status.ok()) return status.WithContext(recording_.DescribeDispatch(command.dispatch));
        break;
      }
      case CudaCommandBuffer::Kind::kCopy:
        HY_TRY(EnqueueCopy(context_, stream, AddressOf(command.first_range),
                           AddressOf(command.first_range + 1), command.size_bytes));
        break;
      case CudaCommandBuffer::Kind::kFill:
        HY_TRY(EnqueueFill(context_, stream, AddressOf(command.first_range), command.size_bytes,
                           command.value, command.element_bytes, command.is_every_other));
        break;
    }
  }
  return OkStatus();
}

Status Replay::Launch(std::span<const CUdeviceptr> slots, CUstream stream, bool* out_enqueued) {
  HY_TRY(Rebind(slots));
  if (!recording_.is_graph()) return LaunchSingly(stream, out_enqueued);
  *out_enqueued = true;
  return context_.Check(context_.api().cuGraphLaunch(exec_, stream), "cuGraphLaunch", "");
}

Status Replay::TakeFailure() {
  if (!record_.host || record_.host->state == 0) [[likely]]
    return OkStatus();
  Status status = recording_.FailureOf(*record_.host);
  *record_.host = {};
  return status;
}

}  // namespace halyard::drivers::cuda
