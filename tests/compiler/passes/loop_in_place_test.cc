// SPDX-License-Identifier: Apache-2.0
// In place, on text: what may take another value's place and what may not. That results stay the
// same is checked for every lowering in tests/compiler/loop/lowering_test.cc.
#include "compiler/passes/loop_in_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"

namespace halyard::loop {
namespace {

using ::testing::HasSubstr;

// Two kernels that make the temporaries a and b of 8 elements, and one that reads both: `body` says
// how.
class InPlaceTest : public testing::Test {
 protected:
  void Run(const std::string& second, const std::string& third) {
    const std::string text = R"(function {
  buffer x: f32[8] input
  buffer y: f32[8] output
  buffer a: f32[8] temp
  buffer b: f32[8] temp
  buffer c: f32[8] output
  kernel first {
    parallel i < 8 {
      %0 = load x[i]
      %1 = neg %0
      store a[i], %1
    }
  }
  kernel second {
)" + second + R"(  }
  kernel third {
)" + third + R"(  }
}
)";
    auto function = ParseFunction(text, exprs_);
    ASSERT_TRUE(function.ok()) << function.status().ToString();
    ASSERT_EQ(VerifyFunction(*function).ToString(), "OK");
    WriteInPlace(*function, &records_);
    ASSERT_EQ(VerifyFunction(*function).ToString(), "OK");
    text_ = PrintFunction(*function);
  }

  static constexpr char kDouble[] = R"(    parallel i < 8 {
      %0 = load a[i]
      %1 = add %0, %0
      store b[i], %1
    }
)";
  static constexpr char kReadB[] = R"(    parallel i < 8 {
      %0 = load b[i]
      store y[i], %0
    }
)";

  ExprArena exprs_;
  std::vector<InPlaceRecord> records_;
  std::string text_;
};

TEST_F(InPlaceTest, TheLastReaderWritesOverWhatItReads) {
  Run(kDouble, kReadB);
  ASSERT_EQ(records_.size(), 1u);
  EXPECT_EQ(records_[0].kernel, "second");
  EXPECT_EQ(records_[0].value, "b");
  EXPECT_EQ(records_[0].place, "a");
  EXPECT_THAT(text_, HasSubstr("%1 = add %0, %0\n      store a[i], %1"));
  EXPECT_THAT(text_, HasSubstr("%0 = load a[i]\n      store y[i], %0"));
}

TEST_F(InPlaceTest, NotWhenTheOldValueIsReadLater) {
  Run(kDouble, R"(    parallel i < 8 {
      %0 = load b[i]
      %1 = load a[i]
      %2 = add %0, %1
      store y[i], %2
    }
)");
  EXPECT_TRUE(records_.empty());
}

// A kernel with two results reads the old value again after it has stored the first.
TEST_F(InPlaceTest, NotWhenTheSameElementIsReadAfterTheStore) {
  constexpr const char kStoreThenRead[] = R"(    parallel i < 8 {
      %0 = load a[i]
      %1 = neg %0
      store b[i], %1
      %2 = load a[i]
      store c[i], %2
    }
)";
  Run(kStoreThenRead, kReadB);
  EXPECT_TRUE(records_.empty());
}

TEST_F(InPlaceTest, NotWhenAnotherElementIsRead) {
  Run(R"(    parallel i < 8 {
      %0 = load a[7 - i]
      store b[i], %0
    }
)",
      kReadB);
  EXPECT_TRUE(records_.empty());
}

TEST_F(InPlaceTest, NotWhenAnotherLoopReads) {
  Run(R"(    parallel i < 8 {
      %0 = reduce sum r < 8 {
        %1 = load a[r]
        yield %1
      }
      %2 = load a[i]
      %3 = add %0, %2
      store b[i], %3
    }
)",
      kReadB);
  EXPECT_TRUE(records_.empty());
}

TEST_F(InPlaceTest, NotWhenOnlySomeElementsAreWritten) {
  Run(R"(    parallel i < 8 {
      %0 = load a[i]
      %1 = const.f32 0
      %2 = lt %0, %1
      store b[i], %0 mask %2
    }
)",
      kReadB);
  EXPECT_TRUE(records_.empty());
}

TEST_F(InPlaceTest, NeverAnInputOrAnOutput) {
  Run(kDouble, R"(    parallel i < 8 {
      %0 = load b[i]
      %1 = load x[i]
      %2 = add %0, %1
      store y[i], %2
    }
)");
  EXPECT_EQ(records_.size(), 1u);  // b in a; y stays y, x stays x
  EXPECT_THAT(text_, HasSubstr("store y[i], %2"));
}

}  // namespace
}  // namespace halyard::loop
