// SPDX-License-Identifier: Apache-2.0
// The kernel of a tile of C: place of the workgroup, the loop over tiles of k with copies ahead of
// the arithmetic, and the epilogue. Register tiles and matrix fragments differ in what they
// multiply and in how sums reach the epilogue.
#include <algorithm>
#include <bit>
#include <deque>
#include <functional>
#include <memory>

#include "base/check.h"
#include "base/gpu_kernel_abi.h"
#include "compiler/kernel/opcode.h"
#include "compiler/schedule/common/emitter.h"
#include "compiler/schedule/common/pieces.h"
#include "compiler/schedule/common/writer.h"
#include "compiler/schedule/gpu/contraction.h"
#include "compiler/schedule/gpu/contraction_stage.h"
#include "compiler/schedule/gpu/contraction_sum.h"
#include "compiler/schedule/gpu/gemv.h"
#include "compiler/schedule/gpu/grid.h"
#include "compiler/schedule/gpu/register_tile.h"

namespace halyard::schedule {

using kernel::FragmentLayout;
using kernel::FragmentUse;
using kernel::kNone;
using kernel::Opcode;
using kernel::Type;
using V = kernel::ValueId;

namespace {

// An epilogue heavier than this is written once per vector position and looped over, where sums
// come from workgroup memory.
constexpr double kUnrolledEpilogueWeight = 8;
constexpr int64_t kUnrolledPasses = 8;    // nor more of them
constexpr int32_t kTileDepth = 64;        // of the tiles of kGpuWgmma: 128 bytes
constexpr int64_t kMostBytesAhead = 192;  // of a workitem's operands of the epilogue
constexpr int64_t kMatrixPadBytes = 16;   // rows of workgroup memory start in different banks

class ContractionBuilder {
 public:
  ContractionBuilder(const loop::Function& function, const loop::Kernel& kernel,
                     const ScheduleRecord& record, const Target& target, Problem problem)
      : function_(function),
        kernel_(kernel),
        exprs_(*function.exprs),
        record_(record),
        tile_(record.tile),
        target_(target),
        problem_(std::move(problem)),
        writer_(KernelName(kernel.name, ""), IndexDType(function, kernel)),
        emitter_(function, kernel, writer_, GpuEmitterOptions()),
        rows_(record.swap ? problem_.n : problem_.m),
        cols_(record.swap ? problem_.m : problem_.n),
        row_factor_(record.swap ? problem_.b : problem_.a),
        col_factor_(record.swap ? problem_.a : problem_.b) {}

  Result<ScheduledKernel> Build();

 private:
  Status Bad(std::string_view why) const {
    return InvalidArgument("Schedule '{}' does not fit kernel '{}': {}.", FormatSchedule(record_),
                           kernel_.name, why);
  }
  // False where a part of k may lie beyond its end, or k be empty: nothing is read then.
  bool HasTiles() const { return tile_.split == 1 && exprs_.RangeOf(problem_.k.extent).lo >= 1; }
  bool IsWgmma() const { return record_.kind == ScheduleKind::kGpuWgmma; }
  bool IsMatrix() const { return record_.kind == ScheduleKind::kGpuMatrix || IsWgmma(); }

  Status CheckRecord();
  Status CheckWgmma() const;
  void PlaceWorkgroup(Dispatch& dispatch);
  Status StoreJoined(const Dispatch& dispatch, ScheduledKernel& scheduled);
  void MakeStages();
  Status SumOverK();
  Status SumAhead(V lo, V hi);  // tiles pass through registers
  Status CopyTile(V tile, V stage, V hi);
  Status SumCopied(V lo, V hi);  // asynchronous copies
  Status SumAsync(V lo, V hi);   // and asynchronous products
  void StartProducts(V row_base, V col_base, std::vector<V>& sums);
  void Multiply(V row_base, V col_base, std::vector<V>& sums);
  void MultiplyFragments(V row_base, V col_base, std::vector<V>& sums);
  std::vector<V> LoadFragments(V row_base, V col_base, int64_t step);
  void MultiplyStep(std::span<const V> fragments, std::vector<V>& sums);
  Status StoreItems();
  Status StoreFragments();
  Status StoreQuads();
  // A part of C's tile in workgroup memory, row by row. Its rows come in groups that are item_m
  // apart in the tile, its columns in groups that are item_n apart.
  struct Slice {
    kernel::BufferId buffer = kNone;
    int64_t height = 0, width = 0, stride = 0;
    int64_t row_group = 0, col_group = 0;
  };
  Status PlanQuadSlice();
  // Through the epilogue; the slice's first element is at (row_shift, col_shift) of the tile.
  // `ahead` (empty: none) is what LoadAhead gave for it.
  Status StoreSlice(const Slice& slice, int64_t row_shift, int64_t col_shift,
                    std::span<const V> ahead = {});
  // The operands of the epilogue that are as large as C, for every vector of C that StoreSlice will
  // write: loads that nothing waits for yet. Empty where StoreSlice is a loop or has no such
  // operand.
  Result<std::vector<V>> LoadAhead(const Slice& slice, int64_t row_shift, int64_t col_shift);
  // Those of the next slices of a quad, as many as registers allow.
  Status LoadQuadsAhead();
  // Row and column of a slice in the tile.
  std::pair<int64_t, int64_t> PlaceOfQuadSlice(int64_t number) const {
    const int64_t across = tile_.item_n / quad_slice_.col_group;
    return {number / across * kernel::kRowsOfQuad, number % across * quad_slice_.col_group};
  }
  bool IsRolled(const Slice& slice) const;
  // The place in C of vector `number` of the slice.
  struct Spot {
    V row = kNone, col = kNone;  // of the tile's first slice
    V in_slice = kNone;          // where its sum lies in the slice
    V is_there = kNone;          // kNone: known to be
    V mask = kNone;              // of lanes; kNone: all
  };
  Spot SpotOf(const Slice& slice, V number, int64_t row_shift, int64_t col_shift);
  Spot SpotAt(V row, V col, int64_t row_shift, int64_t col_shift);
  void BeginSpot(const Spot& spot, int64_t row_shift, int64_t col_shift);
  // One vector of C goes through the epilogue or into the workspace.
  Status StoreVector(const Spot& spot, int64_t row_shift, int64_t col_shift, V sum,
                     std::span<const V> ahead = {});

  const loop::Function& function_;
  const loop::Kernel& kernel_;
  ExprArena& exprs_;
  const ScheduleRecord& record_;
  const GpuTile& tile_;
  const Target& target_;
  Problem problem_;
  Writer writer_;
  Emitter emitter_;
  const Side &rows_, &cols_;
  const Factor &row_factor_, &col_factor_;

  int64_t workitems_ = 0;
  int row_lanes_ = 1, col_lanes_ = 1;      // of C's vectors in registers
  RegisterTile items_;                     // kGpuTile
  MatrixShape shape_;                      // kGpuMatrix
  int64_t band_rows_ = 0, band_cols_ = 0;  // subgroups (kGpuWgmma: quads) along each side
  V row_first_ = kNone, col_first_ = kNone, batch_ = kNone, part_ = kNone;
  V subgroup_ = kNone;
  V item_row_ = kNone, item_col_ = kNone;  // of this workitem, subgroup or quad, in the tile
  std::unique_ptr<ContractionStage> row_stage_, col_stage_;
  std::vector<V> sums_;
  Slice quad_slice_;                    // kGpuWgmma
  std::deque<std::vector<V>> ahead_;    // LoadAhead of the slices to come
  int64_t next_ahead_ = 0;              // the slice after them
  std::vector<loop::OpId> wide_loads_;  // of the epilogue, as large as C
  Expr row_symbol_, col_symbol_;
  kernel::BufferId partial_ = kNone;
};

Status ContractionBuilder::CheckRecord() {
  const auto is_power = [](int64_t v) { return v > 0 && (v & (v - 1)) == 0; };
  if (!is_power(tile_.m) || !is_power(tile_.n) || !is_power(tile_.k) || !is_power(tile_.item_m) ||
      !is_power(tile_.item_n) || tile_.m % tile_.item_m != 0 || tile_.n % tile_.item_n != 0 ||
      tile_.m > 1024 || tile_.n > 1024 || tile_.k > 1024) {
    return Bad("bad tile");
  }
  if (tile_.split < 1 || tile_.split > 64 || tile_.stages < 1 || tile_.stages > 8) {
    return Bad("bad split or stages");
  }
  if (cols_.digits.empty()) return Bad("nothing runs along the columns");
  if (record_.joins && (tile_.split == 1 || !IsMatrix() || target_.kind != TargetKind::kCuda)) {
    return Bad("only CUDA's fragments of a split sum are joined");
  }
  workitems_ = int64_t{tile_.m / tile_.item_m} * (tile_.n / tile_.item_n);
  const int64_t bytes = std::max(1, BitWidth(problem_.dtype) / 8);
  if (IsMatrix()) {
    const std::optional<MatrixShape> shape = MatrixShapeFor(kernel_, problem_, target_);
    if (!shape) return Bad("the target has no matrix units for its operands");
    shape_ = *shape;
    if (tile_.item_m % shape_.m != 0 || tile_.item_n % shape_.n != 0 || tile_.k % shape_.k != 0) {
      return Bad("the tile is no multiple of the matrix shape");
    }
    workitems_ *= target_.gpu.subgroup_size * (IsWgmma() ? kernel::kSubgroupsOfQuad : 1);
    if (IsWgmma()) HY_TRY(CheckWgmma());
    band_rows_ = tile_.m / tile_.item_m;
    band_cols_ = tile_.n / tile_.item_n;
    DType out = problem_.dtype;
    for (loop::OpId id : problem_.epilogue) {
      if (kernel_.ops[id].kind == loop::OpKind::kStore) {
        out = function_.buffers[kernel_.ops[id].buffer].dtype;
      }
    }
    col_lanes_ = static_cast<int>(16 / std::max(1, BitWidth(out) / 8));
    const int64_t rows = IsWgmma() ? kernel::kRowsOfQuad : shape_.m;
    const int64_t vectors = band_rows_ * rows * tile_.n / col_lanes_;
    if (tile_.n % col_lanes_ != 0 || (vectors < workitems_ && col_lanes_ > 4)) col_lanes_ = 4;
    // Rows that begin anywhere: neighbouring workitems write neighbours, not vectors in pieces.
    while (!exprs_.KnownMultipleOf(cols_.extent, col_lanes_)) col_lanes_ /= 2;
  } else {
    if (tile_.item_m * tile_.item_n > 256) return Bad("bad tile");
    row_lanes_ = static_cast<int>(std::min<int64_t>(16 / bytes, tile_.item_m));
    col_lanes_ = static_cast<int>(std::min<int64_t>(16 / bytes, tile_.item_n));
  }
  if (workitems_ > target_.gpu.max_workgroup_size) return Bad("too many workitems");
  return OkStatus();
}

Status ContractionBuilder::CheckWgmma() const {
  if (target_.kind != TargetKind::kCuda || target_.gpu.compute_capability != 90) {
    return Bad("only compute capability 9.0 has such matrix units");
  }
  if (shape_.accumulator != DType::kF32 || BitWidth(shape_.input) != 16) {
    return Bad("it multiplies 16-bit floats");
  }
  if (tile_.k != kTileDepth || tile_.item_m % kernel::kRowsOfQuad != 0 || tile_.item_n < 64 ||
      tile_.item_n > 256 || tile_.item_m * tile_.item_n > 128 * 128) {
    return Bad("bad tile");
  }
  if (!record_.async || tile_.stages < 3) return Bad("it needs copies and three stages");
  return OkStatus();
}

// Where this workgroup's tile begins, in which batch and part of k it is.
void ContractionBuilder::PlaceWorkgroup(Dispatch& dispatch) {
  const Expr row_tiles = exprs_.CeilDiv(rows_.extent, exprs_.Const(tile_.m));
  const Expr col_tiles = exprs_.CeilDiv(cols_.extent, exprs_.Const(tile_.n));
  dispatch.grid[0] = col_tiles;
  dispatch.grid[1] = row_tiles;
  dispatch.grid[2] = exprs_.Mul(problem_.batch.extent, exprs_.Const(tile_.split));
  V row = exprs_.IsConst(row_tiles, 1) ? writer_.Index(0) : writer_.WorkgroupId(1);
  V col = exprs_.IsConst(col_tiles, 1) ? writer_.Index(0) : writer_.WorkgroupId(0);
  if (tile_.raster > 1 && !exprs_.IsConst(row_tiles, 1) && !exprs_.IsConst(col_tiles, 1)) {
    // Bands of `raster` rows of tiles, walked column by column: workgroups that run together share
    // rows and columns in the second-level cache.
    const V row_count = emitter_.Evaluate(row_tiles), col_count = emitter_.Evaluate(col_tiles);
    const V linear = writer_.Add(writer_.Mul(row, col_count), col);
    const V band_size = writer_.Mul(col_count, writer_.Index(tile_.raster));
    const V band = writer_.FloorDiv(linear, band_size, true);
    const V first = writer_.Mul(band, writer_.Index(tile_.raster));
    V height = writer_.Index(tile_.raster);
    if (!exprs_.KnownMultipleOf(row_tiles, tile_.raster)) {
      height = writer_.Min(height, writer_.Sub(row_count, first));
    }
    const V in_band = writer_.Sub(linear, writer_.Mul(band, band_size));
    row = writer_.Add(first, writer_.FloorMod(in_band, height, true));
    col = writer_.FloorDiv(in_band, height, true);
  }
  row_first_ = writer_.Mul(row, writer_.Index(tile_.m));
  col_first_ = writer_.Mul(col, writer_.Index(tile_.n));
  V batch = exprs_.IsConst(dispatch.grid[2], 1) ? writer_.Index(0) : writer_.WorkgroupId(2);
  part_ = writer_.FloorMod(batch, writer_.Index(tile_.split), true);
  batch = writer_.FloorDiv(batch, writer_.Index(tile_.split), true);
  batch_ = batch;
  if (!problem_.batch.digits.empty()) emitter_.Bind(problem_.batch.flat, batch);

  V id;
  const int64_t across = tile_.n / tile_.item_n;
  if (IsMatrix()) {
    id = workitems_ == target_.gpu.subgroup_size ? writer_.Index(0) : writer_.SubgroupId();
    subgroup_ = id;
    if (IsWgmma()) id = writer_.FloorDiv(id, writer_.Index(kernel::kSubgroupsOfQuad), true);
    item_row_ =
        writer_.Mul(writer_.FloorDiv(id, writer_.Index(across), true), writer_.Index(tile_.item_m));
    item_col_ =
        writer_.Mul(writer_.FloorMod(id, writer_.Index(across), true), writer_.Index(tile_.item_n));
  } else {
    id = writer_.WorkitemId(0);
    item_row_ =
        writer_.Mul(writer_.FloorDiv(id, writer_.Index(across), true), writer_.Index(row_lanes_));
    item_col_ =
        writer_.Mul(writer_.FloorMod(id, writer_.Index(across), true), writer_.Index(col_lanes_));
  }
}

void ContractionBuilder::MakeStages() {
  const auto make = [&](const Factor& factor, const Side& side, int64_t extent,
                        std::string_view name) {
    ContractionStage::Options options;
    options.access = AccessOf(function_, kernel_, problem_, factor, side);
    options.extent = extent;
    options.depth = tile_.k;
    options.workitems = workitems_;
    options.stages = tile_.stages;
    options.value = IsMatrix() ? *NarrowValue(kernel_, factor) : factor.value;
    options.k_major = !IsMatrix();
    const int64_t bytes = std::max(1, BitWidth(kernel_.values[options.value].dtype) / 8);
    const int64_t inner = options.access.along_k ? tile_.k : extent;
    while (options.access.lanes > inner) options.access.lanes /= 2;
    if (IsWgmma()) {
      options.swizzled = true;
    } else if (IsMatrix()) {
      options.pad = kMatrixPadBytes / bytes;
    } else if (options.access.along_k) {
      options.pad = std::max<int64_t>(1, 16 / bytes);
    }
    options.async = record_.async;
    options.name = name;
    return std::make_unique<ContractionStage>(function_, kernel_, problem_, factor, side, writer_,
                                              emitter_, options);
  };
  row_stage_ = make(row_factor_, rows_, tile_.m, "rows");
  col_stage_ = make(col_factor_, cols_, tile_.n, "columns");
  items_.m = tile_.m, items_.n = tile_.n, items_.depth = tile_.k;
  items_.row_lanes = row_lanes_, items_.col_lanes = col_lanes_;
  items_.row_groups = tile_.item_m / row_lanes_, items_.col_groups = tile_.item_n / col_lanes_;
  items_.dtype = problem_.dtype;
  items_.rows = row_stage_->buffer(), items_.cols = col_stage_->buffer();
  items_.row_stride = row_stage_->stride(), items_.col_stride = col_stage_->stride();
  row_stage_->Begin(row_first_);
  col_stage_->Begin(col_first_);
}

Status ContractionBuilder::SumOverK() {
  if (IsMatrix()) {
    Type type{problem_.dtype, 1, FragmentUse::kAccumulator, static_cast<uint16_t>(shape_.m),
              static_cast<uint16_t>(IsWgmma() ? tile_.item_n : shape_.n)};
    const V zero = writer_.Value(Opcode::kFragmentFill, type, {writer_.Const(problem_.dtype, 0)});
    const int32_t rows = IsWgmma() ? kernel::kRowsOfQuad : shape_.m;
    sums_.assign(static_cast<size_t>(tile_.item_m / rows * (tile_.item_n / type.cols)), zero);
  } else {
    sums_.assign(items_.sum_count(), writer_.Const(problem_.dtype, 0, col_lanes_));
  }
  const Expr tiles = exprs_.CeilDiv(problem_.k.extent, exprs_.Const(tile_.k));
  V lo = writer_.Index(0), hi = emitter_.Evaluate(tiles);
  if (tile_.split > 1) {
    const Expr per = exprs_.CeilDiv(tiles, exprs_.Const(tile_.split));
    lo = writer_.Mul(part_, emitter_.Evaluate(per));
    hi = writer_.Min(writer_.Add(lo, emitter_.Evaluate(per)), hi);
  }
  if (IsWgmma()) return SumAsync(lo, hi);
  return record_.async ? SumCopied(lo, hi) : SumAhead(lo, hi);
}

// The tile after the one being multiplied is on its way through registers. With one stage, it is
// written to memory once everyone has read the last.
Status ContractionBuilder::SumAhead(V lo, V hi) {
  const V step = writer_.Index(tile_.k), one = writer_.Index(1);
  const size_t row_loads = row_stage_->Nothing().size();
  const auto load = [&](V tile) -> Result<std::vector<V>> {
    const V k = writer_.Mul(tile, step);
    HY_ASSIGN(std::vector<V> values, row_stage_->Load(k));
    HY_ASSIGN(const std::vector<V> more, col_stage_->Load(k));
    values.insert(values.end(), more.begin(), more.end());
    return values;
  };
  const auto load_next = [&](V tile, V is_there) -> Result<std::vector<V>> {
    writer_.BeginIf(is_there);
    HY_ASSIGN(const std::vector<V> values, load(tile));
    writer_.BeginElse(values);
    std::vector<V> nothing = row_stage_->Nothing();
    const std::vector<V> more = col_stage_->Nothing();
    nothing.insert(nothing.end(), more.begin(), more.end());
    return writer_.EndIf(nothing);
  };
  const auto store = [&](V row_base, V col_base, std::span<const V> values) {
    row_stage_->Store(row_base, values.first(row_loads));
    col_stage_->Store(col_base, values.subspan(row_loads));
  };
  const V zero = writer_.Index(0);
  const bool is_always = HasTiles();
  std::vector<V> ahead;
  if (is_always) {
    HY_ASSIGN(ahead, load(lo));
  } else {
    HY_ASSIGN(ahead, load_next(lo, writer_.Compare(Opcode::kLt, lo, hi)));
  }
  std::vector<V> carried = sums_;
  const size_t sum_count = sums_.size();
  if (tile_.stages == 1) {
    carried.insert(carried.end(), ahead.begin(), ahead.end());
    const Writer::Loop loop = writer_.BeginFor(lo, hi, one, carried, is_always);
    std::vector<V> sums(loop.carried.begin(), loop.carried.begin() + static_cast<long>(sum_count));
    store(zero, zero, std::span(loop.carried).subspan(sum_count));
    writer_.Barrier();
    const V next = writer_.Add(loop.variable, one);
    HY_ASSIGN(ahead, load_next(next, writer_.Compare(Opcode::kLt, next, hi)));
    Multiply(zero, zero, sums);
    writer_.Barrier();
    sums.insert(sums.end(), ahead.begin(), ahead.end());
    sums = writer_.EndFor(sums);
    sums_.assign(sums.begin(), sums.begin() + static_cast<long>(sum_count));
    return OkStatus();
  }
  store(zero, zero, ahead);
  writer_.Barrier();
  const Writer::Loop loop = writer_.BeginFor(lo, hi, one, carried, is_always);
  std::vector<V> sums = loop.carried;
  const V next = writer_.Add(loop.variable, one);
  const V is_there = writer_.Compare(Opcode::kLt, next, hi);
  const V side = writer_.FloorMod(writer_.Sub(loop.variable, lo), writer_.Index(2), true);
  const V other = writer_.Sub(one, side);
  HY_ASSIGN(ahead, load_next(next, is_there));
  Multiply(writer_.Mul(side, writer_.Index(row_stage_->tile_elements())),
           writer_.Mul(side, writer_.Index(col_stage_->tile_elements())), sums);
  writer_.BeginIf(is_there);
  store(writer_.Mul(other, writer_.Index(row_stage_->tile_elements())),
        writer_.Mul(other, writer_.Index(col_stage_->tile_elements())), ahead);
  writer_.EndIf({});
  writer_.Barrier();
  sums_ = writer_.EndFor(sums);
  return OkStatus();
}

// Starts the copies of a tile of k into a stage, unless it lies at or beyond `hi`.
Status ContractionBuilder::CopyTile(V tile, V stage, V hi) {
  const V depth = writer_.Index(tile_.k);
  const V row_size = writer_.Index(row_stage_->tile_elements());
  const V col_size = writer_.Index(col_stage_->tile_elements());
  writer_.BeginIf(writer_.Compare(Opcode::kLt, tile, hi));
  HY_TRY(row_stage_->Copy(writer_.Mul(stage, row_size), writer_.Mul(tile, depth)));
  HY_TRY(col_stage_->Copy(writer_.Mul(stage, col_size), writer_.Mul(tile, depth)));
  writer_.EndIf({});
  writer_.Do(Opcode::kAsyncCommit, {}, {});
  return OkStatus();
}

// stages - 1 tiles are on their way while one is multiplied. One barrier a step: after it, everyone
// has left the tile that the next copies overwrite. Fragments are read one step of the matrix shape
// ahead, the first ones of a tile before the last products of the tile before it.
Status ContractionBuilder::SumCopied(V lo, V hi) {
  const V one = writer_.Index(1);
  const V row_size = writer_.Index(row_stage_->tile_elements());
  const V col_size = writer_.Index(col_stage_->tile_elements());
  const auto copy = [&](V tile, V stage) { return CopyTile(tile, stage, hi); };
  const auto fragments_of = [&](V stage, int64_t step) {
    return LoadFragments(writer_.Mul(stage, row_size), writer_.Mul(stage, col_size), step);
  };
  const auto wait = [&](int64_t pending) {
    writer_.Do(Opcode::kAsyncWait, {}, {pending});
    writer_.Barrier();
  };
  const int64_t ahead = tile_.stages - 1;
  for (int64_t s = 0; s < ahead; ++s) {
    HY_TRY(copy(writer_.Add(lo, writer_.Index(s)), writer_.Index(s)));
  }
  wait(ahead - 1);
  const size_t sum_count = sums_.size();
  std::vector<V> carried = sums_;
  carried.push_back(writer_.Index(0));      // the stage to read
  carried.push_back(writer_.Index(ahead));  // the stage to fill
  if (!HasTiles()) writer_.BeginIf(writer_.Compare(Opcode::kLt, lo, hi));
  const std::vector<V> first = fragments_of(writer_.Index(0), 0);
  carried.insert(carried.end(), first.begin(), first.end());
  const Writer::Loop loop = writer_.BeginFor(lo, hi, one, carried, true);
  const auto begin = loop.carried.begin();
  std::vector<V> sums(begin, begin + static_cast<long>(sum_count));
  const V read = loop.carried[sum_count], fill = loop.carried[sum_count + 1];
  std::vector<V> now(begin + static_cast<long>(sum_count) + 2, loop.carried.end());
  const auto after = [&](V stage) {
    const V more = writer_.Add(stage, one);
    return writer_.Select(writer_.Compare(Opcode::kEq, more, writer_.Index(tile_.stages)),
                          writer_.Index(0), more);
  };
  const V is_there = writer_.Compare(Opcode::kLt, writer_.Add(loop.variable, one), hi);
  const V next_stage = after(read);
  for (int64_t step = 0; step < tile_.k; step += shape_.k) {
    std::vector<V> next;
    const bool is_last = step + shape_.k == tile_.k;
    if (!is_last) next = fragments_of(read, step + shape_.k);
    // Behind the first reads of fragments, which everything else in this step waits for.
    if (step == 0) HY_TRY(copy(writer_.Add(loop.variable, writer_.Index(ahead)), fill));
    if (is_last) {
      wait(ahead - 1);
      // After the last tile, any that is there.
      next = fragments_of(writer_.Select(is_there, next_stage, read), 0);
    }
    MultiplyStep(now, sums);
    now = std::move(next);
  }
  sums.push_back(next_stage);
  sums.push_back(after(fill));
  sums.insert(sums.end(), now.begin(), now.end());
  sums = writer_.EndFor(sums);
  sums.resize(sum_count);
  if (!HasTiles()) {
    writer_.BeginElse(sums);
    sums = writer_.EndIf(sums_);
  }
  sums_ = std::move(sums);
  return OkStatus();
}

// As SumCopied, but the products of one tile are still running while those of the next are started:
// the stage that new copies fill is that of the tile before both, which every quad knows to be
// multiplied at the barrier. So stages - 2 tiles are on their way.
Status ContractionBuilder::SumAsync(V lo, V hi) {
  const V one = writer_.Index(1);
  const V row_size = writer_.Index(row_stage_->tile_elements());
  const V col_size = writer_.Index(col_stage_->tile_elements());
  const auto copy = [&](V tile, V stage) { return CopyTile(tile, stage, hi); };
  const auto begin = [&](V sum) {
    Type type = writer_.TypeOf(sum);
    type.use = FragmentUse::kPending;
    return writer_.Value(Opcode::kMmaBegin, type, {sum});
  };
  const int64_t ahead = tile_.stages - 2;
  for (int64_t s = 0; s < ahead; ++s) {
    HY_TRY(copy(writer_.Add(lo, writer_.Index(s)), writer_.Index(s)));
  }
  std::vector<V> carried;
  for (const V sum : sums_) carried.push_back(begin(sum));
  const size_t sum_count = carried.size();
  carried.push_back(writer_.Index(0));      // the stage to read
  carried.push_back(writer_.Index(ahead));  // the stage to fill
  const Writer::Loop loop = writer_.BeginFor(lo, hi, one, carried, HasTiles());
  std::vector<V> sums(loop.carried.begin(), loop.carried.begin() + static_cast<long>(sum_count));
  const V read = loop.carried[sum_count], fill = loop.carried[sum_count + 1];
  const auto after = [&](V stage) {
    const V more = writer_.Add(stage, one);
    return writer_.Select(writer_.Compare(Opcode::kEq, more, writer_.Index(tile_.stages)),
                          writer_.Index(0), more);
  };
  writer_.Do(Opcode::kAsyncWait, {}, {ahead - 1});
  writer_.Do(Opcode::kAsyncFence, {}, {});
  writer_.Do(Opcode::kMmaWait, {}, {1});
  writer_.Barrier();
  for (V& sum : sums) sum = begin(sum);
  StartProducts(writer_.Mul(read, row_size), writer_.Mul(read, col_size), sums);
  writer_.Do(Opcode::kMmaCommit, {}, {});
  HY_TRY(copy(writer_.Add(loop.variable, writer_.Index(ahead)), fill));
  sums.push_back(after(read));
  sums.push_back(after(fill));
  sums = writer_.EndFor(sums);
  if (tile_.split == 1) HY_TRY(LoadQuadsAhead());
  writer_.Do(Opcode::kMmaWait, {}, {0});
  for (size_t i = 0; i < sum_count; ++i) {
    Type type = writer_.TypeOf(sums[i]);
    type.use = FragmentUse::kAccumulator;
    sums_[i] = writer_.Value(Opcode::kMmaEnd, type, {sums[i]});
  }
  return OkStatus();
}

// Places of the quad within its tiles are multiples of 64, whose distance is the same in both
// layouts.
void ContractionBuilder::StartProducts(V row_base, V col_base, std::vector<V>& sums) {
  const V side = writer_.Index(64);
  const V row_first = writer_.Add(row_base, writer_.Mul(item_row_, side));
  const V col_first = writer_.Add(col_base, writer_.Mul(item_col_, side));
  const auto layout = [](const ContractionStage& stage) {
    return static_cast<int64_t>(stage.is_side_major() ? kernel::TileLayout::kSideMajor
                                                      : kernel::TileLayout::kDepthMajor);
  };
  for (int64_t k = 0; k < tile_.k; k += kernel::kDepthOfProduct) {
    const V b = writer_.Add(col_first, writer_.Index(col_stage_->OffsetInTile(0, k)));
    for (size_t i = 0; i < sums.size(); ++i) {
      const int64_t offset =
          row_stage_->OffsetInTile(static_cast<int64_t>(i) * kernel::kRowsOfQuad, k);
      const V a = writer_.Add(row_first, writer_.Index(offset));
      sums[i] = writer_.Value(Opcode::kMmaAsync, writer_.TypeOf(sums[i]), {sums[i], a, b},
                              {col_stage_->buffer(), layout(*row_stage_), layout(*col_stage_),
                               row_stage_->group_stride(), col_stage_->group_stride()},
                              row_stage_->buffer());
    }
  }
}

void ContractionBuilder::Multiply(V row_base, V col_base, std::vector<V>& sums) {
  if (IsMatrix()) return MultiplyFragments(row_base, col_base, sums);
  MultiplyTile(writer_, items_, writer_.Add(row_base, item_row_), writer_.Add(col_base, item_col_),
               sums);
}

// The fragments of the rows, then those of the columns, at `step` of the tile's depth.
std::vector<V> ContractionBuilder::LoadFragments(V row_base, V col_base, int64_t step) {
  const auto m = static_cast<uint16_t>(shape_.m), n = static_cast<uint16_t>(shape_.n),
             k = static_cast<uint16_t>(shape_.k);
  const Type a_type{shape_.input, 1, FragmentUse::kA, m, k};
  const Type b_type{shape_.input, 1, FragmentUse::kB, k, n};
  const int64_t align = kMatrixPadBytes * 8 / BitWidth(shape_.input);
  const auto load = [&](const ContractionStage& stage, Type type, V base, V item, int64_t place) {
    const int64_t stride = stage.stride();
    const bool is_a = type.use == FragmentUse::kA;
    const int64_t offset = stage.is_k_major() ? step * stride + place : place * stride + step;
    V at = writer_.Mul(item, writer_.Index(stage.is_k_major() ? 1 : stride));
    at = writer_.Add(writer_.Add(base, at), writer_.Index(offset));
    // A is side x k, B is k x side.
    const FragmentLayout layout =
        stage.is_k_major() == is_a ? FragmentLayout::kColumnMajor : FragmentLayout::kRowMajor;
    return writer_.Value(Opcode::kFragmentLoad, type, {at, writer_.Index(stride)},
                         {static_cast<int64_t>(layout), align}, stage.buffer());
  };
  std::vector<V> fragments;
  for (int64_t i = 0; i < tile_.item_m; i += shape_.m) {
    fragments.push_back(load(*row_stage_, a_type, row_base, item_row_, i));
  }
  for (int64_t j = 0; j < tile_.item_n; j += shape_.n) {
    fragments.push_back(load(*col_stage_, b_type, col_base, item_col_, j));
  }
  return fragments;
}

void ContractionBuilder::MultiplyStep(std::span<const V> fragments, std::vector<V>& sums) {
  const auto row_count = static_cast<size_t>(tile_.item_m / shape_.m);
  const auto col_count = static_cast<size_t>(tile_.item_n / shape_.n);
  for (size_t i = 0; i < row_count; ++i) {
    for (size_t j = 0; j < col_count; ++j) {
      V& sum = sums[i * col_count + j];
      sum = writer_.Value(Opcode::kFragmentMma, writer_.TypeOf(sum),
                          {fragments[i], fragments[row_count + j], sum});
    }
  }
}

void ContractionBuilder::MultiplyFragments(V row_base, V col_base, std::vector<V>& sums) {
  std::vector<V> now = LoadFragments(row_base, col_base, 0);
  for (int64_t step = 0; step < tile_.k; step += shape_.k) {
    std::vector<V> next;
    if (step + shape_.k < tile_.k) next = LoadFragments(row_base, col_base, step + shape_.k);
    MultiplyStep(now, sums);
    now = std::move(next);
  }
}

ContractionBuilder::Spot ContractionBuilder::SpotAt(V row, V col, int64_t row_shift,
                                                    int64_t col_shift) {
  Spot spot;
  spot.row = row, spot.col = col;
  const V row_at = writer_.Add(row, writer_.Index(row_shift));
  const V col_at = writer_.Add(col, writer_.Index(col_shift));
  const bool checks_row = !exprs_.KnownMultipleOf(rows_.extent, tile_.m);
  const bool checks_col = !exprs_.KnownMultipleOf(cols_.extent, tile_.n);
  if (checks_row) {
    spot.is_there = writer_.Compare(Opcode::kLt, row_at, emitter_.Evaluate(rows_.extent));
  }
  if (checks_col) {
    const V total = emitter_.Evaluate(cols_.extent);
    const V is_col = writer_.Compare(Opcode::kLt, col_at, total);
    spot.is_there = spot.is_there == kNone ? is_col
                                           : writer_.Pure(Opcode::kAnd, writer_.TypeOf(is_col),
                                                          {spot.is_there, is_col});
    if (!exprs_.KnownMultipleOf(cols_.extent, col_lanes_)) {
      spot.mask = writer_.Compare(Opcode::kLt, writer_.Iota(writer_.index_dtype(), col_lanes_),
                                  writer_.Sub(total, col_at));
    }
  }
  return spot;
}

// What follows, until EndVector, is emitted for the lanes of the spot.
void ContractionBuilder::BeginSpot(const Spot& spot, int64_t row_shift, int64_t col_shift) {
  emitter_.Bind(row_symbol_, spot.row);
  emitter_.Shift(rows_.flat, row_symbol_, row_shift);
  emitter_.Shift(cols_.flat, col_symbol_, col_shift);
  emitter_.BeginVector(col_symbol_, spot.col, col_lanes_, /*aligned=*/true, spot.mask);
}

Status ContractionBuilder::StoreVector(const Spot& spot, int64_t row_shift, int64_t col_shift,
                                       V sum, std::span<const V> ahead) {
  if (spot.is_there != kNone) writer_.BeginIf(spot.is_there);
  if (partial_ != kNone) {
    const V row_at = writer_.Add(spot.row, writer_.Index(row_shift));
    const V col_at = writer_.Add(spot.col, writer_.Index(col_shift));
    const V at =
        PartialIndex(exprs_, emitter_, writer_, problem_, record_.swap, part_, row_at, col_at);
    const bool is_aligned = exprs_.KnownMultipleOf(cols_.extent, col_lanes_);
    writer_.Store(partial_, at, sum, spot.mask, is_aligned ? col_lanes_ : 1);
  } else {
    BeginSpot(spot, row_shift, col_shift);
    emitter_.SetValue(problem_.accumulator, sum);
    for (size_t i = 0; i < ahead.size(); ++i) {
      emitter_.SetValue(kernel_.ops[wide_loads_[i]].results[0], ahead[i]);
    }
    for (loop::OpId op : problem_.epilogue) {
      if (!ahead.empty() && std::ranges::count(wide_loads_, op) > 0) continue;
      HY_TRY(emitter_.EmitOp(op));
    }
    emitter_.EndVector();
  }
  if (spot.is_there != kNone) writer_.EndIf({});
  return OkStatus();
}

Status ContractionBuilder::StoreItems() {
  const V row = writer_.Add(row_first_, item_row_), col = writer_.Add(col_first_, item_col_);
  for (int64_t g = 0; g < items_.row_groups; ++g) {
    for (int64_t i = 0; i < items_.row_lanes; ++i) {
      for (int64_t c = 0; c < items_.col_groups; ++c) {
        const int64_t row_shift = g * (tile_.m / items_.row_groups) + i;
        const int64_t col_shift = c * (tile_.n / items_.col_groups);
        HY_TRY(StoreVector(SpotAt(row, col, row_shift, col_shift), row_shift, col_shift,
                           sums_[items_.SumAt(g, i, c)]));
      }
    }
  }
  return OkStatus();
}

// One row of fragments of every subgroup at a time: through workgroup memory into vectors of
// neighbouring columns.
Status ContractionBuilder::StoreFragments() {
  Slice slice;
  slice.stride = tile_.n + 16 * 8 / BitWidth(problem_.dtype);
  slice.height = band_rows_ * shape_.m;
  slice.width = slice.col_group = tile_.n;
  slice.row_group = shape_.m;
  slice.buffer = writer_.AddAllocation("slice", problem_.dtype, slice.height * slice.stride);
  const int64_t row_count = tile_.item_m / shape_.m, col_count = tile_.item_n / shape_.n;
  const V band = writer_.FloorDiv(item_row_, writer_.Index(tile_.item_m), true);
  for (int64_t i = 0; i < row_count; ++i) {
    if (i > 0) writer_.Barrier();
    for (int64_t j = 0; j < col_count; ++j) {
      V at = writer_.Add(writer_.Mul(band, writer_.Index(shape_.m * slice.stride)), item_col_);
      at = writer_.Add(at, writer_.Index(j * shape_.n));
      writer_.Do(Opcode::kFragmentStore,
                 {at, sums_[static_cast<size_t>(i * col_count + j)], writer_.Index(slice.stride)},
                 {static_cast<int64_t>(FragmentLayout::kRowMajor), 4}, slice.buffer);
    }
    writer_.Barrier();
    HY_TRY(StoreSlice(slice, i * shape_.m, 0));
  }
  return OkStatus();
}

// For quads: 64 rows and some columns of each at a time.
Status ContractionBuilder::PlanQuadSlice() {
  Slice& slice = quad_slice_;
  slice.height = band_rows_ * kernel::kRowsOfQuad;
  slice.row_group = kernel::kRowsOfQuad;
  const int64_t stage_bytes = (row_stage_->tile_elements() + col_stage_->tile_elements()) *
                              tile_.stages * BitWidth(shape_.input) / 8;
  // Rows begin in banks 8 apart: the pairs that a subgroup stores at once do not meet.
  const auto stride_of = [&](int64_t columns) { return band_cols_ * columns + 8; };
  // How many workgroups a unit has room for.
  const auto together = [&](int64_t columns) {
    const int64_t bytes = stage_bytes + slice.height * stride_of(columns) * 4;
    return (target_.gpu.workgroup_memory_bytes + kWorkgroupOverheadBytes) /
           (bytes + kWorkgroupOverheadBytes);
  };
  slice.col_group = together(64) == together(32) ? 64 : 32;
  if (together(slice.col_group) == 0) return Bad("too much workgroup memory");
  slice.width = band_cols_ * slice.col_group;
  slice.stride = stride_of(slice.col_group);
  slice.buffer = writer_.AddAllocation("slice", problem_.dtype, slice.height * slice.stride);
  for (const loop::OpId id : problem_.epilogue) {
    const loop::Op& op = kernel_.ops[id];
    if (op.kind != loop::OpKind::kLoad || !op.operands.empty()) continue;
    const auto runs_along = [&](const Side& side) {
      return std::ranges::any_of(
          side.digits, [&](const auto& digit) { return exprs_.DependsOn(op.index, digit.first); });
    };
    if (runs_along(rows_) && runs_along(cols_)) wide_loads_.push_back(id);
  }
  return OkStatus();
}

// As StoreFragments. Operands of the epilogue that are as large as C are on their way while the
// slice before is stored, those of the first slice while the last products run: a workgroup that
// has the unit to itself would wait for each of them.
Status ContractionBuilder::StoreQuads() {
  const Slice& slice = quad_slice_;
  const Type piece{problem_.dtype, 1, FragmentUse::kAccumulator, 16,
                   static_cast<uint16_t>(slice.col_group)};
  const int lanes = kernel::ElementsPerWorkitem(piece);
  V row = writer_.Mul(writer_.FloorDiv(item_row_, writer_.Index(tile_.item_m), true),
                      writer_.Index(kernel::kRowsOfQuad));
  row = writer_.Add(
      row, writer_.Mul(writer_.FloorMod(subgroup_, writer_.Index(kernel::kSubgroupsOfQuad), true),
                       writer_.Index(piece.rows)));
  const V col = writer_.Mul(writer_.FloorDiv(item_col_, writer_.Index(tile_.item_n), true),
                            writer_.Index(slice.col_group));
  const V at = writer_.Add(writer_.Mul(row, writer_.Index(slice.stride)), col);
  const int64_t parts = tile_.item_n / slice.col_group;
  for (int64_t number = 0; number < static_cast<int64_t>(sums_.size()) * parts; ++number) {
    const auto [row_shift, col_shift] = PlaceOfQuadSlice(number);
    const V sum = sums_[static_cast<size_t>(number / parts)];
    const int all = kernel::ElementsPerWorkitem(writer_.TypeOf(sum));
    const V elements = writer_.Value(Opcode::kFragmentElements,
                                     Type{problem_.dtype, static_cast<uint16_t>(all)}, {sum});
    // The elements of neighbouring columns are neighbours (PlaceInFragment).
    std::vector<int64_t> own;
    for (int e = 0; e < lanes; ++e) own.push_back(number % parts * lanes + e);
    const V part =
        writer_.Pure(Opcode::kShuffle, Type{problem_.dtype, static_cast<uint16_t>(lanes)},
                     {elements, elements}, own);
    const V fragment = writer_.Value(Opcode::kFragmentOf, piece, {part});
    if (number > 0) writer_.Barrier();
    if (!ahead_.empty()) HY_TRY(LoadQuadsAhead());
    writer_.Do(Opcode::kFragmentStore, {at, fragment, writer_.Index(slice.stride)},
               {static_cast<int64_t>(FragmentLayout::kRowMajor), 4}, slice.buffer);
    writer_.Barrier();
    HY_TRY(StoreSlice(slice, row_shift, col_shift,
                      ahead_.empty() ? std::span<const V>{} : ahead_.front()));
    if (!ahead_.empty()) ahead_.pop_front();
  }
  return OkStatus();
}

Status ContractionBuilder::LoadQuadsAhead() {
  const int64_t count = tile_.item_m / kernel::kRowsOfQuad * (tile_.item_n / quad_slice_.col_group);
  const auto bytes_of = [&](const std::vector<V>& loaded) {
    int64_t bytes = 0;
    for (const V value : loaded) {
      const Type type = writer_.TypeOf(value);
      bytes += int64_t{type.lanes} * BitWidth(type.dtype) / 8;
    }
    return bytes;
  };
  while (next_ahead_ < count) {
    // Slices are alike.
    if (!ahead_.empty() && bytes_of(ahead_.front()) * (std::ssize(ahead_) + 1) > kMostBytesAhead) {
      break;
    }
    const auto [row_shift, col_shift] = PlaceOfQuadSlice(next_ahead_);
    HY_ASSIGN(std::vector<V> loaded, LoadAhead(quad_slice_, row_shift, col_shift));
    if (loaded.empty()) break;
    ahead_.push_back(std::move(loaded));
    ++next_ahead_;
  }
  return OkStatus();
}

bool ContractionBuilder::IsRolled(const Slice& slice) const {
  const int64_t total = slice.height * slice.width / col_lanes_;
  const int64_t passes = (total + workitems_ - 1) / workitems_;
  return passes > kUnrolledPasses ||
         (passes > 1 && problem_.epilogue_weight > kUnrolledEpilogueWeight);
}

ContractionBuilder::Spot ContractionBuilder::SpotOf(const Slice& slice, V number, int64_t row_shift,
                                                    int64_t col_shift) {
  const int64_t vectors = slice.width / col_lanes_;
  // A place in the slice as one in the tile.
  const auto in_tile = [&](V place, int64_t group, int64_t apart) {
    const V first =
        writer_.Mul(writer_.FloorDiv(place, writer_.Index(group), true), writer_.Index(apart));
    return writer_.Add(first, writer_.FloorMod(place, writer_.Index(group), true));
  };
  const V row = writer_.FloorDiv(number, writer_.Index(vectors), true);
  const V col = writer_.Mul(writer_.FloorMod(number, writer_.Index(vectors), true),
                            writer_.Index(col_lanes_));
  const V tile_row = in_tile(row, slice.row_group, tile_.item_m);
  const V tile_col =
      slice.col_group == slice.width ? col : in_tile(col, slice.col_group, tile_.item_n);
  Spot spot = SpotAt(writer_.Add(row_first_, tile_row), writer_.Add(col_first_, tile_col),
                     row_shift, col_shift);
  spot.in_slice = writer_.Add(writer_.Mul(row, writer_.Index(slice.stride)), col);
  return spot;
}

Result<std::vector<V>> ContractionBuilder::LoadAhead(const Slice& slice, int64_t row_shift,
                                                     int64_t col_shift) {
  std::vector<V> all;
  const int64_t total = slice.height * slice.width / col_lanes_;
  if (wide_loads_.empty() || IsRolled(slice) || total % workitems_ != 0) return all;
  const V id = writer_.WorkitemId(0);
  for (int64_t p = 0; p < total / workitems_; ++p) {
    const V number = writer_.Add(id, writer_.Index(p * workitems_));
    const Spot spot = SpotOf(slice, number, row_shift, col_shift);
    if (spot.is_there != kNone) writer_.BeginIf(spot.is_there);
    BeginSpot(spot, row_shift, col_shift);
    std::vector<V> loaded;
    for (const loop::OpId op : wide_loads_) {
      HY_TRY(emitter_.EmitOp(op));
      loaded.push_back(emitter_.ValueOf(kernel_.ops[op].results[0]));
    }
    emitter_.EndVector();
    if (spot.is_there != kNone) {
      std::vector<V> nothing;
      writer_.BeginElse(loaded);
      for (const V value : loaded) {
        const Type type = writer_.TypeOf(value);
        nothing.push_back(writer_.Const(type.dtype, 0, type.lanes));
      }
      loaded = writer_.EndIf(nothing);
    }
    all.insert(all.end(), loaded.begin(), loaded.end());
  }
  return all;
}

Status ContractionBuilder::StoreSlice(const Slice& slice, int64_t row_shift, int64_t col_shift,
                                      std::span<const V> ahead) {
  const int64_t total = slice.height * slice.width / col_lanes_;
  const int64_t passes = (total + workitems_ - 1) / workitems_;
  const V id = writer_.WorkitemId(0);
  const auto one_pass = [&](V number, std::span<const V> loaded) -> Status {
    const V is_there = total % workitems_ == 0
                           ? kNone
                           : writer_.Compare(Opcode::kLt, number, writer_.Index(total));
    if (is_there != kNone) writer_.BeginIf(is_there);
    const Spot spot = SpotOf(slice, number, row_shift, col_shift);
    const V sum = writer_.Load(slice.buffer, spot.in_slice, col_lanes_, false,
                               std::min<int64_t>(col_lanes_, 16 * 8 / BitWidth(problem_.dtype)));
    HY_TRY(StoreVector(spot, row_shift, col_shift, sum, loaded));
    if (is_there != kNone) writer_.EndIf({});
    return OkStatus();
  };
  if (IsRolled(slice)) {
    const Writer::Loop loop =
        writer_.BeginFor(writer_.Index(0), writer_.Index(passes), writer_.Index(1), {}, true);
    HY_TRY(one_pass(writer_.Add(writer_.Mul(loop.variable, writer_.Index(workitems_)), id), {}));
    writer_.EndFor({});
    return OkStatus();
  }
  const size_t each = ahead.size() / static_cast<size_t>(passes);
  for (int64_t p = 0; p < passes; ++p) {
    HY_TRY(one_pass(writer_.Add(id, writer_.Index(p * workitems_)),
                    ahead.subspan(static_cast<size_t>(p) * each, each)));
  }
  return OkStatus();
}

// The workgroups of a tile leave their parts in memory; the last one adds them and stores the tile.
Status ContractionBuilder::StoreJoined(const Dispatch& dispatch, ScheduledKernel& scheduled) {
  const Expr tiles =
      exprs_.Mul(exprs_.Mul(dispatch.grid[0], dispatch.grid[1]), problem_.batch.extent);
  const int64_t bytes = BitWidth(problem_.dtype) / 8;
  if (exprs_.RangeOf(tiles).hi > INT32_MAX / bytes / tile_.split / tile_.m / tile_.n) {
    return Bad("there are too many tiles to join");
  }
  PartsOfTile place;
  AddJoin(exprs_, emitter_, problem_, tiles, tile_, scheduled, &place);
  place.tile = batch_;
  for (const int axis : {1, 0}) {
    if (exprs_.IsConst(dispatch.grid[axis], 1)) continue;
    place.tile = writer_.Add(writer_.Mul(place.tile, emitter_.Evaluate(dispatch.grid[axis])),
                             writer_.WorkgroupId(axis));
  }
  place.part = part_;
  place.subgroup = subgroup_;
  place.split = tile_.split;
  place.subgroups = workitems_ / target_.gpu.subgroup_size;
  sums_ = BeginJoined(writer_, place, sums_);
  HY_TRY(IsWgmma() ? StoreQuads() : StoreFragments());
  writer_.EndIf({});
  return OkStatus();
}

Result<ScheduledKernel> ContractionBuilder::Build() {
  HY_TRY(CheckRecord());
  writer_.SetWorkgroup(workitems_, IsMatrix() ? target_.gpu.subgroup_size : 0);
  for (const Side* side : {&problem_.batch, &problem_.m, &problem_.n, &problem_.k}) {
    if (side->digits.size() > 1) emitter_.Flatten(side->flat, side->digits);
  }
  row_symbol_ = exprs_.Loop("row", rows_.extent);
  col_symbol_ = exprs_.Loop("column", cols_.extent);
  ScheduledKernel scheduled;
  scheduled.record = record_;
  Dispatch dispatch;
  PlaceWorkgroup(dispatch);
  for (int axis = 0; axis < 3; ++axis) {
    if (exprs_.AsConst(dispatch.grid[axis]).value_or(0) > target_.gpu.max_grid[axis]) {
      return Bad("its grid is too large for the target");
    }
  }
  if (record_.async) {
    for (const auto& [factor, side] : {std::pair(&row_factor_, &rows_), {&col_factor_, &cols_}}) {
      const auto narrow = IsMatrix() ? NarrowValue(kernel_, *factor) : factor->value;
      const OperandAccess access = AccessOf(function_, kernel_, problem_, *factor, *side);
      if (!ContractionStage::CanCopy(function_, kernel_, *factor, *narrow, access) || !IsMatrix()) {
        return Bad("an operand changes on its way into workgroup memory");
      }
    }
    if (tile_.stages < 2) return Bad("copies need a second stage");
  }
  MakeStages();
  if (IsWgmma()) HY_TRY(PlanQuadSlice());
  HY_TRY(SumOverK());
  if (record_.joins) {
    HY_TRY(StoreJoined(dispatch, scheduled));
  } else {
    if (tile_.split > 1) {
      partial_ = AddPartial(emitter_, problem_, true);
      scheduled.workspaces.push_back(PartialWorkspace(exprs_, problem_, tile_.split));
    }
    HY_TRY(IsWgmma() ? StoreQuads() : IsMatrix() ? StoreFragments() : StoreItems());
  }
  dispatch.bindings = emitter_.bindings;
  dispatch.scalars = emitter_.scalars;
  scheduled.kernels.push_back(writer_.Finish());
  scheduled.dispatches.push_back(std::move(dispatch));
  int64_t memory = 0;
  for (const kernel::Buffer& buffer : scheduled.kernels[0].buffers) {
    if (buffer.space == kernel::MemorySpace::kWorkgroup) {
      memory += (buffer.elements * BitWidth(buffer.dtype) / 8 + 15) / 16 * 16;
    }
  }
  if (memory > target_.gpu.workgroup_memory_bytes) return Bad("too much workgroup memory");
  if (tile_.split > 1 && !record_.joins) {
    HY_TRY(AddSumOfParts(function_, kernel_, problem_, record_, tile_.split, target_, scheduled));
  }
  return scheduled;
}

}  // namespace

Result<ScheduledKernel> BuildGpuContraction(const loop::Function& function, uint32_t kernel,
                                            const ScheduleRecord& record, const Target& target) {
  if (record.kind == ScheduleKind::kGpuVector) return BuildGemv(function, kernel, record, target);
  std::string why;
  std::optional<Problem> problem = ReadContraction(function, function.kernels[kernel], &why);
  if (!problem) {
    return InvalidArgument("Schedule '{}' needs a contraction; kernel '{}' is none: {}.",
                           FormatSchedule(record), function.kernels[kernel].name, why);
  }
  return ContractionBuilder(function, function.kernels[kernel], record, target, std::move(*problem))
      .Build();
}

}  // namespace halyard::schedule
