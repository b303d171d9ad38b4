// SPDX-License-Identifier: Apache-2.0
// How the sums of a tile of C reach memory: register tiles at once, matrix fragments through
// workgroup memory, a slice at a time; operands of the epilogue that are as large as C are loaded
// ahead.
#include <algorithm>
#include <numeric>

#include "compiler/schedule/gpu/contraction_builder.h"
#include "compiler/target/product_tiles.h"

namespace halyard::schedule {

using kernel::FragmentLayout;
using kernel::FragmentUse;
using kernel::kNone;
using kernel::Opcode;
using kernel::Type;
using V = kernel::ValueId;

namespace {

// An epilogue heavier than this is written out for kUnrolledPasses elements, not vectors, where
// sums come from workgroup memory.
constexpr double kUnrolledEpilogueWeight = 8;
// Nor more than so many of them: more are a loop of so many at a time, because each loads its sums
// from workgroup memory and neither loads nor stores of one wait for those of another.
constexpr int64_t kUnrolledPasses = 8;
constexpr int64_t kMostBytesAhead = 192;  // of a workitem's operands of the epilogue
constexpr int64_t kOtherRegisters = 40;   // of a workitem beside its sums and these

}  // namespace

GpuContractionBuilder::Spot GpuContractionBuilder::SpotAt(V row, V col, int64_t row_shift,
                                                          int64_t col_shift) {
  Spot spot;
  spot.row = row, spot.col = col;
  spot.row_shift = row_shift, spot.col_shift = col_shift;
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
void GpuContractionBuilder::BeginSpot(const Spot& spot) {
  emitter_.Bind(row_symbol_, spot.row);
  emitter_.Shift(rows_.flat, row_symbol_, spot.row_shift);
  emitter_.Shift(cols_.flat, col_symbol_, spot.col_shift);
  emitter_.BeginVector(col_symbol_, spot.col, col_lanes_, spot.mask);
}

Status GpuContractionBuilder::StoreVector(const Spot& spot, V sum, std::span<const V> ahead) {
  if (spot.is_there != kNone) writer_.BeginIf(spot.is_there);
  if (partial_ != kNone) {
    const V row_at = writer_.Add(spot.row, writer_.Index(spot.row_shift));
    const V col_at = writer_.Add(spot.col, writer_.Index(spot.col_shift));
    const V at =
        PartialIndex(exprs_, emitter_, writer_, problem_, record_.swap, part_, row_at, col_at);
    const bool is_aligned = exprs_.KnownMultipleOf(cols_.extent, col_lanes_);
    writer_.Store(partial_, at, sum, spot.mask, is_aligned ? col_lanes_ : 1);
  } else {
    BeginSpot(spot);
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

Status GpuContractionBuilder::StoreItems() {
  const V row = writer_.Add(row_first_, item_row_), col = writer_.Add(col_first_, item_col_);
  for (int64_t g = 0; g < items_.row_groups; ++g) {
    for (int64_t i = 0; i < items_.row_lanes; ++i) {
      for (int64_t c = 0; c < items_.col_groups; ++c) {
        const int64_t row_shift = g * (tile_.m / items_.row_groups) + i;
        const int64_t col_shift = c * (tile_.n / items_.col_groups);
        HY_TRY(StoreVector(SpotAt(row, col, row_shift, col_shift), sums_[items_.SumAt(g, i, c)]));
      }
    }
  }
  return OkStatus();
}

// One row of fragments of every subgroup at a time: through workgroup memory into vectors of
// neighbouring columns.
Status GpuContractionBuilder::StoreFragments() {
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
Status GpuContractionBuilder::PlanQuadSlice() {
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
Status GpuContractionBuilder::StoreQuads() {
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
  V elements = kNone;  // of the sum that the slice is of
  for (int64_t number = 0; number < std::ssize(sums_) * parts; ++number) {
    const auto [row_shift, col_shift] = PlaceOfQuadSlice(number);
    if (number % parts == 0) {
      const V sum = sums_[static_cast<size_t>(number / parts)];
      const int all = kernel::ElementsPerWorkitem(writer_.TypeOf(sum));
      elements = writer_.Value(Opcode::kFragmentElements,
                               Type{problem_.dtype, static_cast<uint16_t>(all)}, {sum});
    }
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

Status GpuContractionBuilder::LoadQuadsAhead() {
  const int64_t count = tile_.item_m / kernel::kRowsOfQuad * (tile_.item_n / quad_slice_.col_group);
  const auto bytes_of = [&](const std::vector<V>& loaded) {
    int64_t bytes = 0;
    for (const V value : loaded) {
      const Type type = writer_.TypeOf(value);
      bytes += int64_t{type.lanes} * BitWidth(type.dtype) / 8;
    }
    return bytes;
  };
  const int64_t registers = std::min<int64_t>(255, product_tiles::kRegistersOfUnit / workitems_) -
                            tile_.item_m * tile_.item_n / 128 - kOtherRegisters;
  const int64_t most = std::min(kMostBytesAhead, 4 * registers);
  while (next_ahead_ < count) {
    // Slices are alike.
    if (!ahead_.empty() && bytes_of(ahead_.front()) * (std::ssize(ahead_) + 1) > most) break;
    const auto [row_shift, col_shift] = PlaceOfQuadSlice(next_ahead_);
    HY_ASSIGN(std::vector<V> loaded, LoadAhead(quad_slice_, row_shift, col_shift));
    if (loaded.empty()) break;
    ahead_.push_back(std::move(loaded));
    ++next_ahead_;
  }
  return OkStatus();
}

int64_t GpuContractionBuilder::PassesOf(const Slice& slice) const {
  const int64_t total = slice.height * slice.width / col_lanes_;
  return (total + workitems_ - 1) / workitems_;
}

int64_t GpuContractionBuilder::PassesAtOnce(const Slice& slice) const {
  const int64_t passes = PassesOf(slice);
  const bool is_heavy = problem_.epilogue_weight > kUnrolledEpilogueWeight;
  return std::gcd(passes,
                  is_heavy ? std::max<int64_t>(1, kUnrolledPasses / col_lanes_) : kUnrolledPasses);
}

// The parts of a pass and of a place add up without a carry: all sizes are powers of two, or rows
// of the slice are rows of the tile (CheckWgmma).
GpuContractionBuilder::Spot GpuContractionBuilder::SpotOf(const Slice& slice, V number,
                                                          int64_t pass, int64_t row_shift,
                                                          int64_t col_shift) {
  const int64_t vectors = slice.width / col_lanes_;
  const int64_t more_rows = pass * workitems_ / vectors;
  const int64_t more_cols = pass * workitems_ % vectors * col_lanes_;
  // A place in the slice as one in the tile.
  const auto in_tile = [&](V place, int64_t group, int64_t apart) {
    const V first =
        writer_.Mul(writer_.FloorDiv(place, writer_.Index(group), true), writer_.Index(apart));
    return writer_.Add(first, writer_.FloorMod(place, writer_.Index(group), true));
  };
  const auto shift_in_tile = [](int64_t place, int64_t group, int64_t apart) {
    return place / group * apart + place % group;
  };
  const V row = writer_.FloorDiv(number, writer_.Index(vectors), true);
  const V col = writer_.Mul(writer_.FloorMod(number, writer_.Index(vectors), true),
                            writer_.Index(col_lanes_));
  const bool is_whole = slice.col_group == slice.width;
  const V tile_row = in_tile(row, slice.row_group, tile_.item_m);
  const V tile_col = is_whole ? col : in_tile(col, slice.col_group, tile_.item_n);
  row_shift += shift_in_tile(more_rows, slice.row_group, tile_.item_m);
  col_shift += is_whole ? more_cols : shift_in_tile(more_cols, slice.col_group, tile_.item_n);
  Spot spot = SpotAt(writer_.Add(row_first_, tile_row), writer_.Add(col_first_, tile_col),
                     row_shift, col_shift);
  const V first = writer_.Add(writer_.Mul(row, writer_.Index(slice.stride)), col);
  spot.in_slice = writer_.Add(first, writer_.Index(more_rows * slice.stride + more_cols));
  return spot;
}

Result<std::vector<V>> GpuContractionBuilder::LoadAhead(const Slice& slice, int64_t row_shift,
                                                        int64_t col_shift) {
  std::vector<V> all;
  const int64_t total = slice.height * slice.width / col_lanes_;
  if (wide_loads_.empty() || PassesAtOnce(slice) < PassesOf(slice) || total % workitems_ != 0) {
    return all;
  }
  for (int64_t p = 0; p < total / workitems_; ++p) {
    const Spot spot = SpotOf(slice, writer_.WorkitemId(0), p, row_shift, col_shift);
    if (spot.is_there != kNone) writer_.BeginIf(spot.is_there);
    BeginSpot(spot);
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

Status GpuContractionBuilder::StoreSlice(const Slice& slice, int64_t row_shift, int64_t col_shift,
                                         std::span<const V> ahead) {
  const int64_t total = slice.height * slice.width / col_lanes_;
  const int64_t passes = PassesOf(slice), at_once = PassesAtOnce(slice);
  const V id = writer_.WorkitemId(0);
  const bool is_part = total % workitems_ != 0;  // of the workitems: then it is one pass
  if (is_part) writer_.BeginIf(writer_.Compare(Opcode::kLt, id, writer_.Index(total)));
  const auto some_passes = [&](V number) -> Status {
    std::vector<Spot> spots;
    std::vector<V> sums;
    for (int64_t p = 0; p < at_once; ++p) {
      spots.push_back(SpotOf(slice, number, p, row_shift, col_shift));
      sums.push_back(
          writer_.Load(slice.buffer, spots.back().in_slice, col_lanes_, false,
                       std::min<int64_t>(col_lanes_, 16 * 8 / BitWidth(problem_.dtype))));
    }
    const size_t each = ahead.size() / static_cast<size_t>(at_once);
    for (size_t p = 0; p < spots.size(); ++p) {
      HY_TRY(StoreVector(spots[p], sums[p], ahead.subspan(p * each, each)));
    }
    return OkStatus();
  };
  if (at_once == passes) {
    HY_TRY(some_passes(id));
  } else {
    const Writer::Loop loop = writer_.BeginFor(writer_.Index(0), writer_.Index(passes / at_once),
                                               writer_.Index(1), {}, true);
    const V turn = writer_.Mul(loop.variable, writer_.Index(at_once * workitems_));
    HY_TRY(some_passes(writer_.Add(turn, id)));
    writer_.EndFor({});
  }
  if (is_part) writer_.EndIf({});
  return OkStatus();
}

// The workgroups of a tile leave their parts in memory; the last one adds them and stores the tile.
Status GpuContractionBuilder::StoreJoined(const Dispatch& dispatch, ScheduledKernel& scheduled) {
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

}  // namespace halyard::schedule
