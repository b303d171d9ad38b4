// SPDX-License-Identifier: Apache-2.0
// Values, memory and control flow; what workitems do together is in interpreter_collective.cc.
#include "compiler/kernel/interpreter.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "compiler/kernel/interpreter_machine.h"
#include "compiler/kernel/lane_math.h"
#include "compiler/kernel/opcode.h"

namespace halyard::kernel {
namespace {

int32_t WorkitemsOf(const Kernel& kernel) {
  return static_cast<int32_t>(kernel.workgroup_size[0] * kernel.workgroup_size[1] *
                              kernel.workgroup_size[2]);
}

bool IsCpuKernel(const Kernel& kernel) {
  return WorkitemsOf(kernel) == 1 && kernel.subgroup_size == 0;
}

int32_t SubgroupSizeOf(const Kernel& kernel, const InterpreterOptions& options) {
  if (kernel.subgroup_size != 0) return kernel.subgroup_size;
  return IsCpuKernel(kernel) ? 1 : std::max(options.subgroup_size, 1);
}

void Fill(uint64_t* result, int lanes, uint64_t value) {
  for (int i = 0; i < lanes; ++i) result[i] = value;
}

void Bitcast(Type from, const uint64_t* a, Type to, uint64_t* result) {
  uint8_t bytes[kMaxLanes * sizeof(uint64_t)];
  const size_t from_size = static_cast<size_t>(BitWidth(from.dtype)) / 8;
  const size_t to_size = static_cast<size_t>(BitWidth(to.dtype)) / 8;
  for (size_t i = 0; i < from.lanes; ++i) std::memcpy(bytes + i * from_size, &a[i], from_size);
  for (size_t i = 0; i < to.lanes; ++i) {
    result[i] = 0;
    std::memcpy(&result[i], bytes + i * to_size, to_size);
  }
}

uint64_t Reduce(Opcode opcode, Type type, const uint64_t* a) {
  static constexpr std::pair<Opcode, Opcode> kCombine[] = {
      {Opcode::kReduceAdd, Opcode::kAdd}, {Opcode::kReduceMul, Opcode::kMul},
      {Opcode::kReduceMin, Opcode::kMin}, {Opcode::kReduceMax, Opcode::kMax},
      {Opcode::kReduceAnd, Opcode::kAnd}, {Opcode::kReduceOr, Opcode::kOr}};
  Opcode combine = Opcode::kAdd;
  for (const auto& [reduce, with] : kCombine) {
    if (reduce == opcode) combine = with;
  }
  uint64_t lanes[kMaxLanes];
  std::copy_n(a, type.lanes, lanes);
  for (size_t half = type.lanes / 2; half >= 1; half /= 2) {
    for (size_t i = 0; i < half; ++i) {
      lanes[i] = ArithmeticLane(combine, type.dtype, lanes[i], lanes[i + half], 0);
    }
  }
  return lanes[0];
}

}  // namespace

Interpreter::Interpreter(const Kernel& kernel, std::span<const int64_t> scalars, ErrorRecord* error,
                         InterpreterOptions options)
    : kernel_(kernel),
      scalars_(scalars),
      error_(error),
      ops_left_(options.max_ops),
      workitems_(WorkitemsOf(kernel)),
      subgroup_size_(SubgroupSizeOf(kernel, options)),
      subgroups_((workitems_ + subgroup_size_ - 1) / subgroup_size_),
      all_(static_cast<size_t>(workitems_)),
      memory_(kernel, workitems_, subgroups_, !IsCpuKernel(kernel)) {
  std::iota(all_.begin(), all_.end(), 0);
  size_t at = 0;
  for (const Value& value : kernel.values) {
    const Type type = value.type;
    const size_t elements =
        type.IsFragment() ? static_cast<size_t>(type.rows) * type.cols : type.lanes;
    places_.push_back({at, elements});
    at += elements * static_cast<size_t>(type.IsFragment() ? subgroups_ : workitems_);
  }
  lanes_.assign(at, 0);
}

Status Interpreter::Bind(std::span<const BufferArgument> arguments) {
  if (scalars_.size() != kernel_.scalars.size()) {
    return InvalidArgument("Kernel '{}' got {} scalars; it has {}.", kernel_.name, scalars_.size(),
                           kernel_.scalars.size());
  }
  return memory_.Bind(arguments);
}

Status Interpreter::RunWorkgroup(const int64_t (&id)[3]) {
  for (int axis = 0; axis < 3; ++axis) workgroup_[axis] = id[axis];
  HY_TRY(memory_.BeginWorkgroup());
  copies_.assign(static_cast<size_t>(workitems_), ItemCopies());
  products_.assign(static_cast<size_t>(subgroups_ / kSubgroupsOfQuad), QuadProducts());
  return RunBlock(0, all_).WithContext(fmt::format(
      "interpreting workgroup ({}, {}, {}) of kernel '{}'", id[0], id[1], id[2], kernel_.name));
}

Status Interpreter::Spend(size_t ops) {
  ops_left_ -= static_cast<int64_t>(ops);
  if (ops_left_ >= 0) return OkStatus();
  return DeadlineExceeded("The kernel runs more ops than the interpreter's limit.");
}

Status Interpreter::RunBlock(BlockId block, Items items) {
  for (OpId id : kernel_.blocks[block].ops) {
    HY_TRY(Spend(items.size()));
    const Op& op = kernel_.ops[id];
    if (op.opcode != Opcode::kYield) HY_TRY(RunOp(op, items));
  }
  return OkStatus();
}

Status Interpreter::RunOp(const Op& op, Items items) {
  switch (InfoOf(op.opcode).op_class) {
    case OpClass::kArithmetic:
    case OpClass::kCpu:
    case OpClass::kCompare:
    case OpClass::kConvert:
      if (op.type.IsFragment()) return RunCollective(op, items);
      if (IsAll(items)) {
        RunElements(op, 0, items.size());
      } else {
        for (int32_t item : items) RunElements(op, item, 1);
      }
      return OkStatus();
    case OpClass::kMemory:
      for (int32_t item : items) HY_TRY(RunMemory(op, item));
      return OkStatus();
    case OpClass::kControl:
      if (op.opcode == Opcode::kFor) return RunFor(op, items);
      if (op.opcode == Opcode::kIf) return RunIf(op, items);
      for (int32_t item : items) RunReport(op, item);
      return OkStatus();
    case OpClass::kSource:
    case OpClass::kLanes:
    case OpClass::kSelect:
    case OpClass::kReduce:
      for (int32_t item : items) RunPlain(op, item);
      return OkStatus();
    case OpClass::kFragment:
    case OpClass::kGpu:
      return RunCollective(op, items);
  }
  return OkStatus();
}

// Ops that treat each element alike, on the elements of `items` workitems in a row.
void Interpreter::RunElements(const Op& op, int32_t first, size_t items) {
  uint64_t* result = Lanes(op.results[0], first);
  const uint64_t* a = Lanes(op.operands[0], first);
  const uint64_t* b = op.operands.size() > 1 ? Lanes(op.operands[1], first) : a;
  const uint64_t* c = op.operands.size() > 2 ? Lanes(op.operands[2], first) : a;
  const Type from = TypeOf(op.operands[0]);
  if (op.opcode == Opcode::kBitcast) {
    for (size_t i = 0; i < items; ++i) {
      Bitcast(from, a + i * from.lanes, op.type, result + i * op.type.lanes);
    }
    return;
  }
  const size_t elements = items * op.type.lanes;
  if (op.opcode == Opcode::kConvert) {
    for (size_t i = 0; i < elements; ++i) result[i] = ConvertLane(from.dtype, op.type.dtype, a[i]);
  } else if (InfoOf(op.opcode).op_class == OpClass::kCompare) {
    for (size_t i = 0; i < elements; ++i)
      result[i] = CompareLane(op.opcode, from.dtype, a[i], b[i]);
  } else {
    for (size_t i = 0; i < elements; ++i)
      result[i] = ArithmeticLane(op.opcode, op.type.dtype, a[i], b[i], c[i]);
  }
}

int64_t Interpreter::IdOf(const Op& op, int32_t item) const {
  const int64_t* size = kernel_.workgroup_size;
  switch (op.opcode) {
    case Opcode::kWorkgroupId:
      return workgroup_[op.immediates[0]];
    case Opcode::kWorkitemId:
      if (op.immediates[0] == 0) return item % size[0];
      if (op.immediates[0] == 1) return item / size[0] % size[1];
      return item / (size[0] * size[1]);
    case Opcode::kSubgroupLane:
      return item % subgroup_size_;
    case Opcode::kSubgroupId:
      return item / subgroup_size_;
    default:
      return subgroup_size_;
  }
}

void Interpreter::RunPlain(const Op& op, int32_t item) {
  const int lanes = op.type.lanes;
  uint64_t* result = Lanes(op.results[0], item);
  const uint64_t* a = op.operands.empty() ? nullptr : Lanes(op.operands[0], item);
  switch (op.opcode) {
    case Opcode::kConst:
      Fill(result, lanes, ConstLane(op.type.dtype, op.immediates[0]));
      return;
    case Opcode::kScalar:
      *result = static_cast<uint64_t>(scalars_[static_cast<size_t>(op.immediates[0])]);
      return;
    case Opcode::kWorkgroupId:
    case Opcode::kWorkitemId:
    case Opcode::kSubgroupLane:
    case Opcode::kSubgroupId:
    case Opcode::kSubgroupSize:
      *result = ConstLane(op.type.dtype, IdOf(op, item));
      return;
    case Opcode::kIota:
      for (int i = 0; i < lanes; ++i) result[i] = static_cast<uint64_t>(i);
      return;
    case Opcode::kSplat:
      Fill(result, lanes, a[0]);
      return;
    case Opcode::kExtract:
      *result = a[op.immediates[0]];
      return;
    case Opcode::kInsert:
      for (int i = 0; i < lanes; ++i) result[i] = a[i];
      result[op.immediates[0]] = *Lanes(op.operands[1], item);
      return;
    case Opcode::kShuffle: {
      const uint64_t* b = Lanes(op.operands[1], item);
      const int64_t width = TypeOf(op.operands[0]).lanes;
      for (int i = 0; i < lanes; ++i) {
        const int64_t lane = op.immediates[static_cast<size_t>(i)];
        result[i] = lane < width ? a[lane] : b[lane - width];
      }
      return;
    }
    case Opcode::kSelect: {
      const bool one_mask = TypeOf(op.operands[0]).lanes == 1;
      const uint64_t* b = Lanes(op.operands[1], item);
      const uint64_t* c = Lanes(op.operands[2], item);
      for (int i = 0; i < lanes; ++i) result[i] = a[one_mask ? 0 : i] != 0 ? b[i] : c[i];
      return;
    }
    default:
      HY_CHECK(InfoOf(op.opcode).op_class == OpClass::kReduce, "{}", FormatOpcode(op.opcode));
      *result = Reduce(op.opcode, TypeOf(op.operands[0]), a);
  }
}

Status Interpreter::RunMemory(const Op& op, int32_t item) {
  const bool per_lane = op.opcode == Opcode::kGather || op.opcode == Opcode::kScatter;
  const uint64_t* indices = Lanes(op.operands[0], item);
  const DType index_dtype = TypeOf(op.operands[0]).dtype;
  const int64_t first = LaneToInt(index_dtype, indices[0]);
  const auto index_of = [&](int lane) -> int64_t {
    if (per_lane) return LaneToInt(index_dtype, indices[lane]);
    return static_cast<int64_t>(static_cast<uint64_t>(first) + static_cast<uint64_t>(lane));
  };
  const int64_t align = op.immediates.empty() ? 1 : AlignOf(op);
  switch (op.opcode) {
    case Opcode::kLoad:
    case Opcode::kGather: {
      uint64_t* result = Lanes(op.results[0], item);
      const uint64_t* mask = op.operands.size() > 1 ? Lanes(op.operands[1], item) : nullptr;
      for (int i = 0; i < op.type.lanes; ++i) {
        if (mask && mask[i] == 0) {
          result[i] = Lanes(op.operands[2], item)[i];
          continue;
        }
        if (align > 1) HY_TRY(memory_.CheckAlign(op.opcode, op.buffer, align, first, item));
        HY_TRY(memory_.Read(op.opcode, op.buffer, index_of(i), item, &result[i]));
      }
      return OkStatus();
    }
    case Opcode::kBroadcastLoad: {
      uint64_t lane = 0;
      HY_TRY(memory_.Read(op.opcode, op.buffer, first, item, &lane));
      Fill(Lanes(op.results[0], item), op.type.lanes, lane);
      return OkStatus();
    }
    case Opcode::kStore:
    case Opcode::kScatter: {
      const uint64_t* value = Lanes(op.operands[1], item);
      const uint64_t* mask = op.operands.size() > 2 ? Lanes(op.operands[2], item) : nullptr;
      const int lanes = TypeOf(op.operands[1]).lanes;
      for (int i = 0; i < lanes; ++i) {
        if (mask && mask[i] == 0) continue;
        if (align > 1) HY_TRY(memory_.CheckAlign(op.opcode, op.buffer, align, first, item));
        HY_TRY(memory_.Write(op.opcode, op.buffer, index_of(i), item, value[i]));
      }
      return OkStatus();
    }
    case Opcode::kAtomicAdd:
      return memory_.AtomicAdd(op.buffer, first, item, *Lanes(op.operands[1], item));
    default:
      return OkStatus();  // a prefetch may point anywhere
  }
}

void Interpreter::RunReport(const Op& op, int32_t item) {
  for (int i = 0; i < TypeOf(op.operands[0]).lanes; ++i) {
    if (Lanes(op.operands[0], item)[i] == 0) continue;
    if (error_->state == 0) {
      *error_ = {1,
                 0,
                 static_cast<uint32_t>(op.immediates[0]),
                 static_cast<uint32_t>(op.immediates[1]),
                 IntAt(op.operands[1], item, i),
                 IntAt(op.operands[2], item)};
    }
    return;
  }
}

Status Interpreter::RunIf(const Op& op, Items items) {
  std::vector<int32_t> takers[2];
  size_t then_count = 0;
  for (int32_t item : items) then_count += *Lanes(op.operands[0], item) != 0 ? 1 : 0;
  if (then_count != 0 && then_count != items.size()) {
    for (int32_t item : items) {
      takers[*Lanes(op.operands[0], item) != 0 ? 0 : 1].push_back(item);
    }
  }
  for (size_t branch = 0; branch < 2; ++branch) {
    Items active = takers[branch];
    if (then_count == (branch == 0 ? items.size() : 0)) active = items;
    if (active.empty()) continue;
    HY_TRY(RunBlock(op.blocks[branch], active));
    const Op& yield = kernel_.ops[kernel_.blocks[op.blocks[branch]].ops.back()];
    HY_TRY(Copy(op, yield.operands, op.results, active));
  }
  return OkStatus();
}

Status Interpreter::RunFor(const Op& op, Items items) {
  const Block& body = kernel_.blocks[op.blocks[0]];
  const DType dtype = TypeOf(op.operands[0]).dtype;
  const std::span<const ValueId> operands(op.operands);
  const std::span<const ValueId> parameters(body.parameters);
  HY_TRY(Copy(op, operands.subspan(3), parameters.subspan(1), items));
  struct Range {
    int64_t iv;
    int64_t hi;
    int64_t step;
  };
  std::vector<Range> ranges;  // of the running workitems
  std::vector<int32_t> running;
  for (int32_t item : items) {
    const Range range{IntAt(op.operands[0], item), IntAt(op.operands[1], item),
                      IntAt(op.operands[2], item)};
    if (range.step < 1) {
      return FailedPrecondition("A loop has the step {}; the least is 1.", range.step);
    }
    if (range.iv >= range.hi) continue;
    running.push_back(item);
    ranges.push_back(range);
  }
  while (!running.empty()) {
    HY_TRY(Spend(running.size()));
    for (size_t i = 0; i < running.size(); ++i) {
      *Lanes(parameters[0], running[i]) = ConstLane(dtype, ranges[i].iv);
    }
    HY_TRY(RunBlock(op.blocks[0], running));
    HY_TRY(Copy(op, kernel_.ops[body.ops.back()].operands, parameters.subspan(1), running));
    size_t kept = 0;
    for (size_t i = 0; i < running.size(); ++i) {
      Range range = ranges[i];
      if (__builtin_add_overflow(range.iv, range.step, &range.iv) || range.iv >= range.hi) continue;
      running[kept] = running[i];
      ranges[kept++] = range;
    }
    running.resize(kept);
    ranges.resize(kept);
  }
  return Copy(op, parameters.subspan(1), op.results, items);
}

// Simultaneous: a loop may yield its carried values in another order.
Status Interpreter::Copy(const Op& op, std::span<const ValueId> from, std::span<const ValueId> to,
                         Items items) {
  held_.clear();
  std::vector<int32_t> subgroups;
  for (ValueId value : from) {
    if (TypeOf(value).IsFragment() && subgroups.empty()) {
      HY_TRY(WholeSubgroups(op, items, &subgroups));
    }
  }
  const auto holders = [&](ValueId value) {
    return TypeOf(value).IsFragment() ? Items(subgroups) : items;
  };
  for (ValueId value : from) {
    for (int32_t i : holders(value)) {
      const uint64_t* lanes = Lanes(value, i);
      held_.insert(held_.end(), lanes, lanes + places_[value].stride);
    }
  }
  const uint64_t* next = held_.data();
  for (ValueId value : to) {
    for (int32_t i : holders(value)) {
      std::copy_n(next, places_[value].stride, Lanes(value, i));
      next += places_[value].stride;
    }
  }
  return OkStatus();
}

Status Interpret(const Kernel& kernel, std::span<const BufferArgument> buffers,
                 std::span<const int64_t> scalars, const int64_t (&grid)[3], ErrorRecord* error,
                 InterpreterOptions options) {
  Interpreter interpreter(kernel, scalars, error, options);
  HY_TRY(interpreter.Bind(buffers));
  for (int64_t z = 0; z < grid[2]; ++z) {
    for (int64_t y = 0; y < grid[1]; ++y) {
      for (int64_t x = 0; x < grid[0]; ++x) {
        const int64_t id[3] = {x, y, z};
        HY_TRY(interpreter.RunWorkgroup(id));
      }
    }
  }
  return OkStatus();
}

}  // namespace halyard::kernel
