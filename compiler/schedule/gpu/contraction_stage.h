// SPDX-License-Identifier: Apache-2.0
// ContractionStage: moves tiles of one operand of a contraction through its body into workgroup
// memory. A tile has `extent` places along the operand's side and `depth` along k; places beyond
// the side's end hold anything (they reach no result that is stored; copies leave zeros there and
// read nothing), places beyond the end of k are zero.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "compiler/schedule/common/contraction_problem.h"
#include "compiler/schedule/common/emitter.h"
#include "compiler/schedule/common/writer.h"
#include "compiler/schedule/gpu/contraction.h"

namespace halyard::schedule {

class ContractionStage {
 public:
  using V = kernel::ValueId;
  struct Options {
    OperandAccess access;
    int64_t extent = 0, depth = 0;
    int64_t k_block = 0;            // tiles are read up to the next multiple of this; 0: of depth
    int64_t workitems = 0;
    int64_t stages = 1;             // tiles in workgroup memory
    bool k_major = false;           // [k][side] in memory whatever the access
    int64_t pad = 0;                // elements after each row of memory
    bool swizzled = false;          // tiles as mma_async reads them, for copies: depth 64, no pad
    loop::ValueId value = loop::kNone;  // what is kept: the factor's value or what it converts
    bool async = false;                 // copies without registers; CanCopy must hold
    std::string_view name;
  };
  // All borrowed.
  ContractionStage(const loop::Function& function, const loop::Kernel& kernel,
                   const Problem& problem, const Factor& factor, const Side& side, Writer& writer,
                   Emitter& emitter, Options options);

  // True when the operand is a load that moves unchanged in copies of 4, 8 or 16 bytes.
  static bool CanCopy(const loop::Function& function, const loop::Kernel& kernel,
                      const Factor& factor, loop::ValueId value, const OperandAccess& access);

  // The tile begins at `first` along the side; call once, before the other calls.
  void Begin(V first);
  // This workitem's part of the tile that begins at `k`, in registers.
  Result<std::vector<V>> Load(V k);
  // Writes it to the tile at element `base` of memory.
  void Store(V base, std::span<const V> values);
  // Both at once, taking effect after async_wait and a barrier.
  Status Copy(V base, V k);
  // How many values Load gives.
  size_t load_count() const { return passes_.size(); }

  kernel::BufferId buffer() const { return buffer_; }
  DType dtype() const { return dtype_; }
  bool is_k_major() const { return k_major_; }  // element (side, k) at k * stride + side
  int64_t stride() const { return stride_; }
  // Of a swizzled tile (kernel::PlaceInTile): rows along the side, and the stride between groups.
  bool is_side_major() const { return k_major_; }
  int64_t group_stride() const { return k_major_ ? 64 * options_.depth : 0; }
  // What to add to a tile's first element for the one at (side, k), multiples of 64 and 16.
  int64_t OffsetInTile(int64_t side, int64_t k) const;
  int64_t tile_elements() const { return tile_elements_; }

 private:
  struct Pass {
    int64_t own = 0, k = 0;  // offsets from the workitem's first place
  };
  // Binds the symbols to the place of one pass of the tile at k.
  void Place(const Pass& pass, V k);
  V Masked(V value);
  V Target(V base, const Pass& pass);
  V SwizzledTarget(V base, const Pass& pass);

  const loop::Kernel& kernel_;
  const Problem& problem_;
  const Side& side_;
  ExprArena& exprs_;
  Writer& writer_;
  Emitter& emitter_;
  Options options_;
  std::vector<loop::OpId> ops_;  // up to the kept value
  std::vector<Pass> passes_;
  int64_t workers_ = 1;  // workitems that have a place of their own, the first ones
  bool clamps_ = false, masks_ = false;
  bool k_major_ = false;
  int64_t stride_ = 0, tile_elements_ = 0;
  DType dtype_ = DType::kInvalid;
  kernel::BufferId buffer_ = kernel::kNone;
  Expr own_symbol_, k_symbol_;
  V works_ = kernel::kNone;  // this workitem has a place
  V own_first_ = kernel::kNone, k_first_ = kernel::kNone, own_in_tile_ = kernel::kNone;
  V mask_ = kernel::kNone;  // of the place bound last: it is within k, a copied one also the side
};

}  // namespace halyard::schedule
