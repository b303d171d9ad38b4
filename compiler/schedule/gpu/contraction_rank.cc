// SPDX-License-Identifier: Apache-2.0
// Which tiles to try, and in which order (contraction_cost.h).
#include <algorithm>
#include <set>

#include "base/gpu_kernel_abi.h"
#include "compiler/schedule/gpu/contraction.h"
#include "compiler/schedule/gpu/contraction_cost.h"
#include "compiler/schedule/gpu/contraction_stage.h"
#include "compiler/schedule/gpu/gemv.h"
#include "compiler/schedule/gpu/rounding.h"
#include "compiler/target/product_tiles.h"

namespace halyard::schedule {
namespace {

constexpr int64_t kMostParts = 16;
constexpr int64_t kDispatchDepth = 1024;  // a shorter part of k is not worth a second dispatch
constexpr int64_t kRaster = 8;
constexpr int64_t kMostWgmmaStages = 5;
constexpr int32_t kMostJoinedElements = 64 * 128;  // of a quad
constexpr size_t kMostCandidates = 8;
constexpr size_t kLeastOthers = 2;  // of them that are not kGpuWgmma
constexpr size_t kMostSplits = 3;   // of one tile that differ in nothing else
constexpr size_t kStreamCandidates = 2;
constexpr int64_t kManyForStreams = 4;  // places of the short side from which matrix units win

int64_t FewOf(const ExprArena& exprs, const Problem& problem) {
  return std::min(exprs.HintOf(problem.m.extent), exprs.HintOf(problem.n.extent));
}

using TileShape = product_tiles::Tile;
constexpr TileShape kMatrixTiles[] = {
    {128, 128, 32, 64, 64}, {128, 256, 64, 64, 64}, {256, 128, 64, 64, 64}, {128, 256, 32, 64, 64},
    {128, 128, 32, 64, 32}, {128, 128, 64, 64, 32}, {128, 64, 64, 64, 32},  {64, 128, 64, 32, 64},
    {128, 64, 64, 32, 32},  {64, 128, 64, 32, 32},  {64, 64, 64, 32, 32},   {64, 64, 32, 32, 32},
    {64, 64, 128, 32, 32},  {64, 64, 64, 32, 16},   {128, 32, 64, 32, 32},  {32, 128, 64, 32, 32},
    {64, 32, 64, 32, 16},   {32, 64, 64, 16, 32},   {64, 32, 128, 32, 16},  {32, 64, 128, 16, 32},
    {32, 32, 64, 16, 16},   {32, 32, 128, 16, 16},  {64, 16, 64, 16, 16},   {16, 64, 64, 16, 16},
    {16, 128, 64, 16, 32},  {16, 64, 128, 16, 16},  {16, 32, 128, 16, 16},
};
// Parts of a quad are at most 128 x 128. A wide one reads workgroup memory least.
constexpr TileShape kWgmmaTiles[] = {
    {128, 256, 64, 64, 256},  {256, 128, 64, 128, 128}, {192, 192, 64, 64, 192},
    {128, 192, 64, 64, 192},  {192, 128, 64, 64, 128},  {128, 128, 64, 64, 128},
    {128, 128, 64, 128, 128}, {64, 256, 64, 64, 128},   {128, 64, 64, 64, 64},
    {64, 128, 64, 64, 64},    {64, 64, 64, 64, 64},
};

class Ranker {
 public:
  Ranker(const loop::Function& function, const loop::Kernel& kernel, const Problem& problem,
         const Target& target)
      : function_(function),
        kernel_(kernel),
        exprs_(*function.exprs),
        problem_(problem),
        target_(target) {
    const auto is_one = [&](const std::optional<Expr>& e) { return e && exprs_.IsConst(*e, 1); };
    swap_ = problem.n.digits.empty() || exprs_.IsConst(problem.n.extent, 1) ||
            (!is_one(problem.out_stride_n) && is_one(problem.out_stride_m));
    if (problem.m.digits.empty()) swap_ = false;
    rows_ = Size(swap_ ? problem.n.extent : problem.m.extent);
    cols_ = Size(swap_ ? problem.m.extent : problem.n.extent);
    k_ = Size(problem.k.extent);
    batches_ = Size(problem.batch.extent);
    units_ = target.gpu.unit_count > 0 ? target.gpu.unit_count : kUnknownUnits;
    sizes_.rows = rows_, sizes_.cols = cols_, sizes_.k = k_, sizes_.batches = batches_;
    sizes_.sum_bytes = std::max(1, BitWidth(problem.dtype) / 8);
    std::set<loop::BufferId> buffers;
    for (const loop::Op& op : kernel.ops) {
      if (op.buffer == loop::kNone || !buffers.insert(op.buffer).second) continue;
      const loop::Buffer& buffer = function.buffers[op.buffer];
      sizes_.memory_bytes += Size(buffer.elements) * std::max(1, BitWidth(buffer.dtype) / 8);
    }
  }

  std::vector<std::pair<ScheduleRecord, double>> Rank() {
    if ((swap_ ? problem_.m : problem_.n).digits.empty()) return {};
    if (BitWidth(problem_.dtype) == 0) return {};
    // A device that is really a processor: small tiles stay in its registers, and a workitem with
    // few sums is little code (docs/vulkan.md, "Code on lavapipe").
    const bool is_small = target_.gpu.unit_count == 0 && target_.gpu.subgroup_size < 32;
    if (const auto shape = MatrixShapeFor(kernel_, problem_, target_)) {
      AddMatrix(*shape);
      if (target_.kind == TargetKind::kCuda && target_.gpu.compute_capability == 90) {
        AddWgmma(*shape);
      }
    }
    for (const TileShape& tile : product_tiles::kRegisterTiles) {
      if (is_small && (tile.m * tile.n > 64 * 64 || tile.item_m * tile.item_n > 4 * 4)) continue;
      AddItems(tile);
    }
    std::stable_sort(ranked_.begin(), ranked_.end(), IsBetter);
    return std::move(ranked_);
  }

 private:
  int64_t Size(Expr e) const { return std::max<int64_t>(1, exprs_.HintOf(e)); }

  // Larger than the problem by a factor of two along a side: another tile does the same with less.
  bool IsTooLarge(int64_t tile, int64_t size, int64_t least) const {
    return tile > least && tile >= 2 * size;
  }

  void AddItems(const TileShape& tile) {
    if (IsTooLarge(tile.m, rows_, 16) || IsTooLarge(tile.n, cols_, 16)) return;
    sizes_.operand_bytes = sizes_.sum_bytes;
    Add(ScheduleKind::kGpuTile, tile, /*stages=*/2, /*is_async=*/false);
  }

  void AddMatrix(const MatrixShape& shape) {
    const bool is_async =
        (target_.gpu.features & static_cast<uint64_t>(GpuFeature::kAsyncCopy)) != 0 &&
        CanCopy(problem_.a, problem_.m) && CanCopy(problem_.b, problem_.n);
    sizes_.operand_bytes = BitWidth(shape.input) / 8;
    for (const TileShape& base : kMatrixTiles) {
      TileShape tile = base;
      if (tile.k % shape.k != 0) tile.k = shape.k;
      if (IsTooLarge(tile.m, rows_, 16) || IsTooLarge(tile.n, cols_, 16)) continue;
      if (tile.k > 64 && tile.k > k_) continue;
      const int64_t row_bytes = (tile.k + 8) * 2;  // what a stage takes, padding along k
      const int64_t stage = (tile.m + tile.n) * row_bytes;
      const int64_t slice = int64_t{tile.m / tile.item_m} * 16 * (tile.n + 4) * 4;
      const int64_t room = (target_.gpu.workgroup_memory_bytes - slice) / stage;
      if (is_async) {
        // Small tiles are bound by memory: more of it on the way.
        const int64_t most = tile.m * tile.n <= 64 * 64 ? 6 : 4;
        const auto stages = static_cast<int32_t>(std::min(most, room));
        if (stages >= 2) Add(ScheduleKind::kGpuMatrix, tile, stages, true);
      } else {
        if (room >= 2) Add(ScheduleKind::kGpuMatrix, tile, 2, false);
        if (room == 1) Add(ScheduleKind::kGpuMatrix, tile, 1, false);
      }
    }
  }

  void AddWgmma(const MatrixShape& shape) {
    if (BitWidth(shape.input) != 16 || shape.accumulator != DType::kF32 ||
        !CanCopy(problem_.a, problem_.m) || !CanCopy(problem_.b, problem_.n)) {
      return;
    }
    sizes_.operand_bytes = BitWidth(shape.input) / 8;
    for (const TileShape& tile : kWgmmaTiles) {
      if (IsTooLarge(tile.m, rows_, 64) || IsTooLarge(tile.n, cols_, 64)) continue;
      const int64_t stage = int64_t{tile.m + tile.n} * tile.k * 2;
      const auto slice_of = [&](int64_t columns) {
        return int64_t{tile.m / tile.item_m} * 64 * (tile.n / tile.item_n * columns + 8) * 4;
      };
      const int64_t all = target_.gpu.workgroup_memory_bytes;
      // Two workgroups where they fit: one multiplies while the other stores. Where one has the
      // unit to itself, a fifth stage is worth less than wide slices of C (PlanQuadSlice).
      int64_t stages = (all / 2 - kWorkgroupOverheadBytes - slice_of(32)) / stage;
      if (stages < 3) {
        stages = (all - slice_of(64)) / stage;
        if (stages < 4) stages = (all - slice_of(32)) / stage;
      }
      if (stages < 3) continue;
      Add(ScheduleKind::kGpuWgmma, tile,
          static_cast<int32_t>(std::min<int64_t>(stages, kMostWgmmaStages)), true);
    }
  }

  bool CanCopy(const Factor& factor, const Side& side) const {
    const std::optional<loop::ValueId> value = NarrowValue(kernel_, factor);
    return value && ContractionStage::CanCopy(function_, kernel_, factor, *value,
                                              AccessOf(function_, kernel_, problem_, factor, side));
  }

  void Add(ScheduleKind kind, const TileShape& tile, int32_t stages, bool is_async) {
    const int64_t row_tiles = CeilDiv(rows_, tile.m);
    const int64_t col_tiles = CeilDiv(cols_, tile.n);
    const int64_t tiles = row_tiles * col_tiles * batches_;
    ScheduleRecord record;
    record.kind = kind;
    record.swap = swap_;
    record.async = is_async;
    GpuTile& gpu = record.tile;
    gpu.m = tile.m, gpu.n = tile.n, gpu.k = tile.k;
    gpu.item_m = tile.item_m, gpu.item_n = tile.item_n;
    gpu.raster = row_tiles * col_tiles > units_ && row_tiles > 1 ? kRaster : 1;
    const auto add = [&](int64_t split, bool joins) {
      gpu.split = static_cast<int32_t>(split);
      // No more tiles of k on their way than a part has.
      const int64_t steps = CeilDiv(CeilDiv(k_, tile.k), split);
      const int64_t fewest = kind == ScheduleKind::kGpuWgmma ? 3 : 2;
      gpu.stages =
          is_async ? static_cast<int32_t>(std::clamp<int64_t>(steps, fewest, stages)) : stages;
      record.joins = joins;
      ranked_.emplace_back(record, CostOfTiles(sizes_, record, target_));
    };
    add(1, false);
    if (!exprs_.AsConst(problem_.k.extent)) return;
    // Parts that are added while they are as many registers as a workitem of a large quad has
    // spill.
    const bool is_large =
        kind == ScheduleKind::kGpuWgmma && tile.item_m * tile.item_n > kMostJoinedElements;
    if (kind != ScheduleKind::kGpuTile && !is_large) {
      const size_t first = ranked_.size();
      for (const int64_t parts : product_tiles::kParts) {
        if (tiles * parts > 2 * units_ || k_ < parts * product_tiles::kLeastDepth) break;
        add(parts, true);
      }
      KeepBest(first, kMostSplits);
    }
    if (kind == ScheduleKind::kGpuTile) {
      const size_t first = ranked_.size();
      for (const int64_t parts : product_tiles::kParts) {
        if (tiles * parts > product_tiles::kTogether * units_ ||
            k_ < parts * product_tiles::kLeastDepth)
          break;
        add(parts, false);
      }
      KeepBest(first, kMostSplits);
    } else if (tiles * 2 <= units_ && k_ >= 2 * kDispatchDepth) {
      add(std::min({units_ / tiles, k_ / kDispatchDepth, kMostParts}), false);
    }
  }

  using Ranked = std::pair<ScheduleRecord, double>;
  static bool IsBetter(const Ranked& x, const Ranked& y) { return x.second < y.second; }

  // Of the schedules from `first` on.
  void KeepBest(size_t first, size_t count) {
    std::stable_sort(ranked_.begin() + static_cast<long>(first), ranked_.end(), IsBetter);
    ranked_.resize(std::min(ranked_.size(), first + count));
  }

  const loop::Function& function_;
  const loop::Kernel& kernel_;
  ExprArena& exprs_;
  const Problem& problem_;
  const Target& target_;
  bool swap_ = false;
  ContractionSizes sizes_;
  int64_t rows_ = 1, cols_ = 1, k_ = 1, batches_ = 1, units_ = 1;
  std::vector<std::pair<ScheduleRecord, double>> ranked_;
};

}  // namespace

std::vector<std::pair<ScheduleRecord, double>> RankGpuContraction(const loop::Function& function,
                                                                  const loop::Kernel& kernel,
                                                                  const Problem& problem,
                                                                  const Target& target) {
  return Ranker(function, kernel, problem, target).Rank();
}

std::vector<ScheduleRecord> EnumerateGpuContraction(const loop::Function& function, uint32_t kernel,
                                                    const Target& target) {
  std::vector<ScheduleRecord> records;
  const loop::Kernel& source = function.kernels[kernel];
  const std::optional<Problem> problem = ReadContraction(function, source, nullptr);
  if (!problem) return records;
  auto ranked = RankGemv(function, source, *problem, target);
  const auto tiles = RankGpuContraction(function, source, *problem, target);
  // Of streaming forms the best two.
  if (ranked.size() > kStreamCandidates) ranked.resize(kStreamCandidates);
  const bool tiles_first = !tiles.empty() && !ranked.empty() &&
                           tiles[0].first.kind != ScheduleKind::kGpuTile &&
                           FewOf(*function.exprs, *problem) >= kManyForStreams;
  ranked.insert(tiles_first ? ranked.begin() : ranked.end(), tiles.begin(), tiles.end());
  size_t wgmma_count = 0;
  for (const auto& [record, cost] : ranked) {
    if (records.size() == kMostCandidates) break;
    const bool is_wgmma = record.kind == ScheduleKind::kGpuWgmma;
    if (is_wgmma && wgmma_count == kMostCandidates - kLeastOthers) continue;
    wgmma_count += is_wgmma ? 1 : 0;
    if (BuildGpuContraction(function, kernel, record, target).ok()) records.push_back(record);
  }
  return records;
}

}  // namespace halyard::schedule
