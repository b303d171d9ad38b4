// SPDX-License-Identifier: Apache-2.0
#include "base/regular_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace halyard {
namespace {

TEST(RegularFile, WhatIsNoneIsRefusedAndNothingWaits) {
  std::string name = testing::TempDir() + "/halyard_files_XXXXXX";
  const std::string folder = mkdtemp(name.data());
  std::ofstream(folder + "/file", std::ios::binary) << std::string(40000, 'x');
  EXPECT_EQ(ReadRegularFile(folder + "/file", 40000).value(), std::string(40000, 'x'));
  const Status large = ReadRegularFile(folder + "/file", 39999).status();
  EXPECT_EQ(large.code(), StatusCode::kOutOfRange);
  EXPECT_NE(large.ToLine().find("more than 39999 bytes"), std::string::npos);
  EXPECT_EQ(ReadRegularFile(folder + "/none", 1).status().code(), StatusCode::kNotFound);
  // Nobody ever writes to the pipe.
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  for (const std::string& path : {folder, folder + "/pipe", std::string("/dev/null")}) {
    const Status status = ReadRegularFile(path, 1).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.ToLine().find("'" + path + "' is not a regular file"), std::string::npos);
  }
  std::filesystem::remove_all(folder);
}

TEST(RegularFile, WhatIsNoneIsRemovedAndNoLinkIsFollowed) {
  std::string name = testing::TempDir() + "/halyard_files_XXXXXX";
  const std::string folder = mkdtemp(name.data());
  std::ofstream(folder + "/file") << "kept";
  std::filesystem::create_directories(folder + "/full/of");
  std::ofstream(folder + "/full/of/things") << "x";
  std::filesystem::create_symlink("file", folder + "/link");
  std::filesystem::create_directory_symlink("full", folder + "/folder_link");
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  for (const char* one : {"file", "nothing"})
    EXPECT_FALSE(RemoveUnlessRegular(folder + "/" + one)) << one;
  for (const char* one : {"link", "pipe", "folder_link"})
    EXPECT_TRUE(RemoveUnlessRegular(folder + "/" + one)) << one;
  EXPECT_TRUE(std::filesystem::exists(folder + "/full/of/things"));
  EXPECT_TRUE(RemoveUnlessRegular(folder + "/full"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  EXPECT_EQ(ReadRegularFile(folder + "/file", 10).value(), "kept");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace halyard
