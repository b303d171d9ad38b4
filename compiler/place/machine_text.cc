// SPDX-License-Identifier: Apache-2.0
// The text form of a machine.
#include <iterator>

#include "compiler/place/machine.h"
#include "compiler/place/text_lines.h"

namespace halyard::place {
namespace {

constexpr size_t kMaxTextBytes = 1 << 20;
constexpr int64_t kMaxIndex = 4096;
// Sizes up to 2^60 bytes leave room for sums.
constexpr int64_t kMaxBytes = int64_t{1} << 60;

// By TargetKind.
constexpr std::string_view kTargetKinds[] = {"cpu", "cuda", "vulkan"};

template <typename Enum, typename Format>
Result<Enum> ReadEnum(LineReader& in, int count, const Format& format) {
  HY_ASSIGN(const std::string_view word, in.Word());
  for (int i = 0; i < count; ++i) {
    if (format(static_cast<Enum>(i)) == word) return static_cast<Enum>(i);
  }
  return in.Error(fmt::format("{} is not a word for this place.", QuoteText(word.substr(0, 60))));
}

Result<Source> ReadSource(LineReader& in) { return ReadEnum<Source>(in, 4, FormatSource); }
Result<OpClass> ReadOpClass(LineReader& in) {
  return ReadEnum<OpClass>(in, kOpClassCount, FormatOpClass);
}

std::string FormatNumber(const Number& number) {
  return fmt::format("{} {} {}", number.value, FormatSource(number.source), number.sigma);
}

Status ReadNumber(LineReader& in, Number* out) {
  HY_ASSIGN(out->value, in.Real());
  HY_ASSIGN(out->source, ReadSource(in));
  HY_ASSIGN(out->sigma, in.Real());
  return OkStatus();
}

Result<uint32_t> ReadIndex(LineReader& in) {
  HY_ASSIGN(const int64_t index, in.Integer(0, kMaxIndex));
  return static_cast<uint32_t>(index);
}

Status ReadDevice(LineReader& in, Device* device) {
  HY_ASSIGN(device->name, in.Quoted());
  HY_ASSIGN(device->kind, ReadEnum<TargetKind>(in, std::size(kTargetKinds), [](TargetKind kind) {
              return kTargetKinds[static_cast<size_t>(kind)];
            }));
  HY_TRY(in.Expect("memory"));
  HY_ASSIGN(device->memory, ReadIndex(in));
  HY_TRY(in.Expect("silicon"));
  HY_ASSIGN(device->silicon, ReadIndex(in));
  HY_TRY(in.Expect("identity"));
  HY_ASSIGN(device->identity, in.Quoted());
  return in.ExpectLineEnd();
}

Status ReadFit(LineReader& in, std::vector<Fit>* fits) {
  Fit fit;
  HY_ASSIGN(fit.op_class, ReadOpClass(in));
  HY_ASSIGN(fit.sigma, in.Real());
  while (!in.AtLineEnd()) {
    FitPoint point;
    HY_ASSIGN(point.work, in.Real());
    HY_ASSIGN(point.factor, in.Real());
    fit.points.push_back(point);
  }
  fits->push_back(std::move(fit));
  return OkStatus();
}

// A line that belongs to the device before it; false: it is none.
Result<bool> ReadOfDevice(LineReader& in, Device* device) {
  if (in.TryWord("dispatch")) {
    HY_TRY(ReadNumber(in, &device->dispatch_seconds));
  } else if (in.TryWord("submit")) {
    HY_TRY(ReadNumber(in, &device->submit_seconds));
  } else if (in.TryWord("wait")) {
    HY_TRY(ReadNumber(in, &device->wait_seconds));
  } else if (in.TryWord("units")) {
    HY_ASSIGN(device->units, ReadIndex(in));
  } else if (in.TryWord("rate")) {
    Rate rate;
    HY_ASSIGN(rate.op_class, ReadOpClass(in));
    HY_ASSIGN(const std::string_view dtype, in.Word());
    const Result<DType> parsed = ParseDType(dtype);
    if (!parsed.ok()) return in.Error(parsed.status().message());
    rate.dtype = *parsed;
    HY_TRY(ReadNumber(in, &rate.flops_per_second));
    device->rates.push_back(rate);
  } else if (in.TryWord("level")) {
    Level level;
    HY_ASSIGN(level.name, in.Quoted());
    HY_ASSIGN(level.bytes, in.Integer(0, kMaxBytes));
    HY_TRY(ReadNumber(in, &level.bytes_per_second));
    device->levels.push_back(std::move(level));
  } else if (in.TryWord("interpreted")) {
    InterpretedRate rate;
    HY_ASSIGN(rate.op_class, ReadOpClass(in));
    HY_TRY(in.Expect("start"));
    HY_TRY(ReadNumber(in, &rate.start_seconds));
    HY_TRY(in.Expect("unit"));
    HY_TRY(ReadNumber(in, &rate.unit_seconds));
    device->interpreted.push_back(rate);
  } else if (in.TryWord("fit")) {
    HY_TRY(ReadFit(in, &device->fits));
  } else if (in.TryWord("cold-fit")) {
    HY_TRY(ReadFit(in, &device->cold_fits));
  } else {
    return false;
  }
  HY_TRY(in.ExpectLineEnd());
  return true;
}

Status ReadPoint(LineReader& in, std::vector<CurvePoint>* curve) {
  CurvePoint point;
  HY_ASSIGN(point.bytes, in.Integer(1, kMaxBytes));
  HY_ASSIGN(point.bytes_per_second, in.Real());
  curve->push_back(point);
  return OkStatus();
}

Status ReadLink(LineReader& in, Link* link) {
  HY_ASSIGN(link->from, ReadIndex(in));
  HY_ASSIGN(link->to, ReadIndex(in));
  HY_ASSIGN(link->path, ReadEnum<PathKind>(in, 5, FormatPathKind));
  HY_TRY(in.Expect("engine"));
  HY_ASSIGN(link->engine, ReadIndex(in));
  HY_TRY(in.Expect("verified"));
  HY_ASSIGN(const int64_t verified, in.Integer(0, 1));
  link->is_verified = verified != 0;
  HY_TRY(in.Expect("latency"));
  HY_TRY(ReadNumber(in, &link->latency_seconds));
  if (in.TryWord("crossing")) HY_TRY(ReadNumber(in, &link->crossing_seconds));
  HY_TRY(in.Expect("curve"));
  HY_ASSIGN(link->source, ReadSource(in));
  HY_ASSIGN(link->sigma, in.Real());
  while (!in.AtLineEnd() && !in.TryWord("caller")) HY_TRY(ReadPoint(in, &link->curve));
  while (!in.AtLineEnd()) HY_TRY(ReadPoint(in, &link->caller_curve));
  return OkStatus();
}

}  // namespace

std::string FormatMachine(const Machine& machine) {
  std::string out = "halyard-machine 1\n";
  const auto to = std::back_inserter(out);
  fmt::format_to(to, "snapshot {} home {} load {}\n", machine.snapshot, machine.home,
                 QuoteText(machine.load));
  for (const Memory& memory : machine.memories) {
    fmt::format_to(to, "memory {} {}\n", QuoteText(memory.name), memory.bytes);
  }
  for (const Device& device : machine.devices) {
    fmt::format_to(to, "device {} {} memory {} silicon {} identity {}\n", QuoteText(device.name),
                   kTargetKinds[static_cast<size_t>(device.kind)], device.memory, device.silicon,
                   QuoteText(device.identity));
    if (device.units > 0) fmt::format_to(to, "  units {}\n", device.units);
    fmt::format_to(to, "  dispatch {}\n", FormatNumber(device.dispatch_seconds));
    fmt::format_to(to, "  submit {}\n", FormatNumber(device.submit_seconds));
    fmt::format_to(to, "  wait {}\n", FormatNumber(device.wait_seconds));
    for (const Rate& rate : device.rates) {
      fmt::format_to(to, "  rate {} {} {}\n", FormatOpClass(rate.op_class), FormatDType(rate.dtype),
                     FormatNumber(rate.flops_per_second));
    }
    for (const Level& level : device.levels) {
      fmt::format_to(to, "  level {} {} {}\n", QuoteText(level.name), level.bytes,
                     FormatNumber(level.bytes_per_second));
    }
    for (const InterpretedRate& rate : device.interpreted) {
      fmt::format_to(to, "  interpreted {} start {} unit {}\n", FormatOpClass(rate.op_class),
                     FormatNumber(rate.start_seconds), FormatNumber(rate.unit_seconds));
    }
    for (const auto& [word, fits] :
         {std::pair("fit", &device.fits), std::pair("cold-fit", &device.cold_fits)}) {
      for (const Fit& fit : *fits) {
        fmt::format_to(to, "  {} {} {}", word, FormatOpClass(fit.op_class), fit.sigma);
        for (const FitPoint& point : fit.points) {
          fmt::format_to(to, " {} {}", point.work, point.factor);
        }
        out += '\n';
      }
    }
  }
  for (const Link& link : machine.links) {
    fmt::format_to(to, "link {} {} {} engine {} verified {} latency {}", link.from, link.to,
                   FormatPathKind(link.path), link.engine, link.is_verified ? 1 : 0,
                   FormatNumber(link.latency_seconds));
    if (link.crossing_seconds.value > 0) {
      fmt::format_to(to, " crossing {}", FormatNumber(link.crossing_seconds));
    }
    fmt::format_to(to, " curve {} {}", FormatSource(link.source), link.sigma);
    for (const CurvePoint& point : link.curve) {
      fmt::format_to(to, " {} {}", point.bytes, point.bytes_per_second);
    }
    if (!link.caller_curve.empty()) out += " caller";
    for (const CurvePoint& point : link.caller_curve) {
      fmt::format_to(to, " {} {}", point.bytes, point.bytes_per_second);
    }
    out += '\n';
  }
  return out;
}

Result<Machine> ParseMachine(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return InvalidArgument("The machine file has {} bytes; {} are allowed.", text.size(),
                           kMaxTextBytes);
  }
  LineReader in("machine file", text);
  Machine machine;
  if (!in.NextLine()) return InvalidArgument("The machine file is empty.");
  HY_TRY(in.Expect("halyard-machine"));
  HY_ASSIGN([[maybe_unused]] const int64_t version, in.Integer(1, 1));
  HY_TRY(in.ExpectLineEnd());
  if (!in.NextLine()) return in.Error("the file ends after it.");
  HY_TRY(in.Expect("snapshot"));
  HY_ASSIGN(const int64_t snapshot, in.Integer(0, INT64_MAX));
  machine.snapshot = static_cast<uint64_t>(snapshot);
  HY_TRY(in.Expect("home"));
  HY_ASSIGN(machine.home, ReadIndex(in));
  HY_TRY(in.Expect("load"));
  HY_ASSIGN(machine.load, in.Quoted());
  HY_TRY(in.ExpectLineEnd());
  while (in.NextLine()) {
    if (in.TryWord("memory")) {
      Memory memory;
      HY_ASSIGN(memory.name, in.Quoted());
      HY_ASSIGN(memory.bytes, in.Integer(0, kMaxBytes));
      HY_TRY(in.ExpectLineEnd());
      machine.memories.push_back(std::move(memory));
    } else if (in.TryWord("device")) {
      HY_TRY(ReadDevice(in, &machine.devices.emplace_back()));
    } else if (in.TryWord("link")) {
      HY_TRY(ReadLink(in, &machine.links.emplace_back()));
    } else {
      if (machine.devices.empty()) return in.Error("it stands before the first device.");
      HY_ASSIGN(const bool is_known, ReadOfDevice(in, &machine.devices.back()));
      if (!is_known) return in.Error("its first word is none that a machine file has.");
    }
  }
  HY_TRY(VerifyMachine(machine).WithContext("checking the machine file"));
  return machine;
}

}  // namespace halyard::place
