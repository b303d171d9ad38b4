// SPDX-License-Identifier: Apache-2.0
#include "tests/codegen/device_runner.h"

#include <cstring>

#include "compiler/codegen/codegen.h"
#include "runtime/device_target.h"
#include "runtime/instance.h"

namespace halyard::testing {
namespace {

constexpr int64_t kMemoryBytes = 16 << 20;

}  // namespace

Result<std::unique_ptr<DeviceRunner>> DeviceRunner::Open(const std::string& path) {
  auto runner = std::make_unique<DeviceRunner>();
  HY_ASSIGN(const std::shared_ptr<runtime::Instance> instance, runtime::Instance::Create({}));
  HY_ASSIGN(runner->device_, instance->OpenDevice(path));
  runner->target_ = runtime::TargetOf(*runner->device_);
  hal::Device& device = *runner->device_;
  HY_ASSIGN(runner->memory_, device.AllocateBuffer(hal::MemoryKind::kDevice, kMemoryBytes));
  HY_ASSIGN(runner->staging_, device.AllocateBuffer(hal::MemoryKind::kStaging, kMemoryBytes));
  return runner;
}

std::string DeviceRunner::device_name() const {
  return device_->capabilities().identity.name.ValueOr("");
}

Status DeviceRunner::Load(const kernel::Module& module) {
  HY_ASSIGN(const std::vector<uint8_t> image, EmitImage(module, target_));
  std::vector<hal::ExecutableEntry> entries;
  for (const kernel::Kernel& kernel : module.kernels) {
    hal::ExecutableEntry& entry = entries.emplace_back();
    entry.name = kernel.name;
    for (const kernel::Buffer& buffer : kernel.buffers) {
      entry.binding_count += buffer.space == kernel::MemorySpace::kGlobal;
    }
    entry.scalar_count = static_cast<uint32_t>(kernel.scalars.size());
    for (const kernel::ReportSite& site : kernel.sites) entry.sites.push_back(site.node);
  }
  hal::ExecutableSource source;
  source.format = ImageFormat(target_.kind);
  source.code = image;
  source.entries = entries;
  HY_ASSIGN(executable_, device_->LoadExecutable(source));
  return OkStatus();
}

Status DeviceRunner::Run(uint32_t kernel, std::span<const std::span<uint8_t>> buffers,
                         std::span<const int64_t> scalars, const int64_t (&grid)[3]) {
  HY_ASSIGN(uint8_t* const mapped, staging_->Map(0, kMemoryBytes));
  std::vector<hal::CommandRange> bindings;
  int64_t used = 0;
  for (std::span<uint8_t> bytes : buffers) {
    const auto size = static_cast<int64_t>(bytes.size());
    if (used + size > kMemoryBytes) return Internal("The buffers take more than 16 MiB.");
    std::memcpy(mapped + used, bytes.data(), bytes.size());
    bindings.push_back(hal::CommandRange::Direct(memory_.get(), used, size));
    used += (size + 255) / 256 * 256;
  }
  HY_TRY(staging_->FlushMapped(0, used));
  HY_ASSIGN(const Ref<hal::CommandBuffer> commands, device_->CreateCommandBuffer());
  const auto staged = hal::CommandRange::Direct(staging_.get(), 0, used);
  const auto on_device = hal::CommandRange::Direct(memory_.get(), 0, used);
  HY_TRY(commands->Copy(staged, on_device));
  HY_TRY(commands->Barrier());
  hal::DispatchCommand dispatch;
  dispatch.executable = executable_.get();
  dispatch.entry = kernel;
  for (int axis = 0; axis < 3; ++axis) dispatch.grid[axis] = grid[axis];
  dispatch.bindings = bindings;
  dispatch.scalars = scalars;
  HY_TRY(commands->Dispatch(dispatch));
  HY_TRY(commands->Barrier());
  HY_TRY(commands->Copy(on_device, staged));
  HY_TRY(commands->Finish());
  HY_ASSIGN(semaphore_, device_->CreateSemaphore(0));
  const hal::SemaphorePoint signal{semaphore_.get(), 1};
  hal::SubmitInfo info;
  info.ordering.signals = {&signal, 1};
  info.ordering.caller_waits = true;
  info.commands = commands.get();
  HY_TRY(device_->Submit(0, info));
  const Status ran = device_->Wait({&signal, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout);
  HY_TRY(staging_->InvalidateMapped(0, used));
  used = 0;
  for (std::span<uint8_t> bytes : buffers) {
    std::memcpy(bytes.data(), mapped + used, bytes.size());
    used += (static_cast<int64_t>(bytes.size()) + 255) / 256 * 256;
  }
  return ran;
}

}  // namespace halyard::testing
