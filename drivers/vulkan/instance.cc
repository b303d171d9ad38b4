// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/instance.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "base/env.h"
#include "base/log.h"
#include "drivers/vulkan/manifests.h"

namespace halyard::drivers::vulkan {
namespace {

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";
std::atomic<int64_t> g_message_count{0};
std::atomic<bool> g_has_layer{false};

VKAPI_ATTR VkBool32 VKAPI_CALL OnMessage(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                         VkDebugUtilsMessageTypeFlagsEXT,
                                         const VkDebugUtilsMessengerCallbackDataEXT* data, void*) {
  g_message_count.fetch_add(1, std::memory_order_relaxed);
  HY_LOG(kError, "Vulkan validation: {}", data->pMessage ? data->pMessage : "no text");
  return VK_FALSE;
}

bool HasLayer(const char* name) {
  uint32_t count = 0;
  if (vkEnumerateInstanceLayerProperties(&count, nullptr) != VK_SUCCESS) return false;
  std::vector<VkLayerProperties> layers(count);
  if (vkEnumerateInstanceLayerProperties(&count, layers.data()) < VK_SUCCESS) return false;
  return std::any_of(layers.begin(), layers.begin() + count, [name](const VkLayerProperties& l) {
    return std::strcmp(l.layerName, name) == 0;
  });
}

std::string FormatProblems() {
  std::string problems;
  for (const std::string& problem : ManifestProblems()) problems += " " + problem;
  return problems;
}

int Rank(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return 0;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return 1;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return 4;
    default:
      return 3;
  }
}

}  // namespace

int64_t ValidationMessageCount() { return g_message_count.load(std::memory_order_relaxed); }
bool HasValidationLayer() { return g_has_layer.load(std::memory_order_relaxed); }

Result<const VulkanInstance*> VulkanInstance::Get() {
  static std::mutex mutex;
  static const VulkanInstance* instance = nullptr;
  std::lock_guard lock(mutex);
  if (instance) return instance;
  HY_TRY(CheckManifests());  // before the loader's first look at them
  HY_TRY(LoadVulkan());
  std::unique_ptr<VulkanInstance> made(new VulkanInstance);
  HY_TRY(made->Create());
  Status status = made->Enumerate();
  if (!status.ok()) {
    vkDestroyInstance(made->handle_, nullptr);
    return status;
  }
  instance = made.release();
  return instance;
}

Status VulkanInstance::Create() {
  if (volkGetInstanceVersion() < VK_API_VERSION_1_2) {
    // 1.0 is also what a loader is taken for that finds a torn file of a layer.
    return Unavailable("The Vulkan loader knows version {}.{}; 1.2 is needed.{}",
                       VK_API_VERSION_MAJOR(volkGetInstanceVersion()),
                       VK_API_VERSION_MINOR(volkGetInstanceVersion()), FormatProblems());
  }
  auto application = Typed<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
  application.pApplicationName = "Halyard";
  application.pEngineName = "Halyard";
  // An older device is still used with what it has.
  application.apiVersion = VK_API_VERSION_1_3;
  auto info = Typed<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
  info.pApplicationInfo = &application;

  const char* extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  auto messenger = Typed<VkDebugUtilsMessengerCreateInfoEXT>(
      VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT);
  messenger.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                              VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  messenger.pfnUserCallback = &OnMessage;
  bool is_validated = EnvFlag(EnvVar::kValidate) && HasLayer(kValidationLayer);
  if (is_validated) {
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = &kValidationLayer;
    info.enabledExtensionCount = 1;
    info.ppEnabledExtensionNames = &extension;
    info.pNext = &messenger;
  }
  VkResult result = vkCreateInstance(&info, nullptr, &handle_);
  if (result != VK_SUCCESS) {
    // What the user named is the likeliest cause, whatever the answer is: an old loader calls a
    // torn manifest a lack of memory.
    std::string named = EnvVulkanDriverFiles();
    if (!named.empty()) named = " with " + named;
    return Unavailable(
        "The Vulkan loader {}{}: vkCreateInstance answered {}.{}",
        result == VK_ERROR_INCOMPATIBLE_DRIVER ? "found no working driver" : "cannot start", named,
        FormatVkResult(result), FormatProblems());
  }
  volkLoadInstanceOnly(handle_);
  if (is_validated) {
    VkDebugUtilsMessengerEXT kept = VK_NULL_HANDLE;
    HY_TRY(StatusFromVk(vkCreateDebugUtilsMessengerEXT(handle_, &messenger, nullptr, &kept),
                        "vkCreateDebugUtilsMessengerEXT"));
    g_has_layer.store(true, std::memory_order_relaxed);
  }
  return OkStatus();
}

Status VulkanInstance::Enumerate() {
  uint32_t count = 0;
  VkResult result = vkEnumeratePhysicalDevices(handle_, &count, nullptr);
  // A driver without a device, such as a GPU's on a machine that has none.
  if (result == VK_ERROR_INITIALIZATION_FAILED || (result == VK_SUCCESS && count == 0)) {
    const std::string named = EnvVulkanDriverFiles();
    skipped_.push_back(fmt::format("The Vulkan loader shows no device{}{}.",
                                   named.empty() ? "" : " with ", named));
    return OkStatus();
  }
  HY_TRY(StatusFromVk(result, "vkEnumeratePhysicalDevices"));
  std::vector<VkPhysicalDevice> handles(count);
  HY_TRY(StatusFromVk(vkEnumeratePhysicalDevices(handle_, &count, handles.data()),
                      "vkEnumeratePhysicalDevices"));
  handles.resize(count);
  for (VkPhysicalDevice handle : handles) {
    PhysicalDevice device = QueryPhysicalDevice(handle);
    std::string reason = ReasonToSkip(device);
    if (reason.empty()) {
      devices_.push_back(std::move(device));
    } else {
      skipped_.push_back(fmt::format("'{}' is not used: {}", device.name(), reason));
    }
  }
  std::stable_sort(devices_.begin(), devices_.end(),
                   [](const PhysicalDevice& a, const PhysicalDevice& b) {
                     int rank_a = Rank(a.properties.deviceType);
                     int rank_b = Rank(b.properties.deviceType);
                     return rank_a != rank_b ? rank_a < rank_b : a.pci_address < b.pci_address;
                   });
  return OkStatus();
}

}  // namespace halyard::drivers::vulkan
