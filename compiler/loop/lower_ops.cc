// SPDX-License-Identifier: Apache-2.0
// Which function lowers which op, and what is refused.
#include "compiler/loop/lower_ops.h"

#include "compiler/kernel/opcode.h"
#include "compiler/ops/op_def.h"

namespace halyard::loop {

namespace {

constexpr int64_t kMostRanked = 8192;

struct Row {
  std::string_view op;
  LowerFunction lower;
};

constexpr Row kRows[] = {
    {"cast", LowerCast},
    {"bitcast", LowerBitcast},
    {"symbolic", LowerSymbolic},
    {"shape_of", LowerShapeOf},
    {"random_bits", LowerRandomBits},
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
    {"check_index", LowerCheckIndex},
    {"scatter_elements", LowerScatterElements},
    {"scatter_nd", LowerScatterNd},
    {"sort", LowerOrder},
    {"topk", LowerOrder},
    {"cumsum", LowerCumsum},
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
    {"conv_transpose", LowerConvTranspose},
    {"resize", LowerResize},
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
  if (op == "rem" && dtype(0) == DType::kF64) {
    return Unimplemented("The op 'rem' on {} has no lowering (node '{}').", FormatDType(dtype(0)),
                         node.name);
  }
  if (op == "sort" || op == "topk") {
    // Ranks are counted, which takes n * n steps; the interpreter sorts.
    const Result<int64_t> axis = graph::GetInt(node, "axis");
    const std::vector<Expr>& dims = module.values[node.operands[0]].type.dims;
    const std::optional<int64_t> count =
        axis.ok() ? module.exprs.AsConst(dims[static_cast<size_t>(*axis)]) : std::nullopt;
    if (count && *count > kMostRanked) {
      return Unimplemented(
          "The op '{}' on {} elements has no lowering; the limit is {} (node '{}').", op, *count,
          kMostRanked, node.name);
    }
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
