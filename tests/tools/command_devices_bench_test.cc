// SPDX-License-Identifier: Apache-2.0
// `halyard devices` and `halyard bench` as a user sees them; the rest of the command is in
// command_test.cc.
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/tools/command_fixture.h"

namespace halyard {
namespace {

TEST_F(CommandTest, Devices) {
  // The drivers, then a line for each device below the names of its columns, then all of each.
  const std::string text = Run("devices cpu:0");
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(text, testing::ContainsRegex("\n\ndevice +name +driver +units +memory +its bandwidth "
                                           "+f32 +16-bit products\ncpu:0 [^\n]+\n\ncpu:0\n"));
  EXPECT_THAT(Run("devices --json"), testing::HasSubstr("\"compute.unit_count\""));
  EXPECT_EQ(status_, 0);
  ExpectError(Run("devices cpu:77"), 3, "cpu:77");
  for (const char* list : {"cpu:0 cpu cpu:0", "cpu:0,cpu"}) {
    const std::string twice = Run(std::string("devices --json ") + list);
    EXPECT_NE(twice.find("\"path\": \"cpu:0\""), std::string::npos) << twice;
    EXPECT_EQ(twice.find("\"path\": \"cpu:0\""), twice.rfind("\"path\": \"cpu:0\"")) << twice;
  }
  ExpectError(Run("devices null:0"), 1,
              "There is no driver 'null'; this build has: cpu, cuda, vulkan.");
  ExpectError(Run("devices gpu:0"), 1,
              "There is no driver 'gpu'; this build has: cpu, cuda, vulkan.");
  ExpectError(Run("devices --why-missing cuda --json"), 1, "--json excludes --why-missing");
  ExpectError(Run("devices --diff a b --json"), 1, "--json excludes --diff");
  ExpectError(Run("devices --probe --seconds 0"), 1,
              "'0' is not a number of seconds from 0.1 to 100000");
}

// Until a program file is open nobody knows its devices; the library chooses none for it.
TEST_F(CommandTest, BenchOfAProgramIsOfItsDevices) {
  Write("copy.onnx", "copy");
  setenv("HALYARD_SYNTHETIC_DEVICES", "threads=1", 1);
  Run("compile copy.onnx --device cpu:1 -o copy.hyp");
  ASSERT_EQ(status_, 0);
  EXPECT_THAT(Squeezed(Run("bench copy.hyp --runs 1 --warm-up 0 --no-profile")),
              testing::ContainsRegex("\\| copy.hyp [^|]*\\| cpu:1 \\|"));
  unsetenv("HALYARD_SYNTHETIC_DEVICES");
  const std::string gone = Run("bench copy.hyp --runs 1");
  EXPECT_EQ(status_, 3) << gone;
  EXPECT_THAT(gone, testing::AllOf(testing::HasSubstr("on its devices: "),
                                   testing::Not(testing::HasSubstr("auto"))));
}

// A stored probe that cannot be used says so wherever it is looked for, and what helps.
TEST_F(CommandTest, ProbesOfAnotherVersionAreTold) {
  Run("devices cpu:0 --probe --seconds 0.1");  // makes the folder
  Write("cache/probes.json", R"({"format": "halyard-probes-1"})");
  EXPECT_THAT(Run("devices cpu:0"),
              testing::AllOf(testing::HasSubstr("stored probes are not used: "),
                             testing::HasSubstr("`halyard devices --probe` measures anew")));
  EXPECT_EQ(status_, 0);
}

TEST_F(CommandTest, DevicesCompared) {
  Write("a.json", Run("devices cpu:0 --json"));
  EXPECT_EQ(Run("devices --diff a.json a.json"), "no difference\n");
  EXPECT_EQ(status_, 0);
  Write("b.json", Run("devices 'cpu:0?threads=1' --json"));
  std::string changed = Read("b.json");
  const size_t at = changed.find("\"x86_64\"");
  if (at != std::string::npos) changed.replace(at, 8, "\"other\"");
  Write("b.json", changed);
  const std::string difference = Run("devices --diff a.json b.json");
  if (at != std::string::npos) {
    EXPECT_THAT(difference, testing::HasSubstr("identity.architecture: x86_64 -> other"));
    EXPECT_EQ(status_, 4);
  }
  // A device that is gone is one line.
  const std::string none = R"({"format": "halyard-devices-1", "drivers": [], "devices": []})";
  Write("none.json", none);
  std::string gone = Run("devices --diff a.json none.json");
  EXPECT_THAT(gone, testing::HasSubstr("- device cpu:0 = "));
  EXPECT_THAT(gone, testing::Not(testing::HasSubstr("cpu:0 compute.")));
  EXPECT_THAT(Run("devices --diff none.json a.json"), testing::HasSubstr("+ device cpu:0 = "));
  gone = Run("devices --diff a.json none.json --all");
  EXPECT_THAT(gone, testing::HasSubstr("- cpu:0 compute.unit_count = "));
  ExpectError(Run("devices --diff a.json none.json --probe"), 1, "it takes no --probe");
  // The report goes where it is wanted, beside the text.
  EXPECT_THAT(Run("devices cpu:0 --output c.json"), testing::HasSubstr("driver cpu"));
  EXPECT_EQ(Run("devices --diff a.json c.json"), "no difference\n");
  ExpectError(Run("devices --output x --svg x"), 1, "'x'");
  Write("bad.json", "{\"format\": \"halyard-devices-7\"}");
  ExpectError(Run("devices --diff a.json bad.json"), 2, "'halyard-devices-1' is needed");
  Write("bad.json", "[");
  ExpectError(Run("devices --diff bad.json a.json"), 2, "no JSON object");
  Write("bad.json", "{\"format\": \"halyard-devices-1\"}");
  ExpectError(Run("devices --diff a.json bad.json"), 2, "is no report");
  ExpectError(Run("devices --diff a.json gone.json"), 2, "'gone.json' cannot be read");
}

TEST_F(CommandTest, WhatOfADeviceIsCompared) {
  const std::string text = Run("devices cpu:0 --json");
  Write("a.json", text);
  const auto differs = [&](const std::function<void(nlohmann::ordered_json&)>& change,
                           const std::string& line) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(text);
    change(json);
    Write("b.json", json.dump());
    EXPECT_THAT(Run("devices --diff a.json b.json"), testing::HasSubstr(line));
    EXPECT_EQ(status_, 4) << line;
  };
  using Report = nlohmann::ordered_json;
  differs([](Report& json) { json["devices"][0]["executable_formats"].push_back("sheets"); },
          "+ cpu:0 format sheets = yes\n");
  differs([](Report& json) { json["devices"][0]["left_out"] = "It is slow."; },
          "+ cpu:0 left out = It is slow.\n");
  differs([](Report& json) { json["drivers"][0]["reason"] = "It is late."; }, "OK (It is late.)\n");
  // A report may come from anywhere: nothing of it commands the terminal.
  differs([](Report& json) { json["devices"][0]["features"].push_back("red\x1b[31m"); },
          "+ cpu:0 feature red\\x1b[31m = yes\n");
}

TEST_F(CommandTest, DamagedReportsOfDevicesAreNotCompared) {
  Write("a.json", Run("devices cpu:0 --json"));
  const nlohmann::ordered_json report = nlohmann::ordered_json::parse(Read("a.json"));
  const auto damage = [&](const std::function<void(nlohmann::ordered_json&)>& change,
                          const std::string& why) {
    nlohmann::ordered_json json = report;
    change(json);
    Write("bad.json", json.dump());
    const std::string text = Run("devices --diff a.json bad.json");
    ExpectError(text, 2, why);
    EXPECT_THAT(text, testing::Not(testing::HasSubstr("json.exception")));
  };
  damage([](nlohmann::ordered_json& json) { json.erase("drivers"); }, "it has no 'drivers'");
  damage([](nlohmann::ordered_json& json) { json["devices"] = nlohmann::ordered_json::object(); },
         "its 'devices' are no list");
  damage([](nlohmann::ordered_json& json) { json["links"] = nlohmann::ordered_json::object(); },
         "its 'links' are no list");
  damage([](nlohmann::ordered_json& json) { json["devices"].push_back(json["devices"][0]); },
         "a device twice");
  damage([](nlohmann::ordered_json& json) { json["devices"][0] = 5; },
         "missing or of another kind");
  damage([](nlohmann::ordered_json& json) { json["devices"][0].erase("path"); },
         "missing or of another kind");
  damage([](nlohmann::ordered_json& json) { json["devices"][0]["fields"] = "x"; },
         "missing or of another kind");
}

TEST_F(CommandTest, DevicesCompareTheirLinks) {
  setenv("HALYARD_SYNTHETIC_DEVICES", "speed_percent=50", 1);
  nlohmann::ordered_json report = nlohmann::ordered_json::parse(Run("devices cpu:0 cpu:1 --json"));
  unsetenv("HALYARD_SYNTHETIC_DEVICES");
  ASSERT_EQ(report["links"].size(), 2u);
  Write("a.json", report.dump());
  report["links"][0]["kind"] = "nvlink";
  report["links"][0]["can_access_peer"] = true;
  Write("b.json", report.dump());
  EXPECT_THAT(Run("devices --diff a.json b.json"),
              testing::AllOf(testing::StartsWith("  link cpu:0 -> cpu:1: "),
                             testing::EndsWith(" -> nvlink, peer access\n")));
  EXPECT_EQ(status_, 4);
}

// Ctrl-C in the middle of a probe that would take long: a report of what there is, and the status.
TEST_F(CommandTest, ProbeInterrupted) {
  const std::string out =
      Run("devices cpu:0 --probe --seconds 600 --output a.json 2>errors & sleep 1; kill -INT $!; "
          "wait $!; exit $?");
  EXPECT_EQ(status_, 130) << out;
  EXPECT_THAT(Read("errors"), testing::HasSubstr("halyard: error: interrupted; "));
  EXPECT_THAT(out, testing::HasSubstr(", cut short"));
  EXPECT_FALSE(
      nlohmann::ordered_json::parse(Read("a.json"))["probes"]["devices"][0]["is_complete"]);
}

// A row for every device that is listed, also one that `auto` leaves out.
TEST_F(CommandTest, BenchOfAllDevices) {
  Write("copy.onnx", "copy");
  setenv("HALYARD_SYNTHETIC_DEVICES", "speed_percent=50", 1);
  const nlohmann::ordered_json listed =
      nlohmann::ordered_json::parse(Run("devices --json"))["devices"];
  const std::string table =
      Run("bench copy.onnx --device all --runs 5 --warm-up 0 --seconds 0.05 --no-profile");
  unsetenv("HALYARD_SYNTHETIC_DEVICES");
  EXPECT_EQ(status_, 0) << table;
  EXPECT_GE(listed.size(), 2u);
  for (const nlohmann::ordered_json& device : listed) {
    EXPECT_THAT(Squeezed(table),
                testing::HasSubstr("as-given | " + device["path"].get<std::string>() + " |"));
  }
}

TEST_F(CommandTest, Bench) {
  Write("copy.onnx", "copy");
  const std::string table =
      Run("bench copy.onnx --runs 10 --warm-up 0 --seconds 0.05 --output a.json");
  EXPECT_EQ(status_, 0) << table;
  EXPECT_THAT(Squeezed(table), testing::HasSubstr("| copy.onnx n=1 as-given | cpu:0 | "));
  EXPECT_THAT(Read("a.json"), testing::HasSubstr("\"is_deterministic\": true"));
  EXPECT_THAT(Squeezed(table), testing::HasSubstr("| enqueue | copies in | cpu:0 busy | "));
  EXPECT_THAT(table, testing::HasSubstr("not probed"));
  EXPECT_THAT(Read("a.json"), testing::HasSubstr("\"overhead\":"));
  EXPECT_THAT(Run("bench copy.onnx --runs 5 --warm-up 0 --seconds 0.05 --no-profile -o json"),
              testing::Not(testing::HasSubstr("\"profile\"")));
  EXPECT_THAT(Run("bench --compare a.json a.json"), testing::HasSubstr("no difference"));
  Run("bench copy.onnx --runs 5 --warm-up 0 --seconds 0.05 --fail-if 'p50<100s'");
  EXPECT_EQ(status_, 4);
  // A device that is not there is an error of its row, not another device's time.
  ExpectError(Run("bench copy.onnx --runs 5 --device cpu:77"), 3, "copy.onnx as-given on cpu:77: ");
  EXPECT_THAT(
      Run("bench copy.onnx --runs 5 --device cpu:77 -o csv 2>errors; exit $?"),
      testing::AllOf(testing::HasSubstr("\"copy.onnx as-given\",\"cpu:77\","
                                        ",,,,,,,,,,,,,,,,,,,,,,\"There is no CPU device 77; "),
                     testing::EndsWith("\"\n")));
  EXPECT_EQ(status_, 3);
  EXPECT_THAT(Read("errors"), testing::HasSubstr("halyard: error: copy.onnx as-given on cpu:77: "));
  const std::string mixed =
      Run("bench copy.onnx --runs 5 --warm-up 0 --seconds 0.05 --device cpu:77,cpu:0 2>errors; "
          "exit $?");
  EXPECT_THAT(Squeezed(mixed),
              testing::AllOf(testing::HasSubstr("| copy.onnx as-given | cpu:77 | "),
                             testing::HasSubstr("| copy.onnx n=1 as-given | cpu:0 | ")));
  EXPECT_EQ(status_, 3);
  EXPECT_THAT(Read("errors"), testing::HasSubstr("halyard: error: copy.onnx as-given on cpu:77: "));
  ExpectError(Run("bench copy.onnx --shape 3"), 1, "--shape '3' is not SYMBOL=N");
  // One program over two devices; the stand-in puts all on the first.
  setenv("HALYARD_SYNTHETIC_DEVICES", "threads=1", 1);
  const std::string rows =
      Run("bench copy.onnx --runs 5 --warm-up 0 --seconds 0.05 --device cpu:0+cpu:1,cpu:0 -o json");
  EXPECT_EQ(status_, 0) << rows;
  EXPECT_THAT(rows, testing::HasSubstr("\"device\": \"cpu:0+cpu:1\""));
  EXPECT_THAT(rows, testing::HasSubstr("\"device\": \"cpu:0\""));
  EXPECT_THAT(rows, testing::HasSubstr("placement leaves all work to cpu:0"));
  unsetenv("HALYARD_SYNTHETIC_DEVICES");
  ExpectError(Run("bench copy.onnx --device cpu:0+"), 1, "'cpu:0+' has nothing on one side of a +");
  for (const char* list : {"auto+cpu:0", "cpu:0+auto", "cpu:0,auto+cpu:0"}) {
    ExpectError(Run("bench copy.onnx --device " + std::string(list)), 1,
                "'auto' is the CPU and all GPUs; it stands alone");
  }
  ExpectError(Run("run copy.onnx --device cpu:0,auto"), 1, "'auto' is the CPU and all GPUs");
  ExpectError(Run("run copy.onnx --device cpu:0+cpu:1"), 1,
              "'cpu:0+cpu:1' names several devices as a row of bench does; elsewhere a list has "
              "commas");
  ExpectError(Run("bench copy.onnx --fail-if p50"), 1, "METRIC>VALUE");
  // Before anything is measured.
  ExpectError(Run("bench copy.onnx --seconds 1000 --fail-if 'p5O>1s'"), 1,
              "there is no metric 'p5O'; did you mean 'p50'");
  ExpectError(Run("bench copy.onnx --seconds 1000 --fail-if 'speed>1'"), 1,
              "there is no metric 'speed'; there are 'p50'");
  EXPECT_THAT(Run("bench copy.onnx --runs 5 --device auto -o csv"), testing::HasSubstr("auto"));
  EXPECT_EQ(status_, 0);
  ExpectError(Run("bench --compare a.json gone.json"), 2, "'gone.json' cannot be read");
  Write("new.json", "{\"format\": \"halyard-bench-9\", \"rows\": []}");
  ExpectError(Run("bench --compare a.json new.json"), 2,
              "its format is 'halyard-bench-9'; 'halyard-bench-1' is needed");
}

TEST_F(CommandTest, BenchRefusesWhatItWouldIgnore) {
  Write("copy.onnx", "copy");
  const std::string quick = "bench copy.onnx --runs 5 --warm-up 0 --seconds 0.05 --no-profile ";
  Run(quick + "--output a.json");
  EXPECT_EQ(status_, 0);
  ExpectError(Run(quick + "--dtype f16"), 1, "--dtype is of --op");
  ExpectError(Run(quick + "--device cpu:0,cpu:0"), 1, "--device names 'cpu:0' twice");
  ExpectError(Run(quick + "--device cpu:0,cpu"), 1, "'cpu:0' and 'cpu', which are the same");
  ExpectError(Run("bench --compare a.json a.json --fail-if 'p50>1s' --json"), 1,
              "it takes no --fail-if, --json");
  ExpectError(Run("bench copy.onnx --compare a.json a.json"), 1, "it takes no MODEL");
  ExpectError(Run("bench --compare a.json a.json -o json"), 1, "it takes no -o");
  for (const char* more : {"copy.onnx", "--compare a.json a.json"}) {
    ExpectError(Run(std::string("bench --compare a.json a.json ") + more), 1,
                "--compare takes 2 values, A.json B.json, and nothing behind them; given were ");
  }
  ExpectError(Run(quick + "--rate 10,20 --rate 10.0"), 1, "--rate names '10.0' twice");
  ExpectError(Run("bench --compare a.json"), 1, "--compare needs 2 values: A.json B.json");
  for (const char* condition : {"p99>5%", "p99>5", "compile>1"}) {
    ExpectError(Run(quick + "--fail-if '" + condition + "'"), 1, "is a time");
  }
  ExpectError(Run(quick + "--fail-if 'throughput<1ms'"), 1, "'throughput' takes no unit");
  ExpectError(Run(quick + "--fail-if 'cv>1s'"), 1, "'cv' is a share");
  // What is accepted: all kinds with a unit of theirs, and none of them holds.
  EXPECT_THAT(Run(quick + "--fail-if 'p99>100s' --fail-if 'cv>1000000%' --fail-if 'cv>10000' "
                          "--fail-if 'throughput<0' --replan"),
              testing::StartsWith("| model"));
  EXPECT_EQ(status_, 0);
}

TEST_F(CommandTest, BenchOfAGrid) {
  Write("copy.onnx", "copy");
  const std::string quick = "bench copy.onnx --runs 5 --warm-up 0 --seconds 0.05 --no-profile ";
  const std::string csv =
      Run(quick +
          "--shape n=4,16 --precision as-given,fp16 --device cpu:0,'cpu:0?threads=1' -o csv "
          "--output a.json");
  EXPECT_EQ(status_, 0) << csv;
  size_t at = 0;
  for (const char* size : {" n=4", " n=16"}) {
    for (const char* precision : {" as-given", " fp16"}) {
      for (const char* device : {"cpu:0", "cpu:0?threads=1"}) {
        const std::string line =
            "\n\"copy.onnx" + std::string(size) + precision + "\",\"" + device + "\",";
        at = csv.find(line, at);
        ASSERT_NE(at, std::string::npos) << line << " in this order in " << csv;
      }
    }
  }
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 9);
  EXPECT_THAT(Read("a.json"), testing::ContainsRegex("\"shapes\": \\{[ \n]*\"n\": 16[ \n]*\\}"));
  EXPECT_THAT(Read("a.json"), testing::HasSubstr("\"precision\": \"fp16\""));
  EXPECT_THAT(Read("a.json"), testing::HasSubstr("\"io_precision\": \"as-given\""));
  EXPECT_THAT(Read("a.json"), testing::HasSubstr("\"vendor_libs\": true"));
  EXPECT_THAT(Run(quick + "--no-vendor-libs --json"), testing::HasSubstr("\"vendor_libs\": false"));
  EXPECT_THAT(Run(quick + "--vendor-libs --json"), testing::HasSubstr("\"vendor_libs\": true"));
  // One value names the row, too, and so does the least size where none is given.
  EXPECT_THAT(Run(quick + "--shape n=4 -o csv"),
              testing::HasSubstr("\n\"copy.onnx n=4 as-given\",\"cpu:0\","));
  ExpectError(Run(quick + "--shape n=4,4"), 1, "--shape names 'n=4' twice");
  ExpectError(Run(quick + "--shape n=4,"), 1, "--shape 'n=' is not SYMBOL=N");
  ExpectError(Run(quick + "--precision fp16,fp16"), 1, "--precision names 'fp16' twice");
  ExpectError(Run(quick + "--precision fp16,fp8"), 1, "'fp8' is not as-given or fp16");
  Write("bad.onnx", "bad");
  EXPECT_THAT(
      Run("bench bad.onnx --shape n=4,16"),
      testing::AllOf(
          testing::StartsWith("halyard: error: bad.onnx n=4 as-given on cpu:0: Node 'g'"),
          testing::HasSubstr("\nhalyard: error: bad.onnx n=16 as-given on cpu:0: Node 'g'")));
  EXPECT_EQ(status_, 2);
}

TEST_F(CommandTest, BenchUnderLoad) {
  Write("copy.onnx", "copy");
  const std::string quick = "bench copy.onnx --runs 5 --warm-up 0 --seconds 0.2 --no-profile ";
  const std::string table = Run(quick + "--concurrency 3 --rate 20,50 --rate 10 --output a.json");
  EXPECT_EQ(status_, 0) << table;
  EXPECT_THAT(table, testing::HasSubstr(
                         "\nLatency of copy.onnx n=1 as-given on cpu:0 under load, 3 sessions:"));
  for (const char* load : {"each run after the last", "due at 20/s", "due at 50/s", "due at 10/s"})
    EXPECT_THAT(Squeezed(table), testing::HasSubstr("\n| " + std::string(load) + " | "));
  EXPECT_THAT(Read("a.json"), testing::AllOf(testing::HasSubstr("\"concurrent_latency\""),
                                             testing::HasSubstr("\"missed\""),
                                             testing::HasSubstr("\"concurrent_peak_bytes\"")));
  Run(quick + "--rate 20 --fail-if 'missed>=0'");
  EXPECT_EQ(status_, 4);
  ExpectError(Run(quick + "--fail-if 'missed>0'"), 1, "'missed' needs --rate");
  ExpectError(Run(quick + "--no-check --fail-if 'max_abs_error>0'"), 1,
              "'max_abs_error' needs the comparison that --no-check leaves out");
  ExpectError(Run(quick + "--fail-if 'peak_bytes>1ms'"), 1, "'peak_bytes' takes no unit");
  ExpectError(Run(quick + "--rate 0"), 1, "--rate");
  ExpectError(Run(quick + "--rate 20,fast"), 1, "fast");
  ExpectError(Run("bench copy.onnx --rate 20,1e6 --seconds 100"), 1,
              "--rate 1e+06 for 100 s is more than the 10000000 runs that one measurement takes");
}

TEST_F(CommandTest, BenchShowsProgressOnATerminal) {
  if (!HasTerminals()) GTEST_SKIP() << "The system has no pseudo-terminals.";
  Write("copy.onnx", "copy");
  const std::string quick =
      "bench copy.onnx --device cpu:0,cpu:77 --runs 5 --warm-up 0 --seconds 0.05 --rate 50 ";
  const std::string shown = RunOnTerminal(quick, 200);
  EXPECT_EQ(status_, 3) << shown;
  const std::string erase = "\r\033[K";
  for (const char* phase :
       {"compiling", "filling the cache", "checking the outputs", "warming up", "timed runs",
        "several runs at once", "runs due at 50/s", "profiled runs"}) {
    EXPECT_THAT(shown, testing::HasSubstr(erase + "[1/2] copy.onnx as-given on cpu:0: " + phase +
                                          ", at least "));
  }
  // The error of the second row stands on a line of its own, and nothing is left behind it.
  EXPECT_THAT(shown, testing::HasSubstr(erase + "halyard: error: copy.onnx as-given on cpu:77: "));
  EXPECT_THAT(shown, testing::EndsWith("\n"));
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 1) << shown;
  EXPECT_THAT(Squeezed(Read("out")), testing::StartsWith("| model | device |"));
  EXPECT_THAT(Read("out"), testing::Not(testing::HasSubstr("\033")));
  // Lines are cut to the terminal, or they could not be overwritten.
  const std::string narrow =
      RunOnTerminal("bench copy.onnx --runs 5 --warm-up 0 --seconds 0.05", 30);
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(narrow, testing::EndsWith(erase));
  size_t longest = 0;
  for (size_t at = 0; (at = narrow.find(erase, at)) != std::string::npos;) {
    at += erase.size();
    longest = std::max(longest, std::min(narrow.find(erase, at), narrow.size()) - at);
  }
  EXPECT_EQ(longest, 29u) << narrow;
  // Where nobody looks there is none.
  EXPECT_EQ(Run("bench copy.onnx --runs 5 --warm-up 0 --seconds 0.05 >out 2>errors; cat errors"),
            "");
}

// Ctrl-C in the middle of the timed runs, and of a condition on what is then not measured.
TEST_F(CommandTest, BenchInterrupted) {
  Write("copy.onnx", "copy");
  // The cached program comes shortly before them. What follows the & is in another folder.
  const std::string wait = "for i in $(seq 300); do find " + folder_ +
                           "/cache -type f 2>/dev/null | grep -q . && break; sleep 0.1; done; ";
  const std::string out =
      Run("bench copy.onnx --seconds 60 --warm-up 0 --fail-if 'throughput<1' --output a.json "
          "2>errors & " +
          wait + "sleep 1; kill -INT $!; wait $!; exit $?");
  EXPECT_EQ(status_, 130) << out;
  EXPECT_THAT(Read("errors"), testing::HasSubstr("halyard: error: interrupted; --fail-if is "));
  EXPECT_THAT(Squeezed(out), testing::HasSubstr("| copy.onnx n=1 as-given | cpu:0 | "));
  EXPECT_THAT(out, testing::HasSubstr("\nInterrupted: what is not here was not measured.\n"));
  EXPECT_THAT(Read("a.json"), testing::AllOf(testing::HasSubstr("\"p50\""),
                                             testing::HasSubstr("\n \"is_interrupted\": true"),
                                             testing::HasSubstr("\n   \"is_interrupted\": true"),
                                             testing::Not(testing::HasSubstr("throughput"))));
}

// Ctrl-C while the second model compiles, which takes for ever unless the compiler is told.
TEST_F(CommandTest, BenchInterruptedInACompile) {
  Write("copy.onnx", "copy");
  Write("endless.onnx", "endless");
  setenv("HALYARD_FAKE_COMPILER_LOG", (folder_ + "/log").c_str(), 1);
  const std::string out =
      Run("bench copy.onnx endless.onnx other.onnx --shape n=3 --runs 5 --warm-up 0 --seconds 0.05 "
          "--output a.json 2>errors & while ! [ -e " +
          folder_ + "/begun ]; do sleep 0.05; done; kill -INT $!; wait $!; exit $?");
  unsetenv("HALYARD_FAKE_COMPILER_LOG");
  EXPECT_EQ(status_, 130) << out;
  EXPECT_EQ(Read("errors"),
            "halyard: error: interrupted; the report has what was measured until then\n");
  EXPECT_THAT(Squeezed(out),
              testing::AllOf(testing::HasSubstr("| copy.onnx n=3 as-given | cpu:0 | "),
                             testing::HasSubstr("| endless.onnx n=3 as-given | cpu:0 | - | "),
                             testing::Not(testing::HasSubstr("other.onnx"))));
  const std::string report = Read("a.json");
  EXPECT_THAT(report, testing::AllOf(testing::HasSubstr("\n \"is_interrupted\": true"),
                                     testing::HasSubstr("\"throughput\""),
                                     testing::Not(testing::HasSubstr("\"error\""))));
  const size_t row = report.find("endless.onnx");
  EXPECT_LT(report.find("\"p50\""), row);
  EXPECT_EQ(report.find("\"p50\"", row), std::string::npos) << report;
  EXPECT_NE(report.find("   \"is_interrupted\": true", row), std::string::npos) << report;
}

// Whichever row fails, the others are measured; the first that fails gives the status.
TEST_F(CommandTest, BenchOfSeveralRowsEndsWithTheFirstFailure) {
  Write("copy.onnx", "copy");
  Write("bad.onnx", "bad");
  const std::string quick = " --runs 5 --warm-up 0 --seconds 0.05 --no-profile 2>errors; exit $?";
  const std::string out = Run("bench copy.onnx bad.onnx" + quick);
  EXPECT_EQ(status_, 2);
  EXPECT_THAT(
      Squeezed(out),
      testing::AllOf(testing::HasSubstr("| copy.onnx n=1 as-given | cpu:0 | "),
                     testing::HasSubstr("| bad.onnx as-given | cpu:0 | bad.onnx: Node 'g'")));
  EXPECT_EQ(Read("errors"), "halyard: error: bad.onnx as-given on cpu:0: Node 'g' is wrong.\n");
  // A condition that holds on another row does not hide the failure.
  Run("bench copy.onnx bad.onnx --fail-if 'p50<100s'" + quick);
  EXPECT_EQ(status_, 2);
  Run("bench bad.onnx copy.onnx --fail-if 'p50<100s'" + quick);
  EXPECT_EQ(status_, 2);
  EXPECT_THAT(Read("errors"), testing::HasSubstr("copy.onnx n=1 as-given on cpu:0: p50<100s"));
  // A device is missing alike where its driver has none of that number and where it does not open.
  setenv("HALYARD_CUDA_LIBRARY", "libnowhere.so.1", 1);
  Run("bench copy.onnx --device cpu:0,cuda:0,cpu:77" + quick);
  EXPECT_EQ(status_, 3);
  Run("bench copy.onnx --device cpu:77,cuda:0,cpu:0" + quick);
  EXPECT_EQ(status_, 3);
  Run("bench bad.onnx copy.onnx --device cpu:0,cuda:0" + quick);
  EXPECT_EQ(status_, 2);
  unsetenv("HALYARD_CUDA_LIBRARY");
}

// The stand-in copies on cpu:0 and gives zeros on any other device; all that it should give is
// below the absolute tolerance.
TEST_F(CommandTest, BenchTellsWrongOutputsFirst) {
  Write("err.onnx", "err");
  WriteNpy("in/input_0.npy", {4e-4f, -2e-4f, 3e-4f});
  setenv("HALYARD_SYNTHETIC_DEVICES", "threads=1", 1);
  const std::string quick =
      "bench err.onnx --input-dir in --runs 5 --warm-up 0 --seconds 0.05 --device ";
  const std::string rest = " 2>errors; exit $?";
  const std::string what = "wrong: output 'y' differs from that of cpu:0: element 0 is 0; ";
  for (const char* precision : {"as-given", "fp16"}) {
    const std::string row = std::string("cpu:1 --precision ") + precision + " --html page.html";
    std::string out = Run(quick + row + rest);
    EXPECT_EQ(status_, 4) << out;
    EXPECT_THAT(out, testing::HasSubstr("\n- " + what)) << precision;
    EXPECT_THAT(Read("errors"), testing::HasSubstr(" on cpu:1: " + what));
    EXPECT_THAT(Read("page.html"), testing::HasSubstr(what));
    out = Run(quick + row + " -o csv" + rest);
    EXPECT_EQ(status_, 4);
    EXPECT_THAT(out, testing::HasSubstr("\"" + what));
    out = Run(quick + row + " -o json" + rest);
    EXPECT_EQ(status_, 4);
    const auto json = nlohmann::json::parse(out)["rows"][0];
    EXPECT_THAT(json["verdicts"][0].get<std::string>(), testing::StartsWith(what));
    EXPECT_EQ(json["error"], json["verdicts"][0]);
    EXPECT_FALSE(json.contains("latency"));
    EXPECT_EQ(json["errors"]["max_scaled_error"], 1);
  }
  // The row beside it is timed, and the status is still that of what is wrong.
  const std::string both = Run(quick + "cpu:1,cpu:0" + rest);
  EXPECT_EQ(status_, 4);
  EXPECT_THAT(Squeezed(both),
              testing::ContainsRegex("\\| err.onnx n=3 as-given \\| cpu:0 \\| [0-9]"));
  // Who asks for no check gets times.
  Run(quick + "cpu:1 --no-check" + rest);
  EXPECT_EQ(status_, 0);
  // Where the reference itself is not finite nothing is known.
  WriteNpy("in/input_0.npy", {INFINITY, 2});
  const std::string odd = Run(quick + "cpu:0" + rest);
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(odd, testing::HasSubstr("\n- not all is compared: the reference on cpu:0 is itself "
                                      "infinite or not a number in 1 of 2 elements of output 'y'"));
  unsetenv("HALYARD_SYNTHETIC_DEVICES");
}

TEST_F(CommandTest, ReportsOfNothingAlikeAreNotCompared) {
  Write("copy.onnx", "copy");
  Write("other.onnx", "copy");
  Write("bad.onnx", "bad");
  const std::string quick = " --runs 5 --warm-up 0 --seconds 0.05 --no-profile ";
  Run("bench copy.onnx" + quick + "--output a.json");
  Run("bench other.onnx" + quick + "--output b.json");
  ExpectError(Run("bench --compare a.json b.json"), 2,
              "'a.json' and 'b.json' measured no model on a device alike: the first has 'copy.onnx "
              "n=1 as-given on cpu:0', the second has 'other.onnx n=1 as-given on cpu:0'");
  Run("bench bad.onnx" + quick + "--output c.json");
  ExpectError(Run("bench --compare c.json c.json"), 2, "the first has none, the second has none");
}

// The model is opened several times, and each time there is no cache.
TEST_F(CommandTest, BenchSaysAWarningOnce) {
  Write("copy.onnx", "copy");
  setenv("HALYARD_CACHE_DIR", (folder_ + "/copy.onnx").c_str(), 1);
  const std::string out = Run("bench copy.onnx --runs 5 --warm-up 0 --seconds 0.05 --no-profile");
  const size_t first = out.find("no cache is used");
  ASSERT_NE(first, std::string::npos) << out;
  EXPECT_EQ(out.find("no cache is used", first + 1), std::string::npos) << out;
}

TEST_F(CommandTest, DevicesDrawnAndExplained) {
  EXPECT_EQ(Run("devices cpu:0 --svg picture.svg"), "");
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(Read("picture.svg"), testing::HasSubstr(">cpu:0</text>"));
  EXPECT_THAT(Read("picture.svg"), testing::EndsWith("</svg>\n"));
  setenv("HALYARD_CUDA_LIBRARY", "libnowhere.so.1", 1);
  const std::string why = Run("devices --why-missing cuda");
  unsetenv("HALYARD_CUDA_LIBRARY");
  EXPECT_THAT(why, testing::HasSubstr("reason: Library 'libnowhere.so.1' cannot be opened"));
  EXPECT_THAT(why, testing::HasSubstr("HALYARD_CUDA_LIBRARY"));
  EXPECT_EQ(status_, 0);
  ExpectError(Run("devices --why-missing abacus"), 1, "this build has: cpu");
  EXPECT_THAT(Run("devices cpu:0 --all"), testing::HasSubstr("compute.gpc_count = unknown"));
}

}  // namespace
}  // namespace halyard
