// SPDX-License-Identifier: Apache-2.0
// The state of one interpreted dispatch. Not part of the interpreter's interface.
//
// All workitems of a workgroup go through a block together; an op is run for those that are active
// in it. A branch or a loop body is run with the workitems that take it, which structured control
// flow allows: they meet again where it ends. What a kernel must do with barriers and collectives
// is then a question about the list of active workitems.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/kernel/interpreter_memory.h"
#include "compiler/kernel/lane_math.h"

namespace halyard::kernel {

class Interpreter {
 public:
  Interpreter(const Kernel& kernel, std::span<const int64_t> scalars, ErrorRecord* error,
              InterpreterOptions options);
  Status Bind(std::span<const BufferArgument> arguments);
  Status RunWorkgroup(const int64_t (&id)[3]);

 private:
  using Items = std::span<const int32_t>;  // linear ids, ascending

  // Where the lanes of a value are: those of workitem i, or of subgroup i for a fragment, at
  // offset + i * stride.
  struct Place {
    size_t offset = 0;
    size_t stride = 0;
  };
  struct PendingCopy {
    const Op* op = nullptr;
    int64_t to = 0;
    int64_t from = 0;
    bool zeros = false;
  };
  struct ItemCopies {
    std::vector<PendingCopy> open;
    std::vector<std::vector<PendingCopy>> groups;  // oldest first
  };

  // A product that reads workgroup memory.
  struct PendingProduct {
    const Op* op = nullptr;
    int64_t a = 0;
    int64_t b = 0;
  };
  struct QuadProducts {
    std::vector<PendingProduct> open;
    std::vector<std::vector<PendingProduct>> groups;  // oldest first
  };

  uint64_t* Lanes(ValueId value, int32_t i) {
    return lanes_.data() + places_[value].offset + static_cast<size_t>(i) * places_[value].stride;
  }
  Type TypeOf(ValueId value) const { return kernel_.values[value].type; }
  int64_t IntAt(ValueId value, int32_t item, int lane = 0) {
    return LaneToInt(TypeOf(value).dtype, Lanes(value, item)[lane]);
  }
  bool IsAll(Items items) const { return items.size() == static_cast<size_t>(workitems_); }
  Status Spend(size_t ops);

  // interpreter.cc
  Status RunBlock(BlockId block, Items items);
  Status RunOp(const Op& op, Items items);
  void RunPlain(const Op& op, int32_t item);
  void RunElements(const Op& op, int32_t first, size_t items);
  int64_t IdOf(const Op& op, int32_t item) const;
  void RunReport(const Op& op, int32_t item);
  Status RunMemory(const Op& op, int32_t item);
  Status RunIf(const Op& op, Items items);
  Status RunFor(const Op& op, Items items);
  Status Copy(const Op& op, std::span<const ValueId> from, std::span<const ValueId> to,
              Items items);

  // interpreter_collective.cc
  Status RunCollective(const Op& op, Items items);
  // The subgroups of `items`; a failure where a part of one is missing.
  Status WholeSubgroups(const Op& op, Items items, std::vector<int32_t>* subgroups) const;
  int32_t SubgroupEnd(int32_t subgroup) const;
  // The value that an operand has in all workitems of a subgroup.
  Status Uniform(const Op& op, ValueId operand, int32_t subgroup, uint64_t* lane);
  Status RunBarrier(Items items);
  Status RunLastArrival(const Op& op, Items items);
  Status RunShuffle(const Op& op, int32_t subgroup);
  Status RunFragment(const Op& op, int32_t subgroup);
  void MoveElements(const Op& op, int32_t subgroup);
  Status MoveFragment(const Op& op, int32_t subgroup);
  void Multiply(const Op& op, int32_t subgroup);
  Status StartCopy(const Op& op, int32_t item);
  Status FinishCopies(const Op& op, int32_t item);

  // interpreter_products.cc
  Status RunProducts(const Op& op, Items items);  // every op of a quad
  Status StartProduct(const Op& op, int32_t quad);
  Status FinishProducts(const Op& op, int32_t quad);
  // Calls `visit` for each element of A (side 0) or B (side 1) with its index.
  template <typename Visit>
  Status ForOperand(const PendingProduct& product, int side, Visit visit);

  const Kernel& kernel_;
  std::span<const int64_t> scalars_;
  ErrorRecord* error_;
  int64_t ops_left_;
  int32_t workitems_;
  int32_t subgroup_size_;
  int32_t subgroups_;
  int64_t workgroup_[3] = {0, 0, 0};
  std::vector<int32_t> all_;  // every workitem
  std::vector<Place> places_;
  std::vector<uint64_t> lanes_;
  std::vector<uint64_t> held_;  // of Copy
  InterpreterMemory memory_;
  std::vector<ItemCopies> copies_;
  std::vector<QuadProducts> products_;  // per quad
};

}  // namespace halyard::kernel
