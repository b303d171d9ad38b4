// SPDX-License-Identifier: Apache-2.0
// Lowering of elementwise ops and of ops that make values from nothing.
#include "compiler/kernel/opcode.h"
#include "compiler/loop/lower_ops.h"
#include "compiler/ops/op_def.h"

namespace halyard::loop {

using kernel::Opcode;

Status LowerElementwise(Lowering& lowering, const graph::Module& module, const graph::Node& node) {
  const bool is_float = IsFloat(lowering.TypeOf(node.operands[0]).dtype);
  if (node.op->name == "rem" && is_float) return LowerFloatRem(lowering, module, node);
  if (node.op->name == "pow" && !is_float) return LowerIntegerPow(lowering, module, node);
  HY_ASSIGN(Opcode opcode, kernel::ParseOpcode(node.op->name));
  const bool is_comparison = kernel::InfoOf(opcode).op_class == kernel::OpClass::kCompare;
  Lowering::Definition d;
  const bool is_transcendental = kernel::InfoOf(opcode).transcendental;
  d.is_costly = is_transcendental || opcode == Opcode::kDiv || opcode == Opcode::kSqrt;
  if (is_transcendental) d.ops = kOpsOfTranscendental;
  d.emit = [&lowering, &node, opcode,
            is_comparison](std::span<const Expr> index) -> Result<ValueId> {
    std::vector<ValueId> operands;
    for (graph::ValueId v : node.operands) {
      HY_ASSIGN(ValueId operand, lowering.At(v, index));
      // A narrow float is compared as it would be stored: what is equal to the largest of a row is
      // so only with the same rounding, whichever of the two was stored.
      const DType dtype = lowering.TypeOf(v).dtype;
      if (is_comparison && ComputeType(dtype) != dtype) {
        KernelBuilder& b = lowering.builder();
        operand = b.Convert(b.Convert(operand, dtype), ComputeType(dtype));
      }
      operands.push_back(operand);
    }
    return lowering.builder().Scalar(opcode, operands);
  };
  return lowering.Define(node.results[0], node, std::move(d));
}

Status LowerCast(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  HY_ASSIGN(DType to, graph::GetDType(node, "dtype"));
  Lowering::Definition d;
  // Widening a narrow float changes no value: it costs nothing beyond its load.
  DType from = lowering.TypeOf(node.operands[0]).dtype;
  d.ops = ComputeType(from) == to || from == to ? 0 : 1;
  d.emit = [&lowering, &node, to](std::span<const Expr> index) -> Result<ValueId> {
    HY_ASSIGN(ValueId x, lowering.At(node.operands[0], index));
    KernelBuilder& b = lowering.builder();
    // A cast to a narrow float rounds, even where the value lives on in f32.
    return b.Convert(b.Convert(x, to), ComputeType(to));
  };
  return lowering.Define(node.results[0], node, std::move(d));
}

Status LowerBitcast(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  HY_ASSIGN(DType to, graph::GetDType(node, "dtype"));
  Lowering::Definition d;
  d.emit = [&lowering, &node, to](std::span<const Expr> index) -> Result<ValueId> {
    HY_ASSIGN(ValueId x, lowering.At(node.operands[0], index));
    KernelBuilder& b = lowering.builder();
    x = b.Convert(x, lowering.TypeOf(node.operands[0]).dtype);
    return b.Convert(b.Bitcast(x, to), ComputeType(to));
  };
  return lowering.Define(node.results[0], node, std::move(d));
}

namespace {

// The elements of a small integer tensor, row-major.
Status DefineElements(Lowering& lowering, const graph::Node& node, std::vector<Expr> values) {
  Lowering::Definition d;
  d.ops = static_cast<int>(values.size()) * 2;
  d.emit = [&lowering, &node, values](std::span<const Expr> index) -> Result<ValueId> {
    KernelBuilder& b = lowering.builder();
    const graph::TensorType& type = lowering.TypeOf(node.results[0]);
    Expr flat = lowering.exprs().Const(0);
    for (size_t i = 0; i < index.size(); ++i) {
      flat = lowering.exprs().Add(lowering.exprs().Mul(flat, type.dims[i]), index[i]);
    }
    if (std::optional<int64_t> at = lowering.exprs().AsConst(flat)) {
      if (*at < 0 || *at >= static_cast<int64_t>(values.size())) return b.Int(type.dtype, 0);
      return b.Index(values[static_cast<size_t>(*at)], type.dtype);
    }
    ValueId result = b.Int(type.dtype, 0);
    for (size_t i = values.size(); i-- > 0;) {
      ValueId value = b.Index(values[i], type.dtype);
      if (i + 1 == values.size()) {
        result = value;
        continue;
      }
      ValueId is_before =
          b.Scalar(Opcode::kLe, {b.Index(flat), b.Int(DType::kI64, static_cast<int64_t>(i))});
      result = b.Scalar(Opcode::kSelect, {is_before, value, result});
    }
    return result;
  };
  return lowering.Define(node.results[0], node, std::move(d));
}

}  // namespace

Status LowerSymbolic(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  HY_ASSIGN(std::vector<Expr> values, graph::GetExprs(node, "values"));
  return DefineElements(lowering, node, std::move(values));
}

Status LowerShapeOf(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  return DefineElements(lowering, node, lowering.TypeOf(node.operands[0]).dims);
}

Status LowerIota(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  HY_ASSIGN(int64_t axis, graph::GetInt(node, "axis"));
  Lowering::Definition d;
  d.emit = [&lowering, &node, axis](std::span<const Expr> index) -> Result<ValueId> {
    KernelBuilder& b = lowering.builder();
    DType dtype = lowering.TypeOf(node.results[0]).dtype;
    Expr at = index[static_cast<size_t>(axis)];
    if (!IsFloat(dtype)) return b.Convert(b.Index(at), dtype);
    return b.Convert(b.Convert(b.Index(at), dtype), ComputeType(dtype));
  };
  return lowering.Define(node.results[0], node, std::move(d));
}

}  // namespace halyard::loop
