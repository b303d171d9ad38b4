// SPDX-License-Identifier: Apache-2.0
// What tiles of a product of matrices take on a GPU: what ranks schedules
// (compiler/schedule/gpu/contraction_cost.cc) and the roofline of placement
// (compiler/place/cost.cc) have in common, so that one does not expect what the other knows to be
// wrong. Fitted to one H200 (bench/contraction_bench, decision 26). Plain numbers; no kernel is
// made here.
#pragma once

#include <algorithm>
#include <cstdint>

namespace halyard::product_tiles {

inline constexpr double kCyclesPerNs = 1.75;

// Of a workgroup's tile of results, m x n, which takes k of the sum in a step; a workitem has
// item_m x item_n of it in registers.
struct Tile {
  int32_t m, n, k, item_m, item_n;
};
// Small enough to be tried everywhere, the large ones first. The squares stand for all of them.
inline constexpr Tile kRegisterTiles[] = {
    {128, 128, 8, 8, 8}, {128, 64, 8, 8, 8}, {64, 128, 8, 8, 8},
    {64, 64, 16, 8, 4},  {32, 64, 16, 4, 4}, {64, 32, 16, 4, 4},
    {32, 32, 16, 4, 4},  {16, 64, 16, 2, 4}, {16, 16, 16, 2, 2},
};

// Register tiles of workitems, fitted to 114 schedules of f32 products through CUDA and 539 of
// products and convolutions through Vulkan.
inline constexpr double kRegisterRate =
    179;                                     // multiply-adds a cycle and unit, operands for nothing
inline constexpr double kOperandCost = 1.4;  // of an operand against a multiply-add
inline constexpr double kStepCycles = 640;   // however small: the next tile comes from memory
inline constexpr double kStepDepthCycles = 1.25;
inline constexpr double kCacheBytes = 15;     // a cycle and unit
inline constexpr double kFirstNs = 1500;      // until the first operands are there
inline constexpr double kSecondNs = 1800;     // of the dispatch that adds the parts of sums
inline constexpr double kSecondBytes = 4000;  // a nanosecond, of the parts

// Sums in parts: how many, how much of the sum each has at least, and how many workgroups a unit
// holds, which register tiles are cut to fill.
inline constexpr int64_t kParts[] = {2, 3, 4, 6, 8, 12, 16};
inline constexpr int64_t kLeastDepth = 128;
inline constexpr int64_t kTogether = 8;

// 16 x 16 x 16 on matrix units, in one subgroup that is alone.
inline constexpr double kMatrixCycles = 21.1;

// Registers of a workitem with so many sums: 56, twice the sums, and what it holds of both
// operands.
constexpr int64_t RegistersOf(int64_t item_m, int64_t item_n) {
  return std::min<int64_t>(255, 56 + 2 * item_m * item_n + (item_m + item_n) / 2);
}
constexpr int64_t kSubgroupsOfUnit = 64, kRegistersOfUnit = 64 << 10;

// Workgroups of register tiles that a unit holds at once, where workgroup memory is enough.
constexpr int64_t WorkgroupsOfUnit(const Tile& tile) {
  const int64_t workitems = int64_t{tile.m / tile.item_m} * (tile.n / tile.item_n);
  return std::max<int64_t>(
      1, std::min(kSubgroupsOfUnit / std::max<int64_t>(1, workitems / 32),
                  kRegistersOfUnit / (RegistersOf(tile.item_m, tile.item_n) * workitems)));
}

// The part of multiply-adds among what the workitems of a register tile do.
constexpr double ProductShare(double item_m, double item_n) {
  const double item = item_m * item_n;
  return item / (item + kOperandCost * (item_m + item_n));
}

// Cycles that a step takes a unit which has `share` workgroups of register tiles. `rate`:
// multiply-adds a cycle as kRegisterRate has them; `operand_bytes`: of an element.
inline double StepCycles(const Tile& tile, double share, double rate, double operand_bytes) {
  const double depth = tile.k;
  const double products =
      double(tile.m) * tile.n * depth / (rate * ProductShare(tile.item_m, tile.item_n));
  const double traffic = double(tile.m + tile.n) * depth * operand_bytes / kCacheBytes;
  return std::max({share * products, share * traffic, kStepCycles + kStepDepthCycles * depth});
}

}  // namespace halyard::product_tiles
