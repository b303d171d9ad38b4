// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/capabilities.h"

#include <algorithm>

#include "base/gpu_kernel_abi.h"
#include "drivers/vulkan/buffer.h"
#include "drivers/vulkan/executable.h"

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

// Empty for a type that no kernel of ours uses.
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
  if (physical.multiprocessor_count > 0) {
    out->unit_count = {int64_t{physical.multiprocessor_count}, Source::kApi};
  }
  out->subgroup_size_min = {int64_t{physical.min_subgroup_size}, Source::kApi};
  out->subgroup_size_max = {int64_t{physical.max_subgroup_size}, Source::kApi};
  out->max_workgroup_size = {int64_t{limits.maxComputeWorkGroupInvocations}, Source::kApi};
  out->workgroup_memory_bytes = {int64_t{limits.maxComputeSharedMemorySize}, Source::kApi};
  out->max_grid_x = {int64_t{limits.maxComputeWorkGroupCount[0]}, Source::kApi};
  out->max_grid_y = {int64_t{limits.maxComputeWorkGroupCount[1]}, Source::kApi};
  out->max_grid_z = {int64_t{limits.maxComputeWorkGroupCount[2]}, Source::kApi};
  out->gpu_features = {GpuFeatures(device), Source::kApi};
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
  DescribeMatrixShapes(physical, &out.matrix_shapes);
  DescribeMemory(device, memory, memory_limit_bytes, &out.memory);
  out.queues.compute_count = {int64_t{lane_count}, Source::kApi};
  out.queues.copy_count = {device.transfer_family != device.compute_family ? 1 : 0, Source::kApi};
  out.queues.has_timeline_semaphores = {true, Source::kApi};
  for (const char* extension : ExtensionsToEnable(physical)) out.features.push_back(extension);
  out.executable_formats = {std::string(kSpirvImageFormat)};
  if (physical.is_cpu()) {
    out.notes.push_back("This Vulkan device runs on the processor; it is for tests.");
  }
  return out;
}

}  // namespace halyard::drivers::vulkan
