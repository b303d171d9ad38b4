// SPDX-License-Identifier: Apache-2.0
// Loads, stores and atomics. Global memory is reached by 64-bit addresses. Workgroup memory is one
// block that several views of different element types share where the target has explicit layout;
// elsewhere each allocation is an array of its own. Private memory is arrays.
#include <bit>

#include "base/check.h"
#include "compiler/codegen/spirv/lower.h"
#include "compiler/kernel/opcode.h"

namespace halyard::spirv {

using kernel::MemorySpace;
using kernel::Opcode;

namespace {

constexpr int kMaxAccessBytes = 16;

int BytesOf(DType dtype) { return BitWidth(dtype) / 8; }

}  // namespace

void KernelLowering::DeclareWorkgroupMemory() {
  explicit_layout_ = Has(GpuFeature::kWorkgroupStorage8) && Has(GpuFeature::kWorkgroupStorage16);
  variables_.assign(kernel_.buffers.size(), 0);
  workgroup_offsets_.assign(kernel_.buffers.size(), 0);
  for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
    const kernel::Buffer& buffer = kernel_.buffers[i];
    if (buffer.space == MemorySpace::kGlobal) continue;
    const auto elements = static_cast<uint32_t>(buffer.elements);
    if (buffer.space == MemorySpace::kWorkgroup && explicit_layout_) {
      workgroup_offsets_[i] = workgroup_bytes_;
      const uint32_t bytes = elements * static_cast<uint32_t>(BytesOf(buffer.dtype));
      workgroup_bytes_ += (bytes + kMaxAccessBytes - 1) / kMaxAccessBytes * kMaxAccessBytes;
      continue;
    }
    const Id array = w_.Array(MemoryElementType(buffer.dtype, buffer.space), elements);
    variables_[i] = buffer.space == MemorySpace::kPrivate
                        ? w_.LocalVariable(array)
                        : w_.Global(spv::StorageClass::Workgroup, array);
  }
}

// A bool is a byte, but a word where there is no layout to keep to.
Id KernelLowering::MemoryElementType(DType dtype, MemorySpace space) {
  const bool has_layout =
      space == MemorySpace::kGlobal || (space == MemorySpace::kWorkgroup && explicit_layout_);
  if (dtype == DType::kBool) return w_.Int(has_layout ? 8 : 32);
  return ElementType(dtype);
}

Id KernelLowering::FromMemory(Id value, DType dtype, MemorySpace space) {
  if (dtype != DType::kBool) return value;
  const bool is_word = MemoryElementType(dtype, space) == w_.Int(32);
  const Id word = is_word ? value : w_.Emit(spv::Op::OpUConvert, w_.Int(32), {value});
  return w_.Emit(spv::Op::OpINotEqual, w_.Bool(), {word, U32(0)});
}

Id KernelLowering::ToMemory(Id value, DType dtype, MemorySpace space) {
  if (dtype != DType::kBool) return value;
  const Id word = Select(value, w_.Int(32), U32(1), U32(0));
  if (MemoryElementType(dtype, space) == w_.Int(32)) return word;
  return w_.Emit(spv::Op::OpUConvert, w_.Int(8), {word});
}

// The widest access that `align` and the number of lanes allow.
KernelLowering::Chunk KernelLowering::ChunkOf(kernel::BufferId id, int lanes, int64_t align) {
  const kernel::Buffer& buffer = kernel_.buffers[id];
  const int size = BytesOf(buffer.dtype);
  const bool has_vectors = buffer.space == MemorySpace::kGlobal ||
                           (buffer.space == MemorySpace::kWorkgroup && explicit_layout_);
  const int64_t aligned = align & -align;  // its power of two
  Chunk chunk;
  while (has_vectors && 2 * chunk.count <= aligned && 2 * chunk.count * size <= kMaxAccessBytes &&
         lanes % (2 * chunk.count) == 0) {
    chunk.count *= 2;
  }
  // Small elements are accessed by whole words or alone.
  if (size * chunk.count < 4) chunk.count = 1;
  chunk.bytes = size * chunk.count;
  if (size >= 4 || chunk.count == 1) {
    chunk.component = MemoryElementType(buffer.dtype, buffer.space);
    chunk.components = chunk.count;
  } else {
    chunk.is_packed = true;
    chunk.component = w_.Int(32);
    chunk.components = chunk.bytes / 4;
  }
  return chunk;
}

std::vector<uint32_t> KernelLowering::AccessOperands(kernel::BufferId id, const Chunk& chunk,
                                                     bool is_read) {
  const kernel::Buffer& buffer = kernel_.buffers[id];
  uint32_t mask = 0;
  // What other workitems of the workgroup see after a barrier.
  const bool is_shared = has_barrier_ && (buffer.space == MemorySpace::kWorkgroup ||
                                          (buffer.space == MemorySpace::kGlobal &&
                                           (!is_read || buffer.access != kernel::Access::kRead)));
  if (is_shared) mask |= static_cast<uint32_t>(spv::MemoryAccessMask::NonPrivatePointer);
  if (buffer.space != MemorySpace::kGlobal) {
    if (mask == 0) return {};
    return {mask};
  }
  mask |= static_cast<uint32_t>(spv::MemoryAccessMask::Aligned);
  return {mask, static_cast<uint32_t>(chunk.bytes)};
}

// The address of element index + first.
Id KernelLowering::GlobalAddress(kernel::BufferId id, Id index, int index_bits, int64_t first) {
  const auto size = static_cast<uint64_t>(BytesOf(kernel_.buffers[id].dtype));
  const Id offset = Mul(64, Widen(index, index_bits, 64, true), U64(size));
  const Id address = Add(64, arguments_[id], offset);
  return Add(64, address, U64(static_cast<uint64_t>(first) * size));
}

// A pointer to the chunk at element index + first; index is a multiple of the chunk's count, as
// `first` is.
Id KernelLowering::PointerTo(kernel::BufferId id, Id index, int index_bits, int64_t first,
                             const Chunk& chunk) {
  const kernel::Buffer& buffer = kernel_.buffers[id];
  const Id type = w_.Vector(chunk.component, chunk.components);
  if (buffer.space == MemorySpace::kGlobal) {
    if (chunk.bytes == 1) w_.Require(spv::Capability::StorageBuffer8BitAccess);
    if (chunk.bytes == 2) w_.Require(spv::Capability::StorageBuffer16BitAccess);
    return w_.Emit(spv::Op::OpConvertUToPtr,
                   w_.Pointer(spv::StorageClass::PhysicalStorageBuffer, type),
                   {GlobalAddress(id, index, index_bits, first)});
  }
  const Id narrow = Widen(index, index_bits, 32, true);
  if (variables_[id] != 0) {
    const auto storage = buffer.space == MemorySpace::kPrivate ? spv::StorageClass::Function
                                                               : spv::StorageClass::Workgroup;
    const Id at = Add(32, narrow, U32(static_cast<uint32_t>(first)));
    return w_.Emit(spv::Op::OpAccessChain, w_.Pointer(storage, type), {variables_[id], at});
  }
  const auto bytes = static_cast<uint32_t>(chunk.bytes);
  auto [view, is_new] = views_.try_emplace(type, 0);
  if (is_new) {
    w_.Require(spv::Capability::WorkgroupMemoryExplicitLayoutKHR);
    w_.RequireExtension("SPV_KHR_workgroup_memory_explicit_layout");
    if (bytes == 1) w_.Require(spv::Capability::WorkgroupMemoryExplicitLayout8BitAccessKHR);
    if (bytes == 2) w_.Require(spv::Capability::WorkgroupMemoryExplicitLayout16BitAccessKHR);
    view->second = w_.Global(spv::StorageClass::Workgroup,
                             w_.ArrayBlock(type, workgroup_bytes_ / bytes, bytes));
    w_.Decorate(view->second, spv::Decoration::Aliased);
  }
  Id at = narrow;
  if (chunk.count > 1) {
    const auto known = w_.IntValue(narrow);
    const auto shift = static_cast<uint32_t>(std::countr_zero(static_cast<uint32_t>(chunk.count)));
    at = known ? U32(static_cast<uint32_t>(*known) >> shift)
               : w_.Emit(spv::Op::OpShiftRightLogical, w_.Int(32), {narrow, U32(shift)});
  }
  const uint32_t start = workgroup_offsets_[id] / bytes +
                         static_cast<uint32_t>(first) / static_cast<uint32_t>(chunk.count);
  return w_.Emit(spv::Op::OpAccessChain, w_.Pointer(spv::StorageClass::Workgroup, type),
                 {view->second, U32(0), Add(32, at, U32(start))});
}

void KernelLowering::Load(kernel::BufferId id, Id index, int index_bits, int64_t align, Lanes out) {
  const kernel::Buffer& buffer = kernel_.buffers[id];
  const int lanes = static_cast<int>(out.size());
  const Chunk chunk = ChunkOf(id, lanes, align);
  const Id type = w_.Vector(chunk.component, chunk.components);
  const int bits = BitWidth(buffer.dtype);
  for (int first = 0; first < lanes; first += chunk.count) {
    std::vector<uint32_t> operands = {PointerTo(id, index, index_bits, first, chunk)};
    for (uint32_t word : AccessOperands(id, chunk, true)) operands.push_back(word);
    const Id loaded = w_.Emit(spv::Op::OpLoad, type, operands);
    size_t at = static_cast<size_t>(first);
    for (int c = 0; c < chunk.components; ++c) {
      const Id component = chunk.components == 1
                               ? loaded
                               : w_.Emit(spv::Op::OpCompositeExtract, chunk.component,
                                         {loaded, static_cast<uint32_t>(c)});
      if (!chunk.is_packed) {
        out[at++] = FromMemory(component, buffer.dtype, buffer.space);
        continue;
      }
      if (buffer.dtype == DType::kBool) {
        for (uint32_t byte = 0; byte < 4; ++byte) {
          const Id masked =
              w_.Emit(spv::Op::OpBitwiseAnd, w_.Int(32), {component, U32(0xffu << (8 * byte))});
          out[at++] = w_.Emit(spv::Op::OpINotEqual, w_.Bool(), {masked, U32(0)});
        }
        continue;
      }
      const Id element = ElementType(buffer.dtype);
      const int per_word = 32 / bits;
      const Id parts = w_.Emit(spv::Op::OpBitcast, w_.Vector(element, per_word), {component});
      for (int i = 0; i < per_word; ++i) {
        const Id part =
            w_.Emit(spv::Op::OpCompositeExtract, element, {parts, static_cast<uint32_t>(i)});
        if (bits == 16 && buffer.dtype != DType::kF16) halves_[part] = {component, i == 1};
        out[at++] = part;
      }
    }
  }
}

void KernelLowering::Store(kernel::BufferId id, Id index, int index_bits, int64_t align,
                           Lanes values) {
  const kernel::Buffer& buffer = kernel_.buffers[id];
  const int lanes = static_cast<int>(values.size());
  const Chunk chunk = ChunkOf(id, lanes, align);
  const Id type = w_.Vector(chunk.component, chunk.components);
  for (int first = 0; first < lanes; first += chunk.count) {
    size_t at = static_cast<size_t>(first);
    std::vector<uint32_t> components;
    for (int c = 0; c < chunk.components; ++c) {
      if (!chunk.is_packed) {
        components.push_back(ToMemory(values[at++], buffer.dtype, buffer.space));
      } else if (buffer.dtype == DType::kBool) {
        Id word = Select(values[at++], w_.Int(32), U32(1), U32(0));
        for (uint32_t byte = 1; byte < 4; ++byte) {
          const Id part = Select(values[at++], w_.Int(32), U32(1u << (8 * byte)), U32(0));
          word = w_.Emit(spv::Op::OpBitwiseOr, w_.Int(32), {word, part});
        }
        components.push_back(word);
      } else {
        const int per_word = 32 / BitWidth(buffer.dtype);
        const auto low = halves_.find(values[at]), high = halves_.find(values[at + 1]);
        if (per_word == 2 && low != halves_.end() && high != halves_.end()) {
          components.push_back(JoinHalves(low->second, high->second));
          at += 2;
          continue;
        }
        const Id parts =
            w_.Emit(spv::Op::OpCompositeConstruct, w_.Vector(ElementType(buffer.dtype), per_word),
                    std::span<const uint32_t>(values).subspan(at, static_cast<size_t>(per_word)));
        components.push_back(w_.Emit(spv::Op::OpBitcast, w_.Int(32), {parts}));
        at += static_cast<size_t>(per_word);
      }
    }
    const Id value = components.size() == 1
                         ? components[0]
                         : w_.Emit(spv::Op::OpCompositeConstruct, type, components);
    std::vector<uint32_t> operands = {PointerTo(id, index, index_bits, first, chunk), value};
    for (uint32_t word : AccessOperands(id, chunk, false)) operands.push_back(word);
    w_.EmitVoid(spv::Op::OpStore, operands);
  }
}

// Load, gather and broadcast_load. A mask of equal lanes is one branch, others are one per lane.
void KernelLowering::LowerLoad(const Op& op) {
  const Lanes indices = Of(op.operands[0]);
  const Lanes out = Of(op.results[0]);
  const int bits = BitWidth(TypeOf(op.operands[0]).dtype);
  const bool is_gather = op.opcode == Opcode::kGather;
  const int64_t align = kernel::AlignOf(op);
  if (op.opcode == Opcode::kBroadcastLoad) {
    Load(op.buffer, indices[0], bits, 1, out.first(1));
    for (Id& lane : out) lane = out[0];
    return;
  }
  const auto load_lane = [&](size_t lane, Lanes into) {
    const Id index = is_gather ? indices[lane] : Add(bits, indices[0], w_.ConstInt(bits, lane));
    Load(op.buffer, index, bits, 1, into);
  };
  if (op.operands.size() == 1) {
    if (!is_gather) return Load(op.buffer, indices[0], bits, align, out);
    for (size_t i = 0; i < out.size(); ++i) load_lane(i, out.subspan(i, 1));
    return;
  }
  const Lanes mask = Of(op.operands[1]);
  const Lanes passthrough = Of(op.operands[2]);
  const std::vector<Id> types(out.size(), ElementType(op.type.dtype));
  for (size_t i = 0; i < out.size(); ++i) out[i] = passthrough[i];
  bool is_uniform = true;
  for (Id lane : mask) is_uniform &= lane == mask[0];
  if (is_uniform) {
    When(mask[0], types, out, [&](Lanes loaded) {
      if (!is_gather) return Load(op.buffer, indices[0], bits, align, loaded);
      for (size_t i = 0; i < loaded.size(); ++i) load_lane(i, loaded.subspan(i, 1));
    });
    return;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    When(mask[i], std::span(types).first(1), out.subspan(i, 1),
         [&](Lanes loaded) { load_lane(i, loaded); });
  }
}

// Store and scatter, lane by lane in order where lanes have addresses or masks of their own.
void KernelLowering::LowerStore(const Op& op) {
  const Lanes indices = Of(op.operands[0]);
  const Lanes values = Of(op.operands[1]);
  const int bits = BitWidth(TypeOf(op.operands[0]).dtype);
  const bool is_scatter = op.opcode == Opcode::kScatter;
  const int64_t align = kernel::AlignOf(op);
  const auto store_lane = [&](size_t lane) {
    const Id index = is_scatter ? indices[lane] : Add(bits, indices[0], w_.ConstInt(bits, lane));
    Store(op.buffer, index, bits, 1, values.subspan(lane, 1));
  };
  const auto store_all = [&] {
    if (!is_scatter) return Store(op.buffer, indices[0], bits, align, values);
    for (size_t i = 0; i < values.size(); ++i) store_lane(i);
  };
  if (op.operands.size() == 2) return store_all();
  const Lanes mask = Of(op.operands[2]);
  bool is_uniform = true;
  for (Id lane : mask) is_uniform &= lane == mask[0];
  if (is_uniform) return When(mask[0], store_all);
  for (size_t i = 0; i < values.size(); ++i) {
    When(mask[i], [&] { store_lane(i); });
  }
}

void KernelLowering::LowerAtomicAdd(const Op& op) {
  const kernel::Buffer& buffer = kernel_.buffers[op.buffer];
  const Id value = ScalarOf(op.operands[1]);
  const Id index = ScalarOf(op.operands[0]);
  const int index_bits = BitWidth(TypeOf(op.operands[0]).dtype);
  if (buffer.space == MemorySpace::kPrivate) {  // nobody else sees it
    Id old[1];
    Load(op.buffer, index, index_bits, 1, old);
    old[0] = Add(BitWidth(buffer.dtype), old[0], value);
    return Store(op.buffer, index, index_bits, 1, old);
  }
  const auto scope =
      buffer.space == MemorySpace::kGlobal ? spv::Scope::QueueFamily : spv::Scope::Workgroup;
  const Id pointer = PointerTo(op.buffer, index, index_bits, 0, ChunkOf(op.buffer, 1, 1));
  w_.Emit(spv::Op::OpAtomicIAdd, ElementType(buffer.dtype),
          {pointer, U32(static_cast<uint32_t>(scope)), U32(0), value});
}

// At once, as a load and a store.
void KernelLowering::LowerAsyncCopy(const Op& op) {
  const auto source = static_cast<kernel::BufferId>(op.immediates[0]);
  const int64_t elements = op.immediates[1];
  const DType dtype = kernel_.buffers[op.buffer].dtype;
  const int to_bits = BitWidth(TypeOf(op.operands[0]).dtype);
  const int from_bits = BitWidth(TypeOf(op.operands[1]).dtype);
  const Id type = ElementType(dtype);
  std::vector<Id> lanes(static_cast<size_t>(elements),
                        dtype == DType::kBool ? w_.ConstBool(false) : w_.Null(type));
  const auto load = [&](Lanes out) {
    Load(source, ScalarOf(op.operands[1]), from_bits, elements, out);
  };
  if (op.operands.size() > 2) {
    const std::vector<Id> types(lanes.size(), type);
    When(ScalarOf(op.operands[2]), types, lanes, load);
  } else {
    load(lanes);
  }
  Store(op.buffer, ScalarOf(op.operands[0]), to_bits, elements, lanes);
}

Status KernelLowering::LowerMemory(const Op& op) {
  switch (op.opcode) {
    case Opcode::kLoad:
    case Opcode::kGather:
    case Opcode::kBroadcastLoad:
      LowerLoad(op);
      return OkStatus();
    case Opcode::kStore:
    case Opcode::kScatter:
      LowerStore(op);
      return OkStatus();
    case Opcode::kAtomicAdd:
      if (BitWidth(kernel_.buffers[op.buffer].dtype) == 64) {
        if (!Has(GpuFeature::kAtomicInt64)) {
          return Unimplemented(
              "Kernel '{}' adds to 64-bit integers atomically; target '{}' cannot.", kernel_.name,
              target_.name);
        }
        w_.Require(spv::Capability::Int64Atomics);
      }
      LowerAtomicAdd(op);
      return OkStatus();
    case Opcode::kPrefetch:  // SPIR-V has none
      return OkStatus();
    default:
      HY_UNREACHABLE("{} is no memory op", kernel::FormatOpcode(op.opcode));
  }
}

}  // namespace halyard::spirv
