// SPDX-License-Identifier: Apache-2.0
// What placement assumes of a device that nobody measured: round numbers from data sheets and from
// docs/performance.md. They are meant to put devices in the right order, no more; their sigma says
// so.
#include <algorithm>
#include <cctype>

#include "compiler/place/machine.h"
#include "compiler/program/program.h"

namespace halyard::place {
namespace {

Number Guess(double value) { return {value, Source::kDefault, StartSigma(Source::kDefault)}; }
Number Table(double value) { return {value, Source::kTable, StartSigma(Source::kTable)}; }

// What part of the multiply-add peak our kernels of a class reach, and what a pointwise op of a
// body costs beside a multiply-add (transcendentals count as one).
constexpr double kContractionPart = 0.6, kConvolutionPart = 0.5, kAttentionPart = 0.4;
constexpr double kPointwisePart = 0.1, kReductionPart = 0.1, kIndexingPart = 0.05,
                 kOrderingPart = 0.005, kControlPart = 0.001;

constexpr int32_t kMostUnits = 4096;

void AddRates(Device& device, DType dtype, double contraction_peak, double scalar_peak,
              Number (*number)(double)) {
  const auto add = [&](OpClass op_class, double value) {
    device.rates.push_back({op_class, dtype, number(std::max(1e6, value))});
  };
  add(OpClass::kContraction, contraction_peak * kContractionPart);
  add(OpClass::kConvolution, contraction_peak * kConvolutionPart);
  add(OpClass::kAttention, contraction_peak * kAttentionPart);
  add(OpClass::kPointwise, scalar_peak * kPointwisePart);
  add(OpClass::kReduction, scalar_peak * kReductionPart);
  add(OpClass::kIndexing, scalar_peak * kIndexingPart);
  add(OpClass::kOrdering, scalar_peak * kOrderingPart);
  add(OpClass::kControl, scalar_peak * kControlPart);
}

void FillCpu(Device& device, const Target& target) {
  constexpr double kHertz = 2.5e9;
  constexpr double kUnits = 2;  // vector multiply-adds per cycle
  const double workers = std::max(1, target.worker_count);
  const double lanes = std::max(4, static_cast<int>(target.vector_bytes)) / 4.0;
  const double peak = workers * lanes * kUnits * 2 * kHertz;
  AddRates(device, DType::kF32, peak, peak, Guess);
  AddRates(device, DType::kF64, peak / 2, peak / 2, Guess);
  device.levels.push_back(
      {"l2", target.l2_bytes * static_cast<int64_t>(workers), Guess(workers * 32 * kHertz)});
  if (target.l3_bytes > device.levels.back().bytes) {
    device.levels.push_back({"l3", target.l3_bytes, Guess(workers * 10 * kHertz)});
  }
  device.levels.push_back({"memory", int64_t{1} << 50, Guess(std::min(workers * 8e9, 2e11))});
  device.dispatch_seconds = Guess(workers > 1 ? 2e-6 : 5e-7);
  device.submit_seconds = Guess(1e-6);
  device.wait_seconds = Guess(2e-6);
}

void FillCuda(Device& device, const Target& target) {
  const int capability = target.gpu.compute_capability;
  const double units = target.gpu.unit_count > 0 ? target.gpu.unit_count : 60;
  const double peak = units * 128 * 2 * 1.6e9;
  const double matrix = units * (capability >= 90 ? 7.4e12 : capability >= 80 ? 2.8e12 : 9e11);
  const bool has_f64 = capability == 60 || capability == 70 || capability == 80 || capability == 90;
  Number (*const number)(double) = target.gpu.unit_count > 0 ? Table : Guess;
  AddRates(device, DType::kF32, peak, peak, number);
  AddRates(device, DType::kF64, peak / (has_f64 ? 2 : 64), peak / (has_f64 ? 2 : 64), number);
  AddRates(device, DType::kF16, matrix * 0.6, peak, number);
  if (capability >= 80) AddRates(device, DType::kBF16, matrix * 0.6, peak, number);
  const double bandwidth = capability >= 90 ? 3e12 : capability == 80 ? 1.4e12 : 3.5e11;
  device.levels.push_back(
      {"l2", capability >= 80 ? int64_t{40} << 20 : int64_t{4} << 20, number(bandwidth * 2)});
  device.levels.push_back({"memory", int64_t{1} << 50, number(bandwidth)});
  device.dispatch_seconds = Table(2.5e-6);
  device.submit_seconds = Table(8e-6);
  device.wait_seconds = Table(8e-6);
}

// Vulkan says neither clocks nor bandwidth nor units.
void FillVulkan(Device& device, bool is_software) {
  if (is_software) {
    // Two cores run our products at 0.4 to 2 GFLOP/s through lavapipe (docs/placement.md).
    AddRates(device, DType::kF32, 3e9, 3e9, Guess);
    device.levels.push_back({"memory", int64_t{1} << 50, Guess(5e9)});
  } else {
    AddRates(device, DType::kF32, 2e12, 2e12, Guess);
    AddRates(device, DType::kF16, 4e12, 2e12, Guess);
    device.levels.push_back({"memory", int64_t{1} << 50, Guess(2e11)});
  }
  device.dispatch_seconds = Guess(4e-6);
  device.submit_seconds = Guess(2e-5);
  device.wait_seconds = Guess(2e-5);
}

// The 32 hexadecimal digits of the UUID in "name; uuid; driver ...", in whatever grouping; empty:
// none.
std::string UuidOf(std::string_view identity) {
  const size_t begin = identity.find("; ");
  if (begin == std::string_view::npos) return "";
  const std::string_view field =
      identity.substr(begin + 2, identity.find("; ", begin + 2) - begin - 2);
  std::string digits;
  for (const char c : field) {
    if (std::isxdigit(static_cast<unsigned char>(c))) {
      digits += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return digits.size() == 32 ? digits : "";
}

Link DefaultLink(uint32_t from, uint32_t to, uint32_t engine, TargetKind kind) {
  Link link;
  link.from = from;
  link.to = to;
  link.engine = engine;
  link.path = kind == TargetKind::kCuda ? PathKind::kPinned : PathKind::kPageable;
  link.latency_seconds = Guess(kind == TargetKind::kCuda ? 1e-5 : 2.5e-5);
  const double most = kind == TargetKind::kCuda ? 1.2e10 : 6e9;
  link.curve = {{int64_t{64} << 10, most / 3}, {int64_t{4} << 20, most}};
  link.source = Source::kDefault;
  link.sigma = StartSigma(Source::kDefault);
  return link;
}

}  // namespace

Machine DefaultMachine(std::span<const program::Device> devices) {
  Machine machine;
  machine.memories.push_back({"host", 0});
  std::vector<std::string> uuids;
  const bool any_host = std::any_of(devices.begin(), devices.end(),
                                    [](const program::Device& device) { return device.is_host; });
  for (const program::Device& from : devices) {
    Device device;
    device.name = from.name;
    device.identity = from.identity;
    device.kind = from.target.kind;
    device.silicon = static_cast<uint32_t>(machine.devices.size());
    const bool is_software = from.identity.find("llvmpipe") != std::string::npos;
    switch (from.target.kind) {
      case TargetKind::kCpu:
        FillCpu(device, from.target);
        break;
      case TargetKind::kCuda:
        FillCuda(device, from.target);
        break;
      case TargetKind::kVulkan:
        FillVulkan(device, is_software);
        break;
    }
    // Without a device that says so, the CPU is at home.
    const bool is_home = any_host ? from.is_host : from.target.kind == TargetKind::kCpu;
    const std::string uuid = UuidOf(from.identity);
    device.units = static_cast<uint32_t>(std::clamp(from.target.gpu.unit_count, 0, kMostUnits));
    for (size_t i = 0; i < uuids.size(); ++i) {
      const bool is_same_gpu = !uuid.empty() && uuid == uuids[i];
      const bool is_same_cpu = is_software && machine.devices[i].kind == TargetKind::kCpu;
      if (is_same_gpu || is_same_cpu) device.silicon = machine.devices[i].silicon;
      // Vulkan does not tell units; the other driver of the GPU may.
      if (is_same_gpu && device.units == 0) device.units = machine.devices[i].units;
    }
    uuids.push_back(uuid);
    if (!is_home) {
      device.memory = static_cast<uint32_t>(machine.memories.size());
      machine.memories.push_back({from.name, 0});
      const auto engine = static_cast<uint32_t>(machine.links.size());
      machine.links.push_back(DefaultLink(0, device.memory, engine, from.target.kind));
      machine.links.push_back(DefaultLink(device.memory, 0, engine + 1, from.target.kind));
    }
    machine.devices.push_back(std::move(device));
  }
  return machine;
}

}  // namespace halyard::place
