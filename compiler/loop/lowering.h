// SPDX-License-Identifier: Apache-2.0
// Lowering: Graph IR to Loop IR, for one graph whose values are all typed. Pull-based: every graph
// value can be written as a scalar at given logical indices inside the kernel under construction;
// views rewrite the indices, pointwise ops write scalar ops, and values that are realised are
// loaded. Which values are realised is decided by one table of limits (LowerOptions). Fusion of the
// kernels is not done here.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/loop/builder.h"
#include "compiler/loop/loop_ir.h"

namespace halyard::loop {

// When an inlined value becomes a buffer. Counts are per element of the value; reads through a
// broadcast are free, they repeat what is small. After TorchInductor's thresholds, with a lower one
// for reads on reuse because row fusion keeps what is realised in local memory.
// The arithmetic that stands for a transcendental op, in the counts that bound a kernel's code:
// generators take more than linear time in it.
inline constexpr int kOpsOfTranscendental = 8;

struct LowerOptions {
  int reads_on_reuse = 1;     // a value with several users reads at most this many buffers
  int ops_on_reuse = 30;      // ... and costs at most this many scalar ops, none transcendental
  int accumulated_reads = 8;  // any value reads at most this many buffers
  int accumulated_ops = 120;  // any value costs at most this many scalar ops
  int prologue_ops = 1;       // an operand of a template, besides views and conversions
  int prologue_reads = 1;
};

// Kernels in execution order. Buffers: one input per graph parameter in order, one output per graph
// result in order, then constants and temporaries. UNIMPLEMENTED names the node that has no
// lowering.
Result<Function> LowerGraph(graph::Module& module, uint32_t graph_index,
                            const LowerOptions& options);

// Whether LowerGraph can take the node: OK, or UNIMPLEMENTED with the reason. For segmentation.
Status CanLower(const graph::Module& module, const graph::Node& node);

// The dtype in which values of `dtype` are computed: f32 for narrower floats.
DType ComputeType(DType dtype);

class Lowering {
 public:
  Lowering(graph::Module& module, uint32_t graph_index, const LowerOptions& options);
  Result<Function> Run();

  // For the lowering functions of ops.
  graph::Module& module() { return module_; }
  ExprArena& exprs() { return module_.exprs; }
  KernelBuilder& builder() { return *builder_; }
  const graph::TensorType& TypeOf(graph::ValueId value) const { return module_.values[value].type; }

  // Writes one element, in ComputeType of its dtype, into the kernel under construction.
  using Emit = std::function<Result<ValueId>(std::span<const Expr> index)>;
  enum class Form : uint8_t {
    kPointwise,  // as cheap as `ops` says, inlined within the limits
    kView,       // moves elements of operand 0
    kExpand,     // a view that repeats elements of operand 0
    kReduction,  // has loops of its own; always realised
  };
  struct Definition {
    Form form = Form::kPointwise;
    int ops = 1;             // scalar ops of its own
    bool is_costly = false;  // transcendental, division or a chain of selects
    Emit emit;
  };
  Status Define(graph::ValueId result, const graph::Node& node, Definition definition);

  // Element `index` of a value, in the compute type.
  Result<ValueId> At(graph::ValueId value, std::span<const Expr> index);
  // The same where `mask` holds, an unspecified value elsewhere; nothing is read there.
  Result<ValueId> AtMasked(graph::ValueId value, std::span<const Expr> index, ValueId mask);
  // An index that is data: checked against `extent`, reported against the node as `what`. Negative
  // values wrap unless told otherwise.
  Result<Expr> Indirect(ValueId value, Expr extent, const graph::Node& node);
  Result<Expr> Indirect(ValueId value, Expr extent, const graph::Node& node, std::string_view what,
                        bool wraps);
  // Nested reductions over `extents`, the last innermost; extents of 1 have no loop. Returns the
  // value and appends the loop variables made to `variables` where given.
  using ReduceBody = std::function<Result<ValueId>(std::span<const Expr> index)>;
  Result<ValueId> Reduce(ReduceKind kind, std::span<const Expr> extents, const ReduceBody& body,
                         std::vector<Expr>* variables = nullptr);
  // The index (i64) of the extreme element; always a loop.
  Result<ValueId> ReduceArg(ReduceKind kind, Expr extent,
                            const std::function<Result<ValueId>(Expr)>& body);
  // While a kReduction is emitted: the loop variable of each result axis; invalid where the dim
  // is 1.
  std::span<const Expr> outer_loops() const { return outer_loops_; }
  // The emission treats the result as if it had one more axis, of size 1, before `axis`.
  void InsertOuterLoop(size_t axis) {
    outer_loops_.insert(outer_loops_.begin() + static_cast<ptrdiff_t>(axis), Expr{});
  }
  // Realises a value at once with other loops than its dims: `dims` has as many elements,
  // row-major.
  Status DefineInto(graph::ValueId result, const graph::Node& node, std::span<const Expr> dims,
                    const Emit& element);
  // Realises all results of a node at once, in one kernel that `body` writes: into the buffers, one
  // for each result, in the dtypes of these. DefineRows opens parallel loops over `rows` first.
  using RowBody =
      std::function<Status(std::span<const Expr> row, std::span<const BufferId> buffers)>;
  Status DefineKernel(const graph::Node& node,
                      const std::function<Status(std::span<const BufferId> buffers)>& body);
  Status DefineRows(const graph::Node& node, std::span<const Expr> rows, const RowBody& body);
  // Loops whose bodies are emitted by At and its kin. Parallel ones have none where the extent
  // is 1.
  Status ParallelLoop(std::string_view name, Expr extent, const std::function<Status(Expr)>& body);
  Status ParallelNest(std::string_view name, std::span<const Expr> extents,
                      const std::function<Status(std::span<const Expr>)>& body);
  // The body gives the next values; the result is those after the last iteration.
  using SequentialBody =
      std::function<Result<std::vector<ValueId>>(Expr index, std::span<const ValueId> values)>;
  Result<std::vector<ValueId>> SequentialLoop(std::string_view name, Expr extent,
                                              std::span<const ValueId> initial,
                                              const SequentialBody& body);
  bool IsRealised(graph::ValueId value) const { return states_[value].buffer != kNone; }
  // Makes a buffer of a value unless a template may read it through its body (the prologue limits).
  Status RealiseForTemplate(graph::ValueId value);
  Status Realise(graph::ValueId value);
  // A temporary without a graph value, and a kernel that writes it: for ops that lower to several
  // kernels.
  BufferId Temporary(std::string_view name, DType dtype, std::span<const Expr> dims);
  Status EmitKernel(std::string_view name, const std::function<Status()>& body);
  // A kernel of parallel loops over `dims` (extents of 1 have none); `body` stores. `order`: the
  // axes from the outermost loop to the innermost; empty: as they stand.
  Status EmitNest(std::string_view name, std::span<const Expr> dims,
                  const std::function<Status(std::span<const Expr>)>& body,
                  std::span<const uint32_t> order = {});
  // Where element `index` of a value stands in its buffer.
  Expr StorageIndex(graph::ValueId value, std::span<const Expr> index);
  // The value that a view of one operand, or a chain of them, reads: the one with a layout.
  graph::ValueId SourceOf(graph::ValueId value) const { return BaseOf(value); }
  void AddNode(const graph::Node& node);  // names the node in the kernel under construction
  Function& function() { return function_; }

 private:
  struct State {
    bool is_defined = false;
    Definition definition;
    graph::NodeId node = graph::kNone;
    BufferId buffer = kNone;           // where it is realised
    std::optional<int64_t> immediate;  // a constant of one element
    int users = 0;
    bool is_result = false;
    int reads = 0;  // of the inlined value, per element
    int ops = 0;
    bool is_costly = false;
  };

  Status Prepare();
  BufferId BufferFor(graph::ValueId value);
  std::vector<BufferId> BuffersOf(const graph::Node& node);
  void OpenScope();
  void CloseScope();
  Status LowerNode(graph::NodeId id);
  Status DefineConstant(const graph::Node& node);
  Result<ValueId> LoadAt(BufferId buffer, graph::ValueId value, std::span<const Expr> index);
  graph::ValueId BaseOf(graph::ValueId value) const;  // through views of one operand
  bool ExtendsTemplate(graph::ValueId value) const;   // an inlined op on what a template stored
  Status CopyResults();
  std::string UniqueBufferName(std::string_view name);

  graph::Module& module_;
  const graph::Graph& graph_;
  LowerOptions options_;
  Function function_;
  std::vector<State> states_;                   // by graph value
  std::vector<std::vector<BufferId>> outputs_;  // by graph value: its result buffers
  std::unique_ptr<KernelBuilder> builder_;
  using MemoKey = std::tuple<graph::ValueId, ValueId, std::vector<uint32_t>>;
  std::vector<std::map<MemoKey, ValueId>> memo_;
  std::vector<std::map<std::tuple<ValueId, uint32_t, bool>, Expr>> indirects_;
  ValueId mask_ = kNone;
  std::vector<Expr> outer_loops_;
  std::map<std::string, int> buffer_names_, kernel_names_;
};

}  // namespace halyard::loop
