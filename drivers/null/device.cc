// SPDX-License-Identifier: Apache-2.0
#include "drivers/null/device.h"

#include "hal/command_checks.h"
#include "hal/host_semaphore.h"
#include "hal/point_wait.h"

namespace halyard::drivers::null {
namespace {

Status Missing(std::string_view what) { return Unimplemented("The null device has no {}.", what); }

// The argument checks come first, as in every driver, so that bad calls fail alike everywhere.
Status MissingQueue(uint32_t queue, const hal::Ordering& ordering) {
  HY_TRY(hal::CheckQueue(queue, 1));
  HY_TRY(hal::CheckOrdering(ordering));
  return Missing("queue");
}

}  // namespace

NullDevice::NullDevice() {
  using hal::Source;
  capabilities_.identity.name = {"Null device", Source::kTable};
  capabilities_.identity.driver_name = {"null", Source::kTable};
  capabilities_.identity.type = {hal::DeviceType::kOther, Source::kTable};
}

Result<Ref<hal::Buffer>> NullDevice::AllocateBuffer(hal::MemoryKind, int64_t size_bytes) {
  if (size_bytes < 0) return InvalidArgument("A buffer of {} bytes was asked for.", size_bytes);
  return Missing("memory");
}

Result<Ref<hal::Buffer>> NullDevice::ImportHostMemory(hal::HostMemory) { return Missing("memory"); }

Result<Ref<hal::Semaphore>> NullDevice::CreateSemaphore(uint64_t initial_value) {
  return Ref<hal::Semaphore>(MakeRef<hal::HostSemaphore>(initial_value));
}

Result<Ref<hal::Executable>> NullDevice::LoadExecutable(const hal::ExecutableSource& source) {
  return Incompatible("Executable '{}' has the format '{}'; the null device takes none.",
                      source.name, source.format);
}

Result<Ref<hal::CommandBuffer>> NullDevice::CreateCommandBuffer() {
  return Missing("command buffers");
}

Status NullDevice::Submit(uint32_t queue, const hal::SubmitInfo& info) {
  return MissingQueue(queue, info.ordering);
}

Status NullDevice::QueueCopy(uint32_t queue, const hal::Ordering& ordering, const hal::BufferRange&,
                             const hal::BufferRange&) {
  return MissingQueue(queue, ordering);
}

Status NullDevice::QueueFill(uint32_t queue, const hal::Ordering& ordering, const hal::BufferRange&,
                             uint64_t, uint32_t) {
  return MissingQueue(queue, ordering);
}

Status NullDevice::QueueUpdate(uint32_t queue, const hal::Ordering& ordering,
                               std::span<const uint8_t>, const hal::BufferRange&) {
  return MissingQueue(queue, ordering);
}

Status NullDevice::QueueHostCall(uint32_t queue, const hal::Ordering& ordering,
                                 const hal::HostCall&) {
  return MissingQueue(queue, ordering);
}

Status NullDevice::Wait(std::span<const hal::SemaphorePoint> points, hal::WaitMode mode,
                        int64_t timeout_ns, size_t* out_index) {
  HY_TRY(hal::CheckOrdering({points, {}, false}));
  return hal::WaitAsleep(points, mode, timeout_ns, out_index);
}

Result<hal::LinkInfo> NullDevice::LinkTo(const hal::Device&) const {
  hal::LinkInfo link;
  link.kind = hal::LinkKind::kNone;
  return link;
}

}  // namespace halyard::drivers::null
