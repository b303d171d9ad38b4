// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/bench_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace halyard::tools {
namespace {

class BenchProgressTest : public testing::Test {
 protected:
  BenchProgress Make(size_t rows, double timed_s) {
    return BenchProgress(
        rows, timed_s, [this] { return now_; },
        [this](const std::string& line) { lines_.push_back(line); });
  }
  double now_ = 100;
  std::vector<std::string> lines_;
};

TEST_F(BenchProgressTest, WhatIsLeftOfTheFirstRowIsAtLeastWhatIsTimed) {
  BenchProgress progress = Make(2, 5);
  progress.StartRow("a.onnx on cpu:0");
  progress.StartPhase("compiling");
  now_ += 20;
  EXPECT_EQ(progress.Line(), "[1/2] a.onnx on cpu:0: compiling, at least 10 s left");
  progress.StartPhase("warming up", 1);
  now_ += 0.5;
  EXPECT_EQ(progress.Line(), "[1/2] a.onnx on cpu:0: warming up, at least 10 s left");
  progress.StartPhase("timed runs", 4);
  now_ += 3;
  EXPECT_EQ(progress.Line(), "[1/2] a.onnx on cpu:0: timed runs, at least 6 s left");
  now_ += 100;  // a run that is far longer than the phase
  EXPECT_EQ(progress.Line(), "[1/2] a.onnx on cpu:0: timed runs, at least 5 s left");
}

TEST_F(BenchProgressTest, LaterRowsTakeWhatTheFirstTook) {
  BenchProgress progress = Make(3, 5);
  progress.StartRow("a");
  progress.StartPhase("compiling");
  now_ += 45;
  progress.EndRow();
  progress.StartRow("b");
  progress.StartPhase("compiling");
  now_ += 15;
  EXPECT_EQ(progress.Line(), "[2/3] b: compiling, about 75 s left");
  progress.EndRow();
  progress.StartRow("c");  // compiles longer than those before
  progress.StartPhase("compiling");
  now_ += 60;
  EXPECT_EQ(progress.Line(), "[3/3] c: compiling, about 5 s left");
}

TEST_F(BenchProgressTest, LongTimesAreInMinutes) {
  BenchProgress progress = Make(10, 60);
  progress.StartRow("a");
  EXPECT_THAT(progress.Line(), testing::HasSubstr("at least 10 min left"));
}

TEST_F(BenchProgressTest, ShowsTwiceASecondAtMost) {
  BenchProgress progress = Make(1, 10);
  progress.StartRow("a");
  EXPECT_TRUE(lines_.empty());
  progress.StartPhase("timed runs", 10);
  EXPECT_EQ(lines_.size(), 1u);
  for (int i = 0; i < 100; ++i) {
    progress.Tick();
    now_ += 0.01;
  }
  EXPECT_EQ(lines_.size(), 2u);
  progress.StartPhase("profiled runs");
  EXPECT_EQ(lines_.size(), 3u) << "a new phase at once";
}

}  // namespace
}  // namespace halyard::tools
