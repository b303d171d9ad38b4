// SPDX-License-Identifier: Apache-2.0
// The machine's words, its check and its merge with what was measured. Defaults are in
// default_machine.cc, the text form in machine_text.cc.
#include "compiler/place/machine.h"

#include <cmath>
#include <set>

#include "base/hash.h"

namespace halyard::place {
namespace {

constexpr size_t kMaxDevices = 32;
constexpr size_t kMaxLinks = 4096;
constexpr size_t kMaxEntries = 256;  // rates, levels, fits, points: each
constexpr double kMaxSeconds = 10;
constexpr double kMaxRate = 1e21;

Status CheckReal(double value, double lowest, double highest, std::string_view what) {
  if (std::isfinite(value) && value >= lowest && value <= highest) return OkStatus();
  return InvalidArgument("{} is {}; it must lie in [{}, {}].", what, value, lowest, highest);
}

Status CheckNumber(const Number& number, double lowest, double highest, std::string_view what) {
  HY_TRY(CheckReal(number.value, lowest, highest, what));
  return CheckReal(number.sigma, 0, 10, fmt::format("The sigma of {}", what));
}

Status CheckCount(size_t count, size_t highest, std::string_view what) {
  if (count <= highest) return OkStatus();
  return InvalidArgument("There are {} {}; {} are allowed.", count, what, highest);
}

// `kind`: "fit", "cold fit".
Status CheckFits(const std::vector<Fit>& fits, std::string_view kind, const std::string& who) {
  HY_TRY(CheckCount(fits.size(), kMaxEntries, fmt::format("{}s of {}", kind, who)));
  for (const Fit& fit : fits) {
    const std::string what =
        fmt::format("The {} of {} of {}", kind, FormatOpClass(fit.op_class), who);
    HY_TRY(CheckReal(fit.sigma, 0, 10, fmt::format("{}: the sigma", what)));
    if (fit.points.empty()) return InvalidArgument("{} has no points.", what);
    HY_TRY(CheckCount(fit.points.size(), kMaxEntries, fmt::format("points in a fit of {}", who)));
    double before = -1;
    for (const FitPoint& point : fit.points) {
      HY_TRY(CheckReal(point.work, 0, 64, fmt::format("{}: the size of a point", what)));
      HY_TRY(CheckReal(point.factor, 1e-3, 1e4, fmt::format("{}: a factor", what)));
      if (point.work <= before) {
        return InvalidArgument("{}: point {} stands after point {}.", what, point.work, before);
      }
      before = point.work;
    }
  }
  return OkStatus();
}

Status CheckDevice(const Device& device, size_t memory_count) {
  const std::string who = fmt::format("device '{}'", device.name);
  if (device.name.empty()) return InvalidArgument("A device of the machine has no name.");
  if (device.memory >= memory_count) {
    return InvalidArgument("The memory of {} is {}; the machine has {}.", who, device.memory,
                           memory_count);
  }
  HY_TRY(CheckNumber(device.dispatch_seconds, 0, kMaxSeconds,
                     fmt::format("The dispatch time of {}", who)));
  HY_TRY(CheckNumber(device.submit_seconds, 0, kMaxSeconds,
                     fmt::format("The submission time of {}", who)));
  HY_TRY(CheckNumber(device.wait_seconds, 0, kMaxSeconds, fmt::format("The wait time of {}", who)));
  HY_TRY(CheckCount(device.rates.size(), kMaxEntries, fmt::format("rates of {}", who)));
  HY_TRY(CheckCount(device.levels.size(), kMaxEntries, fmt::format("memory levels of {}", who)));
  HY_TRY(CheckFits(device.fits, "fit", who));
  HY_TRY(CheckFits(device.cold_fits, "cold fit", who));
  HY_TRY(CheckCount(device.interpreted.size(), kMaxEntries,
                    fmt::format("interpreted classes of {}", who)));
  for (const InterpretedRate& rate : device.interpreted) {
    const std::string what =
        fmt::format("of interpreted {} ops of {}", FormatOpClass(rate.op_class), who);
    HY_TRY(CheckNumber(rate.start_seconds, 0, kMaxSeconds, "The start time " + what));
    HY_TRY(CheckNumber(rate.unit_seconds, 0, kMaxSeconds, "The time of a unit " + what));
  }
  for (const Rate& rate : device.rates) {
    HY_TRY(CheckNumber(rate.flops_per_second, 1, kMaxRate,
                       fmt::format("The {} rate in {} of {}", FormatOpClass(rate.op_class),
                                   FormatDType(rate.dtype), who)));
  }
  if (device.levels.empty()) return InvalidArgument("There is no memory level of {}.", who);
  int64_t smaller = 0;
  for (const Level& level : device.levels) {
    HY_TRY(CheckNumber(level.bytes_per_second, 1, kMaxRate,
                       fmt::format("The bandwidth of level '{}' of {}", level.name, who)));
    if (level.bytes < smaller) {
      return InvalidArgument("Level '{}' of {} has {} bytes; the one before it has {}.", level.name,
                             who, level.bytes, smaller);
    }
    smaller = level.bytes;
  }
  return OkStatus();
}

Status CheckLink(const Link& link, size_t memory_count) {
  if (link.from >= memory_count || link.to >= memory_count || link.from == link.to) {
    return InvalidArgument(
        "A link leads from memory {} to memory {}; it must join two of the {} memories.", link.from,
        link.to, memory_count);
  }
  const std::string what = fmt::format("The link from memory {} to memory {}", link.from, link.to);
  HY_TRY(CheckNumber(link.latency_seconds, 0, kMaxSeconds, fmt::format("{}: the latency", what)));
  HY_TRY(CheckNumber(link.crossing_seconds, 0, kMaxSeconds, fmt::format("{}: the crossing", what)));
  HY_TRY(CheckReal(link.sigma, 0, 10, fmt::format("{}: the sigma", what)));
  if (link.curve.empty()) return InvalidArgument("{} has no bandwidth.", what);
  HY_TRY(CheckCount(link.curve.size(), kMaxEntries, "points in a link's curve"));
  HY_TRY(CheckCount(link.caller_curve.size(), kMaxEntries, "points in a link's curve"));
  for (const auto* curve : {&link.curve, &link.caller_curve}) {
    int64_t before = 0;
    for (const CurvePoint& point : *curve) {
      if (point.bytes <= before) {
        return InvalidArgument("{}: the point of {} bytes stands after that of {}.", what,
                               point.bytes, before);
      }
      HY_TRY(CheckReal(point.bytes_per_second, 1, kMaxRate, fmt::format("{}: a bandwidth", what)));
      before = point.bytes;
    }
  }
  return OkStatus();
}

}  // namespace

std::string_view FormatSource(Source source) {
  constexpr std::string_view kNames[] = {"default", "table", "fitted", "measured"};
  return kNames[static_cast<size_t>(source)];
}

double StartSigma(Source source) {
  constexpr double kSigmas[] = {0.6, 0.6, 0.25, 0.05};
  return kSigmas[static_cast<size_t>(source)];
}

std::string_view FormatOpClass(OpClass op_class) {
  constexpr std::string_view kNames[kOpClassCount] = {"pointwise",   "reduction", "contraction",
                                                      "convolution", "attention", "indexing",
                                                      "ordering",    "control"};
  return kNames[static_cast<size_t>(op_class)];
}

std::string_view FormatPathKind(PathKind kind) {
  constexpr std::string_view kNames[] = {"native", "import", "peer", "pinned", "pageable"};
  return kNames[static_cast<size_t>(kind)];
}

uint64_t Machine::Hash() const { return HashString(FormatMachine(*this)); }

Status VerifyMachine(const Machine& machine) {
  HY_TRY(CheckCount(machine.devices.size(), kMaxDevices, "devices"));
  HY_TRY(CheckCount(machine.memories.size(), kMaxDevices + 1, "memories"));
  HY_TRY(CheckCount(machine.links.size(), kMaxLinks, "links"));
  if (machine.home >= machine.memories.size()) {
    return InvalidArgument("The home memory is {}; the machine has {} memories.", machine.home,
                           machine.memories.size());
  }
  for (const Memory& memory : machine.memories) {
    if (memory.bytes < 0) {
      return InvalidArgument("Memory '{}' has {} bytes.", memory.name, memory.bytes);
    }
  }
  std::set<std::string_view> names;
  for (const Device& device : machine.devices) {
    HY_TRY(CheckDevice(device, machine.memories.size()));
    if (!names.insert(device.name).second) {
      return InvalidArgument("The machine has two devices '{}'.", device.name);
    }
  }
  std::set<std::pair<uint32_t, uint32_t>> pairs;
  for (const Link& link : machine.links) {
    HY_TRY(CheckLink(link, machine.memories.size()));
    if (!pairs.emplace(link.from, link.to).second) {
      return InvalidArgument("Two links lead from memory {} to memory {}.", link.from, link.to);
    }
  }
  return OkStatus();
}

int64_t CacheBytes(const Device& device) {
  // What a device keeps that tells no caches, as software devices do.
  constexpr int64_t kUnknownBytes = 32 << 20;
  const size_t levels = device.levels.size();
  return levels > 1 ? device.levels[levels - 2].bytes : kUnknownBytes;
}

int64_t KeptBytes(const Device& device) {
  return device.kind == TargetKind::kCpu ? CacheBytes(device) : CacheBytes(device) / 2;
}

Machine MergeMeasured(const Machine& defaults, const Machine& measured,
                      std::vector<std::string>* notes) {
  Machine out = defaults;
  // Memory of `measured` -> of the result.
  std::vector<uint32_t> memory_of(measured.memories.size(), kNone);
  if (measured.home < memory_of.size()) memory_of[measured.home] = out.home;
  bool any = false;
  for (Device& device : out.devices) {
    const Device* found = nullptr;
    for (const Device& other : measured.devices) {
      if (other.name == device.name) found = &other;
    }
    if (found == nullptr || found->identity != device.identity) {
      if (notes != nullptr) {
        notes->push_back(
            found == nullptr
                ? fmt::format("Device '{}' was never measured; its costs are defaults.",
                              device.name)
                : fmt::format("The measurements of '{}' are of another device ('{}', now '{}'); "
                              "its costs are defaults.",
                              device.name, found->identity, device.identity));
      }
      continue;
    }
    any = true;
    const uint32_t memory = device.memory, silicon = device.silicon;
    memory_of[found->memory] = memory;
    device = *found;
    device.memory = memory;
    device.silicon = silicon;
  }
  if (!any) return out;
  out.snapshot = measured.snapshot;
  out.load = measured.load;
  for (size_t m = 0; m < memory_of.size(); ++m) {
    if (memory_of[m] != kNone && measured.memories[m].bytes > 0) {
      out.memories[memory_of[m]].bytes = measured.memories[m].bytes;
    }
  }
  for (Link link : measured.links) {
    link.from = memory_of[link.from];
    link.to = memory_of[link.to];
    if (link.from == kNone || link.to == kNone || link.from == link.to) continue;
    std::erase_if(out.links,
                  [&](const Link& old) { return old.from == link.from && old.to == link.to; });
    out.links.push_back(std::move(link));
  }
  return out;
}

}  // namespace halyard::place
