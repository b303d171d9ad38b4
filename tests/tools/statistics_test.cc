// SPDX-License-Identifier: Apache-2.0
// The statistics of halyard bench, and its conditions and verdicts, on numbers whose answers are
// known.
#include "tools/halyard/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tools/halyard/bench_report.h"

namespace halyard::tools {
namespace {

TEST(Statistics, PercentilesLieBetweenNeighbours) {
  const std::vector<double> sorted = {1, 2, 3, 4};
  EXPECT_DOUBLE_EQ(Percentile(sorted, 0), 1);
  EXPECT_DOUBLE_EQ(Percentile(sorted, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(Percentile(sorted, 0.9), 3.7);
  EXPECT_DOUBLE_EQ(Percentile(sorted, 1), 4);
  EXPECT_DOUBLE_EQ(Percentile({7}, 0.99), 7);
}

TEST(Statistics, OfSamples) {
  const Statistics s = Describe({3, 1, 2, 5, 4});
  EXPECT_EQ(s.count, 5);
  EXPECT_DOUBLE_EQ(s.mean, 3);
  EXPECT_DOUBLE_EQ(s.p50, 3);
  EXPECT_DOUBLE_EQ(s.mad, 1);
  EXPECT_NEAR(s.variation, std::sqrt(2.0) / 3, 1e-12);
  EXPECT_EQ(s.p999, 0);  // too few
  EXPECT_LE(s.median_low, s.p50);
  EXPECT_GE(s.median_high, s.p50);
}

TEST(Statistics, TheIntervalHoldsTheMedianAndShrinks) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal(10, 1);
  int holds = 0;
  for (int round = 0; round < 60; ++round) {
    std::vector<double> few;
    for (int i = 0; i < 40; ++i) few.push_back(normal(random));
    const Statistics s = Describe(few);
    holds += s.median_low <= 10 && s.median_high >= 10;
  }
  EXPECT_GE(holds, 50);  // 57 are expected of 60
  std::vector<double> many;
  for (int i = 0; i < 2000; ++i) many.push_back(normal(random));
  const Statistics s = Describe(many);
  EXPECT_LT(s.median_high - s.median_low, 0.25);
  EXPECT_GT(s.p999, s.p99);
}

TEST(Statistics, DifferencesThatChanceMakesAreNone) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal(10, 1);
  std::vector<double> a, b, slower;
  for (int i = 0; i < 100; ++i) {
    a.push_back(normal(random));
    b.push_back(normal(random));
    slower.push_back(normal(random) + 1);
  }
  EXPECT_GT(ChanceOfDifference(a, b), 0.05);
  EXPECT_LT(ChanceOfDifference(a, slower), 0.01);
}

// A series whose samples are like their neighbours, as runs one after the other are.
std::vector<double> Series(std::mt19937& random, double memory, double mean, int count = 1000) {
  std::normal_distribution<double> normal(0, 1);
  double level = normal(random);
  std::vector<double> out;
  for (int i = 0; i < count; ++i) {
    level = memory * level + std::sqrt(1 - memory * memory) * normal(random);
    out.push_back(mean + level);
  }
  return out;
}

TEST(Statistics, NoiseThatLastsIsNoDifference) {
  std::mt19937 random(11);
  constexpr int kRounds = 300;
  for (const double memory : {0.0, 0.5, 0.9}) {
    int certain = 0, likely = 0, found = 0;
    for (int round = 0; round < kRounds; ++round) {
      const auto a = Series(random, memory, 10), b = Series(random, memory, 10);
      const double chance = ChanceOfDifference(a, b);
      certain += chance < 0.01;
      likely += chance < 0.05;
      found += ChanceOfDifference(a, Series(random, memory, 11.5)) < 0.01;
    }
    // 3 and 15 are expected; by chance alone 10 and 29 are passed once in 1000 times.
    EXPECT_LE(certain, 10) << memory;
    EXPECT_LE(likely, 29) << memory;
    EXPECT_GE(likely, 3) << memory << ": the test is no test when nothing is ever likely";
    EXPECT_GE(found, kRounds * 9 / 10) << memory;
  }
}

TEST(Statistics, FewSamplesShowOnlyWhatIsClear) {
  EXPECT_EQ(ChanceOfDifference({1}, {2}), 1);
  EXPECT_GT(ChanceOfDifference({1, 1, 1, 1}, {2, 2, 2, 2}), 0.01);
  EXPECT_LT(ChanceOfDifference({1, 1.1, 1, 1.1, 1, 1}, {2, 2.1, 2, 2.1, 2, 2}), 0.01);
}

TEST(BenchReport, Conditions) {
  const Json row = {{"latency", {{"p99", 6e-3}, {"cv", 0.02}}}, {"throughput", 120.0}};
  EXPECT_NE(WhyItHolds(ParseCondition("p99>5ms"), row), "");
  EXPECT_EQ(WhyItHolds(ParseCondition("p99>7ms"), row), "");
  EXPECT_NE(WhyItHolds(ParseCondition("p99<=6000us"), row), "");
  EXPECT_EQ(WhyItHolds(ParseCondition("cv>5%"), row), "");
  EXPECT_NE(WhyItHolds(ParseCondition("throughput<1000"), row), "");
  // With the value that was met, in the unit of its kind.
  EXPECT_EQ(WhyItHolds(ParseCondition("p99>5ms"), row), "p99>5ms: p99 is 6.000 ms");
  EXPECT_EQ(WhyItHolds(ParseCondition("cv>0.01"), row), "cv>0.01: cv is 2%");
  EXPECT_EQ(WhyItHolds(ParseCondition("throughput<1000"), row),
            "throughput<1000: throughput is 120");
  EXPECT_THROW(WhyItHolds(ParseCondition("colour>0"), row), CommandError);
  const auto reason = [](const char* text) -> std::string {
    try {
      ParseCondition(text);
    } catch (const CommandError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(reason("p99"), testing::HasSubstr("METRIC>VALUE"));
  EXPECT_THAT(reason("p99>fast"), testing::HasSubstr("'fast' is no number"));
  EXPECT_THAT(reason("p99>5parsecs"), testing::HasSubstr("no unit 'parsecs'"));
}

TEST(BenchReport, VerdictsNameWhatIsWrong) {
  Json row = {{"latency", {{"p50", 1e-3}, {"cv", 0.2}}},
              {"phases", {{"first_run", 0.1}, {"warm_open", 2.0}}},
              {"state_before", {{"load_average", 3.0}}},
              {"conditions",
               {{{"device", "cuda:0"},
                 {"before", {{"clock_hz", 2e9}, {"performance_state", "P0"}}},
                 {"after", {{"clock_hz", 1.5e9}, {"throttle_reasons", "software power cap"}}}}}},
              {"fallbacks", 2},
              {"is_deterministic", false},
              {"throughput", 1800.0},
              {"concurrency", 2}};
  EXPECT_THAT(Verdicts(row),
              testing::ElementsAre(
                  testing::AllOf(testing::HasSubstr("unstable: the runs' standard deviation is"),
                                 testing::HasSubstr("compiling is a part")),
                  "the clock of cuda:0 fell 25%, from 2000 to 1500 MHz",
                  "cuda:0 was held back by: software power cap",
                  testing::HasSubstr("first run takes 100 times"),
                  testing::HasSubstr("loading from the cache takes 2.000 s"),
                  testing::HasSubstr("2 records of fallback"), testing::HasSubstr("different bits"),
                  testing::HasSubstr("1.80 times")));
  row["concurrency"] = 1;
  EXPECT_THAT(Verdicts(row), testing::Not(testing::Contains(testing::HasSubstr("at once"))));
  row["latency"] = {{"p50", 1e-3}, {"cv", 30.3}, {"max", 2.5}};
  EXPECT_THAT(Verdicts(row)[0],
              testing::HasSubstr("a few runs took far longer than the others, the longest 2.500 s, "
                                 "2500 times p50; look at p50"));
  EXPECT_TRUE(Verdicts({{"latency", {{"p50", 1e-3}, {"cv", 0.01}}}}).empty());
}

// Four significant digits, a unit that suits, and no exponent.
TEST(BenchReport, TablesHoldQuantities) {
  const Json report = {
      {"rows",
       {{{"model", "m.onnx"},
         {"device", "cpu:0"},
         {"latency",
          {{"p50", 4.6e-7}, {"p50_low", 4.5e-7}, {"p50_high", 4.7e-7}, {"p90", 0.043835}}},
         {"phases", {{"compile", 4.3}}},
         {"throughput", 1234567.8},
         {"memory", {{"total_bytes", 102000000}, {"peak_bytes", 204000000}}}}}}};
  const std::string table = FormatMarkdown(report);
  for (const char* cell : {"| 0.460 us |", "| 0.450 us to 0.470 us |", "| 43.84 ms |",
                           "| 4.300 s |", "| 1235000 |", "| 97.3 MiB | 194.5 MiB |\n"}) {
    EXPECT_THAT(table, testing::HasSubstr(cell));
  }
}

TEST(BenchReport, FewRunsHaveNoInterval) {
  Json row = {{"model", "m.onnx"},
              {"device", "cpu:0"},
              {"latency", {{"count", 1}, {"p50", 0.5}, {"p50_low", 0.5}, {"p50_high", 0.5}}},
              {"throughput", 8.0},
              {"concurrency", 2}};
  EXPECT_THAT(Verdicts(row), testing::ElementsAre(testing::StartsWith("few: 1 run, of which")));
  EXPECT_THAT(FormatMarkdown({{"rows", {row}}}),
              testing::HasSubstr("| m.onnx | cpu:0 | 500.0 ms | - | - |"));
  row["latency"]["count"] = 10;
  EXPECT_THAT(Verdicts(row), testing::ElementsAre(testing::StartsWith("several runs at once")));
  EXPECT_THAT(FormatMarkdown({{"rows", {row}}}),
              testing::HasSubstr("| m.onnx | cpu:0 | 500.0 ms | 500.0 ms to 500.0 ms |"));
}

TEST(BenchReport, SaysWhatWasMeasuredAndWhatARunCosts) {
  const Json tensor = {{"name", "x"}, {"dtype", "f32"}, {"dims", {1, 3}}};
  Json row = {{"model", "m.onnx"},
              {"device", "cuda:0+cpu:0"},
              {"identity",
               {{"file_hash", "0123456789abcdef"},
                {"opset", 17},
                {"inputs", Json::array({tensor})},
                {"outputs", Json::array({tensor, tensor})}}},
              {"phases",
               {{"first_output_cold", 2.5},
                {"first_output_warm", 0.25},
                {"load", 0.05},
                {"load_code", 0.015},
                {"load_weights", 0.03}}},
              {"memory", {{"constant_bytes", 150e6}, {"peak_bytes", 160e6}}},
              {"per_run", {{"cpu_seconds", 0.0035}, {"joules", {{"cuda:0", 0.8125}}}}},
              {"placement",
               {{"devices",
                 {{{"device", "cuda:0"}, {"dispatches", 7}, {"interpreted", 0}},
                  {{"device", "cpu:0"}, {"dispatches", 2}, {"interpreted", 1}}}},
                {"transfers", {{{"count", 3}}}},
                {"fallbacks", {"why"}}}}};
  std::string table = FormatMarkdown({{"rows", {row}}});
  EXPECT_THAT(table, testing::HasSubstr("- m.onnx, opset 17, file 0123456789abcdef: x f32 [1, 3] "
                                        "to x f32 [1, 3]; x f32 [1, 3]\n"));
  EXPECT_THAT(table,
              testing::HasSubstr(
                  "| m.onnx | cuda:0+cpu:0 | 2.500 s | 250.0 ms | 50.00 ms, weights 30.00 ms, 5 "
                  "GB/s | 3.500 ms | cuda:0 0.8125 J | not compared | 9 | 1 | 3 | 1 |\n"));
  // Mapped from a file, not moved.
  row["memory"]["peak_bytes"] = 2e6;
  EXPECT_THAT(FormatMarkdown({{"rows", {row}}}), testing::HasSubstr("| 50.00 ms | 3.500 ms |"));
  row["per_run"].erase("joules");
  EXPECT_THAT(FormatMarkdown({{"rows", {row}}}),
              testing::HasSubstr("| 3.500 ms | unknown | not compared | 9 |"));
  row.erase("per_run");
  EXPECT_THAT(FormatMarkdown({{"rows", {row}}}),
              testing::Not(testing::HasSubstr("Beside the time of a run")));
}

// What the profile says of where the time goes, and of the device's clock.
TEST(BenchReport, VerdictsOfTheProfile) {
  Json profile = {{"seconds", 10.0},
                  {"split", {{"copies_in", 1.5}, {"copies_out", 1.0}, {"inter_device", 1.9}}},
                  {"groups",
                   {{{"kind", "dispatch"},
                     {"seconds", 2.0},
                     {"dispatches", 40},
                     {"roof", {{"bound", "dispatch"}}}},
                    {{"kind", "dispatch"},
                     {"seconds", 6.0},
                     {"dispatches", 2},
                     {"roof", {{"bound", "memory"}}}}}},
                  {"clocks", {{"cuda:0", {{"ratio", 1.04}, {"error", 0.001}, {"commands", 9}}}}}};
  const auto verdicts = [&] { return Verdicts({{"profile", profile}}); };
  EXPECT_THAT(verdicts(),
              testing::ElementsAre("copy-bound: inputs and outputs take 25% of a run (2.500 s)",
                                   "dispatch-bound: 25% of the time of 42 dispatches is in kernels "
                                   "that take less than starting them"));
  profile["split"] = {{"copies_in", 1.9}, {"copies_out", 0.0}, {"inter_device", 3.0}};
  profile["groups"][0]["seconds"] = 1.0;
  EXPECT_THAT(
      verdicts(),
      testing::ElementsAre("transfer-bound: copies between devices take 30% of a run (3.000 s)"));
  profile["split"] = Json::object();
  // More than 5 %, and than the fit leaves open.
  profile["clocks"]["cuda:0"]["ratio"] = 0.9;
  EXPECT_THAT(verdicts(),
              testing::ElementsAre(testing::StartsWith(
                  "clocks differ: a second of the clock of cuda:0 is 0.90 s of the host's")));
  profile["clocks"]["cuda:0"]["error"] = 0.05;
  EXPECT_THAT(verdicts(), testing::IsEmpty());
}

TEST(BenchReport, ColdRunsSayWhatWasSwept) {
  const Json row = {{"cold_cache",
                     {{{"device", "cuda:0"}, {"bytes", 128 << 20}, {"cache_bytes", 60 << 20}},
                      {{"device", "vulkan:1"}, {"bytes", 256 << 20}}}}};
  EXPECT_THAT(
      Verdicts(row),
      testing::ElementsAre("cold: before each timed run cuda:0 read and wrote 128.0 MiB each, "
                           "against 60.0 MiB of its last cache",
                           "cold: before each timed run vulkan:1 read and wrote 256.0 MiB each, "
                           "its cache being of unknown size"));
}

Json RowIn(Json device) {
  return {{"model", "m.onnx"}, {"device", "cpu:0"}, {"conditions", {std::move(device)}}};
}

// A container with a quota, on a machine whose clock cannot be read.
TEST(BenchReport, ConditionsOfAContainer) {
  const Json row = RowIn({{"device", "cpu:0"},
                          {"thread_count", 16},
                          {"quota_threads", 1.5},
                          {"before", {{"load_average", 0.5}}},
                          {"after", Json::object()}});
  EXPECT_THAT(Verdicts(row),
              testing::ElementsAre(
                  "the clock of cpu:0 cannot be read: a change of it would not show",
                  "the control group allows cpu:0 the time of 1.5 of 16 CPUs: work that uses it up "
                  "is paused until the next period"));
  const std::string table = FormatMarkdown({{"rows", {row}}});
  EXPECT_THAT(table, testing::HasSubstr("\nConditions of the timed runs:\n\n| model | device |"));
  EXPECT_THAT(table,
              testing::HasSubstr("\n| m.onnx | cpu:0 | unknown | unknown | unknown | unknown "
                                 "| unknown | unknown | unknown | 0.50 | 1.5 | unknown |\n"));
}

// A quota that was used up during the runs, and by others before them.
TEST(BenchReport, ConditionsOfAPausedContainer) {
  Json device = {{"device", "cpu:0"},
                 {"before", {{"clock_hz", 2e9}, {"quota_pauses", 40}, {"quota_paused_s", 2.0}}},
                 {"after", {{"clock_hz", 2e9}, {"quota_pauses", 47}, {"quota_paused_s", 2.35}}}};
  const std::string said =
      "the control group paused cpu:0 in 7 periods of the timed runs, for 350.0 ms of all "
      "processors: these are times of its quota";
  EXPECT_THAT(Verdicts(RowIn(device)), testing::ElementsAre(said));
  EXPECT_THAT(FormatMarkdown({{"rows", {RowIn(device)}}}), testing::HasSubstr(" | - | - | 7 |\n"));
  // Beside a GPU it has no line of its own.
  device["is_host"] = true;
  EXPECT_THAT(Verdicts(RowIn(device)), testing::ElementsAre(said));
  EXPECT_THAT(FormatMarkdown({{"rows", {RowIn(device)}}}),
              testing::Not(testing::HasSubstr("Conditions")));
  device["after"]["quota_pauses"] = 40;
  EXPECT_TRUE(Verdicts(RowIn(device)).empty());
}

// What is over when the runs are over was seen in the middle of them, and others use the device.
TEST(BenchReport, ConditionsDuringTheRuns) {
  Json device = {{"device", "cuda:0"},
                 {"before", {{"clock_hz", 2e9}, {"throttle_reasons", "idle"}}},
                 {"during", {{"clock_hz", 1.5e9}, {"throttle_reasons", "software power cap"}}},
                 {"after", {{"clock_hz", 2e9}, {"throttle_reasons", "none"}}}};
  EXPECT_THAT(Verdicts(RowIn(device)),
              testing::ElementsAre("the clock of cuda:0 fell 25%, from 2000 to 1500 MHz",
                                   "cuda:0 was held back by: software power cap"));
  EXPECT_THAT(FormatMarkdown({{"rows", {RowIn(device)}}}),
              testing::HasSubstr("\n| m.onnx | cuda:0 | 2000 MHz | 1500 MHz | 2000 MHz | unknown | "
                                 "unknown | software power cap |"));
  device["during"] = {{"clock_hz", 2e9}, {"process_count", 3}, {"mps_process_count", 2}};
  EXPECT_THAT(Verdicts(RowIn(device)),
              testing::ElementsAre("3 processes compute on cuda:0, of which this is one",
                                   "2 processes share cuda:0 through the Multi-Process Service"));
  // Alone, and in a report from before.
  device["during"] = {{"clock_hz", 2e9}, {"process_count", 1}};
  EXPECT_TRUE(Verdicts(RowIn(device)).empty());
  device.erase("during");
  EXPECT_TRUE(Verdicts(RowIn(device)).empty());
}

// What was too hot before the row began was not held back by that during it.
TEST(BenchReport, ConditionsOfAWarmMachine) {
  Json device = {{"device", "cpu:0"},
                 {"thread_count", 16},
                 {"quota_threads", 16},
                 {"max_clock_hz", 3.5e9},
                 {"before",
                  {{"clock_hz", 2e9},
                   {"performance_state", "powersave"},
                   {"throttle_reasons", "heat, 3 times since the start"}}},
                 {"after",
                  {{"clock_hz", 2.1e9},
                   {"temperature_c", 61.4},
                   {"throttle_reasons", "heat, 3 times since the start"}}}};
  EXPECT_THAT(
      Verdicts(RowIn(device)),
      testing::ElementsAre("the governor of cpu:0 is powersave: its clock follows the load"));
  EXPECT_THAT(FormatMarkdown({{"rows", {RowIn(device)}}}),
              testing::HasSubstr(
                  "\n| m.onnx | cpu:0 | 2000 MHz | unknown | 2100 MHz | 3500 MHz | powersave | "
                  "nothing | 61 C | - | 16 | unknown |\n"));
  device["before"]["performance_state"] = "performance";
  device["after"]["throttle_reasons"] = "heat, 5 times since the start";
  EXPECT_THAT(Verdicts(RowIn(device)),
              testing::ElementsAre("cpu:0 was held back by: heat, 5 times since the start"));
  device["after"]["throttle_reasons"] = "idle";
  EXPECT_TRUE(Verdicts(RowIn(device)).empty());
}

// A row is compared with the row of the same sizes and precision, whatever else the reports have
// and however an earlier version named it.
TEST(BenchReport, OnlyEqualRowsAreCompared) {
  const auto row = [](const char* model, int64_t batch, const char* precision,
                      double seconds) -> Json {
    return {{"model", model},
            {"device", "cpu:0"},
            {"precision", precision},
            {"shapes", {{"batch", batch}, {"a", 7}}},
            {"samples", std::vector<double>(20, seconds)}};
  };
  const Json before = {
      {"io_precision", "as-given"},
      {"rows",
       {row("m.onnx batch=1", 1, "as-given", 1e-3), row("m.onnx batch=4", 4, "as-given", 4e-3)}}};
  Json after = {{"io_precision", "as-given"},
                {"rows",
                 {row("m.onnx", 1, "fp16", 9e-3), row("m.onnx", 1, "as-given", 2e-3),
                  row("other.onnx", 1, "as-given", 9e-3)}}};
  const std::string table = CompareReports(before, after);
  EXPECT_THAT(table, testing::HasSubstr(
                         "| m.onnx a=7 batch=1 as-given | cpu:0 | 1.000 ms | 2.000 ms | 2.000 |"));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 3) << table;
  Json timeless = before;  // a clock that did not move
  timeless["rows"][0]["samples"] = std::vector<double>(20, 0.0);
  EXPECT_THAT(CompareReports(timeless, after), testing::HasSubstr("| 0 s | 2.000 ms | - | slower"));
  after["io_precision"] = "fp16";
  EXPECT_EQ(CompareReports(before, after), "");
  // Where both say what was run, that decides: a size that was not given is still a size.
  Json named = row("m.onnx", 1, "as-given", 1e-3), unnamed = named;
  unnamed.erase("shapes");
  named["identity"] = unnamed["identity"] = {{"inputs", {{{"name", "x"}, {"dims", {1, 8}}}}}};
  const auto one = [](const Json& only) -> Json { return {{"rows", {only}}}; };
  EXPECT_NE(CompareReports(one(named), one(unnamed)), "");
  unnamed["identity"]["inputs"][0]["dims"][0] = 4;
  EXPECT_EQ(CompareReports(one(named), one(unnamed)), "");
}

// Each device of a program over several has a line of its own; one device is in the table already.
TEST(BenchReport, MemoryByDevice) {
  const auto device = [](const char* name, int64_t peak) -> Json {
    return {{"device", name},    {"constant_bytes", 1024}, {"activation_bytes", 2048},
            {"io_bytes", 0},     {"staging_bytes", 512},   {"total_bytes", 3584},
            {"peak_bytes", peak}};
  };
  Json report = {{"rows",
                  {{{"model", "m.onnx"},
                    {"device", "cpu:0+cpu:1"},
                    {"memory",
                     {{"total_bytes", 7168},
                      {"peak_bytes", 9216},
                      {"devices", {device("cpu:0", 4096), device("cpu:1", 5120)}}}}}}}};
  report["rows"][0]["memory"]["devices"][1]["concurrent_peak_bytes"] = 8192;
  const std::string table = FormatMarkdown(report);
  EXPECT_THAT(table, testing::HasSubstr("\nMemory of m.onnx on cpu:0+cpu:1:\n\n| device |"));
  EXPECT_THAT(table, testing::HasSubstr("\n| cpu:0 | 1.0 KiB | 2.0 KiB | 0 bytes | 512 bytes | "
                                        "3.5 KiB | 4.0 KiB | - |\n"));
  EXPECT_THAT(table, testing::HasSubstr("\n| cpu:1 | 1.0 KiB | 2.0 KiB | 0 bytes | 512 bytes | "
                                        "3.5 KiB | 5.0 KiB | 8.0 KiB |\n"));
  report["rows"][0]["memory"]["devices"].erase(1);
  EXPECT_THAT(FormatMarkdown(report), testing::Not(testing::HasSubstr("Memory of")));
  EXPECT_THAT(FormatCsv(report), testing::EndsWith(",7168,9216,,,,,,\n"));
}

Json LatencyOf(double seconds) { return PercentilesJson({seconds, seconds, seconds}); }

TEST(BenchReport, LatencyUnderLoad) {
  Json row = {{"model", "m.onnx"},
              {"device", "cpu:0"},
              {"throughput", 123.0},
              {"concurrency", 1},
              {"concurrent_latency", LatencyOf(2e-3)}};
  Json report = {{"rows", {row}}};
  EXPECT_THAT(FormatMarkdown(report), testing::Not(testing::HasSubstr("under load")));
  EXPECT_TRUE(Verdicts(row).empty());
  row["concurrency"] = 2;
  row["rates"] = {{{"rate", 20.0},
                   {"seconds", 3.0},
                   {"arrivals", 60},
                   {"served", 50},
                   {"waited", 12},
                   {"missed", 10},
                   {"served_per_s", 16.5},
                   {"latency", LatencyOf(3e-3)}}};
  Json none = row["rates"][0];  // the device was busy with something else all the time
  none.erase("latency");
  none["missed"] = 60;
  row["rates"].push_back(none);
  report["rows"][0] = row;
  const std::string text = FormatMarkdown(report);
  for (const char* line :
       {"\nLatency of m.onnx on cpu:0 under load, 2 sessions:\n",
        "\n| each run after the last | 123.0 | 2.000 ms | 2.000 ms | 2.000 ms | 2.000 ms | 2.000 "
        "ms "
        "| - | - |\n",
        "\n| due at 20/s | 16.50 | 3.000 ms | 3.000 ms | 3.000 ms | 3.000 ms | 3.000 ms | 12 of 60 "
        "| 10 of 60 |\n",
        "\n| due at 20/s | 16.50 | - | - | - | - | - | 12 of 60 | 60 of 60 |\n"}) {
    EXPECT_THAT(text, testing::HasSubstr(line));
  }
  EXPECT_THAT(Verdicts(row),
              testing::Contains("too much: of the runs due at 20/s 10 of 60 were not begun in "
                                "3.000 s; 16.50/s were served"));
  EXPECT_NE(WhyItHolds(ParseCondition("missed>=70"), row), "") << "of all rates";
  EXPECT_EQ(WhyItHolds(ParseCondition("missed>70"), row), "");
  row.erase("rates");
  EXPECT_THROW(WhyItHolds(ParseCondition("missed>0"), row), CommandError);
}

TEST(BenchReport, PercentilesUnderLoad) {
  std::vector<double> latencies;
  for (int i = 1000; i >= 0; --i) latencies.push_back(i);
  const Json json = PercentilesJson(latencies);
  EXPECT_EQ(json["count"], 1001);
  EXPECT_EQ(json["min"], 0);
  EXPECT_EQ(json["mean"], 500);
  EXPECT_EQ(json["p50"], 500);
  EXPECT_EQ(json["p99"], 990);
  EXPECT_EQ(json["p999"], 999);
  EXPECT_EQ(json["max"], 1000);
  EXPECT_FALSE(LatencyOf(1).contains("p999"));
}

TEST(BenchReport, ComparesByTheSamples) {
  Json before = {{"format", kBenchFormat}, {"rows", Json::array()}}, after = before;
  Json row = {{"model", "m.onnx"}, {"device", "cpu:0"}, {"samples", Json::array()}};
  for (int i = 0; i < 50; ++i) row["samples"].push_back(1e-3 + 1e-6 * (i % 7));
  before["rows"].push_back(row);
  after["rows"].push_back(row);
  EXPECT_THAT(CompareReports(before, after), testing::HasSubstr("no difference"));
  for (Json& sample : after["rows"][0]["samples"]) sample = sample.get<double>() * 0.5;
  EXPECT_THAT(CompareReports(before, after), testing::HasSubstr("| 0.500 | faster"));
  EXPECT_EQ(ParseBenchReport("a", before.dump()), before);
  EXPECT_THROW(ParseBenchReport("a", "{}"), CommandError);
  EXPECT_THROW(ParseBenchReport("a", "{\"format\": \"halyard-bench-1\", \"rows\": [3]}"),
               CommandError);
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, Json>>{{"samples", {1e-3, -1e-3}},
                                                 {"samples", {{"a", 1e-3}}},
                                                 {"samples", 1e-3},
                                                 {"shapes", 5},
                                                 {"precision", 16},
                                                 {"precision", Json()},
                                                 {"io_precision", Json::array()},
                                                 {"identity", 5},
                                                 {"identity", {{"inputs", "x"}}},
                                                 {"identity", {{"inputs", {Json()}}}}}) {
    Json damaged = before;
    damaged["rows"][0][name] = value;
    EXPECT_THROW(ParseBenchReport("a", damaged.dump()), CommandError) << damaged["rows"][0][name];
  }
  Json damaged = before;  // As earlier reports have it: for all rows.
  damaged["io_precision"] = 16;
  EXPECT_THROW(ParseBenchReport("a", damaged.dump()), CommandError);
}

}  // namespace
}  // namespace halyard::tools
