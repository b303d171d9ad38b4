// SPDX-License-Identifier: Apache-2.0
// Which schedules of attention on matrix units are worth trying, best first.
#include <algorithm>
#include <cmath>
#include <utility>

#include "compiler/schedule/gpu/attention_fragments.h"
#include "compiler/schedule/gpu/attention_rows.h"

namespace halyard::schedule {

namespace {

constexpr int64_t kSide = 16;  // of a fragment
constexpr int64_t kSubgroup = 32;

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Cycles of a unit that a record takes for hinted sizes; the constants are those of an H200.
double CyclesOf(const GpuTile& tile, int64_t batch, int64_t rows, int64_t keys, int64_t depth,
                int64_t width, bool is_causal, int64_t units) {
  constexpr double kMultiplies = 1190;  // of a unit, each cycle
  constexpr double kBytes = 128;        // of workgroup memory, each cycle
  constexpr double kScores = 30;        // of a unit, each cycle
  constexpr double kStep = 100;         // instructions of a subgroup
  constexpr double kLatency = 700, kStart = 2500, kJoin = 4000;
  const double subgroups = static_cast<double>(tile.m / tile.item_m * (tile.n / tile.item_n));
  const int64_t blocks = (rows + tile.m - 1) / tile.m;
  const double workgroups = static_cast<double>(batch * blocks * tile.split);
  double steps = static_cast<double>(RoundUp(keys, tile.n) / tile.n);
  // The heaviest workgroup has all of its steps, all of them together half as many.
  const double mean =
      is_causal
          ? std::max(1.0, steps * static_cast<double>(blocks + 1) / static_cast<double>(2 * blocks))
          : steps;
  const double area = static_cast<double>(tile.item_m) * tile.item_n;
  const double wide = static_cast<double>(depth + width);
  const double work = subgroups * std::max({area * wide / kMultiplies,
                                            static_cast<double>(tile.item_n) * wide * 2 / kBytes,
                                            area / kScores + area * wide / 8192 + kStep / 4});
  const double memory = static_cast<double>(
      ((tile.m + tile.stages * tile.n) * depth + tile.stages * tile.n * width) * 2 +
      tile.n / tile.item_n * tile.m * 160);
  const double registers =
      40 + static_cast<double>(tile.item_m) * (static_cast<double>(2 * width + depth) / 64) +
      area / 32 + static_cast<double>(tile.item_n) / 2;
  const double most = std::max(
      1.0, std::floor(std::min(65536 / (std::min(255.0, registers) * subgroups * kSubgroup),
                               220e3 / memory)));
  const double together = std::min(most, std::max(1.0, workgroups / static_cast<double>(units)));
  const double chain = kLatency + area * wide / 512;
  const double step = std::max(work * together, chain);
  const double waves = workgroups / (static_cast<double>(units) * together);
  const double parts = static_cast<double>(tile.split);
  const double all = std::max(1.0, std::max(std::ceil(waves) * mean, steps) / parts) * step;
  return all + std::ceil(waves) * kStart + (tile.split > 1 ? kJoin : 0);
}

}  // namespace

std::vector<ScheduleRecord> EnumerateFragmentAttention(const loop::Function& function,
                                                       uint32_t kernel, const OnlineSoftmax& online,
                                                       const Target& target) {
  constexpr size_t kMost = 4;
  constexpr std::pair<int32_t, int32_t> kParts[] = {
      {16, 16}, {16, 32}, {16, 64}, {32, 32}, {32, 64}};  // of a subgroup
  constexpr int64_t kMostSums = 2560;                     // of a subgroup, in registers
  const auto hint = [&](Expr e) { return std::max<int64_t>(1, function.exprs->HintOf(e)); };
  const int64_t rows = hint(online.attention.m_extent), keys = hint(online.scores.n_extent);
  const int64_t batch = hint(online.attention.batch_extent);
  const int64_t depth = hint(online.scores.k_extent), width = hint(online.values.n_extent);
  const int64_t units = target.gpu.unit_count > 0 ? target.gpu.unit_count : 64;
  std::vector<std::pair<double, ScheduleRecord>> ranked;
  for (const int32_t m : {16, 32, 64, 128}) {
    if (m > kSide && m >= 2 * rows) continue;
    for (const int32_t n : {32, 64, 128}) {
      for (const auto& [item_m, item_n] : kParts) {
        const int64_t subgroups = m / item_m * (n / item_n);
        if (item_m > m || item_n > n || subgroups < 2 || subgroups > 8) continue;
        if ((n > 32 && n >= 2 * keys) || item_m * width > kMostSums) continue;
        for (const int32_t stages : {1, 2}) {
          for (int32_t split = 1; split <= kMostAttentionParts; split *= 2) {
            const int64_t workgroups = batch * ((rows + m - 1) / m);
            if (split > 1 && (workgroups * split > 4 * units || keys < 4 * n * split)) break;
            ScheduleRecord record;
            record.kind = ScheduleKind::kGpuMatrixAttention;
            record.tile.m = m, record.tile.n = n;
            record.tile.item_m = item_m, record.tile.item_n = item_n;
            record.tile.stages = stages, record.tile.split = split;
            record.async = stages > 1;
            double cycles = CyclesOf(record.tile, batch, rows, keys, depth, width,
                                     online.visible_end.valid(), units);
            if (stages == 1) cycles *= 1.25;  // nothing is on its way
            ranked.emplace_back(cycles, record);
          }
        }
      }
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ScheduleRecord> records;
  for (const auto& [cycles, record] : ranked) {
    if (records.size() == kMost) break;
    if (BuildFragmentAttention(function, kernel, record, online, target).ok()) {
      records.push_back(record);
    }
  }
  return records;
}

}  // namespace halyard::schedule
