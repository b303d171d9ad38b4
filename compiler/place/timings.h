// SPDX-License-Identifier: Apache-2.0
// Timings: measured times of clusters, asked by key and device. Implemented by runtime/ over the
// timing cache; what it answers belongs to the machine's snapshot and must not change under it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace halyard::place {

inline constexpr double kMostSeconds = 100;  // of a cluster

struct Timing {
  double seconds = 0;   // of its dispatches among others of a recording, without a launch
  double sigma = 0.05;  // relative
};

class Timings {
 public:
  virtual ~Timings() = default;
  // `device`: index into CompileRequest::devices; the implementation knows its identity and driver.
  // `key`: Item::key, which holds ops, dtypes, attributes and sizes (the shape bucket).
  virtual std::optional<Timing> FindTime(uint32_t device, uint64_t key) = 0;
};

// How the timing cache writes a cluster's time, beside its records of schedules. Parse gives
// nothing for other records and for what is not a time above 0 and below kMostSeconds.
struct ClusterTime {
  double seconds = 0;    // as Timing's
  std::string schedule;  // of its kernels, as their records say; empty: unknown
  friend bool operator==(const ClusterTime&, const ClusterTime&) = default;
};
std::string FormatClusterTime(const ClusterTime& time);
std::optional<ClusterTime> ParseClusterTime(std::string_view record);

// Whether `now` takes the place of the stored record (may be empty): of the same schedule the last
// time counts, of different ones the least.
bool IsBetterKnown(const ClusterTime& now, std::string_view record);

}  // namespace halyard::place
