// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/capabilities.h"

#include <algorithm>

#include "base/gpu_kernel_abi.h"
#include "drivers/vulkan/buffer.h"
#include "drivers/vulkan/executable.h"
#include "drivers/vulkan/exit_guard.h"
#include "hal/known_boards.h"
#include "hal/pci.h"

namespace halyard::drivers::vulkan {
namespace {

using hal::Source;

std::string FormatVersion(uint32_t version) {
  return fmt::format("{}.{}.{}", VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version),
                     VK_API_VERSION_PATCH(version));
}

hal::DeviceType TypeOf(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return hal::DeviceType::kDiscreteGpu;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return hal::DeviceType::kIntegratedGpu;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return hal::DeviceType::kVirtualGpu;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return hal::DeviceType::kCpu;
    default:
      return hal::DeviceType::kOther;
  }
}

std::string VendorName(uint32_t id) {
  switch (id) {
    case 0x1002:
      return "AMD";
    case 0x10de:
      return "NVIDIA";
    case 0x13b5:
      return "ARM";
    case 0x5143:
      return "Qualcomm";
    case 0x8086:
      return "Intel";
    case VK_VENDOR_ID_MESA:
      return "Mesa";
    default:
      return fmt::format("{:#x}", id);
  }
}

// Empty for a type that no kernel of ours multiplies.
std::string DtypeOf(VkComponentTypeKHR type) {
  if (type == VK_COMPONENT_TYPE_BFLOAT16_KHR) return "bf16";
  switch (type) {
    case VK_COMPONENT_TYPE_FLOAT16_KHR:
      return "f16";
    case VK_COMPONENT_TYPE_FLOAT32_KHR:
      return "f32";
    case VK_COMPONENT_TYPE_FLOAT64_KHR:
      return "f64";
    case VK_COMPONENT_TYPE_SINT8_KHR:
      return "i8";
    case VK_COMPONENT_TYPE_UINT8_KHR:
      return "u8";
    case VK_COMPONENT_TYPE_SINT32_KHR:
      return "i32";
    case VK_COMPONENT_TYPE_UINT32_KHR:
      return "u32";
    default:
      return {};
  }
}

std::string FormatLuid(const uint8_t (&luid)[VK_LUID_SIZE]) {
  std::string text;
  for (const uint8_t byte : luid) text += fmt::format("{:02x}", byte);
  return text;
}

void DescribeIdentity(const PhysicalDevice& device, hal::Identity* out) {
  out->name = {std::string(device.name()), Source::kApi};
  out->vendor = {VendorName(device.properties.vendorID), Source::kApi};
  out->type = {TypeOf(device.properties.deviceType), Source::kApi};
  out->uuid = {FormatUuid(device.v11.deviceUUID), Source::kApi};
  if (!device.pci_address.empty()) out->pci_address = {device.pci_address, Source::kApi};
  out->driver_name = {fmt::format("vulkan ({})", device.v12.driverName), Source::kApi};
  std::string version = device.v12.driverInfo;
  if (version.empty()) version = fmt::format("{:#x}", device.properties.driverVersion);
  out->driver_version = {version, Source::kApi};
  out->api_version = {FormatVersion(device.properties.apiVersion), Source::kApi};
  if (device.v11.deviceLUIDValid) out->luid = {FormatLuid(device.v11.deviceLUID), Source::kApi};
  const VkConformanceVersion& passed = device.v12.conformanceVersion;
  // All zero: it passed none.
  if (passed.major != 0) {
    out->conformance_version = {
        fmt::format("{}.{}.{}.{}", passed.major, passed.minor, passed.subminor, passed.patch),
        Source::kApi};
  }
  out->model_id = {
      fmt::format("{:04x}:{:04x}", device.properties.vendorID, device.properties.deviceID),
      Source::kApi};
}

uint64_t GpuFeatures(const DeviceHandle& device) {
  const Features& f = device.features;
  const VkPhysicalDeviceVulkan12Properties& p = device.physical->v12;
  const bool has_f16 = f.v12.shaderFloat16, has_f64 = f.base.features.shaderFloat64;
  const bool keeps_specials = p.shaderSignedZeroInfNanPreserveFloat32 &&
                              (p.shaderSignedZeroInfNanPreserveFloat16 || !has_f16) &&
                              (p.shaderSignedZeroInfNanPreserveFloat64 || !has_f64);
  const bool rounds_to_even = p.shaderRoundingModeRTEFloat32 &&
                              (p.shaderRoundingModeRTEFloat16 || !has_f16) &&
                              (p.shaderRoundingModeRTEFloat64 || !has_f64);
  // Code asks for it in f32 alone.
  const bool keeps_subnormals =
      p.shaderDenormPreserveFloat32 &&
      p.denormBehaviorIndependence != VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
  const std::pair<VkBool32, GpuFeature> rows[] = {
      {f.v12.shaderInt8, GpuFeature::kInt8},
      {f.base.features.shaderInt16, GpuFeature::kInt16},
      {f.base.features.shaderInt64, GpuFeature::kInt64},
      {f.v12.shaderFloat16, GpuFeature::kFloat16},
      {f.base.features.shaderFloat64, GpuFeature::kFloat64},
      {f.v12.storageBuffer8BitAccess, GpuFeature::kStorage8},
      {f.v11.storageBuffer16BitAccess, GpuFeature::kStorage16},
      {f.workgroup_layout.workgroupMemoryExplicitLayout8BitAccess, GpuFeature::kWorkgroupStorage8},
      {f.workgroup_layout.workgroupMemoryExplicitLayout16BitAccess,
       GpuFeature::kWorkgroupStorage16},
      {f.v12.shaderBufferInt64Atomics, GpuFeature::kAtomicInt64},
      {f.matrix.cooperativeMatrix, GpuFeature::kMatrix},
      {f.bfloat16.shaderBFloat16Type && f.bfloat16.shaderBFloat16CooperativeMatrix,
       GpuFeature::kBFloat16},
      {keeps_specials && rounds_to_even, GpuFeature::kFloatControls},
      {keeps_subnormals, GpuFeature::kDenormPreserve},
      // Vulkan cannot be asked; on this driver GLSL's fma is one FFMA or DFMA.
      {p.driverID == VK_DRIVER_ID_NVIDIA_PROPRIETARY, GpuFeature::kFma},
  };
  uint64_t bits = 0;
  for (const auto& [has, feature] : rows) {
    if (has) bits |= static_cast<uint64_t>(feature);
  }
  return bits;
}

void DescribeCompute(const DeviceHandle& device, hal::Compute* out) {
  const PhysicalDevice& physical = *device.physical;
  const VkPhysicalDeviceLimits& limits = physical.properties.limits;
  hal::SetIfPositive(&out->unit_count, physical.unit_count, Source::kApi);
  if (physical.subgroups_per_unit > 0 && physical.max_subgroup_size > 0) {
    out->max_workitems_per_unit = {
        int64_t{physical.subgroups_per_unit} * physical.max_subgroup_size, Source::kApi};
    if (out->unit_count.known()) {
      out->thread_count = {out->unit_count.value * out->max_workitems_per_unit.value, Source::kApi};
    }
  }
  out->can_require_subgroup_size = {physical.can_require_subgroup_size, Source::kApi};
  out->max_push_constant_bytes = {int64_t{limits.maxPushConstantsSize}, Source::kApi};
  out->subgroup_size_min = {int64_t{physical.min_subgroup_size}, Source::kApi};
  out->subgroup_size_max = {int64_t{physical.max_subgroup_size}, Source::kApi};
  out->max_workgroup_size = {int64_t{limits.maxComputeWorkGroupInvocations}, Source::kApi};
  out->workgroup_memory_bytes = {int64_t{limits.maxComputeSharedMemorySize}, Source::kApi};
  out->max_grid_x = {int64_t{limits.maxComputeWorkGroupCount[0]}, Source::kApi};
  out->max_grid_y = {int64_t{limits.maxComputeWorkGroupCount[1]}, Source::kApi};
  out->max_grid_z = {int64_t{limits.maxComputeWorkGroupCount[2]}, Source::kApi};
  out->gpu_features = {GpuFeatures(device), Source::kApi};
}

void DescribeNumerics(const DeviceHandle& device, hal::Numerics* out) {
  const PhysicalDevice& physical = *device.physical;
  const VkPhysicalDeviceVulkan12Properties& p = physical.v12;
  out->keeps_f32_denormals = {p.shaderDenormPreserveFloat32 != VK_FALSE, Source::kApi};
  out->keeps_f16_denormals = {p.shaderDenormPreserveFloat16 != VK_FALSE, Source::kApi};
  out->keeps_infinities = {p.shaderSignedZeroInfNanPreserveFloat32 != VK_FALSE, Source::kApi};
  out->rounds_f32_to_even = {p.shaderRoundingModeRTEFloat32 != VK_FALSE, Source::kApi};
  if (physical.api_version >= VK_API_VERSION_1_3) {
    out->has_integer_dot = {physical.has_integer_dot, Source::kApi};
  }
}

void DescribeDtypes(const DeviceHandle& device, std::vector<hal::DtypeSupport>* out) {
  const Features& f = device.features;
  const VkPhysicalDeviceVulkan12Features& v12 = f.v12;
  const bool has_16 = f.v11.storageBuffer16BitAccess;
  const Features& offered = device.physical->features;
  const bool has_f8 = offered.float8.shaderFloat8 != 0;
  const auto has_matrix = [&](std::string_view dtype) {
    for (const VkCooperativeMatrixPropertiesKHR& row : device.physical->matrix_shapes) {
      if (DtypeOf(row.AType) == dtype) return true;
      if (row.AType == VK_COMPONENT_TYPE_FLOAT8_E4M3_EXT && dtype == "f8e4m3") return true;
      if (row.AType == VK_COMPONENT_TYPE_FLOAT8_E5M2_EXT && dtype == "f8e5m2") return true;
    }
    return false;
  };
  struct Row {
    const char* dtype;
    bool storage, arithmetic, atomic;
  };
  const Row rows[] = {
      {"f64", f.base.features.shaderFloat64 != 0, f.base.features.shaderFloat64 != 0,
       f.atomic_float.shaderBufferFloat64AtomicAdd != 0},
      {"f32", true, true, f.atomic_float.shaderBufferFloat32AtomicAdd != 0},
      {"f16", has_16, v12.shaderFloat16 != 0,
       offered.atomic_float2.shaderBufferFloat16AtomicAdd != 0},
      {"bf16", has_16, f.bfloat16.shaderBFloat16Type != 0, false},
      {"f8e4m3", has_f8, false, false},
      {"f8e5m2", has_f8, false, false},
      {"i64", true, f.base.features.shaderInt64 != 0, v12.shaderBufferInt64Atomics != 0},
      {"i32", true, true, true},
      {"i16", has_16, f.base.features.shaderInt16 != 0, false},
      {"i8", v12.storageBuffer8BitAccess != 0, v12.shaderInt8 != 0, false},
  };
  for (const Row& row : rows) {
    hal::DtypeSupport added;
    added.dtype = {row.dtype, Source::kTable};
    added.has_storage = {row.storage, Source::kApi};
    added.has_arithmetic = {row.arithmetic, Source::kApi};
    added.has_matrix = {has_matrix(row.dtype), Source::kApi};
    added.has_atomic_add = {row.atomic, Source::kApi};
    out->push_back(std::move(added));
  }
}

std::string FormatMemoryType(VkMemoryPropertyFlags flags) {
  std::string text;
  const auto add = [&](VkMemoryPropertyFlags bit, const char* name) {
    if (flags & bit) text += fmt::format("{}{}", text.empty() ? "" : "+", name);
  };
  add(VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, "device");
  add(VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, "host");
  add(VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, "coherent");
  add(VK_MEMORY_PROPERTY_HOST_CACHED_BIT, "cached");
  add(VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT, "lazy");
  return text.empty() ? "plain" : text;
}

// False where the device does not tell budgets.
bool ReadBudget(const PhysicalDevice& physical, VkPhysicalDeviceMemoryBudgetPropertiesEXT* budget) {
  if (!physical.Has(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME) || !physical.handle) return false;
  if (AreDriversForgotten()) return false;
  auto memory = Typed<VkPhysicalDeviceMemoryProperties2>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2);
  *budget = Typed<VkPhysicalDeviceMemoryBudgetPropertiesEXT>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
  Chain(&memory, budget);
  vkGetPhysicalDeviceMemoryProperties2(physical.handle, &memory);
  return true;
}

void DescribeHeaps(const PhysicalDevice& physical, hal::Capabilities* out) {
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {};
  const bool has_budget = ReadBudget(physical, &budget);
  for (uint32_t i = 0; i < physical.memory.memoryHeapCount; ++i) {
    const VkMemoryHeap& heap = physical.memory.memoryHeaps[i];
    hal::Heap added;
    hal::SetIfPositive(&added.size_bytes, static_cast<int64_t>(heap.size), Source::kApi);
    if (has_budget) {
      hal::SetIfPositive(&added.budget_bytes, static_cast<int64_t>(budget.heapBudget[i]),
                         Source::kApi);
    }
    const bool is_local = (heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0;
    added.is_device_local = {is_local, Source::kApi};
    std::string kinds;
    bool is_visible = false;
    for (uint32_t t = 0; t < physical.memory.memoryTypeCount; ++t) {
      const VkMemoryType& type = physical.memory.memoryTypes[t];
      if (type.heapIndex != i) continue;
      is_visible |= (type.propertyFlags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) != 0;
      kinds += fmt::format("{}{}", kinds.empty() ? "" : ", ", FormatMemoryType(type.propertyFlags));
    }
    hal::SetIfText(&added.kinds, kinds, Source::kApi);
    // A window of 256 MiB is what a board without a resizable one shows.
    if (is_local && is_visible && !physical.is_unified()) {
      out->memory.host_visible_bytes = {static_cast<int64_t>(heap.size), Source::kApi};
      out->memory.is_resizable_bar = {heap.size > (256u << 20), Source::kApi};
    }
    out->heaps.push_back(std::move(added));
  }
}

void DescribeQueues(const DeviceHandle& device, uint32_t lane_count, hal::Queues* out) {
  const PhysicalDevice& physical = *device.physical;
  out->compute_count = {int64_t{lane_count}, Source::kApi};
  out->copy_count = {device.transfer_family != device.compute_family ? 1 : 0, Source::kApi};
  out->has_timeline_semaphores = {true, Source::kApi};
  out->replay = {"resubmission of a command buffer", Source::kTable};
  std::string families;
  for (const VkQueueFamilyProperties& family : physical.queue_families) {
    std::string uses;
    const auto add = [&](VkQueueFlags bit, const char* name) {
      if (family.queueFlags & bit) uses += fmt::format("{}{}", uses.empty() ? "" : "+", name);
    };
    add(VK_QUEUE_GRAPHICS_BIT, "graphics");
    add(VK_QUEUE_COMPUTE_BIT, "compute");
    add(VK_QUEUE_TRANSFER_BIT, "transfer");
    add(VK_QUEUE_SPARSE_BINDING_BIT, "sparse");
    families += fmt::format("{}{} x {}", families.empty() ? "" : ", ", family.queueCount,
                            uses.empty() ? "other" : uses);
  }
  hal::SetIfText(&out->families, families, Source::kApi);
  out->timestamp_period_ns = {double{physical.properties.limits.timestampPeriod}, Source::kApi};
  if (device.compute_family < physical.queue_families.size()) {
    hal::SetIfPositive(&out->timestamp_bits,
                       physical.queue_families[device.compute_family].timestampValidBits,
                       Source::kApi);
  }
}

void DescribeInterop(const PhysicalDevice& physical, hal::Interop* out) {
  std::string memory;
  const auto add = [&](const char* extension, const char* name) {
    if (physical.Has(extension)) memory += fmt::format("{}{}", memory.empty() ? "" : ", ", name);
  };
  add(VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME, "file descriptor");
  add(VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME, "dma-buf");
  add(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME, "host pointer");
  hal::SetIfText(&out->memory_handles, memory, Source::kApi);
  if (physical.Has(VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME)) {
    out->semaphore_handles = {"file descriptor", Source::kApi};
  }
  out->can_import_host_memory = {physical.import_alignment > 0, Source::kApi};
  out->has_dma_buf = {physical.Has(VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME), Source::kApi};
}

void DescribeMatrixShapes(const PhysicalDevice& device, std::vector<hal::MatrixShape>* out) {
  for (const VkCooperativeMatrixPropertiesKHR& row : device.matrix_shapes) {
    std::string input = DtypeOf(row.AType), output = DtypeOf(row.ResultType);
    if (row.scope != VK_SCOPE_SUBGROUP_KHR || row.saturatingAccumulation || input.empty() ||
        output.empty() || row.AType != row.BType || row.CType != row.ResultType) {
      continue;
    }
    out->push_back({input, output, static_cast<int32_t>(row.MSize), static_cast<int32_t>(row.NSize),
                    static_cast<int32_t>(row.KSize), Source::kApi});
  }
}

void DescribeFlexibleMatrices(const PhysicalDevice& device, std::vector<hal::FlexibleMatrix>* out) {
  for (const VkCooperativeMatrixFlexibleDimensionsPropertiesNV& row : device.flexible_shapes) {
    const std::string input = DtypeOf(row.AType), output = DtypeOf(row.ResultType);
    if (row.saturatingAccumulation || input.empty() || output.empty() || row.AType != row.BType ||
        row.CType != row.ResultType) {
      continue;
    }
    hal::FlexibleMatrix added;
    added.shape = {fmt::format("{}x{}x{} {} -> {}", row.MGranularity, row.NGranularity,
                               row.KGranularity, input, output),
                   Source::kApi};
    added.scope = {row.scope == VK_SCOPE_WORKGROUP_KHR  ? "workgroup"
                   : row.scope == VK_SCOPE_SUBGROUP_KHR ? "subgroup"
                                                        : "other",
                   Source::kApi};
    // 0 of a subgroup, which stands in a workgroup of any size.
    hal::SetIfPositive(&added.workgroup_size, row.workgroupInvocations, Source::kApi);
    out->push_back(std::move(added));
  }
}

// The silicon of a board, of which Vulkan tells nothing but the PCI numbers.
void DescribeChip(const PhysicalDevice& device, hal::Capabilities* out) {
  if (device.is_cpu()) return;  // its caches are the processor's
  const hal::KnownBoard* board = hal::FindKnownBoard(out->identity.model_id.value);
  if (!board) {
    out->notes.push_back(
        fmt::format("The chip and the size of its second-level cache are unknown: Vulkan tells "
                    "neither, and the table has no board {}.",
                    out->identity.model_id.value));
    return;
  }
  out->identity.chip = {board->chip, Source::kTable};
  out->memory.kind = {board->memory_kind, Source::kTable};
  hal::Cache l2;
  l2.level = {2, Source::kTable};
  l2.size_bytes = {board->l2_bytes, Source::kTable};
  l2.instance_count = {1, Source::kTable};
  out->caches.push_back(std::move(l2));
}

void DescribeMemory(const DeviceHandle& device, const MemoryPools& pools, int64_t limit_bytes,
                    hal::Memory* out) {
  const PhysicalDevice& physical = *device.physical;
  auto total = static_cast<int64_t>(pools.heap_bytes(MemoryUse::kDevice));
  out->total_bytes = {total, Source::kApi};
  out->available_bytes = {pools.BytesLeft(MemoryUse::kDevice), Source::kApi};
  if (limit_bytes > 0) out->limit_bytes = {limit_bytes, Source::kTable};
  uint64_t most =
      std::min<uint64_t>(physical.v11.maxMemoryAllocationSize, physical.max_buffer_bytes);
  out->max_allocation_bytes = {
      static_cast<int64_t>(std::min<uint64_t>(most, static_cast<uint64_t>(total))), Source::kApi};
  out->buffer_alignment = {VulkanBuffer::kAlignment, Source::kTable};
  hal::SetIfPositive(&out->import_alignment, static_cast<int64_t>(physical.import_alignment),
                     Source::kApi);
  out->max_binding_bytes = {int64_t{physical.properties.limits.maxStorageBufferRange},
                            Source::kApi};
  out->min_storage_alignment = {
      static_cast<int64_t>(physical.properties.limits.minStorageBufferOffsetAlignment),
      Source::kApi};
  out->non_coherent_alignment = {
      static_cast<int64_t>(physical.properties.limits.nonCoherentAtomSize), Source::kApi};
  out->is_host_memory = {physical.is_unified() && pools.is_mappable(MemoryUse::kDevice),
                         Source::kApi};
}

}  // namespace

std::string FormatUuid(const uint8_t (&uuid)[VK_UUID_SIZE]) {
  std::string text;
  for (int i = 0; i < static_cast<int>(VK_UUID_SIZE); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid[i]);
  }
  return text;
}

hal::Capabilities DescribeVulkan(const DeviceHandle& device, const MemoryPools& memory,
                                 uint32_t lane_count, int64_t memory_limit_bytes) {
  const PhysicalDevice& physical = *device.physical;
  hal::Capabilities out;
  DescribeIdentity(physical, &out.identity);
  DescribeCompute(device, &out.compute);
  DescribeChip(physical, &out);
  DescribeMatrixShapes(physical, &out.matrix_shapes);
  DescribeFlexibleMatrices(physical, &out.flexible_matrices);
  DescribeMemory(device, memory, memory_limit_bytes, &out.memory);
  DescribeNumerics(device, &out.numerics);
  DescribeDtypes(device, &out.dtypes);
  DescribeHeaps(physical, &out);
  DescribeQueues(device, lane_count, &out.queues);
  DescribeInterop(physical, &out.interop);
  hal::DescribePci(SystemFiles(), physical.pci_address, &out.links);
  out.tools.code_formats = {
      fmt::format("SPIR-V for Vulkan {}.{}", VK_API_VERSION_MAJOR(physical.api_version),
                  VK_API_VERSION_MINOR(physical.api_version)),
      Source::kApi};
  out.tools.can_count = {physical.Has(VK_KHR_PERFORMANCE_QUERY_EXTENSION_NAME), Source::kApi};
  out.tools.pipeline_cache_uuid = {FormatUuid(physical.properties.pipelineCacheUUID), Source::kApi};
  for (const char* extension : ExtensionsToEnable(physical)) out.features.push_back(extension);
  out.executable_formats = {std::string(kSpirvImageFormat)};
  if (physical.is_cpu()) {
    out.notes.push_back("This Vulkan device runs on the processor; it is for tests.");
  }
  return out;
}

hal::DeviceState ReadVulkanState(const PhysicalDevice& physical) {
  hal::DeviceState state;
  hal::ReadPciState(SystemFiles(), physical.pci_address, &state);
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {};
  if (!ReadBudget(physical, &budget)) return state;
  for (uint32_t i = 0; i < physical.memory.memoryHeapCount; ++i) {
    if (!(physical.memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)) continue;
    const VkDeviceSize left =
        budget.heapBudget[i] > budget.heapUsage[i] ? budget.heapBudget[i] - budget.heapUsage[i] : 0;
    state.available_bytes = {state.available_bytes.ValueOr(0) + static_cast<int64_t>(left),
                             Source::kApi};
  }
  return state;
}

}  // namespace halyard::drivers::vulkan
