// SPDX-License-Identifier: Apache-2.0
// Random placement problems and the truth about them: all assignments, one by one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "compiler/place/core.h"
#include "compiler/place/problem.h"
#include "compiler/place/simulate.h"

namespace halyard::place {

// Device 0 is a CPU at home in host memory, the others have a memory of their own; links from and
// to the host, and between devices where `peers`.
inline Machine MakeMachine(uint32_t devices, bool peers = false) {
  const auto measured = [](double value) { return Number{value, Source::kMeasured, 0.05}; };
  Machine machine;
  machine.snapshot = 1;
  machine.memories.push_back({"host", 0});
  for (uint32_t d = 0; d < devices; ++d) {
    Device device;
    device.name = d == 0 ? "cpu:0" : fmt::format("gpu:{}", d - 1);
    device.identity = fmt::format("test device {}", d);
    device.kind = d == 0 ? TargetKind::kCpu : TargetKind::kCuda;
    device.silicon = d;
    device.dispatch_seconds = measured(d == 0 ? 1e-6 : 3e-6);
    device.submit_seconds = measured(d == 0 ? 1e-6 : 6e-6);
    device.wait_seconds = measured(d == 0 ? 1e-6 : 8e-6);
    device.rates.push_back(
        {OpClass::kContraction, DType::kF32, measured(d == 0 ? 1e11 : 2e12 * d)});
    device.rates.push_back({OpClass::kPointwise, DType::kF32, measured(d == 0 ? 2e10 : 5e11)});
    device.levels.push_back({"memory", int64_t{1} << 50, measured(d == 0 ? 2e10 : 4e11)});
    if (d > 0) {
      device.memory = d;
      machine.memories.push_back({device.name, 0});
    }
    machine.devices.push_back(std::move(device));
  }
  const auto add_link = [&](uint32_t from, uint32_t to, double latency, double rate) {
    Link link;
    link.from = from;
    link.to = to;
    link.engine = static_cast<uint32_t>(machine.links.size());
    link.path = PathKind::kPinned;
    link.latency_seconds = measured(latency);
    link.curve = {{4096, rate / 4}, {1 << 20, rate}};
    link.source = Source::kMeasured;
    link.sigma = 0.05;
    machine.links.push_back(std::move(link));
  };
  for (uint32_t d = 1; d < devices; ++d) {
    add_link(0, d, 1e-5, 1e10);
    add_link(d, 0, 1e-5, 8e9);
    for (uint32_t other = 1; other < d && peers; ++other) {
      add_link(d, other, 5e-6, 2e10);
      add_link(other, d, 5e-6, 2e10);
    }
  }
  return machine;
}

struct RandomShape {
  uint32_t devices = 2;
  uint32_t items = 8;
  double infeasible = 0.12;  // chance that a device other than the CPU cannot
  bool unequal_links = true;
  bool weights = false;
};

// Items of 1 us to 1 ms, tensors of 1 KiB to 4 MiB, one to three inputs each.
inline Problem MakeRandomProblem(std::mt19937& random, const RandomShape& shape) {
  const auto chance = [&](double p) {
    return std::uniform_real_distribution<double>(0, 1)(random) < p;
  };
  const auto log_uniform = [&](double lowest, double highest) {
    return lowest *
           std::pow(highest / lowest, std::uniform_real_distribution<double>(0, 1)(random));
  };
  Problem problem;
  problem.machine = MakeMachine(shape.devices, chance(0.5));
  if (shape.unequal_links) {
    for (Link& link : problem.machine.links) {
      link.latency_seconds.value = log_uniform(2e-6, 5e-5);
      const double rate = log_uniform(2e9, 5e10);
      link.curve = {{4096, rate / 4}, {1 << 20, rate}};
    }
  }
  problem.hysteresis = false;
  for (uint32_t i = 0; i < shape.items; ++i) {
    Item item;
    item.name = fmt::format("node{}", i);
    item.key = i;
    const double base = log_uniform(1e-6, 1e-3);
    for (uint32_t d = 0; d < shape.devices; ++d) {
      Cost cost;
      cost.seconds = base * log_uniform(0.2, 5);
      cost.sigma = 0.05;
      cost.source = Source::kMeasured;
      if (d > 0 && chance(shape.infeasible)) cost.reason = Reason::kOp;
      item.costs.push_back(cost);
    }
    if (shape.weights) {
      item.weights.push_back(i);
      problem.weights.push_back({static_cast<int64_t>(log_uniform(1 << 10, 1 << 22))});
    }
    Tensor tensor;
    tensor.name = fmt::format("value{}", i);
    tensor.bytes = static_cast<int64_t>(log_uniform(1 << 10, 1 << 22));
    tensor.producer = i;
    problem.tensors.push_back(std::move(tensor));
    problem.items.push_back(std::move(item));
  }
  Tensor input;
  input.name = "input";
  input.bytes = static_cast<int64_t>(log_uniform(1 << 10, 1 << 22));
  for (uint32_t i = 0; i < shape.items; ++i) {
    const int inputs = std::uniform_int_distribution<int>(1, 3)(random);
    for (int n = 0; n < inputs; ++n) {
      const auto from = std::uniform_int_distribution<int>(-1, static_cast<int>(i) - 1)(random);
      std::vector<uint32_t>& consumers =
          from < 0 ? input.consumers : problem.tensors[static_cast<size_t>(from)].consumers;
      if (consumers.empty() || consumers.back() != i) consumers.push_back(i);
    }
  }
  for (Tensor& tensor : problem.tensors)
    tensor.is_output = tensor.consumers.empty() || chance(0.05);
  problem.tensors.push_back(std::move(input));
  return problem;
}

// The additive objective written anew from its definition, in seconds: what the core is checked by.
inline double AdditiveByDefinition(const Problem& problem, const std::vector<uint32_t>& at) {
  const TransferModel model(problem.machine);
  double total = 0;
  for (size_t i = 0; i < at.size(); ++i) {
    const Cost& cost = problem.items[i].costs[at[i]];
    if (!cost.feasible()) return std::numeric_limits<double>::infinity();
    total += cost.seconds * problem.items[i].executions;
  }
  for (const Tensor& tensor : problem.tensors) {
    const uint32_t from = tensor.producer == kNone ? kNone : at[tensor.producer];
    std::vector<uint32_t> paid;
    const auto pay = [&](uint32_t to) {
      if (to == from || std::find(paid.begin(), paid.end(), to) != paid.end()) return;
      paid.push_back(to);
      // An output ends in the caller's memory; no kernel at home waits for it.
      const uint32_t end = tensor.is_output && to == model.home_device() ? kNone : to;
      total += model.Estimate(from, end, tensor.bytes).seconds() * tensor.executions;
    };
    for (const uint32_t consumer : tensor.consumers) pay(at[consumer]);
    if (tensor.is_output) pay(model.home_device());
  }
  return total;
}

// Calls `visit` with every assignment of devices to items.
template <typename Visit>
void ForAllAssignments(uint32_t items, uint32_t devices, const Visit& visit) {
  std::vector<uint32_t> at(items, 0);
  while (true) {
    visit(at);
    uint32_t i = 0;
    while (i < items && ++at[i] == devices) at[i++] = 0;
    if (i == items) return;
  }
}

inline double BruteForce(const Problem& problem) {
  double best = std::numeric_limits<double>::infinity();
  ForAllAssignments(static_cast<uint32_t>(problem.items.size()),
                    static_cast<uint32_t>(problem.machine.devices.size()),
                    [&](const std::vector<uint32_t>& at) {
                      best = std::min(best, AdditiveByDefinition(problem, at));
                    });
  return best;
}

}  // namespace halyard::place
