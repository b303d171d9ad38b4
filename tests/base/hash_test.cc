// SPDX-License-Identifier: Apache-2.0
// HashBytes against published XXH64 values, and the piecewise form against the whole one.
#include "base/hash.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace halyard {
namespace {

TEST(HashTest, MatchesPublishedValues) {
  EXPECT_EQ(HashString(""), 0xEF46DB3751D8E999ull);
  EXPECT_EQ(HashString("a"), 0xD24EC4F1A98C6E5Bull);
  EXPECT_EQ(HashString("abc"), 0x44BC2CF5AD770999ull);
  EXPECT_EQ(HashString("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1ull);
}

TEST(HashTest, PiecesGiveTheHashOfTheWhole) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint8_t> bytes(random() % 300);
    for (auto& b : bytes) b = static_cast<uint8_t>(random());
    Hasher hasher(round);
    size_t at = 0;
    while (at < bytes.size()) {
      const size_t take = std::min<size_t>(bytes.size() - at, random() % 50);
      hasher.Update({bytes.data() + at, take});
      at += take;
    }
    EXPECT_EQ(hasher.Finish(), HashBytes(bytes, round));
  }
}

}  // namespace
}  // namespace halyard
