// SPDX-License-Identifier: Apache-2.0
// State of a workgroup apart from state of the dispatch, so that workitems can be added: a workitem
// is then one set of values, and a barrier the place where all of them are advanced to.
#include "compiler/kernel/interpreter.h"

#include <cstring>
#include <vector>

#include "base/check.h"
#include "compiler/kernel/lane_math.h"
#include "compiler/kernel/opcode.h"

namespace halyard::kernel {
namespace {

struct Memory {
  uint8_t* data = nullptr;
  int64_t elements = 0;
  bool tracked = false;
  std::vector<bool> written;   // per element, when tracked
  std::vector<uint8_t> owned;  // allocations
};

class Interpreter {
 public:
  Interpreter(const Kernel& kernel, std::span<const int64_t> scalars, ErrorRecord* error,
              InterpreterLimits limits)
      : kernel_(kernel), scalars_(scalars), error_(error), ops_left_(limits.max_ops) {
    size_t at = 0;
    for (const Value& value : kernel.values) {
      offsets_.push_back(at);
      at += value.type.lanes;
    }
    lanes_.assign(at, 0);
  }

  Status Bind(std::span<const BufferArgument> arguments) {
    size_t next = 0;
    for (const Buffer& buffer : kernel_.buffers) {
      Memory memory;
      if (buffer.space == MemorySpace::kGlobal) {
        if (next == arguments.size()) break;
        const BufferArgument& argument = arguments[next++];
        memory.data = static_cast<uint8_t*>(argument.data);
        memory.elements = argument.elements;
        memory.tracked = !argument.initialised;
        if (memory.tracked) memory.written.assign(static_cast<size_t>(argument.elements), false);
      }
      memories_.push_back(std::move(memory));
    }
    if (memories_.size() != kernel_.buffers.size() || next != arguments.size() ||
        scalars_.size() != kernel_.scalars.size()) {
      return InvalidArgument(
          "Kernel '{}' got {} buffers and {} scalars; it has {} buffers and allocations and {} "
          "scalars.",
          kernel_.name, arguments.size(), scalars_.size(), kernel_.buffers.size(),
          kernel_.scalars.size());
    }
    return OkStatus();
  }

  Status RunWorkgroup(const int64_t (&id)[3]) {
    for (int axis = 0; axis < 3; ++axis) workgroup_[axis] = id[axis];
    for (size_t i = 0; i < memories_.size(); ++i) {
      const Buffer& buffer = kernel_.buffers[i];
      if (buffer.space == MemorySpace::kGlobal) continue;
      Memory& memory = memories_[i];
      HY_ASSIGN(const int64_t bytes, StorageBytes(buffer.dtype, buffer.elements));
      memory.owned.assign(static_cast<size_t>(bytes), 0xcd);
      memory.data = memory.owned.data();
      memory.elements = buffer.elements;
      memory.tracked = true;
      memory.written.assign(static_cast<size_t>(buffer.elements), false);
    }
    return RunBlock(0).WithContext(fmt::format("interpreting workgroup ({}, {}, {}) of kernel '{}'",
                                               id[0], id[1], id[2], kernel_.name));
  }

 private:
  uint64_t* Lanes(ValueId value) { return lanes_.data() + offsets_[value]; }
  Type TypeOf(ValueId value) const { return kernel_.values[value].type; }
  int64_t IntAt(ValueId value, int lane = 0) {
    return LaneToInt(TypeOf(value).dtype, Lanes(value)[lane]);
  }

  Status RunBlock(BlockId block) {
    for (OpId id : kernel_.blocks[block].ops) {
      if (--ops_left_ < 0)
        return DeadlineExceeded("The kernel runs more ops than the interpreter's limit.");
      const Op& op = kernel_.ops[id];
      if (op.opcode != Opcode::kYield) HY_TRY(RunOp(op));
    }
    return OkStatus();
  }

  Status RunOp(const Op& op) {
    const OpcodeInfo& info = InfoOf(op.opcode);
    uint64_t* result = op.results.empty() ? nullptr : Lanes(op.results[0]);
    switch (info.op_class) {
      case OpClass::kArithmetic: {
        const uint64_t* a = Lanes(op.operands[0]);
        const uint64_t* b = op.operands.size() > 1 ? Lanes(op.operands[1]) : a;
        const uint64_t* c = op.operands.size() > 2 ? Lanes(op.operands[2]) : a;
        for (int i = 0; i < op.type.lanes; ++i) {
          result[i] = ArithmeticLane(op.opcode, op.type.dtype, a[i], b[i], c[i]);
        }
        return OkStatus();
      }
      case OpClass::kCompare:
        for (int i = 0; i < op.type.lanes; ++i) {
          result[i] = CompareLane(op.opcode, TypeOf(op.operands[0]).dtype, Lanes(op.operands[0])[i],
                                  Lanes(op.operands[1])[i]);
        }
        return OkStatus();
      case OpClass::kReduce:
        *result = Reduce(op);
        return OkStatus();
      case OpClass::kMemory:
        return RunMemory(op);
      case OpClass::kControl:
        return RunControl(op);
      case OpClass::kSource:
      case OpClass::kLanes:
      case OpClass::kSelect:
      case OpClass::kConvert:
        RunPlain(op, result);
        return OkStatus();
      default:
        return Unimplemented("The interpreter does not have the op '{}'.", info.name);
    }
  }

  void RunPlain(const Op& op, uint64_t* result) {
    const int lanes = op.type.lanes;
    const uint64_t* a = op.operands.empty() ? nullptr : Lanes(op.operands[0]);
    switch (op.opcode) {
      case Opcode::kConst:
        Fill(result, lanes, ConstLane(op.type.dtype, op.immediates[0]));
        return;
      case Opcode::kScalar:
        *result = static_cast<uint64_t>(scalars_[static_cast<size_t>(op.immediates[0])]);
        return;
      case Opcode::kWorkgroupId:
        *result = static_cast<uint64_t>(workgroup_[op.immediates[0]]);
        return;
      case Opcode::kWorkitemId:
      case Opcode::kSubgroupLane:
      case Opcode::kSubgroupId:
        *result = 0;
        return;
      case Opcode::kSubgroupSize:
        *result = 1;
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
        result[op.immediates[0]] = *Lanes(op.operands[1]);
        return;
      case Opcode::kShuffle: {
        const uint64_t* b = Lanes(op.operands[1]);
        const int64_t width = TypeOf(op.operands[0]).lanes;
        for (int i = 0; i < lanes; ++i) {
          const int64_t lane = op.immediates[static_cast<size_t>(i)];
          result[i] = lane < width ? a[lane] : b[lane - width];
        }
        return;
      }
      case Opcode::kSelect:
        for (int i = 0; i < lanes; ++i) {
          const bool first = a[TypeOf(op.operands[0]).lanes == 1 ? 0 : i] != 0;
          result[i] = Lanes(op.operands[first ? 1 : 2])[i];
        }
        return;
      case Opcode::kConvert:
        for (int i = 0; i < lanes; ++i) {
          result[i] = ConvertLane(TypeOf(op.operands[0]).dtype, op.type.dtype, a[i]);
        }
        return;
      case Opcode::kBitcast:
        Bitcast(TypeOf(op.operands[0]), a, op.type, result);
        return;
      default:
        HY_UNREACHABLE("{}", FormatOpcode(op.opcode));
    }
  }

  static void Fill(uint64_t* result, int lanes, uint64_t value) {
    for (int i = 0; i < lanes; ++i) result[i] = value;
  }

  static void Bitcast(Type from, const uint64_t* a, Type to, uint64_t* result) {
    std::vector<uint8_t> bytes(static_cast<size_t>(BitWidth(from.dtype)) / 8 * from.lanes);
    const size_t from_size = static_cast<size_t>(BitWidth(from.dtype)) / 8;
    const size_t to_size = static_cast<size_t>(BitWidth(to.dtype)) / 8;
    for (size_t i = 0; i < from.lanes; ++i)
      std::memcpy(bytes.data() + i * from_size, &a[i], from_size);
    for (size_t i = 0; i < to.lanes; ++i) {
      result[i] = 0;
      std::memcpy(&result[i], bytes.data() + i * to_size, to_size);
    }
  }

  uint64_t Reduce(const Op& op) {
    static constexpr std::pair<Opcode, Opcode> kCombine[] = {
        {Opcode::kReduceAdd, Opcode::kAdd}, {Opcode::kReduceMul, Opcode::kMul},
        {Opcode::kReduceMin, Opcode::kMin}, {Opcode::kReduceMax, Opcode::kMax},
        {Opcode::kReduceAnd, Opcode::kAnd}, {Opcode::kReduceOr, Opcode::kOr}};
    Opcode combine = Opcode::kAdd;
    for (const auto& [reduce, with] : kCombine) {
      if (reduce == op.opcode) combine = with;
    }
    const Type type = TypeOf(op.operands[0]);
    std::vector<uint64_t> lanes(Lanes(op.operands[0]), Lanes(op.operands[0]) + type.lanes);
    for (size_t half = lanes.size() / 2; half >= 1; half /= 2) {
      for (size_t i = 0; i < half; ++i) {
        lanes[i] = ArithmeticLane(combine, type.dtype, lanes[i], lanes[i + half], 0);
      }
    }
    return lanes[0];
  }

  Status CheckBounds(const Op& op, int64_t index) {
    const Memory& memory = memories_[op.buffer];
    if (index >= 0 && index < memory.elements) return OkStatus();
    return OutOfRange("Op '{}' reaches index {} of buffer '{}', which has {} elements.",
                      FormatOpcode(op.opcode), index, kernel_.buffers[op.buffer].name,
                      memory.elements);
  }

  Result<uint64_t> Read(const Op& op, int64_t index) {
    HY_TRY(CheckBounds(op, index));
    const Memory& memory = memories_[op.buffer];
    if (memory.tracked && !memory.written[static_cast<size_t>(index)]) {
      return FailedPrecondition("Op '{}' reads index {} of buffer '{}', which was never written.",
                                FormatOpcode(op.opcode), index, kernel_.buffers[op.buffer].name);
    }
    const DType dtype = kernel_.buffers[op.buffer].dtype;
    const size_t size = static_cast<size_t>(BitWidth(dtype)) / 8;
    uint64_t lane = 0;
    std::memcpy(&lane, memory.data + static_cast<size_t>(index) * size, size);
    return dtype == DType::kBool ? uint64_t{lane != 0} : lane;
  }

  Status Write(const Op& op, int64_t index, uint64_t lane) {
    HY_TRY(CheckBounds(op, index));
    Memory& memory = memories_[op.buffer];
    const size_t size = static_cast<size_t>(BitWidth(kernel_.buffers[op.buffer].dtype)) / 8;
    std::memcpy(memory.data + static_cast<size_t>(index) * size, &lane, size);
    if (memory.tracked) memory.written[static_cast<size_t>(index)] = true;
    return OkStatus();
  }

  Status RunMemory(const Op& op) {
    const bool per_lane = op.opcode == Opcode::kGather || op.opcode == Opcode::kScatter;
    const auto index_of = [&](int lane) -> int64_t {
      if (per_lane) return IntAt(op.operands[0], lane);
      return static_cast<int64_t>(static_cast<uint64_t>(IntAt(op.operands[0])) +
                                  static_cast<uint64_t>(lane));
    };
    switch (op.opcode) {
      case Opcode::kLoad:
      case Opcode::kGather: {
        uint64_t* result = Lanes(op.results[0]);
        for (int i = 0; i < op.type.lanes; ++i) {
          if (op.operands.size() > 1 && Lanes(op.operands[1])[i] == 0) {
            result[i] = Lanes(op.operands[2])[i];
            continue;
          }
          HY_ASSIGN(result[i], Read(op, index_of(i)));
        }
        return OkStatus();
      }
      case Opcode::kBroadcastLoad: {
        HY_ASSIGN(const uint64_t lane, Read(op, index_of(0)));
        Fill(Lanes(op.results[0]), op.type.lanes, lane);
        return OkStatus();
      }
      case Opcode::kStore:
      case Opcode::kScatter:
        for (int i = 0; i < TypeOf(op.operands[1]).lanes; ++i) {
          if (op.operands.size() > 2 && Lanes(op.operands[2])[i] == 0) continue;
          HY_TRY(Write(op, index_of(i), Lanes(op.operands[1])[i]));
        }
        return OkStatus();
      case Opcode::kAtomicAdd: {
        HY_ASSIGN(const uint64_t old, Read(op, index_of(0)));
        return Write(op, index_of(0),
                     ArithmeticLane(Opcode::kAdd, kernel_.buffers[op.buffer].dtype, old,
                                    *Lanes(op.operands[1]), 0));
      }
      default:
        return OkStatus();  // a prefetch may point anywhere
    }
  }

  Status RunControl(const Op& op) {
    if (op.opcode == Opcode::kFor) return RunFor(op);
    if (op.opcode == Opcode::kIf) {
      const BlockId block = op.blocks[*Lanes(op.operands[0]) != 0 ? 0 : 1];
      HY_TRY(RunBlock(block));
      Copy(kernel_.ops[kernel_.blocks[block].ops.back()].operands, 0, op.results, 0);
      return OkStatus();
    }
    if (op.opcode != Opcode::kReport) return OkStatus();
    for (int i = 0; i < TypeOf(op.operands[0]).lanes; ++i) {
      if (Lanes(op.operands[0])[i] == 0) continue;
      if (error_->state == 0) {
        *error_ = {1,
                   0,
                   static_cast<uint32_t>(op.immediates[0]),
                   static_cast<uint32_t>(op.immediates[1]),
                   IntAt(op.operands[1], i),
                   IntAt(op.operands[2])};
      }
      break;
    }
    return OkStatus();
  }

  Status RunFor(const Op& op) {
    const Block& body = kernel_.blocks[op.blocks[0]];
    const int64_t hi = IntAt(op.operands[1]);
    const int64_t step = IntAt(op.operands[2]);
    const DType dtype = TypeOf(op.operands[0]).dtype;
    if (step < 1) return FailedPrecondition("A loop has the step {}; the least is 1.", step);
    Copy(op.operands, 3, body.parameters, 1);
    for (int64_t iv = IntAt(op.operands[0]); iv < hi;) {
      if (--ops_left_ < 0)
        return DeadlineExceeded("The kernel runs more ops than the interpreter's limit.");
      *Lanes(body.parameters[0]) = ConstLane(dtype, iv);
      HY_TRY(RunBlock(op.blocks[0]));
      Copy(kernel_.ops[body.ops.back()].operands, 0, body.parameters, 1);
      if (__builtin_add_overflow(iv, step, &iv)) break;
    }
    Copy(body.parameters, 1, op.results, 0);
    return OkStatus();
  }

  // Simultaneous: a loop may yield its carried values in another order.
  void Copy(const std::vector<ValueId>& from, size_t from_first, const std::vector<ValueId>& to,
            size_t to_first) {
    std::vector<uint64_t> held;
    for (size_t i = from_first; i < from.size(); ++i) {
      held.insert(held.end(), Lanes(from[i]), Lanes(from[i]) + TypeOf(from[i]).lanes);
    }
    size_t at = 0;
    for (size_t i = to_first; i < to.size(); ++i) {
      for (int lane = 0; lane < TypeOf(to[i]).lanes; ++lane) Lanes(to[i])[lane] = held[at++];
    }
  }

  const Kernel& kernel_;
  std::span<const int64_t> scalars_;
  ErrorRecord* error_;
  int64_t ops_left_;
  int64_t workgroup_[3] = {0, 0, 0};
  std::vector<size_t> offsets_;
  std::vector<uint64_t> lanes_;
  std::vector<Memory> memories_;
};

}  // namespace

Status Interpret(const Kernel& kernel, std::span<const BufferArgument> buffers,
                 std::span<const int64_t> scalars, const int64_t (&grid)[3], ErrorRecord* error,
                 InterpreterLimits limits) {
  if (kernel.workgroup_size[0] != 1 || kernel.workgroup_size[1] != 1 ||
      kernel.workgroup_size[2] != 1) {
    return Unimplemented("Kernel '{}' has more than one workitem in a workgroup.", kernel.name);
  }
  Interpreter interpreter(kernel, scalars, error, limits);
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
