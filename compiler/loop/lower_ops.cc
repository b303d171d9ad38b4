// SPDX-License-Identifier: Apache-2.0
// Which function lowers which op, and what is refused.
#include "compiler/loop/lower_ops.h"

#include "compiler/kernel/opcode.h"
#include "compiler/ops/op_def.h"

namespace halyard::loop {

namespace {

struct Row {
  std::string_view op;
  LowerFunction lower;
};

constexpr Row kRows[] = {
    {"cast", LowerCast},
    {"bitcast", LowerBitcast},
    {"symbolic", LowerSymbolic},
    {"iota", LowerIota},
    {"broadcast", LowerBroadcast},
    {"reshape", LowerReshape},
    {"transpose", LowerTranspose},
    {"slice", LowerSlice},
    {"pad", LowerPad},
    {"concat", LowerConcat},
    {"gather", LowerGather},
    {"gather_elements", LowerGatherElements},
    {"gather_nd", LowerGatherNd},
    {"reduce_sum", LowerReduce},
    {"reduce_prod", LowerReduce},
    {"reduce_max", LowerReduce},
    {"reduce_min", LowerReduce},
    {"reduce_any", LowerReduce},
    {"reduce_all", LowerReduce},
    {"argmax", LowerArgReduce},
    {"argmin", LowerArgReduce},
    {"matmul", LowerMatmul},
    {"conv", LowerConv},
    {"max_pool", LowerPool},
    {"avg_pool", LowerPool},
    {"attention", LowerAttention},
};

}  // namespace

int64_t IntOr(const graph::Node& node, std::string_view name, int64_t fallback) {
  if (node.attributes.find(name) == node.attributes.end()) return fallback;
  Result<int64_t> value = graph::GetInt(node, name);
  return value.ok() ? *value : fallback;
}

std::string StringOr(const graph::Node& node, std::string_view name, std::string_view fallback) {
  if (node.attributes.find(name) == node.attributes.end()) return std::string(fallback);
  Result<std::string> value = graph::GetString(node, name);
  return value.ok() ? *value : std::string(fallback);
}

LowerFunction FindLowering(std::string_view op) {
  for (const Row& row : kRows) {
    if (row.op == op) return row.lower;
  }
  // Elementwise ops have the names of the opcodes.
  Result<kernel::Opcode> opcode = kernel::ParseOpcode(op);
  if (!opcode.ok()) return nullptr;
  kernel::OpClass op_class = kernel::InfoOf(*opcode).op_class;
  bool is_scalar = op_class == kernel::OpClass::kArithmetic ||
                   op_class == kernel::OpClass::kCompare || op_class == kernel::OpClass::kSelect;
  return is_scalar ? LowerElementwise : nullptr;
}

Status CheckLowering(const graph::Module& module, const graph::Node& node) {
  std::string_view op = node.op->name;
  auto dtype = [&](size_t i) { return module.values[node.operands[i]].type.dtype; };
  if (op == "rem" && IsFloat(dtype(0))) {
    return Unimplemented("The op 'rem' on {} has no lowering (node '{}').", FormatDType(dtype(0)),
                         node.name);
  }
  if (op == "pow" && !IsFloat(dtype(0))) {
    return Unimplemented("The op 'pow' on {} has no lowering (node '{}').", FormatDType(dtype(0)),
                         node.name);
  }
  if ((op == "argmax" || op == "argmin") && IntOr(node, "select_last", 0) != 0) {
    return Unimplemented("The op '{}' with select_last has no lowering (node '{}').", op,
                         node.name);
  }
  if (op == "cast" || op == "bitcast") {
    Result<DType> to = graph::GetDType(node, "dtype");
    if (to.ok() && BitWidth(*to) < 8) {
      return Unimplemented("The dtype {} has no lowering (node '{}').", FormatDType(*to),
                           node.name);
    }
  }
  return OkStatus();
}

}  // namespace halyard::loop
