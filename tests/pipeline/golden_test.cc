// SPDX-License-Identifier: Apache-2.0
// Goldens: for small graphs, the Loop IR after fusion, as text. A lost fusion, a new dispatch or an
// index that no longer simplifies shows as a difference. Each file of goldens/ holds the graph, a
// line "=== fuse" and the text. HALYARD_BLESS=1 in the environment writes what the compiler says
// now; read the difference before committing it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/env.h"
#include "compiler/pipeline/parse_state.h"
#include "compiler/pipeline/pipeline.h"

namespace halyard::pipeline {
namespace {

constexpr std::string_view kMark = "=== fuse\n";
const std::filesystem::path kFolder =
    std::filesystem::path(HALYARD_SOURCE_DIR) / "tests/pipeline/goldens";

Result<std::string> FusedText(std::string_view graph) {
  HY_ASSIGN(const Target target, ParseTarget("cpu-avx2"));
  CompileState state;
  HY_TRY(ParseState(graph, target, &state));
  RunOptions options;
  options.stop_after = "fuse";
  HY_TRY(RunPasses(state, options, "propagate-shapes", nullptr));
  return FormatState(state);
}

class GoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, LoopIrIsAsBlessed) {
  const std::filesystem::path path = kFolder / (GetParam() + ".hy");
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string whole = text.str();
  const size_t mark = whole.find(kMark);
  const std::string graph = whole.substr(0, mark);
  const auto fused = FusedText(graph);
  ASSERT_TRUE(fused.ok()) << fused.status().ToString();
  if (EnvFlag(EnvVar::kBless)) {
    std::ofstream(path) << graph << kMark << *fused;
    return;
  }
  ASSERT_NE(mark, std::string::npos) << path << " has no '=== fuse'; run with HALYARD_BLESS=1.";
  EXPECT_EQ(*fused, whole.substr(mark + kMark.size()));
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(kFolder)) {
    names.push_back(file.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Graphs, GoldenTest, ::testing::ValuesIn(Names()),
                         [](const auto& info) { return info.param; });

TEST(GoldenFolderTest, HoldsGraphs) { EXPECT_GE(Names().size(), 7u); }

}  // namespace
}  // namespace halyard::pipeline
