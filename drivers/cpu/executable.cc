// SPDX-License-Identifier: Apache-2.0
#include "drivers/cpu/executable.h"

#include "drivers/cpu/device.h"

namespace halyard::drivers::cpu {

CpuExecutable::CpuExecutable(Ref<CpuDevice> device, CpuImage image)
    : device_(std::move(device)), image_(std::move(image)) {}

CpuExecutable::~CpuExecutable() = default;

hal::Device* CpuExecutable::device() const { return device_.get(); }

Result<Ref<CpuExecutable>> CpuExecutable::Load(Ref<CpuDevice> device,
                                               const hal::ExecutableSource& source,
                                               uint64_t host_features) {
  if (source.format != kImageFormat) {
    return Incompatible("Executable '{}' has the format '{}'; the CPU takes '{}'.", source.name,
                        source.format, kImageFormat);
  }
  Result<CpuImage> image = CpuImage::Load(source.code, host_features);
  HY_TRY_CONTEXT(image, "loading executable '{}'", source.name);
  auto executable = MakeRef<CpuExecutable>(std::move(device), std::move(image).value());
  std::span<const CpuImage::Entry> have = executable->image_.entries();
  if (source.entries.empty()) {
    for (const CpuImage::Entry& entry : have) {
      executable->entries_.push_back({entry.name, entry.binding_count, entry.scalar_count, {}});
      executable->kernels_.push_back({entry.function, entry.workgroup_memory_bytes});
    }
    return executable;
  }
  for (const hal::ExecutableEntry& wanted : source.entries) {
    const CpuImage::Entry* found = nullptr;
    for (const CpuImage::Entry& entry : have) {
      if (entry.name == wanted.name) found = &entry;
    }
    if (!found) {
      return NotFound("Executable '{}' has no entry '{}' among its {}.", source.name, wanted.name,
                      have.size());
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
    executable->kernels_.push_back({found->function, found->workgroup_memory_bytes});
  }
  return executable;
}

}  // namespace halyard::drivers::cpu
