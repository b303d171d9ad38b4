// SPDX-License-Identifier: Apache-2.0
// The kernel of a tile of C: place of the workgroup and the loop over tiles of k with copies ahead
// of the arithmetic. The epilogue is in contraction_store.cc.
#include <algorithm>
#include <bit>
#include <functional>
#include <memory>

#include "base/check.h"
#include "compiler/schedule/gpu/contraction.h"
#include "compiler/schedule/gpu/contraction_builder.h"
#include "compiler/schedule/gpu/gemv.h"

namespace halyard::schedule {

using kernel::FragmentLayout;
using kernel::FragmentUse;
using kernel::kNone;
using kernel::Opcode;
using kernel::Type;
using V = kernel::ValueId;

namespace {

constexpr int32_t kTileDepth = 64;       // of the tiles of kGpuWgmma: 128 bytes
constexpr int64_t kMatrixPadBytes = 16;  // rows of workgroup memory start in different banks

}  // namespace

Status GpuContractionBuilder::CheckRecord() {
  const auto is_power = [](int64_t v) { return v > 0 && (v & (v - 1)) == 0; };
  // Tiles of quads may be thrice a power of two: CheckWgmma.
  const bool is_even = is_power(tile_.m) && is_power(tile_.n) && is_power(tile_.item_n);
  if ((!is_even && !IsWgmma()) || !is_power(tile_.k) || !is_power(tile_.item_m) ||
      tile_.item_n <= 0 || tile_.m % tile_.item_m != 0 || tile_.n % tile_.item_n != 0 ||
      tile_.m <= 0 || tile_.n <= 0 || tile_.m > 1024 || tile_.n > 1024 || tile_.k > 1024) {
    return Bad("bad tile");
  }
  if (tile_.split < 1 || tile_.split > 64 || tile_.stages < 1 || tile_.stages > 8) {
    return Bad("bad split or stages");
  }
  if (cols_.digits.empty()) return Bad("nothing runs along the columns");
  if (record_.joins && (tile_.split == 1 || !IsMatrix())) {
    return Bad("only fragments of a split sum are joined");
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

Status GpuContractionBuilder::CheckWgmma() const {
  if (target_.kind != TargetKind::kCuda || target_.gpu.compute_capability != 90) {
    return Bad("only compute capability 9.0 has such matrix units");
  }
  if (shape_.accumulator != DType::kF32 || BitWidth(shape_.input) != 16) {
    return Bad("it multiplies 16-bit floats");
  }
  if (tile_.k != kTileDepth || tile_.item_m % kernel::kRowsOfQuad != 0 || tile_.item_n % 64 != 0 ||
      tile_.item_n > 256 || tile_.item_m * tile_.item_n > 128 * 128) {
    return Bad("bad tile");
  }
  // Places of a pass and of a slice add up (SpotOf) where quads stand above each other, 64 rows
  // each.
  const auto is_power = [](int64_t v) { return (v & (v - 1)) == 0; };
  if (!(is_power(tile_.m) && is_power(tile_.n)) &&
      (tile_.item_m != kernel::kRowsOfQuad || tile_.item_n != tile_.n)) {
    return Bad("a tile that is no power of two has quads of 64 rows and all columns");
  }
  if (!record_.async || tile_.stages < 3) return Bad("it needs copies and three stages");
  return OkStatus();
}

// Where this workgroup's tile begins, in which batch and part of k it is.
void GpuContractionBuilder::PlaceWorkgroup(Dispatch& dispatch) {
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

void GpuContractionBuilder::MakeStages() {
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

Status GpuContractionBuilder::SumOverK() {
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
// written to memory once everyone has read the last. Compilers move loads to where their values are
// stored, behind the products, unless something holds them: they stand under no condition, so the
// last product is behind the loop, and before the barrier that the products wait for.
Status GpuContractionBuilder::SumAhead(V lo, V hi) {
  const V step = writer_.Index(tile_.k), one = writer_.Index(1), zero = writer_.Index(0);
  const V row_size = writer_.Index(row_stage_->tile_elements());
  const V col_size = writer_.Index(col_stage_->tile_elements());
  const size_t row_loads = row_stage_->load_count();
  const auto load = [&](V tile) -> Result<std::vector<V>> {
    const V k = writer_.Mul(tile, step);
    HY_ASSIGN(std::vector<V> values, row_stage_->Load(k));
    HY_ASSIGN(const std::vector<V> more, col_stage_->Load(k));
    values.insert(values.end(), more.begin(), more.end());
    return values;
  };
  const auto store = [&](V stage, std::span<const V> values) {
    row_stage_->Store(writer_.Mul(stage, row_size), values.first(row_loads));
    col_stage_->Store(writer_.Mul(stage, col_size), values.subspan(row_loads));
  };
  const auto multiply = [&](V stage, std::vector<V>& sums) {
    Multiply(writer_.Mul(stage, row_size), writer_.Mul(stage, col_size), sums);
  };
  const bool is_always = HasTiles();
  if (!is_always) writer_.BeginIf(writer_.Compare(Opcode::kLt, lo, hi));
  HY_ASSIGN(std::vector<V> ahead, load(lo));
  store(zero, ahead);
  const V last = writer_.Sub(hi, one);
  const bool is_single = tile_.stages == 1;
  const auto stage_of = [&](V tile) {
    return is_single ? zero : writer_.FloorMod(writer_.Sub(tile, lo), writer_.Index(2), true);
  };
  const Writer::Loop loop = writer_.BeginFor(lo, last, one, sums_, /*runs_at_least_once=*/false);
  std::vector<V> sums = loop.carried;
  HY_ASSIGN(ahead, load(writer_.Add(loop.variable, one)));
  writer_.Barrier();
  const V stage = stage_of(loop.variable);
  multiply(stage, sums);
  if (is_single) writer_.Barrier();
  store(is_single ? zero : writer_.Sub(one, stage), ahead);
  sums = writer_.EndFor(sums);
  writer_.Barrier();
  multiply(stage_of(last), sums);
  if (!is_always) {
    writer_.BeginElse(sums);
    sums = writer_.EndIf(sums_);
  }
  sums_ = std::move(sums);
  return OkStatus();
}

// Starts the copies of a tile of k into a stage, unless it lies at or beyond `hi`.
Status GpuContractionBuilder::CopyTile(V tile, V stage, V hi) {
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
Status GpuContractionBuilder::SumCopied(V lo, V hi) {
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
Status GpuContractionBuilder::SumAsync(V lo, V hi) {
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
void GpuContractionBuilder::StartProducts(V row_base, V col_base, std::vector<V>& sums) {
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

void GpuContractionBuilder::Multiply(V row_base, V col_base, std::vector<V>& sums) {
  if (IsMatrix()) return MultiplyFragments(row_base, col_base, sums);
  MultiplyTile(writer_, items_, writer_.Add(row_base, item_row_), writer_.Add(col_base, item_col_),
               sums);
}

// The fragments of the rows, then those of the columns, at `step` of the tile's depth.
std::vector<V> GpuContractionBuilder::LoadFragments(V row_base, V col_base, int64_t step) {
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

void GpuContractionBuilder::MultiplyStep(std::span<const V> fragments, std::vector<V>& sums) {
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

void GpuContractionBuilder::MultiplyFragments(V row_base, V col_base, std::vector<V>& sums) {
  std::vector<V> now = LoadFragments(row_base, col_base, 0);
  for (int64_t step = 0; step < tile_.k; step += shape_.k) {
    std::vector<V> next;
    if (step + shape_.k < tile_.k) next = LoadFragments(row_base, col_base, step + shape_.k);
    MultiplyStep(now, sums);
    now = std::move(next);
  }
}

Result<ScheduledKernel> GpuContractionBuilder::Build() {
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
  if (WorkgroupMemoryBytes(scheduled.kernels[0], target_) > target_.gpu.workgroup_memory_bytes) {
    return Bad("too much workgroup memory");
  }
  if (tile_.split > 1 && !record_.joins) {
    HY_TRY(AddSumOfParts(function_, kernel_, problem_, record_, tile_.split, target_, scheduled));
  }
  return scheduled;
}

Result<ScheduledKernel> BuildGpuContraction(const loop::Function& function, uint32_t kernel,
                                            const ScheduleRecord& record, const Target& target) {
  if (record.kind == ScheduleKind::kGpuVector) return BuildGemv(function, kernel, record, target);
  std::string why;
  std::optional<Problem> problem = ReadContraction(function, function.kernels[kernel], &why);
  if (!problem) {
    return InvalidArgument("Schedule '{}' needs a contraction; kernel '{}' is none: {}.",
                           FormatSchedule(record), function.kernels[kernel].name, why);
  }
  GpuContractionBuilder builder(function, function.kernels[kernel], record, target,
                                std::move(*problem));
  HY_ASSIGN(ScheduledKernel built, builder.Build());
  // A unit has room for several workgroups of tiles without matrix units, which are few; those that
  // wait are placed where there is room, several on units that were done first and none on others.
  for (Dispatch& dispatch : built.dispatches) {
    dispatch.begins_early = record.kind != ScheduleKind::kGpuTile;
  }
  return built;
}

}  // namespace halyard::schedule
