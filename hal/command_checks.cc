// SPDX-License-Identifier: Apache-2.0
#include "hal/command_checks.h"

#include <algorithm>

#include "hal/executable.h"

namespace halyard::hal {
namespace {

Status CheckCommandRange(std::string_view what, const CommandRange& range, const Device* device) {
  if (!range.buffer) {
    if (range.slot >= kMaxBindingSlots) {
      return OutOfRange("{} uses binding slot {}; slots go up to {}.", what, range.slot,
                        kMaxBindingSlots - 1);
    }
    return CheckRange(what, range.offset, range.size_bytes, INT64_MAX);
  }
  if (range.buffer->device() != device) {
    return InvalidArgument("{} names a buffer of another device.", what);
  }
  return CheckRange(what, range.offset, range.size_bytes, range.buffer->size_bytes());
}

Status CheckAligned(std::string_view what, int64_t offset, int64_t alignment) {
  if (offset % alignment == 0) return OkStatus();
  return InvalidArgument("{} starts at offset {}; the device needs a multiple of {}.", what, offset,
                         alignment);
}

Status CheckPattern(std::string_view what, int64_t offset, int64_t size_bytes,
                    uint32_t pattern_bytes) {
  if (pattern_bytes != 1 && pattern_bytes != 2 && pattern_bytes != 4 && pattern_bytes != 8) {
    return InvalidArgument("A fill pattern has {} bytes; 1, 2, 4 and 8 are possible.",
                           pattern_bytes);
  }
  if (offset % pattern_bytes != 0 || size_bytes % pattern_bytes != 0) {
    return InvalidArgument(
        "{} covers {} bytes from offset {}; both must be multiples of the pattern's {} "
        "bytes.",
        what, size_bytes, offset, pattern_bytes);
  }
  return OkStatus();
}

bool Overlap(int64_t a, int64_t b, int64_t size_bytes) {
  return size_bytes > 0 && std::max(a, b) - std::min(a, b) < size_bytes;
}

Status CheckBufferRange(std::string_view what, const BufferRange& range, const Device* device) {
  if (!range.buffer) return InvalidArgument("{} names no buffer.", what);
  if (range.buffer->device() != device) {
    return InvalidArgument("{} names a buffer of another device.", what);
  }
  return CheckRange(what, range.offset, range.size_bytes, range.buffer->size_bytes());
}

}  // namespace

void AddSlotNeed(const CommandRange& range, bool is_dispatched, std::vector<SlotNeed>* needs) {
  if (range.buffer) return;
  if (needs->size() <= range.slot) needs->resize(range.slot + size_t{1});
  SlotNeed& need = (*needs)[range.slot];
  need.is_used = true;
  need.is_dispatched |= is_dispatched;
  need.min_bytes = std::max(need.min_bytes, range.offset + range.size_bytes);
}

Result<int64_t> CountWorkgroups(const int64_t (&grid)[3]) {
  int64_t count = 1;
  for (int64_t extent : grid) {
    if (extent < 0)
      return OutOfRange("A grid is {} x {} x {}; no extent may be negative.", grid[0], grid[1],
                        grid[2]);
    if (extent == 0) return int64_t{0};
    if (__builtin_mul_overflow(count, extent, &count)) {
      return OutOfRange("A grid is {} x {} x {}; its size must fit 63 bits.", grid[0], grid[1],
                        grid[2]);
    }
  }
  return count;
}

Status CheckDispatch(const DispatchCommand& command, const Device* device, int64_t alignment) {
  if (!command.executable)
    return InvalidArgument("Dispatch '{}' names no executable.", command.label);
  if (command.executable->device() != device) {
    return InvalidArgument("Dispatch '{}' names an executable of another device.", command.label);
  }
  std::span<const ExecutableEntry> entries = command.executable->entries();
  if (command.entry >= entries.size()) {
    return OutOfRange("Dispatch '{}' names entry {}; the executable has {}.", command.label,
                      command.entry, entries.size());
  }
  const ExecutableEntry& entry = entries[command.entry];
  if (command.bindings.size() != entry.binding_count) {
    return InvalidArgument("Dispatch '{}' of '{}' has {} bindings; the kernel takes {}.",
                           command.label, entry.name, command.bindings.size(), entry.binding_count);
  }
  if (command.scalars.size() != entry.scalar_count) {
    return InvalidArgument("Dispatch '{}' of '{}' has {} scalars; the kernel takes {}.",
                           command.label, entry.name, command.scalars.size(), entry.scalar_count);
  }
  HY_TRY_CONTEXT(CountWorkgroups(command.grid), "recording dispatch '{}'", command.label);
  for (size_t i = 0; i < command.bindings.size(); ++i) {
    const CommandRange& range = command.bindings[i];
    std::string what = fmt::format("Binding {} of dispatch '{}'", i, command.label);
    HY_TRY(CheckCommandRange(what, range, device));
    HY_TRY(CheckAligned(what, range.offset, alignment));
    if (range.buffer && range.buffer->kind() == MemoryKind::kStaging) {
      return InvalidArgument("{} is a staging buffer; kernels cannot address those.", what);
    }
  }
  return OkStatus();
}

namespace {

// Equal sizes and no overlap.
Status CheckCopyShape(const CommandRange& source, const CommandRange& target) {
  if (source.size_bytes != target.size_bytes) {
    return InvalidArgument("A copy's source has {} bytes and its target {}; they must be equal.",
                           source.size_bytes, target.size_bytes);
  }
  bool is_same = source.buffer == target.buffer && (source.buffer || source.slot == target.slot);
  if (is_same && Overlap(source.offset, target.offset, source.size_bytes)) {
    return InvalidArgument(
        "A copy of {} bytes overlaps itself: source at {}, target at {} of one buffer.",
        source.size_bytes, source.offset, target.offset);
  }
  return OkStatus();
}

}  // namespace

Status CheckCopy(const CommandRange& source, const CommandRange& target, const Device* device) {
  HY_TRY(CheckCommandRange("A copy's source", source, device));
  HY_TRY(CheckCommandRange("A copy's target", target, device));
  return CheckCopyShape(source, target);
}

Status CheckFill(const CommandRange& target, uint32_t pattern_bytes, const Device* device) {
  HY_TRY(CheckCommandRange("A fill's target", target, device));
  return CheckPattern("A fill's target", target.offset, target.size_bytes, pattern_bytes);
}

Status CheckQueue(uint32_t queue, uint32_t queue_count) {
  if (queue < queue_count) return OkStatus();
  return OutOfRange("Queue {} was named; the device has {}.", queue, queue_count);
}

Status CheckOrdering(const Ordering& ordering) {
  for (const SemaphorePoint& point : ordering.waits) {
    if (!point.semaphore) return InvalidArgument("A wait names no semaphore.");
  }
  for (const SemaphorePoint& point : ordering.signals) {
    if (!point.semaphore) return InvalidArgument("A signal names no semaphore.");
  }
  return OkStatus();
}

Status CheckBindings(std::span<const BufferRange> bindings, std::span<const SlotNeed> needs,
                     const Device* device, int64_t alignment) {
  if (bindings.size() < needs.size()) {
    return InvalidArgument("A submission binds {} slots; its commands use {}.", bindings.size(),
                           needs.size());
  }
  for (size_t i = 0; i < needs.size(); ++i) {
    const SlotNeed& need = needs[i];
    if (!need.is_used) continue;
    const BufferRange& range = bindings[i];
    // Checked without text first: this runs at every submission.
    bool is_fine =
        range.buffer && range.buffer->device() == device && range.offset >= 0 &&
        range.size_bytes >= need.min_bytes && range.offset <= range.buffer->size_bytes() &&
        range.size_bytes <= range.buffer->size_bytes() - range.offset &&
        !(need.is_dispatched &&
          (range.offset % alignment != 0 || range.buffer->kind() == MemoryKind::kStaging));
    if (is_fine) [[likely]]
      continue;
    std::string what = fmt::format("Binding slot {}", i);
    HY_TRY(CheckBufferRange(what, range, device));
    if (range.size_bytes < need.min_bytes) {
      return OutOfRange("{} holds {} bytes; the commands use {}.", what, range.size_bytes,
                        need.min_bytes);
    }
    HY_TRY(CheckAligned(what, range.offset, alignment));
    return InvalidArgument("{} holds a staging buffer; kernels cannot address those.", what);
  }
  return OkStatus();
}

Status CheckQueueCopy(const BufferRange& source, const BufferRange& target,
                      const std::function<bool(const Device*)>& can_reach) {
  auto check_end = [&](std::string_view what, const BufferRange& range) -> Status {
    if (!range.buffer) return InvalidArgument("{} names no buffer.", what);
    const Device* device = range.buffer->device();
    if (!can_reach(device)) {
      return InvalidArgument("{} is a buffer of '{}', which this device cannot copy from or to.",
                             what, device->path());
    }
    return CheckRange(what, range.offset, range.size_bytes, range.buffer->size_bytes());
  };
  HY_TRY(check_end("A queued copy's source", source));
  HY_TRY(check_end("A queued copy's target", target));
  return CheckCopyShape(CommandRange::Direct(source.buffer, source.offset, source.size_bytes),
                        CommandRange::Direct(target.buffer, target.offset, target.size_bytes));
}

Status CheckQueueFill(const BufferRange& target, uint32_t pattern_bytes, const Device* device) {
  HY_TRY(CheckBufferRange("A queued fill's target", target, device));
  return CheckPattern("A queued fill's target", target.offset, target.size_bytes, pattern_bytes);
}

}  // namespace halyard::hal
