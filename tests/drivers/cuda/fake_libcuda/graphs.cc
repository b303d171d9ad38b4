// SPDX-License-Identifier: Apache-2.0
// Launches and graphs.
#include <algorithm>
#include <cstring>

#include "tests/drivers/cuda/fake_libcuda/state.h"

namespace halyard::drivers::cuda {

struct CUgraphNode_st {
  size_t index = 0;
};

struct CUgraph_st {
  fake_cuda::TaskGraph tasks;
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
};

// Launches share the tasks of their time; a change of parameters makes new ones.
struct CUgraphExec_st {
  std::shared_ptr<fake_cuda::TaskGraph> tasks;
};

}  // namespace halyard::drivers::cuda

namespace halyard::fake_cuda {
namespace {

Task KernelTask(const CUDA_KERNEL_NODE_PARAMS& parameters) {
  Task task;
  task.kind = Task::Kind::kKernel;
  task.function = parameters.func;
  task.grid[0] = parameters.gridDimX;
  task.grid[1] = parameters.gridDimY;
  task.grid[2] = parameters.gridDimZ;
  size_t count = parameters.func->kernel.scalars.size() + 2;
  for (const kernel::Buffer& buffer : parameters.func->kernel.buffers) {
    count += buffer.space == kernel::MemorySpace::kGlobal;
  }
  for (size_t i = 0; i < count; ++i) {
    uint64_t value;
    std::memcpy(&value, parameters.kernelParams[i], sizeof(value));
    task.arguments.push_back(value);
  }
  return task;
}

Task FillTask(const CUDA_MEMSET_NODE_PARAMS& parameters) {
  Task task;
  task.kind = Task::Kind::kFill;
  task.target = parameters.dst;
  task.pitch = parameters.pitch;
  task.value = parameters.value;
  task.element_bytes = parameters.elementSize;
  task.width = parameters.width;
  task.height = parameters.height;
  return task;
}

Task CopyTask(const CUDA_MEMCPY3D& parameters) {
  Task task;
  task.kind = Task::Kind::kCopy;
  task.source = parameters.srcDevice;
  task.target = parameters.dstDevice;
  task.bytes = parameters.WidthInBytes * parameters.Height * parameters.Depth;
  return task;
}

Task ChildTask(CUgraph child) {
  Task task;
  task.kind = Task::Kind::kGraph;
  task.child = std::make_shared<TaskGraph>(child->tasks);
  return task;
}

CUresult AddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                 Task task) {
  graph->nodes.push_back(std::make_unique<CUgraphNode_st>());
  graph->nodes.back()->index = graph->tasks.tasks.size();
  graph->tasks.tasks.push_back(std::move(task));
  graph->tasks.after.emplace_back();
  for (size_t i = 0; i < count; ++i) {
    graph->tasks.after.back().push_back(dependencies[i]->index);
  }
  *node = graph->nodes.back().get();
  return CUDA_SUCCESS;
}

CUresult SetTask(CUgraphExec exec, CUgraphNode node, Task task) {
  // Streams drop their shares under the mutex.
  std::lock_guard lock(TheState().mutex);
  if (exec->tasks.use_count() > 1) exec->tasks = std::make_shared<TaskGraph>(*exec->tasks);
  exec->tasks->tasks[node->index] = std::move(task);
  return CUDA_SUCCESS;
}

bool IsLaunchable(const CUDA_KERNEL_NODE_PARAMS& parameters) {
  const auto& size = parameters.func->kernel.workgroup_size;
  return parameters.gridDimX > 0 && parameters.gridDimY > 0 && parameters.gridDimZ > 0 &&
         parameters.gridDimY <= 65535 && parameters.gridDimZ <= 65535 &&
         parameters.blockDimX == size[0] && parameters.blockDimY == size[1] &&
         parameters.blockDimZ == size[2];
}

}  // namespace

void RunGraph(const TaskGraph& graph, std::minstd_rand& random) {
  const size_t count = graph.tasks.size();
  std::vector<bool> is_done(count, false);
  std::vector<size_t> ready;
  for (size_t done = 0; done < count; ++done) {
    ready.clear();
    for (size_t i = 0; i < count; ++i) {
      if (is_done[i]) continue;
      if (std::all_of(graph.after[i].begin(), graph.after[i].end(),
                      [&](size_t before) { return is_done[before]; })) {
        ready.push_back(i);
      }
    }
    const size_t next = ready[random() % ready.size()];
    RunTask(graph.tasks[next]);
    is_done[next] = true;
  }
}

FAKE_API CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                 unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                 unsigned int block_z, unsigned int, CUstream stream,
                                 void** parameters, void**) {
  FAKE_ENTER(cuLaunchKernel);
  CUDA_KERNEL_NODE_PARAMS node = {};
  node.func = function;
  node.gridDimX = grid_x;
  node.gridDimY = grid_y;
  node.gridDimZ = grid_z;
  node.blockDimX = block_x;
  node.blockDimY = block_y;
  node.blockDimZ = block_z;
  node.kernelParams = parameters;
  if (!IsLaunchable(node)) return CUDA_ERROR_INVALID_VALUE;
  Operation operation;
  operation.task = KernelTask(node);
  return Enqueue(stream, std::move(operation));
}

FAKE_API CUresult cuGraphCreate(CUgraph* graph, unsigned int) {
  FAKE_ENTER(cuGraphCreate);
  *graph = new CUgraph_st;
  CountLive("graph", 1);
  return CUDA_SUCCESS;
}

CUgraph NewGraph(TaskGraph tasks) {
  auto* graph = new CUgraph_st;
  graph->tasks = std::move(tasks);
  CountLive("graph", 1);
  return graph;
}

FAKE_API CUresult cuGraphDestroy(CUgraph graph) {
  const CUresult injected = Enter("cuGraphDestroy");
  delete graph;
  CountLive("graph", -1);
  return injected;
}

FAKE_API CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph,
                                          const CUgraphNode* dependencies, size_t count,
                                          const CUDA_KERNEL_NODE_PARAMS* parameters) {
  FAKE_ENTER(cuGraphAddKernelNode_v2);
  if (!IsLaunchable(*parameters)) return CUDA_ERROR_INVALID_VALUE;
  return AddNode(node, graph, dependencies, count, KernelTask(*parameters));
}

FAKE_API CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph,
                                       const CUgraphNode* dependencies, size_t count,
                                       const CUDA_MEMCPY3D* parameters, CUcontext) {
  FAKE_ENTER(cuGraphAddMemcpyNode);
  return AddNode(node, graph, dependencies, count, CopyTask(*parameters));
}

FAKE_API CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph,
                                       const CUgraphNode* dependencies, size_t count,
                                       const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext) {
  FAKE_ENTER(cuGraphAddMemsetNode);
  return AddNode(node, graph, dependencies, count, FillTask(*parameters));
}

FAKE_API CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph,
                                      const CUgraphNode* dependencies, size_t count) {
  FAKE_ENTER(cuGraphAddEmptyNode);
  return AddNode(node, graph, dependencies, count, Task());
}

FAKE_API CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph,
                                           const CUgraphNode* dependencies, size_t count,
                                           CUgraph child) {
  FAKE_ENTER(cuGraphAddChildGraphNode);
  return AddNode(node, graph, dependencies, count, ChildTask(child));
}

FAKE_API CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                     CUgraph child) {
  FAKE_ENTER(cuGraphExecChildGraphNodeSetParams);
  // Its nodes must be those of before, with other parameters.
  const std::vector<Task>& now = child->tasks.tasks;
  const std::vector<Task>& before = exec->tasks->tasks[node->index].child->tasks;
  const bool is_same =
      std::equal(now.begin(), now.end(), before.begin(), before.end(),
                 [](const Task& a, const Task& b) { return a.kind == b.kind && a.name == b.name; });
  constexpr auto kUpdateFailure = static_cast<CUresult>(910);
  return is_same ? SetTask(exec, node, ChildTask(child)) : kUpdateFailure;
}

FAKE_API CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from,
                                            const CUgraphNode* to, const CUgraphEdgeData*,
                                            size_t count) {
  FAKE_ENTER(cuGraphAddDependencies_v2);
  for (size_t i = 0; i < count; ++i) {
    graph->tasks.after[to[i]->index].push_back(from[i]->index);
  }
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph,
                                              unsigned long long) {
  FAKE_ENTER(cuGraphInstantiateWithFlags);
  *exec = new CUgraphExec_st{std::make_shared<TaskGraph>(graph->tasks)};
  CountLive("executable graph", 1);
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuGraphExecDestroy(CUgraphExec exec) {
  const CUresult injected = Enter("cuGraphExecDestroy");
  delete exec;
  CountLive("executable graph", -1);
  return injected;
}

FAKE_API CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                    const CUDA_KERNEL_NODE_PARAMS* parameters) {
  FAKE_ENTER(cuGraphExecKernelNodeSetParams_v2);
  return SetTask(exec, node, KernelTask(*parameters));
}

FAKE_API CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                 const CUDA_MEMCPY3D* parameters, CUcontext) {
  FAKE_ENTER(cuGraphExecMemcpyNodeSetParams);
  return SetTask(exec, node, CopyTask(*parameters));
}

FAKE_API CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                 const CUDA_MEMSET_NODE_PARAMS* parameters,
                                                 CUcontext) {
  FAKE_ENTER(cuGraphExecMemsetNodeSetParams);
  return SetTask(exec, node, FillTask(*parameters));
}

FAKE_API CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  FAKE_ENTER(cuGraphLaunch);
  Operation operation;
  operation.kind = Operation::Kind::kGraph;
  operation.graph = exec->tasks;
  return Enqueue(stream, std::move(operation));
}

}  // namespace halyard::fake_cuda
