// SPDX-License-Identifier: Apache-2.0
// The drawing of devices and links: no label lies on another one, on a line or outside the picture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>

#include "tools/halyard/devices.h"

namespace halyard::tools {
namespace {

struct Box {
  int x, y, right, bottom;
  bool Meets(const Box& other) const {
    return x < other.right && other.x < right && y < other.bottom && other.y < bottom;
  }
};

std::vector<std::smatch> Find(const std::string& text, const std::regex& pattern) {
  return {std::sregex_iterator(text.begin(), text.end(), pattern), std::sregex_iterator()};
}

// The recorded machine with so many GPUs, each linked to each.
Json Machine(int gpus) {
  Json report = Json::parse(std::ifstream(HALYARD_SOURCE_DIR "/tests/tools/reports/h200.json"));
  Json gpu = report["devices"][1];
  while (report["devices"].size() > 1) report["devices"].erase(1);
  report["links"] = Json::array();
  for (int i = 0; i < gpus; ++i) {
    gpu["path"] = "cuda:" + std::to_string(i);
    report["devices"].push_back(gpu);
    for (int j = 0; j < gpus; ++j) {
      if (i == j) continue;
      report["links"].push_back({{"from", gpu["path"]},
                                 {"to", "cuda:" + std::to_string(j)},
                                 {"kind", "host-staged"},
                                 {"is_same_silicon", i + j == 3}});
    }
  }
  return report;
}

void ExpectReadable(const Json& report, size_t links, size_t labels) {
  const std::string svg = DrawTopology(report);
  std::smatch size;
  ASSERT_TRUE(std::regex_search(svg, size, std::regex("width=\"(\\d+)\" height=\"(\\d+)\"")));
  const int width = std::stoi(size[1]), height = std::stoi(size[2]);
  const std::regex label(
      "<rect class=\"label\" x=\"(\\d+)\" y=\"(\\d+)\" width=\"(\\d+)\" height=\"(\\d+)\"");
  std::vector<Box> boxes;
  for (const std::smatch& match : Find(svg, label)) {
    const int x = std::stoi(match[1]), y = std::stoi(match[2]);
    boxes.push_back({x, y, x + std::stoi(match[3]), y + std::stoi(match[4])});
  }
  EXPECT_EQ(boxes.size(), labels);
  for (size_t i = 0; i < boxes.size(); ++i) {
    EXPECT_GE(boxes[i].x, 0);
    EXPECT_LE(boxes[i].right, width);
    EXPECT_LE(boxes[i].bottom, height);
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(boxes[i].Meets(boxes[j])) << i << " and " << j;
  }
  const auto lines = Find(svg, std::regex("<polyline class=\"link\" points=\"([^\"]*)\""));
  EXPECT_EQ(lines.size(), links);
  for (const std::smatch& line : lines) {
    const std::string route = line[1];
    const auto points = Find(route, std::regex("(\\d+),(\\d+)"));
    for (size_t p = 1; p < points.size(); ++p) {
      const auto [x1, x2] = std::minmax({std::stoi(points[p - 1][1]), std::stoi(points[p][1])});
      const auto [y1, y2] = std::minmax({std::stoi(points[p - 1][2]), std::stoi(points[p][2])});
      EXPECT_TRUE(x1 == x2 || y1 == y2) << route;
      for (const Box& box : boxes) {
        EXPECT_FALSE(box.Meets({x1 - 1, y1 - 1, x2 + 1, y2 + 1}))
            << route << " and the label at " << box.x << "," << box.y;
      }
    }
  }
}

TEST(DevicesSvg, LabelsAreReadableWithAnyNumberOfGpus) {
  for (const int gpus : {0, 1, 2, 3, 4, 5, 8}) {
    SCOPED_TRACE(gpus);
    const auto pairs = static_cast<size_t>(gpus * (gpus - 1) / 2),
               count = static_cast<size_t>(gpus);
    ExpectReadable(Machine(gpus), pairs + count, pairs + count);
  }
}

TEST(DevicesSvg, TellsWhatWasMeasured) {
  const Json report =
      Json::parse(std::ifstream(HALYARD_SOURCE_DIR "/tests/tools/reports/h200.json"));
  ExpectReadable(report, 3, 3);
  const std::string svg = DrawTopology(report);
  EXPECT_THAT(svg, testing::HasSubstr(">the same silicon</text>"));
  EXPECT_THAT(svg, testing::HasSubstr("class=\"measured\">to it 55.1, back 55.2 GB/s</text>"));
  EXPECT_THAT(svg, testing::HasSubstr(">PCIe 5 x16</text>"));
  EXPECT_THAT(svg, testing::HasSubstr(">memory 139.8 GiB HBM2e, HBM3 or HBM3e</text>"))
      << "as the text has it";
  EXPECT_THAT(svg, testing::Not(testing::HasSubstr("runs on the processor")));
}

TEST(DevicesSvg, SaysThatNothingWasMeasured) {
  Json report = Json::parse(std::ifstream(HALYARD_SOURCE_DIR "/tests/tools/reports/h200.json"));
  EXPECT_THAT(DrawTopology(report), testing::HasSubstr(">green: the highest rate"));
  report.erase("probes");
  const std::string svg = DrawTopology(report);
  EXPECT_THAT(svg, testing::HasSubstr(">no rates: halyard devices --probe measures them<"));
  EXPECT_THAT(svg, testing::Not(testing::HasSubstr("green: ")));
}

// Its memory and rates are the processor's; the picture has them twice.
TEST(DevicesSvg, TellsADeviceThatIsTheProcessor) {
  Json report = Json::parse(std::ifstream(HALYARD_SOURCE_DIR "/tests/tools/reports/h200.json"));
  report["devices"].back()["fields"]["identity.type"] = {{"value", "cpu"}, {"source", "api"}};
  const std::string svg = DrawTopology(report);
  const size_t at = svg.find("runs on the processor");
  ASSERT_NE(at, svg.npos);
  EXPECT_EQ(svg.find("runs on the processor", at + 1), svg.npos)
      << "of cpu:0 nobody needs to hear it";
}

}  // namespace
}  // namespace halyard::tools
