// SPDX-License-Identifier: Apache-2.0
// Probes as people read them: units by size, columns below each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tools/halyard/devices.h"

namespace halyard::tools {
namespace {

Json Reading(const std::string& kind, double seconds, const Json& more) {
  Json reading = {{"kind", kind},
                  {"seconds", {{"median", seconds}, {"mad", seconds / 10}, {"count", 5}}}};
  reading.update(more);
  return reading;
}

TEST(DevicesReport, ProbesHaveUnitsByTheirSizeInColumns) {
  const Json probes = {
      {"devices",
       {{{"path", "cpu:0"},
         {"name", "A"},
         {"seconds", 1.0},
         {"is_complete", true},
         {"before", Json::object()},
         {"after", Json::object()},
         {"notes", Json::array()},
         {"readings",
          {Reading("dispatch", 6e-8, Json::object()),
           Reading("kernel", 2e-3,
                   {{"class", "a-class-of-a-very-long-name-indeed"},
                    {"dtype", "f32"},
                    {"operations", 64},
                    {"bytes", 2760704}}),
           Reading("matmul", 2.2e-2,
                   {{"dtype", "f32"},
                    {"size", 1024},
                    {"matrix_units", false},
                    {"rate", 9.685e10},
                    {"clock_hz", 2.3e9}}),
           Reading("matmul", 2.2e-6,
                   {{"dtype", "f16"}, {"size", 1024}, {"matrix_units", true}, {"rate", 7.94e14}}),
           Reading("copy", 2.9,
                   {{"from", "pinned"},
                    {"to", "device"},
                    {"bytes", 4096},
                    {"rate", 2.4e8},
                    {"is_verified", false}})}}}}}};
  EXPECT_EQ("\n" + FormatProbes(probes), R"(
cpu:0: A; probed in 1.0 s
  what                                                               median      MAD     n  rate
  dispatch                                                         0.060 us   10.0 %     5
  kernel a-class-of-a-very-long-name-indeed f32, 64 FLOP, 2.6 MiB  2.000 ms   10.0 %     5
  matmul f32 1024^3 scalar                                         22.00 ms   10.0 %     5  96.85 GFLOP/s at 2300 MHz
  matmul f16 1024^3 matrix                                         2.200 us   10.0 %     5  794.0 TFLOP/s
  copy pinned -> device 4.0 KiB                                     2.900 s   10.0 %     5  0.2400 GB/s (not verified)
)");
}

// Rounded for people, readings keep names of their own where reports are compared.
TEST(DevicesReport, ReadingsOfNearlyOneSizeAreCompared) {
  Json before = Json::parse(std::ifstream(HALYARD_SOURCE_DIR "/tests/tools/reports/h200.json"));
  Json& readings = before["probes"]["devices"][0]["readings"];
  readings = Json::array({Reading("triad", 1e-3, {{"level", "L2"}, {"bytes", 2097152}}),
                          Reading("triad", 1e-3, {{"level", "L2"}, {"bytes", 2096640}})});
  Json after = before;
  after["probes"]["devices"][0]["readings"][1]["seconds"]["median"] = 9e-3;
  EXPECT_THAT(DiffReports(before, after, false), testing::HasSubstr("1.99951 MiB"));
}

}  // namespace
}  // namespace halyard::tools
