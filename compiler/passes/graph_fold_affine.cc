// SPDX-License-Identifier: Apache-2.0
// Rounding: y = conv(x, w) * a + b becomes conv(x, w * a) + b. Each product w * a is computed in
// double and rounded once, a relative error of half a unit per weight, which is what each product x
// * w of the convolution has anyway; the additions before the scale (as in a batch norm's mean) are
// combined in double. So the result stays within about twice the error that the convolution itself
// has.
#include <cmath>

#include "compiler/graph/builder.h"
#include "compiler/graph/uses.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/passes/graph_passes.h"

namespace halyard::graph {
namespace {

struct Affine {
  std::vector<double> scale;
  std::vector<double> offset;
  bool has_scale = false;
};

std::optional<Tensor> ConstantTensor(const Module& module, ValueId value) {
  const NodeId producer = module.values[value].producer;
  if (producer == kNone || module.nodes[producer].constant == kNone) return std::nullopt;
  Result<Tensor> tensor = ReadConstant(module.constants[module.nodes[producer].constant]);
  if (!tensor.ok()) return std::nullopt;
  return std::move(*tensor);
}

// The constant per channel that `value`, of the shape [n, channels, spatial...], holds; nothing
// where it varies along another axis.
std::optional<std::vector<double>> PerChannel(const Module& module, ValueId value,
                                              int64_t channels) {
  const size_t rank = module.values[value].type.dims.size();
  const NodeId producer = module.values[value].producer;
  if (producer != kNone && module.nodes[producer].op->name == "broadcast") {
    value = module.nodes[producer].operands[0];
  }
  const std::optional<Tensor> tensor = ConstantTensor(module, value);
  if (!tensor || tensor->dims.size() > rank) return std::nullopt;
  const size_t missing = rank - tensor->dims.size();
  for (size_t i = 0; i < tensor->dims.size(); ++i) {
    if (i + missing != 1 && tensor->dims[i] != 1) return std::nullopt;
  }
  const int64_t count = tensor->elements();
  if (count != 1 && count != channels) return std::nullopt;
  std::vector<double> values;
  for (int64_t i = 0; i < channels; ++i) {
    values.push_back(LoadFloat(*tensor, count == 1 ? 0 : i));
    if (!std::isfinite(values.back())) return std::nullopt;
  }
  return values;
}

// Takes one more node into the affine function; false where it is none.
bool Absorb(const Module& module, const Node& node, ValueId x, Affine& affine) {
  const std::string_view op = node.op->name;
  if (node.operands.size() != 2) return false;
  const bool is_left = node.operands[0] == x;
  if (op != "add" && op != "mul" && !(is_left && (op == "sub" || op == "div"))) return false;
  const auto constant =
      PerChannel(module, node.operands[is_left ? 1 : 0], static_cast<int64_t>(affine.scale.size()));
  if (!constant || node.operands[0] == node.operands[1]) return false;
  for (size_t i = 0; i < constant->size(); ++i) {
    const double c = (*constant)[i];
    if (op == "div" && c == 0) return false;
    if (op == "add") affine.offset[i] += c;
    if (op == "sub") affine.offset[i] -= c;
    if (op == "mul" || op == "div") {
      const double factor = op == "mul" ? c : 1 / c;
      affine.scale[i] *= factor;
      affine.offset[i] *= factor;
    }
  }
  affine.has_scale |= op == "mul" || op == "div";
  return true;
}

Result<ValueId> Rewrite(Builder& builder, const Node& conv, ValueId old_result, Tensor weights,
                        const Affine& affine) {
  Module& module = builder.module();
  const auto channels = static_cast<int64_t>(affine.scale.size());
  const int64_t per_channel = channels == 0 ? 0 : weights.elements() / channels;
  for (int64_t i = 0; i < weights.elements(); ++i) {
    StoreFloat(weights, i,
               LoadFloat(weights, i) * affine.scale[static_cast<size_t>(i / per_channel)]);
  }
  const TensorType type = module.values[old_result].type;
  const std::string name =
      module.constants[module.nodes[module.values[conv.operands[1]].producer].constant].name;
  HY_ASSIGN(const ValueId new_weights, builder.ConstantOf(weights, name));
  HY_ASSIGN(const ValueId product,
            builder.AddOne("conv", {conv.operands[0], new_weights}, conv.attributes));
  std::vector<int64_t> dims(type.dims.size() - 1, 1);
  dims[0] = channels;
  HY_ASSIGN(const ValueId offset,
            builder.ConstantOf(TensorOfFloats(type.dtype, dims, affine.offset)));
  HY_ASSIGN(const ValueId spread, builder.BroadcastTo(offset, type.dims));
  return builder.AddOne("add", {product, spread});
}

}  // namespace

Status FoldAffine(Module& module) {
  const UseLists uses(module);
  std::vector<ValueId> replacement(module.values.size(), kNone);
  Builder builder(module);
  for (uint32_t graph = 0; graph < module.graphs.size(); ++graph) {
    const std::vector<NodeId> nodes = module.graphs[graph].nodes;
    size_t added = 0;
    for (size_t at = 0; at < nodes.size(); ++at) {
      const Node conv = module.nodes[nodes[at]];
      if (conv.is_dead || conv.op->name != "conv") continue;
      const std::vector<Expr>& weight_dims = module.values[conv.operands[1]].type.dims;
      const std::optional<int64_t> channels = module.exprs.AsConst(weight_dims[0]);
      if (!channels || *channels < 1) continue;
      Affine affine{std::vector<double>(static_cast<size_t>(*channels), 1.0),
                    std::vector<double>(static_cast<size_t>(*channels), 0.0)};
      ValueId x = conv.results[0];
      ValueId end = x;
      Affine at_end = affine;
      while (uses.HasOneUse(x)) {
        const Node& next = module.nodes[uses.Of(x)[0].node];
        if (!Absorb(module, next, x, affine)) break;
        x = next.results[0];
        if (!(module.values[x].type == module.values[conv.results[0]].type)) break;
        end = x;
        at_end = affine;
      }
      if (end == conv.results[0] || !at_end.has_scale) continue;
      std::optional<Tensor> weights = ConstantTensor(module, conv.operands[1]);
      if (!weights || weights->elements() == 0) continue;
      builder.InsertBefore(graph, at + added + 1);
      builder.SetNodeName(conv.name);
      const size_t before = module.graphs[graph].nodes.size();
      // A replaced convolution may feed this one.
      Node current = conv;
      HY_ASSIGN(replacement[end],
                Rewrite(builder, current, conv.results[0], std::move(*weights), at_end));
      added += module.graphs[graph].nodes.size() - before;
    }
  }
  ReplaceValues(module, replacement);
  return OkStatus();
}

}  // namespace halyard::graph
