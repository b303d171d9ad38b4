// SPDX-License-Identifier: Apache-2.0
// Graphs, scopes, functions and bodies. What single ops mean is in the files of the import table.
#include "compiler/import/onnx_importer.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/near_names.h"
#include "base/quantity.h"
#include "compiler/expr/largest_symbol.h"

namespace halyard::onnx {
namespace {

// Nodes of the Graph IR for each node that a model may have.
constexpr int64_t kMostGrowth = 8;

std::string FunctionKey(std::string_view domain, std::string_view name, std::string_view overload) {
  // Zero bytes cannot be in the way: they only separate.
  std::string key(domain == "ai.onnx" ? "" : domain);
  key.push_back('\0');
  key += name;
  key.push_back('\0');
  key += overload;
  return key;
}

std::string NodeLabel(const NodeProto& node, size_t index) {
  if (!node.name.empty()) return Printable(node.name);
  if (!node.output.empty() && !node.output[0].empty()) return Printable(node.output[0]);
  return fmt::format("#{}", index);
}

// Names that a list of nodes reads but does not make, in order of first use.
void CollectFree(const std::vector<NodeProto>& nodes, std::set<std::string>& defined,
                 std::vector<std::string>& free, std::set<std::string>& seen, int64_t depth);

void CollectFree(const GraphProto& graph, std::vector<std::string>& free,
                 std::set<std::string>& seen, int64_t depth) {
  std::set<std::string> defined;
  for (const ValueInfoProto& input : graph.input) defined.insert(input.name);
  for (const TensorProto& tensor : graph.initializer) defined.insert(tensor.name);
  for (const NodeProto& node : graph.node) defined.insert(node.output.begin(), node.output.end());
  CollectFree(graph.node, defined, free, seen, depth);
  for (const ValueInfoProto& output : graph.output) {
    if (defined.count(output.name) == 0 && seen.insert(output.name).second)
      free.push_back(output.name);
  }
}

void CollectFree(const std::vector<NodeProto>& nodes, std::set<std::string>& defined,
                 std::vector<std::string>& free, std::set<std::string>& seen, int64_t depth) {
  for (const NodeProto& node : nodes) {
    for (const std::string& name : node.input) {
      if (!name.empty() && defined.count(name) == 0 && seen.insert(name).second)
        free.push_back(name);
    }
    for (const AttributeProto& attribute : node.attribute) {
      if (attribute.g == nullptr || depth == 0) continue;
      std::vector<std::string> inner;
      std::set<std::string> inner_seen;
      CollectFree(*attribute.g, inner, inner_seen, depth - 1);
      for (std::string& name : inner) {
        if (defined.count(name) == 0 && seen.insert(name).second) free.push_back(std::move(name));
      }
    }
  }
}

// The names that a graph's nodes, the bodies of these, and its outputs read.
std::set<std::string> NamesRead(const GraphProto& graph, int64_t depth) {
  std::set<std::string> defined, seen;
  std::vector<std::string> free;
  CollectFree(graph.node, defined, free, seen, depth);
  for (const ValueInfoProto& output : graph.output) seen.insert(output.name);
  return seen;
}

// "[1, n, ?]": what the file says of a shape.
std::string FormatDeclared(const TensorShapeProto& shape) {
  std::string text;
  for (const DimensionProto& dim : shape.dim) {
    text += text.empty() ? "" : ", ";
    text += dim.dim_value           ? fmt::format("{}", *dim.dim_value)
            : dim.dim_param.empty() ? "?"
                                    : Printable(dim.dim_param);
  }
  return "[" + text + "]";
}

}  // namespace

Importer::Importer(const ModelProto& model, std::shared_ptr<const graph::ByteSource> file,
                   ExternalFiles external, const ImportOptions& options, ImportReport& report)
    : model_(model),
      file_(std::move(file)),
      external_(std::move(external)),
      options_(options),
      report_(report) {}

Result<graph::Module> Importer::Run() {
  HY_CHECK(model_.graph != nullptr, "a model without a graph is no model");
  std::map<std::string, int64_t> opsets;
  for (const OperatorSetIdProto& entry : model_.opset_import) {
    opsets[entry.domain == "ai.onnx" ? "" : entry.domain] = entry.version;
  }
  if (opsets.count("") == 0) {
    // Files older than IR version 3 have no imports and mean opset 1.
    if (model_.opset_import.empty()) opsets[""] = 1;
  }
  report_.ir_version = model_.ir_version;
  report_.producer =
      model_.producer_name + (model_.producer_version.empty() ? "" : " ") + model_.producer_version;
  report_.opset = opsets.count("") == 0 ? 0 : opsets[""];
  if (report_.opset > NewestOpset()) {
    report_.warnings.push_back(
        fmt::format("The model is of opset {}; ops are known up to opset {}, and what a newer one "
                    "changed is not.",
                    report_.opset, NewestOpset()));
  }
  for (const FunctionProto& function : model_.functions) {
    if (!functions_
             .emplace(FunctionKey(function.domain, function.name, function.overload), &function)
             .second) {
      return InvalidArgument("Function '{}' of domain '{}' is defined twice.",
                             Printable(function.name), Printable(function.domain));
    }
  }
  graph::AddGraph(module_, model_.graph->name.empty() ? "main" : model_.graph->name);
  builder_ = std::make_unique<graph::Builder>(module_);
  Scope scope;
  scope.opsets = &opsets;
  HY_TRY(ImportInitialisers(*model_.graph, scope));
  HY_TRY(ImportInputs(*model_.graph, scope));
  HY_TRY(CheckFixedSymbols());
  HY_TRY(ImportNodes(model_.graph->node, scope));
  if (!report_.unsupported.empty()) {
    std::string list;
    constexpr size_t kShown = 32;
    for (size_t i = 0; i < std::min(kShown, report_.unsupported.size()); ++i) {
      const UnsupportedOp& op = report_.unsupported[i];
      list += fmt::format("{}{}{}{} (opset {}, {} {}, first '{}'): {}", list.empty() ? "" : "; ",
                          op.domain, op.domain.empty() ? "" : ".", op.op_type, op.opset, op.nodes,
                          op.nodes == 1 ? "node" : "nodes", op.first_node, op.reason);
    }
    if (report_.unsupported.size() > kShown) {
      list += fmt::format("; and {} more", report_.unsupported.size() - kShown);
    }
    return Unimplemented("{} {} not supported: {}", report_.unsupported.size(),
                         report_.unsupported.size() == 1 ? "op is" : "ops are", list);
  }
  HY_TRY(ImportOutputs(*model_.graph, scope));
  builder_.reset();
  return std::move(module_);
}

Result<Expr> Importer::InputDim(const std::string& input, size_t axis, const DimensionProto& dim) {
  if (!IsOpenSize(dim)) {
    if (*dim.dim_value > kMostSize) {
      return OutOfRange("Input '{}' has a dim of {}; the limit is {}.", Printable(input),
                        *dim.dim_value, kMostSize);
    }
    return module_.exprs.Const(*dim.dim_value);
  }
  const SizeNames::Name name = size_names_.Add(input, axis, dim);
  for (const std::string& key : {name.raw, name.symbol}) {
    if (const auto fixed = options_.symbol_values.find(key);
        fixed != options_.symbol_values.end()) {
      if (fixed->second < 0 || fixed->second > kLargestSymbol) {
        return OutOfRange("Symbol '{}' is fixed to {}; it must lie in [0, {}].", Printable(key),
                          fixed->second, kLargestSymbol);
      }
      return module_.exprs.Const(fixed->second);
    }
  }
  return module_.exprs.Dim(name.symbol);
}

Status Importer::CheckFixedSymbols() const {
  for (const auto& [name, value] : options_.symbol_values) {
    if (size_names_.Has(name)) continue;
    const std::vector<std::string> known(size_names_.symbols().begin(),
                                         size_names_.symbols().end());
    return InvalidArgument(
        "The model has no size '{}', which is to be {}; its sizes with names: {}.", Printable(name),
        value, NamesLike(name, known));
  }
  return OkStatus();
}

Status Importer::ImportInputs(const GraphProto& graph, Scope& scope) {
  std::set<std::string> seen;
  for (const ValueInfoProto& input : graph.input) {
    const std::string shown = Printable(input.name);
    if (input.name.empty()) return InvalidArgument("A graph input has no name.");
    if (!seen.insert(input.name).second)
      return InvalidArgument("Input '{}' is declared twice.", shown);
    // Before IR version 4 initialisers are listed as inputs too. Their values are taken as final.
    if (scope.values.count(input.name) != 0) continue;
    if (!input.type.has_value() || !input.type->tensor_type.has_value()) {
      const bool is_other =
          input.type.has_value() &&
          (input.type->is_sequence || input.type->is_map || input.type->is_optional ||
           input.type->is_sparse || input.type->is_opaque);
      if (is_other) return Unimplemented("Input '{}' is not a dense tensor.", shown);
      return InvalidArgument("Input '{}' has no tensor type.", shown);
    }
    const TensorTypeProto& type = *input.type->tensor_type;
    graph::TensorType made;
    auto dtype = DTypeOf(type.elem_type);
    if (!dtype.ok())
      return Status(dtype.status().code(),
                    fmt::format("Input '{}': {}", shown, dtype.status().message()));
    made.dtype = *dtype;
    if (!type.shape.has_value()) {
      return Unimplemented("Input '{}' has no shape; its number of dimensions must be known.",
                           shown);
    }
    if (static_cast<int64_t>(type.shape->dim.size()) > options_.limits.tensor_rank) {
      return OutOfRange("Input '{}' has {}; the limit is {}.", shown,
                        Counted(type.shape->dim.size(), "dimension"), options_.limits.tensor_rank);
    }
    for (size_t axis = 0; axis < type.shape->dim.size(); ++axis) {
      HY_ASSIGN(const Expr dim, InputDim(input.name, axis, type.shape->dim[axis]));
      made.dims.push_back(dim);
    }
    HY_ASSIGN(scope.values[input.name], builder_->AddParameter(input.name, std::move(made)));
  }
  return OkStatus();
}

Status Importer::ImportInitialisers(const GraphProto& graph, Scope& scope) {
  if (graph.has_sparse_initializer) return Unimplemented("Sparse initialisers are not supported.");
  std::set<std::string> seen;
  const std::set<std::string> read = NamesRead(graph, options_.limits.nesting);
  for (const TensorProto& tensor : graph.initializer) {
    const std::string shown = Printable(tensor.name);
    if (tensor.name.empty()) return InvalidArgument("An initialiser has no name.");
    if (!seen.insert(tensor.name).second)
      return InvalidArgument("Initialiser '{}' is defined twice.", shown);
    // Labels and the like, which the graph carries along.
    if (!DTypeOf(tensor.data_type).ok() && read.count(tensor.name) == 0) {
      scope.values[tensor.name] = kUnsupportedValue;
      continue;
    }
    HY_ASSIGN(TensorBytes bytes, ResolveTensor(tensor, fmt::format("Initialiser '{}'", shown),
                                               file_, &external_, options_.limits));
    HY_ASSIGN(const graph::ConstantId constant,
              builder_->AddConstant(tensor.name, bytes.dtype, std::move(bytes.dims),
                                    std::move(bytes.bytes)));
    builder_->SetNodeName(tensor.name);
    HY_ASSIGN(const ValueId value, builder_->ConstantNode(constant));
    builder_->Rename(value, tensor.name);
    scope.values[tensor.name] = value;
    report_.weights[tensor.name].type =
        graph::FormatType(module_.exprs, module_.values[value].type);
  }
  return OkStatus();
}

Status Importer::ImportOutputs(const GraphProto& graph, Scope& scope) {
  std::vector<std::string> exact;
  std::set<std::string> names;
  std::vector<ValueId> results;
  if (graph.output.empty()) return InvalidArgument("The graph has no outputs.");
  for (const ValueInfoProto& output : graph.output) {
    const std::string shown = Printable(output.name);
    if (!names.insert(output.name).second)
      return InvalidArgument("Output '{}' is declared twice.", shown);
    HY_ASSIGN(const ValueId value, Lookup(output.name, scope));
    const graph::TensorType type = module_.values[value].type;
    if (output.type.has_value() && output.type->tensor_type.has_value()) {
      const TensorTypeProto& declared = *output.type->tensor_type;
      auto dtype = DTypeOf(declared.elem_type);
      if (declared.elem_type != 0 && (!dtype.ok() || *dtype != type.dtype)) {
        return InvalidArgument("Output '{}' is declared {}; the graph computes {}.", shown,
                               FormatTensorDataType(declared.elem_type), FormatDType(type.dtype));
      }
      if (declared.shape.has_value()) {
        bool fits = declared.shape->dim.size() == type.dims.size();
        for (size_t i = 0; fits && i < type.dims.size(); ++i) {
          const std::optional<int64_t> made = module_.exprs.AsConst(type.dims[i]);
          const std::optional<int64_t> wanted = declared.shape->dim[i].dim_value;
          fits = !made.has_value() || !wanted.has_value() || *wanted <= 0 || *made == *wanted;
        }
        if (!fits) {
          report_.warnings.push_back(
              fmt::format("Output '{}' is {}; the file declares another shape, {}.", shown,
                          graph::FormatType(module_.exprs, type), FormatDeclared(*declared.shape)));
        }
      }
    }
    exact.push_back(output.name);
    results.push_back(value);
  }
  return builder_->SetResults(std::move(results), std::move(exact));
}

Result<ValueId> Importer::Lookup(const std::string& name, const Scope& scope) const {
  const auto found = scope.values.find(name);
  if (found == scope.values.end()) {
    return InvalidArgument("Output '{}' is produced by nothing.", Printable(name));
  }
  return found->second;
}

Result<std::vector<const NodeProto*>> Importer::Order(const std::vector<NodeProto>& nodes,
                                                      const Scope& scope) {
  std::unordered_map<std::string, size_t> producer;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string& name : nodes[i].output) {
      if (name.empty()) continue;
      const auto [entry, is_new] = producer.emplace(name, i);
      if (!is_new || scope.values.count(name) != 0) {
        return InvalidArgument(
            "Node '{}' ({}): Output '{}' is already produced by {}.", NodeLabel(nodes[i], i),
            Printable(nodes[i].op_type), Printable(name),
            is_new ? "an input or initialiser"
                   : fmt::format("node '{}'", NodeLabel(nodes[entry->second], entry->second)));
      }
    }
  }
  // Kahn's algorithm; ready nodes are taken in file order, so a sorted file keeps its order.
  std::vector<std::vector<size_t>> readers(nodes.size());
  std::vector<size_t> waits(nodes.size(), 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::vector<std::string> reads(nodes[i].input.begin(), nodes[i].input.end());
    for (const AttributeProto& attribute : nodes[i].attribute) {
      if (attribute.g == nullptr) continue;
      std::set<std::string> seen;
      CollectFree(*attribute.g, reads, seen, options_.limits.nesting);
    }
    std::set<size_t> sources;
    for (const std::string& name : reads) {
      if (name.empty()) continue;
      const auto found = producer.find(name);
      if (found != producer.end()) {
        sources.insert(found->second);
      } else if (scope.values.count(name) == 0) {
        return InvalidArgument("Node '{}' ({}): Input '{}' is produced by nothing.",
                               NodeLabel(nodes[i], i), Printable(nodes[i].op_type),
                               Printable(name));
      }
    }
    waits[i] = sources.size();
    for (const size_t source : sources) readers[source].push_back(i);
  }
  std::set<size_t> ready;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (waits[i] == 0) ready.insert(i);
  }
  std::vector<const NodeProto*> order;
  while (!ready.empty()) {
    const size_t i = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(&nodes[i]);
    for (const size_t reader : readers[i]) {
      if (--waits[reader] == 0) ready.insert(reader);
    }
  }
  if (order.size() != nodes.size()) {
    const size_t stuck = static_cast<size_t>(
        std::find_if(waits.begin(), waits.end(), [](size_t w) { return w != 0; }) - waits.begin());
    return InvalidArgument(
        "Node '{}' ({}): It depends on itself through a cycle of {} or their readers.",
        NodeLabel(nodes[stuck], stuck), Printable(nodes[stuck].op_type),
        Counted(nodes.size() - order.size(), "node"));
  }
  return order;
}

Status Importer::ImportNodes(const std::vector<NodeProto>& nodes, Scope& scope) {
  HY_ASSIGN(const std::vector<const NodeProto*> order, Order(nodes, scope));
  for (const NodeProto* node : order) {
    HY_TRY(ImportNode(*node, scope, static_cast<size_t>(node - nodes.data())));
  }
  return OkStatus();
}

void Importer::Unsupported(const NodeProto& node, std::string_view label, int64_t opset,
                           std::string_view reason, Scope& scope) {
  for (const std::string& name : node.output) {
    if (!name.empty()) scope.values[name] = kUnsupportedValue;
  }
  for (UnsupportedOp& op : report_.unsupported) {
    if (op.domain == Printable(node.domain) && op.op_type == Printable(node.op_type) &&
        op.reason == reason) {
      ++op.nodes;
      return;
    }
  }
  report_.unsupported.push_back({Printable(node.domain), Printable(node.op_type), opset, 1,
                                 std::string(label), std::string(reason)});
}

Status Importer::ImportNode(const NodeProto& node, Scope& scope, size_t index) {
  const std::string label = NodeLabel(node, index);
  const std::string op = Printable(node.op_type);
  const auto fail = [&](const Status& status) {
    return Status(status.code(), fmt::format("Node '{}' ({}): {}", label, op, status.ToLine()));
  };
  if (++report_.nodes > options_.limits.expanded_nodes) {
    return fail(
        OutOfRange("The model has more nodes than the limit of {} after its functions are inlined.",
                   options_.limits.expanded_nodes));
  }
  // Ops that are unrolled become many nodes.
  const auto grown = static_cast<int64_t>(module_.nodes.size());
  if (grown / kMostGrowth > options_.limits.expanded_nodes) {
    return fail(OutOfRange("The graph has grown to {} nodes; the limit is {}.", grown,
                           options_.limits.expanded_nodes * kMostGrowth));
  }
  const std::string domain = node.domain == "ai.onnx" ? "" : node.domain;
  const auto imported = scope.opsets->find(domain);
  const int64_t opset = imported == scope.opsets->end() ? 0 : imported->second;

  std::vector<ValueId> inputs;
  bool is_unsupported = false;
  for (const std::string& name : node.input) {
    if (name.empty()) {
      inputs.push_back(kNone);
      continue;
    }
    inputs.push_back(scope.values.at(name));  // Order has checked that it is there
    is_unsupported |= inputs.back() == kUnsupportedValue;
  }
  if (is_unsupported) {
    // Only the ops that are the cause are reported.
    for (const std::string& name : node.output) {
      if (!name.empty()) scope.values[name] = kUnsupportedValue;
    }
    return OkStatus();
  }
  const ImportRow* row = FindImportRow(domain, node.op_type, opset);
  if (row == nullptr) {
    const auto function = functions_.find(FunctionKey(domain, node.op_type, node.overload));
    if (function != functions_.end()) {
      const Status called = ImportCall(node, *function->second, inputs, scope);
      return called.ok() ? called : fail(called);
    }
    if (imported == scope.opsets->end()) {
      return fail(InvalidArgument("Its domain '{}' is not among the opset imports of the model.",
                                  Printable(domain)));
    }
    Unsupported(node, label, opset, WhereImported(domain, node.op_type, opset), scope);
    return OkStatus();
  }
  // Trailing inputs and outputs without a name are as good as absent.
  size_t given = inputs.size();
  while (given > 0 && inputs[given - 1] == kNone) --given;
  if (static_cast<int64_t>(given) < row->min_inputs ||
      (row->max_inputs >= 0 && static_cast<int64_t>(given) > row->max_inputs)) {
    const std::string allowed = row->max_inputs == row->min_inputs ? std::to_string(row->min_inputs)
                                : row->max_inputs < 0
                                    ? fmt::format("at least {}", row->min_inputs)
                                    : fmt::format("{} to {}", row->min_inputs, row->max_inputs);
    return fail(InvalidArgument("It has {}; {} needs {}.", Counted(given, "input"), op, allowed));
  }
  inputs.resize(given);
  size_t outputs = node.output.size();
  while (outputs > 0 && node.output[outputs - 1].empty()) --outputs;
  if (row->max_outputs >= 0 && static_cast<int64_t>(outputs) > row->max_outputs) {
    return fail(InvalidArgument("It has {}; {} gives at most {}.", Counted(outputs, "output"), op,
                                row->max_outputs));
  }
  for (const AttributeProto& attribute : node.attribute) {
    const std::string padded = fmt::format(" {} ", row->attributes);
    if (padded.find(fmt::format(" {} ", attribute.name)) == std::string::npos ||
        attribute.name.empty()) {
      return fail(InvalidArgument("Attribute '{}' is not known; {} has {}.",
                                  Printable(attribute.name), op,
                                  row->attributes.empty() ? "none" : row->attributes));
    }
  }
  const std::string& name = node.name.empty() ? label : node.name;
  builder_->SetNodeName(name);
  report_.op_types[name].insert(op);
  report_.sources.push_back(
      {name, domain.empty() ? node.op_type : domain + "." + node.op_type, node.output});
  for (const std::string& input : node.input) {
    const auto weight = report_.weights.find(input);
    if (weight == report_.weights.end()) continue;
    std::vector<std::string>& readers = weight->second.readers;
    if (readers.empty() || readers.back() != name) readers.push_back(name);
  }
  const auto first_new = static_cast<ValueId>(module_.values.size());
  const size_t reported = report_.unsupported.size();
  NodeContext context(*this, *builder_, node, scope, opset, std::move(inputs));
  const std::vector<V> results = row->import(context);
  if (!context.ok()) {
    if (context.status.code() != StatusCode::kUnimplemented) return fail(context.status);
    if (report_.unsupported.size() > reported) {  // a node of its body is the cause
      for (const std::string& name : node.output) {
        if (!name.empty()) scope.values[name] = kUnsupportedValue;
      }
      return OkStatus();
    }
    Unsupported(node, label, opset, context.status.ToLine(), scope);
    return OkStatus();
  }
  std::vector<ValueId> values;
  for (const V v : results) values.push_back(v.id);
  const Status defined = Define(node, values, first_new, scope);
  return defined.ok() ? defined : fail(defined);
}

Status Importer::Define(const NodeProto& node, std::span<const ValueId> values, ValueId first_new,
                        Scope& scope) {
  for (size_t i = 0; i < node.output.size(); ++i) {
    const std::string& name = node.output[i];
    if (name.empty()) continue;
    if (i >= values.size() || values[i] == kNone) {
      return Unimplemented("Output {} is not supported.", i);
    }
    scope.values[name] = values[i];
    if (values[i] >= first_new && values[i] != kUnsupportedValue &&
        module_.values[values[i]].name != name) {
      builder_->Rename(values[i], name);
    }
  }
  return OkStatus();
}

Status Importer::ImportCall(const NodeProto& node, const FunctionProto& function,
                            std::span<const ValueId> inputs, Scope& scope) {
  if (scope.call_depth >= options_.limits.call_depth) {
    return OutOfRange("Functions call functions deeper than the limit of {}.",
                      options_.limits.call_depth);
  }
  if (inputs.size() > function.input.size() || node.output.size() > function.output.size()) {
    return InvalidArgument("It has {} and {}; the function has {} and {}.",
                           Counted(inputs.size(), "input"), Counted(node.output.size(), "output"),
                           function.input.size(), function.output.size());
  }
  ++report_.calls_inlined;
  std::map<std::string, int64_t> opsets;
  for (const OperatorSetIdProto& entry : function.opset_import) {
    opsets[entry.domain == "ai.onnx" ? "" : entry.domain] = entry.version;
  }
  std::map<std::string, const AttributeProto*> attributes;
  for (const AttributeProto& attribute : function.attribute_proto)
    attributes[attribute.name] = &attribute;
  for (const AttributeProto& attribute : node.attribute) {
    const AttributeProto* given = &attribute;
    if (!attribute.ref_attr_name.empty()) {
      given = nullptr;
      if (scope.function_attributes != nullptr) {
        const auto found = scope.function_attributes->find(attribute.ref_attr_name);
        if (found != scope.function_attributes->end()) given = found->second;
      }
    }
    if (given != nullptr) attributes[attribute.name] = given;
  }
  Scope inner;
  inner.opsets = &opsets;
  inner.function_attributes = &attributes;
  inner.call_depth = scope.call_depth + 1;
  std::set<std::string> absent;
  for (size_t i = 0; i < function.input.size(); ++i) {
    // An absent optional input reads as absent inside.
    inner.values[function.input[i]] = i < inputs.size() ? inputs[i] : kNone;
  }
  HY_TRY(ImportNodes(function.node, inner));
  for (size_t i = 0; i < node.output.size(); ++i) {
    if (node.output[i].empty()) continue;
    HY_ASSIGN(const ValueId value, Lookup(function.output[i], inner));
    if (value == kNone)
      return InvalidArgument("Output '{}' is an absent input.", Printable(function.output[i]));
    scope.values[node.output[i]] = value;
  }
  return OkStatus();
}

V Importer::Constant(NodeContext& c, const TensorProto& tensor, std::string_view what,
                     std::string_view name) {
  if (!c.ok()) return {&c, kNone};
  auto bytes = ResolveTensor(tensor, what, file_, &external_, options_.limits);
  if (!bytes.ok()) return c.Fail(bytes.status());
  const auto constant = builder_->AddConstant(name, bytes->dtype, bytes->dims, bytes->bytes);
  if (!constant.ok()) return c.Fail(constant.status());
  return c.Take(builder_->ConstantNode(*constant));
}

std::vector<std::string> Importer::Captured(NodeContext& c,
                                            std::span<const GraphProto* const> bodies) {
  std::vector<std::string> free;
  std::set<std::string> seen;
  for (const GraphProto* body : bodies) CollectFree(*body, free, seen, options_.limits.nesting);
  std::vector<std::string> captured;
  for (const std::string& name : free) {
    const auto found = c.scope.values.find(name);
    if (found == c.scope.values.end() || found->second == kNone ||
        found->second == kUnsupportedValue)
      continue;
    const graph::Value& value = module_.values[found->second];
    const bool is_constant =
        value.producer != kNone && module_.nodes[value.producer].constant != kNone;
    if (is_constant || value.elements.has_value()) continue;
    captured.push_back(name);
  }
  return captured;
}

Result<uint32_t> Importer::Body(NodeContext& c, const GraphProto& body,
                                std::span<const BodyParameter> parameters,
                                const std::vector<std::string>& captured,
                                const BodyOptions& options) {
  const uint32_t outer_graph = builder_->graph();
  const std::string node_name = builder_->node_name();
  const uint32_t region =
      graph::AddGraph(module_, fmt::format("{}_body_{}", node_name, module_.graphs.size()));
  // Types are copied: the module grows while the body is built.
  std::vector<graph::TensorType> captured_types;
  for (const std::string& name : captured)
    captured_types.push_back(module_.values[c.scope.values.at(name)].type);
  builder_->InsertAtEnd(region);
  const auto build = [&]() -> Status {
    Scope inner;
    inner.opsets = c.scope.opsets;
    inner.function_attributes = c.scope.function_attributes;
    inner.call_depth = c.scope.call_depth;
    // What is known before the run is made anew inside.
    std::vector<std::string> free;
    std::set<std::string> seen;
    CollectFree(body, free, seen, options_.limits.nesting);
    std::vector<std::pair<const BodyParameter*, ValueId>> sliced;
    ValueId iteration = kNone;
    for (const BodyParameter& parameter : parameters) {
      const std::string name = parameter.name.empty() ? "iteration" : parameter.name;
      HY_ASSIGN(const ValueId value, builder_->AddParameter(name, parameter.type));
      if (iteration == kNone) iteration = value;
      if (parameter.slice_axis >= 0) {
        sliced.emplace_back(&parameter, value);
      } else if (!parameter.name.empty()) {
        inner.values[parameter.name] = value;
      }
    }
    for (size_t i = 0; i < captured.size(); ++i) {
      HY_ASSIGN(inner.values[captured[i]], builder_->AddParameter(captured[i], captured_types[i]));
    }
    for (const std::string& name : free) {
      if (inner.values.count(name) != 0) continue;
      const auto found = c.scope.values.find(name);
      if (found == c.scope.values.end()) continue;  // Order names it
      if (found->second == kNone || found->second == kUnsupportedValue) {
        inner.values[name] = found->second;
        continue;
      }
      const graph::Value outer = module_.values[found->second];
      if (outer.producer != kNone && module_.nodes[outer.producer].constant != kNone) {
        HY_ASSIGN(inner.values[name],
                  builder_->ConstantNode(module_.nodes[outer.producer].constant));
      } else if (outer.elements.has_value()) {
        std::vector<int64_t> dims;
        for (const Expr dim : outer.type.dims)
          dims.push_back(module_.exprs.AsConst(dim).value_or(0));
        HY_ASSIGN(const ValueId made,
                  builder_->AddOne(
                      "symbolic", {},
                      {{"values", *outer.elements}, {"shape", dims}, {"dtype", DType::kI64}}));
        HY_ASSIGN(inner.values[name], builder_->CastTo(made, outer.type.dtype));
      }
    }
    ValueId truth = kNone;
    if (!options.true_name.empty() || options.adds_condition) {
      HY_ASSIGN(truth, builder_->ScalarInt(DType::kBool, 1));
      if (!options.true_name.empty()) inner.values[options.true_name] = truth;
    }
    for (const auto& [parameter, value] : sliced) {
      ValueId at = iteration;
      const auto axis = static_cast<size_t>(parameter->slice_axis);
      if (parameter->is_reversed) {
        const Expr last = module_.exprs.Sub(parameter->type.dims[axis], module_.exprs.Const(1));
        HY_ASSIGN(const ValueId end, builder_->AddOne("symbolic", {},
                                                      {{"values", std::vector<Expr>{last}},
                                                       {"shape", std::vector<int64_t>{}},
                                                       {"dtype", DType::kI64}}));
        HY_ASSIGN(at, builder_->Binary("sub", end, iteration));
      }
      HY_ASSIGN(inner.values[parameter->name],
                builder_->AddOne("gather", {value, at}, {{"axis", parameter->slice_axis}}));
    }
    HY_TRY(ImportInitialisers(body, inner));
    HY_TRY(ImportNodes(body.node, inner));
    std::vector<ValueId> results;
    if (options.adds_condition) results.push_back(truth);
    for (const ValueInfoProto& output : body.output) {
      HY_ASSIGN(const ValueId value, Lookup(output.name, inner));
      if (value == kUnsupportedValue)
        return Unimplemented("Its body uses ops that are not supported.");
      if (value == kNone)
        return InvalidArgument("Output '{}' is an absent input.", Printable(output.name));
      results.push_back(value);
    }
    return builder_->SetResults(std::move(results));
  };
  const Status built = build();
  builder_->InsertAtEnd(outer_graph);
  builder_->SetNodeName(node_name);
  if (!built.ok()) return built;
  return region;
}

Result<std::vector<V>> Importer::Inline(NodeContext& c, const GraphProto& body) {
  const std::string node_name = builder_->node_name();
  Scope inner;
  inner.opsets = c.scope.opsets;
  inner.function_attributes = c.scope.function_attributes;
  inner.call_depth = c.scope.call_depth;
  std::vector<std::string> free;
  std::set<std::string> seen;
  CollectFree(body, free, seen, options_.limits.nesting);
  for (const std::string& name : free) {
    const auto found = c.scope.values.find(name);
    if (found != c.scope.values.end()) inner.values[name] = found->second;
  }
  HY_TRY(ImportInitialisers(body, inner));
  HY_TRY(ImportNodes(body.node, inner));
  builder_->SetNodeName(node_name);
  std::vector<V> results;
  for (const ValueInfoProto& output : body.output) {
    HY_ASSIGN(const ValueId value, Lookup(output.name, inner));
    if (value == kUnsupportedValue)
      return Unimplemented("Its branch uses ops that are not supported.");
    if (value == kNone)
      return InvalidArgument("Output '{}' is an absent input.", Printable(output.name));
    results.push_back({&c, value});
  }
  return results;
}

V TensorConstant(NodeContext& c, const TensorProto& tensor) {
  return c.importer.Constant(c, tensor, "Attribute 'value'",
                             c.node.output.empty() ? "" : c.node.output[0]);
}

Result<uint32_t> ImportBody(NodeContext& c, const GraphProto& body,
                            std::span<const BodyParameter> parameters,
                            const std::vector<std::string>& captured, const BodyOptions& options) {
  return c.importer.Body(c, body, parameters, captured, options);
}

std::vector<std::string> CapturedNames(NodeContext& c, std::span<const GraphProto* const> bodies) {
  return c.importer.Captured(c, bodies);
}

Result<std::vector<V>> InlineBody(NodeContext& c, const GraphProto& body) {
  return c.importer.Inline(c, body);
}

}  // namespace halyard::onnx
