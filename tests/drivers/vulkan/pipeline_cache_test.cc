// SPDX-License-Identifier: Apache-2.0
// The file of compiled kernels: written, read again, and ignored when it is damaged or not ours.
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "tests/drivers/vulkan/vulkan_fixture.h"

namespace halyard::drivers::vulkan {
namespace {

class VulkanPipelineCacheTest : public VulkanTest {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "vulkan_cache_" + std::to_string(getpid());
    setenv("HALYARD_CACHE_DIR", folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("HALYARD_CACHE_DIR");
    std::filesystem::remove_all(folder_);
  }
  // The one file in the folder; empty when there is none.
  std::filesystem::path File() const {
    if (!std::filesystem::exists(folder_)) return {};
    std::filesystem::path found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (entry.path().extension() != ".pipelines") continue;  // one that is being written
      EXPECT_TRUE(found.empty()) << "two files: " << found << " and " << entry.path();
      found = entry.path();
    }
    return found;
  }
  static std::string Read(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  // The last reference to a device may go on a thread of its own, which then writes the file.
  static bool Eventually(const std::function<bool()>& holds) {
    for (int i = 0; i < 2000 && !holds(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return holds();
  }
  void OpenAndUse() {
    Use();
    Ref<hal::Executable> executable = LoadTestKernels();
    std::vector<int64_t> zeros(10, 0);
    EXPECT_EQ(DownloadNumbers(UploadNumbers(zeros)), zeros);
    executable.reset();
    device_.reset();
  }

  std::string folder_;
};

TEST_F(VulkanPipelineCacheTest, IsKeptBetweenDevicesAndRepaired) {
  OpenAndUse();
  ASSERT_TRUE(Eventually([&] { return !File().empty(); }));
  const std::filesystem::path file = File();
  const std::string good = Read(file);
  EXPECT_EQ(good.substr(0, 7), "HYVKPC1");
  OpenAndUse();
  EXPECT_EQ(File(), file);
  // One damaged byte of the vendor's part, and a file cut short: ignored, and made again.
  for (std::string bad : {good, good.substr(0, good.size() - 1), std::string("nothing")}) {
    if (bad.size() == good.size()) bad.back() = static_cast<char>(bad.back() ^ 1);
    std::ofstream(file, std::ios::binary) << bad;
    OpenAndUse();
    EXPECT_TRUE(Eventually([&] { return Read(file) != bad; }));
    EXPECT_EQ(Read(file).size(), good.size());
  }
}

TEST_F(VulkanPipelineCacheTest, IsNotKeptWhereOthersCanWrite) {
  std::filesystem::create_directories(folder_);
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  OpenAndUse();
  EXPECT_TRUE(File().empty());
}

TEST_F(VulkanPipelineCacheTest, CanBeSwitchedOff) {
  setenv("HALYARD_CACHE_DIR", "off", 1);
  OpenAndUse();
  EXPECT_FALSE(std::filesystem::exists(folder_));
  EXPECT_FALSE(std::filesystem::exists("off"));
}

}  // namespace
}  // namespace halyard::drivers::vulkan
