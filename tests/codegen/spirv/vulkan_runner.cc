// SPDX-License-Identifier: Apache-2.0
#define VOLK_IMPLEMENTATION
#include "tests/codegen/spirv/vulkan_runner.h"

#include <volk.h>

#include <cstring>

namespace halyard::testing {
namespace {

constexpr uint64_t kArenaBytes = 8 << 20;

#define VK_TRY(call)                                                       \
  do {                                                                     \
    const VkResult vk_result = (call);                                     \
    if (vk_result != VK_SUCCESS)                                           \
      return Internal("{} gives {}.", #call, static_cast<int>(vk_result)); \
  } while (false)

class Runner : public VulkanRunner {
 public:
  ~Runner() override {
    if (device_) {
      vkDestroyCommandPool(device_, pool_, nullptr);
      vkDestroyPipelineLayout(device_, layout_, nullptr);
      vkDestroyBuffer(device_, buffer_, nullptr);
      vkFreeMemory(device_, memory_, nullptr);
      vkDestroyDevice(device_, nullptr);
    }
    if (instance_) vkDestroyInstance(instance_, nullptr);
  }

  const Target& target() const override { return target_; }

  Status Start() {
    if (volkInitialize() != VK_SUCCESS) return Unavailable("There is no Vulkan loader.");
    VkApplicationInfo application{};
    application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    application.apiVersion = VK_API_VERSION_1_2;
    VkInstanceCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    create.pApplicationInfo = &application;
    if (vkCreateInstance(&create, nullptr, &instance_) != VK_SUCCESS) {
      return Unavailable("There is no Vulkan driver.");
    }
    volkLoadInstanceOnly(instance_);
    uint32_t count = 1;
    VkPhysicalDevice physical = VK_NULL_HANDLE;
    vkEnumeratePhysicalDevices(instance_, &count, &physical);
    if (count == 0) return Unavailable("There is no Vulkan device.");
    HY_TRY(MakeDevice(physical));
    return MakeObjects(physical);
  }

  Status Run(const GpuKernel& kernel, std::span<const std::span<uint8_t>> buffers,
             std::span<const int64_t> scalars, const int64_t (&grid)[3],
             ErrorRecord* error) override {
    std::vector<uint64_t> arguments;
    std::vector<uint64_t> offsets;
    uint64_t used = 0;
    const auto place = [&](uint64_t bytes) {
      const uint64_t at = used;
      used += (bytes + 255) / 256 * 256;
      return at;
    };
    for (std::span<uint8_t> bytes : buffers) {
      offsets.push_back(place(bytes.size()));
      arguments.push_back(address_ + offsets.back());
    }
    for (int64_t scalar : scalars) arguments.push_back(static_cast<uint64_t>(scalar));
    const uint64_t error_at = place(sizeof(ErrorRecord));
    arguments.push_back(address_ + error_at);
    arguments.push_back(0);
    const uint64_t block_at = place(8 * arguments.size());
    if (used > kArenaBytes) return Internal("The arena has no room for {} bytes.", used);
    for (size_t i = 0; i < buffers.size(); ++i) {
      std::memcpy(mapped_ + offsets[i], buffers[i].data(), buffers[i].size());
    }
    std::memcpy(mapped_ + error_at, error, sizeof(ErrorRecord));
    std::memcpy(mapped_ + block_at, arguments.data(), 8 * arguments.size());
    if (8 * arguments.size() > kMaxPushConstantBytes) arguments = {address_ + block_at};

    VkShaderModuleCreateInfo module_info{};
    module_info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    module_info.codeSize = kernel.module.size();
    module_info.pCode = reinterpret_cast<const uint32_t*>(kernel.module.data());
    VkShaderModule module = VK_NULL_HANDLE;
    VK_TRY(vkCreateShaderModule(device_, &module_info, nullptr, &module));
    const std::string name(kernel.name);
    VkComputePipelineCreateInfo pipeline_info{};
    pipeline_info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    pipeline_info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    pipeline_info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    pipeline_info.stage.module = module;
    pipeline_info.stage.pName = name.c_str();
    pipeline_info.layout = layout_;
    VkPipeline pipeline = VK_NULL_HANDLE;
    const VkResult made =
        vkCreateComputePipelines(device_, VK_NULL_HANDLE, 1, &pipeline_info, nullptr, &pipeline);
    vkDestroyShaderModule(device_, module, nullptr);
    VK_TRY(made);

    VK_TRY(vkResetCommandPool(device_, pool_, 0));
    VkCommandBufferBeginInfo begin{};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    VK_TRY(vkBeginCommandBuffer(commands_, &begin));
    vkCmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdPushConstants(commands_, layout_, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                       static_cast<uint32_t>(8 * arguments.size()), arguments.data());
    vkCmdDispatch(commands_, static_cast<uint32_t>(grid[0]), static_cast<uint32_t>(grid[1]),
                  static_cast<uint32_t>(grid[2]));
    VK_TRY(vkEndCommandBuffer(commands_));
    VkSubmitInfo submit{};
    submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &commands_;
    VK_TRY(vkQueueSubmit(queue_, 1, &submit, VK_NULL_HANDLE));
    VK_TRY(vkQueueWaitIdle(queue_));
    vkDestroyPipeline(device_, pipeline, nullptr);
    for (size_t i = 0; i < buffers.size(); ++i) {
      std::memcpy(buffers[i].data(), mapped_ + offsets[i], buffers[i].size());
    }
    std::memcpy(error, mapped_ + error_at, sizeof(ErrorRecord));
    return OkStatus();
  }

 private:
  Status MakeDevice(VkPhysicalDevice physical) {
    VkPhysicalDeviceVulkan12Features has12{};
    has12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    VkPhysicalDeviceVulkan11Features has11{};
    has11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    has11.pNext = &has12;
    VkPhysicalDeviceFeatures2 features{};
    features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    features.pNext = &has11;
    vkGetPhysicalDeviceFeatures2(physical, &features);
    VkPhysicalDeviceVulkan12Properties properties12{};
    properties12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES;
    VkPhysicalDeviceSubgroupProperties subgroup{};
    subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
    subgroup.pNext = &properties12;
    VkPhysicalDeviceProperties2 properties{};
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    properties.pNext = &subgroup;
    vkGetPhysicalDeviceProperties2(physical, &properties);

    HY_ASSIGN(target_, ParseTarget("vulkan-8"));
    GpuTarget& gpu = target_.gpu;
    target_.name = properties.properties.deviceName;
    gpu.subgroup_size = static_cast<int32_t>(subgroup.subgroupSize);
    gpu.workgroup_memory_bytes = properties.properties.limits.maxComputeSharedMemorySize;
    const auto keep_if = [&](bool condition, GpuFeature feature) {
      if (!condition) gpu.features &= ~static_cast<uint64_t>(feature);
    };
    keep_if(false, GpuFeature::kWorkgroupStorage8);
    keep_if(false, GpuFeature::kWorkgroupStorage16);
    keep_if(false, GpuFeature::kFma);
    keep_if(properties12.shaderDenormPreserveFloat16 && properties12.shaderDenormPreserveFloat32 &&
                properties12.shaderDenormPreserveFloat64,
            GpuFeature::kDenormPreserve);
    keep_if(properties12.shaderSignedZeroInfNanPreserveFloat32 &&
                properties12.shaderRoundingModeRTEFloat16 &&
                properties12.shaderRoundingModeRTEFloat32 &&
                properties12.shaderRoundingModeRTEFloat64,
            GpuFeature::kFloatControls);

    const float priority = 1;
    VkDeviceQueueCreateInfo queue_info{};
    queue_info.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue_info.queueCount = 1;
    queue_info.pQueuePriorities = &priority;
    VkDeviceCreateInfo device_info{};
    device_info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    device_info.pNext = &features;
    device_info.queueCreateInfoCount = 1;
    device_info.pQueueCreateInfos = &queue_info;
    VK_TRY(vkCreateDevice(physical, &device_info, nullptr, &device_));
    volkLoadDevice(device_);
    vkGetDeviceQueue(device_, 0, 0, &queue_);
    return OkStatus();
  }

  Status MakeObjects(VkPhysicalDevice physical) {
    VkBufferCreateInfo buffer_info{};
    buffer_info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    buffer_info.size = kArenaBytes;
    buffer_info.usage =
        VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT | VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
    VK_TRY(vkCreateBuffer(device_, &buffer_info, nullptr, &buffer_));
    VkMemoryRequirements needs{};
    vkGetBufferMemoryRequirements(device_, buffer_, &needs);
    VkPhysicalDeviceMemoryProperties memories{};
    vkGetPhysicalDeviceMemoryProperties(physical, &memories);
    constexpr VkMemoryPropertyFlags kWanted =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    uint32_t type = 0;
    while (type < memories.memoryTypeCount &&
           (!(needs.memoryTypeBits >> type & 1) ||
            (memories.memoryTypes[type].propertyFlags & kWanted) != kWanted)) {
      ++type;
    }
    VkMemoryAllocateFlagsInfo flags{};
    flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
    flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    VkMemoryAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    allocate.pNext = &flags;
    allocate.allocationSize = needs.size;
    allocate.memoryTypeIndex = type;
    VK_TRY(vkAllocateMemory(device_, &allocate, nullptr, &memory_));
    VK_TRY(vkBindBufferMemory(device_, buffer_, memory_, 0));
    void* mapped = nullptr;
    VK_TRY(vkMapMemory(device_, memory_, 0, VK_WHOLE_SIZE, 0, &mapped));
    mapped_ = static_cast<uint8_t*>(mapped);
    VkBufferDeviceAddressInfo address{};
    address.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
    address.buffer = buffer_;
    address_ = vkGetBufferDeviceAddress(device_, &address);

    VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, kMaxPushConstantBytes};
    VkPipelineLayoutCreateInfo layout{};
    layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    layout.pushConstantRangeCount = 1;
    layout.pPushConstantRanges = &range;
    VK_TRY(vkCreatePipelineLayout(device_, &layout, nullptr, &layout_));
    VkCommandPoolCreateInfo pool{};
    pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    VK_TRY(vkCreateCommandPool(device_, &pool, nullptr, &pool_));
    VkCommandBufferAllocateInfo commands{};
    commands.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    commands.commandPool = pool_;
    commands.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    commands.commandBufferCount = 1;
    VK_TRY(vkAllocateCommandBuffers(device_, &commands, &commands_));
    return OkStatus();
  }

  Target target_;
  VkInstance instance_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  uint8_t* mapped_ = nullptr;
  uint64_t address_ = 0;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
};

}  // namespace

Result<std::unique_ptr<VulkanRunner>> VulkanRunner::Create() {
  auto runner = std::make_unique<Runner>();
  HY_TRY(runner->Start());
  return std::unique_ptr<VulkanRunner>(std::move(runner));
}

}  // namespace halyard::testing
