// SPDX-License-Identifier: Apache-2.0
// PhysicalDevice: everything that a Vulkan physical device says about itself, asked once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "drivers/vulkan/vulkan_api.h"

namespace halyard::drivers::vulkan {

// The feature structures that this driver knows, for queries and for device creation.
struct Features {
  VkPhysicalDeviceFeatures2 base =
      Typed<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
  VkPhysicalDeviceVulkan11Features v11 = Typed<VkPhysicalDeviceVulkan11Features>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
  VkPhysicalDeviceVulkan12Features v12 = Typed<VkPhysicalDeviceVulkan12Features>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
  VkPhysicalDeviceVulkan13Features v13 = Typed<VkPhysicalDeviceVulkan13Features>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_size =
      Typed<VkPhysicalDeviceSubgroupSizeControlFeatures>(
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES);
  VkPhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR workgroup_layout =
      Typed<VkPhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR>(
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_WORKGROUP_MEMORY_EXPLICIT_LAYOUT_FEATURES_KHR);
  VkPhysicalDeviceShaderAtomicFloatFeaturesEXT atomic_float =
      Typed<VkPhysicalDeviceShaderAtomicFloatFeaturesEXT>(
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT);
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix =
      Typed<VkPhysicalDeviceCooperativeMatrixFeaturesKHR>(
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR);
  VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat16 =
      Typed<VkPhysicalDeviceShaderBfloat16FeaturesKHR>(
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR);
  VkPhysicalDeviceCooperativeMatrix2FeaturesNV matrix2 =
      Typed<VkPhysicalDeviceCooperativeMatrix2FeaturesNV>(
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV);
  VkPhysicalDeviceFaultFeaturesEXT fault =
      Typed<VkPhysicalDeviceFaultFeaturesEXT>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FAULT_FEATURES_EXT);
  // Asked for reports only; no kernel of ours uses them.
  VkPhysicalDeviceShaderAtomicFloat2FeaturesEXT atomic_float2 =
      Typed<VkPhysicalDeviceShaderAtomicFloat2FeaturesEXT>(
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_2_FEATURES_EXT);
  VkPhysicalDeviceShaderFloat8FeaturesEXT float8 = Typed<VkPhysicalDeviceShaderFloat8FeaturesEXT>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT8_FEATURES_EXT);
};

struct PhysicalDevice {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  uint32_t api_version = 0;  // of the device, at most 1.3
  VkPhysicalDeviceProperties properties = {};
  VkPhysicalDeviceVulkan11Properties v11 = {};
  VkPhysicalDeviceVulkan12Properties v12 = {};
  // 0 where the device cannot tell or choose.
  uint32_t min_subgroup_size = 0, max_subgroup_size = 0;
  bool can_require_subgroup_size = false;
  uint32_t unit_count = 0;          // multiprocessors or compute units; 0: unknown
  uint32_t subgroups_per_unit = 0;  // 0: unknown
  bool has_integer_dot = false;     // in hardware
  uint64_t max_buffer_bytes = 0;
  uint64_t import_alignment = 0;  // of host memory; 0: no import
  VkPhysicalDeviceMemoryProperties memory = {};
  std::vector<VkQueueFamilyProperties> queue_families;
  std::vector<std::string> extensions;
  std::string pci_address;  // "0000:3b:00.0"; empty when unknown
  Features features;        // what it offers
  std::vector<VkCooperativeMatrixPropertiesKHR> matrix_shapes;
  std::vector<VkCooperativeMatrixFlexibleDimensionsPropertiesNV> flexible_shapes;

  std::string_view name() const { return properties.deviceName; }
  bool Has(std::string_view extension) const;
  bool is_cpu() const { return properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU; }
  // Device and host share one memory.
  bool is_unified() const {
    return is_cpu() || properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
  }
};

// Links the structures that a VkDevice of ours is made with, and that the device knows, into one
// chain that starts at features->base.
void LinkFeatures(const PhysicalDevice& device, Features* features);

PhysicalDevice QueryPhysicalDevice(VkPhysicalDevice handle);

// Why this driver cannot use the device; empty when it can.
std::string ReasonToSkip(const PhysicalDevice& device);
// Why "auto" leaves out a device that it can use: it is no GPU. Empty for GPUs.
std::string ReasonToLeaveOut(const PhysicalDevice& device);

// The features and extensions that a VkDevice of ours is made with.
Features FeaturesToEnable(const PhysicalDevice& device);
std::vector<const char*> ExtensionsToEnable(const PhysicalDevice& device);

// The family that runs kernels: one for computing alone when there is one.
uint32_t ComputeFamily(const PhysicalDevice& device);
// The family for copies between host and device: one for that alone when there is one, otherwise
// the compute family.
uint32_t TransferFamily(const PhysicalDevice& device);

}  // namespace halyard::drivers::vulkan
