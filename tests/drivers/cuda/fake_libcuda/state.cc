// SPDX-License-Identifier: Apache-2.0
// Failures on demand, counts of live objects, and the library's own operator new.
#include "tests/drivers/cuda/fake_libcuda/state.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/drivers/cuda/fake_libcuda/control.h"
#include "tests/sanitized.h"

// The conformance suite counts what the program under test allocates; the stand-in, linked with
// -Bsymbolic, does not add to that.
#if !HALYARD_SANITIZED
void* operator new(size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (!memory) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace halyard::fake_cuda {
namespace {

int EnvNumber(const char* name, int fallback) {
  const char* text = std::getenv(name);
  return text && *text ? std::atoi(text) : fallback;
}

}  // namespace

State::State() {
  device_count = EnvNumber("FAKE_CUDA_DEVICES", device_count);
  capability = EnvNumber("FAKE_CUDA_CAPABILITY", capability);
  version = EnvNumber("FAKE_CUDA_VERSION", version);
  delay_us = EnvNumber("FAKE_CUDA_DELAY_US", delay_us);
  if (const char* text = std::getenv("FAKE_CUDA_FAIL")) {
    std::string rule = text;
    const size_t first = rule.find(':'), second = rule.rfind(':');
    if (first != std::string::npos && second > first) {
      fail_function = rule.substr(0, first);
      fail_countdown = std::atol(rule.c_str() + first + 1);
      fail_error = static_cast<CUresult>(std::atoi(rule.c_str() + second + 1));
    }
  }
  for (int i = 0; i < 16; ++i) contexts[i].device = i;
}

State& TheState() {
  // Never destroyed: streams may outlive the program's statics.
  static State* state = new State;
  return *state;
}

// What a waiting caller does again and again, so that its number says nothing.
bool IsPolling(std::string_view function) {
  return function == "cuEventQuery" || function == "cuCtxPushCurrent_v2" ||
         function == "cuCtxPopCurrent_v2";
}

bool NeedsContext(std::string_view function) {
  return function.rfind("cuInit", 0) != 0 && function.rfind("cuDevice", 0) != 0 &&
         function.rfind("cuDriver", 0) != 0 && function.rfind("cuCtx", 0) != 0 &&
         (function.rfind("cublasLt", 0) != 0 || function == "cublasLtCreate" ||
          function == "cublasLtMatmul" || function == "cublasLtMatmulAlgoGetHeuristic");
}

std::vector<CUcontext>& CurrentContexts() {
  thread_local std::vector<CUcontext> contexts;
  return contexts;
}

CUresult Enter(const char* function) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  ++state.call_count[function];
  if (state.fail_countdown > 0 &&
      (state.fail_function == "*" ? !IsPolling(function) : state.fail_function == function) &&
      --state.fail_countdown == 0) {
    if (IsSticky(state.fail_error)) state.sticky = state.fail_error;
    return state.fail_error;
  }
  if (state.sticky == CUDA_SUCCESS && NeedsContext(function) && CurrentContexts().empty()) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  return state.sticky;
}

void CountLive(const char* kind, int change) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  state.live[kind] += change;
}

}  // namespace halyard::fake_cuda

using halyard::fake_cuda::State;
using halyard::fake_cuda::TheState;

FAKE_API void fake_cuda_fail(const char* function, long nth, int error) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  state.fail_function = function;
  state.fail_countdown = nth;
  state.fail_error = static_cast<halyard::fake_cuda::CUresult>(error);
}

FAKE_API int fake_cuda_has_failed() {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  return state.fail_countdown == 0;
}

FAKE_API long fake_cuda_call_count(const char* function) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  long total = 0;
  for (const auto& [name, count] : state.call_count) {
    if (std::strcmp(function, "*") == 0 || name == function) total += count;
  }
  return total;
}

FAKE_API long fake_cuda_live_count(char* text, int size) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  long total = 0;
  std::string list;
  for (const auto& [kind, count] : state.live) {
    total += count;
    if (count != 0) list += kind + " " + std::to_string(count) + "; ";
  }
  if (size > 0) {
    std::strncpy(text, list.c_str(), static_cast<size_t>(size) - 1);
    text[size - 1] = 0;
  }
  return total;
}

FAKE_API void fake_cuda_reset() {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  state.fail_countdown = 0;
  state.sticky = halyard::fake_cuda::CUDA_SUCCESS;
}

FAKE_API void fake_cuda_set_device_count(int count) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  state.device_count = count;
}

FAKE_API void fake_cuda_set_delay_us(int most) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  state.delay_us = most;
}

FAKE_API void fake_cuda_hold_streams(int is_held) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  state.is_held = is_held != 0;
  state.changed.notify_all();
}

// Says that modules are Kernel IR (see CudaApi::halyard_takes_kernel_ir).
FAKE_API int halyard_takes_kernel_ir() {
  return halyard::fake_cuda::EnvNumber("FAKE_CUDA_TAKES_CUBIN", 0) == 0;
}
