// SPDX-License-Identifier: Apache-2.0
// Loops, branches, reports and barriers as SPIR-V's structured control flow.
#include <cstddef>

#include "base/error_record.h"
#include "compiler/codegen/spirv/lower.h"

namespace halyard::spirv {
namespace {

uint32_t Id32(spv::SelectionControlMask mask) { return static_cast<uint32_t>(mask); }

// Scope of global memory that several workgroups touch: all of one submission run on one queue.
constexpr uint32_t kDispatchScope = static_cast<uint32_t>(spv::Scope::QueueFamily);
constexpr uint32_t kGlobalSemantics =
    static_cast<uint32_t>(spv::MemorySemanticsMask::AcquireRelease) |
    static_cast<uint32_t>(spv::MemorySemanticsMask::UniformMemory) |
    static_cast<uint32_t>(spv::MemorySemanticsMask::MakeAvailable) |
    static_cast<uint32_t>(spv::MemorySemanticsMask::MakeVisible);

}  // namespace

void KernelLowering::When(Id condition, std::span<const Id> types, Lanes values,
                          const std::function<void(Lanes)>& body) {
  const Id before = w_.current_block();
  const Id active = w_.NewId();
  const Id merge = w_.NewId();
  w_.EmitVoid(spv::Op::OpSelectionMerge, {merge, Id32(spv::SelectionControlMask::MaskNone)});
  w_.EmitVoid(spv::Op::OpBranchConditional, {condition, active, merge});
  w_.StartBlock(active);
  std::vector<Id> computed(values.size(), 0);
  body(computed);
  const Id end = w_.current_block();
  w_.EmitVoid(spv::Op::OpBranch, {merge});
  w_.StartBlock(merge);
  for (size_t i = 0; i < values.size(); ++i) {
    if (computed[i] == values[i]) continue;
    values[i] = w_.Emit(spv::Op::OpPhi, types[i], {values[i], before, computed[i], end});
  }
}

void KernelLowering::When(Id condition, const std::function<void()>& body) {
  When(condition, {}, {}, [&](Lanes) { body(); });
}

// The lanes of several IR values as one list, and back.
Status KernelLowering::LowerBody(const Op& op, Id iv, std::vector<Id>* carried) {
  const kernel::Block& block = kernel_.blocks[op.blocks[0]];
  Of(block.parameters[0])[0] = iv;
  size_t at = 0;
  for (size_t i = 1; i < block.parameters.size(); ++i) {
    for (Id& lane : Of(block.parameters[i])) lane = (*carried)[at++];
  }
  HY_TRY(LowerBlock(op.blocks[0]));
  at = 0;
  for (kernel::ValueId value : kernel_.ops[block.ops.back()].operands) {
    for (Id lane : Of(value)) (*carried)[at++] = lane;
  }
  return OkStatus();
}

// A loop that runs `copies` bodies per iteration while all of them fit below hi. `iv_end`: the
// induction variable after it.
Status KernelLowering::LowerLoop(const Op& op, Id lo, std::vector<Id>* carried, int copies,
                                 Id* iv_end) {
  const int bits = BitWidth(TypeOf(op.operands[0]).dtype);
  const Id index = w_.Int(bits);
  const Id hi = ScalarOf(op.operands[1]);
  const Id step = ScalarOf(op.operands[2]);
  const Id last_offset = Mul(bits, step, w_.ConstInt(bits, static_cast<uint64_t>(copies - 1)));
  std::vector<Id> types;
  for (size_t i = 3; i < op.operands.size(); ++i) {
    const kernel::Type type = TypeOf(op.operands[i]);
    const Id id = type.IsFragment() ? FragmentType(type) : ElementType(type.dtype);
    types.insert(types.end(), type.lanes, id);
  }
  const Id before = w_.current_block();
  const Id header = w_.NewId();
  const Id body = w_.NewId();
  const Id latch = w_.NewId();
  const Id exit = w_.NewId();
  w_.EmitVoid(spv::Op::OpBranch, {header});
  w_.StartBlock(header);
  ModuleWriter::Position iv_position = 0;
  const Id iv = w_.IncompletePhi(index, lo, before, &iv_position);
  std::vector<ModuleWriter::Position> positions(carried->size());
  for (size_t i = 0; i < carried->size(); ++i) {
    (*carried)[i] = w_.IncompletePhi(types[i], (*carried)[i], before, &positions[i]);
  }
  std::vector<Id> current = *carried;
  const Id runs = w_.Emit(spv::Op::OpSLessThan, w_.Bool(), {Add(bits, iv, last_offset), hi});
  w_.EmitVoid(spv::Op::OpLoopMerge,
              {exit, latch, static_cast<uint32_t>(spv::LoopControlMask::MaskNone)});
  w_.EmitVoid(spv::Op::OpBranchConditional, {runs, body, exit});
  w_.StartBlock(body);
  Id position = iv;
  for (int copy = 0; copy < copies; ++copy) {
    HY_TRY(LowerBody(op, position, &current));
    position = Add(bits, position, step);
  }
  w_.EmitVoid(spv::Op::OpBranch, {latch});
  w_.StartBlock(latch);
  w_.EmitVoid(spv::Op::OpBranch, {header});
  w_.CompletePhi(iv_position, position, latch);
  for (size_t i = 0; i < positions.size(); ++i) w_.CompletePhi(positions[i], current[i], latch);
  w_.StartBlock(exit);
  if (iv_end) *iv_end = iv;
  return OkStatus();
}

Status KernelLowering::LowerFor(const Op& op) {
  std::vector<Id> carried;
  for (size_t i = 3; i < op.operands.size(); ++i) {
    for (Id lane : Of(op.operands[i])) carried.push_back(lane);
  }
  const int bits = BitWidth(TypeOf(op.operands[0]).dtype);
  const Id lo = ScalarOf(op.operands[0]);
  const int copies = op.immediates[0] > 1 ? static_cast<int>(op.immediates[0]) : 1;
  const auto known = [&](size_t operand, int64_t* out) {
    const auto value = w_.IntValue(ScalarOf(op.operands[operand]));
    if (!value) return false;
    *out = bits == 32 ? static_cast<int32_t>(*value) : static_cast<int64_t>(*value);
    return true;
  };
  int64_t first = 0, limit = 0, step = 0;
  int64_t trips = -1;
  if (known(0, &first) && known(1, &limit) && known(2, &step) && step > 0) {
    const __int128 span = static_cast<__int128>(limit) - first;
    const __int128 count = span <= 0 ? 0 : (span + step - 1) / step;
    if (count < INT64_MAX) trips = static_cast<int64_t>(count);
  }
  if (trips >= 0 && trips <= copies && copies > 1) {  // the whole loop in a line
    Id iv = lo;
    for (int64_t i = 0; i < trips; ++i) {
      HY_TRY(LowerBody(op, iv, &carried));
      iv = Add(bits, iv, ScalarOf(op.operands[2]));
    }
  } else if (trips != 0) {
    const bool remainder = copies > 1 && (trips < 0 || trips % copies != 0);
    Id iv = lo;
    HY_TRY(LowerLoop(op, lo, &carried, copies, remainder ? &iv : nullptr));
    if (remainder) HY_TRY(LowerLoop(op, iv, &carried, 1, nullptr));
  }
  size_t at = 0;
  for (kernel::ValueId result : op.results) {
    for (Id& lane : Of(result)) lane = carried[at++];
  }
  return OkStatus();
}

Status KernelLowering::LowerIf(const Op& op) {
  const Id before = w_.current_block();
  const Id merge = w_.NewId();
  // A side without ops is the edge to the merge block itself.
  Id starts[2];
  for (size_t side = 0; side < 2; ++side) {
    const bool is_empty = kernel_.blocks[op.blocks[side]].ops.size() == 1;
    starts[side] = is_empty ? merge : w_.NewId();
  }
  if (starts[0] == merge && starts[1] == merge) starts[0] = w_.NewId();
  w_.EmitVoid(spv::Op::OpSelectionMerge, {merge, Id32(spv::SelectionControlMask::MaskNone)});
  w_.EmitVoid(spv::Op::OpBranchConditional, {ScalarOf(op.operands[0]), starts[0], starts[1]});
  std::vector<Id> yielded[2];
  Id ends[2];
  for (size_t side = 0; side < 2; ++side) {
    if (starts[side] != merge) {
      w_.StartBlock(starts[side]);
      HY_TRY(LowerBlock(op.blocks[side]));
    }
    const kernel::Block& block = kernel_.blocks[op.blocks[side]];
    for (kernel::ValueId value : kernel_.ops[block.ops.back()].operands) {
      for (Id lane : Of(value)) yielded[side].push_back(lane);
    }
    ends[side] = starts[side] == merge ? before : w_.current_block();
    if (starts[side] != merge) w_.EmitVoid(spv::Op::OpBranch, {merge});
  }
  w_.StartBlock(merge);
  size_t at = 0;
  for (kernel::ValueId result : op.results) {
    const kernel::Type type = TypeOf(result);
    const Id id = type.IsFragment() ? FragmentType(type) : ElementType(type.dtype);
    for (Id& lane : Of(result)) {
      lane = w_.Emit(spv::Op::OpPhi, id, {yielded[0][at], ends[0], yielded[1][at], ends[1]});
      ++at;
    }
  }
  return OkStatus();
}

void KernelLowering::LowerReport(const Op& op) {
  const Lanes condition = Of(op.operands[0]);
  const Lanes value = Of(op.operands[1]);
  const Id u32 = w_.Int(32);
  const Id u64 = w_.Int(64);
  Id any = condition[0];
  for (size_t i = 1; i < condition.size(); ++i) {
    any = w_.Emit(spv::Op::OpLogicalOr, w_.Bool(), {any, condition[i]});
  }
  When(any, [&] {
    Id reported = value.back();  // of the lowest true lane
    for (size_t i = value.size() - 1; i-- > 0;) {
      reported = Select(condition[i], u64, value[i], reported);
    }
    const Id record = arguments_[arguments_.size() - 2];
    const auto field = [&](Id type, size_t offset) {
      return w_.Emit(spv::Op::OpConvertUToPtr,
                     w_.Pointer(spv::StorageClass::PhysicalStorageBuffer, type),
                     {Add(64, record, U64(offset))});
    };
    const Id scope = U32(kDispatchScope);
    const Id relaxed = U32(0);
    const Id old = w_.Emit(
        spv::Op::OpAtomicCompareExchange, u32,
        {field(u32, offsetof(ErrorRecord, state)), scope, relaxed, relaxed, U32(1), U32(0)});
    const Id is_first = w_.Emit(spv::Op::OpIEqual, w_.Bool(), {old, U32(0)});
    When(is_first, [&] {
      const auto store = [&](Id type, size_t offset, Id stored) {
        w_.EmitVoid(spv::Op::OpStore,
                    {field(type, offset), stored,
                     static_cast<uint32_t>(spv::MemoryAccessMask::Aligned), type == u64 ? 8u : 4u});
      };
      store(u32, offsetof(ErrorRecord, dispatch), Widen(arguments_.back(), 64, 32, false));
      store(u32, offsetof(ErrorRecord, reason), U32(static_cast<uint32_t>(op.immediates[0])));
      store(u32, offsetof(ErrorRecord, site), U32(static_cast<uint32_t>(op.immediates[1])));
      store(u64, offsetof(ErrorRecord, value), reported);
      store(u64, offsetof(ErrorRecord, limit), ScalarOf(op.operands[2]));
    });
  });
}

void KernelLowering::Barrier() {
  const uint32_t semantics =
      kGlobalSemantics | static_cast<uint32_t>(spv::MemorySemanticsMask::WorkgroupMemory);
  const Id workgroup = U32(static_cast<uint32_t>(spv::Scope::Workgroup));
  w_.EmitVoid(spv::Op::OpControlBarrier, {workgroup, workgroup, U32(semantics)});
}

// One workitem counts, with a release of what the barrier brought it from all of them and an
// acquire of what the others released before they counted, which the second barrier passes on. All
// workgroups of a dispatch are of one queue family, so no device needs a wider scope. (A control
// barrier whose memory scope is the queue family is no barrier to Mesa 22.3.)
void KernelLowering::LowerLastArrival(const Op& op) {
  const auto flag = static_cast<kernel::BufferId>(kernel_.buffers.size() - 1);
  const Id u32 = w_.Int(32);
  const Id scope = U32(kDispatchScope);
  Barrier();
  const Id item =
      w_.Emit(spv::Op::OpLoad, u32, {w_.Builtin(spv::BuiltIn::LocalInvocationIndex, u32)});
  When(w_.Emit(spv::Op::OpIEqual, w_.Bool(), {item, U32(0)}), [&] {
    const int index_bits = BitWidth(TypeOf(op.operands[0]).dtype);
    const int count_bits = BitWidth(TypeOf(op.operands[1]).dtype);
    const Id counter =
        PointerTo(op.buffer, ScalarOf(op.operands[0]), index_bits, 0, ChunkOf(op.buffer, 1, 1));
    const Id before =
        w_.Emit(spv::Op::OpAtomicIAdd, u32, {counter, scope, U32(kGlobalSemantics), U32(1)});
    const Id is_last =
        w_.Emit(spv::Op::OpIEqual, w_.Bool(),
                {Add(32, before, U32(1)), Widen(ScalarOf(op.operands[1]), count_bits, 32, true)});
    When(is_last, [&] {  // it counts from 0 again
      w_.EmitVoid(spv::Op::OpAtomicStore, {counter, scope, U32(0), U32(0)});
    });
    Id told[] = {Select(is_last, u32, U32(1), U32(0))};
    Store(flag, U32(0), 32, 1, told);
  });
  Barrier();
  Id told[1];
  Load(flag, U32(0), 32, 1, told);
  Of(op.results[0])[0] = w_.Emit(spv::Op::OpINotEqual, w_.Bool(), {told[0], U32(0)});
}

}  // namespace halyard::spirv
