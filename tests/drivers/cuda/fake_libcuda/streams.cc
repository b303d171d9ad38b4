// SPDX-License-Identifier: Apache-2.0
// A stream is a thread that runs its operations in order, each after a random delay. It runs ahead
// of nobody and may fall behind everybody, so that missing waits show.
#include <chrono>
#include <cstring>

#include "tests/drivers/cuda/fake_libcuda/state.h"

namespace halyard::drivers::cuda {

struct CUstream_st {
  std::deque<fake_cuda::Operation> queue;
  bool is_running = false;
  bool is_ending = false;
  std::minstd_rand random;
  std::thread thread;
  std::unique_ptr<fake_cuda::TaskGraph> capture;  // while it is captured
};

}  // namespace halyard::drivers::cuda

namespace halyard::fake_cuda {
namespace {

void RunOperation(Operation& operation, CUstream stream, std::unique_lock<std::mutex>& lock) {
  State& state = TheState();
  const bool is_work =
      operation.kind == Operation::Kind::kTask || operation.kind == Operation::Kind::kGraph;
  // After a fault nothing of the context runs any more.
  if (is_work && state.sticky != CUDA_SUCCESS) return;
  switch (operation.kind) {
    case Operation::Kind::kTask:
      lock.unlock();
      RunTask(operation.task);
      lock.lock();
      break;
    case Operation::Kind::kGraph:
      lock.unlock();
      RunGraph(*operation.graph, stream->random);
      lock.lock();
      break;
    case Operation::Kind::kRecord:
      operation.event->reached = std::max(operation.event->reached, operation.recording);
      operation.event->reached_at = std::chrono::steady_clock::now();
      break;
    case Operation::Kind::kWaitEvent:
      state.changed.wait(lock, [&] {
        return operation.event->reached >= operation.recording || state.sticky != CUDA_SUCCESS;
      });
      break;
    case Operation::Kind::kFree:
      lock.unlock();
      FreeMemory(reinterpret_cast<void*>(operation.address));
      lock.lock();
      break;
  }
}

void Serve(CUstream stream) {
  State& state = TheState();
  std::unique_lock lock(state.mutex);
  for (;;) {
    state.changed.wait(
        lock, [&] { return (!stream->queue.empty() && !state.is_held) || stream->is_ending; });
    if (stream->queue.empty()) return;
    const int most = state.delay_us;
    if (most > 0 && stream->random() % 8 == 0) {
      lock.unlock();
      std::this_thread::sleep_for(
          std::chrono::microseconds(stream->random() % static_cast<unsigned>(most)));
      lock.lock();
    }
    Operation operation = std::move(stream->queue.front());
    stream->queue.pop_front();
    stream->is_running = true;
    RunOperation(operation, stream, lock);
    stream->is_running = false;
    state.changed.notify_all();
  }
}

}  // namespace

CUresult Enqueue(CUstream stream, Operation operation) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  if (stream->capture) {
    if (operation.kind != Operation::Kind::kTask) return CUDA_ERROR_NOT_SUPPORTED;
    const size_t count = stream->capture->tasks.size();
    stream->capture->tasks.push_back(std::move(operation.task));
    stream->capture->after.emplace_back();
    if (count > 0) stream->capture->after.back().push_back(count - 1);
    return CUDA_SUCCESS;
  }
  stream->queue.push_back(std::move(operation));
  state.changed.notify_all();
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode) {
  FAKE_ENTER(cuStreamBeginCapture_v2);
  std::lock_guard lock(TheState().mutex);
  if (stream->capture) return CUDA_ERROR_INVALID_VALUE;
  stream->capture = std::make_unique<TaskGraph>();
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  const CUresult injected = Enter("cuStreamEndCapture");
  std::unique_ptr<TaskGraph> captured;
  {
    std::lock_guard lock(TheState().mutex);
    captured = std::move(stream->capture);
  }
  *graph = nullptr;
  if (injected != CUDA_SUCCESS) return injected;
  if (!captured) return CUDA_ERROR_INVALID_VALUE;
  *graph = NewGraph(std::move(*captured));
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuStreamCreate(CUstream* stream, unsigned int) {
  FAKE_ENTER(cuStreamCreate);
  *stream = new CUstream_st;
  static std::atomic<unsigned> seed{1};
  (*stream)->random.seed(seed++);
  (*stream)->thread = std::thread(Serve, *stream);
  CountLive("stream", 1);
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuStreamDestroy_v2(CUstream stream) {
  const CUresult injected = Enter("cuStreamDestroy_v2");
  {
    State& state = TheState();
    std::lock_guard lock(state.mutex);
    stream->is_ending = true;
    state.changed.notify_all();
  }
  stream->thread.join();
  delete stream;
  CountLive("stream", -1);
  return injected;
}

FAKE_API CUresult cuStreamSynchronize(CUstream stream) {
  const CUresult injected = Enter("cuStreamSynchronize");
  State& state = TheState();
  std::unique_lock lock(state.mutex);
  state.changed.wait(lock, [&] { return stream->queue.empty() && !stream->is_running; });
  return injected != CUDA_SUCCESS ? injected : state.sticky;
}

FAKE_API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int) {
  FAKE_ENTER(cuStreamWaitEvent);
  Operation operation;
  operation.kind = Operation::Kind::kWaitEvent;
  {
    std::lock_guard lock(TheState().mutex);
    operation.event = event->state;
    operation.recording = event->state->recorded;
  }
  return Enqueue(stream, std::move(operation));
}

FAKE_API CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  FAKE_ENTER(cuEventCreate);
  *event = new CUevent_st;
  (*event)->state->is_timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  CountLive("event", 1);
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuEventDestroy_v2(CUevent event) {
  const CUresult injected = Enter("cuEventDestroy_v2");
  delete event;
  CountLive("event", -1);
  return injected;
}

FAKE_API CUresult cuEventRecord(CUevent event, CUstream stream) {
  FAKE_ENTER(cuEventRecord);
  Operation operation;
  operation.kind = Operation::Kind::kRecord;
  {
    std::lock_guard lock(TheState().mutex);
    operation.event = event->state;
    operation.recording = ++event->state->recorded;
  }
  return Enqueue(stream, std::move(operation));
}

FAKE_API CUresult cuEventQuery(CUevent event) {
  FAKE_ENTER(cuEventQuery);
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  // The fault and the record behind it may have come since FAKE_ENTER looked.
  if (state.sticky != CUDA_SUCCESS) return state.sticky;
  return event->state->reached >= event->state->recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

FAKE_API CUresult cuEventSynchronize(CUevent event) {
  FAKE_ENTER(cuEventSynchronize);
  State& state = TheState();
  std::unique_lock lock(state.mutex);
  std::shared_ptr<EventState> recorded = event->state;
  const uint64_t recording = recorded->recorded;
  state.changed.wait(
      lock, [&] { return recorded->reached >= recording || state.sticky != CUDA_SUCCESS; });
  return state.sticky;
}

FAKE_API CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  FAKE_ENTER(cuEventElapsedTime);
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  for (const CUevent event : {start, end}) {
    if (!event->state->is_timed || event->state->recorded == 0) return CUDA_ERROR_INVALID_HANDLE;
    if (event->state->reached < event->state->recorded) return CUDA_ERROR_NOT_READY;
  }
  *milliseconds =
      std::chrono::duration<float, std::milli>(end->state->reached_at - start->state->reached_at)
          .count();
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes,
                                CUstream stream) {
  FAKE_ENTER(cuMemcpyAsync);
  Operation operation;
  operation.task.kind = Task::Kind::kCopy;
  operation.task.target = target;
  operation.task.source = source;
  operation.task.bytes = bytes;
  return Enqueue(stream, std::move(operation));
}

namespace {

CUresult EnqueueFill(CUdeviceptr target, size_t pitch, uint32_t value, uint32_t element_bytes,
                     size_t width, size_t height, CUstream stream) {
  Operation operation;
  operation.task.kind = Task::Kind::kFill;
  operation.task.target = target;
  operation.task.pitch = pitch;
  operation.task.value = value;
  operation.task.element_bytes = element_bytes;
  operation.task.width = width;
  operation.task.height = height;
  return Enqueue(stream, std::move(operation));
}

}  // namespace

FAKE_API CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t count,
                                  CUstream stream) {
  FAKE_ENTER(cuMemsetD8Async);
  return EnqueueFill(target, 0, value, 1, count, 1, stream);
}

FAKE_API CUresult cuMemsetD16Async(CUdeviceptr target, unsigned short value, size_t count,
                                   CUstream stream) {
  FAKE_ENTER(cuMemsetD16Async);
  return EnqueueFill(target, 0, value, 2, count, 1, stream);
}

FAKE_API CUresult cuMemsetD32Async(CUdeviceptr target, unsigned int value, size_t count,
                                   CUstream stream) {
  FAKE_ENTER(cuMemsetD32Async);
  return EnqueueFill(target, 0, value, 4, count, 1, stream);
}

FAKE_API CUresult cuMemsetD2D32Async(CUdeviceptr target, size_t pitch, unsigned int value,
                                     size_t width, size_t height, CUstream stream) {
  FAKE_ENTER(cuMemsetD2D32Async);
  return EnqueueFill(target, pitch, value, 4, width, height, stream);
}

}  // namespace halyard::fake_cuda
