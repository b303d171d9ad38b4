// SPDX-License-Identifier: Apache-2.0
// Builder: writes one kernel op by op. Result types follow from the operands; a scalar operand
// beside a vector is splatted; integer scalars with constant operands are folded. It checks types
// with HY_CHECK (a wrong call is a bug of the caller), the verifier checks everything else.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "compiler/kernel/kernel_ir.h"

namespace halyard::kernel {

// Not thread-safe. ValueIds are meaningless outside the builder's kernel. Nested calls such as
// b.Add(b.Load(..), b.Load(..)) are evaluated in an order that the compiler chooses; where goldens
// compare the text, name the operands first.
class Builder {
 public:
  explicit Builder(std::string_view name);
  // Starts with all that `like` says of itself, its buffers too, and an empty body.
  static Builder Like(const Kernel& like);

  // The kernel. Constants come first in the body. The builder is empty afterwards.
  Kernel Finish() &&;

  // Interface. Parameters come before allocations.
  BufferId Parameter(std::string_view name, DType dtype, Access access, bool no_alias = true);
  BufferId Allocate(std::string_view name, DType dtype, int64_t elements,
                    MemorySpace space = MemorySpace::kPrivate);
  ValueId Scalar(std::string_view name);  // declares a scalar parameter, returns its value
  ValueId ScalarAt(int64_t index);        // the value of a declared one
  // Ids, each once, i64 or i32.
  ValueId WorkgroupId(int axis, DType dtype = DType::kI64);
  ValueId WorkitemId(int axis, DType dtype = DType::kI64);
  ValueId SubgroupId(DType dtype = DType::kI64);
  ValueId SubgroupLane(DType dtype = DType::kI64);
  ValueId SubgroupSize(DType dtype = DType::kI64);
  // Any op of class kSource but const and iota; `index` is its immediate, if it has one.
  ValueId Source(Opcode opcode, int64_t index, DType dtype);
  // Of a GPU kernel; a new builder writes a CPU kernel. Subgroup size 0: any.
  void SetWorkgroup(int64_t x, int64_t y, int64_t z, int32_t subgroup_size = 0);
  int64_t Site(std::string_view node, std::string_view what);
  const Kernel& kernel() const { return kernel_; }
  Type TypeOf(ValueId value) const { return kernel_.values[value].type; }

  // Constants, equal ones once.
  ValueId ConstBits(Type type, int64_t bits);  // bits as kConst states them
  ValueId ConstFloat(DType dtype, double value, int lanes = 1);
  ValueId ConstInt(DType dtype, int64_t value, int lanes = 1);  // integers and bool
  ValueId Index(int64_t value) { return ConstInt(DType::kI64, value); }
  ValueId F32(double value, int lanes = 1) { return ConstFloat(DType::kF32, value, lanes); }
  ValueId Zero(Type type) { return ConstBits(type, 0); }
  // A constant of the type of `like`, whatever its dtype.
  ValueId ConstLike(ValueId like, double value);
  // The integer if `value` is an integer constant (the splatted lane for vectors).
  bool IsConstInt(ValueId value, int64_t* out) const;

  // Lanes
  ValueId Iota(DType dtype, int lanes);
  ValueId Splat(ValueId scalar, int lanes);  // lanes 1: the value itself
  ValueId Extract(ValueId vector, int lane);
  ValueId Insert(ValueId vector, ValueId scalar, int lane);
  ValueId Shuffle(ValueId a, ValueId b, std::span<const int> lanes);
  ValueId Shuffle(ValueId a, ValueId b, std::initializer_list<int> lanes) {
    return Shuffle(a, b, std::span<const int>(lanes.begin(), lanes.size()));
  }
  // bool x lanes: lane i is set when i < count (an i64 scalar). For masked tails.
  ValueId TailMask(ValueId count, int lanes);

  // Arithmetic
  ValueId Unary(Opcode opcode, ValueId a);
  ValueId Binary(Opcode opcode, ValueId a, ValueId b);
  ValueId Compare(Opcode opcode, ValueId a, ValueId b);
  ValueId Reduce(Opcode opcode, ValueId vector);  // lanes 1: the value itself
  ValueId Add(ValueId a, ValueId b) { return Binary(Opcode::kAdd, a, b); }
  ValueId Sub(ValueId a, ValueId b) { return Binary(Opcode::kSub, a, b); }
  ValueId Mul(ValueId a, ValueId b) { return Binary(Opcode::kMul, a, b); }
  ValueId Div(ValueId a, ValueId b) { return Binary(Opcode::kDiv, a, b); }
  ValueId Rem(ValueId a, ValueId b) { return Binary(Opcode::kRem, a, b); }
  ValueId Min(ValueId a, ValueId b) { return Binary(Opcode::kMin, a, b); }
  ValueId Max(ValueId a, ValueId b) { return Binary(Opcode::kMax, a, b); }
  ValueId And(ValueId a, ValueId b) { return Binary(Opcode::kAnd, a, b); }
  ValueId Or(ValueId a, ValueId b) { return Binary(Opcode::kOr, a, b); }
  ValueId Xor(ValueId a, ValueId b) { return Binary(Opcode::kXor, a, b); }
  ValueId Shl(ValueId a, ValueId b) { return Binary(Opcode::kShl, a, b); }
  ValueId Shr(ValueId a, ValueId b) { return Binary(Opcode::kShr, a, b); }
  ValueId Neg(ValueId a) { return Unary(Opcode::kNeg, a); }
  ValueId Abs(ValueId a) { return Unary(Opcode::kAbs, a); }
  ValueId Not(ValueId a) { return Unary(Opcode::kNot, a); }
  ValueId Sqrt(ValueId a) { return Unary(Opcode::kSqrt, a); }
  ValueId Fma(ValueId a, ValueId b, ValueId c);
  ValueId Eq(ValueId a, ValueId b) { return Compare(Opcode::kEq, a, b); }
  ValueId Ne(ValueId a, ValueId b) { return Compare(Opcode::kNe, a, b); }
  ValueId Lt(ValueId a, ValueId b) { return Compare(Opcode::kLt, a, b); }
  ValueId Le(ValueId a, ValueId b) { return Compare(Opcode::kLe, a, b); }
  ValueId Gt(ValueId a, ValueId b) { return Compare(Opcode::kGt, a, b); }
  ValueId Ge(ValueId a, ValueId b) { return Compare(Opcode::kGe, a, b); }
  ValueId Select(ValueId mask, ValueId a, ValueId b);
  ValueId Convert(ValueId a, DType to);  // the same dtype: the value itself
  ValueId Bitcast(ValueId a, Type to);

  // Memory. `mask` kNone: all lanes. A masked load without pass-through yields 0 in masked-off
  // lanes. `align`: the index is a multiple of so many elements.
  ValueId Load(BufferId buffer, ValueId index, int lanes = 1, ValueId mask = kNone,
               ValueId passthrough = kNone, int64_t align = 1);
  void Store(BufferId buffer, ValueId index, ValueId value, ValueId mask = kNone,
             int64_t align = 1);
  ValueId Gather(BufferId buffer, ValueId indices, ValueId mask = kNone,
                 ValueId passthrough = kNone);
  void Scatter(BufferId buffer, ValueId indices, ValueId value, ValueId mask = kNone);
  ValueId BroadcastLoad(BufferId buffer, ValueId index, int lanes);
  void Prefetch(BufferId buffer, ValueId index, int locality = 3);
  void AtomicAdd(BufferId buffer, ValueId index, ValueId value);

  // Control. The callbacks run at once and write the bodies.
  using LoopBody =
      std::function<std::vector<ValueId>(ValueId iv, std::span<const ValueId> carried)>;
  // Returns the carried values after the last iteration.
  std::vector<ValueId> For(ValueId lo, ValueId hi, ValueId step, std::span<const ValueId> inits,
                           const LoopBody& body, int unroll = 0);
  void For(ValueId lo, ValueId hi, ValueId step, const std::function<void(ValueId iv)>& body,
           int unroll = 0);
  std::vector<ValueId> If(ValueId condition, const std::function<std::vector<ValueId>()>& then_body,
                          const std::function<std::vector<ValueId>()>& else_body);
  void If(ValueId condition, const std::function<void()>& then_body);
  void Report(ValueId condition, ValueId value, ValueId limit, KernelErrorReason reason,
              int64_t site);

  // Fragments; the dtype of `type` is that of the buffer. `align`: index and stride are multiples
  // of so many elements.
  ValueId FragmentFill(ValueId scalar, Type type);
  ValueId FragmentLoad(BufferId buffer, ValueId index, ValueId stride, Type type,
                       FragmentLayout layout = FragmentLayout::kRowMajor, int64_t align = 1);
  void FragmentStore(BufferId buffer, ValueId index, ValueId value, ValueId stride,
                     FragmentLayout layout = FragmentLayout::kRowMajor, int64_t align = 1);
  ValueId FragmentMma(ValueId a, ValueId b, ValueId c);
  ValueId FragmentElements(ValueId fragment);
  ValueId FragmentOf(ValueId elements, Type type);
  struct TileOperand {
    BufferId buffer = kNone;
    ValueId index = kNone;
    TileLayout layout = TileLayout::kDepthMajor;
    int64_t stride = 0;
  };
  ValueId MmaBegin(ValueId sum);
  ValueId MmaAsync(ValueId pending, const TileOperand& a, const TileOperand& b);
  ValueId MmaEnd(ValueId pending);

  // GPU kernels
  void Barrier();
  ValueId SubgroupShuffle(ValueId value, ValueId lane);
  ValueId SubgroupShuffleXor(ValueId value, int64_t mask);
  void AsyncCopy(BufferId to, ValueId to_index, BufferId from, ValueId from_index, int64_t elements,
                 ValueId mask = kNone);
  ValueId LastArrival(BufferId counters, ValueId index, ValueId count);
  void AsyncCommit();
  void AsyncWait(int64_t pending);
  void AsyncFence();
  void MmaCommit();
  void MmaWait(int64_t pending);

  // Appends any op at the insertion point; the general form for passes and parsers. One result per
  // entry of `result_types`; the op's own type, results and operands' validity are set here.
  OpId Append(Opcode opcode, std::span<const Type> result_types, std::span<const ValueId> operands,
              std::span<const int64_t> immediates = {}, BufferId buffer = kNone);
  ValueId Append1(Opcode opcode, Type type, std::initializer_list<ValueId> operands,
                  std::initializer_list<int64_t> immediates = {}, BufferId buffer = kNone);
  // An op without blocks of another kernel, on values and a buffer of this one; its results here.
  std::vector<ValueId> Copy(const Kernel& from, const Op& op, std::span<const ValueId> operands,
                            BufferId buffer);

 private:
  BlockId NewBlock();
  ValueId NewValue(Type type, OpId producer);
  void Match(ValueId* a, ValueId* b);  // splats the scalar one of two
  ValueId FoldIndex(Opcode opcode, ValueId a, ValueId b);

  Kernel kernel_;
  BlockId block_ = 0;  // insertion point: its end
  std::vector<OpId> constants_;
  std::map<std::tuple<int, int, int64_t>, ValueId> constant_values_;
  // Scalars and ids by opcode, immediate and dtype; also first in the body.
  std::map<std::tuple<int, int64_t, int>, ValueId> sources_;
};

}  // namespace halyard::kernel
