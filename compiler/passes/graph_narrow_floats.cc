// SPDX-License-Identifier: Apache-2.0
// Numerics. Matrix products, convolutions and attention read and write f16 and sum in f32; so do
// the element-by-element ops, views and poolings between them. Reductions, exponentials,
// logarithms, powers, quotients, comparisons and whatever is not listed here stay in f32:
// statistics of normalisations, softmax and everything that can leave the range of f16 while its
// inputs do not. A constant with a finite element beyond the range of f16 keeps its dtype, and so
// does what reads it. Within a fused kernel an f16 value that is not stored is not rounded (Loop IR
// computes it in f32), except at the casts that this pass writes where a product reads an f32
// value. Parameters and results of the graph keep their dtype.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/graph/builder.h"
#include "compiler/graph/uses.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/graph_passes.h"

namespace halyard::graph {
namespace {

constexpr double kMostF16 = 65504;

// Always in f16.
constexpr std::string_view kProducts[] = {"matmul", "conv", "conv_transpose", "attention"};
// In f16 where all that they read is. A product of two values that are no constants is not: a
// square leaves the range of f16 early.
constexpr std::string_view kFlexible[] = {
    "add", "sub",    "mul",      "max",      "min",       "neg",      "abs",
    "erf", "tanh",   "select",   "reshape",  "transpose", "slice",    "concat",
    "pad", "gather", "max_pool", "avg_pool", "resize",    "broadcast"};

template <size_t N>
bool IsOneOf(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

class Narrower {
 public:
  explicit Narrower(Module& module) : module_(module), uses_(module), builder_(module) {
    narrow_.assign(module.values.size(), kNone);
    wide_.assign(module.values.size(), kNone);
    is_replaced_.assign(module.values.size(), false);
  }

  Status Run() {
    original_ = module_.values.size();
    const std::vector<NodeId> nodes = module_.entry().nodes;
    for (size_t at = 0; at < nodes.size(); ++at) {
      if (module_.nodes[nodes[at]].is_dead) continue;
      const size_t before = module_.entry().nodes.size();
      builder_.InsertBefore(0, at + added_);
      builder_.SetNodeName(module_.nodes[nodes[at]].name);
      HY_TRY(Visit(nodes[at]));
      added_ += module_.entry().nodes.size() - before;
    }
    builder_.InsertAtEnd(0);
    std::vector<ValueId> results = module_.entry().results;
    for (ValueId& result : results) {
      HY_ASSIGN(result, Wide(result));
    }
    module_.entry().results = std::move(results);
    return OkStatus();
  }

 private:
  bool IsWide(ValueId value) const {
    return value != kNone && module_.values[value].type.dtype == DType::kF32;
  }
  const Node* Producer(ValueId value) const {
    const NodeId id = module_.values[value].producer;
    return id == kNone ? nullptr : &module_.nodes[id];
  }
  bool IsConstant(ValueId value) const {
    const Node* node = Producer(value);
    if (node == nullptr) return false;
    if (node->constant != kNone) return true;
    const std::string_view op = node->op->name;
    return (op == "broadcast" || op == "reshape" || op == "transpose") &&
           IsConstant(node->operands[0]);
  }
  // Some product reads it, so that its f16 form exists anyway.
  bool FeedsProduct(ValueId value) const {
    if (value >= original_) return false;
    const std::span<const Use> uses = uses_.Of(value);
    return std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
      return IsOneOf(kProducts, module_.nodes[use.node].op->name);
    });
  }
  bool IsNarrow(ValueId value) const {
    return (value < narrow_.size() && narrow_[value] != kNone) || FeedsProduct(value);
  }

  // The f16 form of an f32 value, written before the node at hand where there is none; kNone where
  // a constant does not fit.
  Result<ValueId> Narrow(ValueId value) {
    if (narrow_[value] != kNone) return narrow_[value];
    const Node* node = Producer(value);
    if (node != nullptr && node->constant != kNone) {
      HY_ASSIGN(const Tensor wide, ReadConstant(module_.constants[node->constant]));
      const std::string name = module_.constants[node->constant].name;
      std::vector<double> values(static_cast<size_t>(wide.elements()));
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = LoadFloat(wide, static_cast<int64_t>(i));
        if (std::isfinite(values[i]) && std::fabs(values[i]) > kMostF16) return kNone;
      }
      HY_ASSIGN(narrow_[value],
                builder_.ConstantOf(TensorOfFloats(DType::kF16, wide.dims, values), name));
      return narrow_[value];
    }
    if (node != nullptr && IsConstant(value)) {
      const Node copy = *node;
      HY_ASSIGN(const ValueId operand, Narrow(copy.operands[0]));
      if (operand == kNone) return kNone;
      HY_ASSIGN(narrow_[value], builder_.AddOne(copy.op->name, {operand}, copy.attributes));
      return narrow_[value];
    }
    HY_ASSIGN(narrow_[value], builder_.CastTo(value, DType::kF16));
    return narrow_[value];
  }

  Result<ValueId> Wide(ValueId value) {
    if (!IsWide(value) || value >= original_ || !is_replaced_[value]) return value;
    if (wide_[value] == kNone) {
      HY_ASSIGN(wide_[value], builder_.CastTo(narrow_[value], DType::kF32));
    }
    return wide_[value];
  }

  // A mask that is added to scores, within the range of f16: far below every score still, and what
  // hides for good (-infinity) still does.
  Result<ValueId> NarrowMask(ValueId mask) {
    HY_ASSIGN(mask, Wide(mask));
    const std::vector<Expr> dims = module_.values[mask].type.dims;
    HY_ASSIGN(const ValueId least, builder_.Splat(DType::kF32, -kMostF16, dims));
    HY_ASSIGN(const ValueId hidden,
              builder_.Splat(DType::kF32, -std::numeric_limits<double>::infinity(), dims));
    HY_ASSIGN(const ValueId bounded, builder_.Binary("max", mask, least));
    HY_ASSIGN(const ValueId is_hidden, builder_.Binary("eq", mask, hidden));
    HY_ASSIGN(const ValueId both, builder_.Select(is_hidden, mask, bounded));
    return builder_.CastTo(both, DType::kF16);
  }

  bool CanBeNarrow(const Node& node) const {
    if (!node.regions.empty() || node.results.size() != 1 || !IsWide(node.results[0])) return false;
    const std::string_view op = node.op->name;
    if (IsOneOf(kProducts, op)) return true;
    if (!IsOneOf(kFlexible, op)) return false;
    if (op == "mul" && !IsConstant(node.operands[0]) && !IsConstant(node.operands[1])) return false;
    bool has_narrow = false;
    for (ValueId operand : node.operands) {
      if (!IsWide(operand) || IsConstant(operand)) continue;
      if (!IsNarrow(operand)) return false;
      has_narrow = true;
    }
    return has_narrow;
  }

  Status Visit(NodeId id) {
    const Node node = module_.nodes[id];
    if (CanBeNarrow(node)) {
      std::vector<ValueId> operands = node.operands;
      bool fits = true;
      for (size_t i = 0; i < operands.size() && fits; ++i) {
        if (!IsWide(operands[i])) continue;
        if (node.op->name == "attention" && i == 3) {
          HY_ASSIGN(operands[i], NarrowMask(operands[i]));
          continue;
        }
        HY_ASSIGN(operands[i], Narrow(operands[i]));
        fits = operands[i] != kNone;
      }
      if (fits) {
        const ValueId old = node.results[0];
        HY_ASSIGN(narrow_[old], builder_.AddOne(node.op->name, operands, node.attributes));
        is_replaced_[old] = true;
        return OkStatus();
      }
    }
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (node.operands[i] == kNone) continue;
      HY_ASSIGN(const ValueId operand, Wide(node.operands[i]));
      module_.nodes[id].operands[i] = operand;
    }
    return OkStatus();
  }

  Module& module_;
  UseLists uses_;
  Builder builder_;
  size_t original_ = 0, added_ = 0;
  // By value of the module as it was: its f16 form, its f32 form where only the f16 form is
  // computed.
  std::vector<ValueId> narrow_, wide_;
  std::vector<bool> is_replaced_;
};

}  // namespace

Status NarrowFloats(Module& module) {
  HY_TRY(Narrower(module).Run());
  return RemoveDead(module);
}

}  // namespace halyard::graph
