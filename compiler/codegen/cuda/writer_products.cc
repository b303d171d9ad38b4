// SPDX-License-Identifier: Apache-2.0
// Asynchronous products as wgmma (PTX ISA, "Asynchronous warpgroup level matrix
// multiply-accumulate instructions"), which code for exactly sm_90a has. A quad is a warpgroup.
//
// Accumulators are operands of every statement that orders them (begin, the products, end): the
// compiler then neither moves a use of one across a wait nor copies one while products change it,
// for which it would have to run them one by one.
#include "compiler/codegen/cuda/writer.h"

namespace halyard::cuda {

using kernel::Op;
using kernel::Opcode;
using kernel::TileLayout;

namespace {

// "+f"(a), "+f"(b), ...
std::string InOut(const Names& names) {
  std::string operands;
  for (const std::string& name : names) {
    operands += fmt::format("{}\"+f\"({})", operands.empty() ? "" : ", ", name);
  }
  return operands;
}

}  // namespace

Status KernelWriter::WriteProducts(const Op& op) {
  if (target_.gpu.compute_capability != 90) {
    return Lacks("op '{}' needs compute capability 9.0; target '{}' has {}.{}",
                 kernel::FormatOpcode(op.opcode), target_.name, target_.gpu.compute_capability / 10,
                 target_.gpu.compute_capability % 10);
  }
  switch (op.opcode) {
    case Opcode::kAsyncFence:
      Line("asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");");
      return OkStatus();
    case Opcode::kMmaCommit:
      Line("asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\");");
      return OkStatus();
    case Opcode::kMmaWait:
      Line("asm volatile(\"wgmma.wait_group.sync.aligned %0;\" ::\"n\"({}) : \"memory\");",
           op.immediates[0]);
      return OkStatus();
    default:
      break;
  }
  const Names& from = At(op.operands[0]);
  const Names names = NewNames(op.type);
  for (size_t i = 0; i < names.size(); ++i) Line("f32 {} = {};", names[i], from[i]);
  if (op.opcode == Opcode::kMmaAsync) {
    std::string registers;
    for (size_t i = 0; i < names.size(); ++i) {
      registers += fmt::format("{}%{}", i == 0 ? "" : ", ", i);
    }
    const auto trans = [&](size_t side) {
      return op.immediates[1 + side] == static_cast<int64_t>(TileLayout::kSideMajor) ? 1 : 0;
    };
    const std::string_view dtype = FormatDType(kernel_.buffers[op.buffer].dtype);
    // Not the first term: what the accumulators hold is added to.
    Line("asm volatile(\"{{ .reg .pred p; setp.ne.b32 p, %{0}, 0; \"", names.size() + 2);
    Line(
        "  \"wgmma.mma_async.sync.aligned.m64n{0}k16.f32.{1}.{1} {{{2}}}, %{3}, %{4}, p, 1, 1, "
        "{5}, "
        "{6}; }}\"",
        op.type.cols, dtype, registers, names.size(), names.size() + 1, trans(0), trans(1));
    Line("  : {} : \"l\"({}), \"l\"({}), \"r\"(1) : \"memory\");", InOut(names), TileAddress(op, 0),
         TileAddress(op, 1));
  } else {
    Line("asm volatile(\"{}\" : {} :: \"memory\");",
         op.opcode == Opcode::kMmaBegin ? "wgmma.fence.sync.aligned;" : "", InOut(names));
  }
  values_[op.results[0]] = names;
  return OkStatus();
}

// The descriptor of A (side 0) or B.
std::string KernelWriter::TileAddress(const Op& op, int side) const {
  const kernel::BufferId buffer = side == 0 ? op.buffer : kernel::SecondBuffer(op);
  const int64_t stride_bytes = 2 * op.immediates[static_cast<size_t>(3 + side)];
  return fmt::format("tile_descriptor(b{} + {}, {}u)", buffer,
                     IndexOf(op.operands[static_cast<size_t>(1 + side)]), stride_bytes);
}

}  // namespace halyard::cuda
