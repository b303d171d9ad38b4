// SPDX-License-Identifier: Apache-2.0
// The suite's own rules: the lists match as they should, expected failures are verified, and only
// the null device has unsupported cases.
#include <gtest/gtest-spi.h>

#include "tests/hal/cts/cts.h"

namespace halyard::cts {
namespace {

TEST(CtsLists, RealDevicesSupportEverything) {
  for (const Backend& backend : AllBackends()) {
    if (backend.name.substr(0, 4) == "null") continue;
    for (const Exception& row : Unsupported()) {
      EXPECT_EQ(Find({&row, 1}, backend.name, row.test), nullptr) << row.reason;
    }
  }
}

TEST(CtsLists, EveryRowHasAReason) {
  for (const Exception& row : Unsupported()) EXPECT_FALSE(row.reason.empty()) << row.test;
  for (const Exception& row : ExpectedFailures()) EXPECT_FALSE(row.reason.empty()) << row.test;
}

TEST(CtsLists, PatternsMatchByPrefix) {
  const Exception rows[] = {{"gpu*", "Queue*", "r1"}, {"*", "Exact", "r2"}};
  EXPECT_EQ(Find(rows, "gpu_validated", "QueueCopy"), &rows[0]);
  EXPECT_EQ(Find(rows, "cpu", "QueueCopy"), nullptr);
  EXPECT_EQ(Find(rows, "cpu", "Exact"), &rows[1]);
  EXPECT_EQ(Find(rows, "cpu", "Exactly"), nullptr);
}

TEST(CtsLists, AnExpectedFailureThatFailsPasses) {
  ExpectToFail([] { EXPECT_EQ(1, 2); }, "known");
}

TEST(CtsLists, AnExpectedFailureThatPassesFails) {
  EXPECT_NONFATAL_FAILURE(ExpectToFail([] { EXPECT_EQ(1, 1); }, "known"), "delete its row");
}

}  // namespace
}  // namespace halyard::cts
