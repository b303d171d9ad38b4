// SPDX-License-Identifier: Apache-2.0
// Text form of schedule records: a kind, then name=value fields that differ from their default.
#include <charconv>
#include <map>

#include "compiler/schedule/schedule.h"

namespace halyard::schedule {
namespace {

constexpr ScheduleKind kKinds[] = {
    ScheduleKind::kRow,          ScheduleKind::kContraction,  ScheduleKind::kAttention,
    ScheduleKind::kWindow,       ScheduleKind::kGpuMap,       ScheduleKind::kGpuTeam,
    ScheduleKind::kGpuTranspose, ScheduleKind::kGpuTile,      ScheduleKind::kGpuMatrix,
    ScheduleKind::kGpuVector,    ScheduleKind::kGpuAttention, ScheduleKind::kGpuMatrixAttention,
    ScheduleKind::kGpuWgmma,     ScheduleKind::kGpuLibrary};

std::string_view FormatKind(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kRow:
      return "row";
    case ScheduleKind::kContraction:
      return "contraction";
    case ScheduleKind::kAttention:
      return "attention";
    case ScheduleKind::kWindow:
      return "window";
    case ScheduleKind::kGpuMap:
      return "gpu-map";
    case ScheduleKind::kGpuTeam:
      return "gpu-team";
    case ScheduleKind::kGpuTile:
      return "gpu-tile";
    case ScheduleKind::kGpuMatrix:
      return "gpu-matrix";
    case ScheduleKind::kGpuWgmma:
      return "gpu-wgmma";
    case ScheduleKind::kGpuVector:
      return "gpu-vector";
    case ScheduleKind::kGpuTranspose:
      return "gpu-transpose";
    case ScheduleKind::kGpuAttention:
      return "gpu-attention";
    case ScheduleKind::kGpuMatrixAttention:
      return "gpu-matrix-attention";
    case ScheduleKind::kGpuLibrary:
      return "gpu-library";
  }
  return "?";
}

std::string_view FormatMode(OperandMode mode) {
  switch (mode) {
    case OperandMode::kInPlace:
      return "inplace";
    case OperandMode::kPacked:
      return "packed";
    case OperandMode::kPackedConstant:
      return "constant";
  }
  return "?";
}

bool ReadNumber(std::string_view text, int64_t lo, int64_t hi, int64_t* out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && *out >= lo && *out <= hi;
}

bool ReadHex(std::string_view text, uint64_t* out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out, 16);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string FormatSchedule(const ScheduleRecord& record) {
  const ScheduleRecord defaults;
  std::string text(FormatKind(record.kind));
  text += fmt::format(" lanes={} unroll={}", record.lanes, record.unroll);
  if (!record.vector_loops.empty())
    text += fmt::format(" vector=[{}]", fmt::join(record.vector_loops, ","));
  if (record.grain != defaults.grain) text += fmt::format(" grain={}", record.grain);
  if (record.chunk != defaults.chunk) text += fmt::format(" chunk={}", record.chunk);
  if (record.kind == ScheduleKind::kContraction) {
    text += fmt::format(" swap={} mr={} nv={} kc={} mc={} nc={} b={} packa={}", int{record.swap},
                        record.mr, record.nv, record.kc, record.mc, record.nc, FormatMode(record.b),
                        int{record.pack_a});
  }
  if (record.workgroup != 0) text += fmt::format(" workgroup={}", record.workgroup);
  if (record.side != 0) text += fmt::format(" side={}", record.side);
  if (record.team != 0) text += fmt::format(" team={}", record.team);
  if (record.columns) text += " columns=1";
  if (record.persistent) text += " persistent=1";
  if (record.kind == ScheduleKind::kAttention)
    text += fmt::format(" mr={} nv={} mc={}", record.mr, record.nv, record.mc);
  if (record.kind == ScheduleKind::kGpuMap && record.mr != 0)
    text += fmt::format(" mr={}", record.mr);
  if (record.kind == ScheduleKind::kRow && record.mr != 0) text += fmt::format(" mr={}", record.mr);
  if (record.kind == ScheduleKind::kWindow) text += fmt::format(" mr={}", record.mr);
  if (record.tile != defaults.tile) {
    const GpuTile& tile = record.tile;
    text += fmt::format(
        " swap={} m={} n={} k={} itemm={} itemn={} stages={} split={} raster={} async={}",
        int{record.swap}, tile.m, tile.n, tile.k, tile.item_m, tile.item_n, tile.stages, tile.split,
        tile.raster, int{record.async});
    if (record.joins) text += " joins=1";
  }
  if (record.library.version != 0) {
    const GpuLibraryChoice& library = record.library;
    text += fmt::format(" version={} workspace={} device={:x} algorithm={:x}", library.version,
                        library.workspace_bytes, library.device_hash,
                        fmt::join(library.algorithm, ","));
  }
  return text;
}

Result<ScheduleRecord> ParseSchedule(std::string_view text) {
  ScheduleRecord record;
  bool first = true;
  for (std::string_view rest = text; !rest.empty();) {
    size_t space = rest.find(' ');
    std::string_view word = rest.substr(0, space);
    rest = space == std::string_view::npos ? std::string_view() : rest.substr(space + 1);
    if (first) {
      first = false;
      bool known = false;
      std::vector<std::string_view> names;
      for (ScheduleKind kind : kKinds) {
        names.push_back(FormatKind(kind));
        if (word == FormatKind(kind)) known = true, record.kind = kind;
      }
      if (!known)
        return InvalidArgument(
            "Schedule record '{}' starts with '{}'; it must start with one of {}.", text, word,
            fmt::join(names, ", "));
      continue;
    }
    size_t equal = word.find('=');
    std::string_view name = word.substr(0, equal);
    std::string_view value = equal == std::string_view::npos ? "" : word.substr(equal + 1);
    int64_t number = 0;
    bool ok = false;
    if (name == "vector" && value.size() >= 2 && value.front() == '[' && value.back() == ']') {
      value = value.substr(1, value.size() - 2);
      ok = true;
      while (ok && !value.empty()) {
        size_t comma = value.find(',');
        ok = ReadNumber(value.substr(0, comma), 0, 65535, &number);
        record.vector_loops.push_back(static_cast<int32_t>(number));
        value = comma == std::string_view::npos ? std::string_view() : value.substr(comma + 1);
      }
    } else if (name == "version") {
      ok = ReadNumber(value, 1, INT64_MAX, &number);
      record.library.version = static_cast<uint64_t>(number);
    } else if (name == "device") {
      ok = ReadHex(value, &record.library.device_hash);
    } else if (name == "algorithm") {
      size_t words = 0;
      ok = true;
      while (ok && !value.empty() && words < std::size(record.library.algorithm)) {
        const size_t comma = value.find(',');
        ok = ReadHex(value.substr(0, comma), &record.library.algorithm[words++]);
        value = comma == std::string_view::npos ? std::string_view() : value.substr(comma + 1);
      }
      ok = ok && value.empty() && words == std::size(record.library.algorithm);
    } else if (name == "b") {
      for (OperandMode mode :
           {OperandMode::kInPlace, OperandMode::kPacked, OperandMode::kPackedConstant}) {
        if (value == FormatMode(mode)) ok = true, record.b = mode;
      }
    } else {
      const std::map<std::string_view, int32_t*> small = {{"lanes", &record.lanes},
                                                          {"unroll", &record.unroll},
                                                          {"mr", &record.mr},
                                                          {"nv", &record.nv},
                                                          {"workgroup", &record.workgroup},
                                                          {"team", &record.team},
                                                          {"side", &record.side},
                                                          {"m", &record.tile.m},
                                                          {"n", &record.tile.n},
                                                          {"k", &record.tile.k},
                                                          {"itemm", &record.tile.item_m},
                                                          {"itemn", &record.tile.item_n},
                                                          {"stages", &record.tile.stages},
                                                          {"split", &record.tile.split},
                                                          {"raster", &record.tile.raster}};
      const std::map<std::string_view, int64_t*> large = {
          {"grain", &record.grain}, {"chunk", &record.chunk},
          {"kc", &record.kc},       {"mc", &record.mc},
          {"nc", &record.nc},       {"workspace", &record.library.workspace_bytes}};
      const std::map<std::string_view, bool*> flags = {
          {"swap", &record.swap},       {"packa", &record.pack_a},
          {"columns", &record.columns}, {"persistent", &record.persistent},
          {"async", &record.async},     {"joins", &record.joins}};
      if (auto it = small.find(name); it != small.end()) {
        ok = ReadNumber(value, 0, 4096, &number);
        *it->second = static_cast<int32_t>(number);
      } else if (auto it = large.find(name); it != large.end()) {
        ok = ReadNumber(value, 0, INT64_MAX, it->second);
      } else if (auto it = flags.find(name); it != flags.end()) {
        ok = ReadNumber(value, 0, 1, &number);
        *it->second = number != 0;
      }
    }
    if (!ok) return InvalidArgument("Schedule record '{}' has a bad field '{}'.", text, word);
  }
  if (first) return InvalidArgument("A schedule record is empty; it must start with its kind.");
  return record;
}

}  // namespace halyard::schedule
