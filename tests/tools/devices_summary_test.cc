// SPDX-License-Identifier: Apache-2.0
// The table at the top of `halyard devices`, of the recorded machine: rates of probes where there
// are some, and else those of queries and tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tools/halyard/devices.h"

namespace halyard::tools {
namespace {

Json RecordedMachine() {
  return Json::parse(std::ifstream(HALYARD_SOURCE_DIR "/tests/tools/reports/h200.json"));
}

TEST(DevicesSummary, QueriesTellWhatIsNotMeasured) {
  EXPECT_EQ(
      FormatSummary(RecordedMachine(), nullptr),
      R"(device    name                        driver         units  memory     its bandwidth     f32                    16-bit products
cpu:0     Intel(R) Xeon(R) Processor  Linux 6.18.44  16     125.9 GiB  unknown           unknown                unknown
cuda:0    NVIDIA H200                 580.159.04     132    139.8 GiB  4.814 TB/s (api)  66.91 TFLOP/s (table)  1071 TFLOP/s (table)
vulkan:0  NVIDIA H200                 580.159.04     132    140.4 GiB  unknown           unknown                unknown
)");
}

TEST(DevicesSummary, ProbesTellWhatIsReached) {
  Json probes = {{"devices", Json::array()}};
  probes["devices"].push_back(
      {{"path", "cuda:0"},
       {"readings",
        {{{"kind", "matmul"}, {"dtype", "f32"}, {"rate", 40.25e12}, {"seconds", {{"median", 1}}}},
         {{"kind", "matmul"}, {"dtype", "f16"}, {"rate", 692.9e12}, {"seconds", {{"median", 1}}}},
         {{"kind", "matmul"}, {"dtype", "bf16"}, {"rate", 710.7e12}, {"seconds", {{"median", 1}}}},
         {{"kind", "triad"}, {"level", "L2"}, {"bytes", 3e7}, {"rate", 7e12}},
         {{"kind", "triad"}, {"level", "memory"}, {"bytes", 1e9}, {"rate", 4.152e12}}}}});
  const std::string text = FormatSummary(RecordedMachine(), probes);
  EXPECT_THAT(text,
              testing::HasSubstr("4.152 TB/s (measured)  40.25 TFLOP/s (measured)  710.7 TFLOP/s "
                                 "(measured)\n"));
  // Only of the device that was probed.
  EXPECT_THAT(text, testing::ContainsRegex("vulkan:0 .* unknown +unknown +unknown\n"));
}

TEST(DevicesSummary, WithoutDevicesThereIsNone) {
  EXPECT_EQ(FormatSummary({{"devices", Json::array()}}, nullptr), "");
}

}  // namespace
}  // namespace halyard::tools
