// SPDX-License-Identifier: Apache-2.0
// Placement's roofline of products on a GPU against the model by which schedules are chosen: they
// share what tiles take (compiler/target/product_tiles.h), and differ by what the roofline is not
// told: rows and columns apart, and what a workgroup does beyond its sums.
#include "compiler/target/product_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "compiler/place/cost.h"
#include "compiler/schedule/gpu/contraction_cost.h"

namespace halyard::place {
namespace {

namespace tiles = product_tiles;

struct Shape {
  int64_t rows, cols, depth, batches;
};
// MiniLM, BERT-base, GPT-2 and ViT at batch 1, ResNet-50's convolutions as products, a large one.
constexpr Shape kShapes[] = {
    {128, 384, 384, 1},  {128, 1536, 384, 1}, {128, 384, 1536, 1},   {128, 768, 768, 1},
    {128, 3072, 768, 1}, {128, 768, 3072, 1}, {128, 2304, 768, 1},   {128, 50257, 768, 1},
    {197, 768, 768, 1},  {197, 3072, 768, 1}, {197, 768, 3072, 1},   {12544, 64, 147, 1},
    {3136, 64, 64, 1},   {3136, 64, 576, 1},  {3136, 256, 64, 1},    {784, 128, 1152, 1},
    {784, 512, 128, 1},  {784, 128, 512, 1},  {196, 256, 2304, 1},   {196, 1024, 256, 1},
    {49, 512, 4608, 1},  {49, 2048, 512, 1},  {4096, 4096, 4096, 1}, {128, 128, 32, 12},
};

// Of the best schedule of register tiles, in seconds.
double BestOfTiles(const Shape& shape, const Target& target) {
  schedule::ContractionSizes sizes;
  sizes.rows = shape.rows, sizes.cols = shape.cols, sizes.k = shape.depth;
  sizes.batches = shape.batches;
  double best = std::numeric_limits<double>::infinity();
  for (const tiles::Tile& tile : tiles::kRegisterTiles) {
    if ((tile.m > 16 && tile.m >= 2 * shape.rows) || (tile.n > 16 && tile.n >= 2 * shape.cols)) {
      continue;
    }
    schedule::ScheduleRecord record;
    record.kind = schedule::ScheduleKind::kGpuTile;
    record.tile = {tile.m, tile.n, tile.k, tile.item_m, tile.item_n, /*stages=*/2, 1, 1};
    best = std::min(best, CostOfTiles(sizes, record, target));
    const int64_t count =
        (shape.rows + tile.m - 1) / tile.m * ((shape.cols + tile.n - 1) / tile.n) * shape.batches;
    for (const int64_t parts : tiles::kParts) {
      if (count * parts > tiles::kTogether * target.gpu.unit_count ||
          shape.depth < parts * tiles::kLeastDepth) {
        break;
      }
      record.tile.split = static_cast<int32_t>(parts);
      best = std::min(best, CostOfTiles(sizes, record, target));
    }
  }
  return best * 1e-9;
}

TEST(ProductTiles, TheRooflineExpectsWhatSchedulesDo) {
  Target target;
  target.kind = TargetKind::kCuda;
  target.gpu.unit_count = 132;
  target.gpu.compute_capability = 90;
  target.gpu.workgroup_memory_bytes = 227 << 10;
  Device device;
  device.units = 132;
  device.dispatch_seconds.value = 1.1e-6;
  // What the largest tiles reach.
  const double rate =
      2 * 132 * tiles::kCyclesPerNs * 1e9 * tiles::kRegisterRate *
      tiles::ProductShare(tiles::kRegisterTiles[0].item_m, tiles::kRegisterTiles[0].item_n);
  device.rates.push_back({OpClass::kContraction, DType::kF32, {rate, Source::kMeasured, 0.02}});
  for (const Shape& shape : kShapes) {
    Work work;
    work.op_class = OpClass::kContraction;
    work.dtype = DType::kF32;
    work.results = static_cast<double>(shape.rows * shape.cols * shape.batches);
    work.flops = 2 * work.results * static_cast<double>(shape.depth);
    work.dispatches = 1;
    const double ratio = Roofline(device, work).value / BestOfTiles(shape, target);
    EXPECT_GT(ratio, 0.7) << shape.rows << " x " << shape.cols << " x " << shape.depth;
    EXPECT_LT(ratio, 1.3) << shape.rows << " x " << shape.cols << " x " << shape.depth;
  }
}

}  // namespace
}  // namespace halyard::place
