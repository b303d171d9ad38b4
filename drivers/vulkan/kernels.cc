// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/kernels.h"

#include "base/gpu_kernel_abi.h"
#include "drivers/vulkan/copy_kernels.h"
#include "drivers/vulkan/spirv_module.h"

namespace halyard::drivers::vulkan {

Result<std::unique_ptr<Kernels>> Kernels::Make(std::shared_ptr<DeviceHandle> device) {
  std::unique_ptr<Kernels> made(new Kernels(std::move(device)));
  HY_TRY(made->MakeOwn());
  return made;
}

Kernels::~Kernels() {
  for (VkPipeline pipeline : {copy_[0], copy_[1], fill_[0], fill_[1]}) Destroy(pipeline);
  device_->vk.vkDestroyPipelineLayout(device_->device, layout_, nullptr);
}

Status Kernels::MakeOwn() {
  VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, kMaxPushConstantBytes};
  auto info = Typed<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
  info.pushConstantRangeCount = 1;
  info.pPushConstantRanges = &range;
  HY_TRY(StatusFromVk(device_->vk.vkCreatePipelineLayout(device_->device, &info, nullptr, &layout_),
                      "vkCreatePipelineLayout"));
  auto make = [&](const std::vector<uint32_t>& words, const char* name, uint32_t arguments,
                  VkPipeline* pipelines) -> Status {
    HY_ASSIGN(pipelines[0], MakePipeline({words, name}));
    std::span bytes(reinterpret_cast<const uint8_t*>(words.data()), 4 * words.size());
    HY_ASSIGN(SpirvModule module, ReadSpirv(bytes));
    HY_ASSIGN(std::vector<uint32_t> moved, MoveArgumentsToBlock(module, 8 * arguments));
    HY_ASSIGN(pipelines[1], MakePipeline({moved, name}));
    return OkStatus();
  };
  HY_TRY(make(MakeCopyKernel(), "copy", kCopyArguments, copy_));
  return make(MakeFillKernel(), "fill", kFillArguments, fill_);
}

Result<VkPipeline> Kernels::MakePipeline(const PipelineInfo& info) const {
  auto code = Typed<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
  code.codeSize = 4 * info.words.size();
  code.pCode = info.words.data();
  VkShaderModule module = VK_NULL_HANDLE;
  HY_TRY(StatusFromVk(device_->vk.vkCreateShaderModule(device_->device, &code, nullptr, &module),
                      "vkCreateShaderModule"));
  auto create = Typed<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
  create.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  create.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  create.stage.module = module;
  create.stage.pName = info.name.c_str();
  create.layout = layout_;
  auto size = Typed<VkPipelineShaderStageRequiredSubgroupSizeCreateInfo>(
      VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO);
  if (info.subgroup_size != 0) {
    size.requiredSubgroupSize = info.subgroup_size;
    create.stage.pNext = &size;
  }
  if (info.has_full_subgroups) {
    create.stage.flags |= VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  }
  VkPipeline pipeline = VK_NULL_HANDLE;
  VkResult result = device_->vk.vkCreateComputePipelines(device_->device, cache_.handle(), 1,
                                                         &create, nullptr, &pipeline);
  device_->vk.vkDestroyShaderModule(device_->device, module, nullptr);
  // Some drivers report what their compiler cannot take with a code of their own.
  if (result == VK_ERROR_INITIALIZATION_FAILED || result == VK_ERROR_INVALID_SHADER_NV ||
      result == VK_ERROR_UNKNOWN) {
    return Internal("The Vulkan driver cannot compile kernel '{}' ({}).", info.name,
                    FormatVkResult(result));
  }
  HY_TRY_CONTEXT(StatusFromVk(result, "vkCreateComputePipelines"), "compiling kernel '{}'",
                 info.name);
  return pipeline;
}

void Kernels::Destroy(VkPipeline pipeline) const {
  device_->vk.vkDestroyPipeline(device_->device, pipeline, nullptr);
}

}  // namespace halyard::drivers::vulkan
