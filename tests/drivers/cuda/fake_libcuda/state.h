// SPDX-License-Identifier: Apache-2.0
// What the parts of the stand-in share: one mutex, memory by address, injected failures, and the
// operations that streams run.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "compiler/kernel/kernel_ir.h"
#include "drivers/cuda/cuda_api.h"

namespace halyard::drivers::cuda {

// CUDA's handles are pointers to these.
struct CUctx_st {
  int device = 0;
  int retains = 0;
};

struct CUfunc_st {
  kernel::Kernel kernel;
};

struct CUmod_st {
  std::vector<std::unique_ptr<CUfunc_st>> functions;
};

struct CUmemPoolHandle_st {
  int device = 0;
};

// Counts recordings and how many of them the streams have reached. Operations share it, so an event
// may be destroyed while it stands in a stream.
struct EventState {
  uint64_t recorded = 0;
  uint64_t reached = 0;
  std::chrono::steady_clock::time_point reached_at;
  bool is_timed = false;
};

struct CUevent_st {
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
};

}  // namespace halyard::drivers::cuda

namespace halyard::fake_cuda {

using namespace drivers::cuda;  // NOLINT: the API that is played here

struct TaskGraph;

// A kernel with its arguments, a copy, a fill, a part of a library call or a graph: a node of a
// graph or an operation of a stream.
struct Task {
  enum class Kind : uint8_t { kEmpty, kKernel, kCopy, kFill, kCall, kGraph } kind = Kind::kEmpty;
  CUfunction function = nullptr;
  int64_t grid[3] = {1, 1, 1};
  std::vector<uint64_t> arguments;
  CUdeviceptr target = 0;
  CUdeviceptr source = 0;
  size_t bytes = 0;  // copies
  uint32_t value = 0, element_bytes = 1;
  size_t pitch = 0, width = 0, height = 1;  // fills; width in elements
  std::string name;                         // of calls: what it would be as a kernel
  std::function<void()> call;
  std::shared_ptr<const TaskGraph> child;
};

// Tasks and what each comes after, by index.
struct TaskGraph {
  std::vector<Task> tasks;
  std::vector<std::vector<size_t>> after;
};

struct Operation {
  enum class Kind : uint8_t { kTask, kGraph, kRecord, kWaitEvent, kFree } kind = Kind::kTask;
  Task task;
  std::shared_ptr<const TaskGraph> graph;
  std::shared_ptr<EventState> event;
  uint64_t recording = 0;
  CUdeviceptr address = 0;  // kFree
};

struct Allocation {
  size_t bytes = 0;
  int device = -1;  // -1: host
  enum class Kind : uint8_t { kDevice, kHost, kRegistered } kind = Kind::kDevice;
};

struct State {
  State();
  std::mutex mutex;  // everything below, the events and the streams' queues
  std::condition_variable changed;
  int device_count = 1;
  int capability = 90;
  int version = 13000;
  int delay_us = 30;
  bool is_held = false;
  std::map<uintptr_t, Allocation> memory;
  std::map<std::string, long> live;  // objects by kind
  std::map<CUstream, int> streams;
  CUctx_st contexts[16];
  std::map<std::string_view, long> call_count;
  CUresult sticky = CUDA_SUCCESS;
  std::string fail_function;
  long fail_countdown = 0;
  CUresult fail_error = CUDA_SUCCESS;
};

State& TheState();

// Those that this thread has made current, the last one on top.
std::vector<CUcontext>& CurrentContexts();

// Counts the call; the failure that was asked for it, or that stays, or that no context is current
// where the function needs one.
CUresult Enter(const char* function);
// For objects: +1 when made, -1 when freed.
void CountLive(const char* kind, int change);

// The allocation that holds [address, address + bytes), or null. The mutex is held.
const Allocation* FindMemory(CUdeviceptr address, size_t bytes, uintptr_t* out_end);
CUresult AllocateMemory(Allocation::Kind kind, int device, size_t bytes, void** out);
CUresult FreeMemory(void* address);

// Runs on a stream's thread, without the mutex. A fault becomes the error that stays.
void RunTask(const Task& task);
// The tasks in a random order that their dependencies allow.
void RunGraph(const TaskGraph& graph, std::minstd_rand& random);

// The context is broken from here on, as after an access to memory that is not there.
void Fault(const std::string& what);

CUgraph NewGraph(TaskGraph tasks);

// Appends to the stream's queue, or to what is captured of it.
CUresult Enqueue(CUstream stream, Operation operation);

#define FAKE_ENTER(name)                           \
  do {                                             \
    const CUresult injected = Enter(#name);        \
    if (injected != CUDA_SUCCESS) return injected; \
  } while (false)

#define FAKE_API extern "C" __attribute__((visibility("default")))

}  // namespace halyard::fake_cuda
