// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/gpu/grid.h"

#include <algorithm>

namespace halyard::schedule {

namespace {

// Half of what i32 holds: room for the padding of the last workgroup.
constexpr int64_t kSmall = int64_t{1} << 30;
constexpr int64_t kArrivalBytes = 16;  // that the SPIR-V emitter adds for last_arrival

bool IsSmall(const ExprArena& exprs, Expr e);

// Sums and products wrap harmlessly where their result fits; what else there is needs exact
// operands.
bool HasSmallParts(const ExprArena& exprs, Expr e) {
  bool wraps = exprs.KindOf(e) == ExprKind::kAdd || exprs.KindOf(e) == ExprKind::kMul;
  for (Expr operand : exprs.OperandsOf(e)) {
    bool leaf = exprs.OperandsOf(operand).empty();
    if (wraps && !leaf ? !HasSmallParts(exprs, operand) : !IsSmall(exprs, operand)) return false;
  }
  return true;
}

bool IsSmall(const ExprArena& exprs, Expr e) {
  ExprRange range = exprs.RangeOf(e);
  return range.lo >= -kSmall && range.hi <= kSmall && HasSmallParts(exprs, e);
}

}  // namespace

DType IndexType(const Nest& nest) {
  ExprArena& exprs = nest.exprs;
  for (const loop::Op& op : nest.kernel.ops) {
    if (op.index.valid() && !IsSmall(exprs, op.index)) return DType::kI64;
    if (op.extent.valid() && !IsSmall(exprs, op.extent)) return DType::kI64;
    if (op.buffer != loop::kNone && !IsSmall(exprs, nest.function.buffers[op.buffer].elements))
      return DType::kI64;
  }
  // Parallel loops may be counted through together.
  for (size_t i = 0; i < nest.loops.size(); ++i) {
    Expr count = exprs.Const(1);
    for (int at = static_cast<int>(i); at >= 0; at = nest.loops[static_cast<size_t>(at)].parent)
      if (nest.OpOf(at).loop == loop::LoopKind::kParallel)
        count = exprs.Mul(count, nest.OpOf(at).extent);
    if (!IsSmall(exprs, count)) return DType::kI64;
  }
  return DType::kI32;
}

Emitter::Options GpuEmitterOptions() {
  Emitter::Options options;
  options.state_alignment = true;
  options.fold_masks = true;
  return options;
}

int64_t WorkgroupMemoryBytes(const kernel::Kernel& kernel, const Target& target) {
  int64_t bytes = 0;
  for (const kernel::Buffer& buffer : kernel.buffers) {
    if (buffer.space == kernel::MemorySpace::kWorkgroup)
      bytes += (buffer.elements * BitWidth(buffer.dtype) / 8 + 15) / 16 * 16;
  }
  const bool arrives = std::any_of(kernel.ops.begin(), kernel.ops.end(), [](const auto& op) {
    return op.opcode == kernel::Opcode::kLastArrival;
  });
  return arrives && target.kind == TargetKind::kVulkan ? bytes + kArrivalBytes : bytes;
}

Grid::Grid(ExprArena& exprs, const Target& target, Expr blocks) {
  int64_t limit = std::max<int64_t>(1, target.gpu.max_grid[0]);
  ExprRange range = exprs.RangeOf(blocks);
  is_folded = range.hi > limit;
  extents[0] = blocks;
  extents[1] = extents[2] = exprs.Const(1);
  if (!is_folded) return;
  width_ = std::min<int64_t>(limit, 32768);
  extents[0] = exprs.Min(blocks, exprs.Const(width_));
  extents[1] = exprs.CeilDiv(blocks, exprs.Const(width_));
}

kernel::ValueId Grid::Block(Writer& writer) const {
  kernel::ValueId x = writer.WorkgroupId(0);
  if (!is_folded) return x;
  return writer.Add(x, writer.Mul(writer.WorkgroupId(1), writer.Index(width_)));
}

}  // namespace halyard::schedule
