// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "compiler/graph/builder.h"
#include "compiler/graph/uses.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/passes/graph_passes.h"

namespace halyard::graph {
namespace {

// Whether every value of `from` is a value of `to`, so that a cast there and on equals the cast on.
bool IsLossless(DType from, DType to) {
  if (from == to) return true;
  if (from == DType::kBool) return to != DType::kBool;
  if (to == DType::kBool) return false;
  const auto digits = [](DType dtype) {  // of the significand, or of the integer without its sign
    switch (dtype) {
      case DType::kF64:
        return 53;
      case DType::kF32:
        return 24;
      case DType::kF16:
        return 11;
      case DType::kBF16:
        return 8;
      case DType::kF8E4M3:
        return 4;
      case DType::kF8E5M2:
        return 3;
      default:
        return BitWidth(dtype) - (IsSigned(dtype) ? 1 : 0);
    }
  };
  if (IsFloat(from) && IsFloat(to)) {
    // f16 and bf16 have digits or range that the other lacks; f8e4m3 has one NaN and no infinity.
    return (to == DType::kF64 || (to == DType::kF32 && from != DType::kF64));
  }
  if (IsFloat(from)) return false;
  if (IsFloat(to)) return digits(from) <= digits(to) && (to != DType::kF16 || digits(from) <= 11);
  if (IsSigned(from) && !IsSigned(to)) return false;
  return digits(from) <= digits(to);
}

class Canonicalizer {
 public:
  explicit Canonicalizer(Module& module)
      : module_(module), builder_(module), replacement_(module.values.size(), kNone) {}

  Status Run() {
    for (uint32_t graph = 0; graph < module_.graphs.size(); ++graph) {
      const std::vector<NodeId> nodes = module_.graphs[graph].nodes;
      size_t position = 0;
      for (const NodeId id : nodes) {
        for (ValueId& operand : module_.nodes[id].operands) {
          if (operand != kNone) operand = Final(operand);
        }
        if (!module_.nodes[id].is_dead && module_.nodes[id].results.size() == 1 &&
            !module_.nodes[id].operands.empty()) {
          builder_.InsertBefore(graph, position);
          builder_.SetNodeName(module_.nodes[id].name);
          const Node node = module_.nodes[id];
          HY_ASSIGN(const ValueId simpler, Simplify(node));
          if (simpler != kNone &&
              module_.values[simpler].type == module_.values[node.results[0]].type) {
            replacement_.resize(module_.values.size(), kNone);
            replacement_[node.results[0]] = simpler;
          }
          position = builder_.position();
        }
        ++position;
      }
    }
    replacement_.resize(module_.values.size(), kNone);
    ReplaceValues(module_, replacement_);
    return OkStatus();
  }

 private:
  ValueId Final(ValueId value) const {
    while (value < replacement_.size() && replacement_[value] != kNone) value = replacement_[value];
    return value;
  }

  // The node that makes `value` when it is of `op`.
  const Node* ProducerOf(ValueId value, std::string_view op) const {
    const NodeId producer = module_.values[value].producer;
    if (producer == kNone || module_.nodes[producer].op->name != op) return nullptr;
    return &module_.nodes[producer];
  }

  // The one value that all elements have, seen through views that repeat or rename.
  std::optional<Tensor> UniformOf(ValueId value) const {
    for (;;) {
      const NodeId producer = module_.values[value].producer;
      if (producer == kNone) return std::nullopt;
      const Node& node = module_.nodes[producer];
      if (node.op->name == "broadcast" || node.op->name == "reshape" ||
          node.op->name == "transpose") {
        value = node.operands[0];
        continue;
      }
      if (node.constant == kNone) return std::nullopt;
      const Constant& constant = module_.constants[node.constant];
      const Result<int64_t> count = CountElements(constant.dims);
      if (!count.ok() || *count < 1 || *count > 4096) return std::nullopt;
      const Result<Tensor> tensor = ReadConstant(constant);
      if (!tensor.ok()) return std::nullopt;
      Tensor first = *MakeTensor(tensor->dtype, {});
      CopyElement(*tensor, 0, first, 0);
      for (int64_t i = 1; i < *count; ++i) {
        Tensor other = first;
        CopyElement(*tensor, i, other, 0);
        if (!(other == first)) return std::nullopt;
      }
      return first;
    }
  }

  // Whether the value is the number everywhere. Zero means +0 or, where asked, -0.
  bool IsUniform(ValueId value, double number, bool is_negative_zero = false) const {
    const std::optional<Tensor> uniform = UniformOf(value);
    if (!uniform || uniform->dtype == DType::kBool) return false;
    if (!IsFloat(uniform->dtype)) return LoadInt(*uniform, 0) == static_cast<int64_t>(number);
    const double actual = LoadFloat(*uniform, 0);
    return actual == number && (number != 0 || std::signbit(actual) == is_negative_zero);
  }

  Result<ValueId> Simplify(const Node& node) {
    const std::string_view op = node.op->name;
    const ValueId x = node.operands[0];
    if (x == kNone) return kNone;
    const TensorType& type = module_.values[node.results[0]].type;
    if (op == "reshape" || op == "broadcast") {
      if (module_.values[x].type.dims == type.dims) return x;
      // A chain of the same view is its last link.
      if (const Node* inner = ProducerOf(x, op)) {
        return builder_.AddOne(op, {inner->operands[0]}, node.attributes);
      }
      return kNone;
    }
    if (op == "transpose") return SimplifyTranspose(node);
    if (op == "slice") return IsWholeSlice(node) ? x : kNone;
    if (op == "concat") return node.operands.size() == 1 ? x : kNone;
    if (op == "pad") return module_.values[x].type.dims == type.dims ? x : kNone;
    if (op == "cast") return SimplifyCast(node);
    if (op == "neg" || op == "not") {
      const Node* inner = ProducerOf(x, op);
      return inner != nullptr ? inner->operands[0] : kNone;
    }
    if (op.substr(0, 7) == "reduce_") {
      HY_ASSIGN(const std::vector<int64_t> axes, GetInts(node, "axes"));
      return axes.empty() ? x : kNone;
    }
    if (op == "select") {
      const std::optional<Tensor> condition = UniformOf(x);
      if (!condition) return kNone;
      return node.operands[LoadInt(*condition, 0) != 0 ? 1 : 2];
    }
    if (op == "matmul") return SimplifyMatmul(node);
    return SimplifyArithmetic(node);
  }

  // x + 0 turns -0 into +0, so floats need -0 there; x - 0 keeps it.
  Result<ValueId> SimplifyArithmetic(const Node& node) {
    const std::string_view op = node.op->name;
    if (node.operands.size() != 2) return kNone;
    const ValueId a = node.operands[0];
    const ValueId b = node.operands[1];
    if (op == "add") {
      if (IsUniform(b, 0, true)) return a;
      if (IsUniform(a, 0, true)) return b;
    }
    if (op == "sub" && IsUniform(b, 0)) return a;
    if (op == "mul") {
      if (IsUniform(b, 1)) return a;
      if (IsUniform(a, 1)) return b;
    }
    if ((op == "div" || op == "pow") && IsUniform(b, 1)) return a;
    return kNone;
  }

  Result<ValueId> SimplifyTranspose(const Node& node) {
    HY_ASSIGN(std::vector<int64_t> perm, GetInts(node, "perm"));
    const Node* inner = ProducerOf(node.operands[0], "transpose");
    ValueId x = node.operands[0];
    if (inner != nullptr) {
      HY_ASSIGN(const std::vector<int64_t> first, GetInts(*inner, "perm"));
      for (int64_t& axis : perm) axis = first[static_cast<size_t>(axis)];
      x = inner->operands[0];
    }
    bool is_identity = true;
    for (size_t i = 0; i < perm.size(); ++i) is_identity &= perm[i] == static_cast<int64_t>(i);
    if (is_identity) return x;
    if (inner == nullptr) return kNone;
    return builder_.AddOne("transpose", {x}, {{"perm", perm}});
  }

  bool IsWholeSlice(const Node& node) const {
    const Result<std::vector<Expr>> starts = GetExprs(node, "starts");
    const Result<std::vector<int64_t>> steps = GetInts(node, "steps");
    const std::vector<Expr>& dims = module_.values[node.results[0]].type.dims;
    if (!starts.ok() || !steps.ok() || module_.values[node.operands[0]].type.dims != dims) {
      return false;
    }
    for (size_t i = 0; i < dims.size(); ++i) {
      if (!module_.exprs.IsConst((*starts)[i], 0) || (*steps)[i] != 1) return false;
    }
    return true;
  }

  // A cast goes only when it cannot change a value.
  Result<ValueId> SimplifyCast(const Node& node) {
    const ValueId x = node.operands[0];
    const DType to = module_.values[node.results[0]].type.dtype;
    if (module_.values[x].type.dtype == to) return x;
    const Node* inner = ProducerOf(x, "cast");
    if (inner == nullptr) return kNone;
    const ValueId source = inner->operands[0];
    const DType from = module_.values[source].type.dtype;
    if (!IsLossless(from, module_.values[x].type.dtype)) return kNone;
    if (from == to) return source;
    return builder_.AddOne("cast", {source}, {{"dtype", to}});
  }

  // A transpose of the last two axes of an operand is a flag of matmul.
  Result<ValueId> SimplifyMatmul(const Node& node) {
    std::vector<ValueId> operands = node.operands;
    Attributes attributes = node.attributes;
    bool is_changed = false;
    for (size_t i = 0; i < 2; ++i) {
      const Node* transpose = ProducerOf(operands[i], "transpose");
      if (transpose == nullptr) continue;
      HY_ASSIGN(const std::vector<int64_t> perm, GetInts(*transpose, "perm"));
      const size_t rank = perm.size();
      bool swaps_last = perm[rank - 1] == static_cast<int64_t>(rank - 2) &&
                        perm[rank - 2] == static_cast<int64_t>(rank - 1);
      for (size_t axis = 0; axis + 2 < rank; ++axis) {
        swaps_last &= perm[axis] == static_cast<int64_t>(axis);
      }
      if (!swaps_last) continue;
      const std::string name = i == 0 ? "transpose_a" : "transpose_b";
      attributes[name] = int64_t{1} - IntOr(node, name, 0);
      operands[i] = transpose->operands[0];
      is_changed = true;
    }
    if (!is_changed) return kNone;
    return builder_.AddOne("matmul", operands, attributes);
  }

  Module& module_;
  Builder builder_;
  std::vector<ValueId> replacement_;
};

}  // namespace

Status Canonicalize(Module& module) { return Canonicalizer(module).Run(); }

}  // namespace halyard::graph
