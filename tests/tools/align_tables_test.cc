// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/align_tables.h"

#include <gtest/gtest.h>

namespace halyard::tools {
namespace {

TEST(AlignTables, ColumnsStandBelowEachOther) {
  EXPECT_EQ(AlignTables("before | and\n| a | device | |\n|---|---|---|\n| longer | x | |\n\n"
                        "| other |\n|---|\n| b |"),
            "before | and\n"
            "| a      | device |     |\n"
            "|--------|--------|-----|\n"
            "| longer | x      |     |\n"
            "\n"
            "| other |\n"
            "|-------|\n"
            "| b     |\n");
  EXPECT_EQ(AlignTables(""), "");
}

TEST(AlignTables, CharactersCountAndBarsOfNamesAreText) {
  EXPECT_EQ(AlignTables("| \u00b5s\u00b5s | b |\n| a\\|bcd | c |\n"),
            "| \u00b5s\u00b5s   | b   |\n| a\\|bcd | c   |\n");
}

// A node's name of a thousand letters does not push all other lines as far.
TEST(AlignTables, AnEndlessCellWidensNoColumn) {
  const std::string endless(1000, 'x');
  EXPECT_EQ(AlignTables("| a | b |\n| " + endless + " | c |\n"),
            "| a   | b   |\n| " + endless + " | c   |\n");
}

}  // namespace
}  // namespace halyard::tools
