// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/physical_device.h"

#include <algorithm>
#include <cstring>

namespace halyard::drivers::vulkan {
namespace {

// What a VkDevice of ours may use beyond the core.
constexpr const char* kExtensions[] = {
    VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME,
    VK_EXT_MEMORY_BUDGET_EXTENSION_NAME,
    VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME,
    VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME,
    VK_KHR_WORKGROUP_MEMORY_EXPLICIT_LAYOUT_EXTENSION_NAME,
    VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME,
    VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME,
    VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME,
    VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME,
    VK_EXT_DEVICE_FAULT_EXTENSION_NAME,
};

// What a function of an extension answers that lists products; the packaged volk does not know
// them.
template <typename Properties>
std::vector<Properties> ListProducts(VkPhysicalDevice handle, const char* function,
                                     VkStructureType type) {
  using Query = VkResult(VKAPI_PTR*)(VkPhysicalDevice, uint32_t*, Properties*);
  auto query = reinterpret_cast<Query>(vkGetInstanceProcAddr(volkGetLoadedInstance(), function));
  uint32_t count = 0;
  if (!query || query(handle, &count, nullptr) != VK_SUCCESS) return {};
  Properties empty = {};
  empty.sType = type;
  std::vector<Properties> products(count, empty);
  if (query(handle, &count, products.data()) < VK_SUCCESS) count = 0;
  products.resize(count);
  return products;
}

void QueryMatrixShapes(PhysicalDevice* device) {
  if (device->features.matrix.cooperativeMatrix) {
    device->matrix_shapes = ListProducts<VkCooperativeMatrixPropertiesKHR>(
        device->handle, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR",
        VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR);
  }
  if (device->features.matrix2.cooperativeMatrixFlexibleDimensions) {
    device->flexible_shapes = ListProducts<VkCooperativeMatrixFlexibleDimensionsPropertiesNV>(
        device->handle, "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV",
        VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_FLEXIBLE_DIMENSIONS_PROPERTIES_NV);
  }
}

void QueryProperties(PhysicalDevice* device) {
  auto properties =
      Typed<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
  device->v11 = Typed<VkPhysicalDeviceVulkan11Properties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES);
  device->v12 = Typed<VkPhysicalDeviceVulkan12Properties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES);
  auto subgroup = Typed<VkPhysicalDeviceSubgroupSizeControlProperties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES);
  auto maintenance = Typed<VkPhysicalDeviceMaintenance4Properties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES);
  auto pci = Typed<VkPhysicalDevicePCIBusInfoPropertiesEXT>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT);
  auto import = Typed<VkPhysicalDeviceExternalMemoryHostPropertiesEXT>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT);
  Chain(&properties, &device->v11);
  Chain(&properties, &device->v12);
  bool is_1_3 = device->api_version >= VK_API_VERSION_1_3;
  bool has_sizes = is_1_3 || device->Has(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
  if (has_sizes) Chain(&properties, &subgroup);
  if (is_1_3) Chain(&properties, &maintenance);
  bool has_pci = device->Has(VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);
  if (has_pci) Chain(&properties, &pci);
  bool has_import = device->Has(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  if (has_import) Chain(&properties, &import);
  auto multiprocessors = Typed<VkPhysicalDeviceShaderSMBuiltinsPropertiesNV>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV);
  if (device->Has(VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) Chain(&properties, &multiprocessors);
  auto cores = Typed<VkPhysicalDeviceShaderCorePropertiesAMD>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD);
  if (device->Has(VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME)) Chain(&properties, &cores);
  auto dot = Typed<VkPhysicalDeviceShaderIntegerDotProductProperties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES);
  if (is_1_3) Chain(&properties, &dot);
  vkGetPhysicalDeviceProperties2(device->handle, &properties);

  device->unit_count = multiprocessors.shaderSMCount;
  device->subgroups_per_unit = multiprocessors.shaderWarpsPerSM;
  if (cores.computeUnitsPerShaderArray > 0) {
    device->unit_count = cores.shaderEngineCount * cores.shaderArraysPerEngineCount *
                         cores.computeUnitsPerShaderArray;
    device->subgroups_per_unit = cores.simdPerComputeUnit * cores.wavefrontsPerSimd;
  }
  device->has_integer_dot = dot.integerDotProduct4x8BitPackedSignedAccelerated != VK_FALSE;
  device->min_subgroup_size = device->max_subgroup_size = device->v11.subgroupSize;
  if (has_sizes && subgroup.minSubgroupSize != 0) {
    device->min_subgroup_size = subgroup.minSubgroupSize;
    device->max_subgroup_size = subgroup.maxSubgroupSize;
    device->can_require_subgroup_size =
        (subgroup.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
  }
  device->max_buffer_bytes = is_1_3 ? maintenance.maxBufferSize : uint64_t{1} << 30;
  if (has_import) device->import_alignment = import.minImportedHostPointerAlignment;
  if (has_pci) {
    device->pci_address = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.pciDomain, pci.pciBus,
                                      pci.pciDevice, pci.pciFunction);
  }
  device->v11.pNext = device->v12.pNext = nullptr;
}

}  // namespace

bool PhysicalDevice::Has(std::string_view extension) const {
  return std::find(extensions.begin(), extensions.end(), extension) != extensions.end();
}

void LinkFeatures(const PhysicalDevice& device, Features* features) {
  features->base.pNext = nullptr;
  Chain(&features->base, &features->v11);
  Chain(&features->base, &features->v12);
  if (device.api_version >= VK_API_VERSION_1_3) {
    Chain(&features->base, &features->v13);
  } else if (device.Has(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME)) {
    Chain(&features->base, &features->subgroup_size);
  }
  if (device.Has(VK_KHR_WORKGROUP_MEMORY_EXPLICIT_LAYOUT_EXTENSION_NAME)) {
    Chain(&features->base, &features->workgroup_layout);
  }
  if (device.Has(VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME)) {
    Chain(&features->base, &features->atomic_float);
  }
  if (device.Has(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME)) {
    Chain(&features->base, &features->matrix);
  }
  if (device.Has(VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME)) {
    Chain(&features->base, &features->bfloat16);
  }
  if (device.Has(VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME)) {
    Chain(&features->base, &features->matrix2);
  }
  if (device.Has(VK_EXT_DEVICE_FAULT_EXTENSION_NAME)) Chain(&features->base, &features->fault);
}

PhysicalDevice QueryPhysicalDevice(VkPhysicalDevice handle) {
  PhysicalDevice device;
  device.handle = handle;
  vkGetPhysicalDeviceProperties(handle, &device.properties);
  device.api_version = std::min(device.properties.apiVersion, uint32_t{VK_API_VERSION_1_3} | 0xfff);
  uint32_t count = 0;
  vkEnumerateDeviceExtensionProperties(handle, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> extensions(count);
  if (vkEnumerateDeviceExtensionProperties(handle, nullptr, &count, extensions.data()) <
      VK_SUCCESS) {
    count = 0;
  }
  for (uint32_t i = 0; i < count; ++i) device.extensions.push_back(extensions[i].extensionName);
  vkGetPhysicalDeviceMemoryProperties(handle, &device.memory);
  vkGetPhysicalDeviceQueueFamilyProperties(handle, &count, nullptr);
  device.queue_families.resize(count);
  vkGetPhysicalDeviceQueueFamilyProperties(handle, &count, device.queue_families.data());
  // The structures of 1.2 mean nothing to an older device.
  if (device.api_version < VK_API_VERSION_1_2) return device;
  QueryProperties(&device);
  LinkFeatures(device, &device.features);
  if (device.Has(VK_EXT_SHADER_ATOMIC_FLOAT_2_EXTENSION_NAME)) {
    Chain(&device.features.base, &device.features.atomic_float2);
  }
  if (device.Has(VK_EXT_SHADER_FLOAT8_EXTENSION_NAME)) {
    Chain(&device.features.base, &device.features.float8);
  }
  vkGetPhysicalDeviceFeatures2(handle, &device.features.base);
  device.features.base.pNext = nullptr;
  QueryMatrixShapes(&device);
  return device;
}

std::string ReasonToSkip(const PhysicalDevice& device) {
  if (device.api_version < VK_API_VERSION_1_2) {
    return fmt::format("it has Vulkan {}.{}; 1.2 is needed.",
                       VK_API_VERSION_MAJOR(device.api_version),
                       VK_API_VERSION_MINOR(device.api_version));
  }
  const Features& features = device.features;
  const std::pair<VkBool32, const char*> needs[] = {
      {features.v12.timelineSemaphore, "timelineSemaphore"},
      {features.v12.bufferDeviceAddress, "bufferDeviceAddress"},
      {features.base.features.shaderInt64, "shaderInt64"},
      {features.v12.shaderInt8, "shaderInt8"},
      {features.v12.storageBuffer8BitAccess, "storageBuffer8BitAccess"},
  };
  for (const auto& [has, name] : needs) {
    if (!has) return fmt::format("it lacks the feature {}.", name);
  }
  bool can_compute = false;
  for (const VkQueueFamilyProperties& family : device.queue_families) {
    can_compute |= (family.queueFlags & VK_QUEUE_COMPUTE_BIT) != 0 && family.queueCount > 0;
  }
  return can_compute ? "" : "it has no queue for computing.";
}

std::string ReasonToLeaveOut(const PhysicalDevice& device) {
  switch (device.properties.deviceType) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return "";
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return "it is the processor, which 'cpu:0' is too";
    default:
      return "its driver does not say that it is a GPU";
  }
}

Features FeaturesToEnable(const PhysicalDevice& device) {
  Features on = device.features;
  // Only what kernels may use: others, such as robust buffer access, cost time.
  on.base.features = {};
  on.base.features.shaderInt16 = device.features.base.features.shaderInt16;
  on.base.features.shaderInt64 = device.features.base.features.shaderInt64;
  on.base.features.shaderFloat64 = device.features.base.features.shaderFloat64;
  on.v11 = Typed<VkPhysicalDeviceVulkan11Features>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
  on.v11.storageBuffer16BitAccess = device.features.v11.storageBuffer16BitAccess;
  on.v11.uniformAndStorageBuffer16BitAccess =
      device.features.v11.uniformAndStorageBuffer16BitAccess;
  on.v11.storagePushConstant16 = device.features.v11.storagePushConstant16;
  const VkPhysicalDeviceVulkan12Features& have = device.features.v12;
  on.v12 = Typed<VkPhysicalDeviceVulkan12Features>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
  on.v12.storageBuffer8BitAccess = have.storageBuffer8BitAccess;
  on.v12.uniformAndStorageBuffer8BitAccess = have.uniformAndStorageBuffer8BitAccess;
  on.v12.storagePushConstant8 = have.storagePushConstant8;
  on.v12.shaderBufferInt64Atomics = have.shaderBufferInt64Atomics;
  on.v12.shaderSharedInt64Atomics = have.shaderSharedInt64Atomics;
  on.v12.shaderFloat16 = have.shaderFloat16;
  on.v12.shaderInt8 = have.shaderInt8;
  on.v12.scalarBlockLayout = have.scalarBlockLayout;
  on.v12.shaderSubgroupExtendedTypes = have.shaderSubgroupExtendedTypes;
  on.v12.timelineSemaphore = VK_TRUE;
  on.v12.bufferDeviceAddress = VK_TRUE;
  on.v12.vulkanMemoryModel = have.vulkanMemoryModel;
  on.v12.vulkanMemoryModelDeviceScope = have.vulkanMemoryModelDeviceScope;
  on.v12.subgroupBroadcastDynamicId = have.subgroupBroadcastDynamicId;
  on.v13 = Typed<VkPhysicalDeviceVulkan13Features>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);
  on.v13.subgroupSizeControl = device.features.v13.subgroupSizeControl;
  on.v13.computeFullSubgroups = device.features.v13.computeFullSubgroups;
  on.v13.shaderIntegerDotProduct = device.features.v13.shaderIntegerDotProduct;
  on.v13.maintenance4 = device.features.v13.maintenance4;
  on.matrix.cooperativeMatrixRobustBufferAccess = VK_FALSE;
  on.fault.deviceFaultVendorBinary = VK_FALSE;
  return on;
}

std::vector<const char*> ExtensionsToEnable(const PhysicalDevice& device) {
  std::vector<const char*> names;
  for (const char* name : kExtensions) {
    if (device.Has(name)) names.push_back(name);
  }
  return names;
}

uint32_t ComputeFamily(const PhysicalDevice& device) {
  uint32_t found = 0;
  int best = -1;
  for (uint32_t i = 0; i < device.queue_families.size(); ++i) {
    const VkQueueFamilyProperties& family = device.queue_families[i];
    if (!(family.queueFlags & VK_QUEUE_COMPUTE_BIT) || family.queueCount == 0) continue;
    int score = (family.queueFlags & VK_QUEUE_GRAPHICS_BIT) ? 0 : 1;
    if (score > best) {
      best = score;
      found = i;
    }
  }
  return found;
}

uint32_t TransferFamily(const PhysicalDevice& device) {
  for (uint32_t i = 0; i < device.queue_families.size(); ++i) {
    const VkQueueFamilyProperties& family = device.queue_families[i];
    const VkQueueFlags others = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
    VkExtent3D grain = family.minImageTransferGranularity;
    // The video families also copy, and say so; the plain one has no other bits and a granularity
    // of one.
    if ((family.queueFlags & VK_QUEUE_TRANSFER_BIT) && !(family.queueFlags & others) &&
        !(family.queueFlags & ~(VK_QUEUE_TRANSFER_BIT | VK_QUEUE_SPARSE_BINDING_BIT)) &&
        family.queueCount > 0 && grain.width == 1) {
      return i;
    }
  }
  return ComputeFamily(device);
}

}  // namespace halyard::drivers::vulkan
