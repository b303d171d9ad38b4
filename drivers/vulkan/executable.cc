// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/executable.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/check.h"
#include "drivers/vulkan/device.h"
#include "drivers/vulkan/spirv_capabilities.h"
#include "drivers/vulkan/spirv_module.h"

namespace halyard::drivers::vulkan {
namespace {

constexpr uint32_t kArgumentBytes = 8;

uint64_t ArgumentBytes(const GpuKernel& kernel) {
  return (uint64_t{kernel.binding_count} + kernel.scalar_count + 2) * kArgumentBytes;
}

// The entry against its module and the device.
Status CheckKernel(const GpuKernel& kernel, const SpirvModule& module,
                   const PhysicalDevice& device) {
  const SpirvModule::EntryPoint* entry = module.Find(kernel.name);
  if (!entry) return DataLoss("The module of entry '{}' has no kernel of that name.", kernel.name);
  if (!std::equal(entry->workgroup_size, entry->workgroup_size + 3, kernel.workgroup_size)) {
    return DataLoss("Entry '{}' has workgroups of {} x {} x {}; its module says {} x {} x {}.",
                    kernel.name, kernel.workgroup_size[0], kernel.workgroup_size[1],
                    kernel.workgroup_size[2], entry->workgroup_size[0], entry->workgroup_size[1],
                    entry->workgroup_size[2]);
  }
  const VkPhysicalDeviceLimits& limits = device.properties.limits;
  uint64_t workitems = 1;
  for (int axis = 0; axis < 3; ++axis) {
    if (kernel.workgroup_size[axis] > limits.maxComputeWorkGroupSize[axis]) {
      return Incompatible("Entry '{}' has workgroups of {} workitems along axis {}; '{}' takes {}.",
                          kernel.name, kernel.workgroup_size[axis], axis, device.name(),
                          limits.maxComputeWorkGroupSize[axis]);
    }
    workitems *= kernel.workgroup_size[axis];
  }
  if (workitems > limits.maxComputeWorkGroupInvocations) {
    return Incompatible("Entry '{}' has workgroups of {} workitems; '{}' takes {}.", kernel.name,
                        workitems, device.name(), limits.maxComputeWorkGroupInvocations);
  }
  if (kernel.subgroup_size != 0 && (kernel.subgroup_size < device.min_subgroup_size ||
                                    kernel.subgroup_size > device.max_subgroup_size)) {
    return Incompatible("Entry '{}' needs subgroups of {}; '{}' has {} to {}.", kernel.name,
                        kernel.subgroup_size, device.name(), device.min_subgroup_size,
                        device.max_subgroup_size);
  }
  if (kernel.subgroup_size != 0 && device.min_subgroup_size != device.max_subgroup_size &&
      !device.can_require_subgroup_size) {
    return Incompatible("Entry '{}' needs subgroups of {}; '{}' cannot promise a size.",
                        kernel.name, kernel.subgroup_size, device.name());
  }
  if (kernel.dynamic_workgroup_bytes != 0) {
    return Incompatible(
        "Entry '{}' asks for {} bytes of workgroup memory at launch; a SPIR-V "
        "module declares all it needs.",
        kernel.name, kernel.dynamic_workgroup_bytes);
  }
  return OkStatus();
}

}  // namespace

VulkanExecutable::VulkanExecutable(Ref<VulkanDevice> device) : device_(std::move(device)) {}

VulkanExecutable::~VulkanExecutable() {
  for (VkPipeline pipeline : pipelines_) device_->kernels().Destroy(pipeline);
}

hal::Device* VulkanExecutable::device() const { return device_.get(); }

Result<Ref<VulkanExecutable>> VulkanExecutable::Load(Ref<VulkanDevice> device,
                                                     const hal::ExecutableSource& source) {
  if (source.format != kSpirvImageFormat) {
    return Incompatible("Executable '{}' has the format '{}'; Vulkan takes '{}'.", source.name,
                        source.format, kSpirvImageFormat);
  }
  Result<GpuImage> image = ReadGpuImage(source.code);
  HY_TRY_CONTEXT(image, "loading executable '{}'", source.name);
  if (image->kind != GpuModuleKind::kSpirv) {
    return DataLoss("Executable '{}' has modules of kind {}; SPIR-V is kind {}.", source.name,
                    static_cast<uint32_t>(image->kind),
                    static_cast<uint32_t>(GpuModuleKind::kSpirv));
  }
  if (image->kernels.empty()) return DataLoss("Executable '{}' has no entries.", source.name);
  auto executable = MakeRef<VulkanExecutable>(std::move(device));
  std::vector<size_t> kernels;  // of the image, per entry
  if (source.entries.empty()) {
    for (size_t k = 0; k < image->kernels.size(); ++k) {
      const GpuKernel& kernel = image->kernels[k];
      executable->entries_.push_back(
          {std::string(kernel.name), kernel.binding_count, kernel.scalar_count, {}});
      kernels.push_back(k);
    }
  }
  for (const hal::ExecutableEntry& wanted : source.entries) {
    auto found = std::find_if(image->kernels.begin(), image->kernels.end(),
                              [&](const GpuKernel& kernel) { return kernel.name == wanted.name; });
    if (found == image->kernels.end()) {
      return NotFound("Executable '{}' has no entry '{}' among its {}.", source.name, wanted.name,
                      image->kernels.size());
    }
    if (found->binding_count != wanted.binding_count ||
        found->scalar_count != wanted.scalar_count) {
      return DataLoss(
          "Entry '{}' of executable '{}' takes {} bindings and {} scalars; its user expects {} "
          "and {}.",
          wanted.name, source.name, found->binding_count, found->scalar_count, wanted.binding_count,
          wanted.scalar_count);
    }
    executable->entries_.push_back(wanted);
    kernels.push_back(static_cast<size_t>(found - image->kernels.begin()));
  }
  HY_TRY_CONTEXT(executable->Compile(*image, kernels), "loading executable '{}'", source.name);
  return executable;
}

Status VulkanExecutable::Compile(const GpuImage& image, std::span<const size_t> kernels) {
  const PhysicalDevice& physical = *device_->handle().physical;
  // Every module is read once, and rewritten once per number of arguments.
  std::map<const uint8_t*, SpirvModule> modules;
  std::map<std::pair<const uint8_t*, uint64_t>, std::vector<uint32_t>> moved;
  std::vector<PipelineInfo> infos;
  for (size_t k : kernels) {
    const GpuKernel& kernel = image.kernels[k];
    const uint8_t* key = kernel.module.data();
    auto place = modules.find(key);
    if (place == modules.end()) {
      Result<SpirvModule> module = ReadSpirv(kernel.module);
      HY_TRY_CONTEXT(module, "reading the module of entry '{}'", kernel.name);
      HY_TRY_CONTEXT(CheckCapabilities(*module, device_->handle()), "checking entry '{}'",
                     kernel.name);
      place = modules.emplace(key, std::move(module).value()).first;
    }
    const SpirvModule& module = place->second;
    HY_TRY(CheckKernel(kernel, module, physical));
    PipelineInfo info;
    info.words = module.words;
    uint64_t bytes = ArgumentBytes(kernel);
    if (bytes <= kMaxPushConstantBytes) {
      auto [at, is_new] = moved.try_emplace({key, bytes});
      if (is_new) {
        Result<std::vector<uint32_t>> words =
            MoveArgumentsToBlock(module, static_cast<uint32_t>(bytes));
        HY_TRY_CONTEXT(words, "preparing entry '{}'", kernel.name);
        at->second = std::move(words).value();
      }
      info.words = at->second;
    } else if (uint32_t pushed = PushConstantBytes(module); pushed > kArgumentBytes) {
      return DataLoss(
          "Entry '{}' has {} bytes of arguments, which stand in a block; its module takes {} bytes "
          "of push constants where one address is due.",
          kernel.name, bytes, pushed);
    }
    info.name = kernel.name;
    if (kernel.subgroup_size != 0 && physical.can_require_subgroup_size) {
      info.subgroup_size = kernel.subgroup_size;
      info.has_full_subgroups = device_->handle().features.v13.computeFullSubgroups &&
                                kernel.workgroup_size[0] % kernel.subgroup_size == 0;
    }
    infos.push_back(std::move(info));
  }

  pipelines_.assign(infos.size(), VK_NULL_HANDLE);
  std::atomic<size_t> next{0};
  std::mutex mutex;
  Status failure;
  auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < infos.size();) {
      auto make = [&] { return device_->kernels().MakePipeline(infos[i]); };
      Result<VkPipeline> made = CatchAll(make);
      std::lock_guard lock(mutex);
      if (made.ok()) {
        pipelines_[i] = *made;
      } else if (failure.ok()) {
        failure = made.status();
        next.store(infos.size());
      }
    }
  };
  constexpr unsigned kMostThreads = 16;
  size_t helpers = std::min<size_t>(
      infos.size(), std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads));
  std::vector<std::thread> threads;
  threads.reserve(helpers);
  try {
    for (size_t t = 1; t < helpers; ++t) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // Fewer threads do it as well.
  }
  work();
  for (std::thread& thread : threads) thread.join();
  return failure;
}

}  // namespace halyard::drivers::vulkan
