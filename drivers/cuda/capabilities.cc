// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/capabilities.h"

#include <algorithm>
#include <fstream>

#include "base/gpu_kernel_abi.h"
#include "drivers/cuda/buffer.h"
#include "drivers/cuda/executable.h"

namespace halyard::drivers::cuda {
namespace {

using hal::Source;

// "580.65.06" of the kernel module, or "".
std::string ReadDriverVersion() {
  std::ifstream stream("/proc/driver/nvidia/version");
  std::string word;
  while (stream >> word) {
    if (word.find('.') == std::string::npos) continue;
    if (word.find_first_not_of("0123456789.") == std::string::npos) return word;
  }
  return "";
}

// Reads attributes; one that cannot be read stays unknown.
class Attributes {
 public:
  explicit Attributes(const Context& context) : api_(context.api()), device_(context.device()) {}

  hal::Field<int64_t> Get(CUdevice_attribute attribute, int64_t scale = 1) const {
    int value = 0;
    if (api_.cuDeviceGetAttribute(&value, attribute, device_) != CUDA_SUCCESS || value <= 0) {
      return {};
    }
    return {value * scale, Source::kApi};
  }

 private:
  const CudaApi& api_;
  CUdevice device_;
};

void DescribeIdentity(const Context& context, int64_t compute_capability, bool is_integrated,
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
  if (std::string version = ReadDriverVersion(); !version.empty()) {
    out->driver_version = {version, Source::kOs};
  }
  out->api_version = {
      fmt::format("CUDA {}.{}", api.driver_version / 1000, api.driver_version % 1000 / 10),
      Source::kApi};
}

void DescribeCompute(const Attributes& attributes, int64_t compute_capability,
                     bool has_programmatic_edges, hal::Compute* out) {
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
  out->compute_capability = {compute_capability, Source::kApi};
  out->gpu_features = {GpuFeaturesOf(compute_capability, has_programmatic_edges), Source::kTable};
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

// The shapes of mma.sync that every later architecture keeps.
std::vector<hal::MatrixShape> MatrixShapesOf(int64_t compute_capability) {
  if (compute_capability < 75) return {};
  if (compute_capability < 80) {
    return {{"f16", "f32", 16, 8, 8, Source::kTable},
            {"f16", "f16", 16, 8, 8, Source::kTable},
            {"i8", "i32", 8, 8, 16, Source::kTable}};
  }
  return {{"f16", "f32", 16, 8, 16, Source::kTable},
          {"f16", "f16", 16, 8, 16, Source::kTable},
          {"bf16", "f32", 16, 8, 16, Source::kTable},
          {"i8", "i32", 16, 8, 32, Source::kTable},
          {"f64", "f64", 8, 8, 4, Source::kTable}};
}

Result<hal::Capabilities> DescribeDevice(const Context& context, const CudaOptions& options) {
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
  DescribeCompute(attributes, capability, api.cuGraphAddDependencies_v2 != nullptr, &out.compute);
  out.matrix_shapes = MatrixShapesOf(capability);
  hal::Cache l2;
  l2.level = 2;
  l2.size_bytes = attributes.Get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  l2.instance_count = {1, Source::kTable};
  if (l2.size_bytes.known()) out.caches.push_back(l2);

  size_t total = 0, available = 0;
  HY_CUDA_TRY(api, cuDeviceTotalMem_v2, &total, context.device());
  out.memory.total_bytes = {static_cast<int64_t>(total), Source::kApi};
  {
    Context::Current current(context);
    HY_TRY(current.status());
    size_t whole = 0;
    if (api.cuMemGetInfo_v2(&available, &whole) == CUDA_SUCCESS) {
      out.memory.available_bytes = {static_cast<int64_t>(available), Source::kApi};
    }
  }
  out.memory.limit_bytes = {static_cast<int64_t>(total), Source::kApi};
  if (options.memory_bytes > 0 && options.memory_bytes < static_cast<int64_t>(total)) {
    out.memory.limit_bytes = {options.memory_bytes, Source::kTable};
    out.notes.push_back(fmt::format("memory is limited to {} bytes by the option 'memory_bytes'",
                                    options.memory_bytes));
  }
  out.memory.max_allocation_bytes = out.memory.limit_bytes;
  out.memory.buffer_alignment = {CudaBuffer::kAlignment, Source::kTable};
  out.memory.is_host_memory = {false, Source::kTable};

  out.queues.compute_count = {options.compute_queues, Source::kTable};
  out.queues.copy_count = {options.copy_queues, Source::kTable};
  out.queues.has_timeline_semaphores = {true, Source::kTable};

  if (attributes.Get(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED).known()) {
    out.features.push_back("memory-pools");
  }
  if (out.compute.gpu_features.value & static_cast<uint64_t>(GpuFeature::kDependentLaunch)) {
    out.features.push_back("dependent-launch");
  }
  if (api.halyard_takes_kernel_ir) {
    out.features.push_back("kernel-ir");
    out.compute.gpu_features.value |= static_cast<uint64_t>(GpuFeature::kKernelIr);
  }
  out.executable_formats = {std::string(CudaExecutable::kImageFormat)};
  return out;
}

}  // namespace halyard::drivers::cuda
