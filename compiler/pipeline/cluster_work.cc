// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/cluster_work.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "base/hash.h"
#include "compiler/loop/lowering.h"
#include "compiler/ops/op_def.h"
#include "compiler/place/tensor_limit.h"

namespace halyard::pipeline {
namespace {

using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

constexpr double kMostBytes = static_cast<double>(place::kMostTensorBytes);
// Scalar ops per element of what is not one op.
constexpr double kSoftmaxOps = 8;
constexpr double kResizeOps = 16;
// The interpreter of loops is not compiled code: a region's ops count many times.
constexpr double kRegionOps = 100;

double HintedDim(const graph::Module& module, ValueId value, size_t axis) {
  const std::vector<Expr>& dims = module.values[value].type.dims;
  return axis < dims.size()
             ? static_cast<double>(std::max<int64_t>(0, module.exprs.HintOf(dims[axis])))
             : 1.0;
}

double Elements(const graph::Module& module, ValueId value) {
  double elements = 1;
  for (size_t axis = 0; axis < module.values[value].type.dims.size(); ++axis) {
    elements *= HintedDim(module, value, axis);
  }
  return std::min(elements, 1e15);
}

double DoubleBytes(const graph::Module& module, ValueId value) {
  return std::min(Elements(module, value) * BitWidth(module.values[value].type.dtype) / 8,
                  kMostBytes);
}

bool IsConstantValue(const graph::Module& module, ValueId value) {
  const NodeId producer = module.values[value].producer;
  return producer != kNone && module.nodes[producer].constant != kNone;
}

double WindowSize(const Node& node) {
  double size = 1;
  const auto window = graph::GetInts(node, "window");
  if (window.ok()) {
    for (const int64_t extent : *window) size *= static_cast<double>(extent);
  }
  return size;
}

void AppendAttribute(const graph::Module& module, const graph::Attribute& attribute,
                     std::string& out) {
  const auto add = [&out](const auto& value) {
    fmt::format_to(std::back_inserter(out), "{},", value);
  };
  if (const auto* i = std::get_if<int64_t>(&attribute)) add(*i);
  if (const auto* d = std::get_if<double>(&attribute)) add(*d);
  if (const auto* s = std::get_if<std::string>(&attribute)) add(*s);
  if (const auto* t = std::get_if<DType>(&attribute)) add(FormatDType(*t));
  if (const auto* is = std::get_if<std::vector<int64_t>>(&attribute)) {
    for (const int64_t value : *is) add(value);
  }
  if (const auto* ds = std::get_if<std::vector<double>>(&attribute)) {
    for (const double value : *ds) add(value);
  }
  if (const auto* es = std::get_if<std::vector<Expr>>(&attribute)) {
    for (const Expr value : *es) add(module.exprs.HintOf(value));
  }
}

// What a node reads of an operand: views and gathers only what they give.
double BytesRead(const graph::Module& module, const Node& node, size_t operand) {
  const double whole = DoubleBytes(module, node.operands[operand]);
  const bool reads_part = (node.op->traits & graph::kView) != 0 ||
                          (ClassOf(node) == place::OpClass::kIndexing && operand == 0);
  if (!reads_part || node.results.empty()) return whole;
  return std::min(whole, DoubleBytes(module, node.results[0]));
}

// The matrices that tiles of a product or convolution cover. Groups of channels have no such tiles.
void SetMatrix(const graph::Module& module, const Node& node, place::Work* work) {
  const ValueId result = node.results[0];
  const size_t rank = module.values[result].type.dims.size();
  work->rows = work->columns = 0;
  if (node.op->name == "matmul" && rank >= 2) {
    work->rows = HintedDim(module, result, rank - 2);
    work->columns = HintedDim(module, result, rank - 1);
    // Where all matrices meet one, they are one below the other.
    const bool is_shared = module.values[node.operands[1]].type.dims.size() == 2;
    for (size_t axis = 0; is_shared && axis + 2 < rank; ++axis) {
      work->rows *= HintedDim(module, result, axis);
    }
  } else if (node.op->name == "conv" && rank >= 2) {
    const auto groups = graph::GetInt(node, "groups");
    if (groups.ok() && *groups > 1) return;
    work->columns = HintedDim(module, result, 1);
    work->rows = Elements(module, result) / std::max(1.0, work->columns);
  }
}

}  // namespace

int64_t HintedBytes(const graph::Module& module, ValueId value) {
  return static_cast<int64_t>(DoubleBytes(module, value));
}

place::OpClass ClassOf(const Node& node) {
  const std::string_view name = node.op->name;
  if (name == "matmul") return place::OpClass::kContraction;
  if (name == "conv" || name == "conv_transpose") return place::OpClass::kConvolution;
  if (name == "attention") return place::OpClass::kAttention;
  if (name.starts_with("gather") || name.starts_with("scatter")) return place::OpClass::kIndexing;
  if (name == "sort" || name == "topk" || name == "cumsum" || name == "nonzero") {
    return place::OpClass::kOrdering;
  }
  if (node.op->traits & graph::kHasRegions) return place::OpClass::kControl;
  const bool reduces = (node.op->traits & graph::kReduction) || name.ends_with("_pool");
  return reduces ? place::OpClass::kReduction : place::OpClass::kPointwise;
}

double CountFlops(const graph::Module& module, const Node& node) {
  if (node.results.empty() || node.constant != kNone) return 0;
  const double results = Elements(module, node.results[0]);
  const std::string_view name = node.op->name;
  if (name == "matmul") {
    const size_t rank = module.values[node.operands[0]].type.dims.size();
    const auto transposed = graph::GetInt(node, "transpose_a");
    const size_t axis = transposed.ok() && *transposed != 0 ? rank - 2 : rank - 1;
    return 2 * results * HintedDim(module, node.operands[0], axis);
  }
  if (name == "conv" || name == "conv_transpose") {
    // Each element of the weights' first axis slice meets each result (conv) or operand element.
    const double weights = Elements(module, node.operands[1]);
    const double slices = std::max(1.0, HintedDim(module, node.operands[1], 0));
    const double positions = name == "conv" ? results : Elements(module, node.operands[0]);
    return 2 * positions * weights / slices;
  }
  if (name == "attention") {
    const double queries = Elements(module, node.operands[0]);  // b h s d
    const double keys = HintedDim(module, node.operands[1], 2);
    const double rows = queries / std::max(1.0, HintedDim(module, node.operands[0], 3));
    return 2 * keys * (queries + results) + kSoftmaxOps * rows * keys;
  }
  if (name.ends_with("_pool")) return results * WindowSize(node);
  if (name == "resize") return results * kResizeOps;
  if (node.op->traits & graph::kView) return 0;
  if (node.op->traits & graph::kHasRegions) {
    double flops = 0;
    for (const uint32_t region : node.regions) {
      for (const NodeId inner : module.graphs[region].nodes) {
        flops += CountFlops(module, module.nodes[inner]);
      }
    }
    double trips = 1;
    if (const auto given = graph::GetExprs(node, "trips"); given.ok() && !given->empty()) {
      trips = static_cast<double>(std::max<int64_t>(1, module.exprs.HintOf((*given)[0])));
    }
    return std::min(flops * trips * kRegionOps, 1e18);
  }
  // What is compared: sorting, or looking for the first few.
  if (name == "sort" || name == "topk") {
    const double elements = Elements(module, node.operands[0]);
    const auto axis = graph::GetInt(node, "axis");
    const double row =
        axis.ok() ? std::max(1.0, HintedDim(module, node.operands[0], static_cast<size_t>(*axis)))
                  : 1.0;
    const double kept =
        std::min(row, results / std::max(1.0, elements / row));  // of each row; of `sort` all of it
    const double ordered = kept * std::max(1.0, std::log2(kept));
    return elements / row * (name == "sort" ? ordered : row + ordered);
  }
  if (ClassOf(node) == place::OpClass::kReduction || ClassOf(node) == place::OpClass::kOrdering) {
    return node.operands.empty() || node.operands[0] == kNone ? results
                                                              : Elements(module, node.operands[0]);
  }
  return results;
}

place::Work CountWork(const graph::Module& module, std::span<const NodeId> nodes,
                      const std::vector<bool>& leaves) {
  place::Work work;
  const std::set<NodeId> inside(nodes.begin(), nodes.end());
  double most = -1;
  std::map<ValueId, double> read;  // values from outside: the most that any node reads
  for (const NodeId id : nodes) {
    const Node& node = module.nodes[id];
    const double flops = CountFlops(module, node);
    work.flops += flops;
    // Contractions and their kin decide the class whatever else is there, then reductions: what is
    // computed of each element beside them takes no pass of its own.
    const bool is_template = (node.op->traits & graph::kTemplate) != 0;
    const bool is_reduction = ClassOf(node) == place::OpClass::kReduction;
    const double weight = is_template ? 1e18 + flops : is_reduction ? 1e15 + flops : flops;
    if (weight > most && !node.results.empty()) {
      most = weight;
      work.op_class = ClassOf(node);
      work.dtype = module.values[node.results[0]].type.dtype;
      work.results = Elements(module, node.results[0]);
      SetMatrix(module, node, &work);
    }
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId operand = node.operands[i];
      if (operand == kNone || inside.count(module.values[operand].producer)) continue;
      double& bytes = read[operand];
      bytes = std::max(bytes, BytesRead(module, node, i));
    }
    for (const ValueId result : node.results) {
      if (leaves[result]) work.bytes += DoubleBytes(module, result);
    }
  }
  for (const auto& [value, bytes] : read) work.bytes += bytes;
  return work;
}

double ConstantBytesRead(const graph::Module& module, std::span<const NodeId> nodes,
                         std::set<ValueId>* counted) {
  double bytes = 0;
  for (const NodeId id : nodes) {
    const Node& node = module.nodes[id];
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId operand = node.operands[i];
      if (operand == kNone || !IsConstantValue(module, operand)) continue;
      if (counted->insert(operand).second) bytes += BytesRead(module, node, i);
    }
  }
  return bytes;
}

uint64_t WorkKey(const graph::Module& module, std::span<const NodeId> nodes) {
  std::string text;
  std::map<ValueId, size_t> numbers;  // in order of first appearance
  const auto add_value = [&](ValueId value) {
    if (value == kNone) {
      text += "-,";
      return;
    }
    const auto [entry, is_new] = numbers.try_emplace(value, numbers.size());
    fmt::format_to(std::back_inserter(text), "%{}", entry->second);
    if (is_new) {
      const graph::TensorType& type = module.values[value].type;
      fmt::format_to(std::back_inserter(text), ":{}{}", FormatDType(type.dtype),
                     IsConstantValue(module, value) ? "c" : "");
      for (const Expr dim : type.dims) {
        fmt::format_to(std::back_inserter(text), "x{}", module.exprs.HintOf(dim));
      }
    }
    text += ',';
  };
  for (const NodeId id : nodes) {
    const Node& node = module.nodes[id];
    text += node.op->name;
    text += '(';
    for (const ValueId operand : node.operands) add_value(operand);
    text += ')';
    for (const auto& [name, attribute] : node.attributes) {
      text += name;
      text += '=';
      AppendAttribute(module, attribute, text);
    }
    text += "->";
    for (const ValueId result : node.results) add_value(result);
    for (const uint32_t region : node.regions) {
      const std::vector<NodeId>& body = module.graphs[region].nodes;
      fmt::format_to(std::back_inserter(text), "{{{:016x}}}", WorkKey(module, body));
    }
    text += ';';
  }
  return HashString(text);
}

}  // namespace halyard::pipeline
