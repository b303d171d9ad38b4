// SPDX-License-Identifier: Apache-2.0
// From a graph to a plan: what is counted, what decides, what the records say. Nothing is compiled
// or run; devices are targets.
#include "compiler/pipeline/place_clusters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/gpu_kernel_abi.h"
#include "compiler/ops/op_def.h"
#include "compiler/pipeline/cluster_work.h"
#include "compiler/pipeline/pipeline.h"
#include "compiler/place/plan.h"
#include "tests/pipeline/two_devices.h"

namespace halyard::pipeline {
namespace {

using ::testing::HasSubstr;

struct Placed {
  CompileState state;
  CompileRequest request;
  std::vector<PhaseTime> phases;
  std::optional<place::Plan> plan;

  std::string DeviceOf(const std::string& node) const {
    for (const graph::NodeId id : state.module.entry().nodes) {
      if (state.module.nodes[id].name != node) continue;
      return state.program.devices[state.device_of[state.cluster_of[id]]].name;
    }
    return "gone";
  }
};

Status Place(std::string_view text, std::vector<program::Device> devices,
             const place::Options& options, Placed* out, place::Timings* timings = nullptr) {
  out->request.graph_text = text;
  out->request.devices = devices;
  out->request.options.placement = options;
  out->request.timings = timings;
  out->state.request = &out->request;
  out->state.program.devices = std::move(devices);
  RunOptions run;
  run.stop_after = "place";
  run.disabled = {"fold-constants"};
  HY_TRY(RunPasses(out->state, run, "", &out->phases));
  for (const program::Record& record : out->state.program.records) {
    if (record.kind != "plan") continue;
    HY_ASSIGN(out->plan, place::ParsePlan(record.text));
  }
  return OkStatus();
}

// Big products with a node between them that only the interpreter has.
constexpr std::string_view kIsland =
    R"(graph main(%x: f32[1024, 1024], %w: f32[1024, 1024]) -> (%e) {
  %a = matmul %x, %w : f32[1024, 1024] "first"
  %b = cast %a {dtype = f64} : f64[1024, 1024] "wide"
  %c = rem %b, %b : f64[1024, 1024] "odd"
  %d = cast %c {dtype = f32} : f32[1024, 1024] "narrow"
  %e = matmul %d, %w : f32[1024, 1024] "second"
}
)";

constexpr std::string_view kTiny = R"(graph main(%x: f32[8]) -> (%b) {
  %a = tanh %x : f32[8] "a"
  %b = exp %a : f32[8] "b"
}
)";

TEST(Placement, BigWorkGoesWhereItIsFastAndWhatOnlyTheHostHasStaysThere) {
  Placed placed;
  ASSERT_TRUE(Place(kIsland, TwoDevices(), {}, &placed).ok());
  EXPECT_EQ(placed.DeviceOf("first"), "cpu:1");
  EXPECT_EQ(placed.DeviceOf("odd"), "cpu:0");
  EXPECT_EQ(placed.DeviceOf("second"), "cpu:1");
  ASSERT_TRUE(placed.plan.has_value());
  const place::Plan& plan = *placed.plan;
  EXPECT_EQ(plan.method, place::Method::kExactCut);
  bool found = false;
  for (size_t i = 0; i < plan.decisions.size(); ++i) {
    if (plan.item_names[i] != "odd") continue;
    found = true;
    EXPECT_EQ(plan.decisions[i].decided_by, place::DecidedBy::kOnlyFeasible);
    EXPECT_EQ(plan.costs[i][1].reason, place::Reason::kOp);
    EXPECT_THAT(plan.costs[i][1].detail, HasSubstr("odd"));
    EXPECT_GT(plan.decisions[i].transfer_seconds, 0);
    ASSERT_EQ(plan.decisions[i].missing.size(), 1u);
    EXPECT_GT(plan.decisions[i].missing[0].seconds, plan.decisions[i].transfer_seconds);
  }
  EXPECT_TRUE(found);
}

TEST(Placement, TinyWorkStaysAtHome) {
  Placed placed;
  ASSERT_TRUE(Place(kTiny, TwoDevices(), {}, &placed).ok());
  EXPECT_EQ(placed.DeviceOf("a"), "cpu:0");
  EXPECT_EQ(placed.DeviceOf("b"), "cpu:0");
  EXPECT_TRUE(placed.plan->transfers.empty());
}

TEST(Placement, WithOneDeviceThereIsNothingToChoose) {
  std::vector<program::Device> devices = TwoDevices();
  devices.pop_back();
  Placed placed;
  ASSERT_TRUE(Place(kIsland, devices, {}, &placed).ok());
  EXPECT_FALSE(placed.plan.has_value());
  const program::Record& record = placed.state.program.records.back();
  EXPECT_EQ(record.kind, "placement");
  EXPECT_THAT(record.text, HasSubstr("it is the only device."));
}

TEST(Placement, TheSameRequestGivesTheSameBytes) {
  Placed first, second;
  ASSERT_TRUE(Place(kIsland, TwoDevices(), {}, &first).ok());
  ASSERT_TRUE(Place(kIsland, TwoDevices(), {}, &second).ok());
  EXPECT_EQ(place::FormatPlan(*first.plan), place::FormatPlan(*second.plan));
}

TEST(Placement, WishesApplyToNodesByNameAndByOp) {
  place::Options options;
  options.affinities = {{"sec*", "cpu:0", place::Strength::kRequire}};
  Placed placed;
  ASSERT_TRUE(Place(kIsland, TwoDevices(), options, &placed).ok());
  EXPECT_EQ(placed.DeviceOf("first"), "cpu:1");
  EXPECT_EQ(placed.DeviceOf("second"), "cpu:0");
  ASSERT_EQ(placed.plan->prices.size(), 1u);
  EXPECT_GT(placed.plan->prices[0].seconds, 0);
  EXPECT_EQ(placed.plan->prices[0].items, 1u);

  options.affinities = {{"op:matmul", "cpu:1", place::Strength::kForbid},
                        {"nothing", "cpu:1", place::Strength::kPrefer}};
  Placed forbidden;
  ASSERT_TRUE(Place(kIsland, TwoDevices(), options, &forbidden).ok());
  EXPECT_EQ(forbidden.DeviceOf("first"), "cpu:0");
  EXPECT_EQ(forbidden.DeviceOf("second"), "cpu:0");
  bool says_so = false;
  for (const program::Record& record : forbidden.state.program.records) {
    says_so |= record.text.starts_with("The affinity 'nothing=prefer:cpu:1' matches no node");
  }
  EXPECT_TRUE(says_so);
}

// Products of one value become one, which runs on one device: not what is wished apart.
TEST(Placement, AWishForAProductHoldsTheProductItself) {
  constexpr std::string_view kProducts = R"(graph main(%x: f32[4, 2]) -> (%y) {
  %w = constant f32[2, 2]{1, 2, 3, 4}
  %v = constant f32[2, 2]{5, 6, 7, 8}
  %q = matmul %x, %w : f32[4, 2] "query"
  %k = matmul %x, %v : f32[4, 2] "key"
  %y = matmul %q, %k {transpose_a = 0, transpose_b = 1} : f32[4, 4] "scores"
}
)";
  place::Options options;
  for (const char* pattern : {"key", "nothing", "*"}) {
    options.affinities = {{pattern, "cpu:1", place::Strength::kRequire}};
    Placed placed;
    ASSERT_TRUE(Place(kProducts, TwoDevices(), options, &placed).ok()) << pattern;
    bool is_merged = false;
    for (const program::Record& record : placed.state.program.records)
      is_merged |= record.text.starts_with("The products 'query', 'key' of one value are one");
    EXPECT_EQ(is_merged, std::string_view(pattern) != "key") << pattern;
    EXPECT_TRUE(is_merged || placed.DeviceOf("key") == "cpu:1") << pattern;
  }
}

TEST(Placement, BadWishesAndLimitsAreOneClearError) {
  const auto message = [](const place::Options& options) {
    Placed placed;
    const Status status = Place(kIsland, TwoDevices(), options, &placed);
    EXPECT_FALSE(status.ok());
    return status.message();
  };
  place::Options options;
  options.affinities = {{"first", "cuda:7", place::Strength::kRequire}};
  EXPECT_EQ(message(options),
            "The affinity of 'first' names device 'cuda:7'; the request has "
            "'cpu:0', 'cpu:1'.");
  options.affinities = {{"odd", "cpu:1", place::Strength::kRequire}};
  EXPECT_THAT(
      message(options),
      HasSubstr("'odd' is required on 'cpu:1' by the affinity 'odd=cpu:1', which cannot run "
                "it (op)"));
  options.affinities = {{"first", "cpu:1", place::Strength::kRequire},
                        {"op:matmul", "cpu:0", place::Strength::kRequire}};
  EXPECT_EQ(message(options),
            "'first' is required on 'cpu:1' by the affinity 'first=cpu:1' and on 'cpu:0' by the "
            "affinity 'op:matmul=cpu:0'.");
  options.affinities = {{"f*", "cpu:0", place::Strength::kForbid},
                        {"*", "cpu:1", place::Strength::kForbid}};
  EXPECT_THAT(message(options),
              HasSubstr("The wishes leave no device for 'first'. It is forbidden on 'cpu:0' by the "
                        "affinity 'f*=forbid:cpu:0'. It is forbidden on 'cpu:1' by the affinity "
                        "'*=forbid:cpu:1'."));
  options = {};
  options.memory_caps = {{"gpu", 1 << 20}};
  EXPECT_EQ(message(options), "A memory cap names device 'gpu'; the request has 'cpu:0', 'cpu:1'.");
  options.memory_caps = {{"cpu:1", 0}};
  EXPECT_EQ(message(options), "The memory cap of 'cpu:1' is 0 bytes; at least 1 is needed.");
  options.memory_caps = {{"cpu:0", 1024}, {"cpu:1", 1024}};
  EXPECT_THAT(message(options), HasSubstr("No placement that was found meets the memory limits: "
                                          "memory 'host' takes 0 bytes for weights and "));
  options = {};
  options.previous_plan = "no plan";
  EXPECT_THAT(message(options), HasSubstr("Line 1 of the plan is wrong"));
  options = {};
  options.last_resort = {"cpu:9"};
  EXPECT_THAT(message(options), HasSubstr("The last resort names device 'cpu:9'"));
}

TEST(Placement, AMemoryCapMovesWorkAway) {
  place::Options options;
  options.memory_caps = {{"cpu:1", 1 << 20}};  // not even one operand fits
  Placed placed;
  ASSERT_TRUE(Place(kIsland, TwoDevices(), options, &placed).ok());
  EXPECT_EQ(placed.DeviceOf("first"), "cpu:0");
  EXPECT_GT(placed.plan->memory_price_seconds, 0);
}

TEST(Placement, TheLastResortTakesOnlyWhatNobodyElseCan) {
  place::Options options;
  options.last_resort = {"cpu:0"};
  Placed tiny, island;
  ASSERT_TRUE(Place(kTiny, TwoDevices(), options, &tiny).ok());
  EXPECT_EQ(tiny.DeviceOf("a"), "cpu:1");
  ASSERT_TRUE(Place(kIsland, TwoDevices(), options, &island).ok());
  EXPECT_EQ(island.DeviceOf("odd"), "cpu:0");
  EXPECT_EQ(island.DeviceOf("wide"), "cpu:1");
}

// A running sum between two products.
std::string SumOf(int64_t length) {
  return fmt::format(R"(graph main(%x: f32[2, 64], %w: f32[64, {0}], %v: f32[{0}, 8]) -> (%c) {{
  %a = matmul %x, %w : f32[2, {0}] "first"
  %b = cumsum %a {{axis = 1}} : f32[2, {0}] "sum"
  %c = matmul %b, %v : f32[2, 8] "second"
}}
)",
                     length);
}

TEST(Placement, WhatADeviceWouldEndEarlyGoesElsewhereAndSaysWhy) {
  std::vector<program::Device> devices = TwoDevices();
  devices[1].name = "vulkan:0";
  devices[1].target = *ParseTarget("llvmpipe-8");
  place::Options options;
  options.last_resort = {"cpu:0"};
  Placed within, beyond, alone;
  ASSERT_TRUE(Place(SumOf(60000), devices, options, &within).ok());
  for (const char* node : {"first", "sum", "second"}) {
    EXPECT_EQ(within.DeviceOf(node), "vulkan:0") << node;
  }
  ASSERT_TRUE(Place(SumOf(70000), devices, options, &beyond).ok());
  EXPECT_EQ(beyond.DeviceOf("first"), "vulkan:0");
  EXPECT_EQ(beyond.DeviceOf("sum"), "cpu:0");
  EXPECT_EQ(beyond.DeviceOf("second"), "vulkan:0");
  const place::Plan& plan = *beyond.plan;
  const auto sum = std::find(plan.item_names.begin(), plan.item_names.end(), "sum");
  ASSERT_NE(sum, plan.item_names.end());
  const place::Cost& cost = plan.costs[static_cast<size_t>(sum - plan.item_names.begin())][1];
  EXPECT_EQ(cost.reason, place::Reason::kTarget);
  EXPECT_THAT(cost.detail, HasSubstr("makes 70001 loop iterations"));
  // Asking changed nothing that later passes see.
  EXPECT_TRUE(beyond.state.segments.empty());
  EXPECT_EQ(beyond.state.module.graphs.size(), 1u);
  EXPECT_EQ(std::count_if(beyond.state.program.records.begin(), beyond.state.program.records.end(),
                          [](const program::Record& r) { return r.kind == "fallback"; }),
            0);
  // A node without a name is found as well.
  std::string unnamed = SumOf(70000);
  for (const std::string name : {" \"first\"", " \"sum\"", " \"second\""}) {
    unnamed.erase(unnamed.find(name), name.size());
  }
  Placed nameless;
  ASSERT_TRUE(Place(unnamed, devices, options, &nameless).ok());
  std::map<std::string_view, std::string> device_of;
  for (const graph::NodeId id : nameless.state.module.entry().nodes) {
    const graph::Node& node = nameless.state.module.nodes[id];
    EXPECT_EQ(node.name, "");
    device_of[node.op->name] =
        devices[nameless.state.device_of[nameless.state.cluster_of[id]]].name;
  }
  EXPECT_EQ(device_of["cumsum"], "cpu:0");
  EXPECT_EQ(device_of["matmul"], "vulkan:0");
  devices.erase(devices.begin());
  const Status refused = Place(SumOf(70000), devices, {}, &alone);
  EXPECT_EQ(refused.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(refused.message(), HasSubstr("makes 70001 loop iterations"));
  devices[0].target = *ParseTarget("vulkan-8");
  Placed endless;
  EXPECT_TRUE(Place(SumOf(70000), devices, {}, &endless).ok());
}

// A device without f16 in memory does what lies between f16 inputs and outputs.
TEST(Placement, F16InputsAndOutputsStayFromDevicesWithoutThem) {
  constexpr std::string_view kText =
      R"(graph main(%x: f32[64, 1024], %w: f32[1024, 1024]) -> (%d) {
  %a = exp %x : f32[64, 1024] "before"
  %b = reduce_sum %a {axes = [0], keep_dims = 0} : f32[1024] "sum"
  %s = broadcast %b {shape = [64, 1024]} : f32[64, 1024] "spread"
  %c = matmul %s, %w : f32[64, 1024] "product"
  %r = cumsum %c {axis = 1} : f32[64, 1024] "running"
  %q = cumsum %r {axis = 0} : f32[64, 1024] "again"
  %d = tanh %q : f32[64, 1024] "after"
}
)";
  std::vector<program::Device> devices = TwoDevices();
  devices[1].name = "vulkan:0";
  devices[1].target = *ParseTarget("vulkan-8");
  devices[1].target.gpu.features &= ~static_cast<uint64_t>(GpuFeature::kStorage16);
  place::Options options;
  options.last_resort = {"cpu:0"};
  Placed placed;
  placed.request.options.io_precision = Precision::kF16;
  ASSERT_TRUE(Place(kText, devices, options, &placed).ok());
  EXPECT_EQ(placed.DeviceOf("running"), "vulkan:0");
  const graph::Module& module = placed.state.module;
  size_t narrow = 0;
  for (const graph::NodeId id : module.entry().nodes) {
    const graph::Node& node = module.nodes[id];
    std::vector<graph::ValueId> values = node.operands;
    values.insert(values.end(), node.results.begin(), node.results.end());
    if (std::none_of(values.begin(), values.end(), [&](graph::ValueId value) {
          return module.values[value].type.dtype == DType::kF16;
        })) {
      continue;
    }
    ++narrow;
    EXPECT_EQ(placed.state.device_of[placed.state.cluster_of[id]], 0u) << node.op->name;
  }
  EXPECT_EQ(narrow, 3u);  // x, w and d
}

TEST(Placement, ThePlanThatRunsNowIsFoundAgain) {
  Placed before, after;
  place::Options options;
  options.affinities = {{"second", "cpu:0", place::Strength::kRequire}};
  ASSERT_TRUE(Place(kIsland, TwoDevices(), options, &before).ok());
  options = {};
  options.previous_plan = place::FormatPlan(*before.plan);
  ASSERT_TRUE(Place(kIsland, TwoDevices(), options, &after).ok());
  // It is a rival under its name, with the cost that it had but for what fuses without the wish,
  // and loses to what needs none.
  bool found = false;
  for (const place::Rival& rival : after.plan->rivals) {
    if (rival.name != "the previous plan") continue;
    found = true;
    EXPECT_NEAR(rival.makespan_seconds / before.plan->makespan_seconds, 1, 0.01);
  }
  EXPECT_TRUE(found);
}

class FixedTimings : public place::Timings {
 public:
  std::map<std::pair<uint32_t, uint64_t>, double> seconds;
  std::optional<place::Timing> FindTime(uint32_t device, uint64_t key) override {
    const auto found = seconds.find({device, key});
    if (found == seconds.end()) return std::nullopt;
    return place::Timing{found->second, 0.05};
  }
};

TEST(Placement, AMeasuredTimeOverrulesTheModel) {
  Placed cold;
  ASSERT_TRUE(Place(kIsland, TwoDevices(), {}, &cold).ok());
  FixedTimings timings;
  for (size_t i = 0; i < cold.plan->item_names.size(); ++i) {
    if (cold.plan->item_names[i] == "first") timings.seconds[{0, cold.plan->item_keys[i]}] = 1e-6;
  }
  ASSERT_EQ(timings.seconds.size(), 1u);
  Placed warm;
  ASSERT_TRUE(Place(kIsland, TwoDevices(), {}, &warm, &timings).ok());
  EXPECT_EQ(warm.DeviceOf("first"), "cpu:0");
  EXPECT_EQ(warm.DeviceOf("second"), "cpu:1");
  size_t measured = 0;
  for (const auto& costs : warm.plan->costs) {
    measured += costs[0].source == place::Source::kMeasured;
  }
  EXPECT_EQ(measured, 1u);
}

// Every candidate takes 10 us; notes what is stored.
class FakeMeasurer : public Measurer {
 public:
  std::map<uint64_t, std::string> stored;
  Result<std::vector<double>> Measure(uint32_t, std::span<const Candidate> candidates) override {
    return std::vector<double>(candidates.size(), 1e-5);
  }
  std::optional<std::string> FindChoice(uint32_t, uint64_t) override { return std::nullopt; }
  void StoreChoice(uint32_t, uint64_t key, std::string_view record, double) override {
    stored[key] = record;
  }
};

// What a race times under a key is what placement asks for under that key.
TEST(Placement, RacesStoreTheTimesOfTheClustersThatTheyTime) {
  constexpr std::string_view kText = R"(graph main(%x: f32[64, 96], %w: f32[96, 80]) -> (%b) {
  %a = matmul %x, %w : f32[64, 80] "product"
  %b = tanh %a : f32[64, 80] "squash"
}
)";
  Placed placed;
  ASSERT_TRUE(Place(kText, TwoDevices(), {}, &placed).ok());
  FakeMeasurer measurer;
  CompileRequest request;
  request.graph_text = kText;
  request.devices = TwoDevices();
  request.devices.pop_back();
  request.devices[0].target = *ParseTarget("cpu-avx2");
  request.measurer = &measurer;
  const auto compiled = pipeline::Compile(request);
  ASSERT_TRUE(compiled.ok()) << compiled.status().ToString();
  size_t timed = 0;
  for (const auto& [key, record] : measurer.stored) {
    const auto time = place::ParseClusterTime(record);
    if (!time) continue;
    EXPECT_EQ(time->seconds, 1e-5);
    EXPECT_FALSE(time->schedule.empty());
    EXPECT_THAT(placed.plan->item_keys, ::testing::Contains(key));
    ++timed;
  }
  EXPECT_GE(timed, 1u);
}

// Products of other sizes are corrected by those that were timed.
TEST(Placement, WhatWasTimedCorrectsTheRestOfItsClass) {
  constexpr std::string_view kText =
      R"(graph main(%x: f32[64, 64], %w: f32[64, 96]) -> (%a, %b, %c) {
  %a = matmul %x, %x : f32[64, 64] "a"
  %b = matmul %x, %w : f32[64, 96] "b"
  %c = matmul %b, %w {transpose_b = 1} : f32[64, 64] "c"
}
)";
  Placed cold, warm;
  ASSERT_TRUE(Place(kText, TwoDevices(), {}, &cold).ok());
  const auto seconds = [](const Placed& placed, std::string_view name) {
    const place::Plan& plan = *placed.plan;
    for (size_t i = 0; i < plan.costs.size(); ++i) {
      if (plan.item_names[i] == name) return plan.costs[i][0].seconds;
    }
    return 0.0;
  };
  FixedTimings timings;
  for (size_t i = 0; i < cold.plan->item_keys.size(); ++i) {
    if (cold.plan->item_names[i] == "c") continue;
    timings.seconds[{0, cold.plan->item_keys[i]}] = 10 * cold.plan->costs[i][0].seconds;
  }
  ASSERT_EQ(timings.seconds.size(), 2u);
  ASSERT_TRUE(Place(kText, TwoDevices(), {}, &warm, &timings).ok());
  EXPECT_NEAR(seconds(warm, "c"), 10 * seconds(cold, "c"), 0.01 * seconds(warm, "c"));
  for (size_t i = 0; i < warm.plan->costs.size(); ++i) {
    const bool is_timed = warm.plan->item_names[i] != "c";
    EXPECT_EQ(warm.plan->costs[i][0].source,
              is_timed ? place::Source::kMeasured : place::Source::kFitted);
    EXPECT_EQ(warm.plan->costs[i][1], cold.plan->costs[i][1]);  // of that device nothing is known
  }
}

// A model whose weights a run does not find in the caches takes what cold kernels took.
TEST(Placement, WeightsBeyondTheCachesAreCold) {
  const auto product = [](int64_t columns) {
    std::string weights = "1";
    for (int64_t i = 1; i < 64 * columns; ++i) weights += i % 2 == 0 ? ", 1" : ", 2";
    return fmt::format(
        "graph main(%x: f32[8, 64]) -> (%a) {{\n"
        "  %w = constant f32[64, {0}]{{{1}}}\n"
        "  %a = matmul %x, %w : f32[8, {0}] \"a\"\n}}\n",
        columns, weights);
  };
  place::Machine machine = place::DefaultMachine(TwoDevices());
  place::Device& device = machine.devices[0];
  device.fits = {{place::OpClass::kContraction, {{0, 1}}, 0.1}};
  device.levels = {{"l2", 1 << 16, {1e11, place::Source::kMeasured, 0.1}},
                   {"memory", int64_t{1} << 50, {1e11, place::Source::kMeasured, 0.1}}};
  const auto seconds = [&](const std::string& text) {
    Placed placed;
    placed.request.machine = &machine;
    EXPECT_TRUE(Place(text, TwoDevices(), {}, &placed).ok());
    return placed.plan ? placed.plan->costs[0][0].seconds : 0;
  };
  const double small = seconds(product(128)), large = seconds(product(512));
  device.cold_fits = {{place::OpClass::kContraction, {{0, 3}}, 0.1}};
  EXPECT_EQ(seconds(product(128)), small);
  EXPECT_NEAR(seconds(product(512)), 3 * large, 1e-9 * large);
  // Two halves of a GPU read much of that twice.
  EXPECT_EQ(place::KeptBytes(device), 1 << 16);
  device.kind = TargetKind::kCuda;
  EXPECT_EQ(place::KeptBytes(device), 1 << 15);
}

// Two clusters that read from each other are placed as nodes, so each way between them is priced.
TEST(Placement, ClustersThatReadFromEachOtherArePricedBothWays) {
  CompileState state;
  CompileRequest request;
  request.graph_text = R"(graph main(%x: f32[64]) -> (%d) {
  %a = tanh %x : f32[64] "a"
  %b = exp %a : f32[64] "b"
  %c = sin %b : f32[64] "c"
  %d = cos %c : f32[64] "d"
}
)";
  request.devices = TwoDevices();
  request.options.placement.affinities = {{"a", "cpu:0", place::Strength::kRequire},
                                          {"b", "cpu:1", place::Strength::kRequire},
                                          {"c", "cpu:0", place::Strength::kRequire},
                                          {"d", "cpu:1", place::Strength::kRequire}};
  state.request = &request;
  state.program.devices = request.devices;
  RunOptions run;
  run.stop_after = "cluster";
  std::vector<PhaseTime> phases;
  ASSERT_TRUE(RunPasses(state, run, "", &phases).ok());
  for (const graph::NodeId id : state.module.entry().nodes) {
    const std::string& name = state.module.nodes[id].name;
    state.cluster_of[id] = name == "a" || name == "c" ? 0 : 1;
  }
  ASSERT_TRUE(PlaceClusters(state).ok());
  std::optional<place::Plan> plan;
  for (const program::Record& record : state.program.records) {
    if (record.kind == "plan") plan = place::ParsePlan(record.text).value();
  }
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->decisions.size(), 4u);
  std::vector<std::string> moved;
  for (const place::Transfer& transfer : plan->transfers) {
    moved.push_back(plan->tensor_names[transfer.tensor]);
  }
  EXPECT_THAT(moved, ::testing::UnorderedElementsAre("a", "b", "c", "d"));
}

TEST(ClusterWork, KeysAreEqualForEqualWorkOnly) {
  const auto key = [](std::string_view text) {
    Placed placed;
    EXPECT_TRUE(Place(text, TwoDevices(), {}, &placed).ok());
    EXPECT_EQ(placed.plan->item_keys.size(), 1u);
    return placed.plan->item_keys[0];
  };
  const uint64_t first =
      key("graph main(%x: f32[8, 4]) -> (%a) { %a = tanh %x : f32[8, 4] \"p\" }");
  EXPECT_EQ(key("graph main(%y: f32[8, 4]) -> (%b) { %b = tanh %y : f32[8, 4] \"q\" }"), first);
  EXPECT_NE(key("graph main(%x: f32[4, 8]) -> (%a) { %a = tanh %x : f32[4, 8] \"p\" }"), first);
  EXPECT_NE(key("graph main(%x: f64[8, 4]) -> (%a) { %a = tanh %x : f64[8, 4] \"p\" }"), first);
  EXPECT_NE(key("graph main(%x: f32[8, 4]) -> (%a) { %a = exp %x : f32[8, 4] \"p\" }"), first);
}

TEST(Clusters, ViewsOfConstantsBelongToTheirReader) {
  Placed placed;
  ASSERT_TRUE(Place("graph main(%x: f32[6, 4]) -> (%c) {\n"
                    "  %w = constant f32[4]{1, 2, 3, 4} \"w\"\n"
                    "  %b = broadcast %w {shape = [6, 4]} : f32[6, 4] \"b\"\n"
                    "  %c = add %x, %b : f32[6, 4] \"c\"\n}\n",
                    TwoDevices(), {}, &placed)
                  .ok());
  ASSERT_EQ(placed.plan->item_names.size(), 1u);
  EXPECT_THAT(placed.plan->item_nodes[0], ::testing::ElementsAre("b", "c"));
}

// Whatever the order of its nodes: what a cluster reads has its price.
TEST(Clusters, StandBehindThoseThatTheyReadFrom) {
  Placed placed;
  ASSERT_TRUE(Place("graph main(%x: f32[64, 64], %w: f32[64, 64]) -> (%b, %c) {\n"
                    "  %a = matmul %x, %w : f32[64, 64] \"a\"\n"
                    "  %c = tanh %a : f32[64, 64] \"c\"\n"
                    "  %b = exp %a : f32[64, 64] \"b\"\n}\n",
                    TwoDevices(), {}, &placed)
                  .ok());
  std::map<std::string, graph::NodeId> nodes;
  for (const graph::NodeId id : placed.state.module.entry().nodes) {
    nodes[placed.state.module.nodes[id].name] = id;
  }
  // A kernel of the product and the last node, which comes after the reader of the product.
  placed.state.cluster_of[nodes["a"]] = placed.state.cluster_of[nodes["b"]] = 0;
  placed.state.cluster_of[nodes["c"]] = 1;
  std::vector<std::string> notes;
  std::vector<uint32_t> clusters;
  const auto problem = MakeProblem(placed.state, MachineOf(placed.state, &notes), &clusters);
  ASSERT_TRUE(problem.ok()) << problem.status().ToString();
  EXPECT_THAT(clusters, ::testing::ElementsAre(0, 1));
  const auto a = std::find_if(problem->tensors.begin(), problem->tensors.end(),
                              [](const place::Tensor& tensor) { return tensor.name == "a"; });
  ASSERT_NE(a, problem->tensors.end());
  EXPECT_EQ(a->producer, 0u);
  EXPECT_THAT(a->consumers, ::testing::ElementsAre(1));
}

// A zero that merging made common, spread once for two activations.
constexpr std::string_view kSharedZero =
    R"(graph main(%x: f32[64, 64], %w: f32[64, 64]) -> (%d) {
  %z = constant f32[]{0} "z"
  %s = broadcast %z {shape = [64, 64]} : f32[64, 64] "first.relu"
  %a = matmul %x, %w : f32[64, 64] "first"
  %b = max %a, %s : f32[64, 64] "first.relu"
  %c = matmul %b, %w : f32[64, 64] "second"
  %d = max %c, %s : f32[64, 64] "second.relu"
}
)";

// Two remainders that share what they divide by: an interpreted op reads memory.
constexpr std::string_view kSharedDivisor =
    R"(graph main(%x: f64[8, 4], %y: f64[8, 4]) -> (%a, %b, %c) {
  %k = constant f64[]{3} "k"
  %s = broadcast %k {shape = [8, 4]} : f64[8, 4] "by"
  %a = rem %x, %s : f64[8, 4] "one"
  %b = rem %y, %s : f64[8, 4] "two"
  %c = add %y, %s : f64[8, 4] "sum"
}
)";

// A view of a view, of which a result needs the outer and two sums the inner one.
constexpr std::string_view kSharedChain =
    R"(graph main(%x: f32[4, 6], %y: f32[4, 6]) -> (%r, %a, %b) {
  %k = constant f32[6]{1, 2, 3, 4, 5, 6} "k"
  %s = broadcast %k {shape = [4, 6]} : f32[4, 6] "spread"
  %r = reshape %s {shape = [24]} : f32[24] "flat"
  %a = add %x, %s : f32[4, 6] "one"
  %b = mul %y, %s : f32[4, 6] "two"
}
)";

struct Fused {
  size_t nodes = 0, clusters = 0, kernels = 0, interpreted = 0;
};

Fused CountFused(std::string_view text, bool clones) {
  CompileState state;
  CompileRequest request;
  request.graph_text = text;
  request.devices = TwoDevices();
  request.devices.pop_back();
  state.request = &request;
  state.program.devices = request.devices;
  RunOptions run;
  run.stop_after = "fuse";
  run.disabled = {"fold-constants"};
  if (!clones) run.disabled.insert("clone-views");
  std::vector<PhaseTime> phases;
  const Status ran = RunPasses(state, run, "", &phases);
  EXPECT_TRUE(ran.ok()) << ran.ToString();
  Fused counts;
  CompileState clustered;  // fusion makes kernels of them
  clustered.request = &request;
  clustered.program.devices = request.devices;
  run.stop_after = "cluster";
  EXPECT_TRUE(RunPasses(clustered, run, "", &phases).ok());
  std::set<uint32_t> clusters;
  for (const graph::NodeId id : clustered.module.entry().nodes) {
    if (clustered.module.nodes[id].constant != graph::kNone) continue;
    clusters.insert(clustered.cluster_of[id]);
  }
  for (const graph::NodeId id : state.module.entry().nodes) {
    if (state.module.nodes[id].constant != graph::kNone) continue;
    ++counts.nodes;
  }
  counts.clusters = clusters.size();
  for (const Segment& segment : state.segments) {
    counts.kernels += segment.function.kernels.size();
    counts.interpreted += segment.is_interpreted;
  }
  return counts;
}

TEST(Clusters, EveryReaderOfAConstantHasItsOwnView) {
  Placed placed;
  ASSERT_TRUE(Place(kSharedZero, TwoDevices(), {}, &placed).ok());
  ASSERT_EQ(placed.plan->item_names.size(), 2u);
  EXPECT_THAT(placed.plan->item_nodes[0],
              ::testing::ElementsAre("first.relu", "first", "first.relu"));
  EXPECT_THAT(placed.plan->item_nodes[1],
              ::testing::ElementsAre("second", "second.relu", "second.relu"));
  // The two halves apart: what crosses is the value between them, not the zero.
  place::Options options;
  options.affinities = {{"first*", "cpu:0", place::Strength::kRequire},
                        {"second*", "cpu:1", place::Strength::kRequire}};
  Placed apart;
  ASSERT_TRUE(Place(kSharedZero, TwoDevices(), options, &apart).ok());
  for (const place::Transfer& transfer : apart.plan->transfers) {
    EXPECT_NE(apart.plan->tensor_names[transfer.tensor], "s");
  }
  EXPECT_EQ(CountFused(kSharedZero, false).clusters, 3u);
}

TEST(Clusters, OwnViewsAddNoKernel) {
  for (const std::string_view text : {kSharedZero, kSharedDivisor, kSharedChain}) {
    SCOPED_TRACE(text);
    const Fused shared = CountFused(text, false), own = CountFused(text, true);
    EXPECT_LE(own.kernels, shared.kernels);
    EXPECT_EQ(own.interpreted, shared.interpreted);
    EXPECT_LE(own.clusters, shared.clusters);
  }
  // Memory holds the divisor, so the sum reads it there.
  EXPECT_EQ(CountFused(kSharedDivisor, true).nodes, CountFused(kSharedDivisor, false).nodes);
  EXPECT_EQ(CountFused(kSharedDivisor, true).interpreted, 2u);
  // The reshaped result, and a sum and a product that read the constant itself.
  EXPECT_EQ(CountFused(kSharedChain, true).clusters, 3u);
  EXPECT_EQ(CountFused(kSharedChain, false).clusters, 4u);
}

// Steps of which each reads the one before twice: a cluster each, and one kernel together.
std::string Steps(int count, int64_t elements) {
  std::string text = fmt::format("graph main(%v0: f32[{}]) -> (%v{}) {{\n", elements, count);
  for (int i = 0; i < count; ++i) {
    text += fmt::format("  %t{0} = abs %v{0} : f32[{1}] \"abs{0}\"\n", i, elements);
    text += fmt::format("  %v{0} = mul %t{1}, %v{1} : f32[{2}] \"step{1}\"\n", i + 1, i, elements);
  }
  return text + "}\n";
}

std::string FusionOf(const Placed& placed) {
  for (const program::Record& record : placed.state.program.records) {
    if (record.kind == "placement" && record.subject == "fusion") return record.text;
  }
  return "none";
}

// Part by part the far device wins what the transfers cost; as one kernel, which goes through
// memory once, the work is too small for them.
TEST(PlaceFused, OneKernelIsPlacedByItsOwnCost) {
  Placed few, many;
  ASSERT_TRUE(Place(Steps(2, 300000), TwoDevices(), {}, &few).ok());
  ASSERT_EQ(few.plan->item_names.size(), 1u);
  EXPECT_THAT(few.plan->item_nodes[0], ::testing::ElementsAre("abs0", "step0", "abs1", "step1"));
  EXPECT_EQ(few.DeviceOf("step1"), "cpu:0");
  EXPECT_THAT(FusionOf(few), HasSubstr("2 clusters became 1 by fusion and were placed once more: "
                                       "1 moved, 300.5 us against "));
  EXPECT_TRUE(few.state.segments.empty());
  EXPECT_EQ(few.state.module.graphs.size(), 1u);
  // Three times the arithmetic on the same bytes is worth it.
  ASSERT_TRUE(Place(Steps(6, 300000), TwoDevices(), {}, &many).ok());
  ASSERT_EQ(many.plan->item_names.size(), 1u);
  EXPECT_EQ(many.DeviceOf("step1"), "cpu:1");
  EXPECT_THAT(FusionOf(many), HasSubstr("6 clusters became 1 by fusion and were placed once more: "
                                        "0 moved, "));
}

TEST(PlaceFused, WishesStayApartAndOneDeviceIsPlacedOnce) {
  place::Options options;
  options.affinities = {{"*1", "cpu:1", place::Strength::kPrefer}};
  Placed wished, alone;
  ASSERT_TRUE(Place(Steps(2, 300), TwoDevices(), options, &wished).ok());
  EXPECT_EQ(wished.plan->item_names.size(), 2u);
  EXPECT_EQ(FusionOf(wished), "none");
  std::vector<program::Device> devices = TwoDevices();
  devices.pop_back();
  ASSERT_TRUE(Place(Steps(2, 300000), devices, {}, &alone).ok());
  EXPECT_EQ(FusionOf(alone), "none");
}

// What takes time is done once for each way in which a plan or a rival cuts the graph: devices that
// have all of it are one way, whichever they are.
TEST(PlaceFused, EachCutIsFusedOnTrialOnce) {
  Placed uncut, alone, island;
  ASSERT_TRUE(Place(Steps(30, 300000), TwoDevices(), {}, &uncut).ok());
  EXPECT_GT(uncut.plan->rivals.size(), 2u);
  EXPECT_EQ(uncut.state.trial_fusions, 1u);
  std::vector<program::Device> devices = TwoDevices();
  devices.pop_back();
  ASSERT_TRUE(Place(Steps(30, 300000), devices, {}, &alone).ok());
  EXPECT_EQ(alone.state.trial_fusions, 0u);
  // With all on the far device but the island, and with all at home.
  ASSERT_TRUE(Place(kIsland, TwoDevices(), {}, &island).ok());
  EXPECT_EQ(island.state.trial_fusions, 2u);
}

// Steps, and beside them a lone op on much data, which is best at home.
std::string StepsBeside() {
  std::string text = Steps(5, 200000);
  text.replace(text.find("(%v0"), 4, "(%z: f32[2400000], %u: f32[2400000], %v0");
  text.replace(text.find("(%v5"), 4, "(%e, %v5");
  return text.insert(text.find('\n') + 1, "  %e = add %z, %u : f32[2400000] \"beside\"\n");
}

// As five parts the steps win more than the noise on the far device, as one kernel less: that
// island would be pulled back, to a plan that is predicted slower.
TEST(PlaceFused, TheFirstPlanStaysWhereTheSecondIsSlower) {
  Placed placed;
  const Status status = Place(StepsBeside(), TwoDevices(), {}, &placed);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_THAT(FusionOf(placed), HasSubstr("so the first plan stays."));
  for (const char* node : {"step0", "step4"}) EXPECT_EQ(placed.DeviceOf(node), "cpu:1") << node;
  EXPECT_EQ(placed.DeviceOf("beside"), "cpu:0");
  EXPECT_EQ(placed.plan->item_names.size(), 6u);
}

// Whatever is cut in the plan: the times of others are those that they would have as the plan.
TEST(PlaceFused, RivalsAreTimedWithTheirOwnKernels) {
  Placed placed;
  ASSERT_TRUE(Place(StepsBeside(), TwoDevices(), {}, &placed).ok());
  std::set<uint32_t> compared;
  for (const place::Rival& rival : placed.plan->rivals) {
    if (!rival.name.starts_with("all on ")) continue;
    place::Options options;
    place::Plan forced = *placed.plan;
    for (size_t i = 0; i < rival.devices.size(); ++i) {
      forced.decisions[i].device = rival.devices[i];
    }
    options.previous_plan = place::FormatPlan(forced);
    options.keeps_previous = true;
    Placed alone;
    ASSERT_TRUE(Place(StepsBeside(), TwoDevices(), options, &alone).ok());
    EXPECT_EQ(alone.plan->item_names.size(), 2u);
    EXPECT_EQ(alone.plan->winner, rival.name);
    EXPECT_EQ(alone.plan->makespan_seconds, rival.makespan_seconds) << rival.name;
    EXPECT_EQ(alone.plan->additive_seconds, rival.additive_seconds) << rival.name;
    compared.insert(rival.devices[0]);
  }
  EXPECT_EQ(compared.size(), 2u);
}

// Three steps; the middle one was measured to be slow at home, the others to be so on the far
// device. Cut there, each is a kernel; on one device they are one kernel, of which nothing was
// measured, and which goes through memory once.
class CutInTheMiddle : public ::testing::Test {
 protected:
  CutInTheMiddle() {
    place::Options apart;
    apart.affinities = {{"?0", "cpu:1", place::Strength::kPrefer},
                        {"?1", "cpu:0", place::Strength::kPrefer}};
    Placed parts;
    EXPECT_TRUE(Place(kText, TwoDevices(), apart, &parts).ok());
    EXPECT_EQ(parts.plan->item_names.size(), 3u);
    for (size_t i = 0; i < parts.plan->item_names.size(); ++i) {
      const bool is_middle = parts.plan->item_nodes[i].back() == "b1";
      timings_.seconds[{is_middle ? 0 : 1, parts.plan->item_keys[i]}] = 2e-3;
      timings_.seconds[{is_middle ? 1 : 0, parts.plan->item_keys[i]}] = 1e-4;
    }
    EXPECT_EQ(timings_.seconds.size(), 4u);  // the outer two are equal work
    place::Options together;
    together.affinities = {{"*", "cpu:0", place::Strength::kRequire}};
    Placed whole;
    EXPECT_TRUE(Place(kText, TwoDevices(), together, &whole).ok());
    EXPECT_EQ(whole.plan->item_keys.size(), 1u);
    timings_.seconds[{0, whole.plan->item_keys[0]}] = 1e-4;
  }

  static constexpr std::string_view kText = R"(graph main(%x: f32[300000]) -> (%f) {
  %a = abs %x : f32[300000] "a0"
  %b = mul %a, %x : f32[300000] "b0"
  %c = exp %b : f32[300000] "a1"
  %d = mul %c, %b : f32[300000] "b1"
  %e = abs %d : f32[300000] "a2"
  %f = mul %e, %d : f32[300000] "b2"
}
)";
  FixedTimings timings_;
};

TEST_F(CutInTheMiddle, ASingleDeviceWinsByTheKernelThatItHas) {
  Placed placed;
  ASSERT_TRUE(Place(kText, TwoDevices(), {}, &placed, &timings_).ok());
  ASSERT_EQ(placed.plan->item_names.size(), 1u);
  EXPECT_EQ(placed.DeviceOf("b1"), "cpu:0");
  EXPECT_EQ(placed.plan->winner, "all on 'cpu:0'");
  EXPECT_THAT(FusionOf(placed),
              HasSubstr("Uncut, 3 clusters became 1 and were placed once more: "));
  // A plan that has to stay does.
  place::Options options;
  options.affinities = {{"?0", "cpu:0", place::Strength::kRequire},
                        {"?1", "cpu:1", place::Strength::kRequire}};
  Placed cut;
  ASSERT_TRUE(Place(kText, TwoDevices(), options, &cut, &timings_).ok());
  EXPECT_EQ(cut.DeviceOf("b0"), "cpu:0");
  EXPECT_EQ(cut.DeviceOf("b1"), "cpu:1");
}

// What only the interpreter has stays a cluster of its own, also where a kernel has its name.
TEST(PlaceFused, InterpretedNodesStayApart) {
  Placed placed;
  ASSERT_TRUE(Place(R"(graph main(%x: f32[8, 4]) -> (%d) {
  %a = cast %x {dtype = f64} : f64[8, 4] "odd"
  %b = mul %a, %a : f64[8, 4] "odd"
  %c = rem %b, %a : f64[8, 4] "odd"
  %d = cast %c {dtype = f32} : f32[8, 4] "odd"
}
)",
                    TwoDevices(), {}, &placed)
                  .ok());
  size_t alone = 0;
  for (size_t i = 0; i < placed.plan->item_nodes.size(); ++i) {
    if (placed.plan->costs[i][1].reason != place::Reason::kOp) continue;
    EXPECT_EQ(placed.plan->item_nodes[i].size(), 1u);
    ++alone;
  }
  EXPECT_EQ(alone, 1u);
}

}  // namespace
}  // namespace halyard::pipeline
