// SPDX-License-Identifier: Apache-2.0
// MaxFlow: maximum flow and minimum cut between two terminals with whole capacities (Dinic 1970).
// Deterministic. Capacities may grow after a solve and the flow be continued, which is how a node
// is forced to a side at the price of one augmentation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace halyard::place {

// Sums of all capacities out of the source that can really flow must fit 62 bits. Not thread-safe.
class MaxFlow {
 public:
  static constexpr int64_t kInfinite = int64_t{1} << 61;
  static constexpr uint32_t kSource = 0, kSink = 1;  // further nodes from 2

  explicit MaxFlow(uint32_t nodes);
  uint32_t AddNode();
  // From a to b with `capacity`, and `back` the other way.
  void AddEdge(uint32_t a, uint32_t b, int64_t capacity, int64_t back = 0);
  // Augments as far as possible; returns the flow of all calls together, kInfinite or more where
  // the terminals cannot be separated.
  int64_t Run();
  // After Run: nodes that cannot reach the sink. Of all minimum cuts the one with most nodes on
  // the source's side.
  std::vector<bool> SourceSide() const;
  uint64_t steps() const { return steps_; }  // edges looked at, so far

  // The state of the flow, to come back to.
  struct State {
    std::vector<int64_t> capacity;
    int64_t flow = 0;
    size_t edges = 0;
  };
  State Save() const { return {capacity_, flow_, to_.size()}; }
  void Restore(const State& state);  // forgets edges added since

 private:
  bool BuildLevels();
  int64_t Augment();

  std::vector<uint32_t> head_, next_, to_;  // edge 2i and 2i+1 are opposite
  std::vector<int64_t> capacity_;
  std::vector<uint32_t> level_, current_;
  int64_t flow_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace halyard::place
