// SPDX-License-Identifier: Apache-2.0
// What a benchmark says of its samples: percentiles, spread, and how sure the median is.
#pragma once

#include <cstdint>
#include <vector>

namespace halyard::tools {

struct Statistics {
  int64_t count = 0;
  double min = 0, max = 0, mean = 0;
  double p50 = 0, p90 = 0, p95 = 0, p99 = 0;
  double p999 = 0;                         // 0 with fewer than 1000 samples
  double mad = 0;                          // median distance from the median
  double variation = 0;                    // standard deviation over the mean
  double median_low = 0, median_high = 0;  // 95% bootstrap interval of the median
};

// The value below which the share `p` of the sorted samples lies, between neighbours by their
// distance (the common definition of numpy and Excel). At least one sample.
double Percentile(const std::vector<double>& sorted, double p);

// The middle, or the mean of the two in the middle. At least one sample.
double MedianOf(std::vector<double> samples);

// `seed` of the bootstrap, which draws 1000 times as many samples as there are. At least one
// sample.
Statistics Describe(std::vector<double> samples, uint64_t seed = 1);

// Whether two series differ, samples in the order in which they were taken: each is cut into the
// same number of blocks of neighbours, 8 where there are so many samples, and the medians of the
// blocks take the place of the samples, which depend on their neighbours. The result is the share
// of 2000 random divisions of these medians into two sets whose means differ as much (permutation
// test). At least one sample each.
double ChanceOfDifference(const std::vector<double>& a, const std::vector<double>& b,
                          uint64_t seed = 1);

}  // namespace halyard::tools
