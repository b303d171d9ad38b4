// SPDX-License-Identifier: Apache-2.0
// The topology as a drawing: the host on the left, a column of devices on the right, one bus
// between them with a branch to each device, and right of the column a lane for each link between
// two devices. Labels stand beside straight lines, where no other line or label comes.
#include <algorithm>
#include <map>

#include "base/escape_html.h"
#include "base/quantity.h"
#include "tools/halyard/devices.h"
#include "tools/halyard/format.h"

namespace halyard::tools {
namespace {

constexpr int kBoxWidth = 340, kBoxHeight = 150, kGap = 46, kMargin = 30;
constexpr int kHostX = kMargin, kDeviceX = 640, kBusX = kHostX + kBoxWidth + 36;
constexpr int kHeader = 64;
constexpr int kLaneX = kDeviceX + kBoxWidth + 24;  // the first lane of links between devices
// With few lanes their labels are level; with many they stand upright.
constexpr int kLevelLanes = 3, kLevelWidth = 130, kUprightWidth = 44;
constexpr double kCharWidth = 6.6;  // of the 12-pixel font, generously

// Shortened to what a box holds, at a whole character.
std::string Fit(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  size_t end = most - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

double FieldNumber(const Json& device, const char* field) {
  const auto& fields = device["fields"];
  const auto found = fields.find(field);
  if (found == fields.end() || found->is_null() || !(*found)["value"].is_number()) return 0;
  return (*found)["value"];
}

std::string FieldText(const Json& device, const char* field) {
  const auto& fields = device["fields"];
  const auto found = fields.find(field);
  if (found == fields.end() || found->is_null() || !(*found)["value"].is_string()) return "";
  return (*found)["value"];
}

// The probe of a device, or null.
const Json* FindProbe(const Json& report, const std::string& path) {
  if (!report.contains("probes")) return nullptr;
  for (const Json& probe : report["probes"]["devices"]) {
    if (probe["path"] == path) return &probe;
  }
  return nullptr;
}

// The highest rate of readings that have these values; 0: none was measured.
double BestRate(const Json* probe,
                std::initializer_list<std::pair<const char*, const char*>> values) {
  double best = 0;
  if (!probe) return 0;
  for (const Json& reading : (*probe)["readings"]) {
    bool is_one = reading.contains("rate");
    for (const auto& [name, value] : values) {
      is_one = is_one && reading.contains(name) && reading[name] == value;
    }
    if (is_one) best = std::max(best, reading["rate"].get<double>());
  }
  return best;
}

std::string Line(int x, int y, const char* style, const std::string& text) {
  return Format("<text x=\"%d\" y=\"%d\" class=\"%s\">", x, y, style) + EscapeHtml(text) +
         "</text>\n";
}

// Two lines of text with a white ground, level or turned upright around the middle of their left
// edge. (x, y) is the top left corner of what is drawn.
std::string Label(int x, int y, bool is_upright, const std::string& fact,
                  const std::string& measured) {
  const auto longest = static_cast<double>(std::max(fact.size(), measured.size()));
  const int length = static_cast<int>(longest * kCharWidth) + 2;
  const int width = is_upright ? 32 : length, height = is_upright ? length : 32;
  std::string svg = Format(
      "<rect class=\"label\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", x,
      y, width, height);
  if (is_upright) svg += Format("<g transform=\"translate(%d %d) rotate(-90)\">\n", x, y + height);
  const int left = is_upright ? 0 : x, top = is_upright ? 0 : y;
  if (!fact.empty()) svg += Line(left, top + 12, "fact", fact);
  if (!measured.empty()) svg += Line(left, top + 28, "measured", measured);
  return svg + (is_upright ? "</g>\n" : "");
}

std::string Route(const char* color, bool is_dashed,
                  std::initializer_list<std::pair<int, int>> points) {
  std::string text;
  for (const auto& [x, y] : points) text += Format("%s%d,%d", text.empty() ? "" : " ", x, y);
  return Format(
      "<polyline class=\"link\" points=\"%s\" fill=\"none\" stroke=\"%s\" "
      "stroke-width=\"2\"%s/>\n",
      text.c_str(), color, is_dashed ? " stroke-dasharray=\"5 4\"" : "");
}

// A link between two devices of the column, and the lane that it runs in.
struct Pair {
  int from = 0, to = 0, lane = 0;  // from < to
  const Json* link = nullptr;
};

// Lanes from the left: links that share no row share a lane; short ones come first.
std::vector<Pair> AssignLanes(const Json& report, const std::vector<const Json*>& devices) {
  const auto index_of = [&](const Json& path) -> int {
    for (size_t i = 0; i < devices.size(); ++i) {
      if ((*devices[i])["path"] == path) return static_cast<int>(i);
    }
    return -1;
  };
  std::vector<Pair> pairs;
  for (const Json& link : report["links"]) {
    const int from = index_of(link["from"]), to = index_of(link["to"]);
    if (from >= 0 && to > from) pairs.push_back({from, to, 0, &link});  // each pair once
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.to - a.from < b.to - b.from; });
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto meets = [&](const Pair& other) {
      return other.lane == pairs[i].lane && other.from < pairs[i].to && pairs[i].from < other.to;
    };
    while (std::any_of(pairs.begin(), pairs.begin() + static_cast<ptrdiff_t>(i), meets)) {
      ++pairs[i].lane;
    }
  }
  return pairs;
}

std::string Box(int x, int y, const Json& device, const Json* probe, const char* color) {
  std::string svg = Format(
      "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"8\" fill=\"%s\" "
      "stroke=\"#44546a\"/>\n",
      x, y, kBoxWidth, kBoxHeight, color);
  const int left = x + 14;
  svg += Line(left, y + 24, "path", device["path"].get<std::string>());
  svg += Line(left, y + 44, "name", Fit(FieldText(device, "identity.name"), 44));
  std::string units;
  if (const double count = FieldNumber(device, "compute.unit_count"); count > 0) {
    units = Format("%.0f units", count);
  }
  if (const double clock = FieldNumber(device, "compute.max_clock_hz"); clock > 0) {
    units += Format("%s%.2f GHz", units.empty() ? "" : ", ", clock / 1e9);
  }
  const std::string chip = FieldText(device, "identity.chip");
  if (!chip.empty()) units += (units.empty() ? "" : ", ") + chip;
  const bool is_processor = FieldText(device, "identity.type") == "cpu";
  if (is_processor && !device["path"].get_ref<const std::string&>().starts_with("cpu"))
    units += std::string(units.empty() ? "" : ", ") + "runs on the processor";
  svg += Line(left, y + 66, "fact", units);
  double product = 0;
  std::string dtype;
  if (probe) {
    for (const Json& reading : (*probe)["readings"]) {
      if (reading["kind"] != "matmul" || reading.value("rate", 0.0) <= product) continue;
      product = reading["rate"];
      dtype = reading["dtype"];
    }
  }
  if (product > 0) {
    svg += Line(left, y + 84, "measured",
                Format("%.4g TFLOP/s in %s products", product * 1e-12, dtype.c_str()));
  }
  svg += Format(
      "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"42\" rx=\"4\" fill=\"#ffffff\" "
      "stroke=\"#8497b0\"/>\n",
      left, y + 96, kBoxWidth - 28);
  std::string memory = FormatBytes(static_cast<int64_t>(FieldNumber(device, "memory.total_bytes")));
  const std::string kind = FieldText(device, "memory.kind");
  if (!kind.empty()) memory += " " + kind;
  svg += Line(left + 8, y + 113, "fact", "memory " + Fit(memory, 36));
  const double triad = BestRate(probe, {{"kind", "triad"}, {"level", "memory"}});
  if (triad > 0) {
    svg += Line(left + 8, y + 131, "measured", Format("%.4g GB/s triad", triad * 1e-9));
  } else if (const double peak = FieldNumber(device, "memory.peak_bytes_per_s"); peak > 0) {
    svg += Line(left + 8, y + 131, "fact", Format("%.4g GB/s at most", peak * 1e-9));
  }
  return svg;
}

}  // namespace

std::string DrawTopology(const Json& report) {
  const Json* host = nullptr;
  std::vector<const Json*> devices;
  for (const Json& device : report["devices"]) {
    const std::string path = device["path"];
    if (!host && path.rfind("cpu", 0) == 0) {
      host = &device;
    } else {
      devices.push_back(&device);
    }
  }
  const int rows = std::max<int>(static_cast<int>(devices.size()), 1);
  const int height = kHeader + rows * (kBoxHeight + kGap) + kMargin;
  const std::vector<Pair> pairs = AssignLanes(report, devices);
  int lanes = 0;
  for (const Pair& pair : pairs) lanes = std::max(lanes, pair.lane + 1);
  const bool is_upright = lanes > kLevelLanes;
  const int lane_width = is_upright ? kUprightWidth : kLevelWidth;
  const int width = devices.empty() ? kHostX + kBoxWidth + 3 * kMargin  // the title's, too
                                    : kLaneX + lanes * lane_width + kMargin;
  std::string svg = Format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
      "%d\">\n",
      width, height, width, height);
  svg +=
      "<style>text{font-family:DejaVu Sans,Helvetica,Arial,sans-serif;fill:#222}"
      ".title{font-size:18px;font-weight:bold}.path{font-size:15px;font-weight:bold}"
      ".name{font-size:13px}.fact{font-size:12px;fill:#555}.measured{font-size:12px;fill:#006837}</"
      "style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  svg += Line(kMargin, 34, "title", "Devices, memories and links");
  bool is_measured = false;
  for (const Json& device : report["devices"]) {
    const Json* probe = FindProbe(report, device["path"]);
    is_measured |= probe != nullptr && !(*probe)["readings"].empty();
  }
  svg += Line(kMargin, 52, is_measured ? "measured" : "fact",
              is_measured ? "green: the highest rate that halyard devices --probe measured"
                          : "no rates: halyard devices --probe measures them");
  const int host_y = kHeader + (rows * (kBoxHeight + kGap) - kGap - kBoxHeight) / 2;
  const auto device_y = [](size_t i) {
    return kHeader + static_cast<int>(i) * (kBoxHeight + kGap);
  };

  std::string labels;
  const int bus_y = host_y + kBoxHeight / 2;
  for (size_t i = 0; i < devices.size(); ++i) {
    const Json& device = *devices[i];
    const Json* probe = FindProbe(report, device["path"]);
    const int y = device_y(i) + kBoxHeight / 2;
    if (!host) continue;
    svg += Route("#44546a", false,
                 {{kHostX + kBoxWidth, bus_y}, {kBusX, bus_y}, {kBusX, y}, {kDeviceX, y}});
    std::string bus, rate;
    if (const double generation = FieldNumber(device, "links.pcie_generation_max");
        generation > 0) {
      bus = Format("PCIe %.0f x%.0f", generation, FieldNumber(device, "links.pcie_width_max"));
    }
    const double up = BestRate(probe, {{"kind", "copy"}, {"from", "pinned"}, {"to", "device"}});
    const double down = BestRate(probe, {{"kind", "copy"}, {"from", "device"}, {"to", "pinned"}});
    if (up > 0) rate = Format("to it %.3g, back %.3g GB/s", up * 1e-9, down * 1e-9);
    if (bus.empty() && rate.empty()) continue;
    labels += Label(kBusX + 16, y - 40, false, bus, rate);
  }
  // Where the links of a device leave its box: one below the other.
  std::map<int, int> count_of, next_of;
  for (const Pair& pair : pairs) {
    ++count_of[pair.from];
    ++count_of[pair.to];
  }
  const auto exit_of = [&](int device) {
    const int count = count_of[device], at = next_of[device]++;
    const int step = std::min(12, 80 / std::max(count, 1));
    return device_y(static_cast<size_t>(device)) + kBoxHeight / 2 + (2 * at - count + 1) * step / 2;
  };
  for (const Pair& pair : pairs) {
    const Json& link = *pair.link;
    const bool is_same = link["is_same_silicon"];
    const int x = kLaneX + pair.lane * lane_width, edge = kDeviceX + kBoxWidth;
    const int y1 = exit_of(pair.from), y2 = exit_of(pair.to);
    svg +=
        Route(is_same ? "#a6611a" : "#44546a", is_same, {{edge, y1}, {x, y1}, {x, y2}, {edge, y2}});
    const double rate = BestRate(FindProbe(report, link["from"]),
                                 {{"kind", "copy"},
                                  {"from", "device"},
                                  {"to", link["to"].get_ref<const std::string&>().c_str()}});
    const std::string kind = is_same ? "the same silicon" : link["kind"].get<std::string>();
    const std::string measured = rate > 0 ? Format("%.3g GB/s", rate * 1e-9) : "";
    // Between the rows of the device and the next one, where links only pass upright.
    const int middle = device_y(static_cast<size_t>(pair.from)) + kBoxHeight + kGap / 2;
    const int half =
        is_upright ? static_cast<int>(static_cast<double>(std::max(kind.size(), measured.size())) *
                                      kCharWidth / 2)
                   : 16;
    labels += Label(x + 6, middle - half, is_upright, kind, measured);
  }
  svg += labels;
  if (host) {
    svg += Box(kHostX, host_y, *host, FindProbe(report, (*host)["path"]), "#e2efda");
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    svg += Box(kDeviceX, device_y(i), *devices[i], FindProbe(report, (*devices[i])["path"]),
               "#deeaf6");
  }
  return svg + "</svg>\n";
}

}  // namespace halyard::tools
