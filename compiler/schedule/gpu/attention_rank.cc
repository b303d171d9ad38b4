// SPDX-License-Identifier: Apache-2.0
// Which schedules of attention on matrix units are worth trying, best first.
#include <algorithm>
#include <cmath>
#include <utility>

#include "compiler/schedule/gpu/attention_fragments.h"
#include "compiler/schedule/gpu/attention_rows.h"
#include "compiler/schedule/gpu/rounding.h"

namespace halyard::schedule {

namespace {

constexpr int64_t kSide = 16;  // of a fragment
constexpr int64_t kSubgroup = 32;

struct Sizes {
  int64_t batch, rows, keys, depth, width, units;
  bool is_causal;
};

// Blocks of keys that workgroups walk over: the one with most, and all of them together.
struct Steps {
  int64_t most = 0, all = 0;
};

Steps StepsOf(const GpuTile& tile, const Sizes& s, int64_t blocks) {
  const int64_t steps = CeilDiv(s.keys, tile.n);
  if (!s.is_causal) return {steps, steps * blocks};
  Steps sum{steps, 0};
  for (int64_t block = 1; block <= blocks; ++block) {
    const int64_t end = std::clamp<int64_t>(block * tile.m + s.keys - s.rows, 1, s.keys);
    sum.all += CeilDiv(end, tile.n);
  }
  return sum;
}

// Cycles of a unit that a record takes for hinted sizes. The constants are fitted to 90 times on an
// H200 (docs/performance.md).
double CyclesOf(const GpuTile& tile, const Sizes& s) {
  constexpr double kMultiplies = 473, kWorkgroupBytes = 128, kScores = 30,
                   kUnitBytes = 40;                          // a cycle
  constexpr double kMemoryBytes = 2121, kCacheBytes = 40e6;  // of the device
  constexpr double kChain = 2400, kStart = 1950, kShare = 1000, kJoin = 6000;
  constexpr double kRegisters = 65536, kRoom = 220e3, kLeastOnTheWay = 8192;
  const auto units = static_cast<double>(s.units), split = static_cast<double>(tile.split);
  const int64_t shares = tile.n / tile.item_n;
  const double subgroups = static_cast<double>(tile.m / tile.item_m * shares);
  const int64_t blocks = CeilDiv(s.rows, tile.m);
  const double workgroups = static_cast<double>(s.batch * blocks) * split;
  const Steps steps = StepsOf(tile, s, blocks);
  const double mean = static_cast<double>(steps.all) / static_cast<double>(blocks);
  const double area = static_cast<double>(tile.item_m) * tile.item_n;
  const double wide = static_cast<double>(s.depth + s.width);
  const double block_bytes = tile.n * wide * 2;
  const double work = std::max(
      {subgroups * area * wide / kMultiplies, subgroups * tile.item_n * wide * 2 / kWorkgroupBytes,
       subgroups * (area / kScores + area * wide / 8192), block_bytes / kUnitBytes});
  const double memory = static_cast<double>(
      ((tile.m + tile.stages * tile.n) * s.depth + tile.stages * tile.n * s.width) * 2 +
      shares * tile.m * 160);
  const double registers = 40 + tile.item_m * static_cast<double>(2 * s.width + s.depth) / 64 +
                           area / 32 + tile.item_n / 2.0;
  const double most = std::floor(
      std::min(kRegisters / (std::min(255.0, registers) * subgroups * kSubgroup), kRoom / memory));
  const double together = std::clamp(workgroups / units, 1.0, std::max(1.0, most));
  // What waits and what works hide each other in part.
  const double chain = kChain + area * wide / 512;
  double step = std::max(work * together, chain) + std::min(work * together, chain) / 4;
  if (tile.stages == 1) step *= 1.15;  // nothing is on its way
  const double waves = workgroups / (units * together), whole = std::ceil(waves);
  const double in_turn =
      std::max((s.is_causal ? waves : whole) * mean, static_cast<double>(steps.most)) / split;
  const double bytes = static_cast<double>(s.batch * s.keys) * wide * 2;
  const double on_the_way = together * block_bytes * std::max(1, tile.stages - 1);
  const double floor =
      bytes > kCacheBytes ? bytes / kMemoryBytes * (1 + kLeastOnTheWay / on_the_way) : 0;
  return std::max(std::max(1.0, in_turn) * step, floor) +
         whole * (kStart + kShare * static_cast<double>(shares - 1)) + (tile.split > 1 ? kJoin : 0);
}

}  // namespace

std::vector<ScheduleRecord> EnumerateFragmentAttention(const loop::Function& function,
                                                       uint32_t kernel, const OnlineSoftmax& online,
                                                       const Target& target) {
  constexpr size_t kMost = 5;
  constexpr std::pair<int32_t, int32_t> kParts[] = {
      {16, 16}, {16, 32}, {16, 64}, {32, 32}, {32, 64}};  // of a subgroup
  constexpr int64_t kMostSums = 2560;                     // of a subgroup, in registers
  const auto hint = [&](Expr e) { return std::max<int64_t>(1, function.exprs->HintOf(e)); };
  const int64_t rows = hint(online.attention.m_extent), keys = hint(online.scores.n_extent);
  const int64_t batch = hint(online.attention.batch_extent);
  const int64_t depth = hint(online.scores.k_extent), width = hint(online.values.n_extent);
  const int64_t units = target.gpu.unit_count > 0 ? target.gpu.unit_count : 64;
  const Expr end = online.visible_end.valid() ? online.visible_end : online.shown_end;
  const Sizes sizes{batch, rows, keys, depth, width, units, end.valid()};
  // The heaviest workgroups of all batches begin first where keys and values stay in the cache.
  constexpr int64_t kMostBytesAtOnce = 20 << 20, kMostRaster = 4096;
  const bool fits = batch * keys * (depth + width) * 2 <= kMostBytesAtOnce && batch <= kMostRaster;
  // Elsewhere a subgroup has whole rows of a block, and nothing is copied ahead.
  const bool is_staged = target.kind != TargetKind::kCuda;
  std::vector<std::pair<double, ScheduleRecord>> ranked;
  for (const int32_t m : {16, 32, 64, 128}) {
    if (m > kSide && m >= 2 * rows) continue;
    for (const int32_t n : {32, 64, 128}) {
      for (const auto& [item_m, item_n] : kParts) {
        const int64_t subgroups = m / item_m * (n / item_n);
        if (item_m > m || item_n > n || subgroups > 8) continue;
        if (is_staged ? item_n != n : subgroups < (m > 16 ? 4 : 2)) continue;
        if ((n > 32 && n >= 2 * keys) || item_m * width > kMostSums) continue;
        for (const int32_t stages : {1, 2}) {
          if (is_staged && stages > 1) continue;
          for (int32_t split = 1; split <= kMostAttentionParts; split *= 2) {
            const int64_t workgroups = batch * CeilDiv(rows, m);
            if (split > 1 && (workgroups * split > 4 * units || keys < 4 * n * split)) break;
            ScheduleRecord record;
            record.kind = ScheduleKind::kGpuMatrixAttention;
            record.tile.m = m, record.tile.n = n;
            record.tile.item_m = item_m, record.tile.item_n = item_n;
            record.tile.stages = stages, record.tile.split = split;
            record.tile.raster = sizes.is_causal && fits ? static_cast<int32_t>(batch) : 1;
            record.async = stages > 1;
            ranked.emplace_back(CyclesOf(record.tile, sizes), record);
          }
        }
      }
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ScheduleRecord> records;
  for (const auto& one : ranked) {
    const ScheduleRecord& record = one.second;
    if (records.size() == kMost) break;
    // Other stages of the same tile differ little.
    const bool is_known = std::any_of(records.begin(), records.end(), [&](ScheduleRecord other) {
      other.tile.stages = record.tile.stages, other.async = record.async;
      return other == record;
    });
    if (is_known) continue;
    if (BuildFragmentAttention(function, kernel, record, online, target).ok()) {
      records.push_back(record);
    }
  }
  return records;
}

}  // namespace halyard::schedule
