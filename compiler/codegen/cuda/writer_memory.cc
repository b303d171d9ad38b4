// SPDX-License-Identifier: Apache-2.0
// Loads and stores, by vectors as far as the index is aligned; atomics, shuffles, async copies.
#include <algorithm>

#include "compiler/codegen/cuda/writer.h"

namespace halyard::cuda {

using kernel::Op;
using kernel::Opcode;
using kernel::Type;

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

Names KernelWriter::LoadChunk(const Op& op, size_t first, size_t count) {
  const DType dtype = op.type.dtype;
  const std::string address = ElementAt(op, One(op.operands[0]), first);
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
  const std::string address = ElementAt(op, One(op.operands[0]), first);
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
        Line("if ({}) *{} = {};", mask[i], ElementAt(op, One(op.operands[0]), i),
             At(op.operands[1])[i]);
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
  Line("copy{}(b{} + {}, b{} + {}, {});", bytes, op.buffer, One(op.operands[0]), op.immediates[0],
       One(op.operands[1]), op.operands.size() > 2 ? One(op.operands[2]) : "true");
}

Status KernelWriter::WriteGpu(const Op& op) {
  switch (op.opcode) {
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
