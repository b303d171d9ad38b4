// SPDX-License-Identifier: Apache-2.0
// Writer: appends ops to one kernel::Kernel while scheduling walks a loop nest. Pure ops are placed
// in the outermost scope where their operands exist and are shared with equal ones, so index
// arithmetic leaves the loops it does not depend on without a pass of its own. Knows nothing of
// Loop IR.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/kernel/kernel_ir.h"

namespace halyard::schedule {

class Writer {
 public:
  using V = kernel::ValueId;
  // `index`: the dtype of index arithmetic, kI64 or (where the caller proved that it suffices)
  // kI32.
  explicit Writer(std::string name, DType index = DType::kI64);
  DType index_dtype() const { return index_dtype_; }

  // Parameters must all be added before Finish; the order of calls is the binding order.
  // Allocations are moved behind them by Finish.
  kernel::BufferId AddParameter(kernel::Buffer buffer);
  kernel::BufferId AddAllocation(std::string name, DType dtype, int64_t elements,
                                 kernel::MemorySpace space = kernel::MemorySpace::kWorkgroup);
  // One-dimensional; the subgroup size that the code relies on, 0: any.
  void SetWorkgroup(int64_t workitems, int32_t subgroup_size);
  kernel::Buffer& BufferAt(kernel::BufferId id) { return kernel_.buffers[id]; }
  uint32_t AddScalar(std::string name);  // returns its parameter index
  uint32_t AddSite(const kernel::ReportSite& site);

  // Values. Index arithmetic folds constants.
  V Const(DType dtype, int64_t bits, int lanes = 1);  // bits as kConst's immediate
  V Float(DType dtype, double value, int lanes = 1);
  V I64(int64_t value) { return Const(DType::kI64, value); }
  V Index(int64_t value) { return Const(index_dtype_, value); }
  V ScalarParameter(uint32_t index);
  V WorkgroupId(int axis);
  V WorkitemId(int axis);
  V Add(V a, V b);
  V Sub(V a, V b);
  V Mul(V a, V b);
  V FloorDiv(V a, V b, bool non_negative);  // b > 0
  V FloorMod(V a, V b, bool non_negative);
  V Min(V a, V b);
  V Max(V a, V b);
  std::optional<int64_t> AsConst(V v) const;
  // A pure op of any opcode. Operands are widened to `type.lanes` only by the caller.
  V Pure(kernel::Opcode opcode, kernel::Type type, std::vector<V> operands,
         std::vector<int64_t> immediates = {});
  V Splat(V v, int lanes);  // v itself when it has the lanes already
  V Iota(DType dtype, int lanes);
  V Compare(kernel::Opcode opcode, V a, V b);
  // The i32 value that an i64 value is the conversion of, or a constant that fits; kNone: neither.
  V AsI32(V v);
  // The f32 that a narrower float is the rounding of; kNone: it is none.
  V BeforeRounding(V v) const;
  V Select(V mask, V a, V b);
  V Convert(V v, DType dtype);
  kernel::Type TypeOf(V v) const { return kernel_.values[v].type; }
  int LanesOf(V v) const { return kernel_.values[v].type.lanes; }
  size_t DepthOf(V v) const { return depth_[v]; }  // 0: computed once, outside every loop

  // Memory. `stable`: nothing in this kernel writes the buffer, so equal loads are shared and leave
  // loops that run at least once.
  // `align`: the index is a known multiple of it.
  V Load(kernel::BufferId buffer, V index, int lanes, bool stable, int align = 1);
  V LoadMasked(kernel::BufferId buffer, V index, V mask, V other, bool stable, int align = 1);
  V Gather(kernel::BufferId buffer, V indices, bool stable);
  V GatherMasked(kernel::BufferId buffer, V indices, V mask, V other, bool stable);
  void Store(kernel::BufferId buffer, V index, V value, V mask = kernel::kNone, int align = 1);
  void Scatter(kernel::BufferId buffer, V indices, V value, V mask = kernel::kNone);
  // Workitems together: reached by all of the workgroup, or of the subgroup.
  void Barrier();
  V ShuffleXor(V value, int mask);
  V SubgroupId();
  // Any other op where it stands: with a result that is never shared, or without one. An async_copy
  // and an mma_async name their second buffer as this writer does.
  V Value(kernel::Opcode opcode, kernel::Type type, std::vector<V> operands,
          std::vector<int64_t> immediates = {}, kernel::BufferId buffer = kernel::kNone);
  void Do(kernel::Opcode opcode, std::vector<V> operands, std::vector<int64_t> immediates,
          kernel::BufferId buffer = kernel::kNone);
  void Report(V condition, V value, V limit, int64_t reason, uint32_t site);

  // Structured control flow. Begin opens a scope that values of inner ops may not leave, except
  // through End's results.
  struct Loop {
    V variable;
    std::vector<V> carried;  // inside the body
  };
  // `unroll`: bodies that follow each other without a branch, so that their loads are issued
  // together.
  Loop BeginFor(V lo, V hi, V step, std::span<const V> initial, bool runs_at_least_once,
                int unroll = 1);
  std::vector<V> EndFor(std::span<const V> yields);
  void BeginIf(V condition);
  void BeginElse(std::span<const V> then_yields);
  std::vector<V> EndIf(std::span<const V> else_yields);

  kernel::Kernel Finish();

 private:
  using Key =
      std::tuple<uint8_t, uint32_t, uint8_t, uint16_t, std::vector<V>, std::vector<int64_t>>;
  struct Scope {
    kernel::BlockId block = 0;
    bool always_runs = true;  // whenever the scope around it does
    std::map<Key, V> known;
    // The op that owns this scope; appended to the parent at the end.
    kernel::Op op;
    std::vector<V> then_yields;
    bool in_else = false;
  };
  kernel::BlockId NewBlock();
  V NewValue(kernel::Type type, size_t depth);
  V Place(kernel::Op op, size_t depth, bool share);
  void Effect(kernel::Op op);
  size_t DepthOf(std::span<const V> values) const;
  V LoadOp(kernel::Op op, bool stable);
  std::vector<V> Close(std::span<const V> yields);

  kernel::Kernel kernel_;
  DType index_dtype_;
  std::vector<Scope> scopes_;
  std::vector<uint32_t> depth_;                   // per value
  std::vector<std::optional<int64_t>> constant_;  // per value: scalar integer constants
};

}  // namespace halyard::schedule
