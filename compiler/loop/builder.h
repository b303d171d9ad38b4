// SPDX-License-Identifier: Apache-2.0
// KernelBuilder: writes the body of one loop kernel, loops as lambdas. It shares equal pure values
// within a scope (constants, scalar ops, index values, loads), so lowering may emit without care.
// It checks nothing; VerifyFunction does.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/loop/loop_ir.h"

namespace halyard::loop {

// The new buffer's id. `name` may be any text.
BufferId AddBuffer(Function& function, std::string_view name, DType dtype, BufferRole role,
                   Expr elements);

// Borrows the function (for its buffers and its arena) until Finish. Not thread-safe.
class KernelBuilder {
 public:
  KernelBuilder(Function& function, std::string_view name);

  // The kernel so far; edit roles, nodes and template kind here.
  Kernel& kernel() { return kernel_; }
  ExprArena& exprs() { return *function_.exprs; }
  DType TypeOf(ValueId value) const { return kernel_.values[value].dtype; }

  // Values. Floats of f16 and bf16 carry no arithmetic (see Kernel IR): Convert to f32 first.
  ValueId Float(DType dtype, double value);
  ValueId Int(DType dtype, int64_t value);  // integers and bool
  ValueId Constant(DType dtype, int64_t immediate);
  ValueId Index(Expr index, DType dtype = DType::kI64);
  ValueId Scalar(kernel::Opcode opcode, std::initializer_list<ValueId> operands);
  ValueId Scalar(kernel::Opcode opcode, std::span<const ValueId> operands);
  ValueId Convert(ValueId value, DType dtype);  // the value itself where the dtype is the same
  ValueId Bitcast(ValueId value, DType dtype);
  // index < bound as bool; folded where known. And `ValueId` kNone stands for true in masks.
  ValueId IndexLess(Expr index, Expr bound);
  ValueId And(ValueId a, ValueId b);  // kNone: true

  // Memory. Mask kNone: unmasked.
  ValueId Load(BufferId buffer, Expr index, ValueId mask = kNone, ValueId other = kNone);
  void Store(BufferId buffer, Expr index, ValueId value, ValueId mask = kNone);
  void Scatter(BufferId buffer, Expr index, ValueId value, ReduceKind reduce, ValueId mask = kNone);
  // A symbol for the (wrapped, checked) integer `value` in [0, extent). Where it does not wrap, a
  // negative value is out of range.
  Expr Indirect(ValueId value, Expr extent, std::string_view node, std::string_view what,
                std::string_view name = "x", bool wraps = true);

  // Loops. The callbacks run at once. Names get a number where they are taken.
  void Parallel(std::string_view name, Expr extent, const std::function<void(Expr)>& body);
  // Nested parallel loops, the last innermost.
  void Parallel(std::string_view name, std::span<const Expr> extents,
                const std::function<void(std::span<const Expr>)>& body);
  ValueId Reduce(ReduceKind kind, std::string_view name, Expr extent,
                 const std::function<ValueId(Expr)>& body);
  std::vector<ValueId> Reduce(std::span<const ReduceKind> kinds, std::string_view name, Expr extent,
                              const std::function<std::vector<ValueId>(Expr)>& body);
  std::vector<ValueId> Sequential(
      std::string_view name, Expr extent, std::span<const ValueId> initial,
      const std::function<std::vector<ValueId>(Expr, std::span<const ValueId>)>& body);

  // The same without callbacks. BeginLoop returns the variable; EndLoop closes the innermost open
  // loop, yields `yields` and returns the results.
  Expr BeginLoop(LoopKind kind, std::string_view name, Expr extent,
                 std::span<const ReduceKind> reduces = {}, std::span<const ValueId> initial = {});
  std::span<const ValueId> LoopParameters() const;  // of the innermost open loop
  std::vector<ValueId> EndLoop(std::span<const ValueId> yields = {});
  int depth() const { return static_cast<int>(scopes_.size()) - 1; }

  // Appends any op at the insertion point and makes `results` values. The general form.
  OpId Append(Op op, std::span<const DType> results);

  // A name that no loop of this kernel and no dimension symbol used so far has.
  std::string UniqueName(std::string_view name);
  uint32_t Site(std::string_view node, std::string_view what);
  // Closes nothing: all loops must be closed.
  Kernel Finish();

 private:
  using Key = std::tuple<int, int, int, int64_t, uint32_t, uint32_t, std::vector<ValueId>>;
  struct Scope {
    BlockId block;
    OpId loop = kNone;
    std::map<Key, ValueId> values;
  };
  ValueId Shared(Op op);
  BlockId NewBlock();

  Function& function_;
  Kernel kernel_;
  std::vector<Scope> scopes_;
  std::map<std::string, int> names_;
};

// The dtype of a scalar op's result from its operands; convert and bitcast state theirs.
DType ScalarResultType(kernel::Opcode opcode, std::span<const DType> operands);

}  // namespace halyard::loop
