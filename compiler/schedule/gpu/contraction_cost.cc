// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/gpu/contraction_cost.h"

#include <algorithm>

#include "compiler/schedule/gpu/rounding.h"
#include "compiler/target/product_tiles.h"

namespace halyard::schedule {
namespace {

constexpr double kLaunchNs = 1100;      // of a dispatch behind another one
constexpr double kFirstTileNs = 320;    // operands from memory, before the first product
constexpr double kCacheBytes = 26.7;    // a cycle and unit, from the second-level cache
constexpr double kMemoryBytes = 3170;   // a nanosecond
constexpr double kMatrixRate = 1080;    // multiply-adds of 16-bit numbers a cycle and unit
constexpr double kOldMatrixRate = 540;  // before sm_80
constexpr double kShallow = 1.28;       // what barriers cost where a step is shorter than 64
// Fragments whose operands pass through registers. Products with so many results a unit are priced
// on Vulkan by a fit to 27 schedules of two of them (16-bit floats, an H200).
constexpr double kCarriedCycles = 400, kVulkanCarriedCycles = 1100;  // of a step, until they come
constexpr double kVulkanCacheBytes = 24;
constexpr int64_t kManyResults = 4 * 64 * 64;
// Asynchronous products: nine tenths of what they can do at best; the cycles of 64 x 256 x 16
// beside another quad, and of what each of three takes; what they read from the second-level cache;
// the epilogue, and its share of the times below.
constexpr double kWgmmaRate = 1840;
constexpr double kQuadProductCycles = 367;
constexpr double kQuadShare = 0.53;
constexpr double kQuadCacheBytes = 40.9;
constexpr double kQuadLoadNs = 800;  // from asking for a stage until it is there
constexpr double kQuadEpilogueNs = 96;
constexpr double kQuadStoreShare = 0.49;
constexpr double kEpilogueNs = 190;
constexpr double kPassNs = 184;       // of a workgroup that stores a vector per workitem
constexpr double kElementNs = 0.09;   // of an element and unit that is stored
constexpr double kBothShare = 0.175;  // of the shorter of memory and units that is not hidden
constexpr double kJoinNs = 1510;      // storing, counting and seeing that one is the last
constexpr double kJoinBytes = 79.5;   // a nanosecond, of the parts that the last one reads
constexpr double kSecondDispatchNs = 3000;
constexpr double kSecondBytes = 1500;  // a nanosecond, of the parts on their way to the second
constexpr int64_t kVulkanShare = 4;

}  // namespace

double CostOfTiles(const ContractionSizes& sizes, const ScheduleRecord& record,
                   const Target& target) {
  const GpuTile& tile = record.tile;
  const bool is_wgmma = record.kind == ScheduleKind::kGpuWgmma;
  const bool is_matrix = record.kind == ScheduleKind::kGpuMatrix || is_wgmma;
  const int64_t units = target.gpu.unit_count > 0 ? target.gpu.unit_count : kUnknownUnits;
  const int64_t tiles = CeilDiv(sizes.rows, tile.m) * CeilDiv(sizes.cols, tile.n) * sizes.batches;
  const int64_t workgroups = tiles * tile.split;
  const int64_t items = int64_t{tile.m / tile.item_m} * (tile.n / tile.item_n);
  const int64_t workitems = is_wgmma ? items * 128 : is_matrix ? items * 32 : items;
  const double item = double(tile.item_m) * tile.item_n, edge = tile.item_m + tile.item_n;

  // Workgroups that share a unit.
  const int64_t stage_bytes = int64_t{tile.m + tile.n} * (tile.k + 8) * sizes.operand_bytes;
  int64_t memory = stage_bytes * tile.stages;
  if (is_wgmma) {
    memory = int64_t{tile.m + tile.n} * tile.k * sizes.operand_bytes * tile.stages +
             int64_t{tile.m / tile.item_m} * 64 * (tile.n / tile.item_n * 32 + 8) * 4;
  } else if (is_matrix) {
    memory += int64_t{tile.m / tile.item_m} * 16 * (tile.n + 4) * sizes.sum_bytes;
  }
  const int64_t sums = int64_t{tile.item_m} * tile.item_n;
  const int64_t edge_registers = is_wgmma ? 0 : static_cast<int64_t>(edge) / 2;
  const int64_t registers =
      is_matrix ? std::min<int64_t>(255, 56 + sums / (is_wgmma ? 128 : 32) + edge_registers)
                : product_tiles::RegistersOf(tile.item_m, tile.item_n);
  // Vulkan tells what a workgroup may have, not what a unit has.
  const bool is_vulkan = target.kind == TargetKind::kVulkan;
  const bool is_carried =
      is_vulkan && is_matrix && sizes.rows * sizes.cols * sizes.batches / units >= kManyResults;
  const int64_t unit_memory = target.gpu.workgroup_memory_bytes *
                              (is_carried || (is_vulkan && !is_matrix) ? kVulkanShare : 1);
  const int64_t together = std::max<int64_t>(
      1, std::min({std::max<int64_t>(unit_memory, 1) / std::max<int64_t>(memory, 1),
                   product_tiles::kSubgroupsOfUnit / std::max<int64_t>(1, workitems / 32),
                   product_tiles::kRegistersOfUnit / (registers * workitems)}));
  const int64_t each = CeilDiv(workgroups, units);  // of the busiest unit
  const double steps = static_cast<double>(CeilDiv(CeilDiv(sizes.k, tile.k), tile.split));
  const double elements = double(tile.m) * tile.n;
  double rate = 0, alone = 0;  // alone: cycles of one workgroup, however small
  if (is_matrix) {
    const bool is_old = target.kind == TargetKind::kCuda && target.gpu.compute_capability < 80;
    rate = is_old ? kOldMatrixRate : kMatrixRate;
    alone = tile.k / 16.0 * item / 256 * product_tiles::kMatrixCycles;
    if (is_wgmma) {
      rate = kWgmmaRate;
      alone = tile.k / 16.0 * item / (64 * 256) * kQuadProductCycles;
      if (items > 2) alone *= kQuadShare * static_cast<double>(items);
      // One stage is multiplied and one just has been; the others are on their way.
      alone = std::max(alone, kQuadLoadNs * product_tiles::kCyclesPerNs /
                                  static_cast<double>(std::max(tile.stages - 2, 1)));
    } else if (record.async) {
      rate *= item / (item + 1.1 * edge);
      if (tile.k < 64) rate /= kShallow;
    } else {
      // Operands pass through registers, which large parts of a subgroup leave little of.
      rate *= item / (item + 8 * edge) * (tile.k >= 64 ? 1.2 : 1) * (tile.stages > 1 ? 0.9 : 0.8);
      alone += is_carried ? kVulkanCarriedCycles : kCarriedCycles;
    }
  }
  const double traffic = double(tile.m + tile.n) * tile.k *
                         static_cast<double>(sizes.operand_bytes) /
                         (is_wgmma     ? kQuadCacheBytes
                          : is_carried ? kVulkanCacheBytes
                                       : kCacheBytes);
  const double stores = is_wgmma ? kQuadStoreShare : 1;
  const double part_bytes = elements * static_cast<double>(sizes.sum_bytes);
  // Of `share` workgroups that share a unit.
  const auto time_of = [&](double share) {
    const double step =
        is_matrix ? std::max({share * elements * tile.k / rate, share * traffic, alone})
                  : product_tiles::StepCycles({tile.m, tile.n, tile.k, tile.item_m, tile.item_n},
                                              share, product_tiles::kRegisterRate,
                                              static_cast<double>(sizes.operand_bytes));
    const double joining = record.joins ? kJoinNs + tile.split * part_bytes / kJoinBytes : 0;
    return (is_matrix ? kFirstTileNs : product_tiles::kFirstNs) +
           steps * step / product_tiles::kCyclesPerNs + (is_wgmma ? kQuadEpilogueNs : kEpilogueNs) +
           stores * (kPassNs * elements / static_cast<double>(8 * workitems) +
                     kElementNs * share * elements) +
           joining;
  };
  const int64_t share = std::min(each, together);
  double busy = 0;
  if (is_wgmma) {
    // The last ones have the unit to themselves, which makes large quads little faster.
    busy = static_cast<double>(each / share) * time_of(static_cast<double>(share));
    if (each % share > 0) busy += time_of(static_cast<double>(each % share));
  } else {
    busy = static_cast<double>(each) / static_cast<double>(share) *
           time_of(static_cast<double>(share));
  }
  const double memory_ns = static_cast<double>(sizes.memory_bytes) / kMemoryBytes;
  double ns = kLaunchNs + std::max(busy, memory_ns) + kBothShare * std::min(busy, memory_ns);
  if (tile.split > 1 && !record.joins) {
    const double bytes = 2 * static_cast<double>(workgroups) * part_bytes;
    ns += is_matrix ? kSecondDispatchNs + bytes / kSecondBytes
                    : product_tiles::kSecondNs + bytes / product_tiles::kSecondBytes;
  }
  return ns;
}

}  // namespace halyard::schedule
