// SPDX-License-Identifier: Apache-2.0
// What the workitems of a workgroup do together: barriers, shuffles, fragments, async copies.
#include <algorithm>
#include <bit>

#include "compiler/kernel/interpreter_machine.h"
#include "compiler/kernel/lane_math.h"
#include "compiler/kernel/opcode.h"

namespace halyard::kernel {

int32_t Interpreter::SubgroupEnd(int32_t subgroup) const {
  return std::min((subgroup + 1) * subgroup_size_, workitems_);
}

Status Interpreter::WholeSubgroups(const Op& op, Items items,
                                   std::vector<int32_t>* subgroups) const {
  for (size_t i = 0; i < items.size();) {
    const int32_t subgroup = items[i] / subgroup_size_;
    const int32_t begin = subgroup * subgroup_size_;
    const int32_t members = SubgroupEnd(subgroup) - begin;
    int32_t active = 0;
    while (i < items.size() && items[i] / subgroup_size_ == subgroup) {
      ++active;
      ++i;
    }
    if (active != members) {
      return FailedPrecondition("Op '{}' is reached by {} of the {} workitems of subgroup {}.",
                                FormatOpcode(op.opcode), active, members, subgroup);
    }
    subgroups->push_back(subgroup);
  }
  return OkStatus();
}

Status Interpreter::RunCollective(const Op& op, Items items) {
  switch (op.opcode) {
    case Opcode::kBarrier:
      return RunBarrier(items);
    case Opcode::kAwaitDispatches:
    case Opcode::kReleaseDispatches:
      return OkStatus();  // dispatches run one after the other here
    case Opcode::kLastArrival:
      return RunLastArrival(op, items);
    case Opcode::kAsyncCopy:
      for (int32_t item : items) HY_TRY(StartCopy(op, item));
      return OkStatus();
    case Opcode::kAsyncCommit:
      for (int32_t item : items) {
        ItemCopies& copies = copies_[static_cast<size_t>(item)];
        copies.groups.push_back(std::move(copies.open));
        copies.open.clear();
      }
      return OkStatus();
    case Opcode::kAsyncWait:
      for (int32_t item : items) HY_TRY(FinishCopies(op, item));
      return OkStatus();
    case Opcode::kAsyncFence:
      for (int32_t item : items) memory_.FenceWrites(item);
      return OkStatus();
    case Opcode::kMmaBegin:
    case Opcode::kMmaAsync:
    case Opcode::kMmaCommit:
    case Opcode::kMmaWait:
    case Opcode::kMmaEnd:
      return RunProducts(op, items);
    default:
      break;
  }
  std::vector<int32_t> subgroups;
  HY_TRY(WholeSubgroups(op, items, &subgroups));
  const bool shuffles =
      op.opcode == Opcode::kSubgroupShuffle || op.opcode == Opcode::kSubgroupShuffleXor;
  for (int32_t subgroup : subgroups) {
    HY_TRY(shuffles ? RunShuffle(op, subgroup) : RunFragment(op, subgroup));
  }
  return OkStatus();
}

Status Interpreter::RunLastArrival(const Op& op, Items items) {
  HY_TRY(RunBarrier(items));
  const int64_t index = IntAt(op.operands[0], 0), count = IntAt(op.operands[1], 0);
  for (int32_t item : items) {
    if (IntAt(op.operands[0], item) == index && IntAt(op.operands[1], item) == count) continue;
    return FailedPrecondition(
        "Op 'last_arrival' gets index {} and count {} from workitem {}, {} and {} from workitem 0, "
        "where all must agree.",
        IntAt(op.operands[0], item), IntAt(op.operands[1], item), item, index, count);
  }
  bool is_last = false;
  HY_TRY(memory_.Arrive(op.buffer, index, count, &is_last));
  memory_.Barrier();
  for (int32_t item : items) *Lanes(op.results[0], item) = is_last ? 1 : 0;
  return OkStatus();
}

Status Interpreter::RunBarrier(Items items) {
  if (!IsAll(items)) {
    int32_t missing = 0;
    while (static_cast<size_t>(missing) < items.size() &&
           items[static_cast<size_t>(missing)] == missing) {
      ++missing;
    }
    return FailedPrecondition(
        "A barrier is reached by {} of the {} workitems of the workgroup; workitem {} does not "
        "reach it.",
        items.size(), workitems_, missing);
  }
  memory_.Barrier();
  return OkStatus();
}

Status Interpreter::RunShuffle(const Op& op, int32_t subgroup) {
  const int32_t begin = subgroup * subgroup_size_;
  const int32_t end = SubgroupEnd(subgroup);
  for (int32_t item = begin; item < end; ++item) {
    const int64_t lane = op.opcode == Opcode::kSubgroupShuffle ? IntAt(op.operands[1], item)
                                                               : (item - begin) ^ op.immediates[0];
    if (lane < 0 || lane >= end - begin) {
      return FailedPrecondition(
          "Op '{}' of workitem {} reads lane {} of subgroup {}, which has {} active workitems.",
          FormatOpcode(op.opcode), item, lane, subgroup, end - begin);
    }
    std::copy_n(Lanes(op.operands[0], begin + static_cast<int32_t>(lane)), op.type.lanes,
                Lanes(op.results[0], item));
  }
  return OkStatus();
}

Status Interpreter::Uniform(const Op& op, ValueId operand, int32_t subgroup, uint64_t* lane) {
  const int32_t first = subgroup * subgroup_size_;
  *lane = *Lanes(operand, first);
  for (int32_t item = first + 1; item < SubgroupEnd(subgroup); ++item) {
    if (*Lanes(operand, item) == *lane) continue;
    const auto show = [&](int32_t of) {
      const DType dtype = TypeOf(operand).dtype;
      return IsFloat(dtype) ? fmt::format("{}", LaneToDouble(dtype, *Lanes(operand, of)))
                            : fmt::format("{}", IntAt(operand, of));
    };
    return FailedPrecondition(
        "Op '{}' gets {} from workitem {} and {} from workitem {} of one subgroup, where all must "
        "agree.",
        FormatOpcode(op.opcode), show(first), first, show(item), item);
  }
  return OkStatus();
}

Status Interpreter::RunFragment(const Op& op, int32_t subgroup) {
  const int32_t members = SubgroupEnd(subgroup) - subgroup * subgroup_size_;
  if (members != subgroup_size_) {
    return FailedPrecondition("Op '{}' runs in subgroup {}, which has {} of {} workitems.",
                              FormatOpcode(op.opcode), subgroup, members, subgroup_size_);
  }
  if (op.opcode == Opcode::kFragmentLoad || op.opcode == Opcode::kFragmentStore) {
    return MoveFragment(op, subgroup);
  }
  if (op.opcode == Opcode::kFragmentMma) {
    Multiply(op, subgroup);
    return OkStatus();
  }
  if (op.opcode == Opcode::kFragmentElements || op.opcode == Opcode::kFragmentOf) {
    MoveElements(op, subgroup);
    return OkStatus();
  }
  const size_t elements = static_cast<size_t>(op.type.rows) * op.type.cols;
  uint64_t* result = Lanes(op.results[0], subgroup);
  if (op.opcode == Opcode::kFragmentFill) {
    uint64_t lane = 0;
    HY_TRY(Uniform(op, op.operands[0], subgroup, &lane));
    std::fill_n(result, elements, lane);
    return OkStatus();
  }
  const DType from = TypeOf(op.operands[0]).dtype;
  const uint64_t* a = Lanes(op.operands[0], subgroup);
  const uint64_t* b = Lanes(op.operands.back(), subgroup);
  for (size_t i = 0; i < elements; ++i) {
    result[i] = op.opcode == Opcode::kConvert
                    ? ConvertLane(from, op.type.dtype, a[i])
                    : ArithmeticLane(op.opcode, op.type.dtype, a[i], b[i], 0);
  }
  return OkStatus();
}

void Interpreter::MoveElements(const Op& op, int32_t subgroup) {
  const bool takes = op.opcode == Opcode::kFragmentElements;
  const ValueId fragment = takes ? op.operands[0] : op.results[0];
  const ValueId vector = takes ? op.results[0] : op.operands[0];
  const Type type = TypeOf(fragment);
  for (int lane = 0; lane < subgroup_size_; ++lane) {
    for (int i = 0; i < ElementsPerWorkitem(type); ++i) {
      const FragmentPlace at = PlaceInFragment(type, lane, i);
      uint64_t& inside = Lanes(fragment, subgroup)[at.row * type.cols + at.col];
      uint64_t& outside = Lanes(vector, subgroup * subgroup_size_ + lane)[i];
      if (takes) {
        outside = inside;
      } else {
        inside = outside;
      }
    }
  }
}

Status Interpreter::MoveFragment(const Op& op, int32_t subgroup) {
  const bool stores = op.opcode == Opcode::kFragmentStore;
  const ValueId fragment = stores ? op.operands[1] : op.results[0];
  const Type type = TypeOf(fragment);
  uint64_t index_lane = 0;
  uint64_t stride_lane = 0;
  HY_TRY(Uniform(op, op.operands[0], subgroup, &index_lane));
  HY_TRY(Uniform(op, op.operands.back(), subgroup, &stride_lane));
  const int64_t index = LaneToInt(TypeOf(op.operands[0]).dtype, index_lane);
  const int64_t stride = LaneToInt(TypeOf(op.operands.back()).dtype, stride_lane);
  const int32_t who = type.use == FragmentUse::kAccumulator ? memory_.SubgroupAccumulator(subgroup)
                                                            : memory_.SubgroupOperand(subgroup);
  const int64_t align = AlignOf(op);
  if (align > 1) {
    HY_TRY(memory_.CheckAlign(op.opcode, op.buffer, align, index, who));
    HY_TRY(memory_.CheckAlign(op.opcode, op.buffer, align, stride, who));
  }
  const bool by_row = op.immediates[0] == static_cast<int64_t>(FragmentLayout::kRowMajor);
  uint64_t* element = Lanes(fragment, subgroup);
  for (int64_t row = 0; row < type.rows; ++row) {
    for (int64_t col = 0; col < type.cols; ++col, ++element) {
      const uint64_t offset =
          static_cast<uint64_t>(by_row ? row : col) * static_cast<uint64_t>(stride) +
          static_cast<uint64_t>(by_row ? col : row);
      const int64_t at = static_cast<int64_t>(static_cast<uint64_t>(index) + offset);
      HY_TRY(stores ? memory_.Write(op.opcode, op.buffer, at, who, *element)
                    : memory_.Read(op.opcode, op.buffer, at, who, element));
    }
  }
  return OkStatus();
}

// Floats: products and sums in f64, then one rounding. Products of 16-bit floats are exact there.
void Interpreter::Multiply(const Op& op, int32_t subgroup) {
  const Type a_type = TypeOf(op.operands[0]);
  const size_t m = a_type.rows;
  const size_t k = a_type.cols;
  const size_t n = op.type.cols;
  const uint64_t* a = Lanes(op.operands[0], subgroup);
  const uint64_t* b = Lanes(op.operands[1], subgroup);
  const uint64_t* c = Lanes(op.operands[2], subgroup);
  uint64_t* result = Lanes(op.results[0], subgroup);
  if (IsInteger(a_type.dtype)) {
    for (size_t row = 0; row < m; ++row) {
      for (size_t col = 0; col < n; ++col) {
        uint64_t sum = c[row * n + col];
        for (size_t i = 0; i < k; ++i) {
          sum += static_cast<uint64_t>(LaneToInt(a_type.dtype, a[row * k + i]) *
                                       LaneToInt(a_type.dtype, b[i * n + col]));
        }
        result[row * n + col] = ConstLane(op.type.dtype, static_cast<int64_t>(sum));
      }
    }
    return;
  }
  std::vector<double> left(m * k);
  std::vector<double> right(k * n);
  for (size_t i = 0; i < left.size(); ++i) left[i] = LaneToDouble(a_type.dtype, a[i]);
  for (size_t i = 0; i < right.size(); ++i) right[i] = LaneToDouble(a_type.dtype, b[i]);
  for (size_t row = 0; row < m; ++row) {
    for (size_t col = 0; col < n; ++col) {
      double sum = LaneToDouble(op.type.dtype, c[row * n + col]);
      for (size_t i = 0; i < k; ++i) sum += left[row * k + i] * right[i * n + col];
      result[row * n + col] = ConvertLane(DType::kF64, op.type.dtype, std::bit_cast<uint64_t>(sum));
    }
  }
}

Status Interpreter::StartCopy(const Op& op, int32_t item) {
  const BufferId source = static_cast<BufferId>(op.immediates[0]);
  const int64_t elements = op.immediates[1];
  PendingCopy copy{&op, IntAt(op.operands[0], item), IntAt(op.operands[1], item), false};
  copy.zeros = op.operands.size() > 2 && *Lanes(op.operands[2], item) == 0;
  HY_TRY(memory_.CheckAlign(op.opcode, op.buffer, elements, copy.to, item));
  if (!copy.zeros) {
    HY_TRY(memory_.CheckAlign(op.opcode, source, elements, copy.from, item));
    // The source may be read at once; the values are taken when the copy takes effect.
    for (int64_t i = 0; i < elements; ++i) {
      uint64_t lane = 0;
      HY_TRY(memory_.Read(op.opcode, source, copy.from + i, item, &lane));
    }
  }
  for (int64_t i = 0; i < elements; ++i) {
    HY_TRY(memory_.BeginCopy(op.buffer, copy.to + i, item));
  }
  copies_[static_cast<size_t>(item)].open.push_back(copy);
  return OkStatus();
}

Status Interpreter::FinishCopies(const Op& op, int32_t item) {
  auto& groups = copies_[static_cast<size_t>(item)].groups;
  const size_t pending = static_cast<size_t>(op.immediates[0]);
  const size_t done = groups.size() > pending ? groups.size() - pending : 0;
  for (size_t g = 0; g < done; ++g) {
    for (const PendingCopy& copy : groups[g]) {
      const BufferId source = static_cast<BufferId>(copy.op->immediates[0]);
      for (int64_t i = 0; i < copy.op->immediates[1]; ++i) {
        uint64_t lane = 0;
        if (!copy.zeros) {
          HY_TRY(memory_.Read(Opcode::kAsyncCopy, source, copy.from + i, item, &lane));
        }
        memory_.EndCopy(copy.op->buffer, copy.to + i);
        HY_TRY(memory_.Write(Opcode::kAsyncCopy, copy.op->buffer, copy.to + i, item, lane));
      }
    }
  }
  groups.erase(groups.begin(), groups.begin() + static_cast<ptrdiff_t>(done));
  return OkStatus();
}

}  // namespace halyard::kernel
