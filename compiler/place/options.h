// SPDX-License-Identifier: Apache-2.0
// Options: what the user asks of placement. Part of CompileOptions and of every cache key.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace halyard::place {

enum class Strength : uint8_t { kRequire, kPrefer, kForbid };
std::string_view FormatStrength(Strength strength);  // "require", "prefer", "forbid"

// A wish for all nodes whose name matches `pattern` ('*' any text, '?' one character). A pattern
// that begins with "op:" matches op names instead: "op:gather".
struct Affinity {
  std::string pattern;
  std::string device;  // name of a device of the request
  Strength strength = Strength::kRequire;
  friend bool operator==(const Affinity&, const Affinity&) = default;
};
bool MatchesPattern(std::string_view pattern, std::string_view text);
// "PATTERN=DEVICE", "PATTERN=prefer:DEVICE", "PATTERN=forbid:DEVICE", "PATTERN=require:DEVICE".
// INVALID_ARGUMENT where that is not what the text is.
Result<Affinity> ParseAffinity(std::string_view text);
// The same text; "PATTERN=DEVICE" for what is required.
std::string FormatAffinity(const Affinity& affinity);

struct MemoryCap {
  std::string device;
  int64_t bytes = 0;  // all that the program takes there; at least 1
  friend bool operator==(const MemoryCap&, const MemoryCap&) = default;
};

struct Options {
  std::vector<Affinity> affinities;
  std::vector<MemoryCap> memory_caps;
  // Devices that take only what no other device can: where --device did not name the CPU.
  std::vector<std::string> last_resort;
  // A preference is worth this part of the item's cost on its cheapest device, and at least one
  // synchronisation.
  double preference = 0.5;
  // Text of the plan that runs now (FormatPlan); stays unless another is better by the margin.
  std::string previous_plan;
  // The previous plan runs again wherever it can, whatever another would win: how benchmarks time
  // rivals. Limits hold.
  bool keeps_previous = false;
  bool hysteresis = true;
  // Explanations that need another solve (margins, prices): how many at most; 0: none.
  int64_t explained_items = 256;
  uint64_t Hash() const;
  friend bool operator==(const Options&, const Options&) = default;
};

}  // namespace halyard::place
