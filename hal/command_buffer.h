// SPDX-License-Identifier: Apache-2.0
// CommandBuffer: a recording of dispatches, copies, fills and barriers, made once and submitted any
// number of times, each time with other buffers in its binding slots and without allocation.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"
#include "hal/buffer.h"
#include "hal/ref.h"

namespace halyard::hal {

class Device;
class Executable;

// What a command reads or writes: a range of a buffer that the recording keeps alive, or of
// whatever the submission puts into slot `slot` (offsets then count from the start of that range).
struct CommandRange {
  Buffer* buffer = nullptr;  // null: use `slot`
  uint32_t slot = 0;
  int64_t offset = 0;
  int64_t size_bytes = 0;

  static CommandRange Direct(Buffer* buffer, int64_t offset, int64_t size_bytes) {
    return {buffer, 0, offset, size_bytes};
  }
  static CommandRange Slot(uint32_t slot, int64_t offset, int64_t size_bytes) {
    return {nullptr, slot, offset, size_bytes};
  }
};

inline constexpr uint32_t kMaxBindingSlots = 1u << 16;

struct DispatchCommand {
  Executable* executable = nullptr;
  uint32_t entry = 0;           // index into Executable::entries()
  int64_t grid[3] = {1, 1, 1};  // workgroups; a zero anywhere makes it do nothing
  std::span<const CommandRange>
      bindings;  // as many as the entry has; starts aligned to buffer_alignment()
  std::span<const int64_t> scalars;  // as many as the entry has
  std::string_view label;            // for error messages and profiles; copied
};

// Recording is single-threaded; a finished recording is immutable and thread-safe. Commands between
// two barriers may run in any order and at the same time; a barrier makes everything after it see
// everything before it. Two submissions of one recording may be in flight together.
class CommandBuffer : public RefCounted {
 public:
  virtual Device* device() const = 0;

  // INVALID_ARGUMENT or OUT_OF_RANGE when a count, range or alignment is wrong; FAILED_PRECONDITION
  // after Finish. A failed call records nothing and leaves the rest usable.
  virtual Status Dispatch(const DispatchCommand& command) = 0;
  // Sizes must be equal; the ranges must not overlap.
  virtual Status Copy(const CommandRange& source, const CommandRange& target) = 0;
  // Repeats the low `pattern_bytes` (1, 2, 4 or 8) of `pattern`; the target's offset and size are
  // multiples of that.
  virtual Status Fill(const CommandRange& target, uint64_t pattern, uint32_t pattern_bytes) = 0;
  virtual Status Barrier() = 0;
  // Ends recording and does all work that submissions would otherwise repeat. Once.
  virtual Status Finish() = 0;

  virtual bool is_finished() const = 0;
  // How many entries a submission's binding table must have at least: the highest slot used plus
  // one.
  virtual uint32_t slot_count() const = 0;
  // How many dispatches it holds.
  virtual uint32_t dispatch_count() const = 0;
};

}  // namespace halyard::hal
