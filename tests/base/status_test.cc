// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "base/dtype.h"

namespace halyard {
namespace {

Result<int> Half(int value) {
  if (value % 2 != 0) return InvalidArgument("The value {} is odd; it must be even.", value);
  return value / 2;
}

Result<int> Quarter(int value) {
  HY_ASSIGN(int half, Half(value));
  HY_TRY_CONTEXT(Half(half), "halving {}", half);
  return half / 2;
}

TEST(StatusTest, CarriesMessageAndContext) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status().ToString(),
            "INVALID_ARGUMENT: The value 3 is odd; it must be even.\n- While halving 3");
  EXPECT_EQ(Quarter(6).status().ToLine(), "The value 3 is odd; it must be even. (while halving 3)");
  EXPECT_EQ(Quarter(5).status().code(), StatusCode::kInvalidArgument);
}

TEST(StatusTest, ALineIsOneLineWhateverANameHolds) {
  const Status status = InvalidArgument("Input '{}' is wrong.", "a\nb\x1b[2Jé");
  EXPECT_EQ(status.ToLine(), "Input 'a?b?[2Jé' is wrong.");
}

TEST(StatusTest, CopySharesTheFailure) {
  Status first = NotFound("No.");
  Status second = first;
  EXPECT_EQ(second.message(), "No.");
  EXPECT_TRUE(OkStatus().ok());
  EXPECT_FALSE(Result<int>(OkStatus()).ok());
}

TEST(StatusTest, ExceptionsBecomeStatus) {
  EXPECT_EQ(CatchAll([]() -> Status { throw std::bad_alloc(); }).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(CatchAll([]() -> Status { throw CheckFailure{"x.cc:1: no"}; }).message(), "x.cc:1: no");
  EXPECT_EQ(CatchAll([]() -> Status { throw 3; }).code(), StatusCode::kInternal);
}

TEST(DTypeTest, FormatAndParseArePairs) {
  for (int i = 1; i < kDTypeCount; ++i) {
    const DType dtype = static_cast<DType>(i);
    EXPECT_EQ(*ParseDType(FormatDType(dtype)), dtype);
    EXPECT_GT(BitWidth(dtype), 0);
  }
  EXPECT_FALSE(ParseDType("f31").ok());
}

TEST(DTypeTest, StorageBytesRoundsUpAndRefusesOverflow) {
  EXPECT_EQ(*StorageBytes(DType::kI4, 3), 2);
  EXPECT_EQ(*StorageBytes(DType::kF32, 3), 12);
  EXPECT_EQ(*StorageBytes(DType::kF64, 0), 0);
  EXPECT_EQ(StorageBytes(DType::kF32, int64_t{1} << 60).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(StorageBytes(DType::kF32, -1).status().code(), StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace halyard
