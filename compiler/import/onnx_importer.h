// SPDX-License-Identifier: Apache-2.0
// Importer: the state of one import. Walks graphs in dependency order, keeps the names of each
// scope, inlines functions and collects what is not supported. Private to compiler/import.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compiler/graph/builder.h"
#include "compiler/import/onnx_context.h"
#include "compiler/import/onnx_import.h"
#include "compiler/import/onnx_proto.h"
#include "compiler/import/onnx_sizes.h"
#include "compiler/import/onnx_tensor.h"

namespace halyard::onnx {

class Importer {
 public:
  Importer(const ModelProto& model, std::shared_ptr<const graph::ByteSource> file,
           ExternalFiles external, const ImportOptions& options, ImportReport& report);

  // Builds the whole module; the failure is one sentence without the file name.
  Result<graph::Module> Run();

  // For the functions of onnx_context.h.
  V Constant(NodeContext& c, const TensorProto& tensor, std::string_view what,
             std::string_view name);
  Result<uint32_t> Body(NodeContext& c, const GraphProto& body,
                        std::span<const BodyParameter> parameters,
                        const std::vector<std::string>& captured, const BodyOptions& options);
  std::vector<std::string> Captured(NodeContext& c, std::span<const GraphProto* const> bodies);
  Result<std::vector<V>> Inline(NodeContext& c, const GraphProto& body);

 private:
  // That every symbol that the options fix is the size of an input.
  Status CheckFixedSymbols() const;
  Status ImportInputs(const GraphProto& graph, Scope& scope);
  Status ImportOutputs(const GraphProto& graph, Scope& scope);
  // A dim of an input: a number, a named symbol, or a symbol of its own.
  Result<Expr> InputDim(const std::string& input, size_t axis, const DimensionProto& dim);
  Status ImportInitialisers(const GraphProto& graph, Scope& scope);
  // In an order in which every node comes after what it reads. `known`: names that exist before.
  Result<std::vector<const NodeProto*>> Order(const std::vector<NodeProto>& nodes,
                                              const Scope& scope);
  Status ImportNodes(const std::vector<NodeProto>& nodes, Scope& scope);
  Status ImportNode(const NodeProto& node, Scope& scope, size_t index);
  Status ImportCall(const NodeProto& node, const FunctionProto& function,
                    std::span<const ValueId> inputs, Scope& scope);
  // Gives the outputs of a node their values; fails when a name is taken.
  Status Define(const NodeProto& node, std::span<const ValueId> values, ValueId first_new,
                Scope& scope);
  void Unsupported(const NodeProto& node, std::string_view label, int64_t opset,
                   std::string_view reason, Scope& scope);
  Result<ValueId> Lookup(const std::string& name, const Scope& scope) const;

  const ModelProto& model_;
  std::shared_ptr<const graph::ByteSource> file_;
  ExternalFiles external_;
  const ImportOptions& options_;
  ImportReport& report_;
  graph::Module module_;
  std::unique_ptr<graph::Builder> builder_;
  std::map<std::string, const FunctionProto*> functions_;  // by domain, name and overload
  SizeNames size_names_;
};

// The translation of an op at a version of its domain; null when there is none.
const ImportRow* FindImportRow(std::string_view domain, std::string_view op, int64_t opset);
// The newest opset of ONNX's own domain that the tables know of.
int64_t NewestOpset();
// Of an op without a row at that opset, a sentence: from or up to which opset it has one.
std::string WhereImported(std::string_view domain, std::string_view op, int64_t opset);

}  // namespace halyard::onnx
