// SPDX-License-Identifier: Apache-2.0
#include "runtime/transfer_path.h"

#include <cstring>
#include <vector>

#include "runtime/loaded_program.h"

namespace halyard::runtime {
namespace {

constexpr int64_t kProbeBytes = 1 << 16;
constexpr int64_t kProbeTimeoutNs = 10'000'000'000;

// Moves bytes that no memory holds by chance from `from` to `to` and back to the host.
Status ProbeDirectCopy(hal::Device& from, hal::Device& to) {
  std::vector<uint8_t> sent(kProbeBytes);
  uint32_t state = 0x9e3779b9u;
  for (uint8_t& byte : sent) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<uint8_t>(state >> 24);
  }
  HY_ASSIGN(const auto source, from.AllocateBuffer(hal::MemoryKind::kDevice, kProbeBytes));
  HY_ASSIGN(const auto target, to.AllocateBuffer(hal::MemoryKind::kDevice, kProbeBytes));
  HY_ASSIGN(const auto back, to.AllocateBuffer(hal::MemoryKind::kStaging, kProbeBytes));
  const hal::BufferRange at_source{source.get(), 0, kProbeBytes};
  const hal::BufferRange at_target{target.get(), 0, kProbeBytes};
  HY_TRY(Upload(from, sent, at_source));
  HY_ASSIGN(const auto semaphore, to.CreateSemaphore(0));
  const hal::SemaphorePoint arrived{semaphore.get(), 1}, returned{semaphore.get(), 2};
  hal::Ordering ordering;
  ordering.signals = {&arrived, 1};
  HY_TRY(to.QueueCopy(0, ordering, at_source, at_target));
  ordering.waits = {&arrived, 1};
  ordering.signals = {&returned, 1};
  HY_TRY(to.QueueCopy(0, ordering, at_target, {back.get(), 0, kProbeBytes}));
  HY_TRY(to.Wait({&returned, 1}, hal::WaitMode::kAll, kProbeTimeoutNs));
  HY_TRY(back->InvalidateMapped(0, kProbeBytes));
  HY_ASSIGN(const uint8_t* received, back->Map(0, kProbeBytes));
  if (std::memcmp(received, sent.data(), sent.size()) == 0) return OkStatus();
  return DataLoss("A direct copy from '{}' to '{}' does not arrive whole.", from.path(), to.path());
}

}  // namespace

bool SharesHostMemory(const hal::Device& device) {
  return device.capabilities().memory.is_host_memory.ValueOr(false);
}

TransferPath FindTransferPath(hal::Device& from, hal::Device& to) {
  const bool from_host = SharesHostMemory(from), to_host = SharesHostMemory(to);
  TransferPath path;
  if (!from_host && !to_host) {
    const auto link = to.LinkTo(from);
    path.is_direct = link.ok() && link->can_copy_direct && ProbeDirectCopy(from, to).ok();
  }
  path.stages_out = !path.is_direct && !from_host;
  path.stages_in = !path.is_direct && !to_host;
  return path;
}

}  // namespace halyard::runtime
