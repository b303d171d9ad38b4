// SPDX-License-Identifier: Apache-2.0
// The field lists of every struct of a program file.
#include "compiler/program/archive.h"

#include <type_traits>

namespace halyard::program {
namespace {

// The highest number of each enumeration in files.
constexpr ExprOp MaxOf(ExprOp) { return ExprOp::kMax; }
constexpr StorageKind MaxOf(StorageKind) { return StorageKind::kState; }
constexpr CommandKind MaxOf(CommandKind) { return CommandKind::kTransfer; }
constexpr TargetKind MaxOf(TargetKind) { return TargetKind::kVulkan; }
constexpr DType MaxOf(DType) { return static_cast<DType>(kDTypeCount - 1); }

template <typename A>
void Visit(A& a, ExprToken& v) {
  a(v.op, v.value);
}
template <typename A>
void Visit(A& a, SizeExpr& v) {
  a(v.tokens);
}
template <typename A>
void Visit(A& a, Symbol& v) {
  a(v.name, v.min, v.max, v.divisor);
}
template <typename A>
void Visit(A& a, TensorDesc& v) {
  a(v.name, v.dtype, v.dims, v.device);
}
template <typename A>
void Visit(A& a, Constant& v) {
  a(v.name, v.hash, v.device, v.size_bytes, v.offset);
}
template <typename A>
void Visit(A& a, Arena& v) {
  a(v.device, v.size_bytes, v.holds_transfers);
}
template <typename A>
void Visit(A& a, BufferRange& v) {
  a(v.kind, v.index, v.offset, v.size, v.name);
}
template <typename A>
void Visit(A& a, Command& v) {
  a(v.kind, v.label, v.executable, v.entry, v.bindings, v.scalars, v.grid[0], v.grid[1], v.grid[2]);
  a(v.fill_value, v.fill_bytes, v.interpret_text, v.interpret_operand_count);
  a(v.interpret_tensors, v.after);
}
template <typename A>
void Visit(A& a, Block& v) {
  a(v.device, v.queue, v.commands, v.waits);
}
template <typename A>
void Visit(A& a, Guard& v) {
  a(v.expr, v.text);
}
template <typename A>
void Visit(A& a, Entry& v) {
  a(v.name, v.inputs, v.outputs, v.arenas, v.buffers, v.blocks, v.guards);
}
template <typename A>
void Visit(A& a, KernelEntry& v) {
  a(v.name, v.binding_count, v.scalar_count, v.sites);
}
template <typename A>
void Visit(A& a, Executable& v) {
  a(v.device, v.format, v.entries);
}
template <typename A>
void Visit(A& a, MatrixShape& v) {
  a(v.input, v.accumulator, v.m, v.n, v.k);
}
template <typename A>
void Visit(A& a, GpuTarget& v) {
  a(v.compute_capability, v.features, v.subgroup_size, v.max_workgroup_size);
  a(v.workgroup_memory_bytes, v.max_grid[0], v.max_grid[1], v.max_grid[2], v.unit_count);
  a(v.max_loop_iterations);
  a(v.matrix_shapes);
}
template <typename A>
void Visit(A& a, Target& v) {
  a(v.kind, v.name, v.triple, v.cpu_name, v.cpu_features, v.vector_bytes, v.vector_registers);
  a(v.worker_count, v.l1_bytes, v.l2_bytes, v.l3_bytes, v.buffer_alignment, v.max_buffer_bytes);
  a(v.gpu);
}
template <typename A>
void Visit(A& a, Device& v) {
  a(v.name, v.target, v.identity, v.is_host, v.memory_cap_bytes);
}
template <typename A>
void Visit(A& a, Record& v) {
  a(v.kind, v.subject, v.text);
}
template <typename A>
void Visit(A& a, Requirement& v) {
  a(v.format, v.kind, v.triple, v.features);
}
template <typename A>
void Visit(A& a, Program& v) {
  a(v.model_name, v.content_hash, v.symbols, v.devices, v.constants, v.executables, v.entries);
  a(v.records);
}

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

}  // namespace

template <typename T>
void ArchiveWriter::Put(T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    const uint8_t number = value ? 1 : 0;
    PutRaw(&number, sizeof(number));
  } else if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
    PutRaw(&value, sizeof(value));
  } else if constexpr (std::is_same_v<T, std::string>) {
    const uint64_t size = value.size();
    PutRaw(&size, sizeof(size));
    PutRaw(value.data(), value.size());
  } else if constexpr (IsVector<T>::value) {
    const uint64_t count = value.size();
    PutRaw(&count, sizeof(count));
    for (auto& item : value) Put(item);
  } else {
    Visit(*this, value);
  }
}

template <typename T>
void ArchiveReader::Get(T& value) {
  if (failed_) return;
  if constexpr (std::is_enum_v<T>) {
    std::underlying_type_t<T> number = 0;
    if (!GetRaw(&number, sizeof(number))) return;
    if (number > static_cast<std::underlying_type_t<T>>(MaxOf(T{}))) {
      failed_ = true;
      return;
    }
    value = static_cast<T>(number);
  } else if constexpr (std::is_same_v<T, bool>) {
    uint8_t number = 0;
    if (GetRaw(&number, sizeof(number)) && number > 1) failed_ = true;
    value = number != 0;
  } else if constexpr (std::is_integral_v<T>) {
    GetRaw(&value, sizeof(value));
  } else if constexpr (std::is_same_v<T, std::string>) {
    uint64_t size = 0;
    if (!GetRaw(&size, sizeof(size))) return;
    if (size > rest_.size()) {
      failed_ = true;
      return;
    }
    value.assign(reinterpret_cast<const char*>(rest_.data()), size);
    rest_ = rest_.subspan(size);
  } else if constexpr (IsVector<T>::value) {
    uint64_t count = 0;
    if (!GetRaw(&count, sizeof(count))) return;
    value.clear();
    // Grows with what is really there: a count that lies ends when the bytes do. Every item takes
    // bytes.
    for (uint64_t i = 0; i < count && !failed_; ++i) {
      value.emplace_back();
      Get(value.back());
    }
  } else {
    Visit(*this, value);
  }
}

Status ArchiveReader::Finish() const {
  if (failed_) return DataLoss("A table ends early or holds a number out of range.");
  if (!rest_.empty()) return DataLoss("A table has {} bytes too many.", rest_.size());
  return OkStatus();
}

void VisitTables(ArchiveWriter& archive, Program& program) { archive(program); }
void VisitTables(ArchiveReader& archive, Program& program) { archive(program); }
void VisitRequirements(ArchiveWriter& archive, std::vector<Requirement>& requirements) {
  archive(requirements);
}
void VisitRequirements(ArchiveReader& archive, std::vector<Requirement>& requirements) {
  archive(requirements);
}

}  // namespace halyard::program
