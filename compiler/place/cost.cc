// SPDX-License-Identifier: Apache-2.0
#include "compiler/place/cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "compiler/target/product_tiles.h"

namespace halyard::place {
namespace {

// How far a roofline made of measured numbers is off where no fit corrects it.
constexpr double kRooflineSigma = 0.4;
constexpr size_t kFewestSamples = 2, kManySamples = 8;
constexpr double kLowestFitSigma = 0.05;

// The interpreter where nothing was measured.
constexpr double kInterpretedStart = 2e-5;
constexpr double kInterpretedUnit = 2e-8;
// Of one class some ops take several times as long as others.
constexpr double kInterpretedSigma = 0.5;

// How a GPU multiplies 16-bit numbers, as compiler/schedule/gpu/contraction_cost.cc has it in
// detail: tiles of results, one workgroup each, the smaller the less of the rate they reach; one
// step along the sum takes a workgroup its time however small the tile is; long sums are cut into
// parts that a second dispatch adds.
struct MatrixTile {
  double side, part;
};
constexpr MatrixTile kMatrixTiles[] = {{128, 1}, {64, 0.7}, {32, 0.55}, {16, 0.4}};
// Of 32 x 32 results in one subgroup, a multiply-add deep.
constexpr double kMatrixStepSeconds =
    4 * product_tiles::kMatrixCycles / 16 / product_tiles::kCyclesPerNs * 1e-9;
constexpr double kPartSteps = 256, kMostParts = 16;
constexpr double kLeastTiled = 8;  // rows or columns
constexpr double kTogether = 4;    // workgroups of a unit that wait for memory at the same time

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The class's rate in that dtype; narrow floats and integers fall back to f32, unknown classes to
// pointwise.
Number RateOf(const Device& device, OpClass op_class, DType dtype) {
  const auto find = [&](OpClass c, DType d) -> const Rate* {
    for (const Rate& rate : device.rates) {
      if (rate.op_class == c && rate.dtype == d) return &rate;
    }
    return nullptr;
  };
  for (const OpClass c : {op_class, OpClass::kPointwise}) {
    for (const DType d : {dtype, DType::kF32}) {
      if (const Rate* rate = find(c, d)) return rate->flops_per_second;
    }
  }
  return {1e9, Source::kDefault, StartSigma(Source::kDefault)};
}

const Number& BandwidthFor(const Device& device, double bytes) {
  for (const Level& level : device.levels) {
    if (static_cast<double>(level.bytes) >= bytes) return level.bytes_per_second;
  }
  return device.levels.back().bytes_per_second;
}

bool IsTiled(OpClass op_class) {
  return op_class == OpClass::kContraction || op_class == OpClass::kConvolution;
}

// How many tiles of m x n cover the results.
double TilesOf(const Work& work, double m, double n) {
  if (work.rows < 1 || work.columns < 1) return std::ceil(work.results / (m * n));
  const double matrices = std::max(1.0, std::round(work.results / (work.rows * work.columns)));
  return matrices * std::ceil(work.rows / m) * std::ceil(work.columns / n);
}

// Of fragments on matrix units.
double MatrixSeconds(const Device& device, const Work& work, double rate) {
  const double units = device.units;
  const double steps = std::max(1.0, work.flops / (2 * work.results));
  double best = std::numeric_limits<double>::infinity();
  for (const MatrixTile& tile : kMatrixTiles) {
    const double workgroups = TilesOf(work, tile.side, tile.side);
    const double parts =
        std::max(1.0, std::floor(std::min({units / workgroups, steps / kPartSteps, kMostParts})));
    const double rounds = std::ceil(workgroups * parts / units);
    const double of_part = 2 * tile.side * tile.side * steps / parts;  // FLOPs
    const double seconds =
        std::max(rounds * of_part * units / (rate * tile.part),
                 std::max(1.0, rounds / kTogether) * steps / parts * kMatrixStepSeconds);
    const double joining = parts > 1 ? device.dispatch_seconds.value : 0;
    best = std::min(best, seconds + joining);
  }
  return best;
}

// Of tiles in registers: the square ones that schedules choose from, whole and in parts.
double RegisterSeconds(const Device& device, const Work& work, double rate) {
  namespace tiles = product_tiles;
  const double units = device.units, bytes = std::max(1, BitWidth(work.dtype) / 8);
  const double depth = std::max(1.0, work.flops / (2 * work.results));
  // What `rate` says of a unit, in the terms of the tiles: the largest one reaches it.
  const tiles::Tile& largest = tiles::kRegisterTiles[0];
  const double unit_rate = rate / 2 / units / (tiles::kCyclesPerNs * 1e9) /
                           tiles::ProductShare(largest.item_m, largest.item_n);
  double best = std::numeric_limits<double>::infinity();
  for (const tiles::Tile& tile : tiles::kRegisterTiles) {
    if (tile.m != tile.n) continue;
    const double results = double(tile.m) * tile.n;
    const double workgroups = TilesOf(work, tile.m, tile.n);
    const auto seconds_in = [&](double parts) {
      const double each = std::ceil(workgroups * parts / units);
      const double share = std::min(each, static_cast<double>(tiles::WorkgroupsOfUnit(tile)));
      const double steps = std::ceil(std::ceil(depth / tile.k) / parts);
      const double step = tiles::StepCycles(tile, share, unit_rate, bytes) / tiles::kCyclesPerNs;
      const double joining = parts > 1 ? tiles::kSecondNs + 2 * workgroups * parts * results *
                                                                bytes / tiles::kSecondBytes
                                       : 0;
      return (each / share * (tiles::kFirstNs + steps * step) + joining) * 1e-9;
    };
    best = std::min(best, seconds_in(1));
    for (const int64_t parts : tiles::kParts) {
      const auto count = static_cast<double>(parts);
      if (workgroups * count > static_cast<double>(tiles::kTogether) * units ||
          depth < count * static_cast<double>(tiles::kLeastDepth)) {
        break;
      }
      best = std::min(best, seconds_in(count));
    }
  }
  return best;
}

// Of FLOPs at `rate`, shared by the device's units.
double ComputeSeconds(const Device& device, const Work& work, double rate) {
  const double whole = work.flops / rate;
  if (device.units == 0 || !IsTiled(work.op_class) || work.results < 1) return whole;
  // A few rows or columns are no tiles: each unit goes through its share of the other operand.
  const double least = std::min(work.rows, work.columns);
  if (least > 0 && least < kLeastTiled) return whole;
  const bool is_matrix = BitWidth(work.dtype) == 16;
  return std::max(
      whole, is_matrix ? MatrixSeconds(device, work, rate) : RegisterSeconds(device, work, rate));
}

double WorkSize(double seconds) { return std::clamp(std::log2(seconds * 1e9), 0.0, 64.0); }

double FactorAt(const Fit& fit, double work) {
  const auto& points = fit.points;
  if (work <= points.front().work) return points.front().factor;
  if (work >= points.back().work) return points.back().factor;
  const auto above =
      std::find_if(points.begin(), points.end(), [&](const FitPoint& p) { return p.work > work; });
  const FitPoint &a = *(above - 1), &b = *above;
  return a.factor + (b.factor - a.factor) * (work - a.work) / (b.work - a.work);
}

}  // namespace

Number Roofline(const Device& device, const Work& work) {
  const Number rate = RateOf(device, work.op_class, work.dtype);
  const double compute = ComputeSeconds(device, work, rate.value);
  Number bound = rate;
  bound.value = compute;
  if (!device.levels.empty()) {
    const Number& bandwidth = BandwidthFor(device, work.bytes);
    if (work.bytes / bandwidth.value > compute) {
      bound = bandwidth;
      bound.value = work.bytes / bandwidth.value;
    }
  }
  const Number& dispatch = device.dispatch_seconds;
  const double overhead = work.dispatches * dispatch.value;
  Number out;
  out.value = bound.value + overhead;
  const double absolute = std::hypot(bound.value * bound.sigma, overhead * dispatch.sigma);
  out.sigma = std::max(kRooflineSigma, out.value > 0 ? absolute / out.value : 0);
  out.source = std::min({bound.source, dispatch.source, Source::kTable});
  return out;
}

Cost EstimateCost(const Device& device, const Work& work, const std::optional<Timing>& timing) {
  Cost cost;
  if (timing && timing->seconds > 0) {
    cost.seconds = timing->seconds;
    cost.sigma = timing->sigma;
    cost.source = Source::kMeasured;
    return cost;
  }
  const Number roofline = Roofline(device, work);
  cost.seconds = roofline.value;
  cost.sigma = roofline.sigma;
  cost.source = roofline.source;
  // As with rates, what has none of its own is like pointwise work.
  for (const OpClass c : {work.op_class, OpClass::kPointwise}) {
    for (const Fit& fit : device.fits) {
      if (fit.op_class != c) continue;
      cost.seconds *= FactorAt(fit, WorkSize(roofline.value));
      cost.sigma = c == work.op_class ? fit.sigma : std::max(fit.sigma, roofline.sigma);
      cost.source = Source::kFitted;
      return cost;
    }
  }
  return cost;
}

Cost InterpretedCost(const Device* host, const Work& work) {
  Cost cost;
  const double units = work.InterpretedUnits();
  if (host != nullptr) {
    for (const OpClass c : {work.op_class, OpClass::kPointwise}) {
      for (const InterpretedRate& rate : host->interpreted) {
        if (rate.op_class != c) continue;
        cost.seconds = rate.start_seconds.value + units * rate.unit_seconds.value;
        cost.sigma = c == work.op_class ? kInterpretedSigma : 1;
        cost.source = Source::kFitted;
        return cost;
      }
    }
  }
  cost.seconds = kInterpretedStart + kInterpretedUnit * units;
  cost.sigma = 1;
  cost.source = Source::kDefault;
  return cost;
}

std::vector<Fit> FitEfficiency(const Device& device, std::span<const Sample> samples) {
  constexpr double kStep = 1;  // in log2
  std::vector<Fit> fits;
  for (size_t c = 0; c < kOpClassCount; ++c) {
    const auto op_class = static_cast<OpClass>(c);
    std::map<int64_t, std::pair<std::vector<double>, std::vector<double>>> steps;
    std::vector<std::pair<double, double>> all;  // size, factor
    for (const Sample& sample : samples) {
      if (sample.work.op_class != op_class || !(sample.seconds > 0)) continue;
      const double roofline = Roofline(device, sample.work).value;
      if (!(roofline > 0)) continue;
      const double work = WorkSize(roofline);
      const double factor = std::clamp(sample.seconds / roofline, 1e-3, 1e4);
      auto& [works, factors] = steps[static_cast<int64_t>(work / kStep)];
      works.push_back(work);
      factors.push_back(factor);
      all.emplace_back(work, factor);
    }
    if (all.size() < kFewestSamples) continue;
    Fit fit;
    fit.op_class = op_class;
    for (const auto& [step, samples_of] : steps) {
      fit.points.push_back({Median(samples_of.first), Median(samples_of.second)});
    }
    std::vector<double> rest;
    for (const auto& [work, factor] : all)
      rest.push_back(std::abs(factor / FactorAt(fit, work) - 1));
    // The median absolute deviation of a normal distribution is 0.6745 sigma.
    fit.sigma = std::max(all.size() < kManySamples ? StartSigma(Source::kFitted) : kLowestFitSigma,
                         Median(rest) / 0.6745);
    fits.push_back(std::move(fit));
  }
  return fits;
}

std::vector<ModelError> ModelErrors(std::span<const Prediction> predictions) {
  std::vector<ModelError> out;
  for (size_t c = 0; c < kOpClassCount; ++c) {
    std::vector<double> errors, ratios;
    for (const Prediction& one : predictions) {
      if (one.op_class != static_cast<OpClass>(c) || !(one.measured_seconds > 0)) continue;
      ratios.push_back(one.predicted_seconds / one.measured_seconds);
      errors.push_back(std::abs(ratios.back() - 1));
    }
    if (errors.empty()) continue;
    ModelError error;
    error.op_class = static_cast<OpClass>(c);
    error.count = static_cast<uint32_t>(errors.size());
    error.median_error = Median(errors);
    error.worst_error = *std::max_element(errors.begin(), errors.end());
    error.median_ratio = Median(ratios);
    out.push_back(error);
  }
  return out;
}

}  // namespace halyard::place
