// SPDX-License-Identifier: Apache-2.0
// Which tiles to try, and in which order. The model counts the time of one unit at the rate of its
// arithmetic, less what reading operands from workgroup memory costs, times the tiles that each
// unit gets; memory traffic of tiles and of the parts of a split k come on top.
#include <algorithm>

#include "base/gpu_kernel_abi.h"
#include "compiler/schedule/gpu/contraction.h"
#include "compiler/schedule/gpu/contraction_stage.h"
#include "compiler/schedule/gpu/gemv.h"

namespace halyard::schedule {
namespace {

constexpr int64_t kUnknownUnits = 16;
constexpr int64_t kMostParts = 16;
constexpr int64_t kSplitDepth = 1024;  // a shorter part of k is not worth its traffic
constexpr int64_t kRaster = 8;
constexpr size_t kMostCandidates = 4;  // more cost more compile time than they win
constexpr size_t kStreamCandidates = 2;
constexpr int64_t kManyForStreams = 4;  // places of the short side from which matrix units win

int64_t FewOf(const ExprArena& exprs, const Problem& problem) {
  return std::min(exprs.HintOf(problem.m.extent), exprs.HintOf(problem.n.extent));
}

struct TileShape {
  int32_t m, n, k, item_m, item_n;
};
constexpr TileShape kItemTiles[] = {
    {128, 128, 8, 8, 8}, {128, 64, 8, 8, 8}, {64, 128, 8, 8, 8},
    {64, 64, 16, 8, 4},  {32, 64, 16, 4, 4}, {64, 32, 16, 4, 4},
    {32, 32, 16, 4, 4},  {16, 64, 16, 2, 4}, {16, 16, 16, 2, 2},
};
constexpr TileShape kMatrixTiles[] = {
    {128, 128, 32, 64, 64}, {128, 256, 64, 64, 64}, {256, 128, 64, 64, 64}, {128, 256, 32, 64, 64},
    {128, 128, 32, 64, 32}, {128, 64, 64, 64, 32},  {64, 128, 64, 32, 64},  {64, 64, 64, 32, 32},
    {64, 64, 32, 32, 32},   {32, 128, 64, 32, 32},  {32, 64, 64, 16, 32},   {16, 128, 64, 16, 32},
    {16, 64, 64, 16, 16},
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
  }

  std::vector<std::pair<ScheduleRecord, double>> Rank() {
    if ((swap_ ? problem_.m : problem_.n).digits.empty()) return {};
    if (BitWidth(problem_.dtype) == 0) return {};
    // Subgroups of a device that is really a processor: small tiles stay in its registers.
    const bool is_small = target_.gpu.unit_count == 0 && target_.gpu.subgroup_size < 32;
    if (const auto shape = MatrixShapeFor(kernel_, problem_, target_)) AddMatrix(*shape);
    for (const TileShape& tile : kItemTiles) {
      if (is_small && tile.m * tile.n > 64 * 64) continue;
      AddItems(tile);
    }
    std::stable_sort(ranked_.begin(), ranked_.end(),
                     [](const auto& x, const auto& y) { return x.second < y.second; });
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
    const double item = tile.item_m * tile.item_n, edge = tile.item_m + tile.item_n;
    // 128 multiply-adds a cycle and unit; doubles and integers are ranked the same.
    Add(ScheduleKind::kGpuTile, tile, /*stages=*/2, /*is_async=*/false,
        128 * item / (item + 2 * edge));
  }

  void AddMatrix(const MatrixShape& shape) {
    const bool is_async =
        (target_.gpu.features & static_cast<uint64_t>(GpuFeature::kAsyncCopy)) != 0 &&
        CanCopy(problem_.a, problem_.m) && CanCopy(problem_.b, problem_.n);
    const double rate = target_.kind == TargetKind::kCuda && target_.gpu.compute_capability < 80
                            ? 512
                            : 1024;  // multiply-adds of 16-bit numbers a cycle and unit
    for (const TileShape& base : kMatrixTiles) {
      TileShape tile = base;
      if (tile.k % shape.k != 0) tile.k = shape.k;
      if (IsTooLarge(tile.m, rows_, 16) || IsTooLarge(tile.n, cols_, 64)) continue;
      const double item = tile.item_m * tile.item_n, edge = tile.item_m + tile.item_n;
      // A barrier per tile of k costs less where the tile is deep.
      const double speed = rate * item / (item + 8 * edge) * (tile.k >= 64 ? 1.2 : 1);
      const int64_t row_bytes = (tile.k + 8) * 2;  // what a stage takes, padding along k
      const int64_t stage = (tile.m + tile.n) * row_bytes;
      const int64_t slice = int64_t{tile.m / tile.item_m} * 16 * (tile.n + 4) * 4;
      const int64_t room = (target_.gpu.workgroup_memory_bytes - slice) / stage;
      if (is_async) {
        // Few rows are bound by memory: more of it on the way.
        const int64_t most = tile.m <= 32 ? 8 : 4;
        const auto stages = static_cast<int32_t>(std::min(most, room));
        if (stages >= 2) Add(ScheduleKind::kGpuMatrix, tile, stages, true, speed);
      } else {
        if (room >= 2) Add(ScheduleKind::kGpuMatrix, tile, 2, false, speed * 0.9);
        if (room == 1) Add(ScheduleKind::kGpuMatrix, tile, 1, false, speed * 0.8);
      }
    }
  }

  bool CanCopy(const Factor& factor, const Side& side) const {
    const std::optional<loop::ValueId> value = NarrowValue(kernel_, factor);
    return value && ContractionStage::CanCopy(function_, kernel_, factor, *value,
                                              AccessOf(function_, kernel_, problem_, factor, side));
  }

  void Add(ScheduleKind kind, const TileShape& tile, int32_t stages, bool is_async, double rate) {
    const int64_t row_tiles = (rows_ + tile.m - 1) / tile.m;
    const int64_t col_tiles = (cols_ + tile.n - 1) / tile.n;
    const int64_t tiles = row_tiles * col_tiles * batches_;
    const bool is_known = exprs_.AsConst(problem_.k.extent).has_value();
    int64_t parts = 1;
    if (is_known && tiles * 2 <= units_ && k_ >= 2 * kSplitDepth) {
      parts = std::min({units_ / tiles, k_ / kSplitDepth, kMostParts});
    }
    ScheduleRecord record;
    record.kind = kind;
    record.swap = swap_;
    record.async = is_async;
    GpuTile& gpu = record.tile;
    gpu.m = tile.m, gpu.n = tile.n, gpu.k = tile.k;
    gpu.item_m = tile.item_m, gpu.item_n = tile.item_n;
    gpu.stages = stages;
    gpu.raster = row_tiles * col_tiles > units_ && row_tiles > 1 ? kRaster : 1;
    const auto add = [&](int64_t split) {
      gpu.split = static_cast<int32_t>(split);
      // A unit needs two workgroups, or eight subgroups, to be busy.
      const int64_t groups = int64_t{tile.m / tile.item_m} * (tile.n / tile.item_n);
      const int64_t subgroups =
          kind == ScheduleKind::kGpuMatrix ? groups : std::max<int64_t>(1, groups / 32);
      const int64_t each = std::max<int64_t>(1, 8 / subgroups);
      const int64_t rounds = (tiles * split + units_ - 1) / units_;
      const double busy = static_cast<double>(std::min(rounds, each)) / static_cast<double>(each);
      const double depth = static_cast<double>(k_) / static_cast<double>(split);
      const double cycles = static_cast<double>(rounds) * static_cast<double>(tile.m) * tile.n *
                            depth / (rate * (0.4 + 0.6 * busy));
      // Operands come from the second-level cache at 40 bytes a cycle and unit.
      const double bytes = static_cast<double>(rounds) * (tile.m + tile.n) * depth *
                           (kind == ScheduleKind::kGpuMatrix ? 2 : 4);
      double ns = std::max(cycles, bytes / 40) / 1.7 + 2000;
      if (split > 1) {
        ns += 3000 + static_cast<double>(rows_ * cols_ * batches_ * split) * 8 / 3000;
      }
      ranked_.emplace_back(record, ns);
    };
    add(1);
    if (parts > 1) add(parts);
  }

  const loop::Function& function_;
  const loop::Kernel& kernel_;
  ExprArena& exprs_;
  const Problem& problem_;
  const Target& target_;
  bool swap_ = false;
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
                           tiles[0].first.kind == ScheduleKind::kGpuMatrix &&
                           FewOf(*function.exprs, *problem) >= kManyForStreams;
  ranked.insert(tiles_first ? ranked.begin() : ranked.end(), tiles.begin(), tiles.end());
  for (const auto& [record, cost] : ranked) {
    if (records.size() == kMostCandidates) break;
    if (BuildGpuContraction(function, kernel, record, target).ok()) records.push_back(record);
  }
  return records;
}

}  // namespace halyard::schedule
