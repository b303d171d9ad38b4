// SPDX-License-Identifier: Apache-2.0
#include "tests/drivers/vulkan/recording.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "base/check.h"

namespace halyard::drivers::vulkan {
namespace {

constexpr size_t kLinkBytes = sizeof(VkBaseOutStructure);  // its type and the next one

// Of the structures that are asked for; 0 for another.
size_t SizeOf(VkStructureType type) {
  const std::pair<VkStructureType, size_t> rows[] = {
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, sizeof(VkPhysicalDeviceProperties2)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES,
       sizeof(VkPhysicalDeviceVulkan11Properties)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES,
       sizeof(VkPhysicalDeviceVulkan12Properties)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES,
       sizeof(VkPhysicalDeviceSubgroupSizeControlProperties)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES,
       sizeof(VkPhysicalDeviceMaintenance4Properties)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT,
       sizeof(VkPhysicalDevicePCIBusInfoPropertiesEXT)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT,
       sizeof(VkPhysicalDeviceExternalMemoryHostPropertiesEXT)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV,
       sizeof(VkPhysicalDeviceShaderSMBuiltinsPropertiesNV)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD,
       sizeof(VkPhysicalDeviceShaderCorePropertiesAMD)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES,
       sizeof(VkPhysicalDeviceShaderIntegerDotProductProperties)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, sizeof(VkPhysicalDeviceFeatures2)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
       sizeof(VkPhysicalDeviceVulkan11Features)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
       sizeof(VkPhysicalDeviceVulkan12Features)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
       sizeof(VkPhysicalDeviceVulkan13Features)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
       sizeof(VkPhysicalDeviceSubgroupSizeControlFeatures)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_WORKGROUP_MEMORY_EXPLICIT_LAYOUT_FEATURES_KHR,
       sizeof(VkPhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT,
       sizeof(VkPhysicalDeviceShaderAtomicFloatFeaturesEXT)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_2_FEATURES_EXT,
       sizeof(VkPhysicalDeviceShaderAtomicFloat2FeaturesEXT)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
       sizeof(VkPhysicalDeviceCooperativeMatrixFeaturesKHR)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR,
       sizeof(VkPhysicalDeviceShaderBfloat16FeaturesKHR)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT8_FEATURES_EXT,
       sizeof(VkPhysicalDeviceShaderFloat8FeaturesEXT)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV,
       sizeof(VkPhysicalDeviceCooperativeMatrix2FeaturesNV)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FAULT_FEATURES_EXT,
       sizeof(VkPhysicalDeviceFaultFeaturesEXT)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
       sizeof(VkPhysicalDeviceMemoryProperties2)},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT,
       sizeof(VkPhysicalDeviceMemoryBudgetPropertiesEXT)},
  };
  for (const auto& [known, bytes] : rows) {
    if (known == type) return bytes;
  }
  return 0;
}

Recording* g_recording = nullptr;
Tap::Use g_use = Tap::Use::kPlay;

bool IsPlaying() { return g_use == Tap::Use::kPlay; }

// The functions that a tap stands before.
#define HY_TAPPED(X)                      \
  X(vkEnumerateDeviceExtensionProperties) \
  X(vkGetInstanceProcAddr)                \
  X(vkGetPhysicalDeviceFeatures2)         \
  X(vkGetPhysicalDeviceMemoryProperties)  \
  X(vkGetPhysicalDeviceMemoryProperties2) \
  X(vkGetPhysicalDeviceProperties)        \
  X(vkGetPhysicalDeviceProperties2)       \
  X(vkGetPhysicalDeviceQueueFamilyProperties)
struct {
#define HY_MEMBER(name) PFN_##name name = nullptr;
  HY_TAPPED(HY_MEMBER)
#undef HY_MEMBER
} g_driver;

void Exchange(const std::string& call, void* data, size_t bytes) {
  HY_CHECK(bytes % 4 == 0);
  std::vector<uint32_t> words(bytes / 4);
  if (IsPlaying()) {
    if (const std::string* answer = g_recording->Find(call)) {
      std::istringstream in(*answer);
      in >> std::hex;
      for (uint32_t& word : words) in >> word;
      HY_CHECK(!in.fail());
    }
    std::memcpy(data, words.data(), bytes);
    return;
  }
  std::memcpy(words.data(), data, bytes);
  std::string answer;
  for (const uint32_t word : words) {
    answer += fmt::format("{}{:x}", answer.empty() ? "" : " ", word);
  }
  g_recording->Add(call, answer);
}

void ExchangeChain(const std::string& call, void* first) {
  for (auto* at = static_cast<VkBaseOutStructure*>(first); at; at = at->pNext) {
    const size_t size = SizeOf(at->sType);
    HY_CHECK(size > kLinkBytes);  // SizeOf lacks a structure that is asked for
    Exchange(fmt::format("{} {}", call, static_cast<int>(at->sType)),
             reinterpret_cast<char*>(at) + kLinkBytes, size - kLinkBytes);
  }
}

// How many of a list there are, and the list.
uint32_t ExchangeCount(const std::string& call, uint32_t count) {
  Exchange(call, &count, sizeof(count));
  return count;
}

VKAPI_ATTR void VKAPI_CALL TapProperties(VkPhysicalDevice device, VkPhysicalDeviceProperties* out) {
  if (!IsPlaying()) g_driver.vkGetPhysicalDeviceProperties(device, out);
  Exchange("vkGetPhysicalDeviceProperties", out, sizeof(*out));
}
VKAPI_ATTR void VKAPI_CALL TapProperties2(VkPhysicalDevice device,
                                          VkPhysicalDeviceProperties2* out) {
  if (!IsPlaying()) g_driver.vkGetPhysicalDeviceProperties2(device, out);
  ExchangeChain("vkGetPhysicalDeviceProperties2", out);
}
VKAPI_ATTR void VKAPI_CALL TapFeatures2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2* out) {
  if (!IsPlaying()) g_driver.vkGetPhysicalDeviceFeatures2(device, out);
  ExchangeChain("vkGetPhysicalDeviceFeatures2", out);
}
VKAPI_ATTR void VKAPI_CALL TapMemory(VkPhysicalDevice device,
                                     VkPhysicalDeviceMemoryProperties* out) {
  if (!IsPlaying()) g_driver.vkGetPhysicalDeviceMemoryProperties(device, out);
  Exchange("vkGetPhysicalDeviceMemoryProperties", out, sizeof(*out));
}
VKAPI_ATTR void VKAPI_CALL TapMemory2(VkPhysicalDevice device,
                                      VkPhysicalDeviceMemoryProperties2* out) {
  if (!IsPlaying()) g_driver.vkGetPhysicalDeviceMemoryProperties2(device, out);
  ExchangeChain("vkGetPhysicalDeviceMemoryProperties2", out);
}
VKAPI_ATTR void VKAPI_CALL TapFamilies(VkPhysicalDevice device, uint32_t* count,
                                       VkQueueFamilyProperties* out) {
  const std::string call = "vkGetPhysicalDeviceQueueFamilyProperties";
  if (!IsPlaying()) g_driver.vkGetPhysicalDeviceQueueFamilyProperties(device, count, out);
  if (!out) {
    *count = ExchangeCount(call, *count);
    return;
  }
  for (uint32_t i = 0; i < *count; ++i)
    Exchange(fmt::format("{} {}", call, i), &out[i], sizeof(*out));
}
VKAPI_ATTR VkResult VKAPI_CALL TapExtensions(VkPhysicalDevice device, const char* layer,
                                             uint32_t* count, VkExtensionProperties* out) {
  const std::string call = "vkEnumerateDeviceExtensionProperties";
  if (!IsPlaying()) {
    const VkResult result =
        g_driver.vkEnumerateDeviceExtensionProperties(device, layer, count, out);
    if (!out || result != VK_SUCCESS) return result;
    std::string names;
    for (uint32_t i = 0; i < *count; ++i) {
      names += std::string(i == 0 ? "" : " ") + out[i].extensionName;
    }
    g_recording->Add(call, names);
    return result;
  }
  const std::string* names = g_recording->Find(call);
  std::istringstream in(names ? *names : "");
  uint32_t found = 0;
  for (std::string name; in >> name; ++found) {
    if (!out) continue;
    out[found] = {};
    name.copy(out[found].extensionName, VK_MAX_EXTENSION_NAME_SIZE - 1);
  }
  *count = found;
  return VK_SUCCESS;
}

// The functions of extensions that list products of matrices.
#define HY_LISTS(X)                                                                      \
  X(vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR, VkCooperativeMatrixPropertiesKHR) \
  X(vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV,                  \
    VkCooperativeMatrixFlexibleDimensionsPropertiesNV)

template <typename Properties>
VkResult ExchangeProducts(const std::string& call,
                          VkResult(VKAPI_PTR* driver)(VkPhysicalDevice, uint32_t*, Properties*),
                          VkPhysicalDevice device, uint32_t* count, Properties* out) {
  if (!IsPlaying()) {
    if (const VkResult result = driver(device, count, out); result != VK_SUCCESS) return result;
  }
  if (!out) {
    *count = ExchangeCount(call, *count);
    return VK_SUCCESS;
  }
  for (uint32_t i = 0; i < *count; ++i) {
    Exchange(fmt::format("{} {}", call, i), reinterpret_cast<char*>(&out[i]) + kLinkBytes,
             sizeof(*out) - kLinkBytes);
  }
  return VK_SUCCESS;
}
#define HY_TAP_LIST(function, Properties)                                                 \
  PFN_##function g_##function = nullptr;                                                  \
  VKAPI_ATTR VkResult VKAPI_CALL Tap_##function(VkPhysicalDevice device, uint32_t* count, \
                                                Properties* out) {                        \
    return ExchangeProducts(#function, g_##function, device, count, out);                 \
  }
HY_LISTS(HY_TAP_LIST)
#undef HY_TAP_LIST

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL TapProcAddr(VkInstance instance, const char* name) {
  const PFN_vkVoidFunction found =
      IsPlaying() ? nullptr : g_driver.vkGetInstanceProcAddr(instance, name);
#define HY_TAP_LIST(function, Properties)                              \
  if (std::string_view(name) == #function && (IsPlaying() || found)) { \
    g_##function = reinterpret_cast<PFN_##function>(found);            \
    return reinterpret_cast<PFN_vkVoidFunction>(&Tap_##function);      \
  }
  HY_LISTS(HY_TAP_LIST)
#undef HY_TAP_LIST
  return found;
}

}  // namespace

Recording Recording::Parse(std::string_view text) {
  Recording out;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find(" = ");
    if (at != line.npos) out.Add(line.substr(0, at), line.substr(at + 3));
  }
  return out;
}

std::string Recording::Format() const {
  std::string text;
  for (const auto& [call, answer] : lines_) text += call + " = " + answer + "\n";
  return text;
}

const std::string* Recording::Find(std::string_view call) const {
  for (const auto& line : lines_) {
    if (line.first == call) return &line.second;
  }
  return nullptr;
}

void Recording::Add(std::string call, std::string answer) {
  lines_.emplace_back(std::move(call), std::move(answer));
}

void Recording::Replace(std::string_view call, std::string answer) {
  for (auto& line : lines_) {
    if (line.first == call) line.second = std::move(answer);
  }
}

Tap::Tap(Recording* recording, Use use) {
  HY_CHECK(g_recording == nullptr);
  g_recording = recording;
  g_use = use;
#define HY_SAVE(name) g_driver.name = name;
  HY_TAPPED(HY_SAVE)
#undef HY_SAVE
  vkEnumerateDeviceExtensionProperties = &TapExtensions;
  vkGetInstanceProcAddr = &TapProcAddr;
  vkGetPhysicalDeviceFeatures2 = &TapFeatures2;
  vkGetPhysicalDeviceMemoryProperties = &TapMemory;
  vkGetPhysicalDeviceMemoryProperties2 = &TapMemory2;
  vkGetPhysicalDeviceProperties = &TapProperties;
  vkGetPhysicalDeviceProperties2 = &TapProperties2;
  vkGetPhysicalDeviceQueueFamilyProperties = &TapFamilies;
}

Tap::~Tap() {
#define HY_RESTORE(name) name = g_driver.name;
  HY_TAPPED(HY_RESTORE)
#undef HY_RESTORE
  g_recording = nullptr;
}

Recording RecordPhysicalDevice(VkPhysicalDevice handle) {
  Recording recording;
  {
    Tap tap(&recording, Tap::Use::kRecord);
    const PhysicalDevice device = QueryPhysicalDevice(handle);
    auto memory = Typed<VkPhysicalDeviceMemoryProperties2>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2);
    auto budget = Typed<VkPhysicalDeviceMemoryBudgetPropertiesEXT>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
    if (device.Has(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME)) Chain(&memory, &budget);
    vkGetPhysicalDeviceMemoryProperties2(handle, &memory);
  }
  // The first four words of the structure are the device's UUID.
  const std::string call =
      fmt::format("vkGetPhysicalDeviceProperties2 {}",
                  static_cast<int>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES));
  if (const std::string* answer = recording.Find(call)) {
    size_t at = 0;
    for (int i = 0; i < 4 && at != answer->npos; ++i) at = answer->find(' ', at + 1);
    recording.Replace(call, "33221100 77665544 bbaa9988 ffeeddcc" + answer->substr(at));
  }
  return recording;
}

}  // namespace halyard::drivers::vulkan
