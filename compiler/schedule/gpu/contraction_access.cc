// SPDX-License-Identifier: Apache-2.0
// How operands of a contraction lie in memory, and which matrix shape takes them.
#include <algorithm>

#include "compiler/schedule/gpu/contraction.h"

namespace halyard::schedule {
namespace {

constexpr int kAccessBytes = 16;

// The load that moves most of the operand's bytes.
const loop::Op* MainLoad(const loop::Function& function, const loop::Kernel& kernel,
                         const Factor& factor) {
  const loop::Op* main = nullptr;
  int64_t most = -1;
  for (loop::OpId id : factor.ops) {
    const loop::Op& op = kernel.ops[id];
    if (op.kind != loop::OpKind::kLoad) continue;
    const int64_t elements = function.exprs->HintOf(function.buffers[op.buffer].elements);
    if (elements > most) main = &op, most = elements;
  }
  return main;
}

}  // namespace

OperandAccess AccessOf(const loop::Function& function, const loop::Kernel& kernel,
                       const Problem& problem, const Factor& factor, const Side& side) {
  OperandAccess best;
  const loop::Op* load = MainLoad(function, kernel, factor);
  if (load == nullptr) return best;
  ExprArena& exprs = *function.exprs;
  const Expr index = FlatIndex(exprs, problem, load->index);
  const int widest =
      std::max(1, kAccessBytes / std::max(1, BitWidth(function.buffers[load->buffer].dtype) / 8));
  bool is_first = true;
  for (const bool along_k : {false, true}) {
    const Side& direction = along_k ? problem.k : side;
    OperandAccess access;
    access.along_k = along_k;
    if (!direction.digits.empty()) {
      const auto& [symbol, extent] = direction.digits.back();
      const std::optional<Expr> stride = exprs.StrideOf(load->index, symbol);
      if (stride && exprs.IsConst(*stride, 1)) {
        access.run = std::max<int64_t>(1, exprs.HintOf(extent));
      }
      for (int lanes = widest; lanes > 1; lanes /= 2) {
        if (!exprs.KnownMultipleOf(direction.extent, lanes)) continue;
        const Expr count = exprs.FloorDiv(direction.extent, exprs.Const(lanes));
        const Expr group = exprs.Loop("group", count),
                   lane = exprs.Loop("lane", exprs.Const(lanes));
        const std::pair<Expr, Expr> split(direction.flat,
                                          exprs.Add(exprs.Mul(group, exprs.Const(lanes)), lane));
        const Expr at = exprs.Substitute(index, {&split, 1});
        const std::optional<Expr> step = exprs.StrideOf(at, lane);
        if (!step || !exprs.IsConst(*step, 1)) continue;
        const std::pair<Expr, Expr> zero(lane, exprs.Const(0));
        if (!exprs.KnownMultipleOf(exprs.Substitute(at, {&zero, 1}), lanes)) continue;
        access.lanes = lanes;
        break;
      }
    }
    if (is_first || std::pair(access.lanes, access.run) > std::pair(best.lanes, best.run)) {
      best = access;
    }
    is_first = false;
  }
  return best;
}

std::optional<loop::ValueId> NarrowValue(const loop::Kernel& kernel, const Factor& factor) {
  const loop::OpId id = kernel.values[factor.value].producer;
  const loop::Op& op = kernel.ops[id];
  if (op.kind != loop::OpKind::kScalar || op.opcode != kernel::Opcode::kConvert) return {};
  const DType dtype = kernel.values[op.operands[0]].dtype;
  if (dtype != DType::kF16 && dtype != DType::kBF16 && dtype != DType::kI8) return {};
  return op.operands[0];
}

std::optional<MatrixShape> MatrixShapeFor(const loop::Kernel& kernel, const Problem& problem,
                                          const Target& target) {
  const auto a = NarrowValue(kernel, problem.a), b = NarrowValue(kernel, problem.b);
  if (!a || !b || kernel.values[*a].dtype != kernel.values[*b].dtype) return {};
  for (const MatrixShape& shape : target.gpu.matrix_shapes) {
    if (shape.input == kernel.values[*a].dtype && shape.accumulator == problem.dtype &&
        shape.m == 16 && shape.n == 16) {
      return shape;
    }
  }
  return {};
}

}  // namespace halyard::schedule
