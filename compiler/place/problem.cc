// SPDX-License-Identifier: Apache-2.0
#include "compiler/place/problem.h"

#include <cmath>
#include <iterator>

#include "compiler/place/tensor_limit.h"
#include "compiler/place/text_lines.h"
#include "compiler/place/transfer.h"

namespace halyard::place {
namespace {

constexpr size_t kMaxItems = 1 << 20;
constexpr double kMaxExecutions = 1e9;

bool IsIn(double value, double lowest, double highest) {
  return std::isfinite(value) && value >= lowest && value <= highest;
}

}  // namespace

std::string_view FormatReason(Reason reason) {
  constexpr std::string_view kNames[] = {"none",   "op",        "dtype",       "attribute", "shape",
                                         "target", "forbidden", "last_resort", "memory"};
  return kNames[static_cast<size_t>(reason)];
}

Status VerifyProblem(const Problem& problem) {
  HY_TRY(VerifyMachine(problem.machine));
  const size_t devices = problem.machine.devices.size();
  if (devices == 0) return InvalidArgument("The machine has no device; placement needs one.");
  if (problem.items.size() > kMaxItems) {
    return InvalidArgument("There are {} items to place; {} are allowed.", problem.items.size(),
                           kMaxItems);
  }
  const TransferModel model(problem.machine);
  for (uint32_t from = 0; from <= devices; ++from) {
    for (uint32_t to = 0; to <= devices; ++to) {
      const uint32_t a = from == devices ? kNone : from, b = to == devices ? kNone : to;
      if (std::isfinite(model.Estimate(a, b, 1).copy_seconds)) continue;
      const auto name = [&](uint32_t d) {
        return problem.machine
            .memories[d == kNone ? problem.machine.home : problem.machine.devices[d].memory]
            .name;
      };
      return InvalidArgument("No link leads from memory '{}' to memory '{}'.", name(a), name(b));
    }
  }
  for (const Item& item : problem.items) {
    if (item.costs.size() != devices) {
      return InvalidArgument("Item '{}' has {} costs for {} devices.", item.name, item.costs.size(),
                             devices);
    }
    for (const Cost& cost : item.costs) {
      if (!IsIn(cost.seconds, 0, 1e6) || !IsIn(cost.sigma, 0, 100)) {
        return InvalidArgument("A cost of item '{}' is {} s with sigma {}.", item.name,
                               cost.seconds, cost.sigma);
      }
    }
    if (!IsIn(item.executions, 0, kMaxExecutions)) {
      return InvalidArgument("Item '{}' runs {} times; {} are allowed.", item.name, item.executions,
                             kMaxExecutions);
    }
    for (const uint32_t weight : item.weights) {
      if (weight >= problem.weights.size()) {
        return InvalidArgument("Item '{}' has weight {}; there are {}.", item.name, weight,
                               problem.weights.size());
      }
    }
  }
  for (const Tensor& tensor : problem.tensors) {
    const bool producer_ok = tensor.producer == kNone || tensor.producer < problem.items.size();
    if (!producer_ok || tensor.bytes < 0 || tensor.bytes > kMostTensorBytes ||
        !IsIn(tensor.executions, 0, kMaxExecutions)) {
      return InvalidArgument("Tensor '{}' has producer {}, {} bytes and {} executions.",
                             tensor.name, tensor.producer, tensor.bytes, tensor.executions);
    }
    uint32_t least = tensor.producer == kNone ? 0 : tensor.producer + 1;
    for (const uint32_t consumer : tensor.consumers) {
      if (consumer >= problem.items.size() || consumer < least) {
        return InvalidArgument(
            "Consumer {} of tensor '{}' is out of order; there are {} items and it must be at "
            "least {}.",
            consumer, tensor.name, problem.items.size(), least);
      }
      least = consumer + 1;
    }
  }
  for (const Weight& weight : problem.weights) {
    if (weight.bytes >= 0 && weight.bytes <= kMostTensorBytes) continue;
    return InvalidArgument("A weight has {} bytes; {} are allowed.", weight.bytes,
                           kMostTensorBytes);
  }
  for (const Constraint& constraint : problem.constraints) {
    if (constraint.item >= problem.items.size() || constraint.device >= devices) {
      return InvalidArgument("A constraint names item {} and device {}; there are {} and {}.",
                             constraint.item, constraint.device, problem.items.size(), devices);
    }
  }
  if (!problem.memory_caps.empty() &&
      problem.memory_caps.size() != problem.machine.memories.size()) {
    return InvalidArgument("There are {} memory caps for {} memories.", problem.memory_caps.size(),
                           problem.machine.memories.size());
  }
  if (!problem.last_resort.empty() && problem.last_resort.size() != devices) {
    return InvalidArgument("There are {} marks of last resort for {} devices.",
                           problem.last_resort.size(), devices);
  }
  if (!problem.previous.empty() && problem.previous.size() != problem.items.size()) {
    return InvalidArgument("The previous plan has {} items; the problem has {}.",
                           problem.previous.size(), problem.items.size());
  }
  for (const uint32_t device : problem.previous) {
    if (device >= devices) {
      return InvalidArgument("The previous plan names device {}; there are {}.", device, devices);
    }
  }
  if (!IsIn(problem.preference, 0, 1e6)) {
    return InvalidArgument("A preference is worth {}; it must lie in [0, 1e6].",
                           problem.preference);
  }
  return OkStatus();
}

std::string FormatProblem(const Problem& problem) {
  std::string out;
  const auto to = std::back_inserter(out);
  for (size_t i = 0; i < problem.items.size(); ++i) {
    const Item& item = problem.items[i];
    fmt::format_to(to, "item {} {} {} key {:016x} nodes {} runs {}", i, QuoteText(item.name),
                   FormatOpClass(item.work.op_class), item.key, item.nodes.size(), item.executions);
    if (item.group != kNone) fmt::format_to(to, " group {}", item.group);
    for (const Cost& cost : item.costs) {
      fmt::format_to(to, " | {} {:.4g} us {}", FormatReason(cost.reason), cost.seconds * 1e6,
                     FormatSource(cost.source));
    }
    out += '\n';
  }
  for (const Tensor& tensor : problem.tensors) {
    const std::string producer =
        tensor.producer == kNone ? "input" : fmt::format("{}", tensor.producer);
    fmt::format_to(to, "tensor {} {} bytes {} ->{}{}\n", QuoteText(tensor.name), tensor.bytes,
                   producer, tensor.is_output ? " output" : "",
                   fmt::format(" {}", fmt::join(tensor.consumers, " ")));
  }
  return out;
}

}  // namespace halyard::place
