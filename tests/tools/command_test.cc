// SPDX-License-Identifier: Apache-2.0
// The command `halyard` as a user sees it: what it writes, its one-line errors and its exit
// statuses. The compiler library is the stand-in, which takes text for a model.
#include <sys/stat.h>

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
    EXPECT_THAT(table,
                testing::HasSubstr("as-given | " + device["path"].get<std::string>() + " |"));
  }
}

TEST_F(CommandTest, Bench) {
  Write("copy.onnx", "copy");
  const std::string table =
      Run("bench copy.onnx --runs 10 --warm-up 0 --seconds 0.05 --output a.json");
  EXPECT_EQ(status_, 0) << table;
  EXPECT_THAT(table, testing::HasSubstr("| copy.onnx n=1 as-given | cpu:0 | "));
  EXPECT_THAT(Read("a.json"), testing::HasSubstr("\"is_deterministic\": true"));
  EXPECT_THAT(table, testing::HasSubstr("| enqueue | copies in | cpu:0 busy | "));
  EXPECT_THAT(table, testing::HasSubstr("not probed"));
  EXPECT_THAT(Read("a.json"), testing::HasSubstr("\"overhead\":"));
  EXPECT_THAT(Run("bench copy.onnx --runs 5 --warm-up 0 --seconds 0.05 --no-profile -o json"),
              testing::Not(testing::HasSubstr("\"profile\"")));
  EXPECT_THAT(Run("bench --compare a.json a.json"), testing::HasSubstr("no difference"));
  Run("bench copy.onnx --runs 5 --warm-up 0 --seconds 0.05 --fail-if 'p50<100s'");
  EXPECT_EQ(status_, 4);
  // A device that is not there is an error of its row, not another device's time.
  ExpectError(Run("bench copy.onnx --runs 5 --device cpu:77"), 3, "copy.onnx as-given on cpu:77: ");
  EXPECT_THAT(Run("bench copy.onnx --runs 5 --device cpu:77 -o csv 2>errors; exit $?"),
              testing::EndsWith("\"copy.onnx as-given\",\"cpu:77\",,,,,,,,,,,,,,,,,,,\n"));
  EXPECT_EQ(status_, 3);
  EXPECT_THAT(Read("errors"), testing::HasSubstr("halyard: error: copy.onnx as-given on cpu:77: "));
  const std::string mixed =
      Run("bench copy.onnx --runs 5 --warm-up 0 --seconds 0.05 --device cpu:77,cpu:0 2>errors; "
          "exit $?");
  EXPECT_THAT(mixed, testing::AllOf(testing::HasSubstr("| copy.onnx as-given | cpu:77 | "),
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
  ExpectError(Run("bench copy.onnx --device cpu:0+"), 1, "--device has nothing on one side");
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
    EXPECT_THAT(table, testing::HasSubstr("\n| " + std::string(load) + " | "));
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
  EXPECT_THAT(Read("out"), testing::StartsWith("| model | device |"));
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
  EXPECT_THAT(out, testing::HasSubstr("| copy.onnx n=1 as-given | cpu:0 | "));
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
      Run("bench copy.onnx endless.onnx other.onnx --runs 5 --warm-up 0 --seconds 0.05 "
          "--output a.json 2>errors & while ! [ -e " +
          folder_ + "/begun ]; do sleep 0.05; done; kill -INT $!; wait $!; exit $?");
  unsetenv("HALYARD_FAKE_COMPILER_LOG");
  EXPECT_EQ(status_, 130) << out;
  EXPECT_EQ(Read("errors"),
            "halyard: error: interrupted; the report has what was measured until then\n");
  EXPECT_THAT(out, testing::AllOf(testing::HasSubstr("| copy.onnx n=1 as-given | cpu:0 | "),
                                  testing::HasSubstr("| endless.onnx as-given | cpu:0 | - | "),
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
      out, testing::AllOf(testing::HasSubstr("| copy.onnx n=1 as-given | cpu:0 | "),
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

TEST_F(CommandTest, ACachedProgramHidesNoPass) {
  Write("copy.onnx", "copy");
  // As JSON: text sums the phases that take no time to speak of.
  EXPECT_THAT(Run("compile copy.onnx -o a.hyp --json"), testing::HasSubstr("cache lookup"));
  for (const char* variable : {"HALYARD_DUMP", "HALYARD_STOP_AFTER", "HALYARD_DISABLE_PASS"}) {
    setenv(variable, "fuse", 1);
    const std::string phases = Run("compile copy.onnx -o b.hyp --json");
    unsetenv(variable);
    EXPECT_EQ(status_, 0) << phases;
    EXPECT_THAT(phases, testing::Not(testing::HasSubstr("cache lookup"))) << variable;
    EXPECT_THAT(phases, testing::Not(testing::HasSubstr("store"))) << variable;
  }
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

TEST_F(CommandTest, RunWritesWhatItRead) {
  Write("copy.onnx", "copy");
  WriteNpy("in/input_0.npy", {1.5f, -2.0f, 3.25f});
  const std::string out = Run("run copy.onnx --input-dir in --output-dir out");
  EXPECT_EQ(status_, 0) << out;
  EXPECT_THAT(out, testing::HasSubstr("output y [3]: min -2, max 3.25"));
  const std::string written = Read("out/output_0.npy");
  ASSERT_GE(written.size(), 12u);
  EXPECT_EQ(written.size() % 64, 12u);
  EXPECT_EQ(written.substr(written.size() - 12), Read("in/input_0.npy").substr(128));
  EXPECT_THAT(Run("run copy.onnx --input x=@in/input_0.npy --json"),
              testing::HasSubstr("\"run_seconds\""));
  EXPECT_EQ(status_, 0);
}

TEST_F(CommandTest, OutputsWithoutElementsSaySo) {
  Write("copy.onnx", "copy");
  EXPECT_THAT(Run("run copy.onnx --shape n=0"), testing::StartsWith("output y [0]: no elements\n"));
}

TEST_F(CommandTest, RandomInputsComeFromTheSeed) {
  Write("copy.onnx", "copy");
  const auto output = [&](const std::string& options) {
    EXPECT_EQ((Run("run copy.onnx --output-dir out " + options), status_), 0);
    return Read("out/output_0.npy");
  };
  const std::string one = output("--seed 1 --shape n=100");
  EXPECT_EQ(one.size(), 128u + 400u);
  EXPECT_EQ(output("--seed 1 --shape n=100"), one);
  EXPECT_NE(output("--seed 2 --shape n=100"), one);
}

TEST_F(CommandTest, Expectations) {
  Write("copy.onnx", "copy");
  WriteNpy("in/input_0.npy", {1, 2, 3});
  WriteNpy("good/output_0.npy", {1, 2, 3.0001f});
  WriteNpy("bad/output_0.npy", {1, 2, 4});
  WriteNpy("short/output_0.npy", {1, 2});
  Run("run copy.onnx --input-dir in --expect-dir good --rtol 1e-3");
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(Run("run copy.onnx --input-dir in --expect-dir bad"),
              testing::HasSubstr("output 'y': element 2 is 3; 4 is expected"));
  EXPECT_EQ(status_, 4);
  EXPECT_THAT(Run("run copy.onnx --input-dir in --expect-dir short"),
              testing::HasSubstr("output 'y': it is f32[3]; f32[2] is expected"));
  EXPECT_EQ(status_, 4);
  WriteNpy("good/output_1.npy", {1});
  ExpectError(Run("run copy.onnx --input-dir in --expect-dir good"), 2,
              "good/output_1.npy is there; the model has 1 output");
}

TEST_F(CommandTest, CompileThenRunWithoutACompiler) {
  Write("copy.onnx", "copy");
  WriteNpy("in/input_0.npy", {1, 2, 3});
  EXPECT_THAT(Run("compile copy.onnx -o copy.hyp"), testing::HasSubstr("wrote copy.hyp"));
  EXPECT_EQ(status_, 0);
  setenv("HALYARD_COMPILER_LIBRARY", "/nonexistent.so", 1);
  Run("run copy.hyp --input-dir in --expect-dir in");
  EXPECT_EQ(status_, 2);  // there is no output_0.npy in that folder
  std::filesystem::copy(folder_ + "/in/input_0.npy", folder_ + "/in/output_0.npy");
  Run("run copy.hyp --input-dir in --expect-dir in");
  EXPECT_EQ(status_, 0);
  Run("run copy.hyp --shape n=3 --input-dir in --expect-dir in");
  EXPECT_EQ(status_, 0);
  ExpectError(Run("run copy.hyp --shape m=3"), 1,
              "copy.hyp has no open size 'm'; its open sizes: 'n'");
  Write("other.onnx", "copy other");
  ExpectError(Run("run other.onnx"), 3, "The compiler library cannot be opened");
}

TEST_F(CommandTest, Explain) {
  Write("copy.onnx", "copy");
  const std::string text = Run("explain copy.onnx");
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(text, testing::HasSubstr("placement\n  cpu:0: 2 copies\n"));
  EXPECT_THAT(text, testing::HasSubstr("fusion groups\n  group: a made-up record"));
  EXPECT_THAT(Run("explain copy.onnx --dot"), testing::StartsWith("digraph"));
  EXPECT_THAT(Run("explain copy.onnx --json"), testing::HasSubstr("\"placement\""));
  EXPECT_THAT(Run("explain copy.onnx --commands"), testing::StartsWith("program \""));
  const std::string page = Run("explain copy.onnx --html");
  EXPECT_THAT(page, testing::StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(page, testing::HasSubstr("a made-up record"));
  EXPECT_THAT(page, testing::Not(testing::HasSubstr("http")));  // refers to nothing outside
}

TEST_F(CommandTest, ExplainOneNode) {
  Write("copy.onnx", "copy");
  EXPECT_EQ(Run("explain copy.onnx --node folded"),
            "node: folded\nop: Add\nfate: gone after pass 'fold-constants'\n");
  EXPECT_EQ(Run("explain copy.onnx --node slow"),
            "node: slow\nop: Relu\nfate: in the interpreter\n"
            "fallback: Op 'odd' runs in the interpreter: no lowering\n");
  EXPECT_THAT(Run("explain copy.onnx --node slow --json"),
              testing::HasSubstr("\"in the interpreter\""));
  ExpectError(Run("explain copy.onnx --node none"), 2,
              "the model has no node, value or op 'none'\n");
  ExpectError(Run("explain copy.onnx --node slw"), 2,
              "the model has no node, value or op 'slw'; near it are 'slow'\n");
  ExpectError(Run("explain copy.onnx --node x"), 2, "'x' is an input of the model (f32)");
  ExpectError(Run("explain copy.onnx --node filter"), 2,
              "'filter' is a weight of the model (f32[8, 3]), which no node makes; 'conv' reads "
              "it\n");
  ExpectError(Run("explain copy.onnx --why-not shared=cpu:0"), 2,
              "'shared' is a weight of the model (i64[]), which no node makes; 'conv', 'slow' read "
              "it\n");
  for (const char* form : {"--dot", "--html", "--commands"}) {
    ExpectError(Run("explain copy.onnx --json " + std::string(form)), 1,
                "--json excludes " + std::string(form));
  }
  Write("odd.onnx", "interpret");  // y = x, in the interpreter of cpu:0
  EXPECT_THAT(Run("explain odd.onnx --why-not slow=cpu:0"),
              testing::StartsWith("RUNS_THERE: Node 'slow' runs on 'cpu:0', in the interpreter."));
  EXPECT_THAT(Run("explain copy.onnx --why-not folded=cpu:0"),
              testing::StartsWith("COMPUTED_AT_COMPILE_TIME: Node 'folded' runs on no device"));
  EXPECT_EQ(Run("explain copy.onnx --why-not slow=cpu:0"),
            "UNSUPPORTED_OP: Op 'odd' runs in the interpreter: no lowering\n");
  // A device that is here, and not asked for.
  setenv("HALYARD_SYNTHETIC_DEVICES", "threads=1", 1);
  EXPECT_THAT(Run("explain copy.onnx --why-not slow=cpu:1"),
              testing::StartsWith("NOT_ASKED_FOR: Device 'cpu:1' has no part in this"));
  EXPECT_EQ(status_, 0);
  unsetenv("HALYARD_SYNTHETIC_DEVICES");
  ExpectError(Run("explain copy.onnx --why-not slow"), 1, "--why-not takes NODE=DEVICE");
}

TEST_F(CommandTest, ExplainFindsWhatTheUserKnows) {
  Write("copy.onnx", "copy");
  EXPECT_EQ(Run("explain copy.onnx --node sum"),
            "'sum' is a value; the node that makes it:\nnode: folded\nop: Add\n"
            "fate: gone after pass 'fold-constants'\n");
  EXPECT_THAT(
      Run("explain copy.onnx --node conv_2"),
      testing::AllOf(testing::StartsWith("'conv_2' is a dispatch that computes 2 nodes:\n"),
                     testing::HasSubstr("node: conv\nop: Conv\nfate: in dispatch 'conv_2'\n"),
                     testing::HasSubstr("together_with: relu\n"),
                     testing::HasSubstr("\n\nnode: relu\n")));
  EXPECT_THAT(Run("explain copy.onnx --node rElU"),
              testing::AllOf(testing::StartsWith("'rElU' is the op of 2 nodes:\nnode: relu\n"),
                             testing::HasSubstr("\n\nnode: slow\n")));
  EXPECT_THAT(Run("explain copy.onnx --node folded_3"),
              testing::StartsWith("'folded_3' is a part of a node that the compiler named"));
  EXPECT_THAT(Run("explain copy.onnx --node Relu --json"), testing::StartsWith("[\n"));
  ExpectError(Run("explain copy.onnx --why-not Conv=abacus"), 1, "there is no driver 'abacus'");
  EXPECT_THAT(Run("explain copy.onnx --why-not Conv=cpu"), testing::HasSubstr(": "));
  EXPECT_EQ(status_, 0);
}

TEST_F(CommandTest, AProgramRefusesWhatOnlyModelsTake) {
  Write("copy.onnx", "copy");
  Run("compile copy.onnx -o copy.hyp");
  ExpectError(Run("run copy.hyp --no-tune --precision fp16"), 1,
              "copy.hyp is a compiled program, which keeps what it was compiled with; for models "
              "only: --no-tune, --precision");
  for (const char* option :
       {"--no-cache", "--replan", "--verify-plan", "--compile-shapes", "--affinity a=cpu:0",
        "--memory-cap cpu=1GB", "--on-unsupported-op warn", "--precision as-given",
        "--io-precision fp16", "--no-vendor-libs"}) {
    ExpectError(Run("run copy.hyp " + std::string(option)), 1,
                "for models only: " + std::string(option).substr(0, std::string(option).find(' ')));
  }
  ExpectError(Run("explain copy.hyp --shape n=3"), 1, "--shape fixes sizes of models only");
  ExpectError(Run("bench copy.hyp --precision fp16 --runs 1"), 1, "for models only: --precision");
  ExpectError(Run("bench copy.hyp --replan --runs 1"), 1, "for models only: --replan");
  ExpectError(Run("compile copy.hyp -o other.hyp"), 1, "is a compiled program already");
  Run("run copy.hyp --shape n=3 --device cpu:0 --on-missing-device error");
  EXPECT_EQ(status_, 0);
}

TEST_F(CommandTest, MemoryCapsTakeUnits) {
  Write("copy.onnx", "copy");
  for (const char* size : {"1", "2000000", "1B", "64K", "64k", "64KB", "64KiB", "1.5mb", "1.5MiB",
                           "2G", "2GB", "2GiB", "2gib", "1T", "1TB", "1TiB", "0.5KiB"}) {
    const std::string out =
        Run("run copy.onnx --shape n=0 --memory-cap cpu:0=" + std::string(size));
    EXPECT_THAT(out, testing::Not(testing::HasSubstr("is not DEVICE=SIZE"))) << size;
  }
  // The cap itself: 1 KB holds 1000 bytes, 1 KiB 1024, and so does 1K.
  for (const auto& [size, bytes] : {std::pair("1KB", "1000"),
                                    {"1KiB", "1024"},
                                    {"1k", "1024"},
                                    {"0.75MB", "750000"},
                                    {"1000", "1000"}}) {
    const std::string out =
        Run("run copy.onnx --shape n=1000000 --memory-cap cpu:0=" + std::string(size));
    EXPECT_EQ(status_, 3) << out;
    EXPECT_THAT(out, testing::HasSubstr("the cap is " + std::string(bytes))) << size;
  }
  for (const char* size : {"", "0", "-1", "1X", "1KX", "1BB", "1KiBB", "GB", "1e3", "1.5",
                           "9999999T", "1 GB", "nan", "inf"}) {
    ExpectError(Run("run copy.onnx --memory-cap 'cpu:0=" + std::string(size) + "'"), 1,
                "is not DEVICE=SIZE, such as cuda:0=2GB; a size is a number of bytes, or one with "
                "KB, MB, GB, TB, KiB, MiB, GiB or TiB");
  }
}

TEST_F(CommandTest, NamesThatNobodyKnowsAreAnsweredWithThoseThatAreKnown) {
  Write("copy.onnx", "copy");
  ExpectError(Run("run copy.onnx --shapes n=3"), 1,
              "halyard run has no option '--shapes'; near it are '--shape'");
  ExpectError(Run("devices --prob"), 1,
              "halyard devices has no option '--prob'; near it are '--probe'");
  ExpectError(Run("explain copy.onnx --nodes x"), 1, "near it are '--node'");
  ExpectError(Run("run copy.onnx more"), 1,
              "'more' is one argument too many (see halyard run --help)");
  ExpectError(Run("run copy.onnx --device"), 1, "--device needs a value (see halyard run --help)");
  ExpectError(Run("explain copy.onnx --dot --html"), 1,
              "one at most of [--dot,--html,--commands,--node,--why-not] can be given");
  ExpectError(Run("runs copy.onnx"), 1,
              "there is no sub-command 'runs'; there are 'devices', 'run'");
  ExpectError(Run("run copy.onnx --precision fp8"), 1,
              "--precision: 'fp8' is not as-given or fp16");
  ExpectError(Run("run copy.onnx --input z=@a.npy"), 2, "there is no input 'z'; its inputs: 'x'");
}

TEST_F(CommandTest, AFolderWithoutInputsIsNotTakenForRandomOnes) {
  Write("copy.onnx", "copy");
  WriteNpy("other/x.npy", {1});
  ExpectError(Run("run copy.onnx --input-dir other"), 2,
              "other/x.npy is there, which no input takes");
  WriteNpy("two/input_0.npy", {1});
  WriteNpy("two/input_1.npy", {1});
  ExpectError(Run("run copy.onnx --input-dir two"), 2,
              "two/input_1.npy is there, which no input takes; the model has 1 input");
}

TEST_F(CommandTest, FilesThatNoInputTakesAreNamed) {
  Write("copy.onnx", "copy");
  WriteNpy("in/input_0.npy", {1, 2});
  WriteNpy("in/output_0.npy", {1, 2});
  Run("run copy.onnx --input-dir in");
  EXPECT_EQ(status_, 0);
  WriteNpy("in/x.npy", {1, 2});
  ExpectError(Run("run copy.onnx --input-dir in"), 2, "in/x.npy is there, which no input takes");
  ExpectError(Run("run copy.onnx --input x=@in/x.npy --input x=@in/x.npy"), 1,
              "--input gives 'x' twice");
}

TEST_F(CommandTest, DriversAndKindsOfWishesThatDoNotExistAreWrongUsage) {
  Write("copy.onnx", "copy");
  ExpectError(
      Run("run copy.onnx --affinity slow=gpu:0"), 1,
      "--affinity 'slow=gpu:0': there is no driver 'gpu'; this build has: cpu, cuda, vulkan");
  ExpectError(Run("run copy.onnx --affinity slow=prefr:cpu:0"), 1,
              "'prefr:' is not require:, prefer: or forbid:");
}

TEST_F(CommandTest, AProgramNamesTheDevicesThatItNeeds) {
  Write("copy.onnx", "copy");
  Run("compile copy.onnx -o copy.hyp");
  ASSERT_EQ(status_, 0);
  const std::string out = Run("run copy.hyp --device vulkan:0");
  EXPECT_THAT(out, testing::HasSubstr("needs the devices that it was compiled for, in their order: "
                                      "'cpu:0'; given are: 'vulkan:0'."));
  EXPECT_EQ(status_, 2) << out;
  // A device that is missing is not replaced by another one, whatever the policy.
  setenv("HALYARD_CUDA_LIBRARY", "libnowhere.so.1", 1);
  for (const char* policy : {"", " --on-missing-device fallback", " --on-missing-device warn",
                             " --on-missing-device error"}) {
    const std::string missing = Run("run copy.hyp --device cuda:0" + std::string(policy));
    ExpectError(missing, 3, "copy.hyp: device cuda:0: ");
    EXPECT_THAT(missing, testing::AllOf(testing::HasSubstr("'libnowhere.so.1'"),
                                        testing::HasSubstr("needs all of its devices"),
                                        testing::Not(testing::HasSubstr("cpu:0"))));
  }
  unsetenv("HALYARD_CUDA_LIBRARY");
  ExpectError(Run("run copy.hyp --device cpu:0,cpu"), 1, "'cpu:0' and 'cpu', which are the same");
}

TEST_F(CommandTest, AnExpectationOfAnotherShapeIsNoErrorOfZero) {
  Write("copy.onnx", "copy");
  WriteNpy("in/input_0.npy", {1, 2});
  WriteNpy("expected/output_0.npy", {1, 2, 3});
  const std::string out = Run("run copy.onnx --input-dir in --expect-dir expected");
  EXPECT_EQ(status_, 4);
  EXPECT_THAT(out, testing::HasSubstr("; it differs: it is f32[2]; f32[3] is expected"));
  EXPECT_THAT(out, testing::Not(testing::HasSubstr("largest error")));
}

// NaN where NaN is expected, and nowhere else; the same of infinities.
TEST_F(CommandTest, NotANumberIsEqualOnlyWhereItIsExpected) {
  Write("copy.onnx", "copy");
  const float nan = NAN, inf = INFINITY;
  WriteNpy("in/input_0.npy", {nan, 1, inf});
  WriteNpy("same/output_0.npy", {-nan, 1, inf});
  const std::string same = Run("run copy.onnx --input-dir in --expect-dir same");
  EXPECT_EQ(status_, 0) << same;
  EXPECT_THAT(same, testing::HasSubstr("y [3]: 1 NaN, the others min 1, max inf, mean inf, largest "
                                       "error 0 absolute"));
  WriteNpy("number/output_0.npy", {2, 1, inf});
  WriteNpy("nan/output_0.npy", {nan, nan, inf});
  WriteNpy("sign/output_0.npy", {nan, 1, -inf});
  for (const auto& [folder, what] : {std::pair("number", "element 0 is nan; 2 is expected"),
                                     {"nan", "element 1 is 1; nan is expected"},
                                     {"sign", "element 2 is inf; -inf is expected"}}) {
    const std::string out = Run("run copy.onnx --input-dir in --rtol 1e9 --atol 1e9 --expect-dir " +
                                std::string(folder));
    EXPECT_EQ(status_, 4) << out;
    EXPECT_THAT(out, testing::HasSubstr("output 'y': " + std::string(what)));
    EXPECT_THAT(out, testing::HasSubstr("; it differs: " + std::string(what)));
    EXPECT_THAT(out, testing::Not(testing::HasSubstr("largest error")));
  }
  // A small error elsewhere is not told as the largest.
  WriteNpy("in/input_0.npy", {1, nan});
  WriteNpy("both/output_0.npy", {1.5f, 1});
  EXPECT_THAT(Run("run copy.onnx --input-dir in --atol 1 --expect-dir both --json"),
              testing::HasSubstr("\"difference\": \"element 1 is nan; 1 is expected"));
  EXPECT_THAT(Run("run copy.onnx --input-dir in --atol 1 --expect-dir both"),
              testing::Not(testing::HasSubstr("largest error")));
  WriteNpy("in/input_0.npy", {nan, nan});
  EXPECT_THAT(Run("run copy.onnx --input-dir in"), testing::StartsWith("output y [2]: all NaN\n"));
}

TEST_F(CommandTest, HelpTellsDefaultsAndStatuses) {
  for (const char* command : {"", "run ", "compile ", "explain ", "devices ", "bench "}) {
    EXPECT_THAT(Run(std::string(command) + "--help"),
                testing::HasSubstr("Exit status: 0 done; 1 wrong usage; 2 the model"));
    EXPECT_EQ(status_, 0);
  }
  const std::string help = Run("run --help");
  EXPECT_THAT(help, testing::HasSubstr("--rtol FLOAT=0.0001"));
  EXPECT_THAT(help, testing::HasSubstr("--seed UINT=1"));
  EXPECT_THAT(help, testing::HasSubstr("{as-given,fp16}=as-given"));
  EXPECT_THAT(help, testing::HasSubstr("GiB"));
}

TEST_F(CommandTest, TheEnvironmentIsChecked) {
  Write("copy.onnx", "copy");
  setenv("HALYARD_LOG", "bogus", 1);
  setenv("HALYARD_THREADS", "many", 1);
  const std::string out = Run("run copy.onnx");
  unsetenv("HALYARD_THREADS");
  EXPECT_THAT(
      out,
      testing::AllOf(testing::HasSubstr("halyard: warning: The environment variable HALYARD_LOG is "
                                        "'bogus'; "
                                        "it takes error, warning, info, debug or off, and warning "
                                        "holds.\n"),
                     testing::HasSubstr("HALYARD_THREADS is 'many'; it takes a whole number")));
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 2 + 2) << out;
  setenv("HALYARD_LOG", "warning", 1);
  setenv("HALYARD_VALIDATE", "maybe", 1);
  EXPECT_THAT(Run("devices"),
              testing::StartsWith("halyard: warning: The environment variable HALYARD_VALIDATE is "
                                  "'maybe'; it takes 0 or 1, and 0 holds.\n"));
  unsetenv("HALYARD_VALIDATE");
  setenv("HALYARD_LOG", "off", 1);
  setenv("HALYARD_VALIDATE", "perhaps", 1);
  EXPECT_THAT(Run("run copy.onnx"), testing::StartsWith("output y"));
  unsetenv("HALYARD_VALIDATE");
  unsetenv("HALYARD_LOG");
  EXPECT_THAT(Run("run copy.onnx"), testing::StartsWith("output y"));
}

TEST_F(CommandTest, ErrorsAreOneLineWithTheirStatus) {
  Write("bad.onnx", "bad");
  Write("copy.onnx", "copy");
  Write("text.npy", "this is no array");
  ExpectError(Run("run none.onnx"), 2, "none.onnx");
  ExpectError(Run("run bad.onnx"), 2, "bad.onnx: Node 'g' is wrong.");
  ExpectError(Run("run copy.onnx --input x=@text.npy"), 2, "text.npy");
  ExpectError(Run("run copy.onnx --input z=@text.npy"), 2, "there is no input 'z'");
  ExpectError(Run("run copy.onnx --input x"), 1, "is not NAME=@FILE.npy");
  ExpectError(Run("run copy.onnx --shape n"), 1, "is not SYMBOL=N");
  ExpectError(Run("run copy.onnx --device cpu:99 --no-fallback"), 3, "cpu:99");
  ExpectError(Run("run copy.onnx --device cpu:0?x=1"), 1, "device 'cpu:0?x=1': ");
  ExpectError(Run("run"), 1, "MODEL is required");
  ExpectError(Run("dance"), 1, "halyard --help");
  ExpectError(Run(""), 1,
              "a sub-command is needed: 'devices', 'run', 'compile', 'explain', 'bench'");
  ExpectError(Run("run copy.onnx --device gpu --shape n=4"), 1,
              "device 'gpu': There is no driver 'gpu'; this build has: cpu, cuda, vulkan");
  ExpectError(Run("run copy.onnx --device cpu:0,gpu:1 --on-missing-device fallback"), 1, "'gpu'");
  ExpectError(Run("compile copy.onnx -o a.hyp --device ''"), 1,
              "--device is given as an empty text");
  ExpectError(Run("bench copy.onnx --device cpu:0,gpu"), 1, "There is no driver 'gpu'");
  ExpectError(Run("devices gpu"), 1, "There is no driver 'gpu'");
  setenv("HALYARD_CUDA_LIBRARY", "libnowhere.so.1", 1);
  EXPECT_THAT(Run("run copy.onnx --device cuda --shape n=4"),
              testing::HasSubstr("'cuda' is left out"));
  EXPECT_EQ(status_, 0);
  ExpectError(Run("run copy.onnx --device cuda --on-missing-device error"), 3, "device cuda");
  unsetenv("HALYARD_CUDA_LIBRARY");
  Run("--help");
  EXPECT_EQ(status_, 0);
}

TEST_F(CommandTest, ValuesThatNoOptionTakes) {
  Write("copy.onnx", "copy");
  for (const char* value : {"99999999999999999999", "-1", "1.5", "", "0x3", " 3"}) {
    ExpectError(Run("run copy.onnx --shape 'n=" + std::string(value) + "'"), 1, "is not SYMBOL=N");
  }
  for (const char* value : {"nan", "inf", "-1", "x", "''"}) {
    ExpectError(Run("run copy.onnx --rtol=" + std::string(value)), 1, "--rtol");
    ExpectError(Run("run copy.onnx --atol=" + std::string(value)), 1, "--atol");
  }
  for (const char* value : {"-1", "1e3", "99999999999999999999", "x"}) {
    ExpectError(Run("run copy.onnx --seed=" + std::string(value)), 1, "--seed");
  }
  ExpectError(Run("run copy.onnx --device 'cpu:0?threads=1&threads=2'"), 1, "given twice");
  ExpectError(Run("dance copy.onnx"), 1, "there is no sub-command 'dance'");
  ExpectError(Run("run copy.onnx --output-dir copy.onnx"), 3,
              "copy.onnx: the folder cannot be made");
}

TEST_F(CommandTest, SyntheticDevicesThatCannotBeSayWhichAndWhere) {
  setenv("HALYARD_SYNTHETIC_DEVICES", "threads=1;speed=3", 1);
  EXPECT_THAT(Run("devices"), testing::HasSubstr("HALYARD_SYNTHETIC_DEVICES describes device cpu:2 "
                                                 "as 'speed=3': The CPU driver has no option "
                                                 "'speed'"));
  setenv("HALYARD_SYNTHETIC_DEVICES", "threads=1", 1);
  const std::string text = Run("devices");
  EXPECT_THAT(text, testing::HasSubstr("\ncpu:1\nauto leaves it out: it is synthetic\n"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("cpu:0\nauto leaves it out")));
  unsetenv("HALYARD_SYNTHETIC_DEVICES");
}

TEST_F(CommandTest, OutputThatIsLostIsAFailure) {
  Write("copy.onnx", "copy");
  for (const char* command :
       {"run copy.onnx", "run copy.onnx --json", "devices", "explain copy.onnx", "--help",
        "--version", "run --help", "compile copy.onnx -o a.hyp"}) {
    for (const char* lost : {" >/dev/full", " >&-", " >&- <&-"}) {
      EXPECT_THAT(Run(std::string(command) + " 2>err" + lost + "; echo status $?"),
                  testing::HasSubstr("status 3"))
          << command << lost;
      EXPECT_THAT(Read("err"),
                  testing::StartsWith("halyard: error: standard output cannot be written"));
    }
  }
  // No file that is opened becomes the output that was closed.
  EXPECT_THAT(Run("compile copy.onnx -o b.hyp --json 2>err >&- <&-; echo status $?"),
              testing::HasSubstr("status 3"));
  EXPECT_EQ(Read("b.hyp"), Read("a.hyp"));
}

// A rename would put a file in the place of /dev/null.
TEST_F(CommandTest, AnEmptyValueIsNoValue) {
  Write("copy.onnx", "copy");
  ExpectError(Run("run copy.onnx --expect-dir ''"), 1, "--expect-dir is given as an empty text");
  ExpectError(Run("run ''"), 1, "is given as an empty text");
  ExpectError(Run("explain copy.onnx --node ''"), 1, "--node is given as an empty text");
  ExpectError(Run("run copy.onnx --input x=@"), 1, "--input 'x=@' names no file after '@'");
  ExpectError(Run("run copy.onnx --input =@x.npy"), 1, "names no input before '=@'");
}

TEST_F(CommandTest, AProgramIsRunWithTheSizesThatAreAsked) {
  Write("copy.onnx", "copy");
  WriteNpy("in/input_0.npy", {1, 2, 3});
  Run("compile copy.onnx -o copy.hyp");
  EXPECT_EQ(status_, 0);
  Run("run copy.hyp --input-dir in --shape n=3");
  EXPECT_EQ(status_, 0);
  ExpectError(Run("run copy.hyp --input-dir in --shape n=5"), 2,
              "dimension 0 of input 'x' is 3; --shape says n=5");
}

TEST_F(CommandTest, CompileReplacesNothingButFiles) {
  Write("copy.onnx", "copy");
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ExpectError(Run("compile copy.onnx -o pipe"), 3, "it is a pipe or a socket that nobody reads");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  ExpectError(Run("run pipe --shape n=3"), 2, "'pipe' is not a regular file");
  ExpectError(Run("compile copy.onnx -o ."), 3, "File '.' cannot be written: Is a directory");
  Write("old.hyp", "old");
  Run("compile copy.onnx -o old.hyp");
  EXPECT_EQ(status_, 0);
  EXPECT_NE(Read("old.hyp"), "old");
}

}  // namespace
}  // namespace halyard
