// SPDX-License-Identifier: Apache-2.0
// What the first write to fresh memory costs beside a second one: pages that the system finds and
// clears, or tables that the driver fills.
#include <chrono>
#include <vector>

#include "runtime/probe/prober.h"

namespace halyard::runtime {
namespace {

constexpr int64_t kMostBytes = int64_t{64} << 20;
constexpr int kSamples = 5;

// Fills a buffer once, from the call to the end of the wait.
Result<double> TimeFill(hal::Device& device, hal::Buffer& buffer, int64_t bytes,
                        hal::Semaphore& done, uint64_t value) {
  const auto start = std::chrono::steady_clock::now();
  const hal::SemaphorePoint signal{&done, value};
  HY_TRY(device.QueueFill(0, {{}, {&signal, 1}}, {&buffer, 0, bytes}, 0x5a5a5a5a, 4));
  HY_TRY(device.Wait({&signal, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Status Measure(Prober& prober, int64_t bytes) {
  hal::Device& device = prober.device();
  HY_ASSIGN(const auto done, device.CreateSemaphore(0));
  uint64_t value = 0;
  // The first buffer wakes the device; none is given back before the end, or the next would not be
  // fresh.
  std::vector<Ref<hal::Buffer>> buffers;
  std::vector<double> first, later;
  for (int i = 0; i <= kSamples; ++i) {
    HY_ASSIGN(auto buffer, device.AllocateBuffer(hal::MemoryKind::kDevice, bytes));
    HY_ASSIGN(const double once, TimeFill(device, *buffer, bytes, *done, ++value));
    HY_ASSIGN(const double again, TimeFill(device, *buffer, bytes, *done, ++value));
    buffers.push_back(std::move(buffer));
    if (i == 0) continue;
    first.push_back(once);
    later.push_back(again);
  }
  for (auto& [kind, samples] :
       {std::pair(ReadingKind::kFirstTouch, &first), std::pair(ReadingKind::kLaterTouch, &later)}) {
    Reading reading;
    reading.kind = kind;
    reading.bytes = bytes;
    reading.seconds = Summarize(std::move(*samples));
    reading.clock_hz = prober.ReadClock();
    prober.Add(std::move(reading));
  }
  return OkStatus();
}

}  // namespace

Status ProbeFirstTouch(Prober& prober) {
  if (!prober.options().with_kernels) return OkStatus();  // copies alone are asked for
  int64_t bytes = kMostBytes;
  while (bytes > 4096 && bytes * (kSamples + 1) > prober.available_bytes() / 4) bytes /= 2;
  if (!prober.Begins("first touch")) return OkStatus();
  const Status status = Measure(prober, bytes);
  return status.ok() ? status : prober.Note("first touch", status);
}

}  // namespace halyard::runtime
