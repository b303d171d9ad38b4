// SPDX-License-Identifier: Apache-2.0
// Looks for y = matmul(softmax(s), v), where softmax is written as exp(s - max) / sum or with the
// reciprocal of the sum, and s is matmul(q, k transposed), optionally scaled and with a mask added.
// Scales may also stand on q and k. The weights may pass through select(p != p, 0, p), which makes
// the rows of queries that see nothing zero. All intermediate values have no other use, since
// attention does not make them. Rounding: the fused form rounds once where the chain rounds per op,
// so it is nearer to the exact result.
#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/graph/builder.h"
#include "compiler/graph/uses.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/passes/graph_passes.h"

namespace halyard::graph {
namespace {

struct Match {
  ValueId q = kNone, k = kNone, v = kNone, mask = kNone;
  double scale = 1;
  bool k_is_transposed = false;  // k is [b, g, d, t]
  bool nan_to_zero = false;
};

class AttentionFusion {
 public:
  explicit AttentionFusion(Module& module) : module_(module), uses_(module) {}

  Status Run(std::vector<FusedAttention>* records) {
    std::vector<ValueId> replacement(module_.values.size(), kNone);
    Builder builder(module_);
    for (uint32_t graph = 0; graph < module_.graphs.size(); ++graph) {
      const std::vector<NodeId> nodes = module_.graphs[graph].nodes;
      size_t position = 0;
      for (const NodeId id : nodes) {
        if (const std::optional<Match> match = MatchNode(module_.nodes[id])) {
          const Node node = module_.nodes[id];
          builder.InsertBefore(graph, position);
          builder.SetNodeName(node.name);
          HY_ASSIGN(const ValueId fused, Emit(builder, *match));
          if (module_.values[fused].type == module_.values[node.results[0]].type) {
            replacement[node.results[0]] = fused;
            if (records != nullptr) records->push_back({node.name, PartsOf(node, *match)});
          }
          position = builder.position();
        }
        ++position;
      }
    }
    ReplaceValues(module_, replacement);
    return OkStatus();
  }

 private:
  const Node* Producer(ValueId value, std::string_view op) const {
    const NodeId id = module_.values[value].producer;
    if (id == kNone || module_.nodes[id].op->name != op) return nullptr;
    return &module_.nodes[id];
  }
  size_t RankOf(ValueId value) const { return module_.values[value].type.dims.size(); }

  // The operand of a broadcast, or the value itself.
  ValueId Unspread(ValueId value) const {
    const Node* broadcast = Producer(value, "broadcast");
    return broadcast != nullptr ? broadcast->operands[0] : value;
  }

  std::optional<double> ScalarOf(ValueId value) const {
    const NodeId id = module_.values[Unspread(value)].producer;
    if (id == kNone || module_.nodes[id].constant == kNone) return std::nullopt;
    const Constant& constant = module_.constants[module_.nodes[id].constant];
    const Result<int64_t> count = CountElements(constant.dims);
    if (!count.ok() || *count != 1 || !IsFloat(constant.dtype)) return std::nullopt;
    const Result<Tensor> tensor = ReadConstant(constant);
    if (!tensor.ok()) return std::nullopt;
    return LoadFloat(*tensor, 0);
  }

  // A reduction over the last axis of `x` that keeps it, spread to the shape of x.
  bool IsSpreadReduction(ValueId value, std::string_view op, ValueId x) const {
    ValueId inner = Unspread(value);
    if (const Node* reshape = Producer(inner, "reshape")) inner = reshape->operands[0];
    const Node* reduce = Producer(inner, op);
    if (reduce == nullptr || reduce->operands[0] != x) return false;
    const Result<std::vector<int64_t>> axes = GetInts(*reduce, "axes");
    return axes.ok() && *axes == std::vector<int64_t>{static_cast<int64_t>(RankOf(x)) - 1};
  }

  // Strips multiplications and divisions by a constant from `value` into `scale`.
  ValueId StripScale(ValueId value, double& scale) const {
    for (;;) {
      const Node* mul = Producer(value, "mul");
      const Node* div = Producer(value, "div");
      const Node* node = mul != nullptr ? mul : div;
      if (node == nullptr) return value;
      if (const auto right = ScalarOf(node->operands[1]); right && *right != 0) {
        scale *= mul != nullptr ? *right : 1 / *right;
        value = node->operands[0];
      } else if (const auto left = ScalarOf(node->operands[0]); left && mul != nullptr) {
        scale *= *left;
        value = node->operands[1];
      } else {
        return value;
      }
    }
  }

  std::optional<Match> MatchNode(const Node& node) const {
    if (node.is_dead || node.op->name != "matmul" || IntOr(node, "transpose_a", 0) != 0 ||
        IntOr(node, "transpose_b", 0) != 0 || RankOf(node.results[0]) != 4 ||
        RankOf(node.operands[1]) != 4 || !IsFloat(module_.values[node.results[0]].type.dtype)) {
      return std::nullopt;
    }
    Match match;
    match.v = node.operands[1];
    if (!uses_.HasOneUse(node.operands[0])) return std::nullopt;
    ValueId weights = node.operands[0];
    const Node* guard = Producer(weights, "select");
    if (guard != nullptr) {
      const Node* is_nan = Producer(guard->operands[0], "ne");
      const std::optional<double> otherwise = ScalarOf(guard->operands[1]);
      weights = guard->operands[2];
      if (is_nan == nullptr || !uses_.HasOneUse(guard->operands[0]) || otherwise != 0.0 ||
          is_nan->operands[0] != weights || is_nan->operands[1] != weights ||
          uses_.Of(weights).size() != 3 || uses_.IsResult(weights)) {
        return std::nullopt;
      }
      match.nan_to_zero = true;
    }
    // exp / sum, or exp * (1 / sum).
    const Node* quotient = Producer(weights, "div");
    ValueId sum = quotient != nullptr ? quotient->operands[1] : kNone;
    if (quotient == nullptr) {
      quotient = Producer(weights, "mul");
      if (quotient == nullptr) return std::nullopt;
      const Node* reciprocal = Producer(Unspread(quotient->operands[1]), "div");
      if (reciprocal == nullptr || ScalarOf(reciprocal->operands[0]) != 1.0) return std::nullopt;
      sum = reciprocal->operands[1];
    }
    const ValueId exponential = quotient->operands[0];
    if (!IsSpreadReduction(sum, "reduce_sum", exponential)) return std::nullopt;
    const Node* exp = Producer(exponential, "exp");
    if (exp == nullptr || uses_.Of(exponential).size() != 2) return std::nullopt;
    const Node* difference = Producer(exp->operands[0], "sub");
    if (difference == nullptr || !uses_.HasOneUse(exp->operands[0])) return std::nullopt;
    ValueId scores = difference->operands[0];
    if (!IsSpreadReduction(difference->operands[1], "reduce_max", scores)) return std::nullopt;
    if (uses_.Of(scores).size() != 2 || uses_.IsResult(scores)) return std::nullopt;
    return MatchScores(scores, match);
  }

  std::optional<Match> MatchScores(ValueId scores, Match match) const {
    if (const Node* add = Producer(scores, "add")) {
      for (const size_t side : {0, 1}) {
        double ignored = 1;
        const ValueId product = StripScale(add->operands[side], ignored);
        if (Producer(product, "matmul") == nullptr) continue;
        match.mask = Unspread(add->operands[1 - side]);
        if (RankOf(match.mask) != 4) match.mask = add->operands[1 - side];
        if (!uses_.HasOneUse(add->operands[side])) return std::nullopt;
        scores = add->operands[side];
        break;
      }
      if (match.mask == kNone) return std::nullopt;
    }
    const ValueId product = StripScale(scores, match.scale);
    const Node* matmul = Producer(product, "matmul");
    if (matmul == nullptr || uses_.IsResult(product) || IntOr(*matmul, "transpose_a", 0) != 0 ||
        RankOf(matmul->operands[0]) != 4 || RankOf(matmul->operands[1]) != 4) {
      return std::nullopt;
    }
    match.q = StripScale(matmul->operands[0], match.scale);
    match.k = StripScale(matmul->operands[1], match.scale);
    match.k_is_transposed = IntOr(*matmul, "transpose_b", 0) == 0;
    if (!std::isfinite(match.scale)) return std::nullopt;
    return match;
  }

  // The names of the nodes between what `match` reads and `node`, each once.
  std::vector<std::string> PartsOf(const Node& node, const Match& match) const {
    std::set<ValueId> seen = {match.q, match.k, match.v, match.mask, kNone};
    std::vector<ValueId> open = node.operands;
    std::vector<std::string> names;
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      if (!seen.insert(value).second || module_.values[value].producer == kNone) continue;
      const Node& part = module_.nodes[module_.values[value].producer];
      if (part.constant != kNone) continue;
      if (!part.name.empty() && part.name != node.name &&
          std::find(names.begin(), names.end(), part.name) == names.end()) {
        names.push_back(part.name);
      }
      open.insert(open.end(), part.operands.begin(), part.operands.end());
    }
    return names;
  }

  // k in its own layout: an explicit transpose is undone, or made where there was none.
  Result<ValueId> Emit(Builder& builder, const Match& match) {
    ValueId k = match.k;
    if (match.k_is_transposed) {
      HY_ASSIGN(k, builder.AddOne("transpose", {k}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}}));
    }
    std::vector<ValueId> operands = {match.q, k, match.v};
    if (match.mask != kNone) operands.push_back(match.mask);
    Attributes attributes = {{"scale", match.scale}};
    if (match.nan_to_zero) attributes["nan_to_zero"] = int64_t{1};
    return builder.AddOne("attention", operands, std::move(attributes));
  }

  Module& module_;
  UseLists uses_;
};

}  // namespace

Status FuseAttention(Module& module) { return FuseAttentionAndTell(module, nullptr); }

Status FuseAttentionAndTell(Module& module, std::vector<FusedAttention>* records) {
  return AttentionFusion(module).Run(records);
}

}  // namespace halyard::graph
