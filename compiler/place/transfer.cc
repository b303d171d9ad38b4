// SPDX-License-Identifier: Apache-2.0
#include "compiler/place/transfer.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace halyard::place {

double BandwidthAt(const Link& link, int64_t bytes, bool is_callers) {
  const auto& curve = is_callers && !link.caller_curve.empty() ? link.caller_curve : link.curve;
  if (bytes <= curve.front().bytes) return curve.front().bytes_per_second;
  if (bytes >= curve.back().bytes) return curve.back().bytes_per_second;
  const auto above = std::find_if(curve.begin(), curve.end(),
                                  [&](const CurvePoint& p) { return p.bytes > bytes; });
  const CurvePoint &a = *(above - 1), &b = *above;
  const double position = std::log2(static_cast<double>(bytes) / static_cast<double>(a.bytes)) /
                          std::log2(static_cast<double>(b.bytes) / static_cast<double>(a.bytes));
  return a.bytes_per_second + position * (b.bytes_per_second - a.bytes_per_second);
}

TransferModel::TransferModel(const Machine& machine) : machine_(machine) {
  for (size_t d = 0; d < machine.devices.size() && home_device_ == kNone; ++d) {
    if (machine.devices[d].memory == machine.home) home_device_ = static_cast<uint32_t>(d);
  }
}

uint32_t TransferModel::MemoryOf(uint32_t device) const {
  return device == kNone ? machine_.home : machine_.devices[device].memory;
}

TransferCost TransferModel::Estimate(uint32_t from, uint32_t to, int64_t bytes,
                                     bool is_pinned) const {
  TransferCost out;
  const uint32_t source = MemoryOf(from), target = MemoryOf(to);
  if (from == to || (source == target && (from == kNone || to == kNone))) return out;
  double variance = 0;
  const auto add_sync = [&](const Number& number) {
    out.sync_seconds += number.value;
    variance += std::pow(number.value * number.sigma, 2);
    out.source = std::min(out.source, number.source);
  };
  // Where crossings of all links on the way were measured, the rest of them beside the copies.
  double crossings = -1;
  double crossing_variance = 0;
  if (source != target && bytes > 0) {
    // Bellman and Ford's shortest path: few memories, few links.
    const size_t count = machine_.memories.size();
    std::vector<double> best(count, std::numeric_limits<double>::infinity());
    std::vector<const Link*> last(count, nullptr);
    best[source] = 0;
    for (size_t round = 0; round + 1 < count; ++round) {
      bool changed = false;
      for (const Link& link : machine_.links) {
        const bool is_callers = from == kNone && link.from == source && !is_pinned;
        const double seconds = best[link.from] + link.latency_seconds.value +
                               static_cast<double>(bytes) / BandwidthAt(link, bytes, is_callers);
        if (seconds < best[link.to]) {
          best[link.to] = seconds;
          last[link.to] = &link;
          changed = true;
        }
      }
      if (!changed) break;
    }
    out.copy_seconds = best[target];
    double slowest = -1;
    for (uint32_t at = target; at != source && last[at] != nullptr; at = last[at]->from) {
      const Link& link = *last[at];
      const double seconds = best[at] - best[link.from];
      if (from != kNone && to != kNone && (crossings >= 0 || at == target)) {
        // The latency of a copy is in it; the bytes are so few that they are left there, too.
        const Number& crossing = link.crossing_seconds;
        const double rest = std::max(0.0, crossing.value - link.latency_seconds.value);
        crossings = crossing.value > 0 ? std::max(crossings, 0.0) + rest : -1;
        crossing_variance += std::pow(crossing.value * crossing.sigma, 2);
      }
      variance += std::pow(seconds * std::max(link.sigma, link.latency_seconds.sigma), 2);
      out.source = std::min({out.source, link.source, link.latency_seconds.source});
      out.engines.push_back(link.engine);
      if (seconds > slowest) out.path = link.path;
      slowest = std::max(slowest, seconds);
    }
    std::reverse(out.engines.begin(), out.engines.end());
  }
  if (crossings >= 0) {
    out.sync_seconds = crossings;
    out.is_crossing_measured = true;
    variance += crossing_variance;
  } else {
    if (from != kNone) add_sync(machine_.devices[from].wait_seconds);
    if (to != kNone) add_sync(machine_.devices[to].submit_seconds);
  }
  out.sigma_seconds = std::sqrt(variance);
  return out;
}

}  // namespace halyard::place
