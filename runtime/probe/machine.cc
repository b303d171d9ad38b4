// SPDX-License-Identifier: Apache-2.0
#include "runtime/probe/machine.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <span>

#include "compiler/place/cost.h"
#include "runtime/probe/store.h"

namespace halyard::runtime {
namespace {

constexpr double kLeastSigma = 0.02;  // no two runs agree better
// What convolutions and attention reach of the rate of products; the defaults have the same parts.
constexpr double kConvolutionPart = 0.83, kAttentionPart = 0.67;
constexpr int64_t kUnlimited = int64_t{1} << 50;

// MAD times 1.4826 estimates the deviation of normal samples.
double SigmaOf(const Spread& spread) {
  if (spread.median <= 0) return 0.25;
  return std::clamp(1.4826 * spread.mad / spread.median, kLeastSigma, 1.0);
}

place::Number NumberOf(double value, const Spread& spread) {
  return {value, place::Source::kMeasured, SigmaOf(spread)};
}

void SetCost(const DeviceProbe& probe, ReadingKind kind, place::Number* out) {
  for (const Reading& reading : probe.readings) {
    if (reading.kind == kind && reading.seconds.median > 0) {
      *out = NumberOf(reading.seconds.median, reading.seconds);
    }
  }
}

// The best of several readings of one kind, because a device reaches it.
template <typename Keep>
const Reading* FindBest(const DeviceProbe& probe, const Keep& keep) {
  const Reading* best = nullptr;
  for (const Reading& reading : probe.readings) {
    if (keep(reading) && (!best || reading.Rate() > best->Rate())) best = &reading;
  }
  return best;
}

void SetRates(const DeviceProbe& probe, place::Device* device) {
  std::map<DType, const Reading*> best;
  for (const Reading& reading : probe.readings) {
    if (reading.kind != ReadingKind::kMatmul || reading.Rate() <= 0) continue;
    const Result<DType> dtype = ParseDType(reading.dtype);
    if (!dtype.ok()) continue;
    const Reading*& at = best[*dtype];
    if (!at || reading.Rate() > at->Rate()) at = &reading;
  }
  for (const auto& [dtype, reading] : best) {
    for (const place::OpClass op_class :
         {place::OpClass::kContraction, place::OpClass::kConvolution, place::OpClass::kAttention}) {
      const auto same = [&, d = dtype](const place::Rate& rate) {
        return rate.op_class == op_class && rate.dtype == d;
      };
      const auto at = std::find_if(device->rates.begin(), device->rates.end(), same);
      place::Number number = NumberOf(reading->Rate(), reading->seconds);
      if (op_class != place::OpClass::kContraction) {
        number.value *=
            op_class == place::OpClass::kConvolution ? kConvolutionPart : kAttentionPart;
        number.source = place::Source::kFitted;
        number.sigma = std::max(number.sigma, place::StartSigma(place::Source::kFitted));
      }
      if (at == device->rates.end()) {
        device->rates.push_back({op_class, dtype, number});
      } else {
        at->flops_per_second = number;
      }
    }
  }
}

// What kernels of that kind took over what the roofline says, of the rates and levels that are
// there.
std::vector<place::Fit> FitsOf(const DeviceProbe& probe, ReadingKind kind,
                               const place::Device& device) {
  std::vector<place::Sample> samples;
  for (const Reading& reading : probe.readings) {
    const Result<DType> dtype = ParseDType(reading.dtype);
    if (!dtype.ok()) continue;
    place::Sample sample;
    sample.work.dtype = *dtype;
    sample.work.flops = reading.operations;
    sample.work.bytes = static_cast<double>(reading.bytes);
    sample.seconds = reading.seconds.median;
    if (reading.kind == ReadingKind::kMatmul) {
      sample.work.op_class = place::OpClass::kContraction;
      sample.work.rows = sample.work.columns = static_cast<double>(reading.size);
      sample.work.results = sample.work.rows * sample.work.columns;
      // The rate is theirs: at their size there is nothing to correct.
      sample.seconds = place::Roofline(device, sample.work).value;
      samples.push_back(sample);
    } else if (reading.kind == kind) {
      for (size_t c = 0; c < place::kOpClassCount; ++c) {
        sample.work.op_class = static_cast<place::OpClass>(c);
        if (place::FormatOpClass(sample.work.op_class) == reading.op_class) break;
      }
      sample.work.results = static_cast<double>(reading.results);
      sample.work.rows = static_cast<double>(reading.rows);
      sample.work.columns = static_cast<double>(reading.columns);
      samples.push_back(sample);
    }
  }
  return place::FitEfficiency(device, samples);
}

void SetLevels(const DeviceProbe& probe, place::Device* device) {
  std::vector<place::Level> levels;
  std::set<std::string> seen;
  for (const Reading& reading : probe.readings) {
    const bool is_stream = reading.kind == ReadingKind::kRead ||
                           reading.kind == ReadingKind::kStream ||
                           reading.kind == ReadingKind::kTriad;
    if (!is_stream || reading.Rate() <= 0) continue;
    if (!seen.insert(reading.level).second) continue;
    // The triad, which reads and writes, says most of fused kernels.
    const Reading* triad = FindBest(probe, [&](const Reading& other) {
      return other.kind == ReadingKind::kTriad && other.level == reading.level;
    });
    const Reading& chosen = triad ? *triad : reading;
    std::string name = reading.level;
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    // A set fills half of its level.
    int64_t bytes = name == "memory" ? kUnlimited : 2 * reading.bytes;
    if (!levels.empty()) bytes = std::max(bytes, levels.back().bytes);
    levels.push_back({name, bytes, NumberOf(chosen.Rate(), chosen.seconds)});
  }
  if (levels.empty() || levels.back().name != "memory") return;
  device->levels = std::move(levels);
}

// Those that were measured, by rising size.
std::vector<const Reading*> FindCopies(const DeviceProbe& probe, const std::string& from,
                                       const std::string& to) {
  std::vector<const Reading*> copies;
  for (const Reading& reading : probe.readings) {
    if (reading.kind == ReadingKind::kCopy && reading.from == from && reading.to == to &&
        reading.seconds.median > 0) {
      copies.push_back(&reading);
    }
  }
  std::sort(copies.begin(), copies.end(),
            [](const Reading* a, const Reading* b) { return a->bytes < b->bytes; });
  return copies;
}

// What copies take beyond the smallest; where that is little of it, the difference is noise.
std::vector<place::CurvePoint> CurveOf(std::span<const Reading* const> copies, double smallest) {
  std::vector<place::CurvePoint> curve;
  for (const Reading* copy : copies) {
    const double rest = copy->seconds.median - smallest;
    if (rest >= 0.2 * smallest) {
      curve.push_back({copy->bytes, static_cast<double>(copy->bytes) / rest});
    }
  }
  return curve;
}

double MedianOf(const DeviceProbe& probe, ReadingKind kind) {
  for (const Reading& reading : probe.readings) {
    if (reading.kind == kind) return reading.seconds.median;
  }
  return 0;
}

// Of the smallest copy, as the host sees it from its call to the end, what is left beside the parts
// that the cost model counts by themselves: the wait for the end, and of what leaves the device the
// submission, which the host makes while kernels run. What comes in is submitted copy by copy.
double LatencyOf(const DeviceProbe& probe, const Reading& smallest) {
  double counted = MedianOf(probe, ReadingKind::kWait);
  if (smallest.from == "device") counted += MedianOf(probe, ReadingKind::kSubmit);
  const double least = std::min(smallest.seconds.median, MedianOf(probe, ReadingKind::kDispatch));
  return std::max(smallest.seconds.median - counted, least);
}

// Latency from the smallest copy; bandwidth of the larger ones from what they take longer.
bool FillLink(const DeviceProbe& probe, const std::string& from, const std::string& to,
              place::Link* link) {
  const std::vector<const Reading*> copies = FindCopies(probe, from, to);
  if (copies.size() < 2) return false;
  const double smallest = copies.front()->seconds.median;
  const double latency = LatencyOf(probe, *copies.front());
  std::vector<place::CurvePoint> curve = CurveOf(copies, smallest);
  if (curve.empty()) return false;
  double sigma = SigmaOf(copies.front()->seconds);
  bool is_verified = true;
  for (const Reading* copy : copies) {
    is_verified &= copy->is_verified;
    if (copy->bytes >= curve.front().bytes) sigma = std::max(sigma, SigmaOf(copy->seconds));
  }
  link->latency_seconds = NumberOf(latency, copies.front()->seconds);
  link->curve = std::move(curve);
  link->is_verified = is_verified;
  link->source = place::Source::kMeasured;
  link->sigma = std::min(sigma, 1.0);
  return true;
}

// With the host's copy from the caller's memory into page-locked memory.
void SetCallerCurve(const DeviceProbe& probe, place::Link* link) {
  const std::vector<const Reading*> pinned = FindCopies(probe, "pinned", "device");
  link->caller_curve =
      CurveOf(FindCopies(probe, "pageable", "device"), pinned.front()->seconds.median);
}

// Of each class the time of the smallest evaluation, and of the largest what each unit more takes.
void SetInterpreted(const DeviceProbe& probe, place::Device* device) {
  for (size_t c = 0; c < place::kOpClassCount; ++c) {
    const auto op_class = static_cast<place::OpClass>(c);
    const Reading *small = nullptr, *large = nullptr;
    const auto units = [&](const Reading& reading) {
      place::Work work;
      work.op_class = op_class;
      work.flops = reading.operations;
      work.bytes = static_cast<double>(reading.bytes);
      return work.InterpretedUnits();
    };
    for (const Reading& reading : probe.readings) {
      if (reading.kind != ReadingKind::kInterpreted ||
          reading.op_class != place::FormatOpClass(op_class) || reading.seconds.median <= 0) {
        continue;
      }
      if (small == nullptr || units(reading) < units(*small)) small = &reading;
      if (large == nullptr || units(reading) > units(*large)) large = &reading;
    }
    if (small == nullptr || units(*large) <= units(*small)) continue;
    const double more = std::max(0.0, large->seconds.median - small->seconds.median);
    device->interpreted.push_back(
        {op_class, NumberOf(small->seconds.median, small->seconds),
         NumberOf(more / (units(*large) - units(*small)), large->seconds)});
  }
}

// From the device's memory to that of another device, and back: a crossing is half of both.
void SetCrossing(const DeviceProbe& probe, const std::string& other, place::Link* link) {
  for (const Reading& reading : probe.readings) {
    if (reading.kind != ReadingKind::kCrossing || reading.to != other) continue;
    link->crossing_seconds = NumberOf(reading.seconds.median, reading.seconds);
  }
}

}  // namespace

place::Machine MeasuredMachine(const place::Machine& defaults, const ProbeReport& report) {
  place::Machine machine = defaults;
  std::map<uint32_t, const DeviceProbe*> by_memory;  // of devices with memory of their own
  for (place::Device& device : machine.devices) {
    const DeviceProbe* probe = report.Find(device.name, device.identity);
    if (!probe || probe->lacks == kAllParts) continue;
    machine.snapshot = report.snapshot;
    if ((probe->lacks & kLatencies) == 0) {
      SetCost(*probe, ReadingKind::kDispatch, &device.dispatch_seconds);
      SetCost(*probe, ReadingKind::kSubmit, &device.submit_seconds);
      SetCost(*probe, ReadingKind::kWait, &device.wait_seconds);
    }
    SetRates(*probe, &device);  // each dtype by itself
    if ((probe->lacks & kBandwidth) == 0) SetLevels(*probe, &device);
    device.fits = FitsOf(*probe, ReadingKind::kKernel, device);
    device.cold_fits = FitsOf(*probe, ReadingKind::kColdKernel, device);
    SetInterpreted(*probe, &device);
    if (device.memory != machine.home && (probe->lacks & kCopies) == 0) {
      by_memory[device.memory] = probe;
    }
    if (probe->before.load_average.known()) {
      machine.load = fmt::format("load average {:.2f}", probe->before.load_average.value);
    }
  }
  for (const auto& [from, probe] : by_memory) {
    for (const auto& [to, other] : by_memory) {
      const auto same = [&, f = from, t = to](const place::Link& link) {
        return link.from == f && link.to == t;
      };
      if (from == to || std::any_of(machine.links.begin(), machine.links.end(), same)) continue;
      place::Link link;
      link.from = from;
      link.to = to;
      link.engine = static_cast<uint32_t>(machine.links.size());
      if (FillLink(*probe, "device", other->path, &link)) machine.links.push_back(std::move(link));
    }
  }
  for (place::Link& link : machine.links) {
    const auto from = by_memory.find(link.from), to = by_memory.find(link.to);
    // Values move between a session's memory and the device through page-locked blocks.
    if (link.from == machine.home && to != by_memory.end()) {
      if (FillLink(*to->second, "pinned", "device", &link)) {
        link.path = place::PathKind::kPinned;
        SetCallerCurve(*to->second, &link);
      }
    } else if (link.to == machine.home && from != by_memory.end()) {
      if (FillLink(*from->second, "device", "pinned", &link)) {
        link.path = place::PathKind::kPinned;
      }
    } else if (from != by_memory.end() && to != by_memory.end()) {
      FillLink(*from->second, "device", to->second->path, &link);
    }
    for (const place::Device& a : machine.devices) {
      for (const place::Device& b : machine.devices) {
        const bool is_here = (a.memory == link.from && b.memory == link.to) ||
                             (a.memory == link.to && b.memory == link.from);
        const DeviceProbe* probe = is_here ? report.Find(a.name, a.identity) : nullptr;
        if (probe != nullptr) SetCrossing(*probe, b.name, &link);
      }
    }
  }
  return machine;
}

place::Machine StoredMachine(std::span<const program::Device> devices,
                             const std::string& cache_folder, std::vector<std::string>* notes,
                             std::span<const std::string> opened_as) {
  const place::Machine defaults = place::DefaultMachine(devices);
  if (cache_folder.empty()) return defaults;
  const auto report = LoadProbes(cache_folder);
  if (!report.ok()) {
    notes->push_back(
        fmt::format("stored probes are not used, placement takes defaults until `halyard devices "
                    "--probe` has measured anew: {}",
                    report.status().ToLine()));
    return defaults;
  }
  for (size_t d = 0; d < defaults.devices.size(); ++d) {
    const place::Device& device = defaults.devices[d];
    const DeviceProbe* probe = report->Find(device.name, device.identity);
    const std::string path = opened_as.empty() ? device.name : opened_as[d];
    const char* quote = path.find_first_of("?&") == std::string::npos ? "" : "'";  // of the shell
    if (probe == nullptr) {
      const auto other =
          std::find_if(report->devices.begin(), report->devices.end(),
                       [&](const DeviceProbe& stored) { return stored.path == device.name; });
      if (other == report->devices.end()) continue;
      notes->push_back(fmt::format(
          "the stored probe of '{}' is of another device ({}); placement takes defaults "
          "until `halyard devices --probe {}{}{}` has measured this one",
          device.name, other->identity, quote, path, quote));
      continue;
    }
    // Copies inside the host's memory are of no use to placement.
    const uint32_t lacks = probe->lacks & ~(device.memory == defaults.home ? uint32_t{kCopies} : 0);
    // A first probe is short by design, which was told when it was made.
    if (lacks == 0 || probe->is_first_use) continue;
    notes->push_back(
        fmt::format("the stored probe of '{}' lacks {}; placement takes defaults for that until "
                    "`halyard devices --probe --seconds 60 {}{}{}` has measured it",
                    device.name, FormatParts(lacks), quote, path, quote));
  }
  place::Machine measured = MeasuredMachine(defaults, *report);
  if (const Status sound = place::VerifyMachine(measured); !sound.ok()) {
    notes->push_back(fmt::format("stored probes are not used: {}", sound.message()));
    return defaults;
  }
  return measured;
}

}  // namespace halyard::runtime
