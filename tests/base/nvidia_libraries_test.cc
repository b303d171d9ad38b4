// SPDX-License-Identifier: Apache-2.0
#include "base/nvidia_libraries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

namespace halyard {
namespace {

// A Python installation in a folder of its own, with a package of NVIDIA's.
class NvidiaLibraries : public testing::Test {
 protected:
  NvidiaLibraries() {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    std::filesystem::create_directories(lib());
    for (const char* name : {"VIRTUAL_ENV", "PATH"}) {
      const char* value = std::getenv(name);
      before_.emplace_back(name, value ? std::optional<std::string>(value) : std::nullopt);
    }
    unsetenv("VIRTUAL_ENV");
  }
  ~NvidiaLibraries() override {
    for (const auto& [name, value] : before_) {
      if (value) {
        setenv(name.c_str(), value->c_str(), 1);
      } else {
        unsetenv(name.c_str());
      }
    }
    std::filesystem::remove_all(folder_);
  }
  std::string lib(const char* package = "cu13") const {
    return folder_ + "/lib/python3.11/site-packages/nvidia/" + package + "/lib";
  }

  std::string folder_ = testing::TempDir() + "/halyard_env_XXXXXX";

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

// Of CUPTI there are libcupti.so.13 and, behind it, libcupti.so.2025.3.0.
TEST_F(NvidiaLibraries, TheReleaseIsThatOfTheNameThatProgramsAskFor) {
  setenv("VIRTUAL_ENV", folder_.c_str(), 1);
  EXPECT_EQ(InstalledNvidiaRelease("libhalyardtest"), "");
  for (const char* file :
       {"libhalyardtest.so.2025.3.0", "libhalyardtest.so.9", "libhalyardtest.so.13"})
    std::ofstream(lib() + "/" + file) << "";
  EXPECT_EQ(InstalledNvidiaRelease("libhalyardtest"), "13");
}

TEST_F(NvidiaLibraries, PackagesOfThePythonOnThePathAreFound) {
  namespace fs = std::filesystem;
  fs::create_directories(lib("cudnn"));
  fs::create_directories(folder_ + "/bin");
  fs::create_directories(folder_ + "/other/bin");
  const std::string library = lib("cudnn") + "/libhalyardtest.so.9";
  std::ofstream(library) << "";
  constexpr std::string_view kVersions[] = {"9"};
  const auto found = [&] { return NvidiaLibraryCandidates("libhalyardtest", kVersions); };
  setenv("PATH", ("relative/bin:" + folder_ + "/bin:/usr/bin").c_str(), 1);
  EXPECT_THAT(found(), testing::Not(testing::Contains(library)));  // no Python lies there
  const auto add_python = [](const std::string& path) {
    std::ofstream(path) << "";
    fs::permissions(path, fs::perms::owner_all);
  };
  add_python(folder_ + "/bin/python3");
  EXPECT_THAT(found(), testing::Contains(library));
  // The system's first name stays before it.
  EXPECT_EQ(found().front(), "libhalyardtest.so.9");
  // Another Python comes first, and then its packages count.
  add_python(folder_ + "/other/bin/python3");
  setenv("PATH", (folder_ + "/other/bin:" + folder_ + "/bin").c_str(), 1);
  EXPECT_THAT(found(), testing::Not(testing::Contains(library)));
  unsetenv("PATH");
  EXPECT_THAT(found(), testing::Not(testing::Contains(library)));
}

TEST_F(NvidiaLibraries, WhatIsNoNvrtcIsToldWithTheReason) {
  const char* old = std::getenv("HALYARD_NVRTC_LIBRARY");
  const std::string kept = old ? old : "";
  const auto told = [&](const std::string& path) {
    setenv("HALYARD_NVRTC_LIBRARY", path.c_str(), 1);
    const Result<std::string> described = DescribeNvrtc();
    EXPECT_EQ(described.status().code(), StatusCode::kUnavailable) << path;
    return std::string(described.status().message());
  };
  const std::string text = folder_ + "/text.so";
  std::ofstream(text) << std::string(100, 'x');
  EXPECT_THAT(told(text), testing::HasSubstr("is missing. Library '" + text +
                                             "' cannot be opened: "
                                             "invalid ELF header."));
  EXPECT_THAT(told("/nowhere/libnvrtc.so"), testing::HasSubstr("No such file or directory."));
  EXPECT_EQ(told("libm.so.6"),
            "NVRTC, which compiles CUDA kernels, is missing: 'libm.so.6' is another library.");
  kept.empty() ? unsetenv("HALYARD_NVRTC_LIBRARY")
               : setenv("HALYARD_NVRTC_LIBRARY", kept.c_str(), 1);
}

}  // namespace
}  // namespace halyard
