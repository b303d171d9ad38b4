// SPDX-License-Identifier: Apache-2.0
// Whole plans: what must hold for every problem, and the cases that other runtimes get wrong.
#include "compiler/place/solve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "compiler/place/makespan.h"
#include "compiler/place/search.h"
#include "compiler/place/stream.h"
#include "tests/compiler/place/random_problem.h"

namespace halyard::place {
namespace {

using ::testing::HasSubstr;

std::vector<uint32_t> DevicesOf(const Plan& plan) {
  std::vector<uint32_t> at;
  for (const Decision& decision : plan.decisions) at.push_back(decision.device);
  return at;
}

Plan SolveOk(const Problem& problem) {
  auto plan = Solve(problem);
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  return plan.ok() ? std::move(plan).value() : Plan();
}

double BestSingle(const Plan& plan) {
  double best = std::numeric_limits<double>::infinity();
  for (const Rival& rival : plan.rivals) {
    const bool is_single = rival.name.find(" on '") != std::string::npos;
    if (is_single && rival.is_feasible) best = std::min(best, rival.makespan_seconds);
  }
  return best;
}

Item MakeItem(std::string name, std::vector<double> microseconds) {
  Item item;
  item.name = std::move(name);
  item.key = HashString(item.name);
  for (const double us : microseconds) {
    Cost cost;
    cost.seconds = std::abs(us) * 1e-6;
    cost.sigma = 0.02;
    cost.source = Source::kMeasured;
    if (us < 0) cost.reason = Reason::kOp;  // what it would take if it could
    item.costs.push_back(cost);
  }
  return item;
}

// A chain: input -> item 0 -> item 1 -> ... -> output, every value of `bytes`.
Problem MakeChain(const Machine& machine, std::vector<Item> items, int64_t bytes) {
  Problem problem;
  problem.machine = machine;
  problem.items = std::move(items);
  const auto count = static_cast<uint32_t>(problem.items.size());
  for (uint32_t i = 0; i <= count; ++i) {
    Tensor tensor;
    tensor.name = fmt::format("value{}", i);
    tensor.bytes = bytes;
    tensor.producer = i == 0 ? kNone : i - 1;
    if (i < count) tensor.consumers = {i};
    tensor.is_output = i == count;
    problem.tensors.push_back(std::move(tensor));
  }
  return problem;
}

TEST(Solve, PlansHoldWhatTheyPromiseOnRandomProblems) {
  std::mt19937 random(61);
  for (int round = 0; round < 60; ++round) {
    RandomShape shape;
    shape.devices = 2 + round % 7;
    shape.items = 5 + round % 25;
    Problem problem = MakeRandomProblem(random, shape);
    problem.hysteresis = round % 2 == 0;
    const Plan plan = SolveOk(problem);
    const std::vector<uint32_t> at = DevicesOf(plan);
    ASSERT_NEAR(plan.additive_seconds, AdditiveByDefinition(problem, at), 1e-9);
    // Never predicted slower than the best single device.
    EXPECT_LE(plan.makespan_seconds, BestSingle(plan) * (1 + 1e-9));
    // The simulated schedule is no longer than one after the other, and no shorter than what the
    // busiest device does.
    EXPECT_LE(plan.makespan_seconds, plan.additive_seconds * (1 + 1e-9));
    for (const DeviceLoad& load : plan.devices) {
      EXPECT_GE(plan.makespan_seconds, load.busy_seconds - 1e-10);
    }
    double transfers = 0, busy = 0;
    for (const Transfer& transfer : plan.transfers) transfers += transfer.seconds;
    for (const DeviceLoad& load : plan.devices) busy += load.busy_seconds;
    EXPECT_NEAR(transfers + busy, plan.additive_seconds, 1e-9);
    for (size_t i = 0; i < at.size(); ++i) {
      EXPECT_TRUE(problem.items[i].costs[at[i]].feasible());
      // With one objective, forcing an item elsewhere cannot win against a proven optimum.
      if (plan.is_optimal) {
        EXPECT_GE(plan.decisions[i].margin_seconds, -1e-10);
      }
    }
  }
}

TEST(Solve, TheSameProblemGivesTheSameBytes) {
  std::mt19937 random(62);
  for (int round = 0; round < 12; ++round) {
    RandomShape shape;
    shape.devices = 2 + round % 7;
    shape.items = 30;
    shape.weights = true;
    Problem problem = MakeRandomProblem(random, shape);
    problem.hysteresis = true;
    const std::string first = FormatPlan(SolveOk(problem));
    EXPECT_EQ(FormatPlan(SolveOk(problem)), first);
    // And the text is the plan.
    auto parsed = ParsePlan(first);
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    EXPECT_EQ(FormatPlan(*parsed), first);
  }
}

TEST(Solve, AnotherDeviceNeverWorsensWhatRunsNow) {
  std::mt19937 random(63);
  for (int round = 0; round < 60; ++round) {
    RandomShape shape;
    shape.devices = 3;
    shape.items = 12;
    Problem more = MakeRandomProblem(random, shape);
    Problem fewer = more;
    fewer.machine.devices.pop_back();  // its memory and links stay, nobody works there
    for (Item& item : fewer.items) item.costs.pop_back();
    const Plan before = SolveOk(fewer);
    more.previous = DevicesOf(before);
    for (const bool hysteresis : {false, true}) {
      more.hysteresis = hysteresis;
      EXPECT_LE(SolveOk(more).makespan_seconds, before.makespan_seconds * (1 + 1e-9));
    }
  }
}

// Brute force over the makespan with two devices: how far the plan is from the best schedule.
TEST(Solve, IsNearTheBestScheduleOfTwoDevices) {
  std::mt19937 random(64);
  int optimal = 0;
  double worst = 0;
  constexpr int kRounds = 80;
  for (int round = 0; round < kRounds; ++round) {
    RandomShape shape;
    shape.items = 9;
    const Problem problem = MakeRandomProblem(random, shape);
    const Plan plan = SolveOk(problem);
    auto core = BuildCore(problem, {}, nullptr);
    ASSERT_TRUE(core.ok());
    const Simulator simulator(problem, *core);
    Ticks best = kNever;
    ForAllAssignments(shape.items, 2, [&](const std::vector<uint32_t>& at) {
      best = std::min(best, simulator.Makespan(at));
    });
    const double gap = plan.makespan_seconds / ToSeconds(best) - 1;
    ASSERT_GE(gap, -1e-9);
    optimal += gap < 1e-9;
    worst = std::max(worst, gap);
  }
  std::printf("makespan of two devices: %d of %d optimal, worst gap %.2f %%\n", optimal, kRounds,
              100 * worst);
  EXPECT_GE(optimal, kRounds * 85 / 100);
  EXPECT_LE(worst, 0.25);
}

// What no plan can do is said by all assignments that share their beginnings: the same as one by
// one, with limits that bind and with weights that stream.
TEST(LeastOfAll, EqualsAllAssignmentsOneByOne) {
  std::mt19937 random(65);
  int limited = 0, streamed = 0;
  for (int round = 0; round < 60; ++round) {
    RandomShape shape;
    shape.items = 7;
    shape.devices = round % 3 == 0 ? 3 : 2;
    shape.weights = round % 2 == 1;
    Problem problem = MakeRandomProblem(random, shape);
    if (shape.weights) problem.memory_caps = {0, 4 << 20, 0};
    problem.memory_caps.resize(shape.weights ? problem.machine.memories.size() : 0);
    if (round % 4 == 1) problem = StreamWeights(problem, 1 + round / 4 % 2);
    auto core = BuildCore(problem, {}, nullptr);
    ASSERT_TRUE(core.ok());
    const Simulator simulator(problem, *core);
    Ticks best = kNever, free = kNever;
    std::vector<std::vector<uint32_t>> choices(shape.items);
    for (uint32_t i = 0; i < shape.items; ++i) {
      for (uint32_t d = 0; d < shape.devices; ++d) {
        if (core->CostOf(i, d) < kNever) choices[i].push_back(d);
      }
    }
    ForAllAssignments(shape.items, shape.devices, [&](const std::vector<uint32_t>& at) {
      const Ticks makespan = simulator.Makespan(at);
      free = std::min(free, makespan);
      if (makespan < best && simulator.Excess(at) == 0) best = makespan;
    });
    uint64_t tried = 0;
    EXPECT_EQ(simulator.LeastOfAll(choices, kNever, &tried), best) << "round " << round;
    EXPECT_EQ(simulator.LeastOfAll(choices, best, &tried), best);
    EXPECT_EQ(simulator.LeastOfAll(choices, best / 2, &tried), best / 2);
    EXPECT_GT(tried, shape.items);
    limited += best > free;
    streamed += problem.items[0].streams;
  }
  EXPECT_GT(limited, 3);
  EXPECT_GT(streamed, 3);
}

// A lone op that the GPU lacks, amid many that are much faster there: two copies are paid, the rest
// stays, and the plan says what the kernel would save.
TEST(Replay, ALoneUnsupportedOpIsAnIslandWithAPrice) {
  std::vector<Item> items;
  for (int i = 0; i < 10; ++i) items.push_back(MakeItem(fmt::format("conv{}", i), {4000, 100}));
  items[5] = MakeItem("cubic_resize", {400, -30});
  const Problem problem = MakeChain(MakeMachine(2), std::move(items), 1 << 20);
  const Plan plan = SolveOk(problem);
  EXPECT_EQ(DevicesOf(plan), (std::vector<uint32_t>{1, 1, 1, 1, 1, 0, 1, 1, 1, 1}));
  EXPECT_TRUE(plan.is_optimal);
  EXPECT_EQ(plan.decisions[5].decided_by, DecidedBy::kOnlyFeasible);
  ASSERT_EQ(plan.decisions[5].missing.size(), 1u);
  const Missing& missing = plan.decisions[5].missing[0];
  EXPECT_EQ(missing.device, 1u);
  // 370 us of compute and both copies, and nothing else.
  const TransferModel model(problem.machine);
  const double copies =
      model.Estimate(1, 0, 1 << 20).seconds() + model.Estimate(0, 1, 1 << 20).seconds();
  EXPECT_NEAR(missing.seconds, 370e-6 + copies, 1e-9);
  EXPECT_NEAR(plan.decisions[5].transfer_seconds, copies, 1e-9);
  // The neighbours' margins name the rival and are exact.
  EXPECT_TRUE(plan.decisions[3].margin_is_exact);
  EXPECT_EQ(plan.decisions[3].rival, 0u);
  EXPECT_GT(plan.decisions[3].margin_seconds, 3.9e-3);
}

// A missing kernel in every layer: so many copies that the CPU alone is better. The greedy rule of
// other runtimes takes the GPU wherever it can.
TEST(Replay, AMissingKernelInEveryLayerMovesTheWholeModel) {
  std::vector<Item> items;
  for (int i = 0; i < 24; ++i) {
    items.push_back(i % 2 == 0 ? MakeItem(fmt::format("matmul{}", i), {120, 40})
                               : MakeItem(fmt::format("q5{}", i), {30, -10}));
  }
  const Problem problem = MakeChain(MakeMachine(2), std::move(items), 1 << 18);
  const Plan plan = SolveOk(problem);
  EXPECT_EQ(DevicesOf(plan), std::vector<uint32_t>(24, 0));
  EXPECT_TRUE(plan.transfers.empty());
  const auto greedy = std::find_if(plan.rivals.begin(), plan.rivals.end(),
                                   [](const Rival& r) { return r.name.starts_with("greedy"); });
  ASSERT_NE(greedy, plan.rivals.end());
  EXPECT_GT(greedy->makespan_seconds, plan.makespan_seconds * 1.15);
}

// Shape arithmetic: tiny values, one host op after the other. It stays on the host however fast the
// GPU is, and the GPU's work does not wait for more than it must.
TEST(Replay, AShapeSubgraphStaysOnTheHost) {
  Problem problem;
  problem.machine = MakeMachine(2);
  for (int i = 0; i < 6; ++i) {
    problem.items.push_back(MakeItem(fmt::format("shape{}", i), {0.2, 12}));
  }
  problem.items.push_back(MakeItem("conv", {50000, 500}));
  problem.items.push_back(MakeItem("resize", {5000, 80}));
  for (uint32_t i = 0; i < 8; ++i) {
    Tensor tensor;
    tensor.name = fmt::format("value{}", i);
    tensor.bytes = i < 6 ? 32 : 4 << 20;
    tensor.producer = i;
    if (i < 5) tensor.consumers = {i + 1};
    if (i == 5 || i == 6) tensor.consumers = {7};
    tensor.is_output = i == 7;
    problem.tensors.push_back(tensor);
  }
  const Plan plan = SolveOk(problem);
  EXPECT_EQ(DevicesOf(plan), (std::vector<uint32_t>{0, 0, 0, 0, 0, 0, 1, 1}));
}

// A loop whose body ping-pongs when it is cut: as one item it is on one device.
TEST(Replay, ALoopIsNotCutWhenEachIterationWouldCopy) {
  std::vector<Item> items;
  items.push_back(MakeItem("before", {2000, 100}));
  for (int i = 0; i < 3; ++i) {
    // The middle of the body is much better on the CPU, but not by two copies per iteration.
    items.push_back(i == 1 ? MakeItem("body1", {5, 30})
                           : MakeItem(fmt::format("body{}", i), {400, 12}));
    items.back().group = 0;
    items.back().executions = 100;
  }
  items.push_back(MakeItem("after", {2000, 100}));
  Problem problem = MakeChain(MakeMachine(2), std::move(items), 1 << 18);
  for (uint32_t i = 2; i <= 3; ++i) problem.tensors[i].executions = 100;
  EXPECT_EQ(DevicesOf(SolveOk(problem)), std::vector<uint32_t>(5, 1));
  // With a body that gains more than the copies, it is opened.
  problem.items[2].costs[0].seconds = 20e-6;
  problem.items[2].costs[1].seconds = 3000e-6;
  const Plan opened = SolveOk(problem);
  EXPECT_EQ(DevicesOf(opened), (std::vector<uint32_t>{1, 1, 0, 1, 1}));
}

TEST(Replay, ALoopThatNoDeviceRunsWholeIsOpened) {
  std::vector<Item> items;
  items.push_back(MakeItem("body0", {-40, 12}));
  items.push_back(MakeItem("body1", {5, -30}));
  for (Item& item : items) {
    item.group = 0;
    item.executions = 10;
  }
  const Problem problem = MakeChain(MakeMachine(2), std::move(items), 1024);
  EXPECT_EQ(DevicesOf(SolveOk(problem)), (std::vector<uint32_t>{1, 0}));
}

// A huge table on the host: the gather is CPU work because the table does not fit the GPU.
TEST(Replay, AnEmbeddingThatDoesNotFitStaysOnTheCpu) {
  std::vector<Item> items;
  items.push_back(MakeItem("embedding", {60, 5}));
  for (int i = 0; i < 8; ++i) items.push_back(MakeItem(fmt::format("layer{}", i), {3000, 90}));
  Problem problem = MakeChain(MakeMachine(2), std::move(items), 1 << 18);
  problem.weights.push_back({int64_t{4} << 30});
  problem.items[0].weights = {0};
  for (uint32_t i = 1; i <= 8; ++i) {
    problem.weights.push_back({16 << 20});
    problem.items[i].weights = {i};
  }
  // Without a cap the GPU takes all.
  EXPECT_EQ(DevicesOf(SolveOk(problem)), std::vector<uint32_t>(9, 1));
  problem.memory_caps = {0, int64_t{1} << 30};
  const Plan plan = SolveOk(problem);
  EXPECT_EQ(DevicesOf(plan), (std::vector<uint32_t>{0, 1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_GT(plan.memory_price_seconds, 0);
  EXPECT_LE(plan.memory_rounds, 8u);
  EXPECT_LE(plan.memories[1].weight_bytes + plan.memories[1].activation_bytes, int64_t{1} << 30);
  // The single-device plan is a rival that says why it is none.
  const auto on_gpu = std::find_if(plan.rivals.begin(), plan.rivals.end(),
                                   [](const Rival& r) { return r.name == "all on 'gpu:0'"; });
  ASSERT_NE(on_gpu, plan.rivals.end());
  EXPECT_FALSE(on_gpu->is_feasible);
  EXPECT_THAT(on_gpu->reason, HasSubstr("memory 'gpu:0' takes 4.1 GiB for weights"));
}

// Cuts that make two partitions depend on each other both ways are legal.
TEST(Replay, PartitionsMayDependOnEachOtherBothWays) {
  std::vector<Item> items;
  for (int i = 0; i < 6; ++i) {
    items.push_back(i % 2 == 0 ? MakeItem(fmt::format("gpu{}", i), {9000, 100})
                               : MakeItem(fmt::format("cpu{}", i), {100, 9000}));
  }
  const Problem problem = MakeChain(MakeMachine(2), std::move(items), 4096);
  EXPECT_EQ(DevicesOf(SolveOk(problem)), (std::vector<uint32_t>{1, 0, 1, 0, 1, 0}));
}

// Two branches of equal cost: the additive objective sees nothing to win, the simulation does.
TEST(Replay, ParallelBranchesAreSpreadWhereTheScheduleGains) {
  Problem problem;
  problem.machine = MakeMachine(3, true);
  problem.items = {MakeItem("split", {900, 10, 10}), MakeItem("left", {20000, 2000, 2000}),
                   MakeItem("right", {20000, 2000, 2000}), MakeItem("join", {900, 10, 10})};
  const std::vector<std::vector<uint32_t>> readers = {{1, 2}, {3}, {3}, {}};
  for (uint32_t i = 0; i < 4; ++i) {
    problem.tensors.push_back({fmt::format("value{}", i), 1 << 16, i, readers[i], i == 3, 1});
  }
  const Plan plan = SolveOk(problem);
  EXPECT_NE(plan.decisions[1].device, plan.decisions[2].device);
  EXPECT_LT(plan.makespan_seconds, 2.3e-3);
  EXPECT_LT(plan.makespan_seconds, BestSingle(plan) * 0.6);
}

TEST(Hysteresis, AnIslandThatWinsLessThanTheNoiseIsPulledBack) {
  std::vector<Item> items;
  for (int i = 0; i < 5; ++i) items.push_back(MakeItem(fmt::format("layer{}", i), {50000, 1000}));
  // 190 us are won, 125 us of them paid for the way.
  items[2] = MakeItem("island", {810, 1000});
  Problem problem = MakeChain(MakeMachine(2), std::move(items), 1024);
  EXPECT_EQ(DevicesOf(SolveOk(problem))[2], 0u);
  for (Cost& cost : problem.items[2].costs) cost.sigma = 0.3;
  const Plan plan = SolveOk(problem);
  EXPECT_EQ(plan.decisions[2].device, 1u);
  EXPECT_EQ(plan.decisions[2].decided_by, DecidedBy::kHysteresis);
  problem.hysteresis = false;
  EXPECT_EQ(SolveOk(problem).decisions[2].device, 0u);
}

// Costs of one class err alike: what estimates promise from a second device has to be a tenth.
// 'small' beside the table would spare the device some microseconds and cost a second crossing,
// which the simulation overlaps with the first.
TEST(Hysteresis, ACrossingThatWinsLessThanTheNoiseIsSaved) {
  std::vector<Item> items = {MakeItem("table", {5, -1}), MakeItem("small", {1, 19}),
                             MakeItem("large", {4000, 400})};
  Problem problem = MakeChain(MakeMachine(2), std::move(items), 4096);
  problem.tensors[1].consumers = {1, 2};
  for (const bool hysteresis : {true, false}) {
    problem.hysteresis = hysteresis;
    const Plan plan = SolveOk(problem);
    EXPECT_EQ(plan.decisions[2].device, 1u);
    EXPECT_EQ(plan.decisions[1].device, hysteresis ? 1u : 0u);
  }
}

TEST(Hysteresis, EstimatesLeaveOneDeviceOnlyForATenth) {
  std::vector<Item> items;
  for (int i = 0; i < 5; ++i) items.push_back(MakeItem(fmt::format("layer{}", i), {50000, 1000}));
  items[2] = MakeItem("island", {810, 1000});
  Problem problem = MakeChain(MakeMachine(2), std::move(items), 1024);
  EXPECT_EQ(DevicesOf(SolveOk(problem))[2], 0u);
  problem.items[2].costs[0].source = Source::kFitted;
  const Plan plan = SolveOk(problem);
  EXPECT_EQ(plan.decisions[2].device, 1u);
  EXPECT_EQ(plan.winner, "all on 'gpu:0'");
  problem.items[2].costs[0].seconds = 60e-6;
  problem.items[2].costs[1].seconds = 1800e-6;
  EXPECT_EQ(DevicesOf(SolveOk(problem))[2], 0u);
  problem.items[2].costs[0].seconds = 810e-6;
  problem.items[2].costs[1].seconds = 1000e-6;
  problem.hysteresis = false;
  EXPECT_EQ(DevicesOf(SolveOk(problem))[2], 0u);
}

// What leaves one device for a tenth only is a plan over several: of plans that have one device
// each the faster is taken, however little it wins, and one that needs help elsewhere is such a
// plan.
TEST(Hysteresis, OfSingleDevicesTheFasterIsTakenByEstimatesToo) {
  std::vector<Item> items;
  for (int i = 0; i < 5; ++i) items.push_back(MakeItem(fmt::format("layer{}", i), {1000, 1001}));
  Problem problem = MakeChain(MakeMachine(2), std::move(items), 1024);
  for (Item& item : problem.items) item.costs[0].source = item.costs[1].source = Source::kFitted;
  const Plan plan = SolveOk(problem);
  EXPECT_EQ(plan.winner, "all on 'cpu:0'");
  // The first item is the CPU's alone, and so little that the rest may be anywhere.
  problem.items[0].costs[0].seconds = 0.08;
  problem.items[0].costs[1].reason = Reason::kOp;
  for (size_t i = 1; i < problem.items.size(); ++i) problem.items[i].costs[1].seconds = 9e-4;
  EXPECT_EQ(SolveOk(problem).winner, "all on 'cpu:0'");
  for (size_t i = 1; i < problem.items.size(); ++i) problem.items[i].costs[0].seconds = 0.01;
  EXPECT_EQ(SolveOk(problem).winner, "all that can be on 'gpu:0'");
}

// The same on random problems: no one device is faster than what its estimates led to.
TEST(Hysteresis, EstimatesTakeNothingSlowerThanOneDevice) {
  std::mt19937 random(65);
  for (int round = 0; round < 80; ++round) {
    RandomShape shape;
    shape.devices = 2 + round % 4;
    shape.items = 4 + round % 12;
    Problem problem = MakeRandomProblem(random, shape);
    problem.hysteresis = true;
    // Devices of almost one speed, each of which can do all.
    std::vector<double> factors;
    for (uint32_t d = 0; d < shape.devices; ++d) factors.push_back(20 + 0.1 * (random() % 20));
    for (Item& item : problem.items) {
      const Cost first = item.costs[0];
      for (size_t d = 0; d < item.costs.size(); ++d) {
        item.costs[d] = first;
        item.costs[d].seconds *= factors[d];
        item.costs[d].source = Source::kFitted;
      }
    }
    const Plan plan = SolveOk(problem);
    EXPECT_LE(plan.makespan_seconds, BestSingle(plan) * (1 + 1e-9)) << round << plan.winner;
    // Where one device is the plan, no decision is told as another start's.
    for (const Decision& decision : plan.decisions) {
      if (plan.winner.starts_with("all on '")) {
        EXPECT_NE(decision.decided_by, DecidedBy::kEarliestFinish);
        EXPECT_NE(decision.decided_by, DecidedBy::kGreedy);
      }
    }
  }
}

// A tenth is asked of several devices where something is estimated, also where programs were timed
// over their borders; a border that costs what it does not seem to keeps islands away by itself.
TEST(Hysteresis, EstimatesHaveToWinATenth) {
  const auto island_at = [](double home_us, Source source, double crossing) {
    std::vector<Item> items;
    for (int i = 0; i < 5; ++i) items.push_back(MakeItem(fmt::format("layer{}", i), {50000, 1000}));
    items[2] = MakeItem("island", {home_us, 1000});
    items[2].costs[0].source = source;
    Problem problem = MakeChain(MakeMachine(2), std::move(items), 1024);
    for (Link& link : problem.machine.links)
      link.crossing_seconds = {crossing, Source::kMeasured, 0.05};
    return DevicesOf(SolveOk(problem))[2];
  };
  EXPECT_EQ(island_at(500, Source::kFitted, 6e-5), 1u);  // 7 % of the whole, the way paid
  EXPECT_EQ(island_at(500, Source::kMeasured, 6e-5), 0u);
  EXPECT_EQ(island_at(200, Source::kFitted, 6e-5), 0u);  // 13 %
  EXPECT_EQ(island_at(200, Source::kFitted, 3e-4), 1u);
}

// What crossings cost is in the costs already: only how far that may be off is noise.
TEST(Hysteresis, AMeasuredCrossingIsNoNoise) {
  std::vector<Item> items;
  for (int i = 0; i < 5; ++i) items.push_back(MakeItem(fmt::format("layer{}", i), {50000, 1000}));
  items[2] = MakeItem("island", {100, 1000});
  Problem problem = MakeChain(MakeMachine(2), std::move(items), 1024);
  // 300 of 900 us are won, less than two crossings cost.
  for (Link& link : problem.machine.links) link.crossing_seconds = {3e-4, Source::kMeasured, 0.02};
  EXPECT_EQ(DevicesOf(SolveOk(problem))[2], 0u);
  for (Link& link : problem.machine.links) link.crossing_seconds.sigma = 1;
  EXPECT_EQ(DevicesOf(SolveOk(problem))[2], 1u);
}

// The last kernel stays where it is fast: nothing at home waits for an output but the caller.
TEST(Replay, AnOutputIsNoCrossing) {
  Problem problem =
      MakeChain(MakeMachine(2), {MakeItem("a", {900, 100}), MakeItem("b", {900, 100})}, 1024);
  const double before = SolveOk(problem).makespan_seconds;
  for (Link& link : problem.machine.links) link.crossing_seconds = {1e-3, Source::kMeasured, 0.05};
  const Plan plan = SolveOk(problem);
  EXPECT_EQ(DevicesOf(plan), std::vector<uint32_t>(2, 1));
  EXPECT_EQ(plan.makespan_seconds, before);
}

TEST(Hysteresis, ThePlanThatRunsStaysUnlessAnotherIsBetterByTheNoise) {
  std::vector<Item> items;
  for (int i = 0; i < 5; ++i) items.push_back(MakeItem(fmt::format("layer{}", i), {1000, 990}));
  Problem problem = MakeChain(MakeMachine(2), std::move(items), 1024);
  problem.previous = std::vector<uint32_t>(5, 0);
  const Plan kept = SolveOk(problem);
  EXPECT_EQ(DevicesOf(kept), problem.previous);
  for (Item& item : problem.items) item.costs[1].seconds = 100e-6;
  EXPECT_EQ(DevicesOf(SolveOk(problem)), std::vector<uint32_t>(5, 1));
}

TEST(Wishes, AreObeyedAndHaveAPrice) {
  std::vector<Item> items;
  for (int i = 0; i < 6; ++i) items.push_back(MakeItem(fmt::format("layer{}", i), {5000, 100}));
  Problem problem = MakeChain(MakeMachine(2), std::move(items), 1 << 16);
  problem.affinities = {"layer2 require 'cpu:0'"};
  problem.constraints = {{2, 0, Strength::kRequire, 0}};
  const Plan plan = SolveOk(problem);
  EXPECT_EQ(DevicesOf(plan), (std::vector<uint32_t>{1, 1, 0, 1, 1, 1}));
  EXPECT_EQ(plan.decisions[2].decided_by, DecidedBy::kUser);
  ASSERT_EQ(plan.prices.size(), 1u);
  EXPECT_EQ(plan.prices[0].items, 1u);
  EXPECT_GT(plan.prices[0].seconds, 4.9e-3);
  EXPECT_EQ(plan.costs[2][1].reason, Reason::kForbidden);
  EXPECT_TRUE(plan.unpriced.empty());
  // Each price is a solve of its own: those of the first 16, and it is said of the others.
  Problem many = problem;
  for (int i = 0; i < 19; ++i) many.affinities.push_back(fmt::format("layer{} prefer 'cpu:1'", i));
  const Plan partly = SolveOk(many);
  EXPECT_EQ(partly.prices.size(), 16u);
  ASSERT_EQ(partly.unpriced.size(), 4u);
  EXPECT_EQ(partly.unpriced[0].affinity, "layer15 prefer 'cpu:1'");
  EXPECT_EQ(partly.unpriced[3].affinity, "layer18 prefer 'cpu:1'");
  const Result<Plan> parsed = ParsePlan(FormatPlan(partly));
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(*parsed, partly);
  // One without which nothing is left is not one of those behind: the second wish takes a device
  // away that only the first one leaves open.
  Problem needed = problem;
  needed.items[2].costs[0].reason = Reason::kLastResort;
  needed.affinities = {"layer2=cpu:0", "layer2=forbid:cpu:1"};
  needed.constraints = {{2, 0, Strength::kRequire, 0}, {2, 1, Strength::kForbid, 1}};
  const Plan held = SolveOk(needed);
  ASSERT_EQ(held.prices.size(), 1u);
  EXPECT_EQ(held.prices[0].affinity, "layer2=forbid:cpu:1");
  ASSERT_EQ(held.unpriced.size(), 1u);
  EXPECT_EQ(held.unpriced[0].affinity, "layer2=cpu:0");
  EXPECT_THAT(held.unpriced[0].reason,
              testing::HasSubstr("without it there is no plan (The wishes leave no device for"));

  // A preference gives way where it costs too much, and wins where it is nearly free.
  problem.constraints[0].strength = Strength::kPrefer;
  EXPECT_EQ(SolveOk(problem).decisions[2].device, 1u);
  for (Item& item : problem.items) item.costs[0].seconds = 110e-6;
  problem.constraints = {{5, 0, Strength::kPrefer, 0}};
  problem.hysteresis = false;
  EXPECT_EQ(SolveOk(problem).decisions[5].device, 0u);

  problem.constraints = {{2, 1, Strength::kForbid, 0}};
  EXPECT_EQ(SolveOk(problem).decisions[2].device, 0u);
}

TEST(Wishes, ThatContradictAreOneClearError) {
  Problem problem =
      MakeChain(MakeMachine(2), {MakeItem("a", {10, 10}), MakeItem("b", {10, -10})}, 64);
  problem.affinities = {"a*=cpu:0", "?=forbid:cpu:0"};
  const auto message = [&](std::vector<Constraint> constraints) {
    problem.constraints = std::move(constraints);
    const auto plan = Solve(problem);
    EXPECT_FALSE(plan.ok());
    EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
    return plan.status().message();
  };
  EXPECT_EQ(message({{0, 0, Strength::kRequire, 0}, {0, 1, Strength::kRequire, 1}}),
            "'a' is required on 'cpu:0' by the affinity 'a*=cpu:0' and on 'gpu:0' by the affinity "
            "'?=forbid:cpu:0'.");
  EXPECT_EQ(message({{0, 0, Strength::kRequire, 0}, {0, 0, Strength::kForbid, 1}}),
            "'a' is required on 'cpu:0' by the affinity 'a*=cpu:0' and forbidden there by the "
            "affinity '?=forbid:cpu:0'.");
  EXPECT_EQ(message({{1, 1, Strength::kRequire, 0}}),
            "'b' is required on 'gpu:0' by the affinity 'a*=cpu:0', which cannot run it (op).");
  EXPECT_EQ(message({{1, 0, Strength::kForbid, 1}}),
            "The wishes leave no device for 'b'. It is forbidden on 'cpu:0' by the affinity "
            "'?=forbid:cpu:0'. 'gpu:0' cannot run it (op).");
  // A wish that came from no affinity.
  EXPECT_EQ(message({{0, 0, Strength::kRequire}, {0, 0, Strength::kForbid}}),
            "'a' is required on 'cpu:0' and forbidden there.");
  problem.constraints.clear();
  problem.items[1].costs[0].reason = Reason::kShape;
  EXPECT_EQ(Solve(problem).status().code(), StatusCode::kUnimplemented);
}

TEST(LastResort, TakesOnlyWhatNobodyElseCan) {
  Problem problem =
      MakeChain(MakeMachine(2),
                {MakeItem("a", {1, 500}), MakeItem("b", {10, -10}), MakeItem("c", {1, 500})}, 64);
  problem.last_resort = {true, false};
  const Plan plan = SolveOk(problem);
  EXPECT_EQ(DevicesOf(plan), (std::vector<uint32_t>{1, 0, 1}));
  EXPECT_EQ(plan.costs[0][0].reason, Reason::kLastResort);
}

TEST(Memory, TheCapIsObeyedOrTheShortfallIsNamed) {
  std::mt19937 random(71);
  int solvable = 0, solved = 0;
  double worst = 0;
  for (int round = 0; round < 60; ++round) {
    RandomShape shape;
    shape.devices = 3;
    shape.items = 7;
    shape.weights = true;
    Problem problem = MakeRandomProblem(random, shape);
    problem.may_stream = false;
    // Every memory but the host's limited to a part of what the free plan takes there; then all.
    const Plan free = SolveOk(problem);
    problem.memory_caps.assign(problem.machine.memories.size(), 0);
    for (size_t m = round % 2; m < problem.memory_caps.size(); ++m) {
      const MemoryLoad& load = free.memories[m];
      problem.memory_caps[m] =
          std::max<int64_t>(1 << 20, (load.weight_bytes + load.activation_bytes) * 2 / 3);
    }
    auto core = BuildCore(problem, {}, nullptr);
    ASSERT_TRUE(core.ok());
    const Simulator simulator(problem, *core);
    Ticks best = kNever;
    ForAllAssignments(shape.items, shape.devices, [&](const std::vector<uint32_t>& at) {
      if (core->IsFeasible(at) && simulator.Excess(at) == 0) {
        best = std::min(best, simulator.Makespan(at));
      }
    });
    const auto plan = Solve(problem);
    if (best == kNever) {
      ASSERT_FALSE(plan.ok());
      EXPECT_EQ(plan.status().code(), StatusCode::kOutOfMemory);
      EXPECT_THAT(plan.status().message(), HasSubstr("too few"));
      continue;
    }
    ++solvable;
    if (!plan.ok()) {
      EXPECT_EQ(plan.status().code(), StatusCode::kOutOfMemory);
      continue;
    }
    ++solved;
    EXPECT_EQ(simulator.Excess(DevicesOf(*plan)), 0);
    EXPECT_LE(plan->memory_rounds, 8u);
    worst = std::max(worst, plan->makespan_seconds / ToSeconds(best) - 1);
  }
  std::printf(
      "memory caps: %d of %d solvable problems solved, worst gap to the best schedule %.1f %%\n",
      solved, solvable, 100 * worst);
  EXPECT_GE(solvable, 20);
  EXPECT_GE(solved * 100, solvable * 95);
}

// Weights of 8 x 16 MiB, 1.7 ms each over the link, for a GPU with 60 MiB.
Problem MakeLargeModel(double gpu_microseconds) {
  std::vector<Item> items;
  for (int i = 0; i < 8; ++i) {
    items.push_back(MakeItem(fmt::format("layer{}", i), {40000, gpu_microseconds}));
  }
  Problem problem = MakeChain(MakeMachine(2), std::move(items), 1 << 18);
  for (uint32_t i = 0; i < 8; ++i) {
    problem.weights.push_back({16 << 20});
    problem.weights.push_back({1 << 10});
    problem.items[i].weights = {2 * i, 2 * i + 1};
  }
  problem.memory_caps = {0, 60 << 20};
  return problem;
}

TEST(Stream, WeightsThatDoNotFitComeInEachRun) {
  const Plan plan = SolveOk(MakeLargeModel(2000));
  EXPECT_EQ(DevicesOf(plan), std::vector<uint32_t>(8, 1));
  // Two lots of 16 MiB, what is small, and one layer that still fits under seven eighths.
  EXPECT_EQ(plan.memories[1].weight_bytes, (2 << 24) + (1 << 24) + 8 * (1 << 10));
  size_t streaming = 0;
  for (const Decision& decision : plan.decisions) streaming += decision.streams;
  EXPECT_EQ(streaming, 7u);
  // Computing hides the copies.
  EXPECT_NEAR(plan.devices[1].busy_seconds, 8 * 2e-3, 1e-9);
  EXPECT_EQ(FormatPlan(*ParsePlan(FormatPlan(plan))), FormatPlan(plan));
  const auto kept = std::find_if(plan.rivals.begin(), plan.rivals.end(), [](const Rival& r) {
    return r.name == "without streaming weights";
  });
  ASSERT_NE(kept, plan.rivals.end());
  EXPECT_TRUE(kept->is_feasible);  // a part of the layers on the host
  EXPECT_GT(kept->makespan_seconds, plan.makespan_seconds);
}

TEST(Stream, CopiesThatAreSlowerThanComputingAreWhatAnItemCosts) {
  const Problem problem = MakeLargeModel(100);
  const Plan plan = SolveOk(problem);
  EXPECT_EQ(DevicesOf(plan), std::vector<uint32_t>(8, 1));
  const double copy = TransferModel(problem.machine).Estimate(kNone, 1, 16 << 20).copy_seconds;
  EXPECT_NEAR(plan.devices[1].busy_seconds, 7 * copy + 100e-6, 1e-9);
}

TEST(Stream, TheHostComputesWhatItDoesFasterThanTheLinkBrings) {
  Problem problem = MakeLargeModel(100);
  for (Item& item : problem.items) item.costs[0].seconds = 500e-6;
  const Plan plan = SolveOk(problem);
  for (const Decision& decision : plan.decisions) EXPECT_FALSE(decision.streams);
  EXPECT_LE(plan.memories[1].weight_bytes + plan.memories[1].activation_bytes, 60 << 20);
}

TEST(Stream, ACapBelowTwoLotsIsMetWithOneThatNothingOverlaps) {
  Problem problem = MakeLargeModel(2000);
  problem.memory_caps[1] = 20 << 20;
  for (Item& item : problem.items) item.costs[0].reason = Reason::kOp;
  const Plan plan = SolveOk(problem);
  EXPECT_EQ(plan.stream_lots, 1u);
  EXPECT_EQ(plan.memories[1].weight_bytes, (1 << 24) + 8 * (1 << 10));
  const double copy = TransferModel(problem.machine).Estimate(kNone, 1, 16 << 20).copy_seconds;
  EXPECT_NEAR(plan.devices[1].busy_seconds, 8 * (copy + 2e-3), 1e-9);
  EXPECT_EQ(FormatPlan(*ParsePlan(FormatPlan(plan))), FormatPlan(plan));
}

TEST(Stream, SmallLotsOverlapWhereALargeOneHasAllTheMemory) {
  Problem problem = MakeLargeModel(2000);
  for (uint32_t i = 1; i < 8; ++i) problem.weights[2 * i].bytes = 4 << 20;
  problem.memory_caps[1] = 20 << 20;
  for (Item& item : problem.items) item.costs[0].reason = Reason::kOp;
  const Plan plan = SolveOk(problem);
  EXPECT_EQ(plan.stream_lots, 1u);
  const double copy = TransferModel(problem.machine).Estimate(kNone, 1, 16 << 20).copy_seconds;
  EXPECT_NEAR(plan.devices[1].busy_seconds, 8 * 2e-3 + copy, 1e-9);
}

TEST(Stream, ACapBelowOneLotIsRefusedUnlessItMayBeExceeded) {
  // Refused with the shortfall of a plan that keeps all.
  Problem problem = MakeLargeModel(2000);
  problem.memory_caps[1] = 12 << 20;
  for (Item& item : problem.items) item.costs[0].reason = Reason::kOp;
  const auto plan = Solve(problem);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(plan.status().message(), HasSubstr("takes 128.0 MiB for weights"));
  problem.may_exceed = true;
  const Plan least = SolveOk(problem);
  EXPECT_EQ(least.winner, "the least memory");
  EXPECT_EQ(least.memories[1].weight_bytes, (1 << 24) + 8 * (1 << 10));
  // It is the same whatever a cap says that is not met.
  problem.memory_caps[1] = 1;
  EXPECT_EQ(DevicesOf(SolveOk(problem)), DevicesOf(least));
  EXPECT_EQ(SolveOk(problem).memories[1].activation_bytes, least.memories[1].activation_bytes);
}

// Inputs, outputs and what stages transfers stand there for the whole run.
TEST(Memory, WhatStaysCountsBesidesWhatLives) {
  Problem problem =
      MakeChain(MakeMachine(2), {MakeItem("a", {1000, 1}), MakeItem("b", {1000, 1})}, 1 << 20);
  const Plan on_gpu = SolveOk(problem);
  ASSERT_EQ(DevicesOf(on_gpu), (std::vector<uint32_t>{1, 1}));
  // Input and output, each once more staged, and the value between.
  EXPECT_EQ(on_gpu.memories[1].activation_bytes, 5 << 20);
  EXPECT_EQ(on_gpu.memories[0].activation_bytes, 0);  // the caller's business
  problem.memory_caps = {int64_t{1} << 40, 0};
  const Plan limited = SolveOk(problem);
  EXPECT_EQ(limited.memories[0].activation_bytes, 0);
  problem.items[0].costs[1].reason = Reason::kOp;  // the input is at home now, a transfer between
  const Plan split = SolveOk(problem);
  ASSERT_EQ(DevicesOf(split), (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(split.memories[0].activation_bytes, 2 << 20);
  EXPECT_EQ(split.memories[1].activation_bytes, 4 << 20);  // arrives staged, output staged
}

TEST(Hysteresis, APreviousPlanCanBeHeldWhateverItCosts) {
  std::vector<Item> items;
  for (int i = 0; i < 5; ++i) items.push_back(MakeItem(fmt::format("layer{}", i), {1000, 100}));
  Problem problem = MakeChain(MakeMachine(2), std::move(items), 1024);
  problem.previous = {0, 1, 0, 1, 0};
  EXPECT_EQ(DevicesOf(SolveOk(problem)), std::vector<uint32_t>(5, 1));
  problem.keeps_previous = true;
  EXPECT_EQ(DevicesOf(SolveOk(problem)), problem.previous);
  problem.hysteresis = false;
  EXPECT_EQ(DevicesOf(SolveOk(problem)), problem.previous);
}

TEST(Solve, ReportsAHundredsOfItemsWithinItsSteps) {
  std::mt19937 random(81);
  for (const uint32_t devices : {2u, 3u, 8u}) {
    RandomShape shape;
    shape.devices = devices;
    shape.items = 400;
    Problem problem = MakeRandomProblem(random, shape);
    problem.hysteresis = true;
    const Plan plan = SolveOk(problem);
    EXPECT_LE(plan.makespan_seconds, BestSingle(plan) * (1 + 1e-9));
    EXPECT_LE(plan.steps, 20'000'000u);
  }
}

TEST(MatchPrevious, FindsItemsByNameAndKeyAndDevicesByName) {
  Problem problem =
      MakeChain(MakeMachine(3),
                {MakeItem("a", {1, 9, 9}), MakeItem("b", {9, 9, 1}), MakeItem("c", {9, 9, 1})}, 64);
  problem.hysteresis = false;
  Plan plan = SolveOk(problem);
  EXPECT_EQ(MatchPrevious(plan, problem), DevicesOf(plan));
  // Another node in the place of "c" follows its input.
  problem.items[2].name = "d";
  EXPECT_EQ(MatchPrevious(plan, problem)[2], DevicesOf(plan)[1]);
  plan.device_names = {"x", "y", "z"};
  EXPECT_TRUE(MatchPrevious(plan, problem).empty());
}

TEST(MatchPrevious, FindsPartsByTheirNodes) {
  Problem problem =
      MakeChain(MakeMachine(2), {MakeItem("a", {1, 900}), MakeItem("b", {900, 1})}, 64);
  problem.hysteresis = false;
  problem.items[0].nodes = {"a"};
  problem.items[1].nodes = {"b", "c"};
  const Plan plan = SolveOk(problem);
  ASSERT_EQ(DevicesOf(plan), (std::vector<uint32_t>{0, 1}));
  Problem parts = MakeChain(
      MakeMachine(2), {MakeItem("a", {1, 1}), MakeItem("x", {1, 1}), MakeItem("y", {1, 1})}, 64);
  parts.items[0].nodes = {"a"};
  parts.items[1].nodes = {"c"};
  parts.items[2].nodes = {"none", "b"};
  EXPECT_EQ(MatchPrevious(plan, parts), (std::vector<uint32_t>{0, 1, 1}));
}

TEST(PredictTimes, IsWhatThePlanSays) {
  Problem problem =
      MakeChain(MakeMachine(2), {MakeItem("a", {1000, 100}), MakeItem("b", {1000, 100})}, 1024);
  const Plan plan = SolveOk(problem);
  const auto same = PredictTimes(problem, DevicesOf(plan));
  ASSERT_TRUE(same.ok()) << same.status().ToString();
  EXPECT_EQ(same->makespan_seconds, plan.makespan_seconds);
  EXPECT_EQ(same->additive_seconds, plan.additive_seconds);
  const auto apart = PredictTimes(problem, {0, 1});
  ASSERT_TRUE(apart.ok());
  EXPECT_GT(apart->makespan_seconds, same->makespan_seconds);
  problem.items[1].costs[1].reason = Reason::kOp;
  EXPECT_EQ(PredictTimes(problem, {1, 1}).status().code(), StatusCode::kInvalidArgument);
}

TEST(VerifyProblem, NamesWhatIsWrong) {
  const Problem good = MakeChain(MakeMachine(2), {MakeItem("a", {1, 2})}, 64);
  ASSERT_TRUE(VerifyProblem(good).ok());
  const auto message = [&](void (*spoil)(Problem&)) {
    Problem bad = good;
    spoil(bad);
    return VerifyProblem(bad).message();
  };
  EXPECT_EQ(message([](Problem& p) { p.items[0].costs.pop_back(); }),
            "Item 'a' has 1 costs for 2 devices.");
  EXPECT_EQ(message([](Problem& p) { p.tensors[0].consumers = {3}; }),
            "Consumer 3 of tensor 'value0' is out of order; there are 1 items and it must be at "
            "least 0.");
  EXPECT_EQ(message([](Problem& p) { p.machine.links.clear(); }),
            "No link leads from memory 'host' to memory 'gpu:0'.");
  EXPECT_EQ(message([](Problem& p) { p.items[0].weights = {0}; }),
            "Item 'a' has weight 0; there are 0.");
  EXPECT_EQ(message([](Problem& p) { p.previous = {7}; }),
            "The previous plan names device 7; there are 2.");
}

}  // namespace
}  // namespace halyard::place
