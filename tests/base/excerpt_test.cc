// SPDX-License-Identifier: Apache-2.0
#include "base/excerpt.h"

#include <gtest/gtest.h>

#include <vector>

namespace halyard {
namespace {

TEST(Excerpt, ShowsShortListsWhole) {
  EXPECT_EQ(Excerpt(std::vector<int64_t>{}), "");
  EXPECT_EQ(Excerpt(std::vector<int64_t>{3, -1, 2}), "3, -1, 2");
  const std::string all = Excerpt(std::vector<int64_t>(64, 7));
  EXPECT_EQ(all.size(), 64 * 3 - 2u);
  EXPECT_EQ(Excerpt(std::vector<int64_t>(65, 7)), "7, 7, 7, 7, 7, 7, 7, 7 and 57 more");
}

TEST(Excerpt, ShowsShortTextsWhole) {
  EXPECT_EQ(Excerpt(""), "");
  EXPECT_EQ(Excerpt(std::string(256, 'a')), std::string(256, 'a'));
  EXPECT_EQ(Excerpt(std::string(257, 'a')), std::string(64, 'a') + "... (257 bytes)");
}

}  // namespace
}  // namespace halyard
