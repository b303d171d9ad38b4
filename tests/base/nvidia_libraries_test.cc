// SPDX-License-Identifier: Apache-2.0
#include "base/nvidia_libraries.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace halyard {
namespace {

// Of CUPTI there are libcupti.so.13 and, behind it, libcupti.so.2025.3.0.
TEST(NvidiaLibraries, TheReleaseIsThatOfTheNameThatProgramsAskFor) {
  std::string folder = testing::TempDir() + "/halyard_env_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string lib = folder + "/lib/python3.11/site-packages/nvidia/cu13/lib";
  std::filesystem::create_directories(lib);
  const char* before = std::getenv("VIRTUAL_ENV");
  const std::string kept = before ? before : "";
  setenv("VIRTUAL_ENV", folder.c_str(), 1);
  EXPECT_EQ(InstalledNvidiaRelease("libhalyardtest"), "");
  for (const char* file :
       {"libhalyardtest.so.2025.3.0", "libhalyardtest.so.9", "libhalyardtest.so.13"})
    std::ofstream(lib + "/" + file) << "";
  EXPECT_EQ(InstalledNvidiaRelease("libhalyardtest"), "13");
  if (before) {
    setenv("VIRTUAL_ENV", kept.c_str(), 1);
  } else {
    unsetenv("VIRTUAL_ENV");
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace halyard
