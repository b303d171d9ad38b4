// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/capabilities.h"

#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "base/gpu_kernel_abi.h"
#include "base/nvidia_libraries.h"
#include "base/system_files.h"
#include "drivers/cuda/architecture.h"
#include "drivers/cuda/buffer.h"
#include "drivers/cuda/executable.h"
#include "hal/pci.h"

namespace halyard::drivers::cuda {
namespace {

using hal::Source;

// "580.65.06": the first number with points that the kernel module prints; "" without one.
std::string ReadDriverVersion(const SystemFiles& files) {
  std::istringstream words(files.FirstLine("/proc/driver/nvidia/version"));
  for (std::string word; words >> word;) {
    if (word.find('.') == std::string::npos) continue;
    if (word.find_first_not_of("0123456789.") == std::string::npos) return word;
  }
  return "";
}

// "CUPTI 13, NVRTC 12": those of NVIDIA's libraries that are installed, found without opening them.
std::string InstalledLibraries() {
  constexpr std::pair<const char*, const char*> kNames[] = {{"CUPTI", "libcupti"},
                                                            {"NVRTC", "libnvrtc"},
                                                            {"cuBLASLt", "libcublasLt"},
                                                            {"cuDNN", "libcudnn"}};
  std::string text;
  for (const auto& [name, file] : kNames) {
    const std::string release = InstalledNvidiaRelease(file);
    if (!release.empty()) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, release);
  }
  return text;
}

// Reads attributes; one that cannot be read stays unknown.
class Attributes {
 public:
  explicit Attributes(Context& context) : api_(context.api()), device_(context.device()) {}

  hal::Field<int64_t> Get(CUdevice_attribute attribute, int64_t scale = 1) const {
    int value = 0;
    if (api_.cuDeviceGetAttribute(&value, attribute, device_) != CUDA_SUCCESS || value <= 0) {
      return {};
    }
    return {value * scale, Source::kApi};
  }
  // Of those that are 0 or 1.
  hal::Field<bool> Flag(CUdevice_attribute attribute) const {
    int value = 0;
    if (api_.cuDeviceGetAttribute(&value, attribute, device_) != CUDA_SUCCESS) return {};
    return {value != 0, Source::kApi};
  }

 private:
  const CudaApi& api_;
  CUdevice device_;
};

void DescribeIdentity(Context& context, int64_t compute_capability, bool is_integrated,
                      hal::Identity* out) {
  const CudaApi& api = context.api();
  char text[256] = "";
  if (api.cuDeviceGetName(text, sizeof(text), context.device()) == CUDA_SUCCESS) {
    out->name = {text, Source::kApi};
  }
  out->vendor = {"NVIDIA", Source::kTable};
  out->type = {is_integrated ? hal::DeviceType::kIntegratedGpu : hal::DeviceType::kDiscreteGpu,
               Source::kApi};
  out->architecture = {fmt::format("sm_{}", compute_capability), Source::kApi};
  CUuuid uuid = {};
  if (api.cuDeviceGetUuid_v2(&uuid, context.device()) == CUDA_SUCCESS) {
    out->uuid = {FormatUuid(uuid), Source::kApi};
  }
  if (api.cuDeviceGetPCIBusId(text, sizeof(text), context.device()) == CUDA_SUCCESS) {
    std::string address = text;
    std::transform(address.begin(), address.end(), address.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    out->pci_address = {address, Source::kApi};
  }
  out->driver_name = {"cuda", Source::kTable};
  // Since CUDA 12.8: the device's number in the upper half, the vendor's in the lower.
  if (int pci = 0; api.cuDeviceGetAttribute(&pci, CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID,
                                            context.device()) == CUDA_SUCCESS &&
                   pci != 0) {
    const auto bits = static_cast<uint32_t>(pci);
    out->model_id = {fmt::format("{:04x}:{:04x}", bits & 0xffff, bits >> 16), Source::kApi};
  }
  out->api_version = {
      fmt::format("CUDA {}.{}", api.driver_version / 1000, api.driver_version % 1000 / 10),
      Source::kApi};
}

void DescribeCompute(const Attributes& attributes, int64_t compute_capability,
                     bool has_programmatic_edges, int driver_version, hal::Compute* out) {
  out->unit_count = attributes.Get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  hal::Field<int64_t> threads = attributes.Get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  if (out->unit_count.known() && threads.known()) {
    out->thread_count = {out->unit_count.value * threads.value, Source::kApi};
  }
  out->usable_worker_count = out->unit_count;
  out->max_clock_hz = attributes.Get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000);
  out->subgroup_size_min = out->subgroup_size_max = attributes.Get(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  out->max_workgroup_size = attributes.Get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  out->workgroup_memory_bytes =
      attributes.Get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  out->registers_per_unit = attributes.Get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  out->max_grid_x = attributes.Get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  out->max_grid_y = attributes.Get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  out->max_grid_z = attributes.Get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  out->max_workgroups_per_unit = attributes.Get(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  out->max_workitems_per_unit = threads;
  out->workgroup_memory_default_bytes =
      attributes.Get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  out->workgroup_memory_per_unit_bytes =
      attributes.Get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  out->workgroup_memory_reserved_bytes =
      attributes.Get(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  out->registers_per_workgroup = attributes.Get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  out->constant_memory_bytes = attributes.Get(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  // What every device that launches clusters takes without opting in.
  if (attributes.Flag(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH).ValueOr(false)) {
    out->max_cluster_size = {8, Source::kTable};
  }
  // Arguments of a kernel: 4 KiB, and nearly 32 since CUDA 12.1 on Volta and later.
  out->max_push_constant_bytes = {
      driver_version >= 12010 && compute_capability >= 70 ? 32764 : 4096, Source::kTable};
  out->compute_capability = {compute_capability, Source::kApi};
  out->gpu_features = {GpuFeaturesOf(compute_capability, has_programmatic_edges), Source::kTable};
}

void DescribeNumerics(int64_t compute_capability, hal::Numerics* out) {
  out->has_fma = {true, Source::kTable};
  out->keeps_f32_denormals = {true, Source::kTable};
  out->keeps_f16_denormals = {true, Source::kTable};
  out->keeps_infinities = {true, Source::kTable};
  out->rounds_f32_to_even = {true, Source::kTable};
  out->has_integer_dot = {compute_capability >= 61, Source::kTable};
}

Status DescribeMemory(Context& context, const Attributes& attributes, const CudaOptions& options,
                      hal::Capabilities* out) {
  const CudaApi& api = context.api();
  hal::Memory& memory = out->memory;
  size_t total = 0, available = 0;
  HY_CUDA_TRY(api, cuDeviceTotalMem_v2, &total, context.device());
  memory.total_bytes = {static_cast<int64_t>(total), Source::kApi};
  {
    Context::Current current(context);
    HY_TRY(current.status());
    int least = 0, greatest = 0;  // the most urgent is the lowest number
    if (api.cuCtxGetStreamPriorityRange &&
        api.cuCtxGetStreamPriorityRange(&least, &greatest) == CUDA_SUCCESS) {
      out->queues.priority_count = {int64_t{least} - greatest + 1, Source::kApi};
    }
    size_t whole = 0;
    if (api.cuMemGetInfo_v2(&available, &whole) == CUDA_SUCCESS) {
      memory.available_bytes = {static_cast<int64_t>(available), Source::kApi};
    }
  }
  memory.limit_bytes = {static_cast<int64_t>(total), Source::kApi};
  if (options.memory_bytes > 0 && options.memory_bytes < static_cast<int64_t>(total)) {
    memory.limit_bytes = {options.memory_bytes, Source::kTable};
    out->notes.push_back(fmt::format("memory is limited to {} bytes by the option 'memory_bytes'",
                                     options.memory_bytes));
  }
  memory.max_allocation_bytes = memory.limit_bytes;
  memory.buffer_alignment = {CudaBuffer::kAlignment, Source::kTable};
  memory.is_host_memory = {false, Source::kTable};
  memory.bus_bits = attributes.Get(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  memory.max_clock_hz = attributes.Get(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000);
  memory.has_unified_addressing = attributes.Flag(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
  memory.has_managed_memory = attributes.Flag(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
  memory.can_access_pageable = attributes.Flag(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
  memory.can_register_host = attributes.Flag(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
  memory.has_ecc = attributes.Flag(CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
  memory.has_pools = attributes.Flag(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  hal::Cache l2;
  l2.level = {2, Source::kApi};
  l2.size_bytes = attributes.Get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  l2.persisting_bytes = attributes.Get(CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE);
  l2.instance_count = {1, Source::kTable};
  if (l2.size_bytes.known()) out->caches.push_back(std::move(l2));
  return OkStatus();
}

void DescribeUse(const Attributes& attributes, const CudaOptions& options,
                 bool has_dependent_launch, int driver_version, hal::Capabilities* out) {
  out->queues.compute_count = {options.compute_queues, Source::kTable};
  out->queues.copy_count = {options.copy_queues, Source::kTable};
  out->queues.copy_engine_count = attributes.Get(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
  out->queues.has_concurrent_kernels = attributes.Flag(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
  out->queues.has_timeline_semaphores = {true, Source::kTable};
  out->queues.has_memory_waits = attributes.Flag(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
  out->queues.replay = {has_dependent_launch ? "CUDA graph, dependent launch" : "CUDA graph",
                        Source::kTable};
  // Resolution of events, by the documentation of cuEventElapsedTime.
  out->queues.timestamp_period_ns = {500, Source::kTable};

  hal::Interop& interop = out->interop;
  std::string handles;
  const auto add = [&](const char* name, const hal::Field<bool>& has) {
    if (has.ValueOr(false)) handles += fmt::format("{}{}", handles.empty() ? "" : ", ", name);
  };
  const auto descriptors =
      attributes.Flag(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
  interop.has_dma_buf = attributes.Flag(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
  interop.has_ipc = attributes.Flag(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED);
  interop.has_direct_rdma = attributes.Flag(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
  add("file descriptor", descriptors);
  add("dma-buf", interop.has_dma_buf);
  add("fabric", attributes.Flag(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED));
  hal::SetIfText(&interop.memory_handles, handles, Source::kApi);
  if (attributes.Flag(CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED).ValueOr(false)) {
    interop.semaphore_handles = {"timeline file descriptor", Source::kApi};
  }
  interop.can_import_host_memory = out->memory.can_register_host;
  out->partition.is_mps_enabled = attributes.Flag(CU_DEVICE_ATTRIBUTE_MPS_ENABLED);
  out->partition.has_watchdog = attributes.Flag(CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT);
  // The version of PTX follows that of CUDA since 9.0: CUDA 12.4 takes 8.4.
  const int major = driver_version / 1000, minor = driver_version % 1000 / 10;
  out->tools.code_formats = {
      fmt::format("CUBIN for {}, PTX {}.{}", out->identity.architecture.value, major - 4, minor),
      Source::kTable};
}

}  // namespace

std::string FormatUuid(const CUuuid& uuid) {
  std::string text;
  for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

uint64_t GpuFeaturesOf(int64_t compute_capability, bool has_programmatic_edges) {
  uint64_t bits = 0;
  auto add = [&](std::initializer_list<GpuFeature> features) {
    for (GpuFeature feature : features) bits |= static_cast<uint64_t>(feature);
  };
  add({GpuFeature::kInt8, GpuFeature::kInt16, GpuFeature::kInt64, GpuFeature::kFloat16,
       GpuFeature::kFloat64, GpuFeature::kStorage8, GpuFeature::kStorage16,
       GpuFeature::kWorkgroupStorage8, GpuFeature::kWorkgroupStorage16, GpuFeature::kAtomicInt64,
       GpuFeature::kFloatControls, GpuFeature::kDenormPreserve, GpuFeature::kFma});
  if (compute_capability >= 75) add({GpuFeature::kMatrix});
  if (compute_capability >= 80) add({GpuFeature::kAsyncCopy, GpuFeature::kBFloat16});
  if (compute_capability >= 90 && has_programmatic_edges) add({GpuFeature::kDependentLaunch});
  return bits;
}

// The dense shapes of mma.sync, which every later architecture keeps, and of wgmma, which only 9.0
// has: 64 rows by any multiple of 8 columns to 256; the widest stands for them.
std::vector<hal::MatrixShape> MatrixShapesOf(int64_t compute_capability) {
  if (compute_capability < 75) return {};
  if (compute_capability < 80) {
    return {{"f16", "f32", 16, 8, 8, Source::kTable},
            {"f16", "f16", 16, 8, 8, Source::kTable},
            {"i8", "i32", 8, 8, 16, Source::kTable}};
  }
  std::vector<hal::MatrixShape> shapes = {
      {"f16", "f32", 16, 8, 16, Source::kTable},  {"f16", "f16", 16, 8, 16, Source::kTable},
      {"bf16", "f32", 16, 8, 16, Source::kTable}, {"tf32", "f32", 16, 8, 8, Source::kTable},
      {"i8", "i32", 16, 8, 32, Source::kTable},   {"f64", "f64", 8, 8, 4, Source::kTable}};
  if (compute_capability >= 89) {
    shapes.push_back({"f8e4m3", "f32", 16, 8, 32, Source::kTable});
    shapes.push_back({"f8e5m2", "f32", 16, 8, 32, Source::kTable});
  }
  if (compute_capability == 90) {
    constexpr struct {
      const char *input, *output;
      int32_t depth;
    } kRows[] = {{"f16", "f32", 16}, {"f16", "f16", 16},    {"bf16", "f32", 16},
                 {"tf32", "f32", 8}, {"f8e4m3", "f32", 32}, {"f8e5m2", "f32", 32},
                 {"i8", "i32", 32}};
    for (const auto& row : kRows) {
      shapes.push_back({row.input, row.output, 64, 256, row.depth, Source::kTable});
    }
  }
  return shapes;
}

Result<hal::Capabilities> DescribeDevice(Context& context, const Management& management,
                                         const CudaOptions& options) {
  const CudaApi& api = context.api();
  Attributes attributes(context);
  hal::Capabilities out;
  hal::Field<int64_t> major = attributes.Get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  if (!major.known()) {
    return Unavailable("'{}' does not tell its compute capability.", context.path());
  }
  // A minor number of 0 reads as unknown.
  const int64_t capability =
      10 * major.value + attributes.Get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR).ValueOr(0);
  const bool is_integrated = attributes.Get(CU_DEVICE_ATTRIBUTE_INTEGRATED).known();
  if (!attributes.Get(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING).known()) {
    return Unavailable("'{}' has no address space in common with the host; Halyard needs one.",
                       context.path());
  }
  DescribeIdentity(context, capability, is_integrated, &out.identity);
  DescribeCompute(attributes, capability, api.cuGraphAddDependencies_v2 != nullptr,
                  api.driver_version, &out.compute);
  DescribeNumerics(capability, &out.numerics);
  out.matrix_shapes = MatrixShapesOf(capability);
  HY_TRY(DescribeMemory(context, attributes, options, &out));
  const bool has_dependent_launch =
      (out.compute.gpu_features.value & static_cast<uint64_t>(GpuFeature::kDependentLaunch)) != 0;
  DescribeUse(attributes, options, has_dependent_launch, api.driver_version, &out);
  management.Describe(&out);
  DescribeArchitecture(capability, &out);
  const SystemFiles files;
  if (!out.identity.driver_version.known()) {
    hal::SetIfText(&out.identity.driver_version, ReadDriverVersion(files), Source::kOs);
  }
  hal::SetIfText(&out.tools.libraries, InstalledLibraries(), Source::kOs);
  if (const std::string admin = files.ValueOf("/proc/driver/nvidia/params", "RmProfilingAdminOnly");
      !admin.empty()) {
    out.tools.can_count = {admin == "0" || geteuid() == 0, Source::kOs};
  }
  hal::DescribePci(files, out.identity.pci_address.ValueOr(""), &out.links);
  // The system may not tell, as inside a virtual machine.
  if (int node = -1; !out.links.numa_node.known() &&
                     api.cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID,
                                              context.device()) == CUDA_SUCCESS &&
                     node >= 0) {
    out.links.numa_node = {int64_t{node}, Source::kApi};
  }
  if (out.memory.bus_bits.known() && out.memory.max_clock_hz.known()) {
    out.memory.peak_bytes_per_s = {static_cast<double>(out.memory.bus_bits.value) / 8 * 2 *
                                       static_cast<double>(out.memory.max_clock_hz.value),
                                   Source::kApi};
  }

  if (out.memory.has_pools.ValueOr(false)) out.features.push_back("memory-pools");
  if (has_dependent_launch) out.features.push_back("dependent-launch");
  if (api.halyard_takes_kernel_ir) {
    out.features.push_back("kernel-ir");
    out.compute.gpu_features.value |= static_cast<uint64_t>(GpuFeature::kKernelIr);
  }
  out.executable_formats = {std::string(CudaExecutable::kImageFormat)};
  return out;
}

}  // namespace halyard::drivers::cuda
