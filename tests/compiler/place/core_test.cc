// SPDX-License-Identifier: Apache-2.0
// The core's methods against brute force, and the properties that the additive objective has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/place/core_solve.h"
#include "compiler/place/cut.h"
#include "compiler/place/exact_dp.h"
#include "compiler/place/max_flow.h"
#include "compiler/place/search.h"
#include "compiler/place/solve.h"
#include "tests/compiler/place/random_problem.h"

namespace halyard::place {
namespace {

constexpr double kRounding = 1e-10;  // seconds: picoseconds of up to a hundred terms

Core CoreOf(const Problem& problem) {
  auto core = BuildCore(problem, std::vector<bool>(GroupCount(problem), true), nullptr);
  EXPECT_TRUE(core.ok()) << core.status().ToString();
  return std::move(core).value();
}

TEST(MaxFlow, FindsTheFlowOfASmallGraphAndContinuesIt) {
  // s -> a -> b -> t with a detour a -> t.
  MaxFlow flow(4);
  flow.AddEdge(MaxFlow::kSource, 2, 10);
  flow.AddEdge(2, 3, 4);
  flow.AddEdge(2, MaxFlow::kSink, 3);
  flow.AddEdge(3, MaxFlow::kSink, 9);
  EXPECT_EQ(flow.Run(), 7);
  const MaxFlow::State before = flow.Save();
  flow.AddEdge(MaxFlow::kSource, 3, MaxFlow::kInfinite);
  EXPECT_EQ(flow.Run(), 12);
  flow.Restore(before);
  EXPECT_EQ(flow.Run(), 7);
  flow.AddEdge(2, MaxFlow::kSink, 1);
  EXPECT_EQ(flow.Run(), 8);
}

TEST(MaxFlow, SaysThatTerminalsCannotBeSeparated) {
  MaxFlow flow(3);
  flow.AddEdge(MaxFlow::kSource, 2, MaxFlow::kInfinite);
  flow.AddEdge(2, MaxFlow::kSink, MaxFlow::kInfinite);
  EXPECT_GE(flow.Run(), MaxFlow::kInfinite);
}

TEST(Core, IsTheAdditiveObjectiveByItsDefinition) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    RandomShape shape;
    shape.devices = 2 + round % 3;
    shape.items = 5;
    const Problem problem = MakeRandomProblem(random, shape);
    const Core core = CoreOf(problem);
    ForAllAssignments(shape.items, shape.devices, [&](const Assignment& at) {
      const double truth = AdditiveByDefinition(problem, at);
      if (!std::isfinite(truth)) {
        EXPECT_FALSE(core.IsFeasible(at));
        return;
      }
      ASSERT_NEAR(ToSeconds(core.Additive(at)), truth, kRounding);
    });
  }
}

TEST(Core, MoveDeltaIsTheDifferenceOfTheSums) {
  std::mt19937 random(12);
  for (int round = 0; round < 40; ++round) {
    RandomShape shape;
    shape.devices = 3;
    shape.items = 9;
    shape.infeasible = 0;
    const Core core = CoreOf(MakeRandomProblem(random, shape));
    Assignment at(core.units);
    for (uint32_t& device : at) device = random() % 3;
    for (uint32_t unit = 0; unit < core.units; ++unit) {
      const uint32_t device = random() % 3;
      const Ticks before = core.Additive(at), delta = core.MoveDelta(at, unit, device);
      Assignment moved = at;
      moved[unit] = device;
      ASSERT_EQ(core.Additive(moved), before + delta);
    }
  }
}

TEST(ExactCut, EqualsBruteForceForTwoDevices) {
  std::mt19937 random(21);
  for (int round = 0; round < 220; ++round) {
    RandomShape shape;
    shape.items = round < 200 ? 4 + round % 7 : 12;
    const Problem problem = MakeRandomProblem(random, shape);
    const Core core = CoreOf(problem);
    uint64_t steps = 0;
    const CoreSolution solution = SolveCore(core, {}, &steps);
    EXPECT_EQ(solution.method, Method::kExactCut);
    EXPECT_TRUE(solution.is_optimal);
    ASSERT_NEAR(ToSeconds(core.Additive(solution.at)), BruteForce(problem), kRounding)
        << FormatProblem(problem);
  }
}

// Without a device at home every input and output is a transfer.
TEST(ExactCut, EqualsBruteForceWhereNoDeviceIsAtHome) {
  std::mt19937 random(22);
  for (int round = 0; round < 60; ++round) {
    RandomShape shape;
    shape.items = 7;
    shape.devices = 3;
    Problem problem = MakeRandomProblem(random, shape);
    // Drop the CPU; what only it could do, both can.
    problem.machine.devices.erase(problem.machine.devices.begin());
    for (Item& item : problem.items) {
      item.costs.erase(item.costs.begin());
      if (!item.costs[0].feasible() && !item.costs[1].feasible()) {
        item.costs[0].reason = item.costs[1].reason = Reason::kNone;
      }
    }
    const Core core = CoreOf(problem);
    EXPECT_EQ(core.home, 2u);
    uint64_t steps = 0;
    ASSERT_NEAR(ToSeconds(core.Additive(SolveCore(core, {}, &steps).at)), BruteForce(problem),
                kRounding);
  }
}

TEST(ExactCut, MarginsAreTheCostsOfForcedPlans) {
  std::mt19937 random(23);
  for (int round = 0; round < 40; ++round) {
    RandomShape shape;
    shape.items = 7;
    const Problem problem = MakeRandomProblem(random, shape);
    const Core core = CoreOf(problem);
    const Assignment first(core.units, 0);
    ExpansionCut cut(core, first, 1);
    cut.Solve();
    for (uint32_t unit = 0; unit < core.units; ++unit) {
      for (const uint32_t device : {0u, 1u}) {
        Problem forced = problem;
        forced.items[unit].costs[1 - device].reason = Reason::kForbidden;
        const double truth = BruteForce(forced);
        const auto cost = cut.CostWith(unit, device == 1);
        if (!std::isfinite(truth)) {
          EXPECT_FALSE(cost.has_value());
          continue;
        }
        ASSERT_TRUE(cost.has_value());
        ASSERT_NEAR(ToSeconds(*cost), truth, kRounding);
      }
    }
  }
}

TEST(ExactDp, EqualsBruteForceForThreeAndFourDevices) {
  std::mt19937 random(31);
  for (int round = 0; round < 80; ++round) {
    RandomShape shape;
    shape.devices = 3 + round % 2;
    shape.items = shape.devices == 3 ? 7 : 6;
    const Problem problem = MakeRandomProblem(random, shape);
    const Core core = CoreOf(problem);
    uint64_t steps = 0;
    const auto at = SolveExactDp(core, 1'000'000, &steps);
    ASSERT_TRUE(at.has_value());
    ASSERT_NEAR(ToSeconds(core.Additive(*at)), BruteForce(problem), kRounding)
        << FormatProblem(problem);
  }
}

// Layers of a transformer: three products of one value, what joins them, and two residuals.
Problem MakeLayers(uint32_t devices, uint32_t layers) {
  Problem problem;
  problem.machine = MakeMachine(devices);
  problem.hysteresis = false;
  const auto add_tensor = [&](uint32_t producer) {
    Tensor tensor;
    tensor.name = fmt::format("value{}", problem.tensors.size());
    tensor.bytes = 128 * 384 * 4;
    tensor.producer = producer;
    problem.tensors.push_back(std::move(tensor));
    return static_cast<uint32_t>(problem.tensors.size() - 1);
  };
  const auto add_item = [&](double seconds, const std::vector<uint32_t>& reads) {
    Item item;
    const auto index = static_cast<uint32_t>(problem.items.size());
    item.name = fmt::format("node{}", index);
    for (uint32_t d = 0; d < devices; ++d) {
      Cost cost;
      cost.seconds = seconds * (1 + 0.4 * ((d + index) % devices));  // none is best at all
      cost.sigma = 0.05;
      cost.source = Source::kMeasured;
      item.costs.push_back(std::move(cost));
    }
    problem.items.push_back(std::move(item));
    for (const uint32_t tensor : reads) problem.tensors[tensor].consumers.push_back(index);
    return add_tensor(index);
  };
  uint32_t value = add_tensor(kNone);
  for (uint32_t layer = 0; layer < layers; ++layer) {
    std::vector<uint32_t> parts;
    for (int part = 0; part < 3; ++part) parts.push_back(add_item(2e-4, {value}));
    const uint32_t joined = add_item(2e-4, parts);
    const uint32_t middle = add_item(3e-4, {joined, value});
    const uint32_t wide = add_item(8e-4, {middle});
    value = add_item(8e-4, {wide, middle});
  }
  problem.tensors[value].is_output = true;
  return problem;
}

TEST(ExactDp, FollowsOnlyWhatMayWin) {
  for (const uint32_t devices : {3u, 4u}) {
    const Core core = CoreOf(MakeLayers(devices, 12));
    uint64_t steps = 0;
    const auto at = SolveExactDp(core, 1'000'000, &steps);
    ASSERT_TRUE(at.has_value());
    std::printf("%u devices, 12 layers: %d steps\n", devices, static_cast<int>(steps));
    EXPECT_LE(steps, devices == 3 ? 1'000u : 2'500u);  // 5763 and 22116 of all that is possible
    // What another plan costs leaves fewer to follow, and the same result.
    uint64_t fewer = 0;
    const auto again = SolveExactDp(core, 1'000'000, &fewer, core.Additive(*at));
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(*again, *at);
    EXPECT_LE(fewer, steps);
  }
  std::mt19937 random(33);
  uint64_t all = 0, all_fewer = 0;
  for (int round = 0; round < 60; ++round) {
    RandomShape shape;
    shape.devices = 3;
    shape.items = 9;
    const Core core = CoreOf(MakeRandomProblem(random, shape));
    uint64_t steps = 0, fewer = 0;
    const auto at = SolveExactDp(core, 1'000'000, &steps);
    ASSERT_TRUE(at.has_value());
    EXPECT_EQ(SolveExactDp(core, 1'000'000, &fewer, core.Additive(*at)), at);
    all += steps;
    all_fewer += fewer;
    EXPECT_FALSE(SolveExactDp(core, 1'000'000, &fewer, core.Additive(*at) - 1).has_value());
  }
  EXPECT_LT(all_fewer, all);
}

TEST(Simulator, TellsALimitAsSoonAsItIsReachedAndKeepsWhatDoesNotChange) {
  std::mt19937 random(34);
  uint64_t whole = 0, limited = 0;
  for (int round = 0; round < 40; ++round) {
    RandomShape shape;
    shape.devices = 3;
    shape.items = 20;
    shape.infeasible = 0;
    const Problem problem = MakeRandomProblem(random, shape);
    const Core core = CoreOf(problem);
    const Simulator simulator(problem, core);
    Assignment at(core.units), rival(core.units);
    for (uint32_t& device : at) device = random() % 3;
    for (uint32_t& device : rival) device = random() % 3;
    const uint64_t before = simulator.steps();
    const Ticks score = simulator.Score(at), limit = simulator.Score(rival);
    const uint64_t between = simulator.steps();
    EXPECT_EQ(std::min(simulator.Score(at, limit), limit), std::min(score, limit));
    EXPECT_EQ(simulator.Score(at, score + 1), score);
    EXPECT_GE(simulator.Score(at, score), score);
    // Schedules of moved units begin with what the one before has kept.
    simulator.SetBase(at);
    const std::vector<uint32_t> units = {static_cast<uint32_t>(random() % core.units),
                                         static_cast<uint32_t>(random() % core.units)};
    Assignment moved = at;
    for (const uint32_t unit : units) moved[unit] = random() % 3;
    const Ticks moved_score = simulator.ScoreMoved(moved, units, kNever);
    EXPECT_EQ(moved_score, simulator.Score(moved));
    EXPECT_EQ(std::min(simulator.ScoreMoved(moved, units, score), score),
              std::min(moved_score, score));
    const uint64_t after = simulator.steps();
    simulator.Score(at, score / 2);
    whole += (between - before) / 2;
    limited += simulator.steps() - after;
  }
  EXPECT_LE(limited, whole * 6 / 10);
}

TEST(ExactDp, GivesUpAfterItsSteps) {
  std::mt19937 random(32);
  RandomShape shape;
  shape.devices = 3;
  shape.items = 20;
  const Core core = CoreOf(MakeRandomProblem(random, shape));
  uint64_t steps = 5;
  EXPECT_FALSE(SolveExactDp(core, 100, &steps).has_value());
  EXPECT_GE(steps, 100u);
  EXPECT_LE(steps, 107u);
}

// What the search reaches where no exact method is used. The gate is the one that docs/placement.md
// states.
TEST(Search, IsNearTheOptimumForThreeDevices) {
  for (const bool unequal : {false, true}) {
    std::mt19937 random(unequal ? 41 : 42);
    constexpr int kRounds = 120;
    int optimal = 0;
    double worst = 0, sum = 0;
    for (int round = 0; round < kRounds; ++round) {
      RandomShape shape;
      shape.devices = 3;
      shape.items = 4 + round % 6;
      shape.unequal_links = unequal;
      const Problem problem = MakeRandomProblem(random, shape);
      const Core core = CoreOf(problem);
      uint64_t steps = 0;
      std::vector<Assignment> starts;
      for (uint32_t d = 0; d < 3; ++d) starts.push_back(MostlyOn(core, d, &steps));
      starts.push_back(CheapestDevices(core));
      const Assignment at = SearchFromStarts(core, starts, 400'000, &steps);
      const auto truth = SolveExactDp(core, 10'000'000, &steps);
      ASSERT_TRUE(truth.has_value());
      const double gap =
          static_cast<double>(core.Additive(at)) / static_cast<double>(core.Additive(*truth)) - 1;
      ASSERT_GE(gap, 0);
      optimal += gap == 0;
      sum += gap;
      worst = std::max(worst, gap);
    }
    RecordProperty(unequal ? "unequal_optimal" : "equal_optimal", optimal);
    std::printf("three devices, %s links: %d of %d optimal, mean gap %.3f %%, worst %.2f %%\n",
                unequal ? "unequal" : "equal", optimal, kRounds, 100 * sum / kRounds, 100 * worst);
    EXPECT_GE(optimal, kRounds * 95 / 100);
    EXPECT_LE(worst, 0.10);
  }
}

// With three devices a margin is an upper bound: how near it is to the cost of the best plan that
// has the item elsewhere.
TEST(Solve, MarginsOfThreeDevicesAreNearTheTruth) {
  std::mt19937 random(82);
  int exact = 0, count = 0;
  double worst = 0;
  for (int round = 0; round < 60; ++round) {
    RandomShape shape;
    shape.devices = 3;
    shape.items = 9;
    const Problem problem = MakeRandomProblem(random, shape);
    const Plan plan = Solve(problem).value();
    for (uint32_t i = 0; i < shape.items; ++i) {
      const Decision& decision = plan.decisions[i];
      if (decision.rival == kNone) continue;
      Problem forced = problem;
      forced.items[i].costs[decision.device].reason = Reason::kForbidden;
      const auto core = BuildCore(forced, {}, nullptr);
      ASSERT_TRUE(core.ok());
      uint64_t steps = 0;
      const auto truth = SolveExactDp(*core, 10'000'000, &steps);
      ASSERT_TRUE(truth.has_value());
      const double cost = plan.additive_seconds + decision.margin_seconds;
      const double gap = cost / ToSeconds(core->Additive(*truth)) - 1;
      EXPECT_GE(gap, -1e-9);
      exact += gap < 1e-9;
      ++count;
      worst = std::max(worst, gap);
    }
  }
  std::printf("margins of three devices: %d of %d exact, worst %.1f %%\n", exact, count,
              100 * worst);
  EXPECT_GE(exact, count * 85 / 100);
}

TEST(Properties, AFasterLinkOrACheaperItemNeverWorsensTheOptimumOfTwoDevices) {
  std::mt19937 random(51);
  for (int round = 0; round < 150; ++round) {
    RandomShape shape;
    shape.items = 14;
    const Problem problem = MakeRandomProblem(random, shape);
    const auto optimum = [](const Problem& p) {
      const Core core = CoreOf(p);
      uint64_t steps = 0;
      return core.Additive(SolveCore(core, {}, &steps).at);
    };
    const Ticks before = optimum(problem);
    Problem faster = problem;
    Link& link = faster.machine.links[random() % faster.machine.links.size()];
    for (CurvePoint& point : link.curve) point.bytes_per_second *= 1.5;
    EXPECT_LE(optimum(faster), before);
    Problem cheaper = problem;
    cheaper.items[random() % shape.items].costs[random() % 2].seconds *= 0.7;
    EXPECT_LE(optimum(cheaper), before);
    Problem able = problem;
    able.items[random() % shape.items].costs[1].reason = Reason::kNone;
    EXPECT_LE(optimum(able), before);
  }
}

}  // namespace
}  // namespace halyard::place
