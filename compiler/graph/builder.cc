// SPDX-License-Identifier: Apache-2.0
#include "compiler/graph/builder.h"

#include <algorithm>
#include <cstring>

#include "base/excerpt.h"
#include "base/hash.h"
#include "base/near_names.h"
#include "base/quantity.h"
#include "compiler/graph/constants.h"

namespace halyard::graph {
namespace {

// How much of a file is in memory at once while it is hashed or compared.
constexpr int64_t kReadPiece = int64_t{1} << 20;

Result<bool> SameBytes(const ByteSource& a, const ByteSource& b) {
  if (a.size_bytes() != b.size_bytes()) return false;
  std::vector<uint8_t> left, right;
  for (int64_t at = 0; at < a.size_bytes(); at += kReadPiece) {
    const auto count = static_cast<size_t>(std::min(kReadPiece, a.size_bytes() - at));
    left.resize(count);
    right.resize(count);
    HY_TRY(a.Read(at, left));
    HY_TRY(b.Read(at, right));
    if (left != right) return false;
  }
  return true;
}

AttributeKind KindOfAttribute(const Attribute& attribute) {
  switch (attribute.index()) {
    case 0:
      return AttributeKind::kInt;
    case 1:
      return AttributeKind::kFloat;
    case 2:
      return AttributeKind::kString;
    case 3:
      return AttributeKind::kDType;
    case 4:
      return AttributeKind::kInts;
    case 5:
      return AttributeKind::kFloats;
    default:
      return AttributeKind::kExprs;
  }
}

Status CheckOperands(const Module& module, const Node& node) {
  const auto count = static_cast<int>(node.operands.size());
  const OpDef& op = *node.op;
  if (count < op.min_operands || (op.max_operands >= 0 && count > op.max_operands)) {
    if (op.max_operands < 0) {
      return InvalidArgument("{} takes {} or more; it has {}.", op.name,
                             Counted(op.min_operands, "operand"), count);
    }
    const bool is_one = op.min_operands == op.max_operands;
    return InvalidArgument("{} takes {}{}; it has {}.", op.name,
                           is_one ? "" : fmt::format("{} to ", op.min_operands),
                           Counted(op.max_operands, "operand"), count);
  }
  for (int i = 0; i < count; ++i) {
    const ValueId operand = node.operands[static_cast<size_t>(i)];
    if (operand == kNone) {
      const bool may_be_absent =
          (op.traits & kHasRegions) != 0 || (op.max_operands >= 0 && i >= op.min_operands);
      if (!may_be_absent) return InvalidArgument("{} needs its operand {}.", op.name, i);
    } else if (operand >= module.values.size()) {
      return InvalidArgument("Operand {} of {} is value {}; there are {}.", i, op.name, operand,
                             module.values.size());
    }
  }
  return OkStatus();
}

Status CheckAttributes(const Node& node) {
  const OpDef& op = *node.op;
  for (const AttributeDef& definition : op.attributes) {
    const auto found = node.attributes.find(definition.name);
    if (found == node.attributes.end()) {
      if (definition.is_required) {
        return InvalidArgument("{} needs the attribute '{}'.", op.name, definition.name);
      }
      continue;
    }
    if (KindOfAttribute(found->second) != definition.kind) {
      return InvalidArgument("Attribute '{}' of {} is of another kind than its record says.",
                             definition.name, op.name);
    }
    if (const auto* exprs = std::get_if<std::vector<Expr>>(&found->second)) {
      for (const Expr expr : *exprs) {
        if (!expr.valid()) {
          return InvalidArgument("Attribute '{}' of {} holds no expression.", definition.name,
                                 op.name);
        }
      }
    }
  }
  for (const auto& attribute : node.attributes) {
    const auto is_named = [&](const AttributeDef& d) { return d.name == attribute.first; };
    if (std::none_of(op.attributes.begin(), op.attributes.end(), is_named)) {
      std::vector<std::string> known;
      for (const AttributeDef& one : op.attributes) known.emplace_back(one.name);
      return InvalidArgument("{} has no attribute '{}'; it has {}.", op.name, attribute.first,
                             NamesLike(attribute.first, known));
    }
  }
  return OkStatus();
}

// Sizes that follow from the constant dims must fit; symbolic dims are checked when they are bound.
Status CheckResultType(const ExprArena& exprs, const TensorType& type) {
  if (BitWidth(type.dtype) == 0) return InvalidArgument("A result has no dtype.");
  std::vector<int64_t> known;
  for (const Expr dim : type.dims) {
    if (!dim.valid()) return InvalidArgument("A result has a dimension without a size.");
    if (const std::optional<int64_t> size = exprs.AsConst(dim)) {
      known.push_back(*size);
    } else if (exprs.RangeOf(dim).hi < 0) {
      return InvalidArgument("A dimension of a result is {}, which is always negative.",
                             exprs.Format(dim));
    }
  }
  HY_ASSIGN(const int64_t count, CountElements(known));
  HY_TRY(StorageBytes(type.dtype, count));
  return OkStatus();
}

Status NameNode(const Status& status, const Node& node) {
  std::string message = status.message();
  if (!message.empty() && message.back() == '.') message.pop_back();
  return Status(status.code(), fmt::format("{} (node '{}').", message, node.name));
}

Result<std::vector<Value>> InferUnnamed(Module& module, const Node& node) {
  HY_TRY(CheckOperands(module, node));
  HY_TRY(CheckAttributes(node));
  const bool has_regions = (node.op->traits & kHasRegions) != 0;
  if (!has_regions && !node.regions.empty()) {
    return InvalidArgument("{} takes no regions; it has {}.", node.op->name, node.regions.size());
  }
  for (const uint32_t region : node.regions) {
    if (region == 0 || region >= module.graphs.size()) {
      return InvalidArgument("Region {} of {} is not a graph of the module.", region,
                             node.op->name);
    }
  }
  if (node.op->infer == nullptr) return Unimplemented("{} has no shape rule.", node.op->name);
  HY_ASSIGN(std::vector<Value> results, node.op->infer(InferContext{module, node}));
  for (const Value& result : results) HY_TRY(CheckResultType(module.exprs, result.type));
  return results;
}

}  // namespace

uint32_t AddGraph(Module& module, std::string_view name) {
  Graph graph;
  graph.name = name;
  const auto is_taken = [&](const std::string& wanted) {
    return std::any_of(module.graphs.begin(), module.graphs.end(),
                       [&](const Graph& other) { return other.name == wanted; });
  };
  for (int suffix = 2; is_taken(graph.name); ++suffix) {
    graph.name = fmt::format("{}_{}", name, suffix);
  }
  module.graphs.push_back(std::move(graph));
  return static_cast<uint32_t>(module.graphs.size() - 1);
}

Result<std::vector<Value>> InferNode(Module& module, const Node& node) {
  Result<std::vector<Value>> results = InferUnnamed(module, node);
  if (!results.ok()) return NameNode(results.status(), node);
  return results;
}

Result<uint64_t> HashConstant(DType dtype, const std::vector<int64_t>& dims,
                              const ByteSource& bytes) {
  Hasher hash;
  const auto dtype_number = static_cast<uint8_t>(dtype);
  hash.Update({&dtype_number, 1});
  for (const int64_t dim : dims) {
    uint8_t raw[8];
    std::memcpy(raw, &dim, 8);
    hash.Update(raw);
  }
  if (const std::span<const uint8_t> whole = bytes.InMemory(); !whole.empty()) {
    hash.Update(whole);
    return hash.Finish();
  }
  std::vector<uint8_t> piece;
  for (int64_t at = 0; at < bytes.size_bytes(); at += kReadPiece) {
    piece.resize(static_cast<size_t>(std::min(kReadPiece, bytes.size_bytes() - at)));
    HY_TRY(bytes.Read(at, piece));
    hash.Update(piece);
  }
  return hash.Finish();
}

Result<Tensor> ReadConstant(const Constant& constant) {
  Tensor tensor;
  tensor.dtype = constant.dtype;
  tensor.dims = constant.dims;
  HY_ASSIGN(tensor.bytes, ReadAll(*constant.bytes, INT64_MAX));
  return tensor;
}

Builder::Builder(Module& module, uint32_t graph) : module_(module), graph_(graph) {
  if (module_.graphs.empty()) AddGraph(module_, "main");
  names_.reserve(module_.values.size());
  for (const Value& value : module_.values) names_.emplace(value.name, 1);
  for (size_t i = 0; i < module_.constants.size(); ++i) {
    constants_.emplace(module_.constants[i].content_hash, static_cast<ConstantId>(i));
  }
}

void Builder::InsertAtEnd(uint32_t graph) {
  graph_ = graph;
  at_end_ = true;
}

void Builder::InsertBefore(uint32_t graph, size_t position) {
  graph_ = graph;
  at_end_ = false;
  position_ = position;
}

size_t Builder::position() const {
  return at_end_ ? module_.graphs[graph_].nodes.size() : position_;
}

std::string Builder::UniqueName(std::string_view base) {
  std::string name(base);
  const auto [found, is_new] = names_.emplace(name, 1);
  if (is_new) return name;
  // `found` may move when suffixed names are added, so the counter is kept by value until the end.
  uint32_t suffix = found->second;
  std::string candidate;
  do {
    candidate = fmt::format("{}_{}", base, ++suffix);
  } while (!names_.emplace(candidate, 1).second);
  names_[name] = suffix;
  return candidate;
}

void Builder::Rename(ValueId value, std::string_view name) {
  const std::string copy(name);
  Rename({&value, 1}, {&copy, 1});
}

void Builder::Rename(std::span<const ValueId> values, std::span<const std::string> names) {
  // All old names go first: one of them may be a new name of another.
  for (const ValueId value : values) names_.erase(module_.values[value].name);
  for (size_t i = 0; i < values.size(); ++i) module_.values[values[i]].name = UniqueName(names[i]);
}

Result<ValueId> Builder::AddParameter(std::string_view name, TensorType type) {
  HY_TRY_CONTEXT(CheckResultType(exprs(), type), "adding parameter '{}'", name);
  for (const Expr dim : type.dims) {
    if (exprs().RangeOf(dim).lo < 0) {
      return InvalidArgument("Parameter '{}' is {}; the dimension {} may be negative.", name,
                             FormatType(exprs(), type), exprs().Format(dim));
    }
  }
  Graph& graph = module_.graphs[graph_];
  Value value;
  value.name = UniqueName(name.empty() ? "parameter" : name);
  value.type = std::move(type);
  value.result_index = static_cast<uint32_t>(graph.parameters.size());
  const auto id = static_cast<ValueId>(module_.values.size());
  module_.values.push_back(std::move(value));
  graph.parameters.push_back(id);
  return id;
}

Status Builder::SetResults(std::vector<ValueId> results, std::vector<std::string> names) {
  Graph& graph = module_.graphs[graph_];
  if (!names.empty() && names.size() != results.size()) {
    return InvalidArgument("Graph '{}' has {} and {} names for them.", graph.name,
                           Counted(results.size(), "result"), names.size());
  }
  for (const ValueId result : results) {
    if (result >= module_.values.size()) {
      return InvalidArgument("A result of graph '{}' is value {}; there are {}.", graph.name,
                             result, module_.values.size());
    }
    if (names.size() < results.size()) names.push_back(module_.values[result].name);
  }
  graph.results = std::move(results);
  graph.result_names = std::move(names);
  return OkStatus();
}

Result<std::vector<ValueId>> Builder::Add(std::string_view op, std::vector<ValueId> operands,
                                          Attributes attributes, std::vector<uint32_t> regions) {
  Node node;
  node.op = FindOp(op);
  node.name = node_name_;
  if (node.op == nullptr) {
    std::vector<std::string> known;
    for (const OpDef* one : AllOps()) known.emplace_back(one->name);
    return InvalidArgument("'{}' is not an op (node '{}'); near it are {}.", op, node_name_,
                           NamesLike(op, known, 3));
  }
  // Trailing absent operands say nothing; dropping them makes equal nodes equal.
  while (!operands.empty() && operands.back() == kNone &&
         static_cast<int>(operands.size()) > node.op->min_operands) {
    operands.pop_back();
  }
  node.operands = std::move(operands);
  node.attributes = std::move(attributes);
  node.regions = std::move(regions);
  if (op == "constant") return Internal("Constants are added by ConstantNode.");
  HY_ASSIGN(std::vector<Value> results, InferNode(module_, node));
  const auto node_id = static_cast<NodeId>(module_.nodes.size());
  for (size_t i = 0; i < results.size(); ++i) {
    Value& value = results[i];
    value.name = UniqueName(node_name_.empty() ? op : std::string_view(node_name_));
    value.producer = node_id;
    value.result_index = static_cast<uint32_t>(i);
    node.results.push_back(static_cast<ValueId>(module_.values.size()));
    module_.values.push_back(std::move(value));
  }
  std::vector<ValueId> ids = node.results;
  module_.nodes.push_back(std::move(node));
  std::vector<NodeId>& nodes = module_.graphs[graph_].nodes;
  nodes.insert(nodes.begin() + static_cast<ptrdiff_t>(position()), node_id);
  ++position_;
  return ids;
}

Result<ValueId> Builder::AddOne(std::string_view op, std::vector<ValueId> operands,
                                Attributes attributes) {
  HY_ASSIGN(const std::vector<ValueId> results,
            Add(op, std::move(operands), std::move(attributes)));
  if (results.size() != 1) return Internal("{} has {} results, not one.", op, results.size());
  return results[0];
}

Result<ConstantId> Builder::AddConstant(std::string_view name, DType dtype,
                                        std::vector<int64_t> dims,
                                        std::shared_ptr<const ByteSource> bytes) {
  HY_ASSIGN(const int64_t count, CountElements(dims));
  HY_ASSIGN(const int64_t size_bytes, StorageBytes(dtype, count));
  if (bytes->size_bytes() != size_bytes) {
    return InvalidArgument("Constant '{}' is {}[{}] and needs {}; it has {}.", name,
                           FormatDType(dtype), Excerpt(dims), Counted(size_bytes, "byte"),
                           bytes->size_bytes());
  }
  HY_ASSIGN(const uint64_t hash, HashConstant(dtype, dims, *bytes));
  return AddHashedConstant(name, dtype, std::move(dims), hash, std::move(bytes));
}

Result<ConstantId> Builder::AddHashedConstant(std::string_view name, DType dtype,
                                              std::vector<int64_t> dims, uint64_t hash,
                                              std::shared_ptr<const ByteSource> bytes) {
  const auto [first, last] = constants_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Constant& other = module_.constants[it->second];
    if (other.dtype != dtype || other.dims != dims) continue;
    if (other.bytes == bytes) return it->second;
    const Result<bool> is_same = SameBytes(*other.bytes, *bytes);
    // Bytes that are not here cannot be compared; then the hash decides.
    if (!is_same.ok() && is_same.status().code() != StatusCode::kNotFound) return is_same.status();
    if (!is_same.ok() || *is_same) return it->second;
  }
  Constant constant;
  constant.name = name;
  constant.dtype = dtype;
  constant.dims = std::move(dims);
  constant.content_hash = hash;
  constant.bytes = std::move(bytes);
  const auto id = static_cast<ConstantId>(module_.constants.size());
  module_.constants.push_back(std::move(constant));
  constants_.emplace(hash, id);
  return id;
}

Result<ValueId> Builder::ConstantNode(ConstantId constant) {
  if (constant >= module_.constants.size()) {
    return InvalidArgument("Constant {} does not exist; there are {}.", constant,
                           module_.constants.size());
  }
  Node node;
  node.op = FindOp("constant");
  node.name = node_name_;
  node.constant = constant;
  HY_ASSIGN(std::vector<Value> results, InferNode(module_, node));
  const auto node_id = static_cast<NodeId>(module_.nodes.size());
  const auto value_id = static_cast<ValueId>(module_.values.size());
  Value value = std::move(results[0]);
  const std::string& name = module_.constants[constant].name;
  value.name = UniqueName(name.empty() ? "constant" : std::string_view(name));
  value.producer = node_id;
  node.results = {value_id};
  module_.values.push_back(std::move(value));
  module_.nodes.push_back(std::move(node));
  std::vector<NodeId>& nodes = module_.graphs[graph_].nodes;
  nodes.insert(nodes.begin() + static_cast<ptrdiff_t>(position()), node_id);
  ++position_;
  return value_id;
}

Result<ValueId> Builder::ConstantOf(const Tensor& tensor, std::string_view name) {
  HY_ASSIGN(const ConstantId constant,
            AddConstant(name, tensor.dtype, tensor.dims, OwnBytes(tensor.bytes)));
  return ConstantNode(constant);
}

Result<ValueId> Builder::ScalarFloat(DType dtype, double value) {
  return ConstantOf(TensorOfFloats(dtype, {}, {&value, 1}));
}

Result<ValueId> Builder::ScalarInt(DType dtype, int64_t value) {
  return ConstantOf(TensorOfInts(dtype, {}, {&value, 1}));
}

Result<ValueId> Builder::Splat(DType dtype, double value, const std::vector<Expr>& dims) {
  HY_ASSIGN(const ValueId scalar, ScalarFloat(dtype, value));
  return BroadcastTo(scalar, dims);
}

Result<std::vector<Expr>> Builder::BroadcastShape(const std::vector<Expr>& a,
                                                  const std::vector<Expr>& b) {
  const size_t rank = std::max(a.size(), b.size());
  std::vector<Expr> dims(rank);
  for (size_t i = 0; i < rank; ++i) {  // from the last dim
    const Expr one = exprs().Const(1);
    const Expr left = i < a.size() ? a[a.size() - 1 - i] : one;
    const Expr right = i < b.size() ? b[b.size() - 1 - i] : one;
    Expr& dim = dims[rank - 1 - i];
    if (exprs().IsConst(left, 1)) {
      dim = right;
    } else if (exprs().IsConst(right, 1) || exprs().KnownEqual(left, right)) {
      dim = left;
    } else if (exprs().AsConst(left) && exprs().AsConst(right)) {
      return InvalidArgument("The shapes {} and {} do not broadcast.",
                             FormatType(exprs(), {DType::kInvalid, a}).substr(7),
                             FormatType(exprs(), {DType::kInvalid, b}).substr(7));
    } else {
      // Taken as equal; the shape rule of the op that joins them records the assumption. A constant
      // says more than a symbol.
      dim = exprs().AsConst(left) ? left : right;
      if (!exprs().AsConst(left) && !exprs().AsConst(right)) dim = left;
    }
  }
  return dims;
}

Result<ValueId> Builder::BroadcastTo(ValueId value, const std::vector<Expr>& dims) {
  if (type_of(value).dims == dims) return value;
  return AddOne("broadcast", {value}, {{"shape", dims}});
}

Result<ValueId> Builder::ReshapeTo(ValueId value, const std::vector<Expr>& dims) {
  if (type_of(value).dims == dims) return value;
  return AddOne("reshape", {value}, {{"shape", dims}});
}

Result<ValueId> Builder::CastTo(ValueId value, DType dtype) {
  if (type_of(value).dtype == dtype) return value;
  return AddOne("cast", {value}, {{"dtype", dtype}});
}

Result<ValueId> Builder::TransposeTo(ValueId value, const std::vector<int64_t>& perm) {
  bool is_identity = perm.size() == type_of(value).dims.size();
  for (size_t i = 0; i < perm.size(); ++i) is_identity &= perm[i] == static_cast<int64_t>(i);
  if (is_identity) return value;
  return AddOne("transpose", {value}, {{"perm", perm}});
}

Result<ValueId> Builder::Unary(std::string_view op, ValueId x) { return AddOne(op, {x}); }

Result<ValueId> Builder::Binary(std::string_view op, ValueId a, ValueId b) {
  HY_ASSIGN(const std::vector<Expr> dims, BroadcastShape(type_of(a).dims, type_of(b).dims));
  HY_ASSIGN(const ValueId left, BroadcastTo(a, dims));
  HY_ASSIGN(const ValueId right, BroadcastTo(b, dims));
  return AddOne(op, {left, right});
}

Result<ValueId> Builder::Select(ValueId condition, ValueId a, ValueId b) {
  HY_ASSIGN(std::vector<Expr> dims, BroadcastShape(type_of(a).dims, type_of(b).dims));
  HY_ASSIGN(dims, BroadcastShape(type_of(condition).dims, dims));
  HY_ASSIGN(const ValueId mask, BroadcastTo(condition, dims));
  HY_ASSIGN(const ValueId left, BroadcastTo(a, dims));
  HY_ASSIGN(const ValueId right, BroadcastTo(b, dims));
  return AddOne("select", {mask, left, right});
}

}  // namespace halyard::graph
