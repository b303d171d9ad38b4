// SPDX-License-Identifier: Apache-2.0
// Modules of Kernel IR text, and the tasks that streams and graphs run: kernels by the interpreter.
#include <cstdio>
#include <cstring>

#include "base/error_record.h"
#include "compiler/kernel/interpreter.h"
#include "compiler/kernel/text.h"
#include "compiler/kernel/verifier.h"
#include "tests/drivers/cuda/fake_libcuda/state.h"

namespace halyard::fake_cuda {

void Fault(const std::string& what) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  if (state.sticky == CUDA_SUCCESS) std::fprintf(stderr, "fake libcuda: %s\n", what.c_str());
  state.sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
  state.changed.notify_all();
}

namespace {

bool IsAllocated(CUdeviceptr address, size_t bytes, uintptr_t* out_end = nullptr) {
  std::lock_guard lock(TheState().mutex);
  return FindMemory(address, bytes, out_end) != nullptr;
}

void RunKernel(const Task& task) {
  const kernel::Kernel& kernel = task.function->kernel;
  std::vector<kernel::BufferArgument> buffers;
  size_t at = 0;
  for (const kernel::Buffer& buffer : kernel.buffers) {
    if (buffer.space != kernel::MemorySpace::kGlobal) continue;
    const CUdeviceptr address = task.arguments[at++];
    uintptr_t end = 0;
    if (!IsAllocated(address, 0, &end)) {
      return Fault("kernel '" + kernel.name + "' got an address that is not allocated");
    }
    const auto bits = static_cast<int64_t>(end - address) * 8;
    buffers.push_back({reinterpret_cast<void*>(address), bits / BitWidth(buffer.dtype), true});
  }
  std::vector<int64_t> scalars;
  for (size_t i = 0; i < kernel.scalars.size(); ++i) {
    scalars.push_back(static_cast<int64_t>(task.arguments[at++]));
  }
  auto* record = reinterpret_cast<ErrorRecord*>(task.arguments[at]);
  const auto dispatch = static_cast<uint32_t>(task.arguments[at + 1]);
  ErrorRecord error = {};
  Status status = kernel::Interpret(kernel, buffers, scalars, task.grid, &error);
  if (!status.ok()) return Fault(status.ToString());
  if (error.state == 0) return;
  std::lock_guard lock(TheState().mutex);
  if (record->state != 0) return;
  error.dispatch = dispatch;
  *record = error;
}

void RunFill(const Task& task) {
  for (size_t row = 0; row < task.height; ++row) {
    auto* at = reinterpret_cast<uint8_t*>(task.target + row * task.pitch);
    for (size_t i = 0; i < task.width; ++i) {
      std::memcpy(at + i * task.element_bytes, &task.value, task.element_bytes);
    }
  }
}

}  // namespace

void RunTask(const Task& task) {
  switch (task.kind) {
    case Task::Kind::kEmpty:
      return;
    case Task::Kind::kKernel:
      return RunKernel(task);
    case Task::Kind::kCall:
      return task.call();
    case Task::Kind::kGraph: {
      thread_local std::minstd_rand random(7);
      return RunGraph(*task.child, random);
    }
    case Task::Kind::kCopy:
      if (!IsAllocated(task.source, task.bytes) || !IsAllocated(task.target, task.bytes)) {
        return Fault("a copy leaves what is allocated");
      }
      std::memmove(reinterpret_cast<void*>(task.target), reinterpret_cast<void*>(task.source),
                   task.bytes);
      return;
    case Task::Kind::kFill: {
      if (task.width == 0 || task.height == 0) return;
      const size_t bytes = (task.height - 1) * task.pitch + task.width * task.element_bytes;
      if (!IsAllocated(task.target, bytes)) return Fault("a fill leaves what is allocated");
      return RunFill(task);
    }
  }
}

FAKE_API CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int count,
                                     CUjit_option* options, void** values) {
  FAKE_ENTER(cuModuleLoadDataEx);
  char* log = nullptr;
  size_t log_bytes = 0;
  for (unsigned int i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) log = static_cast<char*>(values[i]);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      log_bytes = reinterpret_cast<size_t>(values[i]);
    }
  }
  Result<kernel::Module> parsed = kernel::ParseModule(static_cast<const char*>(image));
  Status status = parsed.ok() ? kernel::VerifyModule(*parsed) : parsed.status();
  if (!status.ok()) {
    if (log) std::snprintf(log, log_bytes, "%s", status.message().c_str());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  auto loaded = std::make_unique<CUmod_st>();
  for (kernel::Kernel& kernel : parsed->kernels) {
    loaded->functions.push_back(std::make_unique<CUfunc_st>(CUfunc_st{std::move(kernel)}));
  }
  *module = loaded.release();
  CountLive("module", 1);
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuModuleUnload(CUmodule module) {
  const CUresult injected = Enter("cuModuleUnload");
  delete module;
  CountLive("module", -1);
  return injected;
}

FAKE_API CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  FAKE_ENTER(cuModuleGetFunction);
  for (const auto& candidate : module->functions) {
    if (candidate->kernel.name == name) {
      *function = candidate.get();
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_NOT_FOUND;
}

FAKE_API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  FAKE_ENTER(cuFuncGetAttribute);
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  FAKE_ENTER(cuFuncSetAttribute);
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset,
                                     size_t* bytes) {
  FAKE_ENTER(cuFuncGetParamInfo);
  size_t count = function->kernel.scalars.size() + 2;
  for (const kernel::Buffer& buffer : function->kernel.buffers) {
    count += buffer.space == kernel::MemorySpace::kGlobal;
  }
  if (index >= count) return CUDA_ERROR_INVALID_VALUE;
  *offset = 8 * index;
  *bytes = 8;
  return CUDA_SUCCESS;
}

}  // namespace halyard::fake_cuda
