// SPDX-License-Identifier: Apache-2.0
// Emitter: translates bodies of one loop kernel into Kernel IR, as scalars or with one loop
// variable spread over vector lanes. It decides nothing: which loops are vectorised, tiled or given
// to the grid comes from the schedule that drives it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "compiler/loop/loop_ir.h"
#include "compiler/schedule/common/writer.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

class Emitter {
 public:
  using V = kernel::ValueId;

  struct Options {
    int lanes = 1;                      // of vectorised loops
    int unroll = 1;                     // accumulators per vectorised reduction
    int64_t sum_block = 0;              // steps after which float sums start anew; 0: never
    bool masked_tails = true;           // false: the rest of a vector loop runs as scalars
    bool state_alignment = false;       // contiguous accesses say what their index is a multiple of
    std::set<loop::OpId> vector_loops;  // kLoop ops
    bool fold_masks = false;  // comparisons that the ranges of indices decide, and what follows
  };

  Emitter(const loop::Function& function, const loop::Kernel& kernel, Writer& writer,
          Options options);
  virtual ~Emitter() = default;

  // Where a value of the loop nest is known already (an accumulator in registers).
  void SetValue(loop::ValueId value, V v) { values_[value] = v; }
  V ValueOf(loop::ValueId value);

  // Binds a loop symbol to a uniform i64.
  void Bind(Expr symbol, V value);
  // From here on ops are emitted for `lanes` values of `symbol`, base to base + lanes - 1.
  // The base is a multiple of the lanes. Lanes with a false mask (kNone: all true) touch no memory.
  void BeginVector(Expr symbol, V base, int lanes, V mask);
  void EndVector();
  int lanes() const { return axis_.lanes; }

  // Index expressions that use `digits` (outermost first: symbol, extent) are rewritten over
  // `flat`, which counts through all combinations in row-major order.
  void Flatten(Expr flat, std::vector<std::pair<Expr, Expr>> digits);
  // From here on `symbol` reads as base + offset, so that neighbouring rows and vectors of a tile
  // differ in a constant only.
  void Shift(Expr symbol, Expr base, int64_t offset);
  // e over flattened and shifted symbols.
  Expr Resolve(Expr e);

  // The value of an expression whose symbols are all uniform (or, on the vector axis, at lane 0).
  V Evaluate(Expr e);

  Status EmitOp(loop::OpId op);
  // Every op but the yield that ends it.
  Status EmitBlock(loop::BlockId block);
  // Operands of the yield that ends the block, after EmitBlock.
  std::vector<V> YieldsOf(loop::BlockId block);
  // The iterations `lo` to `hi` of a parallel loop (kNone: all); lo is a multiple of the lanes and
  // `divisor` divides hi - lo. `body` replaces the loop's own (kNone): the loop was moved inwards
  // in a perfect nest.
  Status EmitParallel(loop::OpId op, V lo, V hi, int64_t divisor = 1,
                      loop::BlockId body = loop::kNone);

  kernel::BufferId BufferOf(loop::BufferId buffer);
  // A further parameter (packed constant, workspace).
  kernel::BufferId AddBinding(Binding binding, kernel::Buffer buffer);
  // Local buffers that do not fit: element offset added to each access.
  void PlaceLocal(loop::BufferId buffer, kernel::BufferId place, V offset);

  std::vector<Binding> bindings;
  std::vector<Expr> scalars;

 protected:
  struct Axis {
    Expr symbol;
    V base = kernel::kNone;
    int lanes = 1;
    V mask = kernel::kNone;
  };
  // An axis symbol as quotient * lanes + lane.
  struct Split {
    Expr quotient, lane;
  };
  struct Index {
    enum class Kind { kUniform, kContiguous, kVector } kind = Kind::kUniform;
    V value = kernel::kNone;  // scalar, scalar of lane 0, or vector
    int align = 1;            // kContiguous: `value` is a multiple of it
  };
  struct Group {
    Expr flat;
    std::vector<std::pair<Expr, Expr>> digits;
  };
  struct Place {
    kernel::BufferId buffer = kernel::kNone;
    V offset = kernel::kNone;
  };

  bool Varies(Expr e);
  V EvaluateIn(Expr e, bool vector);
  Index LowerIndex(Expr e);
  int AlignmentOf(Expr base);  // the largest power of two up to the lanes that divides it
  Index Shifted(Index index, const Place& place);
  Place PlaceOf(loop::BufferId buffer);
  V Vectorised(Index index);
  V AndMask(V a, V b);
  // False where an indirect symbol of the index has no element that it could name; kNone: always
  // one.
  V IndirectMask(Expr index);
  Status EmitScalar(const loop::Op& op);
  // The value of an op that needs no code; kNone: it needs some.
  V Folded(const loop::Op& op);
  virtual Status EmitLoad(const loop::Op& op);
  virtual Status EmitStore(const loop::Op& op);
  virtual Status EmitScatter(const loop::Op& op);
  Status EmitIndirect(const loop::Op& op);
  // Of any kind. Derived classes spread loops over the workitems that share an iteration.
  virtual Status EmitLoop(loop::OpId op);
  Status EmitReduce(loop::OpId id);
  Status EmitSequential(const loop::Op& op);
  // Emits the body once and adds what it yields; ReduceStep leaves masked lanes as they were.
  Status Accumulate(const loop::Op& op, std::vector<V>& accumulators);
  Status ReduceStep(const loop::Op& op, std::vector<V>& accumulators);
  // Binds the results of the op to what its accumulators (two of an arg reduction) ended as.
  void FinishReduce(const loop::Op& op, Expr extent, const std::vector<V>& accumulators);
  using Step = std::function<Status(V at, std::vector<V>& accumulators)>;
  // for `at` = lo to hi by `stride`: `step`. A long float sum is a sum of blocks
  // (Options::sum_block), so that its error grows with the block and the number of blocks, not with
  // their product (Higham, Accuracy and Stability of Numerical Algorithms, 4.2). `runs`: at least
  // once.
  Status ReduceLoop(const loop::Op& op, V lo, V hi, int64_t stride, bool runs, const Step& step,
                    std::vector<V>& accumulators);
  Status ReduceScalarLoop(const loop::Op& op, V lo, V hi, std::vector<V>& accumulators);
  Status ReduceVectorLoop(const loop::Op& op, std::vector<V>& results);
  std::vector<V> ReduceLanes(const loop::Op& op, std::vector<V> accumulators, int chains);
  std::vector<V> Identities(const loop::Op& op, int lanes);
  void Combine(const loop::Op& op, std::vector<V>& accumulators, const std::vector<V>& values);
  bool IsSmall(const loop::Op& op, int64_t copies) const;

  ExprArena& exprs_;
  const loop::Function& function_;
  const loop::Kernel& kernel_;
  Writer& writer_;
  Options options_;
  std::vector<V> values_;
  // Of 16-bit floats that live on in f32, as those between ops of one iteration do.
  std::unordered_map<loop::ValueId, V> unrounded_;
  std::unordered_map<uint32_t, V> symbols_;            // by Expr id; vectors for indirect symbols
  std::unordered_map<uint32_t, V> indirect_good_;      // by symbol, where its extent may be 0
  std::unordered_map<uint32_t, uint32_t> parameters_;  // dimension symbol -> scalar parameter
  std::unordered_map<uint32_t, Place> places_;
  std::unordered_map<uint32_t, Expr> resolved_;
  std::vector<Group> groups_;
  std::vector<std::pair<Expr, Expr>> shifts_;
  std::set<loop::BufferId> read_, written_;
  std::unordered_map<uint64_t, Split> splits_;  // by axis symbol and lanes
  Axis axis_;
};

}  // namespace halyard::schedule
