// SPDX-License-Identifier: Apache-2.0
// Loads and stores, by vectors as far as the index is aligned; atomics, shuffles, async copies.
#include <algorithm>
#include <cstdlib>

#include "compiler/codegen/cuda/writer.h"

namespace halyard::cuda {

using kernel::Buffer;
using kernel::Op;
using kernel::Opcode;
using kernel::Type;
using kernel::ValueId;

namespace {

// The type of an access of so many bytes, and its words.
std::string_view WideType(size_t bytes) {
  return bytes == 16 ? "w4" : bytes == 8 ? "w2" : bytes == 4 ? "u32" : "u16";
}

Names WordsOf(const std::string& wide, size_t bytes) {
  if (bytes <= 4) return {wide};
  Names words;
  for (size_t i = 0; i < bytes / 4; ++i) words.push_back(fmt::format("{}.{}", wide, "xyzw"[i]));
  return words;
}

std::string Conjunction(const Names& mask, size_t first, size_t count) {
  std::string all = mask[first];
  for (size_t i = first + 1; i < first + count; ++i) {
    if (mask[i] != mask[first]) all += " && " + mask[i];
  }
  return all;
}

bool IsOneMask(const Names& mask, size_t first, size_t count) {
  return std::all_of(mask.begin() + static_cast<ptrdiff_t>(first),
                     mask.begin() + static_cast<ptrdiff_t>(first + count),
                     [&](const std::string& lane) { return lane == mask[first]; });
}

}  // namespace

size_t KernelWriter::ChunkOf(const Op& op, Type type) const {
  const size_t size = static_cast<size_t>(BitWidth(type.dtype)) / 8;
  size_t chunk = std::min<size_t>(static_cast<size_t>(kernel::AlignOf(op)), 16 / size);
  while (chunk > 1 && type.lanes % chunk != 0) chunk /= 2;
  return chunk;
}

// The offset of the lane is added to the pointer, so that it becomes part of the instruction.
std::string KernelWriter::ElementAt(const Op& op, const std::string& index, size_t lane) const {
  if (lane == 0) return fmt::format("(b{} + {})", op.buffer, index);
  return fmt::format("(b{} + {} + {})", op.buffer, index, lane);
}

// So is a constant that the index ends with: neighbours then share the rest of their addresses. An
// i32 index of an element below 2^30 has not wrapped where the constant is below that, too.
std::string KernelWriter::ElementAt(const Op& op, size_t lane) const {
  const ValueId index = op.operands[0];
  const kernel::OpId producer = kernel_.values[index].producer;
  if (producer != kernel::kNone && kernel_.ops[producer].opcode == Opcode::kAdd) {
    const std::vector<ValueId>& terms = kernel_.ops[producer].operands;
    const kernel::OpId last = kernel_.values[terms[1]].producer;
    constexpr int64_t kMost = int64_t{1} << 30;
    if (last != kernel::kNone && kernel_.ops[last].opcode == Opcode::kConst &&
        std::abs(kernel_.ops[last].immediates[0]) < kMost) {
      return fmt::format("(b{} + {} + ({}))", op.buffer, One(terms[0]),
                         kernel_.ops[last].immediates[0] + static_cast<int64_t>(lane));
    }
  }
  return ElementAt(op, One(index), lane);
}

std::string KernelWriter::IndexOf(kernel::ValueId index) const {
  int64_t offset = 0;
  const auto constant_of = [&](kernel::ValueId value) -> const Op* {
    const kernel::OpId producer = kernel_.values[value].producer;
    if (producer == kernel::kNone || kernel_.ops[producer].opcode != Opcode::kConst) return nullptr;
    return &kernel_.ops[producer];
  };
  for (;;) {
    const kernel::OpId producer = kernel_.values[index].producer;
    if (producer == kernel::kNone || kernel_.ops[producer].opcode != Opcode::kAdd) break;
    const std::vector<kernel::ValueId>& terms = kernel_.ops[producer].operands;
    const Op* left = constant_of(terms[0]);
    const Op* right = constant_of(terms[1]);
    if ((left == nullptr) == (right == nullptr)) break;
    const int64_t more = offset + (left != nullptr ? left : right)->immediates[0];
    if (std::abs(more) >= int64_t{1} << 30) break;
    offset = more;
    index = left != nullptr ? terms[1] : terms[0];
  }
  if (offset == 0) return One(index);
  return fmt::format("{} {} {}", One(index), offset < 0 ? "-" : "+", std::abs(offset));
}

Names KernelWriter::LoadChunk(const Op& op, size_t first, size_t count) {
  const DType dtype = op.type.dtype;
  const std::string address = ElementAt(op, first);
  if (count == 1) return {fmt::format("*{}{}", address, dtype == DType::kBool ? " != 0" : "")};
  const size_t bytes = count * static_cast<size_t>(BitWidth(dtype)) / 8;
  const std::string wide = NewName();
  Line("const {0} {1} = *(const {0}*){2};", WideType(bytes), wide, address);
  return UnpackWords(dtype, WordsOf(wide, bytes), count);
}

void KernelWriter::WriteLoad(const Op& op) {
  const size_t chunk = ChunkOf(op, op.type);
  Names expressions;
  if (op.operands.size() == 1) {
    for (size_t first = 0; first < op.type.lanes; first += chunk) {
      const Names part = LoadChunk(op, first, chunk);
      expressions.insert(expressions.end(), part.begin(), part.end());
    }
    Define(op, expressions);
    return;
  }
  const Names& mask = At(op.operands[1]);
  const Names& otherwise = At(op.operands[2]);
  const Names names = NewNames(op.type);
  for (size_t i = 0; i < names.size(); ++i) {
    Line("{} {} = {};", CTypeOf(op.type.dtype), names[i], otherwise[i]);
  }
  for (size_t first = 0; first < op.type.lanes; first += chunk) {
    Line("if ({}) {{", Conjunction(mask, first, chunk));
    ++depth_;
    const Names part = LoadChunk(op, first, chunk);
    for (size_t i = 0; i < chunk; ++i) Line("{} = {};", names[first + i], part[i]);
    --depth_;
    if (!IsOneMask(mask, first, chunk)) {
      Line("}} else {{");
      ++depth_;
      for (size_t i = first; i < first + chunk; ++i) {
        Line("if ({}) {} = {};", mask[i], names[i], LoadChunk(op, i, 1)[0]);
      }
      --depth_;
    }
    Line("}}");
  }
  values_[op.results[0]] = names;
}

void KernelWriter::StoreChunk(const Op& op, size_t first, size_t count) {
  const Names& value = At(op.operands[1]);
  const DType dtype = TypeOf(op.operands[1]).dtype;
  const std::string address = ElementAt(op, first);
  if (count == 1) {
    Line("*{} = {};", address, value[first]);
    return;
  }
  const size_t bytes = count * static_cast<size_t>(BitWidth(dtype)) / 8;
  const Names words =
      PackWords(dtype, Names(value.begin() + static_cast<ptrdiff_t>(first),
                             value.begin() + static_cast<ptrdiff_t>(first + count)));
  const std::string_view type = WideType(bytes);
  if (words.size() == 1) {
    Line("*({0}*){1} = {0}({2});", type, address, words[0]);
  } else {
    Line("*({0}*){1} = {0}{{{2}}};", type, address, fmt::join(words, ", "));
  }
}

void KernelWriter::WriteStore(const Op& op) {
  const Type type = TypeOf(op.operands[1]);
  const size_t chunk = ChunkOf(op, type);
  for (size_t first = 0; first < type.lanes; first += chunk) {
    if (op.operands.size() == 2) {
      StoreChunk(op, first, chunk);
      continue;
    }
    const Names& mask = At(op.operands[2]);
    Line("if ({}) {{", Conjunction(mask, first, chunk));
    ++depth_;
    StoreChunk(op, first, chunk);
    --depth_;
    if (!IsOneMask(mask, first, chunk)) {
      Line("}} else {{");
      ++depth_;
      for (size_t i = first; i < first + chunk; ++i) {
        Line("if ({}) *{} = {};", mask[i], ElementAt(op, i), At(op.operands[1])[i]);
      }
      --depth_;
    }
    Line("}}");
  }
}

void KernelWriter::WriteMemory(const Op& op) {
  const Names& index = At(op.operands[0]);
  switch (op.opcode) {
    case Opcode::kLoad:
      return WriteLoad(op);
    case Opcode::kStore:
      return WriteStore(op);
    case Opcode::kGather: {
      Names expressions;
      const std::string_view test = op.type.dtype == DType::kBool ? " != 0" : "";
      for (size_t i = 0; i < op.type.lanes; ++i) {
        std::string value = fmt::format("*{}{}", ElementAt(op, index[i], 0), test);
        if (op.operands.size() > 1) {
          value = fmt::format("{} ? {} : {}", At(op.operands[1])[i], value, At(op.operands[2])[i]);
        }
        expressions.push_back(std::move(value));
      }
      return Define(op, expressions);
    }
    case Opcode::kScatter:
      for (size_t i = 0; i < index.size(); ++i) {
        const std::string guard =
            op.operands.size() > 2 ? fmt::format("if ({}) ", At(op.operands[2])[i]) : "";
        Line("{}*{} = {};", guard, ElementAt(op, index[i], 0), At(op.operands[1])[i]);
      }
      return;
    case Opcode::kBroadcastLoad: {
      const std::string name = NewName();
      Line("const {} {} = {};", CTypeOf(op.type.dtype), name, LoadChunk(op, 0, 1)[0]);
      values_[op.results[0]].assign(op.type.lanes, name);
      return;
    }
    case Opcode::kAtomicAdd: {
      const std::string_view type =
          BitWidth(kernel_.buffers[op.buffer].dtype) == 64 ? "u64" : "u32";
      Line("atomicAdd(({0}*){1}, {0}({2}));", type, ElementAt(op, index[0], 0),
           One(op.operands[1]));
      return;
    }
    default:
      return;  // other workitems hide latency; a prefetch would only take an issue slot
  }
}

// By words: two 16-bit lanes move at once.
void KernelWriter::WriteShuffle(const Op& op) {
  Names words = PackWords(op.type.dtype, At(op.operands[0]));
  for (std::string& word : words) {
    const std::string name = NewName();
    if (op.opcode == Opcode::kSubgroupShuffle) {
      Line("const u32 {} = __shfl_sync(0xffffffffu, {}, {});", name, word, One(op.operands[1]));
    } else {
      Line("const u32 {} = __shfl_xor_sync(0xffffffffu, {}, {});", name, word, op.immediates[0]);
    }
    word = name;
  }
  Define(op, UnpackWords(op.type.dtype, words, op.type.lanes));
}

void KernelWriter::WriteAsyncCopy(const Op& op) {
  const int64_t bytes = op.immediates[1] * BitWidth(kernel_.buffers[op.buffer].dtype) / 8;
  Line("copy{}(b{} + {}, b{} + {}, {});", bytes, op.buffer, IndexOf(op.operands[0]),
       op.immediates[0], IndexOf(op.operands[1]),
       op.operands.size() > 2 ? One(op.operands[2]) : "true");
}

// Pointers come out of the wait as new ones, about which the compiler knows nothing but that they
// are to global memory: through its __restrict__ parameters it may read ahead of the wait, or by
// instructions for what never changes. What was read ahead of the wait is constant. Where GPUs have
// no such wait nothing is left of it but that.
void KernelWriter::WriteAwait() {
  std::string operands;
  std::vector<size_t> buffers;
  for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
    if (kernel_.buffers[i].space != kernel::MemorySpace::kGlobal || IsReadBeforeAwait(i)) continue;
    Line("u64 a{0} = __cvta_generic_to_global(b{0});", i);
    operands += fmt::format("{}\"+l\"(a{})", operands.empty() ? "" : ", ", i);
    buffers.push_back(i);
  }
  const bool has_wait = target_.gpu.compute_capability >= 90 && kernel_.begins_early;
  Line("asm volatile(\"{}\" : {} : : \"memory\");", has_wait ? "griddepcontrol.wait;" : "",
       operands);
  for (size_t i : buffers) {
    const Buffer& buffer = kernel_.buffers[i];
    Line("b{0} = ({1}{2}*)__cvta_global_to_generic(a{0});", i,
         buffer.access == kernel::Access::kRead ? "const " : "", CTypeOf(buffer.dtype, true));
  }
}

bool KernelWriter::IsReadBeforeAwait(size_t buffer) const {
  for (kernel::OpId id : kernel_.blocks[0].ops) {
    const Op& op = kernel_.ops[id];
    if (op.opcode == Opcode::kAwaitDispatches) return false;
    if (kernel::Touches(kernel_, op, static_cast<kernel::BufferId>(buffer))) return true;
  }
  return false;
}

Status KernelWriter::WriteGpu(const Op& op) {
  switch (op.opcode) {
    case Opcode::kAwaitDispatches:
      WriteAwait();
      return OkStatus();
    case Opcode::kReleaseDispatches:
      if (target_.gpu.compute_capability >= 90) {
        Line("asm volatile(\"griddepcontrol.launch_dependents;\");");
      }
      return OkStatus();
    case Opcode::kBarrier:
      Line("__syncthreads();");
      return OkStatus();
    case Opcode::kAsyncCopy:
      WriteAsyncCopy(op);
      return OkStatus();
    case Opcode::kAsyncCommit:
      Line("ASYNC_COMMIT;");
      return OkStatus();
    case Opcode::kAsyncWait:
      Line("ASYNC_WAIT({});", op.immediates[0]);
      return OkStatus();
    case Opcode::kAsyncFence:
    case Opcode::kMmaCommit:
    case Opcode::kMmaWait:
      return WriteProducts(op);
    case Opcode::kLastArrival:
      Define(op, {fmt::format("last_arrival(b{} + {}, u32({}), {} == 0)", op.buffer,
                              One(op.operands[0]), One(op.operands[1]), LinearId())});
      return OkStatus();
    default:
      if (op.opcode == Opcode::kSubgroupShuffleXor && op.immediates[0] >= 32) {
        return Lacks(
            "op 'subgroup_shuffle_xor' has the mask {}; subgroups of CUDA have 32 workitems",
            op.immediates[0]);
      }
      WriteShuffle(op);
      return OkStatus();
  }
}

}  // namespace halyard::cuda
