// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>

namespace halyard::tools {
namespace {

constexpr int kResamples = 1000;
constexpr int kPermutations = 2000;
constexpr size_t kBlocks = 8;
constexpr size_t kMostResampled =
    2000;  // of longer runs every nth sample stands for its neighbours

std::vector<double> BlockMedians(const std::vector<double>& series, size_t count) {
  std::vector<double> medians;
  const auto at = [&](size_t block) {
    return series.begin() + static_cast<std::ptrdiff_t>(block * series.size() / count);
  };
  for (size_t i = 0; i < count; ++i) {
    std::vector<double> block(at(i), at(i + 1));
    medians.push_back(MedianOf(block));
  }
  return medians;
}

}  // namespace

double MedianOf(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  const double upper = *middle;
  return samples.size() % 2 == 1 ? upper : (upper + *std::max_element(samples.begin(), middle)) / 2;
}

double Percentile(const std::vector<double>& sorted, double p) {
  const double position = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Statistics Describe(std::vector<double> samples, uint64_t seed) {
  std::sort(samples.begin(), samples.end());
  Statistics out;
  out.count = static_cast<int64_t>(samples.size());
  out.min = samples.front();
  out.max = samples.back();
  const auto count = static_cast<double>(samples.size());
  out.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / count;
  out.p50 = Percentile(samples, 0.5);
  out.p90 = Percentile(samples, 0.9);
  out.p95 = Percentile(samples, 0.95);
  out.p99 = Percentile(samples, 0.99);
  if (samples.size() >= 1000) out.p999 = Percentile(samples, 0.999);
  double squares = 0;
  std::vector<double> distances;
  for (const double sample : samples) {
    squares += (sample - out.mean) * (sample - out.mean);
    distances.push_back(std::abs(sample - out.p50));
  }
  out.mad = MedianOf(distances);
  if (out.mean > 0) out.variation = std::sqrt(squares / count) / out.mean;

  std::vector<double> pool;
  const size_t stride = samples.size() / kMostResampled + 1;
  for (size_t i = 0; i < samples.size(); i += stride) pool.push_back(samples[i]);
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<size_t> pick(0, pool.size() - 1);
  std::vector<double> medians, drawn(pool.size());
  for (int i = 0; i < kResamples; ++i) {
    for (double& value : drawn) value = pool[pick(random)];
    medians.push_back(MedianOf(drawn));
  }
  std::sort(medians.begin(), medians.end());
  out.median_low = Percentile(medians, 0.025);
  out.median_high = Percentile(medians, 0.975);
  return out;
}

double ChanceOfDifference(const std::vector<double>& a, const std::vector<double>& b,
                          uint64_t seed) {
  const size_t count = std::min({kBlocks, a.size(), b.size()});
  std::vector<double> all = BlockMedians(a, count);
  const std::vector<double> rest = BlockMedians(b, count);
  all.insert(all.end(), rest.begin(), rest.end());
  const auto distance = [&] {
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(count);
    return std::abs(std::accumulate(all.begin(), middle, 0.0) -
                    std::accumulate(middle, all.end(), 0.0));
  };
  // Sums of the same medians in another order differ by rounding.
  const double observed = distance() * (1 - 1e-9);
  std::mt19937_64 random(seed);
  int as_far = 0;
  for (int i = 0; i < kPermutations; ++i) {
    std::shuffle(all.begin(), all.end(), random);
    as_far += distance() >= observed;
  }
  // The observed division is one of those that are possible.
  return (as_far + 1.0) / (kPermutations + 1.0);
}

}  // namespace halyard::tools
