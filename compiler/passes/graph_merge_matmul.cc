// SPDX-License-Identifier: Apache-2.0
// Products x w1, x w2, ... of one x with constant matrices become one product with the matrices
// side by side, and slices of its result: one walk over x, one dispatch, wider tiles. Where every
// product only gets a constant per column added, these are merged too, so that the addition stays
// in the epilogue. Only where templates read the results, through views: those take a slice as it
// is, while elementwise users could have been epilogues of the separate products. Exact: each
// element is the same sum of the same terms.
#include <algorithm>
#include <map>

#include "compiler/graph/builder.h"
#include "compiler/graph/uses.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/passes/graph_passes.h"

namespace halyard::graph {
namespace {

// Matrices of equal row counts side by side, read from their sources on demand, so that merging
// weights copies nothing.
class SideBySide final : public ByteSource {
 public:
  struct Part {
    std::shared_ptr<const ByteSource> bytes;
    int64_t row_bytes;
  };
  SideBySide(std::vector<Part> parts, int64_t rows) : parts_(std::move(parts)), rows_(rows) {
    for (const Part& part : parts_) row_bytes_ += part.row_bytes;
  }

  int64_t size_bytes() const override { return row_bytes_ * rows_; }

  Status Read(int64_t offset, std::span<uint8_t> out) const override {
    if (offset < 0 || offset > size_bytes() ||
        static_cast<int64_t>(out.size()) > size_bytes() - offset) {
      return OutOfRange("Bytes {} to {} of merged matrices are asked for; they have {}.", offset,
                        offset + static_cast<int64_t>(out.size()), size_bytes());
    }
    while (!out.empty()) {
      const int64_t row = offset / row_bytes_;
      int64_t column = offset % row_bytes_;
      for (const Part& part : parts_) {
        if (column >= part.row_bytes) {
          column -= part.row_bytes;
          continue;
        }
        const auto count = static_cast<size_t>(
            std::min(part.row_bytes - column, static_cast<int64_t>(out.size())));
        HY_TRY(part.bytes->Read(row * part.row_bytes + column, out.first(count)));
        out = out.subspan(count);
        offset += static_cast<int64_t>(count);
        break;
      }
    }
    return OkStatus();
  }

 private:
  std::vector<Part> parts_;
  int64_t rows_;
  int64_t row_bytes_ = 0;
};

// One product, and the addition of a constant per column that alone uses it.
struct Member {
  NodeId matmul = kNone;
  ConstantId weight = kNone;
  int64_t columns = 0;
  ConstantId bias = kNone;
  ValueId end = kNone;  // what the merged product stands for: the sum where there is a bias
};

class MatmulMerger {
 public:
  explicit MatmulMerger(Module& module) : module_(module), uses_(module), builder_(module) {}

  Status Run(std::span<const std::string> wishes, std::vector<MergedMatmul>* records) {
    std::vector<ValueId> replacement(module_.values.size(), kNone);
    for (uint32_t graph = 0; graph < module_.graphs.size(); ++graph) {
      const std::vector<NodeId> nodes = module_.graphs[graph].nodes;
      // By x, orientation and wish, in node order.
      std::map<std::tuple<ValueId, int64_t, std::string>, std::vector<Member>> groups;
      for (const NodeId id : nodes) {
        const Node& node = module_.nodes[id];
        if (const auto member = MemberOf(id)) {
          groups[{node.operands[0], IntOr(node, "transpose_b", 0),
                  id < wishes.size() ? wishes[id] : std::string()}]
              .push_back(*member);
        }
      }
      size_t added = 0;
      for (size_t at = 0; at < nodes.size(); ++at) {
        for (auto& [key, members] : groups) {
          if (members.size() < 2 || members[0].matmul != nodes[at]) continue;
          builder_.InsertBefore(graph, at + added);
          const size_t before = module_.graphs[graph].nodes.size();
          HY_TRY(Merge(members, replacement));
          added += module_.graphs[graph].nodes.size() - before;
          if (records == nullptr) continue;
          MergedMatmul& record = records->emplace_back();
          const bool has_bias = AllHaveBias(members);
          for (const Member& member : members) {
            record.nodes.push_back(module_.nodes[member.matmul].name);
            record.columns += member.columns;
            if (has_bias) {
              record.sums.push_back(module_.nodes[module_.values[member.end].producer].name);
            }
          }
        }
      }
    }
    replacement.resize(module_.values.size(), kNone);
    ReplaceValues(module_, replacement);
    return OkStatus();
  }

 private:
  ConstantId ConstantOf(ValueId value) const {
    const NodeId producer = module_.values[value].producer;
    return producer == kNone ? kNone : module_.nodes[producer].constant;
  }

  std::optional<Member> MemberOf(NodeId id) const {
    const Node& node = module_.nodes[id];
    if (node.is_dead || node.op->name != "matmul" || IntOr(node, "transpose_a", 0) != 0) {
      return std::nullopt;
    }
    Member member;
    member.matmul = id;
    member.weight = ConstantOf(node.operands[1]);
    if (member.weight == kNone || ConstantOf(node.operands[0]) != kNone) return std::nullopt;
    const Constant& weight = module_.constants[member.weight];
    // Whole bytes per element; without elements there is nothing to gain.
    if (weight.dims.size() != 2 || weight.bytes == nullptr || BitWidth(weight.dtype) % 8 != 0 ||
        weight.dims[0] < 1 || weight.dims[1] < 1) {
      return std::nullopt;
    }
    member.columns = weight.dims[IntOr(node, "transpose_b", 0) != 0 ? 0 : 1];
    // Text without its data has nothing to merge.
    uint8_t probe = 0;
    if (!weight.bytes->Read(0, {&probe, 1}).ok()) return std::nullopt;
    member.end = node.results[0];
    TakeBias(member);
    if (!FeedsTemplates(member.end, 0)) return std::nullopt;
    return member;
  }

  bool FeedsTemplates(ValueId value, int depth) const {
    constexpr int kLongestChain = 8;
    if (depth > kLongestChain || uses_.IsResult(value) || uses_.IsUnused(value)) return false;
    for (const Use& use : uses_.Of(value)) {
      const Node& node = module_.nodes[use.node];
      if ((node.op->traits & kTemplate) != 0) continue;
      const bool is_view = (node.op->traits & kView) != 0 && node.operands.size() == 1;
      if (!is_view || !FeedsTemplates(node.results[0], depth + 1)) return false;
    }
    return true;
  }

  // product + spread(bias[columns]), where nothing else uses the product.
  void TakeBias(Member& member) const {
    const ValueId product = module_.nodes[member.matmul].results[0];
    if (!uses_.HasOneUse(product)) return;
    const Use use = uses_.Of(product)[0];
    const Node& add = module_.nodes[use.node];
    if (add.op->name != "add" || add.operands[0] == add.operands[1]) return;
    ValueId other = add.operands[1 - use.operand];
    if (const NodeId spread = module_.values[other].producer;
        spread != kNone && module_.nodes[spread].op->name == "broadcast") {
      other = module_.nodes[spread].operands[0];
    }
    const ConstantId bias = ConstantOf(other);
    if (bias == kNone || module_.constants[bias].bytes == nullptr) return;
    const std::vector<int64_t>& dims = module_.constants[bias].dims;
    if (dims.empty() || dims.back() != member.columns) return;
    for (size_t i = 0; i + 1 < dims.size(); ++i) {
      if (dims[i] != 1) return;
    }
    if (!(module_.values[add.results[0]].type == module_.values[product].type)) return;
    member.bias = bias;
    member.end = add.results[0];
  }

  static bool AllHaveBias(const std::vector<Member>& members) {
    return std::all_of(members.begin(), members.end(),
                       [](const Member& member) { return member.bias != kNone; });
  }

  // Constants side by side along their last axis; along the first where `rows` is 1 for all.
  Result<ValueId> Concat(const std::vector<ConstantId>& constants, int64_t rows,
                         std::vector<int64_t> dims) {
    std::vector<SideBySide::Part> parts;
    std::string name;
    for (const ConstantId id : constants) {
      const Constant& constant = module_.constants[id];
      parts.push_back({constant.bytes, constant.bytes->size_bytes() / rows});
      name += (name.empty() ? "" : "+") + constant.name;
    }
    const DType dtype = module_.constants[constants[0]].dtype;
    HY_ASSIGN(const ConstantId merged,
              builder_.AddConstant(name, dtype, std::move(dims),
                                   std::make_shared<SideBySide>(std::move(parts), rows)));
    return builder_.ConstantNode(merged);
  }

  Status Merge(const std::vector<Member>& members, std::vector<ValueId>& replacement) {
    const Node first = module_.nodes[members[0].matmul];
    const bool is_transposed = IntOr(first, "transpose_b", 0) != 0;
    const bool has_bias = AllHaveBias(members);
    const std::vector<int64_t> weight_dims = module_.constants[members[0].weight].dims;
    int64_t total = 0;
    std::vector<ConstantId> weights, biases;
    for (const Member& member : members) {
      if (__builtin_add_overflow(total, member.columns, &total)) {
        return InvalidArgument("The products of '{}' have too many columns together.", first.name);
      }
      weights.push_back(member.weight);
      biases.push_back(member.bias);
    }
    builder_.SetNodeName(first.name);
    const int64_t depth = weight_dims[is_transposed ? 1 : 0];
    // Transposed matrices lie one below the other.
    HY_ASSIGN(const ValueId weight, Concat(weights, is_transposed ? 1 : depth,
                                           is_transposed ? std::vector<int64_t>{total, depth}
                                                         : std::vector<int64_t>{depth, total}));
    HY_ASSIGN(ValueId merged,
              builder_.AddOne("matmul", {first.operands[0], weight}, first.attributes));
    if (has_bias) {
      HY_ASSIGN(const ValueId bias, Concat(biases, 1, {total}));
      HY_ASSIGN(merged, builder_.Binary("add", merged, bias));
    }
    const std::vector<Expr> dims = builder_.type_of(merged).dims;
    int64_t start = 0;
    for (const Member& member : members) {
      std::vector<Expr> starts(dims.size(), module_.exprs.Const(0)), sizes = dims;
      starts.back() = module_.exprs.Const(start);
      sizes.back() = module_.exprs.Const(member.columns);
      builder_.SetNodeName(module_.nodes[member.matmul].name);
      HY_ASSIGN(const ValueId slice,
                builder_.AddOne("slice", {merged},
                                {{"starts", starts},
                                 {"sizes", sizes},
                                 {"steps", std::vector<int64_t>(dims.size(), 1)}}));
      const ValueId end = has_bias ? member.end : module_.nodes[member.matmul].results[0];
      if (module_.values[slice].type == module_.values[end].type) replacement[end] = slice;
      start += member.columns;
    }
    return OkStatus();
  }

  Module& module_;
  UseLists uses_;
  Builder builder_;
};

}  // namespace

Status MergeMatmulsAndTell(Module& module, std::span<const std::string> wishes,
                           std::vector<MergedMatmul>* records) {
  return MatmulMerger(module).Run(wishes, records);
}

Status MergeMatmuls(Module& module) { return MergeMatmulsAndTell(module, {}, nullptr); }

}  // namespace halyard::graph
