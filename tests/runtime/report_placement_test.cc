// SPDX-License-Identifier: Apache-2.0
// How a plan reads: the sentences that users see, and that JSON and HTML hold the same.
#include "runtime/report_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compiler/place/solve.h"
#include "tests/compiler/place/random_problem.h"

namespace halyard::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Five layers on the GPU with an op between them that it lacks, and a wish.
place::Plan MakePlan() {
  place::Problem problem;
  problem.machine = place::MakeMachine(2);
  const double cpu[] = {4000, 400, 4000, 4000, 4000, 4000}, gpu[] = {100, 30, 100, 100, 100, 100};
  for (uint32_t i = 0; i < 6; ++i) {
    place::Item item;
    item.name = i == 1 ? "cubic<1>" : fmt::format("conv{}", i);
    item.nodes = {item.name};
    for (const double us : {cpu[i], gpu[i]}) {
      place::Cost cost;
      cost.seconds = us * 1e-6;
      cost.sigma = 0.05;
      cost.source = place::Source::kMeasured;
      item.costs.push_back(cost);
    }
    if (i == 1) {
      item.costs[1].reason = place::Reason::kOp;
      item.costs[1].detail = "The op 'cubic' has no lowering.";
    }
    problem.items.push_back(std::move(item));
    problem.tensors.push_back({fmt::format("v{}", i), 1 << 20, i,
                               i < 5 ? std::vector<uint32_t>{i + 1} : std::vector<uint32_t>{},
                               i == 5, 1});
  }
  problem.affinities = {"conv5=cpu:0"};
  problem.constraints = {{5, 0, place::Strength::kRequire, 0}};
  auto plan = place::Solve(problem);
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  return std::move(plan).value();
}

TEST(ReportPlacement, TextSaysWhoDecidedAndWhatItCosts) {
  const std::string text = PlanText(MakePlan());
  EXPECT_THAT(text, HasSubstr("'v0' from gpu:0 to cpu:0: 1.0 MiB in "));
  EXPECT_THAT(text, HasSubstr("the wish 'conv5=cpu:0' costs 3."));
  EXPECT_THAT(text, HasSubstr("cubic<1> -> cpu:0: no other device can; 400.0 us (measured) and "));
  EXPECT_THAT(text, HasSubstr("'gpu:0' cannot (op: The op 'cubic' has no lowering.)"));
  EXPECT_THAT(text, HasSubstr("; supporting it on 'gpu:0' would save "));
  EXPECT_THAT(text, HasSubstr("conv5 -> cpu:0: it was asked for;"));
  EXPECT_THAT(text, HasSubstr("all on 'cpu:0': 20.40 ms"));
}

// A part that wins less elsewhere than the costs are known to; those of the GPU are defaults, as
// after a probe that was cut short.
TEST(ReportPlacement, TextSaysWhyACheaperRivalIsNotTaken) {
  place::Problem problem;
  problem.machine = place::MakeMachine(2);
  for (uint32_t i = 0; i < 5; ++i) {
    place::Item item;
    item.name = fmt::format("layer{}", i);
    item.nodes = {item.name};
    for (const double us : {i == 2 ? 810.0 : 50000.0, 1000.0}) {
      place::Cost cost;
      cost.seconds = us * 1e-6;
      cost.sigma = item.costs.empty() ? 0.05 : 0.3;
      cost.source = item.costs.empty() ? place::Source::kMeasured : place::Source::kDefault;
      item.costs.push_back(cost);
    }
    problem.items.push_back(std::move(item));
    problem.tensors.push_back({fmt::format("v{}", i), 1024, i,
                               i < 4 ? std::vector<uint32_t>{i + 1} : std::vector<uint32_t>{},
                               i == 4, 1});
  }
  auto plan = place::Solve(problem);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  ASSERT_EQ(plan->decisions[2].decided_by, place::DecidedBy::kHysteresis);
  const std::string sentence =
      " less and is not taken: parts leave the device of the others only for more than the noise "
      "of the costs that differ, 605.4 us (1 default, 1 measured)";
  EXPECT_THAT(PlanText(*plan), HasSubstr(sentence + "\n"));
  EXPECT_THAT(std::string(PlanJson(*plan)["cheaper_rival"]), HasSubstr(sentence));
  EXPECT_THAT(PlanHtml(*plan), HasSubstr(sentence));
  // Of wishes only a preference can be the reason: every rival obeys the others.
  plan->prices = {{"layer0=gpu:0", 1e-3, 1}, {"nothing=prefer:cpu:0", 0, 0}};
  EXPECT_THAT(PlanText(*plan), HasSubstr(sentence + "\n"));
  plan->prices.push_back({"layer2=prefer:gpu:0", 1e-3, 1});
  EXPECT_THAT(PlanText(*plan), HasSubstr(" less and is not taken: a preference weighs more\n"));
  plan->prices.clear();
  // What decided, and where that was the start only.
  EXPECT_THAT(PlanText(*plan), HasSubstr("decided by: all on 'gpu:0'\n"));
  plan->decisions[0].device = 0;
  EXPECT_THAT(PlanText(*plan), HasSubstr("decided by: all on 'gpu:0', with parts moved\n"));
  EXPECT_THAT(PlanHtml(*plan), HasSubstr("all on 'gpu:0', with parts moved."));
  problem.hysteresis = false;
  plan = place::Solve(problem);
  ASSERT_TRUE(plan.ok());
  EXPECT_THAT(PlanText(*plan), Not(HasSubstr("is not taken")));
  EXPECT_FALSE(PlanJson(*plan).contains("cheaper_rival"));
}

// One of a thing is not "1 things", and a time is not "-3 us more".
TEST(ReportPlacement, TextAgreesWithItsNumbers) {
  place::Plan plan = MakePlan();
  ASSERT_FALSE(plan.prices.empty());
  plan.transfers.resize(1);
  plan.steps = 1;
  plan.prices[0].items = 1;
  plan.prices[0].seconds = -2e-6;
  EXPECT_THAT(PlanText(plan), HasSubstr("the wish 'conv5=cpu:0' saves 2.000 us (1 cluster)\n"));
  EXPECT_THAT(PlanText(plan), Not(HasSubstr("no price")));
  plan.unpriced = {{"a<b=cpu:0", "without it there is no plan (No.)"},
                   {"c=cpu:0", "behind"},
                   {"d=cpu:0", "behind"}};
  EXPECT_THAT(PlanText(plan),
              HasSubstr("  the wish 'a<b=cpu:0' has no price: without it there is no plan (No.)\n"
                        "  the wishes 'c=cpu:0', 'd=cpu:0' have no price: behind\n"));
  EXPECT_THAT(PlanHtml(plan), HasSubstr("<p>The wish 'a&lt;b=cpu:0' has no price"));
  EXPECT_EQ(PlanJson(plan)["unpriced_wishes"].size(), 3u);
  EXPECT_EQ(PlanJson(plan)["unpriced_wishes"][1]["wish"], "c=cpu:0");
  plan.prices[0].seconds = 0;
  plan.prices[0].items = 0;
  for (size_t i = 0; i < plan.decisions.size(); ++i) {
    plan.decisions[i].rival = 1 - plan.decisions[i].device;
    plan.decisions[i].margin_seconds = i == 0 ? 0 : i == 1 ? -213.2e-6 : 1e-6;
  }
  const std::string text = PlanText(plan);
  EXPECT_THAT(text, HasSubstr("; 1 solver step\n"));
  EXPECT_THAT(text, HasSubstr("\n  1 transfer, "));
  EXPECT_THAT(text, HasSubstr("the wish 'conv5=cpu:0' costs nothing (0 clusters)\n"));
  const auto json = PlanJson(plan);
  const auto line = [&](size_t i) { return json["clusters"][i]["text"].get<std::string>(); };
  EXPECT_THAT(line(0), HasSubstr("on 'cpu:0' the sum of all costs would be the same"));
  EXPECT_THAT(line(1), HasSubstr("on 'gpu:0' the sum of all costs would be 213.2 us less"));
  EXPECT_THAT(line(2), HasSubstr("on 'cpu:0' the sum of all costs would be 1.000 us more"));
}

TEST(ReportPlacement, JsonHoldsEveryClusterAndCandidate) {
  const auto json = PlanJson(MakePlan());
  ASSERT_EQ(json["clusters"].size(), 6u);
  EXPECT_EQ(json["clusters"][1]["decided_by"], "only_feasible");
  EXPECT_EQ(json["clusters"][1]["candidates"][1]["reason"], "op");
  EXPECT_EQ(json["clusters"][1]["would_save"][0]["device"], "gpu:0");
  EXPECT_EQ(json["clusters"][5]["decided_by"], "user");
  EXPECT_TRUE(json["clusters"][0]["margin_is_exact"]);
  EXPECT_EQ(json["transfers"].size(), 3u);
}

TEST(ReportPlacement, HtmlEscapesNamesAndDrawsEveryCluster) {
  const std::string html = PlanHtml(MakePlan());
  EXPECT_THAT(html, HasSubstr("cubic&lt;1&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("cubic<1>")));
  size_t boxes = 0;
  for (size_t at = 0; (at = html.find("class=\"cluster\"", at)) != std::string::npos; ++at) ++boxes;
  EXPECT_EQ(boxes, 6u);
}

TEST(ReportPlacement, AProgramWithoutAPlanHasNone) {
  program::Program program;
  EXPECT_FALSE(FindPlan(program).has_value());
  program.records.push_back({"plan", "placement", "garbage"});
  EXPECT_FALSE(FindPlan(program).has_value());
  program.records.push_back({"plan", "placement", place::FormatPlan(MakePlan())});
  EXPECT_TRUE(FindPlan(program).has_value());
}

}  // namespace
}  // namespace halyard::runtime
