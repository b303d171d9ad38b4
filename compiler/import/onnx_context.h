// SPDX-License-Identifier: Apache-2.0
// What a function that imports one ONNX node works with: the node's inputs and attributes, checked,
// and arithmetic on graph values. Private to compiler/import.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "compiler/graph/builder.h"
#include "compiler/import/onnx_proto.h"

namespace halyard::onnx {

using graph::Attributes;
using graph::kNone;
using graph::Tensor;
using graph::ValueId;

class NodeContext;
class Importer;

// A graph value in the hands of an import function. Arithmetic broadcasts as NumPy does. After the
// first failure in a context every operation is a no-op that gives an invalid value.
struct V {
  NodeContext* c = nullptr;
  ValueId id = kNone;
  bool valid() const { return id != kNone; }
};

// Names of one graph or function body under import, and what its ops mean there.
struct Scope {
  std::unordered_map<std::string, ValueId> values;
  const std::map<std::string, int64_t>* opsets = nullptr;  // domain to version
  // Inside a function: its attributes, as the call gives them.
  const std::map<std::string, const AttributeProto*>* function_attributes = nullptr;
  int64_t call_depth = 0;
};
// In Scope::values: produced by a node that is not supported.
inline constexpr ValueId kUnsupportedValue = kNone - 1;

class NodeContext {
 public:
  NodeContext(Importer& importer, graph::Builder& builder, const NodeProto& node, Scope& scope,
              int64_t opset, std::vector<ValueId> inputs)
      : importer(importer),
        b(builder),
        node(node),
        scope(scope),
        opset(opset),
        inputs_(std::move(inputs)) {}

  Importer& importer;
  graph::Builder& b;
  const NodeProto& node;
  Scope& scope;
  int64_t opset;
  Status status;  // the first failure

  bool ok() const { return status.ok(); }
  // Records a failure; the invalid value is a convenience for `return`.
  V Fail(Status failure);
  V Take(Result<ValueId> result);

  // Inputs. In(i) fails when the input is absent; Has tells.
  size_t input_count() const { return inputs_.size(); }
  bool Has(size_t i) const { return i < inputs_.size() && inputs_[i] != kNone; }
  V In(size_t i);
  bool WantsOutput(size_t i) const { return i < node.output.size() && !node.output[i].empty(); }

  // Attributes. A wrong kind is a failure; absent gives the default.
  const AttributeProto* Find(std::string_view name) const;
  bool HasAttribute(std::string_view name) const { return Find(name) != nullptr; }
  int64_t Int(std::string_view name, int64_t fallback);
  double Float(std::string_view name, double fallback);
  std::string String(std::string_view name, std::string_view fallback);
  std::vector<int64_t> Ints(std::string_view name, std::vector<int64_t> fallback = {});
  // One value in [least, most] for each of `count` axes.
  std::vector<int64_t> PerAxis(std::string_view name, size_t count, int64_t fallback, int64_t least,
                               int64_t most);
  std::vector<double> Floats(std::string_view name, std::vector<double> fallback = {});
  const GraphProto* Body(std::string_view name);

  // Types.
  const graph::TensorType& TypeOf(V v) const { return b.type_of(v.id); }
  DType DTypeOf(V v) const { return v.valid() ? TypeOf(v).dtype : DType::kInvalid; }
  std::vector<Expr> Dims(V v) const { return v.valid() ? TypeOf(v).dims : std::vector<Expr>(); }
  int64_t Rank(V v) const { return v.valid() ? static_cast<int64_t>(TypeOf(v).dims.size()) : 0; }
  // An axis in [-rank, rank) made non-negative; otherwise a failure.
  int64_t Axis(int64_t axis, int64_t rank);
  std::vector<int64_t> Axes(std::vector<int64_t> axes, int64_t rank);  // distinct, sorted
  // The dims as numbers; a failure naming `what` when one is symbolic.
  std::vector<int64_t> ConstDims(V v, std::string_view what);
  ExprArena& exprs() { return b.exprs(); }
  Expr Const(int64_t value) { return exprs().Const(value); }
  // A symbol of the node's own, for a dim that only a run tells.
  Expr FreshSymbol(std::string_view kind);
  std::vector<Expr> Consts(std::span<const int64_t> values);

  // What is known about a value before the run.
  std::optional<Tensor> Known(V v);                                // its value
  std::optional<std::vector<Expr>> KnownExprs(V v);                // its integer elements
  std::vector<Expr> ExprsOf(size_t input, std::string_view what);  // a failure when unknown
  std::vector<int64_t> IntsOf(size_t input, std::string_view what);
  std::vector<double> FloatsOf(size_t input, std::string_view what);
  // `attribute` before opset `since`, then input `input`; nothing when neither is given.
  std::optional<std::vector<int64_t>> IntsFrom(std::string_view attribute, size_t input);

  // Nodes.
  V Op(std::string_view op, std::initializer_list<V> operands, Attributes attributes = {});
  std::vector<V> Ops(std::string_view op, std::span<const V> operands, Attributes attributes = {},
                     std::vector<uint32_t> regions = {});
  V Unary(std::string_view op, V x);
  V Binary(std::string_view op, V a, V b);  // broadcasts
  V Select(V condition, V a, V b);          // broadcasts
  V Cast(V x, DType dtype);
  V Number(DType dtype, double value);  // a scalar; exact for integers below 2^53
  V Like(V x, double value) { return Number(DTypeOf(x), value); }
  V Integer(DType dtype, int64_t value);
  V BroadcastTo(V x, const std::vector<Expr>& dims);
  V ReshapeTo(V x, const std::vector<Expr>& dims);
  V Transpose(V x, const std::vector<int64_t>& perm);
  V Reduce(std::string_view op, V x, const std::vector<int64_t>& axes, bool keep_dims);
  V Mean(V x, const std::vector<int64_t>& axes, bool keep_dims);
  // Elements [start, start + size) of one axis.
  V SliceAxis(V x, int64_t axis, Expr start, Expr size);
  V Concat(std::span<const V> parts, int64_t axis);
  // Adds axes of size 1; `axes` are of the result.
  V Unsqueeze(V x, const std::vector<int64_t>& axes);
  V Squeeze(V x, const std::vector<int64_t>& axes);
  V Iota(DType dtype, const std::vector<Expr>& dims, int64_t axis);
  // x, whose elements must lie in [0, size) when the model runs: `what` that ONNX does not let
  // count from the end.
  V CheckIndex(V x, Expr size, std::string_view what);
  V Ints64(std::span<const int64_t> values);  // a constant i64[n]
  // Integers made from expressions, i64 of the given dims.
  V Symbolic(const std::vector<Expr>& values, const std::vector<int64_t>& dims);
  // Elements of a float dtype computed in f32 when they are narrower, else in their own dtype.
  DType ComputeDType(V x) const;

 private:
  std::vector<ValueId> inputs_;
};

V operator+(V a, V b);
V operator-(V a, V b);
V operator*(V a, V b);
V operator/(V a, V b);
V operator+(V a, double b);
V operator-(V a, double b);
V operator*(V a, double b);
V operator/(V a, double b);
V operator+(double a, V b);
V operator-(double a, V b);
V operator*(double a, V b);
V operator/(double a, V b);
V operator-(V a);

// A constant from a tensor attribute.
V TensorConstant(NodeContext& c, const TensorProto& tensor);
// Imports a body (of If, Loop, Scan) as a graph of the module and returns its index. The graph's
// parameters are `parameters`, then one for each name of `captured` in the enclosing scope; its
// results are the body's outputs.
struct BodyParameter {
  std::string name;        // of the body; may be empty
  graph::TensorType type;  // of the graph's parameter
  // Scan: the body's input is the slice of the parameter along this axis at the iteration
  // (parameter 0), or at the mirrored place.
  int64_t slice_axis = -1;
  bool is_reversed = false;
};
struct BodyOptions {
  std::string true_name;        // a name of the body that stands for a true bool[]
  bool adds_condition = false;  // puts a true bool[] before the results
};
Result<uint32_t> ImportBody(NodeContext& c, const GraphProto& body,
                            std::span<const BodyParameter> parameters,
                            const std::vector<std::string>& captured,
                            const BodyOptions& options = {});
// The names of the enclosing scope that the bodies read and that must be passed to them; constants
// and values known before the run are left out, because ImportBody makes them anew inside. Sorted.
std::vector<std::string> CapturedNames(NodeContext& c, std::span<const GraphProto* const> bodies);
// Imports the nodes of a body in place, as if its branch were taken, and returns its outputs.
Result<std::vector<V>> InlineBody(NodeContext& c, const GraphProto& body);

// A row of the import table. `import` gives one value per output that the node may have (an invalid
// value for an output that is not wanted); it reports failures through the context.
using ImportFunction = std::vector<V> (*)(NodeContext& c);
struct ImportRow {
  std::string_view op;
  int since;  // first opset of this meaning
  int until;  // last one; 0: still valid
  int min_inputs;
  int max_inputs;               // -1: any number
  int max_outputs;              // -1: any number
  std::string_view attributes;  // every known attribute, separated by blanks
  ImportFunction import;
  std::string_view note = {};  // what is not supported; for the docs
};
struct ImportTable {
  std::string_view domain;
  std::string_view family;
  std::span<const ImportRow> rows;
};

// One per file.
std::span<const ImportRow> ElementwiseRows();
std::span<const ImportRow> ActivationRows();
std::span<const ImportRow> ShapeRows();
std::span<const ImportRow> SliceRows();
std::span<const ImportRow> GenerateRows();
std::span<const ImportRow> IndexingRows();
std::span<const ImportRow> ReduceRows();
std::span<const ImportRow> MatmulRows();
std::span<const ImportRow> ConvRows();
std::span<const ImportRow> NormRows();
std::span<const ImportRow> QuantizeRows();
std::span<const ImportRow> ResizeRows();
std::span<const ImportRow> ControlRows();
std::span<const ImportRow> RecurrentRows();
std::span<const ImportRow> AttentionRows();
std::span<const ImportRow> LossRows();
std::span<const ImportRow> SampleRows();
std::span<const ImportRow> SignalRows();
std::span<const ImportRow> DetectionRows();
std::span<const ImportRow> FoldRows();
std::span<const ImportRow> RandomRows();
std::span<const ImportRow> MicrosoftRows();
std::span<const ImportRow> MicrosoftNormRows();

std::span<const ImportTable> AllImportTables();

}  // namespace halyard::onnx
