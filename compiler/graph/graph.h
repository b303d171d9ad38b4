// SPDX-License-Identifier: Apache-2.0
// Graph IR: tensor operations in SSA form over symbolic shapes. A Module holds graphs (functions;
// the first is the entry), the constants they use and the arena of their shape expressions.
//
// Semantics. A value is immutable. Nodes of a graph stand in topological order. Integer arithmetic
// wraps (two's complement); integer division truncates, x/0 is 0 and INT_MIN/-1 is INT_MIN; shifts
// by the width or more give 0. Float arithmetic is IEEE with round to nearest even; min and max
// return NaN when an operand is NaN; -0 and +0 compare equal, max(-0, +0) may be either. No
// reassociation at this level; the reduction ops state that their order is free. No op broadcasts
// implicitly: `broadcast` does.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/can_be_valueless.h"
#include "base/dtype.h"
#include "base/status.h"
#include "compiler/expr/expr.h"

namespace halyard::graph {

struct OpDef;  // compiler/ops/op_def.h

using ValueId = uint32_t;
using NodeId = uint32_t;
using ConstantId = uint32_t;
inline constexpr uint32_t kNone = UINT32_MAX;

struct TensorType {
  DType dtype = DType::kInvalid;
  std::vector<Expr> dims;  // rank 0: a scalar
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

// Where the bytes of a constant are. Implementations: owned memory, borrowed memory with a
// keep-alive, a range of a file read on demand. Bytes are little-endian, row-major, packed.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual int64_t size_bytes() const = 0;
  // Copies [offset, offset + out.size()) to `out`. Thread-safe.
  virtual Status Read(int64_t offset, std::span<uint8_t> out) const = 0;
  // The bytes themselves where they are in memory already; empty otherwise.
  virtual std::span<const uint8_t> InMemory() const { return {}; }
};

struct Constant {
  std::string name;  // of the initialiser; for reports
  DType dtype = DType::kInvalid;
  std::vector<int64_t> dims;
  uint64_t content_hash = 0;  // of dtype, dims and bytes; equal content is stored once
  std::shared_ptr<const ByteSource> bytes;
};

// An attribute. Expressions are allowed wherever a size or an offset may depend on symbols.
using Attribute = std::variant<int64_t, double, std::string, DType, std::vector<int64_t>,
                               std::vector<double>, std::vector<Expr>, CanBeValueless>;

struct Value {
  std::string name;  // unique within the module; kept through passes, never renumbered
  TensorType type;
  NodeId producer = kNone;    // kNone: a graph parameter
  uint32_t result_index = 0;  // which result of the producer, or which parameter
  // For integer values that feed shapes: the elements as expressions, row-major. Empty optional:
  // unknown. Set by shape inference for tensors of at most 64 elements.
  std::optional<std::vector<Expr>> elements;
  // How the value is stored: its axes from the outermost to the innermost. Empty: row-major.
  // Logical dims and indices never change with it; only a value inside one segment may have one.
  std::vector<uint32_t> layout;
};

using Attributes = std::map<std::string, Attribute, std::less<>>;

struct Node {
  const OpDef* op = nullptr;
  std::string name;               // of the source node; for reports and errors
  std::vector<ValueId> operands;  // kNone: an optional operand that is absent
  std::vector<ValueId> results;
  Attributes attributes;
  ConstantId constant = kNone;    // of `constant` nodes
  std::vector<uint32_t> regions;  // indices into Module::graphs (If, Loop, Scan bodies)
  bool is_dead = false;           // removed; skipped everywhere, dropped by Compact
};

struct Graph {
  std::string name;
  std::vector<ValueId> parameters;
  std::vector<ValueId> results;
  // What the outside calls the results, one for each; passes may put another value behind a name.
  std::vector<std::string> result_names;
  std::vector<NodeId> nodes;  // topological order
  // Made by segmentation: shares the nodes and values of the entry graph; not part of the text
  // form.
  bool is_segment = false;
};

// What a shape rule took to hold of two sizes, and for whom: "add, node 'sum'".
struct Assumption {
  Expr a, b;
  std::string why;
};

struct Module {
  ExprArena exprs;
  std::vector<Graph> graphs;  // graphs[0] is the entry
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Constant> constants;
  // Pairs of dims that shape rules took as equal without proof (two operands of an `add` with dims
  // n and m). Whoever runs the module checks them once the symbols are bound; the interpreter does.
  // Derived: made again by shape inference, not part of the text form.
  std::vector<Assumption> assumed_equal;
  // The same of pairs of which the first is at most the second (a slice within its axis).
  std::vector<Assumption> assumed_at_most;

  Graph& entry() { return graphs[0]; }
  const Graph& entry() const { return graphs[0]; }
};

// Elements of a type as an expression (the product of its dims; 1 for a scalar).
Expr ElementCount(ExprArena& exprs, const TensorType& type);
// "f32[n, 3, 224, 224]"
std::string FormatType(const ExprArena& exprs, const TensorType& type);
Result<TensorType> ParseType(ExprArena& exprs, std::string_view text);

// Typed access to attributes; INVALID_ARGUMENT naming node and attribute when absent or of another
// kind.
Result<int64_t> GetInt(const Node& node, std::string_view name);
Result<std::vector<int64_t>> GetInts(const Node& node, std::string_view name);
Result<std::vector<Expr>> GetExprs(const Node& node, std::string_view name);
Result<double> GetFloat(const Node& node, std::string_view name);
Result<std::string> GetString(const Node& node, std::string_view name);
Result<DType> GetDType(const Node& node, std::string_view name);

}  // namespace halyard::graph
