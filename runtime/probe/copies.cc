// SPDX-License-Identifier: Apache-2.0
// Copies: between a device's memory and the host's, page-locked and not, inside the device, and
// from one device to another.
#include <algorithm>
#include <cstring>

#include "runtime/probe/prober.h"

namespace halyard::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kSmallest = 4 << 10;
constexpr int64_t kLargest = 256 << 20;
constexpr int64_t kLargestOfShort = 1 << 20;
constexpr int64_t kStep = 4;
constexpr int64_t kVerified = 16 << 20;  // bytes of a copy whose content is compared

// Copies on the queues of one device, each waited for.
class Copier {
 public:
  static Result<Copier> Make(hal::Device& device) {
    Copier out(device);
    HY_ASSIGN(out.semaphore_, device.CreateSemaphore(0));
    return out;
  }
  Status Copy(uint32_t queue, hal::BufferRange source, hal::BufferRange target) {
    const hal::SemaphorePoint done{semaphore_.get(), ++value_};
    HY_TRY(device_->QueueCopy(queue, {{}, {&done, 1}, true}, source, target));
    return device_->Wait({&done, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout);
  }

 private:
  explicit Copier(hal::Device& device) : device_(&device) {}
  hal::Device* device_;
  Ref<hal::Semaphore> semaphore_;
  uint64_t value_ = 0;
};

// Both ends of a way, and how bytes take it.
struct Way {
  std::string from, to;
  std::function<Status(int64_t bytes)> copy;
  // Whether what arrived is what was sent; called after a copy of as many bytes.
  std::function<Result<bool>(int64_t bytes)> verify;
};

Status ProbeWay(Prober& prober, const Way& way, int64_t largest) {
  if (!prober.LastsForOne()) {
    prober.LeaveOutLate();
    return OkStatus();
  }
  Result<bool> is_whole = false;
  {
    // A short probe begins small, so that no copy begins that would not end in its time.
    const int64_t verified = std::min(largest, kVerified);
    int64_t bytes = prober.options().is_short ? std::min(kSmallest, verified) : verified;
    Status status;
    while (true) {
      const double start = prober.Now();
      status = way.copy(bytes);
      if (status.ok()) is_whole = way.verify(bytes);
      if (status.ok()) status = is_whole.status();
      if (!status.ok() || !*is_whole || bytes == verified) break;
      if (kStep * (prober.Now() - start) > prober.SecondsLeft()) {
        prober.LeaveOutLate();
        largest = bytes;
        break;
      }
      bytes = std::min(bytes * kStep, verified);
    }
    if (!status.ok()) return prober.Note(fmt::format("copy {} -> {}", way.from, way.to), status);
    if (!*is_whole) {
      return prober.Note(fmt::format("copy {} -> {}", way.from, way.to),
                         DataLoss("{} bytes arrive changed; the way is not measured.", verified));
    }
  }
  double least_seconds = 0;  // of a reading: one that does not count, and one
  for (int64_t bytes = kSmallest; bytes <= largest; bytes *= kStep) {
    const std::string what = fmt::format("copy {} -> {}, {} KiB", way.from, way.to, bytes >> 10);
    if (!prober.Begins(what, least_seconds)) break;
    const auto operation = [&]() -> Result<double> {
      const Clock::time_point start = Clock::now();
      HY_TRY(way.copy(bytes));
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
    SampleOptions sampling;
    sampling.seconds = prober.options().is_short ? 0.005 : 0.02;
    sampling.precision = 0.01;
    auto seconds = Sample(operation, prober.Limited(sampling));
    if (!seconds.ok()) return prober.Note("copy", seconds.status());
    if (prober.options().is_short) least_seconds = 2 * kStep * seconds->best;
    Reading reading;
    reading.kind = ReadingKind::kCopy;
    reading.from = way.from;
    reading.to = way.to;
    reading.bytes = bytes;
    reading.seconds = *seconds;
    reading.is_verified = true;
    prober.Add(std::move(reading));
  }
  return OkStatus();
}

// The largest step that `share` of the memory holds.
int64_t LargestFor(const Prober& prober, int64_t share) {
  const int64_t available = prober.available_bytes();
  int64_t bytes = prober.options().is_short ? kLargestOfShort : kLargest;
  while (bytes > kSmallest && bytes * share > available) bytes /= kStep;
  return bytes;
}

// Bytes of the host with content that no copy leaves by chance.
std::vector<uint8_t> Pattern(int64_t bytes, uint32_t seed) {
  std::vector<uint8_t> content(static_cast<size_t>(bytes));
  for (size_t i = 0; i + 8 <= content.size(); i += 8) {
    uint64_t word = (i / 8 + (uint64_t{seed} << 40) + 1) * 0x9e3779b97f4a7c15;  // odd: all differ
    word ^= word >> 32;
    std::memcpy(&content[i], &word, 8);
  }
  return content;
}

bool Equal(const uint8_t* a, const uint8_t* b, int64_t bytes) {
  return std::memcmp(a, b, static_cast<size_t>(bytes)) == 0;
}

// The host's memory under the CPU device: copies inside it.
Status ProbeHost(Prober& prober) {
  hal::Device& device = prober.device();
  const int64_t largest = LargestFor(prober, 8);
  HY_ASSIGN(auto a, device.AllocateBuffer(hal::MemoryKind::kDevice, largest));
  HY_ASSIGN(auto b, device.AllocateBuffer(hal::MemoryKind::kDevice, largest));
  HY_ASSIGN(Copier copier, Copier::Make(device));
  HY_ASSIGN(uint8_t* const from, a->Map(0, largest));
  HY_ASSIGN(uint8_t* const to, b->Map(0, largest));
  const std::vector<uint8_t> content = Pattern(largest, 1);
  std::memcpy(from, content.data(), content.size());
  return ProbeWay(prober,
                  {"device", "device",
                   [&](int64_t bytes) {
                     return copier.Copy(0, {a.get(), 0, bytes}, {b.get(), 0, bytes});
                   },
                   [&](int64_t bytes) -> Result<bool> { return Equal(from, to, bytes); }},
                  largest);
}

}  // namespace

Status ProbeCopies(Prober& prober) {
  if (prober.is_host()) return ProbeHost(prober);
  hal::Device& device = prober.device();
  const int64_t largest = LargestFor(prober, 8);
  const uint32_t queue = device.queue_count() - 1;  // one for copies where there is one
  HY_ASSIGN(Copier copier, Copier::Make(device));
  HY_ASSIGN(auto a, device.AllocateBuffer(hal::MemoryKind::kDevice, largest));
  HY_ASSIGN(auto b, device.AllocateBuffer(hal::MemoryKind::kDevice, largest));
  HY_ASSIGN(auto up, device.AllocateBuffer(hal::MemoryKind::kStaging, largest));
  HY_ASSIGN(auto down, device.AllocateBuffer(hal::MemoryKind::kStaging, largest));
  HY_ASSIGN(uint8_t* const up_bytes, up->Map(0, largest));
  HY_ASSIGN(uint8_t* const down_bytes, down->Map(0, largest));
  std::vector<uint8_t> pageable = Pattern(largest, 1), returned(static_cast<size_t>(largest));
  std::memcpy(up_bytes, pageable.data(), pageable.size());
  HY_TRY(up->FlushMapped(0, largest));

  const auto upload = [&](int64_t bytes) {
    return copier.Copy(queue, {up.get(), 0, bytes}, {a.get(), 0, bytes});
  };
  const auto download = [&](const Ref<hal::Buffer>& source, int64_t bytes) -> Status {
    HY_TRY(copier.Copy(queue, {source.get(), 0, bytes}, {down.get(), 0, bytes}));
    return down->InvalidateMapped(0, bytes);
  };
  const auto holds_pattern = [&](const Ref<hal::Buffer>& source, int64_t bytes) -> Result<bool> {
    std::memset(down_bytes, 0, static_cast<size_t>(bytes));
    HY_TRY(down->FlushMapped(0, bytes));
    HY_TRY(download(source, bytes));
    return Equal(down_bytes, pageable.data(), bytes);
  };
  const Way ways[] = {
      {"pinned", "device", upload, [&](int64_t bytes) { return holds_pattern(a, bytes); }},
      {"device", "pinned", [&](int64_t bytes) { return download(a, bytes); },
       [&](int64_t bytes) { return holds_pattern(a, bytes); }},
      // As a session moves the caller's memory: through the page-locked block.
      {"pageable", "device",
       [&](int64_t bytes) -> Status {
         std::memcpy(up_bytes, pageable.data(), static_cast<size_t>(bytes));
         HY_TRY(up->FlushMapped(0, bytes));
         return upload(bytes);
       },
       [&](int64_t bytes) { return holds_pattern(a, bytes); }},
      {"device", "pageable",
       [&](int64_t bytes) -> Status {
         HY_TRY(download(a, bytes));
         std::memcpy(returned.data(), down_bytes, static_cast<size_t>(bytes));
         return OkStatus();
       },
       [&](int64_t bytes) -> Result<bool> {
         return Equal(returned.data(), pageable.data(), bytes);
       }},
      {"device", "device",
       [&](int64_t bytes) {
         return copier.Copy(0, {a.get(), 0, bytes}, {b.get(), 0, bytes});
       },
       [&](int64_t bytes) { return holds_pattern(b, bytes); }},
  };
  for (const Way& way : ways) {
    // Placement takes its links from the others.
    const bool is_inside = way.from == way.to;
    if (!is_inside || !prober.options().is_short) HY_TRY(ProbeWay(prober, way, largest));
  }
  return OkStatus();
}

Status ProbeLink(Prober& prober, hal::Device& target) {
  if (prober.IsOver()) {
    prober.LeaveOutLate();
    return OkStatus();
  }
  hal::Device& source = prober.device();
  HY_ASSIGN(const hal::LinkInfo link, source.LinkTo(target));
  const int64_t largest = std::min<int64_t>(LargestFor(prober, 8), 64 << 20);
  HY_ASSIGN(Copier here, Copier::Make(source));
  HY_ASSIGN(Copier there, Copier::Make(target));
  HY_ASSIGN(auto from, source.AllocateBuffer(hal::MemoryKind::kDevice, largest));
  HY_ASSIGN(auto from_host, source.AllocateBuffer(hal::MemoryKind::kStaging, largest));
  HY_ASSIGN(auto to, target.AllocateBuffer(hal::MemoryKind::kDevice, largest));
  HY_ASSIGN(auto to_host, target.AllocateBuffer(hal::MemoryKind::kStaging, largest));
  HY_ASSIGN(uint8_t* const from_bytes, from_host->Map(0, largest));
  HY_ASSIGN(uint8_t* const to_bytes, to_host->Map(0, largest));
  const std::vector<uint8_t> content = Pattern(largest, 2);
  std::memcpy(from_bytes, content.data(), content.size());
  HY_TRY(from_host->FlushMapped(0, largest));
  const uint32_t queue = source.queue_count() - 1, target_queue = target.queue_count() - 1;
  HY_TRY(here.Copy(queue, {from_host.get(), 0, largest}, {from.get(), 0, largest}));

  const auto direct = [&](int64_t bytes) {
    return here.Copy(queue, {from.get(), 0, bytes}, {to.get(), 0, bytes});
  };
  const auto staged = [&](int64_t bytes) -> Status {
    HY_TRY(here.Copy(queue, {from.get(), 0, bytes}, {from_host.get(), 0, bytes}));
    HY_TRY(from_host->InvalidateMapped(0, bytes));
    std::memcpy(to_bytes, from_bytes, static_cast<size_t>(bytes));
    HY_TRY(to_host->FlushMapped(0, bytes));
    return there.Copy(target_queue, {to_host.get(), 0, bytes}, {to.get(), 0, bytes});
  };
  const auto arrived = [&](int64_t bytes) -> Result<bool> {
    std::memset(to_bytes, 0, static_cast<size_t>(bytes));
    HY_TRY(to_host->FlushMapped(0, bytes));
    HY_TRY(there.Copy(target_queue, {to.get(), 0, bytes}, {to_host.get(), 0, bytes}));
    HY_TRY(to_host->InvalidateMapped(0, bytes));
    return Equal(to_bytes, content.data(), bytes);
  };
  Way way{"device", std::string(target.path()), staged, arrived};
  if (link.can_copy_direct) way.copy = direct;
  return ProbeWay(prober, way, largest);
}

}  // namespace halyard::runtime
