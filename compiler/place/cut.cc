// SPDX-License-Identifier: Apache-2.0
// Source side: the unit keeps its place. Sink side: it moves.
#include "compiler/place/cut.h"

#include <algorithm>
#include <map>

namespace halyard::place {
namespace {

constexpr uint32_t kKeep = MaxFlow::kSource, kMove = MaxFlow::kSink;

}  // namespace

ExpansionCut::ExpansionCut(const Core& core, const Assignment& start, uint32_t device)
    : core_(core), start_(start), device_(device), flow_(2) {
  AddUnits();
  for (const CoreTensor& tensor : core.tensors) AddTensor(tensor);
}

void ExpansionCut::AddUnits() {
  node_of_.resize(core_.units);
  for (uint32_t unit = 0; unit < core_.units; ++unit) {
    const Ticks keep = core_.CostOf(unit, start_[unit]), move = core_.CostOf(unit, device_);
    if (start_[unit] == device_ || keep >= kNever) {
      node_of_[unit] = kMove;
      constant_ += move;
    } else if (move >= kNever) {
      node_of_[unit] = kKeep;
      constant_ += keep;
    } else {
      node_of_[unit] = flow_.AddNode();
      // Only the difference matters: the smaller one is paid in any case.
      const Ticks least = std::min(keep, move);
      constant_ += least;
      flow_.AddEdge(node_of_[unit], kMove, keep - least);
      flow_.AddEdge(kKeep, node_of_[unit], move - least);
    }
  }
}

void ExpansionCut::AddTensor(const CoreTensor& tensor) {
  const bool is_input = tensor.producer == kNone;
  const uint32_t from = is_input ? core_.devices : start_[tensor.producer];
  const uint32_t maker = is_input ? kKeep : node_of_[tensor.producer];
  const TransferTable& table = core_.tables[tensor.table];
  const auto cost = [&](uint32_t a, uint32_t b) { return a == b ? 0 : table.Total(a, b); };

  // To `device_`: paid when the maker keeps its place and any reader is on `device_`.
  std::vector<uint32_t> readers;
  bool any_moves = tensor.is_output && core_.home == device_;
  for (const uint32_t consumer : tensor.consumers) {
    any_moves |= node_of_[consumer] == kMove;
    if (node_of_[consumer] >= 2) readers.push_back(node_of_[consumer]);
  }
  const Ticks there = from == device_ ? 0 : cost(from, device_);
  if (any_moves) {
    flow_.AddEdge(maker, kMove, there);
  } else if (readers.size() == 1) {
    flow_.AddEdge(maker, readers[0], there);
  } else if (!readers.empty()) {
    const uint32_t gadget = flow_.AddNode();
    flow_.AddEdge(maker, gadget, there);
    for (const uint32_t reader : readers) flow_.AddEdge(gadget, reader, MaxFlow::kInfinite);
  }

  // To each other device: paid when any of its readers keeps its place.
  struct Group {
    std::vector<uint32_t> readers;
    bool any_keeps = false;
  };
  std::map<uint32_t, Group> groups;
  for (const uint32_t consumer : tensor.consumers) {
    if (start_[consumer] == device_ || node_of_[consumer] == kMove) continue;
    Group& group = groups[start_[consumer]];
    group.any_keeps |= node_of_[consumer] == kKeep;
    if (node_of_[consumer] >= 2) group.readers.push_back(node_of_[consumer]);
  }
  if (tensor.is_output && core_.home != device_) groups[core_.home].any_keeps = true;
  for (const auto& [to, group] : groups) {
    const Ticks kept = cost(from, to), moved = cost(device_, to);
    if (group.any_keeps) {
      flow_.AddEdge(maker, kMove, maker == kMove ? 0 : kept);
      flow_.AddEdge(kKeep, maker, maker == kKeep ? 0 : moved);
      continue;
    }
    uint32_t gadget = group.readers[0];
    if (group.readers.size() > 1) {
      gadget = flow_.AddNode();
      for (const uint32_t reader : group.readers) {
        flow_.AddEdge(reader, gadget, MaxFlow::kInfinite);
      }
    }
    if (maker == kKeep) {
      flow_.AddEdge(gadget, kMove, kept);
    } else if (maker == kMove) {
      flow_.AddEdge(gadget, kMove, moved);
    } else {
      flow_.AddEdge(gadget, kMove, kept);
      flow_.AddEdge(gadget, maker, std::max(moved, kept) - kept);
    }
  }
}

Assignment ExpansionCut::Solve() {
  cost_ = flow_.Run() + constant_;
  solved_ = flow_.Save();
  const std::vector<bool> keeps = flow_.SourceSide();
  Assignment at = start_;
  for (uint32_t unit = 0; unit < core_.units; ++unit) {
    const bool moves = node_of_[unit] == kMove || (node_of_[unit] >= 2 && !keeps[node_of_[unit]]);
    if (moves) at[unit] = device_;
  }
  return at;
}

std::optional<Ticks> ExpansionCut::CostWith(uint32_t unit, bool moves) {
  const uint32_t node = node_of_[unit];
  if (node < 2) {
    if ((node == kMove) == moves) return cost_;
    return std::nullopt;
  }
  if (moves) {
    flow_.AddEdge(node, kMove, MaxFlow::kInfinite);
  } else {
    flow_.AddEdge(kKeep, node, MaxFlow::kInfinite);
  }
  const int64_t flow = flow_.Run();
  flow_.Restore(solved_);
  if (flow >= MaxFlow::kInfinite) return std::nullopt;
  return flow + constant_;
}

}  // namespace halyard::place
