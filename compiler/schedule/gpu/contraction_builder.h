// SPDX-License-Identifier: Apache-2.0
// GpuContractionBuilder: makes the kernel of one schedule of a contraction; of contraction_build.cc
// (its place and its products) and contraction_store.cc (its epilogue) alone.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/gpu_kernel_abi.h"
#include "compiler/kernel/opcode.h"
#include "compiler/schedule/common/contraction_problem.h"
#include "compiler/schedule/common/emitter.h"
#include "compiler/schedule/common/pieces.h"
#include "compiler/schedule/common/writer.h"
#include "compiler/schedule/gpu/contraction_stage.h"
#include "compiler/schedule/gpu/contraction_sum.h"
#include "compiler/schedule/gpu/grid.h"
#include "compiler/schedule/gpu/register_tile.h"

namespace halyard::schedule {

class GpuContractionBuilder {
 public:
  GpuContractionBuilder(const loop::Function& function, const loop::Kernel& kernel,
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
  using V = kernel::ValueId;

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
    kernel::BufferId buffer = kernel::kNone;
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
  // Rounds in which the workitems store a slice, a vector each; how many of them are written out,
  // in a loop where that is not all.
  int64_t PassesOf(const Slice& slice) const;
  int64_t PassesAtOnce(const Slice& slice) const;
  // The place in C of a vector: (row + row_shift, col + col_shift).
  struct Spot {
    V row = kernel::kNone, col = kernel::kNone;
    int64_t row_shift = 0, col_shift = 0;
    V in_slice = kernel::kNone;  // where its sum lies in the slice
    V is_there = kernel::kNone;  // kNone: known to be
    V mask = kernel::kNone;      // of lanes; kNone: all
  };
  // Of vector number + pass * workitems of the slice that begins at (row_shift, col_shift).
  Spot SpotOf(const Slice& slice, V number, int64_t pass, int64_t row_shift, int64_t col_shift);
  Spot SpotAt(V row, V col, int64_t row_shift, int64_t col_shift);
  void BeginSpot(const Spot& spot);
  // One vector of C goes through the epilogue or into the workspace.
  Status StoreVector(const Spot& spot, V sum, std::span<const V> ahead = {});

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
  V row_first_ = kernel::kNone, col_first_ = kernel::kNone, batch_ = kernel::kNone,
    part_ = kernel::kNone;
  V subgroup_ = kernel::kNone;
  V item_row_ = kernel::kNone,
    item_col_ = kernel::kNone;  // of this workitem, subgroup or quad, in the tile
  std::unique_ptr<ContractionStage> row_stage_, col_stage_;
  std::vector<V> sums_;
  Slice quad_slice_;                    // kGpuWgmma
  std::deque<std::vector<V>> ahead_;    // LoadAhead of the slices to come
  int64_t next_ahead_ = 0;              // the slice after them
  std::vector<loop::OpId> wide_loads_;  // of the epilogue, as large as C
  Expr row_symbol_, col_symbol_;
  kernel::BufferId partial_ = kernel::kNone;
};

}  // namespace halyard::schedule
