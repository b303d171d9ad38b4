// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/executable.h"

#include <cstring>
#include <map>
#include <memory>

#include "drivers/cuda/cubin.h"
#include "drivers/cuda/device.h"

namespace halyard::drivers::cuda {
namespace {

// Whether code made for `target` runs here; `device`: the compute capability, 90 for 9.0.
Status CheckTarget(const GpuImage& image, int64_t device) {
  const auto target = static_cast<int64_t>(image.target);
  switch (image.kind) {
    case GpuModuleKind::kCubin:
      if (target / 10 == device / 10 && target <= device) return OkStatus();
      return Incompatible("The code was made for sm_{}; this device is sm_{}.", target, device);
    case GpuModuleKind::kPtx:
      if (target <= device) return OkStatus();
      return Incompatible("The code needs sm_{} or newer; this device is sm_{}.", target, device);
    default:
      return OkStatus();
  }
}

Status CheckKernel(const GpuKernel& kernel) {
  if (kernel.name.find('\0') != std::string_view::npos) {
    return DataLoss("The name of an entry of {} bytes holds a null.", kernel.name.size());
  }
  if (kernel.binding_count > CudaExecutable::kMostArguments ||
      kernel.scalar_count > CudaExecutable::kMostArguments - kernel.binding_count) {
    return DataLoss("Entry '{}' has {} bindings and {} scalars; the limit is {} together.",
                    kernel.name, kernel.binding_count, kernel.scalar_count,
                    CudaExecutable::kMostArguments);
  }
  return OkStatus();
}

Status CheckWorkgroup(const GpuKernel& kernel, const hal::Compute& limits) {
  int64_t workitems = 1;
  for (uint32_t extent : kernel.workgroup_size) {
    if (__builtin_mul_overflow(workitems, int64_t{extent}, &workitems)) workitems = INT64_MAX;
  }
  if (workitems > limits.max_workgroup_size.ValueOr(1024)) {
    return Incompatible("Entry '{}' has a workgroup of {} x {} x {}; this device allows {}.",
                        kernel.name, kernel.workgroup_size[0], kernel.workgroup_size[1],
                        kernel.workgroup_size[2], limits.max_workgroup_size.ValueOr(1024));
  }
  if (kernel.dynamic_workgroup_bytes > limits.workgroup_memory_bytes.ValueOr(48 << 10)) {
    return Incompatible("Entry '{}' asks for {} bytes of workgroup memory; this device has {}.",
                        kernel.name, kernel.dynamic_workgroup_bytes,
                        limits.workgroup_memory_bytes.ValueOr(48 << 10));
  }
  if (kernel.subgroup_size != 0 &&
      kernel.subgroup_size != limits.subgroup_size_max.ValueOr(kernel.subgroup_size)) {
    return Incompatible("Entry '{}' relies on subgroups of {}; this device has {}.", kernel.name,
                        kernel.subgroup_size, limits.subgroup_size_max.value);
  }
  return OkStatus();
}

}  // namespace

CudaExecutable::CudaExecutable(Ref<CudaDevice> device) : device_(std::move(device)) {}

CudaExecutable::~CudaExecutable() {
  Context& context = device_->context();
  context.Free([&context, modules = std::move(modules_)] {
    Context::Current current(context);
    for (CUmodule module : modules) context.api().cuModuleUnload(module);
  });
}

hal::Device* CudaExecutable::device() const { return device_.get(); }

Result<Ref<CudaExecutable>> CudaExecutable::Load(Ref<CudaDevice> device,
                                                 const hal::ExecutableSource& source) {
  if (source.format != kImageFormat) {
    return Incompatible("Executable '{}' has the format '{}'; CUDA takes '{}'.", source.name,
                        source.format, kImageFormat);
  }
  Result<GpuImage> image = ReadGpuImage(source.code);
  HY_TRY_CONTEXT(image, "loading executable '{}'", source.name);
  auto executable = MakeRef<CudaExecutable>(std::move(device));
  Context::Current current(executable->device_->context());
  HY_TRY(current.status());
  HY_TRY_CONTEXT(executable->LoadKernels(source, *image), "loading executable '{}'", source.name);
  return executable;
}

Status CudaExecutable::LoadKernels(const hal::ExecutableSource& source, const GpuImage& image) {
  const hal::Compute& limits = device_->capabilities().compute;
  HY_TRY(CheckTarget(image, limits.compute_capability.ValueOr(0)));
  for (const GpuKernel& kernel : image.kernels) HY_TRY(CheckKernel(kernel));
  std::map<const uint8_t*, CUmodule> loaded;
  auto add = [&](const GpuKernel& kernel, std::vector<std::string> sites) -> Status {
    HY_TRY(CheckWorkgroup(kernel, limits));
    CUmodule& module = loaded[kernel.module.data()];
    if (!module) {
      HY_ASSIGN(module, LoadModule(image.kind, kernel.module));
    }
    HY_ASSIGN(Kernel added, LoadKernel(module, kernel));
    if (!kernel.library.empty()) {
      HY_TRY_CONTEXT(LoadLibraryCall(kernel, added), "loading kernel '{}'", kernel.name);
    }
    kernels_.push_back(std::move(added));
    entries_.push_back(
        {std::string(kernel.name), kernel.binding_count, kernel.scalar_count, std::move(sites)});
    return OkStatus();
  };
  if (source.entries.empty()) {
    for (const GpuKernel& kernel : image.kernels) HY_TRY(add(kernel, {}));
    return OkStatus();
  }
  for (const hal::ExecutableEntry& wanted : source.entries) {
    const GpuKernel* found = nullptr;
    for (const GpuKernel& kernel : image.kernels) {
      if (kernel.name == wanted.name) found = &kernel;
    }
    if (!found) {
      return NotFound("Executable '{}' has no entry '{}' among its {}.", source.name, wanted.name,
                      image.kernels.size());
    }
    if (found->binding_count != wanted.binding_count ||
        found->scalar_count != wanted.scalar_count) {
      return DataLoss(
          "Entry '{}' of executable '{}' takes {} bindings and {} scalars; its user expects {} "
          "and {}.",
          wanted.name, source.name, found->binding_count, found->scalar_count, wanted.binding_count,
          wanted.scalar_count);
    }
    HY_TRY(add(*found, wanted.sites));
  }
  return OkStatus();
}

Result<CUmodule> CudaExecutable::LoadModule(GpuModuleKind kind, std::span<const uint8_t> code) {
  Context& context = device_->context();
  switch (kind) {
    case GpuModuleKind::kCubin:
      HY_TRY(CheckCubin(code));
      break;
    case GpuModuleKind::kPtx:
      if (code.back() != 0) return DataLoss("PTX of {} bytes does not end in a null.", code.size());
      break;
    case GpuModuleKind::kKernelIr:
      if (!device_->takes_kernel_ir()) {
        return Incompatible("'{}' takes CUBIN and PTX; the image holds Kernel IR.",
                            device_->path());
      }
      break;
    case GpuModuleKind::kSpirv:
      return Incompatible("'{}' takes CUBIN and PTX; the image holds SPIR-V.", device_->path());
  }
  // Aligned for ELF tables, and terminated for text.
  const size_t words = code.size() / sizeof(uint64_t) + 1;
  auto aligned = std::make_unique<uint64_t[]>(words);
  std::memcpy(aligned.get(), code.data(), code.size());
  char log[2048] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(uintptr_t{sizeof(log) - 1})};
  CUmodule module = nullptr;
  Status status =
      context.Check(context.api().cuModuleLoadDataEx(&module, aligned.get(), 2, options, values),
                    "cuModuleLoadDataEx", "loading a module");
  if (!status.ok()) {
    return log[0] == 0 ? status : status.WithContext(fmt::format("the log says: {}", log));
  }
  modules_.push_back(module);
  return module;
}

Result<CudaExecutable::Kernel> CudaExecutable::LoadKernel(CUmodule module,
                                                          const GpuKernel& source) {
  Context& context = device_->context();
  const CudaApi& api = context.api();
  const std::string name(source.name);
  auto doing = [&](CUresult result, const char* function) {
    Status status = context.Check(result, function, "");
    return status.WithContext(fmt::format("loading kernel '{}'", name));
  };
  Kernel kernel;
  const CUresult found = api.cuModuleGetFunction(&kernel.function, module, name.c_str());
  if (found == CUDA_ERROR_NOT_FOUND) return DataLoss("The module has no kernel '{}'.", name);
  HY_TRY(doing(found, "cuModuleGetFunction"));
  for (int axis = 0; axis < 3; ++axis) kernel.workgroup_size[axis] = source.workgroup_size[axis];
  kernel.dynamic_workgroup_bytes = source.dynamic_workgroup_bytes;
  kernel.waits_itself = (source.flags & kGpuEntryWaitsItself) != 0;
  // Registers may allow fewer workitems than the device does.
  int most = 0, static_bytes = 0;
  HY_TRY(
      doing(api.cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel.function),
            "cuFuncGetAttribute"));
  int64_t workitems =
      int64_t{source.workgroup_size[0]} * source.workgroup_size[1] * source.workgroup_size[2];
  if (workitems > most) {
    return Incompatible("Kernel '{}' runs with at most {} workitems; its workgroup has {}.", name,
                        most, workitems);
  }
  HY_TRY(doing(
      api.cuFuncGetAttribute(&static_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel.function),
      "cuFuncGetAttribute"));
  if (kernel.dynamic_workgroup_bytes + static_cast<int64_t>(static_bytes) > 48 << 10) {
    HY_TRY(doing(
        api.cuFuncSetAttribute(kernel.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                               static_cast<int>(kernel.dynamic_workgroup_bytes)),
        "cuFuncSetAttribute"));
  }
  if (api.cuFuncGetParamInfo) {
    const size_t count = size_t{source.binding_count} + source.scalar_count + 2;
    const auto has = [&](size_t index) -> Result<bool> {
      size_t offset = 0, bytes = 0;
      const CUresult result = api.cuFuncGetParamInfo(kernel.function, index, &offset, &bytes);
      if (result != CUDA_ERROR_INVALID_VALUE) HY_TRY(doing(result, "cuFuncGetParamInfo"));
      return result == CUDA_SUCCESS;
    };
    HY_ASSIGN(const bool has_last, has(count - 1));
    HY_ASSIGN(const bool has_more, has(count));
    if (!has_last || has_more) {
      return DataLoss("Kernel '{}' does not take {} bindings, {} scalars and two more parameters.",
                      name, source.binding_count, source.scalar_count);
    }
  }
  return kernel;
}

Status CudaExecutable::LoadLibraryCall(const GpuKernel& source, Kernel& kernel) {
  GpuLibraryCall call;
  const auto make = [&]() -> Status {
    // Of a program that another release made.
    if (source.library.size() != sizeof(call)) {
      return Incompatible(
          "The program's records of library calls have {} bytes; here they have {}.",
          source.library.size(), sizeof(call));
    }
    std::memcpy(&call, source.library.data(), sizeof(call));
    HY_ASSIGN(VendorLibrary * library, device_->library(call.kind));
    HY_ASSIGN(kernel.library_call, library->Create(call, source.binding_count));
    kernel.library = library;
    return OkStatus();
  };
  const Status made = make();
  if (made.ok() ||
      (made.code() != StatusCode::kUnavailable && made.code() != StatusCode::kIncompatible)) {
    return made;
  }
  const std::string note = fmt::format("Generated kernels compute what the program gives to {}: {}",
                                       LibraryName(call.kind), made.message());
  // One reason for all of them is said once.
  if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) {
    notes_.push_back(note);
  }
  return OkStatus();
}

}  // namespace halyard::drivers::cuda
