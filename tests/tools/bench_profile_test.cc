// SPDX-License-Identifier: Apache-2.0
// Roofs from a probe report, what bounds a kernel, and how profiled runs become a split and groups.
#include "tools/halyard/bench_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace halyard::tools {
namespace {

// 100 GFLOP/s in f32, 400 in bf16; L2 up to 1 MB at 100 GB/s, memory at 10; 2 us a dispatch.
Json Probes() {
  return Json::parse(R"({"devices": [
    {"path": "gpu:1", "readings": [{"kind": "matmul", "dtype": "f32", "rate": 1, "seconds": {"median": 1}}]},
    {"path": "gpu:0", "readings": [
      {"kind": "matmul", "dtype": "f32", "rate": 9e10, "seconds": {"median": 1}},
      {"kind": "matmul", "dtype": "f32", "rate": 1e11, "seconds": {"median": 1}},
      {"kind": "matmul", "dtype": "bf16", "rate": 4e11, "seconds": {"median": 1}},
      {"kind": "stream", "level": "L2", "bytes": 1e6, "rate": 7e10, "seconds": {"median": 1}},
      {"kind": "triad", "level": "L2", "bytes": 1e6, "rate": 1e11, "seconds": {"median": 1}},
      {"kind": "triad", "level": "memory", "bytes": 1e8, "rate": 1e10, "seconds": {"median": 1}},
      {"kind": "copy", "from": "pinned", "to": "device", "bytes": 4096, "rate": 1e9, "seconds": {"median": 1}},
      {"kind": "copy", "from": "pinned", "to": "device", "bytes": 1e8, "rate": 5e10, "seconds": {"median": 1}},
      {"kind": "copy", "from": "device", "to": "pinned", "bytes": 1e8, "rate": 4e10, "seconds": {"median": 1}},
      {"kind": "copy", "from": "pageable", "to": "device", "bytes": 1e8, "rate": 1e10, "seconds": {"median": 1}},
      {"kind": "copy", "from": "device", "to": "device", "bytes": 1e8, "rate": 1e11, "seconds": {"median": 1}},
      {"kind": "copy", "from": "device", "to": "gpu:1", "bytes": 1e8, "rate": 2e11, "seconds": {"median": 1}},
      {"kind": "dispatch", "seconds": {"median": 2e-6}}]}]})");
}

TEST(Roofline, ReadsTheProbesOfOneDevice) {
  const Roofs roofs = ReadRoofs(Probes(), "gpu:0");
  EXPECT_TRUE(roofs.is_probed);
  EXPECT_EQ(roofs.product_flops.at("f32"), 1e11) << "the best product";
  EXPECT_EQ(roofs.LevelFor(1e5)->bytes_per_s, 1e11) << "the triad where there is one";
  EXPECT_EQ(roofs.LevelFor(2e6)->name, "memory");
  EXPECT_EQ(roofs.LevelFor(1e12)->name, "memory");
  EXPECT_EQ(roofs.dispatch_s, 2e-6);
  EXPECT_FALSE(ReadRoofs(Probes(), "gpu:7").is_probed);
  EXPECT_FALSE(ReadRoofs(Json(), "gpu:0").is_probed);
}

TEST(Roofline, NamesWhatBoundsAKernel) {
  const Roofs roofs = ReadRoofs(Probes(), "gpu:0");
  // 1e9 FLOPs need 10 ms in f32 and 2.5 ms in bf16; 2e7 bytes 2 ms of the memory.
  Json judged = JudgeKernel(roofs, {0.02, 1e9, 2e7, 1, "f32"});
  EXPECT_EQ(judged["bound"], "compute");
  EXPECT_DOUBLE_EQ(judged["share"], 0.5);
  judged = JudgeKernel(roofs, {0.01, 1e9, 2e7, 1, "bf16"});
  EXPECT_DOUBLE_EQ(judged["share"], 0.25);
  judged = JudgeKernel(roofs, {0.004, 1e7, 2e7, 1, ""});
  EXPECT_EQ(judged["bound"], "memory");
  EXPECT_EQ(judged["level"], "memory");
  EXPECT_DOUBLE_EQ(judged["share"], 0.5);
  // 1 us of work in three dispatches, each of which takes 2 us to start.
  judged = JudgeKernel(roofs, {8e-6, 1e4, 1e5, 3, ""});
  EXPECT_EQ(judged["bound"], "dispatch");
  EXPECT_DOUBLE_EQ(judged["dispatch_s"], 6e-6);
  EXPECT_TRUE(JudgeKernel(roofs, {1e-3, -1, -1, 1, ""}).is_null()) << "nothing is known";
  EXPECT_TRUE(JudgeKernel(roofs, {1e-3, 1e9, 1e3, 1, "f64"}).is_null()) << "no roof for f64";
  EXPECT_TRUE(JudgeKernel(Roofs(), {1e-3, 1e9, 1e9, 1, ""}).is_null()) << "not probed";
}

ProfiledCommand Command(const char* label, const char* kind, double start, double submitted,
                        double end, double device) {
  ProfiledCommand command;
  command.label = label;
  command.device = "gpu:0";
  command.kind = kind;
  command.start_s = start;
  command.submitted_s = submitted;
  command.end_s = end;
  command.device_s = device;
  return command;
}

TEST(BenchProfile, TheSplitAddsUpToTheRun) {
  std::vector<ProfiledRun> runs(3);
  for (size_t r = 0; r < 3; ++r) {
    const double longer = static_cast<double>(r);  // the second run has the median time
    runs[r].seconds = 20 + longer;
    runs[r].commands = {
        Command("x", "input", 0, 1, 2, -1), Command("mm", "dispatch", 2, 3, 8 + longer, 4 + longer),
        Command("mm", "dispatch", 9 + longer, 9.5 + longer, 12 + longer, 2),
        Command("gpu to cpu", "transfer", 12 + longer, 12 + longer, 15 + longer, -1),
        Command("y", "output", 15 + longer, 16 + longer, 18 + longer, -1)};
    runs[r].commands[1].flops = runs[r].commands[2].flops = 5e11;
    runs[r].commands[1].bytes = runs[r].commands[2].bytes = 1e10;
  }
  const Json profile =
      SummarizeProfile(runs, 10, [](const std::string& path) { return ReadRoofs(Probes(), path); });
  EXPECT_EQ(profile["seconds"], 21.0);
  EXPECT_DOUBLE_EQ(profile["overhead"], 2.1);
  const Json& split = profile["split"];
  EXPECT_DOUBLE_EQ(split["copies_in"], 2);
  EXPECT_DOUBLE_EQ(split["busy"]["gpu:0"], 5 + 2);
  EXPECT_DOUBLE_EQ(split["inter_device"], 3);
  EXPECT_DOUBLE_EQ(split["copies_out"], 3);
  EXPECT_DOUBLE_EQ(split["enqueue"], 1.5);
  EXPECT_DOUBLE_EQ(split["waits"], 1 + 0.5);
  EXPECT_DOUBLE_EQ(split["idle"], 3);
  // Two dispatches are one group with the work of one: 5e11 FLOPs, 5 s at the f32 roof.
  const Json& group = profile["groups"][0];
  EXPECT_EQ(group["label"], "mm");
  EXPECT_EQ(group["dispatches"], 2);
  EXPECT_DOUBLE_EQ(group["seconds"], 7);
  EXPECT_DOUBLE_EQ(group["flops"], 5e11);
  EXPECT_DOUBLE_EQ(group["roof"]["share"], 5.0 / 7);
  EXPECT_EQ(profile["timeline"].size(), 5u);
  EXPECT_DOUBLE_EQ(profile["roof_share"], 0.5) << "5 s of the 10 of a plain run";
  const Json row = {{"model", "m"}, {"device", "gpu:0"}, {"profile", profile}};
  EXPECT_THAT(FormatProfile(row), testing::HasSubstr("2.10 times a plain run"));
  EXPECT_THAT(FormatProfile(row), testing::HasSubstr("| 71% | compute |"));
  EXPECT_THAT(FormatProfile(row), testing::Not(testing::HasSubstr("More than 100% of a roof")));
  Json fast = row;
  fast["profile"]["groups"][0]["roof"]["share"] = 1.2;
  EXPECT_THAT(FormatProfile(fast),
              testing::HasSubstr("More than 100% of a roof: the probe is older"));
}

// Against the best rate that the probe saw on the same way: between the host and a device, from
// whichever memory was faster, and straight between devices.
TEST(BenchProfile, CopiesAreSetAgainstTheirLinks) {
  std::vector<ProfiledRun> runs(1);
  runs[0].seconds = 20;
  runs[0].commands = {Command("x", "input", 0, 1, 2, -1),
                      Command("host -> gpu:0", "transfer", 2, 2, 4, -1),
                      Command("gpu:0 -> host", "transfer", 4, 4, 8, -1),
                      Command("gpu:0 -> gpu:1", "transfer", 8, 8, 9, -1),
                      Command("y", "output", 9, 9, 10, -1),
                      Command("host -> host", "transfer", 10, 10, 11, -1)};
  runs[0].commands[0].bytes = 2.5e10;    // half: 1 s, by what page-locked memory reaches
  runs[0].commands[1].bytes = 5e10;      // half of what the link gives
  runs[0].commands[2].bytes = 4e10;      // a quarter
  runs[0].commands[3].bytes = 2e11;      // all
  runs[0].commands[3].device = "gpu:1";  // whose probe does not have it
  runs[0].commands[4].bytes = 1;         // of a device without a probe
  runs[0].commands[4].device = "gpu:2";
  runs[0].commands[5].bytes = 5e10;  // half
  const Json profile =
      SummarizeProfile(runs, 10, [](const std::string& path) { return ReadRoofs(Probes(), path); });
  std::map<std::string, double> shares;
  for (const Json& group : profile["groups"]) {
    if (group.contains("link")) shares[group["label"]] = group["link"]["share"];
  }
  EXPECT_THAT(shares, testing::ElementsAre(testing::Pair("gpu:0 -> gpu:1", testing::DoubleEq(1)),
                                           testing::Pair("gpu:0 -> host", testing::DoubleEq(0.25)),
                                           testing::Pair("host -> gpu:0", testing::DoubleEq(0.5)),
                                           testing::Pair("host -> host", testing::DoubleEq(0.5)),
                                           testing::Pair("x", testing::DoubleEq(0.5))));
  EXPECT_DOUBLE_EQ(profile["link_shares"]["inter_device"], (1 + 1 + 1 + 0.5) / 8.0);
  EXPECT_DOUBLE_EQ(profile["link_shares"]["copies_in"], 0.25) << "of the 2 s with the submission";
  EXPECT_FALSE(profile["link_shares"].contains("copies_out")) << "nobody measured it";
  const std::string text =
      FormatProfile({{"model", "m"}, {"device", "gpu:0"}, {"profile", profile}});
  EXPECT_THAT(text, testing::HasSubstr("| 8.000 s, 40% (44% of the link's peak) |"));
  EXPECT_THAT(text, testing::HasSubstr("| 25% | link |"));
}

// Twelve dispatches; launching takes the host as long for each.
std::vector<ProfiledRun> RunsByClocks(double host_per_device, double noise) {
  std::vector<ProfiledRun> runs(3);
  for (ProfiledRun& run : runs) {
    for (int i = 0; i < 12; ++i) {
      const double device = 1e-6 * (i + 1), off = i % 2 == 0 ? noise : -noise;
      run.commands.push_back(Command(("k" + std::to_string(i)).c_str(), "dispatch", 0, 1e-6,
                                     9e-6 + host_per_device * device + off, device));
      run.seconds += run.commands.back().end_s;
    }
  }
  return runs;
}

TEST(BenchProfile, ClocksOfDevicesAreSetAgainstTheHosts) {
  const auto clocks_of = [](const std::vector<ProfiledRun>& runs) {
    return SummarizeProfile(runs, 1, [](const std::string&) { return Roofs(); })["clocks"];
  };
  Json clocks = clocks_of(RunsByClocks(1.2, 0));
  EXPECT_NEAR(clocks["gpu:0"]["ratio"].get<double>(), 1.2, 1e-9);
  EXPECT_EQ(clocks["gpu:0"]["commands"], 12);
  clocks = clocks_of(RunsByClocks(1, 2e-8));
  EXPECT_NEAR(clocks["gpu:0"]["ratio"].get<double>(), 1, clocks["gpu:0"]["error"].get<double>());
  EXPECT_TRUE(clocks_of(RunsByClocks(1, 2e-6)).empty()) << "the host's noise leaves it open";
  std::vector<ProfiledRun> few = RunsByClocks(1.2, 0);
  for (ProfiledRun& run : few) run.commands.resize(5);
  EXPECT_TRUE(clocks_of(few).empty());
  for (ProfiledRun& run : few = RunsByClocks(1.2, 0)) {
    for (ProfiledCommand& command : run.commands) command.device = "cpu:0";
  }
  EXPECT_TRUE(clocks_of(few).empty()) << "the host's own clock";
}

TEST(BenchProfile, WithoutProbesItSaysSo) {
  std::vector<ProfiledRun> runs(1);
  runs[0].seconds = 2;
  runs[0].commands = {Command("mm", "dispatch", 0, 0.5, 2, 1)};
  const Json profile = SummarizeProfile(runs, 1, [](const std::string&) { return Roofs(); });
  const Json row = {{"model", "m"}, {"device", "gpu:0"}, {"profile", profile}};
  EXPECT_EQ(FormatRoofShare(row), "not probed");
  EXPECT_THAT(FormatProfile(row), testing::HasSubstr("halyard devices --probe"));
  EXPECT_FALSE(profile["groups"][0].contains("flops")) << "unknown is not 0";
}

// A prediction counts where all of its kernels were timed.
TEST(BenchProfile, GroupsNameTheirNodes) {
  const Json group = {{"device", "cpu:0"}, {"seconds", 1e-3}, {"share", 0.5}, {"kind", "dispatch"}};
  Json profile = {{"seconds", 2e-3},
                  {"split",
                   {{"enqueue", 0.0},
                    {"copies_in", 0.0},
                    {"busy", {{"cpu:0", 2e-3}}},
                    {"inter_device", 0.0},
                    {"copies_out", 0.0},
                    {"waits", 0.0},
                    {"idle", 0.0}}},
                  {"groups", {group, group, group}}};
  profile["groups"][0]["label"] = "conv1";
  profile["groups"][1]["label"] = "fc";
  profile["groups"][2]["label"] = "conv1";  // an input of that name is none
  profile["groups"][2]["kind"] = "input";
  AddNodes({{{"label", "conv1"}, {"nodes", "with relu1"}}, {{"label", "fc"}}}, &profile);
  EXPECT_EQ(profile["groups"][0].value("nodes", ""), "with relu1");
  EXPECT_FALSE(profile["groups"][1].contains("nodes"));
  EXPECT_FALSE(profile["groups"][2].contains("nodes"));
  const std::string text =
      FormatProfile({{"model", "m.onnx"}, {"device", "cpu:0"}, {"profile", profile}});
  EXPECT_THAT(text, testing::HasSubstr("\n| conv1 (with relu1) | cpu:0 |"));
  EXPECT_THAT(text, testing::HasSubstr("\n| fc | cpu:0 |"));
  EXPECT_THAT(text, testing::HasSubstr("\n| conv1 | cpu:0 |"));
}

TEST(BenchProfile, NodesAreNamedWithoutTheFolderOfAll) {
  EXPECT_EQ(
      WithoutSharedFolder(
          "/bert/layer.2/dense/MatMul, /bert/layer.2/dense/Add, /bert/layer.2/act/Div and 1 more"),
      "dense/MatMul, dense/Add, act/Div and 1 more");
  EXPECT_EQ(WithoutSharedFolder("part of /layer4/conv3/Conv, /layer4/Add"),
            "part of conv3/Conv, Add");
  // What is short or shares nothing stays; a folder is shared whole.
  for (const char* nodes : {"", "with relu1", "/conv1/Conv", "/conv1/Conv, /relu/Relu", "/a/x, y",
                            "/a/x,/", "/layer1/x, /layer12/x", "x, y, z"}) {
    EXPECT_EQ(WithoutSharedFolder(nodes), nodes);
  }
}

// One command after the other, a GPU waits for most of a run; plain runs do not.
TEST(BenchProfile, SaysWhatOfAPlainRunADeviceIsBusy) {
  Json row = {{"model", "m.onnx"},
              {"device", "cuda:0"},
              {"latency", {{"p50", 1.0}}},
              {"profile",
               {{"seconds", 7.0},
                {"overhead", 7.0},
                {"split",
                 {{"enqueue", 3.0},
                  {"copies_in", 0.0},
                  {"busy", {{"cuda:0", 0.9}}},
                  {"inter_device", 0.0},
                  {"copies_out", 0.0},
                  {"waits", 3.1},
                  {"idle", 0.0}}},
                {"groups", Json::array()}}}};
  EXPECT_THAT(FormatProfile(row), testing::HasSubstr("set against p50 it is cuda:0 90%."));
  row["profile"]["split"]["enqueue"] = row["profile"]["split"]["waits"] = 0.1;
  EXPECT_THAT(FormatProfile(row), testing::Not(testing::HasSubstr("set against p50")));
}

TEST(BenchProfile, TellsHowFarTheCostModelIsOff) {
  Json profile = {{"groups",
                   {{{"label", "a"},
                     {"kind", "dispatch"},
                     {"seconds", 2e-6},
                     {"roof", {{"share", 0.5}}}},
                    {{"label", "b"}, {"kind", "dispatch"}, {"seconds", 6e-6}},
                    {{"label", "c"}, {"kind", "copy"}, {"seconds", 1e-6}}}}};
  const Json predictions = Json::parse(R"([
    {"class": "contraction", "seconds": 4e-6, "source": "table", "dispatches": ["a", "b"]},
    {"class": "contraction", "seconds": 3e-6, "source": "table", "dispatches": ["a"]},
    {"class": "contraction", "seconds": 4e-6, "source": "table", "dispatches": ["b"]},
    {"class": "pointwise", "seconds": 1e-6, "source": "table", "dispatches": ["c"]}])");
  AddModelErrors(predictions, &profile);
  const Json& errors = profile["model_error"];
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0]["class"], "contraction");
  EXPECT_EQ(errors[0]["kernels"], 3);
  EXPECT_DOUBLE_EQ(errors[0]["median_error"].get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(errors[0]["worst_error"].get<double>(), 0.5);
  ASSERT_EQ(errors[0]["samples"].size(), 3u);
  EXPECT_EQ(errors[0]["samples"][0], Json::parse(R"({"seconds": 4e-6, "source": "table",
    "dispatches": ["a", "b"], "measured": 8e-6})"));
  EXPECT_EQ(errors[0]["samples"][1]["measured"], 2e-6);
  EXPECT_DOUBLE_EQ(errors[0]["seconds"].get<double>(), 16e-6);
  // Of the one kernel whose roof is known.
  EXPECT_DOUBLE_EQ(errors[0]["roof_share"].get<double>(), 0.5);
  EXPECT_EQ(errors[0]["samples"][1]["roof"], 1e-6);
  EXPECT_FALSE(errors[0]["samples"][0].contains("roof"));
  Json row = {{"model", "m.onnx"}, {"device", "cuda:0"}, {"latency", {{"p50", 1.0}}}};
  row["profile"] = profile;
  row["profile"]["seconds"] = row["profile"]["overhead"] = 1.0;
  row["profile"]["split"] = {{"enqueue", 0.0}, {"copies_in", 0.0}, {"busy", {{"cuda:0", 1.0}}},
                             {"inter_device", 0.0}, {"copies_out", 0.0}, {"waits", 0.0},
                             {"idle", 0.0}};
  row["profile"]["groups"] = Json::array();
  EXPECT_THAT(FormatProfile(row),
              testing::HasSubstr("| contraction | 3 | 16.00 us | 50% | 50% | 50% | 0.67 |"));
}

}  // namespace
}  // namespace halyard::tools
