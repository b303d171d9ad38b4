// SPDX-License-Identifier: Apache-2.0
// Builder: the only way to make nodes. It checks the node against its op's record, runs shape
// inference, gives names and stores equal constants once. Importers, the C API, the parser and the
// passes use it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "compiler/graph/graph.h"
#include "compiler/graph/tensor.h"
#include "compiler/ops/op_def.h"

namespace halyard::graph {

// Adds an empty graph to the module and returns its index; a taken name gets a suffix. The first is
// the entry; the others are regions, which see no values but their own parameters and nodes.
uint32_t AddGraph(Module& module, std::string_view name);

// Writes into one graph of `module`, at its end or at a given place. The module outlives the
// builder, and only one builder with pending work exists per module. Not thread-safe. Failures
// leave the module as it was, but for expressions in the arena.
class Builder {
 public:
  explicit Builder(Module& module, uint32_t graph = 0);

  Module& module() { return module_; }
  ExprArena& exprs() { return module_.exprs; }
  const TensorType& type_of(ValueId value) const { return module_.values[value].type; }
  uint32_t graph() const { return graph_; }

  // New nodes go to the end of `graph` (the default), or before the node now at `position`.
  void InsertAtEnd(uint32_t graph);
  void InsertBefore(uint32_t graph, size_t position);
  // Where the next node goes; grows with each node added.
  size_t position() const;

  // The name of the source node, given to every node added from now on; for reports and errors.
  void SetNodeName(std::string_view name) { node_name_ = name; }
  const std::string& node_name() const { return node_name_; }

  // Fails on an invalid dtype or a dim that may be negative.
  Result<ValueId> AddParameter(std::string_view name, TensorType type);
  // `names` are what the outside calls them; empty: the names that the values have now.
  Status SetResults(std::vector<ValueId> results, std::vector<std::string> names = {});

  // Adds a node. Operands that are kNone are absent optional ones. Fails with a sentence that names
  // the node and the value when the op does not exist or its rules reject the node.
  Result<std::vector<ValueId>> Add(std::string_view op, std::vector<ValueId> operands,
                                   Attributes attributes = {}, std::vector<uint32_t> regions = {});
  // The same for an op with one result.
  Result<ValueId> AddOne(std::string_view op, std::vector<ValueId> operands,
                         Attributes attributes = {});

  // Stores a constant unless one with the same dtype, dims and bytes exists. `bytes` holds exactly
  // StorageBytes(dtype, product of dims). The hash reads all bytes once.
  Result<ConstantId> AddConstant(std::string_view name, DType dtype, std::vector<int64_t> dims,
                                 std::shared_ptr<const ByteSource> bytes);
  // The same with a hash already known (text form, caches); the bytes are not read.
  Result<ConstantId> AddHashedConstant(std::string_view name, DType dtype,
                                       std::vector<int64_t> dims, uint64_t hash,
                                       std::shared_ptr<const ByteSource> bytes);
  // A `constant` node of a stored constant, or of a tensor's value.
  Result<ValueId> ConstantNode(ConstantId constant);
  Result<ValueId> ConstantOf(const Tensor& tensor, std::string_view name = {});
  Result<ValueId> ScalarFloat(DType dtype, double value);
  Result<ValueId> ScalarInt(DType dtype, int64_t value);
  // A number stored as the dtype asks, float or integer, repeated over `dims`.
  Result<ValueId> Splat(DType dtype, double value, const std::vector<Expr>& dims);

  // NumPy's broadcast of two shapes. Fails, naming both shapes, where they cannot agree.
  Result<std::vector<Expr>> BroadcastShape(const std::vector<Expr>& a, const std::vector<Expr>& b);
  // Conveniences that add a node only where one is needed.
  Result<ValueId> BroadcastTo(ValueId value, const std::vector<Expr>& dims);
  Result<ValueId> ReshapeTo(ValueId value, const std::vector<Expr>& dims);
  Result<ValueId> CastTo(ValueId value, DType dtype);
  Result<ValueId> TransposeTo(ValueId value, const std::vector<int64_t>& perm);
  // One operand; two operands that are broadcast to their common shape first.
  Result<ValueId> Unary(std::string_view op, ValueId x);
  Result<ValueId> Binary(std::string_view op, ValueId a, ValueId b);
  Result<ValueId> Select(ValueId condition, ValueId a, ValueId b);

  // Gives a value its final name; a suffix "_2", "_3", ... is added where the name is taken.
  void Rename(ValueId value, std::string_view name);
  void Rename(std::span<const ValueId> values, std::span<const std::string> names);

 private:
  std::string UniqueName(std::string_view base);

  Module& module_;
  uint32_t graph_;
  bool at_end_ = true;
  size_t position_ = 0;
  std::string node_name_;
  std::unordered_map<std::string, uint32_t> names_;  // name to the last suffix tried
  std::unordered_multimap<uint64_t, ConstantId> constants_;
};

// The hash of a constant's dtype, dims and bytes. Reads the bytes once, in pieces.
Result<uint64_t> HashConstant(DType dtype, const std::vector<int64_t>& dims,
                              const ByteSource& bytes);
// Checks a node against its record (operand count, attribute names and kinds, region count) and
// runs its shape rule. What Builder::Add does before it stores anything; passes use it to refresh
// types.
Result<std::vector<Value>> InferNode(Module& module, const Node& node);
// Operand data of a constant; DATA_LOSS or the source's failure where they cannot be read.
Result<Tensor> ReadConstant(const Constant& constant);

}  // namespace halyard::graph
