// SPDX-License-Identifier: Apache-2.0
// Races: between two barriers, and between workgroups for the whole dispatch, an element may be
// read by many or be written by one that alone reads it. The last writer and the last reader are
// enough to find every pair but one: a read that a third workitem's read hid, which counts as read
// by several.
#include "compiler/kernel/interpreter_memory.h"

#include <algorithm>
#include <cstring>

#include "compiler/kernel/lane_math.h"
#include "compiler/kernel/opcode.h"

namespace halyard::kernel {
namespace {

constexpr uint16_t kSeveral = UINT16_MAX;  // readers

}  // namespace

InterpreterMemory::InterpreterMemory(const Kernel& kernel, int32_t workitems, int32_t subgroups,
                                     bool finds_races)
    : kernel_(kernel),
      workitems_(workitems),
      subgroups_(subgroups),
      finds_races_(finds_races),
      fenced_(static_cast<size_t>(workitems), 0) {}

Status InterpreterMemory::Bind(std::span<const BufferArgument> arguments) {
  size_t next = 0;
  for (const Buffer& buffer : kernel_.buffers) {
    Memory memory;
    memory.element_bytes = static_cast<size_t>(BitWidth(buffer.dtype)) / 8;
    memory.is_bool = buffer.dtype == DType::kBool;
    memory.is_private = buffer.space == MemorySpace::kPrivate;
    if (buffer.space == MemorySpace::kGlobal) {
      if (next == arguments.size()) break;
      const BufferArgument& argument = arguments[next++];
      memory.data = static_cast<uint8_t*>(argument.data);
      memory.elements = argument.elements;
      memory.tracked = !argument.initialised;
      const size_t elements = static_cast<size_t>(argument.elements);
      if (memory.tracked) memory.written.assign(elements, 0);
      if (finds_races_ && buffer.access != Access::kRead) memory.shadow.resize(elements);
    }
    memories_.push_back(std::move(memory));
  }
  if (memories_.size() != kernel_.buffers.size() || next != arguments.size()) {
    return InvalidArgument("Kernel '{}' got {} buffers; it has {} buffers and allocations.",
                           kernel_.name, arguments.size(), kernel_.buffers.size());
  }
  return OkStatus();
}

Status InterpreterMemory::BeginWorkgroup() {
  workgroup_epoch_ = ++epoch_;
  seen_.clear();
  if (finds_races_) workgroup_epochs_.push_back(epoch_);
  for (size_t i = 0; i < memories_.size(); ++i) {
    const Buffer& buffer = kernel_.buffers[i];
    if (buffer.space == MemorySpace::kGlobal) continue;
    Memory& memory = memories_[i];
    const int64_t copies = memory.is_private ? workitems_ : 1;
    HY_ASSIGN(const int64_t bytes, StorageBytes(buffer.dtype, buffer.elements));
    memory.owned.assign(static_cast<size_t>(bytes * copies), 0xcd);
    memory.data = memory.owned.data();
    memory.elements = buffer.elements;
    memory.tracked = true;
    memory.written.assign(static_cast<size_t>(buffer.elements * copies), 0);
    if (finds_races_ && !memory.is_private) {
      memory.shadow.assign(static_cast<size_t>(buffer.elements), Shadow());
    }
  }
  return OkStatus();
}

std::string InterpreterMemory::Name(int32_t who) const {
  if (who < workitems_) return fmt::format("workitem {}", who);
  return fmt::format("subgroup {}", (who - workitems_) % subgroups_);
}

std::string InterpreterMemory::By(int32_t who) const {
  return finds_races_ ? fmt::format(" of {}", Name(who)) : std::string();
}

Status InterpreterMemory::Locate(Opcode op, BufferId buffer, int64_t index, int32_t who,
                                 size_t* slot) const {
  const Memory& memory = memories_[buffer];
  if (index < 0 || index >= memory.elements) {
    return OutOfRange("Op '{}'{} reaches index {} of buffer '{}', which has {} elements.",
                      FormatOpcode(op), By(who), index, kernel_.buffers[buffer].name,
                      memory.elements);
  }
  *slot = static_cast<size_t>(index);
  if (memory.is_private) *slot += static_cast<size_t>(who) * static_cast<size_t>(memory.elements);
  return OkStatus();
}

Status InterpreterMemory::CheckAlign(Opcode op, BufferId buffer, int64_t align, int64_t index,
                                     int32_t who) const {
  if (index % align == 0) return OkStatus();
  return FailedPrecondition(
      "Op '{}'{} reaches index {} of buffer '{}', no multiple of its align {}.", FormatOpcode(op),
      By(who), index, kernel_.buffers[buffer].name, align);
}

Status InterpreterMemory::Race(Opcode op, BufferId buffer, int64_t index, int32_t who,
                               const char* does, const char* did, uint32_t epoch,
                               int32_t other) const {
  std::string rival = other == kSeveral ? "several workitems" : Name(other);
  const char* missing = "with no barrier between";
  if (epoch < workgroup_epoch_) {
    const auto after = std::upper_bound(workgroup_epochs_.begin(), workgroup_epochs_.end(), epoch);
    rival += fmt::format(" of the workgroup with the linear id {}",
                         after - workgroup_epochs_.begin() - 1);
    missing = "in the same dispatch";
  }
  return FailedPrecondition("Data race: op '{}'{} {} index {} of buffer '{}', which {} {} {}.",
                            FormatOpcode(op), By(who), does, index, kernel_.buffers[buffer].name,
                            rival, did, missing);
}

bool InterpreterMemory::IsUnordered(uint32_t epoch) const {
  if (epoch == 0 || epoch >= workgroup_epoch_) return false;
  return std::none_of(seen_.begin(), seen_.end(), [&](const Epochs& seen) {
    return seen.first <= epoch && epoch <= seen.second;
  });
}

Status InterpreterMemory::NoteRead(Opcode op, BufferId buffer, int64_t index, int32_t who,
                                   Shadow* shadow) {
  if (shadow->in_flight) {
    return FailedPrecondition(
        "Op '{}'{} reads index {} of buffer '{}', which a pending async copy writes.",
        FormatOpcode(op), By(who), index, kernel_.buffers[buffer].name);
  }
  if (IsUnordered(shadow->written_at) || (shadow->written_at == epoch_ && shadow->writer != who)) {
    return Race(op, buffer, index, who, "reads", "wrote", shadow->written_at, shadow->writer);
  }
  if (IsUnordered(shadow->read_at)) shadow->elsewhere = true;
  const bool again = shadow->read_at == epoch_ && shadow->reader != who;
  shadow->reader = again ? kSeveral : static_cast<uint16_t>(who);
  shadow->read_at = epoch_;
  return OkStatus();
}

Status InterpreterMemory::NoteWrite(Opcode op, BufferId buffer, int64_t index, int32_t who,
                                    bool atomic, Shadow* shadow) {
  if (shadow->in_flight) {
    return FailedPrecondition(
        "Op '{}'{} writes index {} of buffer '{}', which a pending async copy writes.",
        FormatOpcode(op), By(who), index, kernel_.buffers[buffer].name);
  }
  if (shadow->products > 0) {
    return FailedPrecondition(
        "Op '{}'{} writes index {} of buffer '{}', which a pending mma_async reads.",
        FormatOpcode(op), By(who), index, kernel_.buffers[buffer].name);
  }
  const bool both_atomic = atomic && shadow->atomic;
  if (!both_atomic && (IsUnordered(shadow->written_at) ||
                       (shadow->written_at == epoch_ && shadow->writer != who))) {
    return Race(op, buffer, index, who, "writes", "wrote", shadow->written_at, shadow->writer);
  }
  if (IsUnordered(shadow->read_at) || (shadow->read_at == epoch_ && shadow->reader != who)) {
    return Race(op, buffer, index, who, "writes", "read", shadow->read_at, shadow->reader);
  }
  if (shadow->elsewhere) {
    return FailedPrecondition(
        "Data race: op '{}'{} writes index {} of buffer '{}', which another workgroup read in the "
        "same dispatch.",
        FormatOpcode(op), By(who), index, kernel_.buffers[buffer].name);
  }
  // A plain write and an atomic of one workitem stay a plain write until the next barrier.
  shadow->atomic = atomic && (shadow->written_at != epoch_ || shadow->atomic);
  shadow->written_at = epoch_;
  shadow->writer = static_cast<uint16_t>(who);
  shadow->fences = fences_;
  return OkStatus();
}

Status InterpreterMemory::Read(Opcode op, BufferId buffer, int64_t index, int32_t who,
                               uint64_t* lane) {
  size_t slot = 0;
  HY_TRY(Locate(op, buffer, index, who, &slot));
  Memory& memory = memories_[buffer];
  if (!memory.shadow.empty()) HY_TRY(NoteRead(op, buffer, index, who, &memory.shadow[slot]));
  if (memory.tracked && !memory.written[slot]) {
    return FailedPrecondition("Op '{}'{} reads index {} of buffer '{}', which was never written.",
                              FormatOpcode(op), By(who), index, kernel_.buffers[buffer].name);
  }
  *lane = 0;
  std::memcpy(lane, memory.data + slot * memory.element_bytes, memory.element_bytes);
  if (memory.is_bool) *lane = *lane != 0 ? 1 : 0;
  return OkStatus();
}

Status InterpreterMemory::Write(Opcode op, BufferId buffer, int64_t index, int32_t who,
                                uint64_t lane) {
  size_t slot = 0;
  HY_TRY(Locate(op, buffer, index, who, &slot));
  Memory& memory = memories_[buffer];
  if (!memory.shadow.empty()) {
    HY_TRY(NoteWrite(op, buffer, index, who, false, &memory.shadow[slot]));
  }
  std::memcpy(memory.data + slot * memory.element_bytes, &lane, memory.element_bytes);
  if (memory.tracked) memory.written[slot] = 1;
  return OkStatus();
}

Status InterpreterMemory::AtomicAdd(BufferId buffer, int64_t index, int32_t who, uint64_t lane) {
  size_t slot = 0;
  HY_TRY(Locate(Opcode::kAtomicAdd, buffer, index, who, &slot));
  Memory& memory = memories_[buffer];
  if (!memory.shadow.empty()) {
    HY_TRY(NoteWrite(Opcode::kAtomicAdd, buffer, index, who, true, &memory.shadow[slot]));
  }
  if (memory.tracked && !memory.written[slot]) {
    return FailedPrecondition(
        "Op 'atomic_add'{} reads index {} of buffer '{}', which was never written.", By(who), index,
        kernel_.buffers[buffer].name);
  }
  uint64_t old = 0;
  uint8_t* at = memory.data + slot * memory.element_bytes;
  std::memcpy(&old, at, memory.element_bytes);
  const uint64_t sum = ArithmeticLane(Opcode::kAdd, kernel_.buffers[buffer].dtype, old, lane, 0);
  std::memcpy(at, &sum, memory.element_bytes);
  return OkStatus();
}

Status InterpreterMemory::Arrive(BufferId buffer, int64_t index, int64_t count, bool* is_last) {
  HY_TRY(AtomicAdd(buffer, index, Workitem(0), 1));
  Memory& memory = memories_[buffer];
  uint32_t value = 0;
  std::memcpy(&value, memory.data + static_cast<size_t>(index) * sizeof value, sizeof value);
  if (value > count) {
    return FailedPrecondition(
        "Op 'last_arrival' makes element {} of buffer '{}' {}; it counts to {}.", index,
        kernel_.buffers[buffer].name, value, count);
  }
  std::vector<Epochs>& arrived = arrivals_[{buffer, index}];
  *is_last = value == count;
  if (!*is_last) {
    arrived.push_back({workgroup_epoch_, epoch_});
    return OkStatus();
  }
  seen_.insert(seen_.end(), arrived.begin(), arrived.end());
  arrived.clear();
  value = 0;
  std::memcpy(memory.data + static_cast<size_t>(index) * sizeof value, &value, sizeof value);
  return OkStatus();
}

Status InterpreterMemory::BeginCopy(BufferId buffer, int64_t index, int32_t who) {
  size_t slot = 0;
  HY_TRY(Locate(Opcode::kAsyncCopy, buffer, index, who, &slot));
  Shadow& shadow = memories_[buffer].shadow[slot];
  HY_TRY(NoteWrite(Opcode::kAsyncCopy, buffer, index, who, false, &shadow));
  shadow.in_flight = true;
  return OkStatus();
}

Status InterpreterMemory::BeginProduct(BufferId buffer, int64_t index, int32_t who,
                                       uint64_t* lane) {
  HY_TRY(Read(Opcode::kMmaAsync, buffer, index, who, lane));
  Shadow& shadow = memories_[buffer].shadow[static_cast<size_t>(index)];
  // Of a fragment that a subgroup stored: all workitems must have passed a fence since.
  const auto first = shadow.writer < workitems_ ? fenced_.begin() + shadow.writer : fenced_.begin();
  const auto last = shadow.writer < workitems_ ? first + 1 : fenced_.end();
  if (*std::min_element(first, last) <= shadow.fences) {
    return FailedPrecondition(
        "Op 'mma_async'{} reads index {} of buffer '{}', behind whose write by {} there is no "
        "async_fence.",
        By(who), index, kernel_.buffers[buffer].name, Name(shadow.writer));
  }
  ++shadow.products;
  return OkStatus();
}

void InterpreterMemory::EndProduct(BufferId buffer, int64_t index, int32_t who) {
  Shadow& shadow = memories_[buffer].shadow[static_cast<size_t>(index)];
  --shadow.products;
  // The read was still going on: whoever writes next needs a barrier behind this moment.
  const bool again = shadow.read_at == epoch_ && shadow.reader != who;
  shadow.reader = again ? kSeveral : static_cast<uint16_t>(who);
  shadow.read_at = epoch_;
}

void InterpreterMemory::EndCopy(BufferId buffer, int64_t index) {
  memories_[buffer].shadow[static_cast<size_t>(index)].in_flight = false;
}

}  // namespace halyard::kernel
