// SPDX-License-Identifier: Apache-2.0
// The frame of a kernel, control flow, and which file writes which op.
#include "compiler/codegen/cuda/writer.h"

#include <algorithm>

#include "compiler/codegen/cuda/emit.h"

namespace halyard::cuda {

using kernel::Buffer;
using kernel::MemorySpace;
using kernel::Op;
using kernel::OpClass;
using kernel::Opcode;
using kernel::Type;
using kernel::ValueId;

namespace {

constexpr int64_t kAllocationAlignment = 128;
constexpr int64_t kTileAlignment = 1024;  // what the swizzle of mma_async's operands repeats by

// Where each allocation in workgroup memory begins, and where the last one ends.
struct WorkgroupMemory {
  std::vector<int64_t> alignments, offsets;
  int64_t alignment = kAllocationAlignment, bytes = 0;
};

WorkgroupMemory LayoutOf(const kernel::Kernel& kernel) {
  WorkgroupMemory memory;
  memory.alignments.assign(kernel.buffers.size(), kAllocationAlignment);
  memory.offsets.assign(kernel.buffers.size(), 0);
  for (const Op& op : kernel.ops) {
    if (op.opcode != Opcode::kMmaAsync) continue;
    for (kernel::BufferId id : {op.buffer, kernel::SecondBuffer(op)}) {
      memory.alignments[id] = memory.alignment = kTileAlignment;
    }
  }
  const auto round = [&](int64_t to) { memory.bytes = (memory.bytes + to - 1) / to * to; };
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    const Buffer& buffer = kernel.buffers[i];
    if (buffer.space != MemorySpace::kWorkgroup) continue;
    round(memory.alignments[i]);
    memory.offsets[i] = memory.bytes;
    memory.bytes += buffer.elements * (BitWidth(buffer.dtype) / 8);
    round(kAllocationAlignment);
  }
  return memory;
}

}  // namespace

int64_t WorkgroupMemoryBytes(const kernel::Kernel& kernel) { return LayoutOf(kernel).bytes; }

Names KernelWriter::NewNames(Type type) {
  const std::string name = NewName();
  size_t count = type.lanes;
  if (type.IsFragment()) {
    count = static_cast<size_t>(type.rows) * type.cols / 32;
    if (RegisterType(type) != CTypeOf(type.dtype)) count /= 4 / (BitWidth(type.dtype) / 8u);
  }
  if (count == 1) return {name};
  Names names;
  for (size_t i = 0; i < count; ++i) names.push_back(fmt::format("{}_{}", name, i));
  return names;
}

std::string_view KernelWriter::RegisterType(Type type) const {
  const bool is_operand =
      type.use == kernel::FragmentUse::kA || type.use == kernel::FragmentUse::kB;
  return is_operand ? "u32" : CTypeOf(type.dtype);
}

void KernelWriter::Define(const Op& op, const Names& expressions) {
  Names names = NewNames(op.type);
  for (size_t i = 0; i < names.size(); ++i) {
    Line("const {} {} = {};", RegisterType(op.type), names[i], expressions[i]);
  }
  values_[op.results[0]] = std::move(names);
}

bool KernelWriter::Has(OpClass op_class) const {
  return std::any_of(kernel_.ops.begin(), kernel_.ops.end(),
                     [&](const Op& op) { return kernel::InfoOf(op.opcode).op_class == op_class; });
}

std::string KernelWriter::LinearId() const {
  const int64_t* size = kernel_.workgroup_size;
  if (size[1] == 1 && size[2] == 1) return "threadIdx.x";
  return fmt::format("(threadIdx.x + {}u * (threadIdx.y + {}u * threadIdx.z))", size[0], size[1]);
}

void KernelWriter::WriteHead() {
  std::string parameters;
  for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
    const Buffer& buffer = kernel_.buffers[i];
    if (buffer.space != MemorySpace::kGlobal) continue;
    parameters +=
        fmt::format("{}{}*{} b{}, ", buffer.access == kernel::Access::kRead ? "const " : "",
                    CTypeOf(buffer.dtype, true), buffer.no_alias ? " __restrict__" : "", i);
  }
  for (size_t i = 0; i < kernel_.scalars.size(); ++i) parameters += fmt::format("i64 s{}, ", i);
  const int64_t* size = kernel_.workgroup_size;
  Line(
      "extern \"C\" __global__ void __launch_bounds__({}) {}({}ErrorRecord* record, u64 dispatch) "
      "{{",
      size[0] * size[1] * size[2], kernel_.name, parameters);
  ++depth_;
  const WorkgroupMemory memory = LayoutOf(kernel_);
  const bool dynamic = memory.bytes > kMostStaticWorkgroupBytes;
  if (dynamic) Line("extern __shared__ __align__({}) u8 workgroup_memory[];", memory.alignment);
  for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
    const Buffer& buffer = kernel_.buffers[i];
    const std::string_view type = CTypeOf(buffer.dtype, true);
    if (buffer.space == MemorySpace::kPrivate) {
      Line("__align__(16) {} b{}[{}];", type, i, buffer.elements);
    } else if (buffer.space == MemorySpace::kWorkgroup && dynamic) {
      Line("{}* const b{} = ({}*)(workgroup_memory + {});", type, i, type, memory.offsets[i]);
    } else if (buffer.space == MemorySpace::kWorkgroup) {
      Line("__shared__ __align__({}) {} b{}[{}];", memory.alignments[i], type, i, buffer.elements);
    }
  }
  if (Has(OpClass::kFragment)) {
    Line("const i32 lane = i32({} & 31u), lane_row = lane >> 2, lane_col = lane & 3;", LinearId());
  }
}

Result<std::string> KernelWriter::Run() {
  if (target_.kind != TargetKind::kCuda) {
    return InvalidArgument("Target '{}' is no CUDA device.", target_.name);
  }
  if (kernel_.subgroup_size != 0 && kernel_.subgroup_size != 32) {
    return Lacks("it relies on a subgroup size of {}; CUDA has 32", kernel_.subgroup_size);
  }
  WriteHead();
  HY_TRY(WriteBlock(0));
  --depth_;
  Line("}}");
  return std::move(out_);
}

Status KernelWriter::WriteBlock(kernel::BlockId block) {
  for (kernel::OpId id : kernel_.blocks[block].ops) {
    const Op& op = kernel_.ops[id];
    if (op.opcode != Opcode::kYield) HY_TRY(WriteOp(op));
  }
  return OkStatus();
}

Status KernelWriter::WriteOp(const Op& op) {
  if (op.type.IsFragment() && op.opcode != Opcode::kFor && op.opcode != Opcode::kIf) {
    return WriteFragment(op);
  }
  switch (kernel::InfoOf(op.opcode).op_class) {
    case OpClass::kSource:
      return WriteSource(op);
    case OpClass::kLanes:
    case OpClass::kSelect:
      WriteLanes(op);
      return OkStatus();
    case OpClass::kArithmetic:
    case OpClass::kCompare:
    case OpClass::kConvert:
      return WriteArithmetic(op);
    case OpClass::kReduce:
      WriteReduce(op);
      return OkStatus();
    case OpClass::kMemory:
      WriteMemory(op);
      return OkStatus();
    case OpClass::kControl:
      if (op.opcode == Opcode::kFor) return WriteFor(op);
      if (op.opcode == Opcode::kIf) return WriteIf(op);
      WriteReport(op);
      return OkStatus();
    case OpClass::kFragment:
      return WriteFragment(op);
    case OpClass::kGpu:
      return WriteGpu(op);
    case OpClass::kCpu:
      return Lacks("op '{}', which only CPUs have", kernel::FormatOpcode(op.opcode));
  }
  return OkStatus();
}

// Simultaneous: an expression may name a variable that another one assigns.
void KernelWriter::AssignAll(const std::vector<ValueId>& from, const std::vector<Names>& to) {
  Names sources;
  Names targets;
  std::vector<std::string_view> types;
  for (size_t i = 0; i < from.size(); ++i) {
    for (size_t r = 0; r < to[i].size(); ++r) {
      if (At(from[i])[r] == to[i][r]) continue;
      sources.push_back(At(from[i])[r]);
      targets.push_back(to[i][r]);
      types.push_back(RegisterType(TypeOf(from[i])));
    }
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    if (std::find(targets.begin(), targets.end(), sources[i]) == targets.end()) continue;
    const std::string held = NewName();
    Line("const {} {} = {};", types[i], held, sources[i]);
    sources[i] = held;
  }
  for (size_t i = 0; i < sources.size(); ++i) Line("{} = {};", targets[i], sources[i]);
}

Status KernelWriter::WriteFor(const Op& op) {
  const kernel::Block& body = kernel_.blocks[op.blocks[0]];
  std::vector<Names> carried;
  for (size_t i = 0; i < op.results.size(); ++i) {
    const Type type = TypeOf(op.results[i]);
    if (type.IsFragment()) HY_TRY(CheckFragment(type));
    carried.push_back(NewNames(type));
    for (size_t r = 0; r < carried[i].size(); ++r) {
      Line("{} {} = {};", RegisterType(type), carried[i][r], At(op.operands[3 + i])[r]);
    }
    values_[body.parameters[1 + i]] = carried[i];
    values_[op.results[i]] = carried[i];
  }
  const std::string iv = NewName();
  values_[body.parameters[0]] = {iv};
  Line("#pragma unroll {}", std::max<int64_t>(op.immediates[0], 1));
  Line("for ({0} {1} = {2}; {1} < {3}; {1} += {4}) {{", CTypeOf(TypeOf(op.operands[0]).dtype), iv,
       One(op.operands[0]), One(op.operands[1]), One(op.operands[2]));
  ++depth_;
  HY_TRY(WriteBlock(op.blocks[0]));
  AssignAll(kernel_.ops[body.ops.back()].operands, carried);
  --depth_;
  Line("}}");
  return OkStatus();
}

Status KernelWriter::WriteIf(const Op& op) {
  std::vector<Names> results;
  for (ValueId result : op.results) {
    const Type type = TypeOf(result);
    if (type.IsFragment()) HY_TRY(CheckFragment(type));
    results.push_back(NewNames(type));
    for (const std::string& name : results.back()) Line("{} {};", RegisterType(type), name);
    values_[result] = results.back();
  }
  Line("if ({}) {{", One(op.operands[0]));
  for (size_t branch = 0; branch < 2; ++branch) {
    const kernel::Block& block = kernel_.blocks[op.blocks[branch]];
    if (branch == 1 && block.ops.size() == 1 && results.empty()) break;
    if (branch == 1) Line("}} else {{");
    ++depth_;
    HY_TRY(WriteBlock(op.blocks[branch]));
    AssignAll(kernel_.ops[block.ops.back()].operands, results);
    --depth_;
  }
  Line("}}");
  return OkStatus();
}

void KernelWriter::WriteReport(const Op& op) {
  const Names& conditions = At(op.operands[0]);
  for (size_t i = 0; i < conditions.size(); ++i) {
    Line("{}if ({}) report(record, dispatch, {}u, {}u, {}, {});", i == 0 ? "" : "else ",
         conditions[i], op.immediates[0], op.immediates[1], At(op.operands[1])[i],
         One(op.operands[2]));
  }
}

}  // namespace halyard::cuda
