// SPDX-License-Identifier: Apache-2.0
#include "compiler/place/max_flow.h"

#include <algorithm>

namespace halyard::place {
namespace {

constexpr uint32_t kNoEdge = UINT32_MAX;

}  // namespace

MaxFlow::MaxFlow(uint32_t nodes) : head_(nodes, kNoEdge) {}

uint32_t MaxFlow::AddNode() {
  head_.push_back(kNoEdge);
  return static_cast<uint32_t>(head_.size() - 1);
}

void MaxFlow::AddEdge(uint32_t a, uint32_t b, int64_t capacity, int64_t back) {
  if (a == b) return;
  const auto edge = static_cast<uint32_t>(to_.size());
  to_.push_back(b);
  next_.push_back(head_[a]);
  head_[a] = edge;
  to_.push_back(a);
  next_.push_back(head_[b]);
  head_[b] = edge + 1;
  capacity_.push_back(capacity);
  capacity_.push_back(back);
}

bool MaxFlow::BuildLevels() {
  level_.assign(head_.size(), UINT32_MAX);
  std::vector<uint32_t> queue = {kSource};
  level_[kSource] = 0;
  for (size_t i = 0; i < queue.size(); ++i) {
    for (uint32_t e = head_[queue[i]]; e != kNoEdge; e = next_[e]) {
      ++steps_;
      if (capacity_[e] == 0 || level_[to_[e]] != UINT32_MAX) continue;
      level_[to_[e]] = level_[queue[i]] + 1;
      queue.push_back(to_[e]);
    }
  }
  return level_[kSink] != UINT32_MAX;
}

// One path of the level graph, without recursion: graphs are as deep as models.
int64_t MaxFlow::Augment() {
  std::vector<uint32_t> path;  // edges
  uint32_t at = kSource;
  while (at != kSink) {
    uint32_t& e = current_[at];
    while (e != kNoEdge && (capacity_[e] == 0 || level_[to_[e]] != level_[at] + 1)) {
      ++steps_;
      e = next_[e];
    }
    if (e != kNoEdge) {
      path.push_back(e);
      at = to_[e];
      continue;
    }
    if (path.empty()) return 0;
    level_[at] = UINT32_MAX;  // a dead end
    at = to_[path.back() ^ 1];
    path.pop_back();
  }
  int64_t amount = kInfinite;
  for (const uint32_t e : path) amount = std::min(amount, capacity_[e]);
  for (const uint32_t e : path) {
    ++steps_;
    if (capacity_[e] < kInfinite) capacity_[e] -= amount;
    if (capacity_[e ^ 1] < kInfinite) capacity_[e ^ 1] += amount;
  }
  return amount;
}

int64_t MaxFlow::Run() {
  while (flow_ < kInfinite && BuildLevels()) {
    current_ = head_;
    while (const int64_t amount = Augment()) {
      flow_ += amount;
      if (flow_ >= kInfinite) break;
    }
  }
  return flow_;
}

std::vector<bool> MaxFlow::SourceSide() const {
  std::vector<bool> reaches(head_.size(), false);
  std::vector<uint32_t> queue = {kSink};
  reaches[kSink] = true;
  for (size_t i = 0; i < queue.size(); ++i) {
    for (uint32_t e = head_[queue[i]]; e != kNoEdge; e = next_[e]) {
      // The opposite edge leads from the neighbour here.
      if (capacity_[e ^ 1] == 0 || reaches[to_[e]]) continue;
      reaches[to_[e]] = true;
      queue.push_back(to_[e]);
    }
  }
  for (size_t i = 0; i < reaches.size(); ++i) reaches[i] = !reaches[i];
  return reaches;
}

void MaxFlow::Restore(const State& state) {
  while (to_.size() > state.edges) {
    const size_t edge = to_.size() - 2;
    head_[to_[edge + 1]] = next_[edge];
    head_[to_[edge]] = next_[edge + 1];
    to_.resize(edge);
    next_.resize(edge);
  }
  capacity_ = state.capacity;
  flow_ = state.flow;
}

}  // namespace halyard::place
