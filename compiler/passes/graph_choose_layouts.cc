// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/graph_choose_layouts.h"

#include <algorithm>
#include <set>

#include "compiler/graph/builder.h"
#include "compiler/ops/op_def.h"

namespace halyard::graph {
namespace {

// Rewriting reads all weights; those of a depthwise convolution are small.
constexpr int64_t kMostDepthwiseWeights = int64_t{1} << 20;
constexpr int64_t kMostWindowWeights = int64_t{1} << 24;
constexpr int64_t kMostMatrixWeights = int64_t{1} << 28;
constexpr int64_t kChannelsTogether = 4;  // 8 bytes of 16-bit floats

// [n, c, spatial...] stored as [n, spatial..., c].
std::vector<uint32_t> ChannelsInnermost(size_t rank) {
  std::vector<uint32_t> order{0};
  for (uint32_t axis = 2; axis < rank; ++axis) order.push_back(axis);
  order.push_back(1);
  return order;
}

class Chooser {
 public:
  Chooser(Module& module, uint32_t graph, int lanes, bool packs_weights,
          std::vector<LayoutRecord>* records)
      : module_(module),
        graph_(graph),
        lanes_(lanes),
        packs_weights_(packs_weights),
        records_(records) {
    results_.insert(graph_of().results.begin(), graph_of().results.end());
  }

  Status Run() {
    // Rewritten weights are inserted before their convolution.
    for (size_t at = 0; at < graph_of().nodes.size(); ++at) {
      const NodeId id = graph_of().nodes[at];
      if (module_.nodes[id].is_dead || module_.nodes[id].constant != kNone) continue;
      if (module_.nodes[id].op->name == "conv") {
        HY_ASSIGN(const size_t added, ChooseConvolution(id, at));
        at += added;
      } else if (module_.nodes[id].op->name == "matmul" && !packs_weights_) {
        HY_ASSIGN(const size_t added, RewriteMatrix(id, at));
        at += added;
      } else {
        Follow(module_.nodes[id]);
      }
    }
    return OkStatus();
  }

 private:
  const Graph& graph_of() const { return module_.graphs[graph_]; }
  const std::vector<Expr>& DimsOf(ValueId value) const { return module_.values[value].type.dims; }

  void Record(const Node& node, std::string text) {
    if (records_ != nullptr) records_->push_back({node.name, std::move(text)});
  }

  Result<size_t> ChooseConvolution(NodeId id, size_t at) {
    const Node node = module_.nodes[id];
    const ValueId result = node.results[0];
    const std::vector<Expr> dims = DimsOf(result);
    const std::vector<Expr> weights = DimsOf(node.operands[1]);
    const Result<int64_t> groups_given = GetInt(node, "groups");
    const int64_t groups = groups_given.ok() ? *groups_given : 1;
    const std::optional<int64_t> channels = module_.exprs.AsConst(dims[1]);
    const bool is_depthwise =
        groups > 1 && channels == groups && module_.exprs.IsConst(weights[1], 1);
    std::string why_not;
    if (results_.count(result) > 0) {
      why_not = "its result leaves the segment";
    } else if (groups != 1 && !is_depthwise) {
      why_not = "its channels are split into groups";
    } else if (!channels || *channels < lanes_ / 2) {
      why_not = fmt::format("{} channels do not fill vectors of {} elements",
                            module_.exprs.Format(dims[1]), lanes_);
    }
    if (!why_not.empty()) {
      Record(node, fmt::format("Row-major: {}.", why_not));
      return 0;
    }
    module_.values[result].layout = ChannelsInnermost(dims.size());
    Record(node, fmt::format("Channels innermost: vectors run along {} channels.", *channels));
    if (is_depthwise) return RewriteDepthwise(id, at);
    HY_ASSIGN(const size_t added, CopyOperand(id, at));
    if (packs_weights_) return added;
    HY_ASSIGN(const size_t more, RewriteWindow(id, at + added));
    return added + more;
  }

  // The constant whose elements may be rewritten: whole bytes, at most `most` of them.
  const Constant* Rewritable(ValueId value, int64_t most) const {
    const NodeId producer = module_.values[value].producer;
    if (producer == kNone || module_.nodes[producer].constant == kNone) return nullptr;
    const Constant& constant = module_.constants[module_.nodes[producer].constant];
    int64_t elements = 1;
    for (const int64_t dim : constant.dims) {
      if (dim < 1 || dim > most / elements) return nullptr;
      elements *= dim;
    }
    return BitWidth(constant.dtype) % 8 == 0 ? &constant : nullptr;
  }

  // A row-major operand under a window (the picture that enters the model) is copied with its
  // channels innermost and its padding written out, so that each row of the window is one run in
  // memory.
  Result<size_t> CopyOperand(NodeId id, size_t at) {
    const Node node = module_.nodes[id];
    const ValueId operand = node.operands[0];
    const std::vector<Expr> dims = DimsOf(operand), weights = DimsOf(node.operands[1]);
    if (!module_.values[operand].layout.empty()) return 0;
    bool has_window = false;
    for (size_t axis = 2; axis < dims.size(); ++axis) {
      if (!module_.exprs.AsConst(dims[axis])) return 0;
      has_window |= !module_.exprs.IsConst(weights[axis], 1);
    }
    if (!has_window) return 0;
    HY_ASSIGN(const std::vector<int64_t> low, GetInts(node, "pads_low"));
    HY_ASSIGN(const std::vector<int64_t> high, GetInts(node, "pads_high"));
    int64_t channels = 0;  // that are added
    if (!packs_weights_ && Rewritable(node.operands[1], kMostWindowWeights) != nullptr) {
      if (const auto known = module_.exprs.AsConst(dims[1])) {
        channels = (kChannelsTogether - *known % kChannelsTogether) % kChannelsTogether;
      }
    }
    const auto all_axes = [&](const std::vector<int64_t>& pads, int64_t of_channels) {
      std::vector<Expr> out{module_.exprs.Const(0), module_.exprs.Const(of_channels)};
      for (const int64_t pad : pads) out.push_back(module_.exprs.Const(pad));
      return out;
    };
    Builder builder(module_, graph_);
    builder.InsertBefore(graph_, at);
    builder.SetNodeName(node.name);
    HY_ASSIGN(const ValueId copy, builder.AddOne("pad", {operand},
                                                 {{"low", all_axes(low, 0)},
                                                  {"high", all_axes(high, channels)},
                                                  {"mode", std::string("constant")}}));
    module_.values[copy].layout = ChannelsInnermost(dims.size());
    Node& conv = module_.nodes[id];
    conv.operands[0] = copy;
    conv.attributes["pads_low"] = std::vector<int64_t>(low.size(), 0);
    conv.attributes["pads_high"] = std::vector<int64_t>(high.size(), 0);
    if (channels > 0) conv.attributes["filled_channels"] = channels;
    return builder.position() - at;
  }

  // [channels, 1, window...] becomes a transpose of a constant [window..., 1, channels].
  Result<size_t> RewriteDepthwise(NodeId id, size_t at) {
    const Constant* constant = Rewritable(module_.nodes[id].operands[1], kMostDepthwiseWeights);
    if (constant == nullptr) return 0;
    HY_ASSIGN(const Tensor source, ReadConstant(*constant));
    const int64_t channels = source.dims[0];
    int64_t window = 1;
    for (size_t axis = 2; axis < source.dims.size(); ++axis) window *= source.dims[axis];
    Tensor target = source;
    target.dims.assign(source.dims.begin() + 2, source.dims.end());
    target.dims.push_back(1);
    target.dims.push_back(channels);
    const auto width = static_cast<size_t>(BitWidth(source.dtype)) / 8;
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t tap = 0; tap < window; ++tap) {
        std::copy_n(source.bytes.begin() + static_cast<ptrdiff_t>(width) * (c * window + tap),
                    width,
                    target.bytes.begin() + static_cast<ptrdiff_t>(width) * (tap * channels + c));
      }
    }
    const auto rank = static_cast<int64_t>(source.dims.size());
    std::vector<int64_t> perm{rank - 1, rank - 2};
    for (int64_t axis = 0; axis < rank - 2; ++axis) perm.push_back(axis);
    return UseRewritten(id, at, target, constant->name, perm);
  }

  // [outputs, channels, window...] becomes a transpose of a constant [outputs, window...,
  // channels], with zeros for the channels that the operand was filled up with.
  Result<size_t> RewriteWindow(NodeId id, size_t at) {
    const Node& conv = module_.nodes[id];
    const Constant* constant = Rewritable(conv.operands[1], kMostWindowWeights);
    const std::optional<int64_t> channels = module_.exprs.AsConst(DimsOf(conv.operands[0])[1]);
    if (constant == nullptr || !channels) return 0;
    if (module_.values[conv.operands[0]].layout.empty()) return 0;
    HY_ASSIGN(const Tensor source, ReadConstant(*constant));
    const int64_t outputs = source.dims[0], given = source.dims[1];
    int64_t window = 1;
    for (size_t axis = 2; axis < source.dims.size(); ++axis) window *= source.dims[axis];
    if (window == 1 && given == *channels) return 0;
    Tensor target = source;
    target.dims.assign(source.dims.begin() + 2, source.dims.end());
    target.dims.insert(target.dims.begin(), outputs);
    target.dims.push_back(*channels);
    const auto width = static_cast<size_t>(BitWidth(source.dtype)) / 8;
    target.bytes.assign(static_cast<size_t>(outputs * window * *channels) * width, 0);
    for (int64_t o = 0; o < outputs; ++o) {
      for (int64_t c = 0; c < given; ++c) {
        for (int64_t tap = 0; tap < window; ++tap) {
          const int64_t from = (o * given + c) * window + tap;
          const int64_t to = (o * window + tap) * *channels + c;
          std::copy_n(source.bytes.begin() + static_cast<ptrdiff_t>(width) * from, width,
                      target.bytes.begin() + static_cast<ptrdiff_t>(width) * to);
        }
      }
    }
    const auto rank = static_cast<int64_t>(source.dims.size());
    std::vector<int64_t> perm{0, rank - 1};
    for (int64_t axis = 1; axis < rank - 1; ++axis) perm.push_back(axis);
    return UseRewritten(id, at, target, constant->name, perm);
  }

  // A constant right factor [k, n] whose rows begin anywhere is stored as [n, k]: vectors then run
  // along k.
  Result<size_t> RewriteMatrix(NodeId id, size_t at) {
    const Node& product = module_.nodes[id];
    const Constant* constant = Rewritable(product.operands[1], kMostMatrixWeights);
    const Result<int64_t> transposed = GetInt(product, "transpose_b");
    if (constant == nullptr || constant->dims.size() != 2 ||
        (transposed.ok() && *transposed != 0)) {
      return 0;
    }
    const int64_t k = constant->dims[0], n = constant->dims[1];
    if (n % lanes_ == 0 || k % lanes_ != 0) return 0;
    HY_ASSIGN(const Tensor source, ReadConstant(*constant));
    Tensor target = source;
    target.dims = {n, k};
    const auto width = static_cast<size_t>(BitWidth(source.dtype)) / 8;
    constexpr int64_t kBlock = 32;  // a part of both that the cache keeps
    const auto copy = [&](int64_t row, int64_t column) {
      std::copy_n(source.bytes.begin() + static_cast<ptrdiff_t>(width) * (row * n + column), width,
                  target.bytes.begin() + static_cast<ptrdiff_t>(width) * (column * k + row));
    };
    for (int64_t first = 0; first < n; first += kBlock) {
      for (int64_t begin = 0; begin < k; begin += kBlock) {
        for (int64_t column = first; column < std::min(n, first + kBlock); ++column) {
          for (int64_t row = begin; row < std::min(k, begin + kBlock); ++row) copy(row, column);
        }
      }
    }
    Builder builder(module_, graph_);
    builder.InsertBefore(graph_, at);
    builder.SetNodeName(product.name);
    HY_ASSIGN(const ValueId stored, builder.ConstantOf(target, constant->name + ".transposed"));
    module_.nodes[id].operands[1] = stored;
    module_.nodes[id].attributes["transpose_b"] = int64_t{1};
    return builder.position() - at;
  }

  Result<size_t> UseRewritten(NodeId id, size_t at, const Tensor& weights, const std::string& name,
                              const std::vector<int64_t>& perm) {
    Builder builder(module_, graph_);
    builder.InsertBefore(graph_, at);
    builder.SetNodeName(module_.nodes[id].name);
    HY_ASSIGN(const ValueId stored, builder.ConstantOf(weights, name + ".channels_innermost"));
    HY_ASSIGN(const ValueId view, builder.TransposeTo(stored, perm));
    module_.nodes[id].operands[1] = view;
    return builder.position() - at;
  }

  // The layout of the first operand that has one, where the node keeps the meaning of the axes.
  void Follow(const Node& node) {
    const std::string_view op = node.op->name;
    const bool keeps_axes = (node.op->traits & kElementwise) != 0 || op == "max_pool" ||
                            op == "avg_pool" || op == "concat" || op == "pad" || op == "slice";
    if (!keeps_axes || node.results.size() != 1 || results_.count(node.results[0]) > 0) return;
    for (const ValueId operand : node.operands) {
      if (operand == kNone || module_.values[operand].layout.empty()) continue;
      if (DimsOf(operand).size() != DimsOf(node.results[0]).size()) continue;
      module_.values[node.results[0]].layout = module_.values[operand].layout;
      return;
    }
  }

  Module& module_;
  uint32_t graph_;
  int lanes_;
  bool packs_weights_;
  std::vector<LayoutRecord>* records_;
  std::set<ValueId> results_;
};

}  // namespace

Status ChooseLayouts(Module& module, uint32_t graph, int lanes, bool packs_weights,
                     std::vector<LayoutRecord>* records) {
  return Chooser(module, graph, lanes, packs_weights, records).Run();
}

Status ChooseEntryLayouts(Module& module) { return ChooseLayouts(module, 0, 16, true, nullptr); }

}  // namespace halyard::graph
