// SPDX-License-Identifier: Apache-2.0
// The pipeline as a whole, from Graph IR text to a program, without running the program.
#include "compiler/pipeline/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "compiler/pipeline/parse_state.h"

namespace halyard::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CompileRequest RequestFor(std::string_view text) {
  CompileRequest request;
  request.graph_text = text;
  request.devices = {{"cpu:0", *ParseTarget("cpu-avx2"), ""}};
  request.options.tune = false;
  return request;
}

Result<program::Program> CompileText(std::string_view text) {
  HY_ASSIGN(CompileResult result, pipeline::Compile(RequestFor(text)));
  return std::move(result.program);
}

std::vector<program::CommandKind> KindsOf(const program::Program& program) {
  std::vector<program::CommandKind> kinds;
  for (const program::Command& command : program.entries[0].blocks[0].commands)
    kinds.push_back(command.kind);
  return kinds;
}

constexpr std::string_view kAdd = R"(graph main(%a: f32[n, 8], %b: f32[n, 8]) -> (%c) {
  %c = add %a, %b : f32[n, 8] "sum"
}
)";

TEST(PipelineTest, OneAddIsOneDispatch) {
  const auto program = CompileText(kAdd);
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  EXPECT_THAT(KindsOf(*program), ElementsAre(program::CommandKind::kDispatch));
  ASSERT_EQ(program->symbols.size(), 1u);
  EXPECT_EQ(program->symbols[0].name, "n");
  EXPECT_EQ(program->entries[0].inputs.size(), 2u);
  EXPECT_EQ(program->entries[0].outputs[0].name, "c");
  ASSERT_EQ(program->executables.size(), 1u);
  EXPECT_FALSE(program->executables[0].code.empty());
}

// What `halyard explain --node` answers from: every node has one record, whatever became of it.
TEST(PipelineTest, EveryNodeHasAFate) {
  const auto program = CompileText(R"(graph main(%a: f32[8]) -> (%e, %s) {
  %k = constant f32[8]{1, 2, 3, 4, 5, 6, 7, 8} "k"
  %m = neg %k : f32[8] "folded"
  %b = add %a, %m : f32[8] "sum"
  %c = neg %a : f32[8] "twin_1"
  %d = neg %a : f32[8] "twin_2"
  %f = add %c, %d : f32[8] "twins"
  %e = add %b, %f : f32[8] "last"
  %u = abs %a : f32[8] "unused"
  %s, %t = sort %a {axis = 0} : f32[8], i64[8] "order"
}
)");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  std::map<std::string, std::string> fates;
  for (const program::Record& record : program->records) {
    if (record.kind == "node") {
      EXPECT_TRUE(fates.try_emplace(record.subject, record.text).second) << record.subject;
    }
  }
  EXPECT_EQ(fates["folded"], "gone after pass 'fold-constants'");
  EXPECT_EQ(fates["unused"], "gone: no result needs it");
  EXPECT_EQ(fates["order"], "in dispatch 'order'");
  EXPECT_EQ(fates["last"], "in dispatch 'last'");
  EXPECT_EQ(fates["sum"], fates["last"]);
  EXPECT_EQ(fates["twin_2"], "gone after pass 'merge-common'");
  EXPECT_EQ(fates.size(), 8u);
}

// Attention computes what it was made of: those nodes are not gone, they are where it is.
TEST(PipelineTest, PartsOfAttentionAreWhereItIs) {
  const auto program = CompileText(
      R"(graph main(%q: f32[1, 2, 4, 8], %k: f32[1, 2, 8, 5], %v: f32[1, 2, 5, 8]) -> (%y) {
  %product = matmul %q, %k : f32[1, 2, 4, 5] "scores"
  %top = reduce_max %product {axes = [3], keep_dims = 1} : f32[1, 2, 4, 1] "softmax"
  %tops = broadcast %top {shape = [1, 2, 4, 5]} : f32[1, 2, 4, 5] "softmax"
  %shifted = sub %product, %tops : f32[1, 2, 4, 5] "softmax"
  %e = exp %shifted : f32[1, 2, 4, 5] "softmax"
  %sum = reduce_sum %e {axes = [3], keep_dims = 1} : f32[1, 2, 4, 1] "softmax"
  %sums = broadcast %sum {shape = [1, 2, 4, 5]} : f32[1, 2, 4, 5] "softmax"
  %p = div %e, %sums : f32[1, 2, 4, 5] "softmax"
  %y = matmul %p, %v : f32[1, 2, 4, 8] "attend"
}
)");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  std::map<std::string, std::set<std::string>> fates;
  for (const program::Record& record : program->records) {
    if (record.kind == "node") fates[record.subject].insert(record.text);
  }
  ASSERT_FALSE(fates["attend"].empty());
  EXPECT_TRUE(fates["attend"].begin()->starts_with("in dispatch"));
  EXPECT_EQ(fates["scores"], fates["attend"]);
  EXPECT_EQ(fates["softmax"], fates["attend"]);
}

// A product that became a part of a merged one is where that runs, its slice where it is read, and
// the additions that went into the product are there, too.
TEST(PipelineTest, MergedProductsAreWhereTheirProductIs) {
  const auto program = CompileText(R"(graph main(%x: f32[n, 8]) -> (%s, %t) {
  %w = constant f32[8, 2]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
  %v = constant f32[8, 2]{5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
  %b = constant f32[2]{1, 2}
  %c = constant f32[2]{3, 4}
  %q = matmul %x, %w : f32[n, 2] "query"
  %bs = broadcast %b {shape = [n, 2]} : f32[n, 2] "query_bias"
  %qb = add %q, %bs : f32[n, 2] "query_bias"
  %k = matmul %x, %v : f32[n, 2] "key"
  %cs = broadcast %c {shape = [n, 2]} : f32[n, 2] "key_bias"
  %kb = add %k, %cs : f32[n, 2] "key_bias"
  %s = matmul %qb, %kb {transpose_a = 0, transpose_b = 1} : f32[n, n] "scores"
  %t = matmul %kb, %qb {transpose_a = 0, transpose_b = 1} : f32[n, n] "turned"
}
)");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  std::map<std::string, std::multiset<std::string>> fates;
  for (const program::Record& record : program->records) {
    if (record.kind == "node") fates[record.subject].insert(record.text);
  }
  const std::string product = "in dispatch 'query'";
  EXPECT_EQ(program->entries[0].blocks[0].commands[0].label, "query");
  EXPECT_EQ(fates["key"].count(product), 1u);
  EXPECT_EQ(fates["query"].count(product), 1u);
  EXPECT_THAT(fates["key_bias"], ElementsAre(product));
  EXPECT_THAT(fates["query_bias"], ElementsAre(product));
  EXPECT_THAT(fates["key"],
              ::testing::IsSupersetOf({"in dispatch 'scores'", "in dispatch 'turned'"}));
  EXPECT_EQ(fates["scores"].count(product) + fates["turned"].count(product), 0u);
}

// And of every weight its type and readers.
TEST(PipelineTest, EveryWeightHasARecord) {
  const auto program = CompileText(R"(graph main(%a: f32[2]) -> (%e) {
  %k = constant f32[2]{1, 2} "k"
  %b = add %a, %k : f32[2] "sum"
  %c = mul %b, %k : f32[2] "product"
  %e = neg %c : f32[2] "last"
}
)");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  std::vector<std::string> weights;
  for (const program::Record& record : program->records) {
    if (record.kind == "weight") weights.push_back(record.subject + ": " + record.text);
  }
  EXPECT_THAT(weights, ElementsAre("k: f32[2]\nsum\nproduct"));
}

// Takes every race for granted, and counts them.
class CountingMeasurer : public Measurer {
 public:
  Result<std::vector<double>> Measure(uint32_t, std::span<const Candidate> candidates) override {
    ++count;
    for (const Candidate& candidate : candidates) {
      for (const Buffer& buffer : candidate.buffers) largest = std::max(largest, buffer.bytes);
    }
    return std::vector<double>(candidates.size(), 1e-6);
  }
  std::optional<std::string> FindChoice(uint32_t, uint64_t) override { return std::nullopt; }
  void StoreChoice(uint32_t, uint64_t, std::string_view, double) override {}
  int count = 0;
  int64_t largest = 0;  // buffer, in bytes
};

// Kernels take for granted what shape rules assumed. A race runs at sizes for which that holds, or
// not at all.
TEST(PipelineTest, RacesRunAtSizesThatTheModelAllows) {
  const auto race = [](std::string_view text) {
    CountingMeasurer measurer;
    CompileRequest request = RequestFor(text);
    request.options.tune = true;
    request.measurer = &measurer;
    const auto compiled = pipeline::Compile(request);
    EXPECT_TRUE(compiled.ok()) << compiled.status().ToString();
    return measurer;
  };
  // A batch of one would not hold 300 updates.
  const CountingMeasurer open = race(
      R"(graph main(%x: f32[n, 8], %w: f32[8, 8], %i: i64[300, 8], %u: f32[300, 8]) -> (%y) {
  %p = matmul %x, %w : f32[n, 8] "product"
  %y = scatter_elements %p, %i, %u {axis = 1} : f32[n, 8] "scatter"
}
)");
  EXPECT_GT(open.count, 0);
  EXPECT_GE(open.largest, 300 * 8 * 4);
  // Nobody finds a size for 2n == 7.
  const CountingMeasurer never = race(
      R"(graph main(%x: f32[n, 8], %w: f32[8, 8], %u: f32[7, 8]) -> (%y) {
  %p = matmul %x, %w : f32[n, 8] "product"
  %c = concat %p, %x {axis = 0} : f32[2*n, 8] "both"
  %y = add %c, %u : f32[7, 8] "sum"
}
)");
  EXPECT_EQ(never.count, 0);
}

// Wherever the request stops it, the compile ends there: before each pass, and in the passes that
// take long.
TEST(PipelineTest, ACompileCanBeStopped) {
  CountingMeasurer measurer;
  CompileRequest request = RequestFor(R"(graph main(%a: f32[64, 64]) -> (%d) {
  %b = matmul %a, %a : f32[64, 64] "product"
  %c = exp %b : f32[64, 64] "exp"
  %d = matmul %c, %a : f32[64, 64] "other"
}
)");
  request.options.tune = true;
  request.measurer = &measurer;
  std::atomic<int> asked = 0;
  int most = 1000000;
  request.should_stop = [&] { return asked++ >= most; };
  const auto whole = pipeline::Compile(request);
  ASSERT_TRUE(whole.ok()) << whole.status().ToString();
  const int count = asked;
  EXPECT_GT(measurer.count, 0);
  // Races, their candidates and the last pass's code ask by themselves.
  EXPECT_GT(count, static_cast<int>(Passes().size()) + measurer.count);
  for (most = 0; most < count; ++most) {
    asked = measurer.count = 0;
    const Status status = pipeline::Compile(request).status();
    EXPECT_EQ(status.code(), StatusCode::kAborted) << most;
    EXPECT_LT(asked, count + 8) << "pieces that run at once ask at once";
  }
  asked = 0;
  EXPECT_TRUE(pipeline::Compile(request).ok());
}

// One column of values leaves attention no loop around what it stores.
TEST(PipelineTest, AttentionOfOneColumnStaysApart) {
  const auto program =
      CompileText(R"(graph main(%q: f32[1, 3, 32, 2], %v: f32[1, 3, 32, 1]) -> (%z) {
  %y = attention %q, %q, %v {scale = 1.0} : f32[1, 3, 32, 1] "attend"
  %z = neg %y : f32[1, 3, 32, 1] "negative"
}
)");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  EXPECT_EQ(KindsOf(*program).size(), 2u);
}

TEST(PipelineTest, ResultsThatNothingComputesAreCopied) {
  const auto program = CompileText(R"(graph main(%a: f32[4]) -> (%a, %n, %n, %k) {
  %n = neg %a : f32[4] "negate"
  %k = constant f32[2]{1, 2} "k"
}
)");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  using program::CommandKind;
  EXPECT_THAT(KindsOf(*program), ElementsAre(CommandKind::kDispatch, CommandKind::kCopy,
                                             CommandKind::kCopy, CommandKind::kCopy));
}

TEST(PipelineTest, ASizeThatIsDataIsRefusedByName) {
  const Status status = CompileText(R"(graph main(%a: f32[6]) -> (%c) {
  %c = nonzero %a {count = [found]} : i64[1, found] "where"
}
)")
                            .status();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("'found'"));
}

TEST(PipelineTest, EqualLayersShareTheirCode) {
  const auto program = CompileText(R"(graph main(%a: f32[64, 64]) -> (%d) {
  %b = matmul %a, %a : f32[64, 64] "layer1"
  %c = matmul %b, %b : f32[64, 64] "layer2"
  %d = matmul %c, %c : f32[64, 64] "layer3"
}
)");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  ASSERT_EQ(KindsOf(*program).size(), 3u);
  const auto& commands = program->entries[0].blocks[0].commands;
  EXPECT_EQ(commands[0].entry, commands[1].entry);
  EXPECT_EQ(commands[1].entry, commands[2].entry);
  EXPECT_EQ(commands[0].executable, commands[2].executable);
  EXPECT_THAT(commands[1].after, ElementsAre(0u));
  EXPECT_THAT(commands[2].after, ElementsAre(1u));
}

TEST(PipelineTest, AChainOfValuesReusesTwoPlaces) {
  std::string text = "graph main(%v0: f32[1024, 64]) -> (%v9) {\n";
  for (int i = 0; i < 9; ++i) {
    // Reductions over the last axis keep the chain from fusing into one kernel.
    text += fmt::format(
        "  %r{0} = reduce_sum %v{0} {{axes = [1], keep_dims = 1}} : f32[1024, 1] \"r{0}\"\n"
        "  %e{0} = broadcast %r{0} {{shape = [1024, 64]}} : f32[1024, 64] \"e{0}\"\n"
        "  %t{0} = transpose %e{0} {{perm = [1, 0]}} : f32[64, 1024] \"t{0}\"\n"
        "  %s{0} = reshape %t{0} {{shape = [1024, 64]}} : f32[1024, 64] \"s{0}\"\n"
        "  %v{1} = add %v{0}, %s{0} : f32[1024, 64] \"v{1}\"\n",
        i, i + 1);
  }
  const auto program = CompileText(text + "}\n");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  for (const program::Record& record : program->records) {
    if (record.kind != "memory" || record.subject != "activations") continue;
    const size_t holds = record.text.find("holds ") + 6, is = record.text.find("bound is ") + 9;
    EXPECT_EQ(std::stoll(record.text.substr(holds)), std::stoll(record.text.substr(is)))
        << record.text;
  }
}

TEST(PipelineTest, DimsTakenAsEqualBecomeGuards) {
  const auto program = CompileText(R"(graph main(%a: f32[n], %b: f32[m]) -> (%c) {
  %c = add %a, %b : f32[n] "sum"
}
)");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  ASSERT_EQ(program->entries[0].guards.size(), 2u);
  EXPECT_THAT(program->entries[0].guards[0].text, HasSubstr("=="));
}

TEST(PipelineTest, BadTextIsOneSentence) {
  EXPECT_EQ(CompileText("graph main(").status().code(), StatusCode::kInvalidArgument);
  const Status unknown =
      CompileText("graph main(%a: f32[2]) -> (%b) {\n  %b = frobnicate %a : f32[2]\n}\n").status();
  EXPECT_EQ(unknown.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(unknown.message(), HasSubstr("frobnicate"));
}

TEST(PipelineTest, TheTableIsComplete) {
  for (const Pass& pass : Passes()) {
    EXPECT_EQ(FindPass(pass.name), &pass);
    EXPECT_FALSE(pass.doc.empty());
  }
  EXPECT_EQ(FindPass("no-such-pass"), nullptr);
  // Each pass begins at the level where the one before it ends.
  for (size_t i = 1; i < Passes().size(); ++i) {
    EXPECT_EQ(Passes()[i].level_before, Passes()[i - 1].level_after) << Passes()[i].name;
  }
}

// Schedules and segments stand in the text as comments, which parsing drops.
std::string WithoutComments(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.substr(0, 2) != "//") out += line + "\n";
  }
  return out;
}

// What every pass leaves prints, parses and prints the same.
TEST(PipelineTest, EveryLevelRoundTrips) {
  for (std::string_view text :
       {kAdd, std::string_view(R"(graph main(%x: f32[n, 32], %w: f32[32, 16]) -> (%y) {
  %p = matmul %x, %w : f32[n, 16] "product"
  %t = tanh %p : f32[n, 16] "tanh"
  %m = reduce_max %t {axes = [1], keep_dims = 1} : f32[n, 1] "max"
  %b = broadcast %m {shape = [n, 16]} : f32[n, 16] "spread"
  %y = sub %t, %b : f32[n, 16] "shifted"
}
)"),
        // The pass that chooses layouts adds a node: the padded picture.
        std::string_view(R"(graph main(%x: f32[n, 3, 8, 8], %w: f32[16, 3, 3, 3]) -> (%y) {
  %c = conv %x, %w {dilations = [1, 1], groups = 1, pads_high = [1, 1], pads_low = [1, 1], strides = [1, 1]} : f32[n, 16, 8, 8] "conv"
  %y = tanh %c : f32[n, 16, 8, 8] "tanh"
}
)")}) {
    const CompileRequest request = RequestFor(text);
    CompileState state;
    state.request = &request;
    state.program.devices = request.devices;
    for (const Pass& pass : Passes()) {
      ASSERT_EQ(pass.run(state).ToString(), "OK") << pass.name;
      state.level = pass.level_after;
      const auto printed = FormatState(state);
      ASSERT_TRUE(printed.ok());
      CompileState again;
      ASSERT_EQ(ParseState(*printed, request.devices[0].target, &again).ToString(), "OK")
          << *printed;
      auto reprinted = FormatState(again);
      ASSERT_TRUE(reprinted.ok());
      EXPECT_EQ(WithoutComments(*printed), WithoutComments(*reprinted)) << pass.name;
    }
  }
}

TEST(RunnerTest, DumpsNumberTheFilesAndNameWhatDidNotChange) {
  const std::filesystem::path folder = ::testing::TempDir() + "/halyard_dump";
  std::filesystem::remove_all(folder);
  const CompileRequest request = RequestFor(kAdd);
  CompileState state;
  state.request = &request;
  state.program.devices = request.devices;
  RunOptions options;
  options.dump_folder = folder.string();
  options.stop_after = "lower";
  std::vector<PhaseTime> phases;
  ASSERT_EQ(RunPasses(state, options, "", &phases).ToString(), "OK");
  EXPECT_EQ(phases.back().phase, "lower");
  std::ifstream index(folder / "index.txt");
  std::string line, last;
  int unchanged = 0;
  while (std::getline(index, line)) {
    unchanged += line.find("(unchanged)") != std::string::npos;
    last = line;
  }
  EXPECT_THAT(last, HasSubstr("-lower.hy"));
  EXPECT_GT(unchanged, 0);
  EXPECT_TRUE(std::filesystem::exists(folder / last));
}

TEST(RunnerTest, ADisabledPassDoesNotRun) {
  const CompileRequest request = RequestFor(kAdd);
  CompileState state;
  state.request = &request;
  state.program.devices = request.devices;
  RunOptions options;
  options.disabled = {"fuse"};
  std::vector<PhaseTime> phases;
  ASSERT_EQ(RunPasses(state, options, "", &phases).ToString(), "OK");
  for (const PhaseTime& phase : phases) EXPECT_NE(phase.phase, "fuse");
}

}  // namespace
}  // namespace halyard::pipeline
