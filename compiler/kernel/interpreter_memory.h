// SPDX-License-Identifier: Apache-2.0
// The buffers that an interpreted kernel sees, and what is known about each element: whether it was
// written, and who touched it last. Not part of the interpreter's interface.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/kernel/interpreter.h"

namespace halyard::kernel {

// Who accesses memory: a workitem by its linear id or a subgroup as a whole. An accumulator's
// elements are spread over the subgroup in one way, those of A and B in another, so that a subgroup
// that reads with one what it wrote with the other races with itself.
class InterpreterMemory {
 public:
  // `finds_races`: for GPU kernels. The kernel must outlive this.
  InterpreterMemory(const Kernel& kernel, int32_t workitems, int32_t subgroups, bool finds_races);
  Status Bind(std::span<const BufferArgument> arguments);

  // New contents for workgroup and private memory.
  Status BeginWorkgroup();
  void Barrier() { ++epoch_; }

  int32_t Workitem(int32_t id) const { return id; }
  int32_t SubgroupAccumulator(int32_t subgroup) const { return workitems_ + subgroup; }
  int32_t SubgroupOperand(int32_t subgroup) const { return workitems_ + subgroups_ + subgroup; }

  // `op` goes into messages. A lane is as in compiler/kernel/lane_math.h.
  Status Read(Opcode op, BufferId buffer, int64_t index, int32_t who, uint64_t* lane);
  Status Write(Opcode op, BufferId buffer, int64_t index, int32_t who, uint64_t lane);
  Status AtomicAdd(BufferId buffer, int64_t index, int32_t who, uint64_t lane);
  Status CheckAlign(Opcode op, BufferId buffer, int64_t align, int64_t index, int32_t who) const;

  // One arrival of the workgroup at a counter that `count` workgroups share. The last one is
  // ordered behind what the others did before they arrived.
  Status Arrive(BufferId buffer, int64_t index, int64_t count, bool* is_last);

  // An element that an async copy will write: until EndCopy any access to it is a fault.
  Status BeginCopy(BufferId buffer, int64_t index, int32_t who);
  void EndCopy(BufferId buffer, int64_t index);

  // What a workitem wrote to workgroup memory so far may be read by asynchronous products.
  void FenceWrites(int32_t item) { fenced_[static_cast<size_t>(item)] = ++fences_; }
  // A read that goes on until EndProduct, before which a write is a fault.
  Status BeginProduct(BufferId buffer, int64_t index, int32_t who, uint64_t* lane);
  void EndProduct(BufferId buffer, int64_t index, int32_t who);

  // " of workitem 3", or nothing in a CPU kernel.
  std::string By(int32_t who) const;

 private:
  // Epochs count barriers and workgroups; 0: never.
  struct Shadow {
    uint32_t written_at = 0;
    uint32_t read_at = 0;
    uint16_t writer = 0;
    uint16_t reader = 0;
    bool atomic = false;     // the last write
    bool elsewhere = false;  // read by a workgroup before the last reader's
    bool in_flight = false;  // target of an async copy
    uint16_t products = 0;   // pending ones that read it
    uint32_t fences = 0;     // before the last write
  };
  struct Memory {
    uint8_t* data = nullptr;
    int64_t elements = 0;  // of private memory: of one workitem
    size_t element_bytes = 0;
    bool is_bool = false;
    bool is_private = false;
    bool tracked = false;
    std::vector<uint8_t> written;  // per element, when tracked
    std::vector<uint8_t> owned;    // allocations
    std::vector<Shadow> shadow;    // empty: no races here
  };

  // The slot of an element, or the failure.
  Status Locate(Opcode op, BufferId buffer, int64_t index, int32_t who, size_t* slot) const;
  Status NoteRead(Opcode op, BufferId buffer, int64_t index, int32_t who, Shadow* shadow);
  Status NoteWrite(Opcode op, BufferId buffer, int64_t index, int32_t who, bool atomic,
                   Shadow* shadow);
  Status Race(Opcode op, BufferId buffer, int64_t index, int32_t who, const char* does,
              const char* did, uint32_t epoch, int32_t other) const;
  std::string Name(int32_t who) const;
  // What happened then is not ordered before what this workgroup does now.
  bool IsUnordered(uint32_t epoch) const;

  const Kernel& kernel_;
  int32_t workitems_;
  int32_t subgroups_;
  bool finds_races_;
  uint32_t epoch_ = 0;
  uint32_t workgroup_epoch_ = 0;                 // the first of this workgroup
  std::vector<uint32_t> workgroup_epochs_;       // the first of each workgroup so far
  using Epochs = std::pair<uint32_t, uint32_t>;  // first and last
  std::map<std::pair<BufferId, int64_t>, std::vector<Epochs>> arrivals_;  // by counter
  uint32_t fences_ = 0;                                                   // of all workitems
  std::vector<uint32_t> fenced_;  // per workitem: the number of its last fence
  std::vector<Epochs> seen_;      // of other workgroups, ordered before this one
  std::vector<Memory> memories_;
};

}  // namespace halyard::kernel
