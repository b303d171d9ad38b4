// SPDX-License-Identifier: Apache-2.0
// Machines on which Vulkan is broken: a precise reason, no crash. Each case runs in a process of
// its own, because the environment is read once.
#include <cstdlib>
#include <fstream>

#include "tests/drivers/vulkan/vulkan_fixture.h"

namespace halyard::drivers::vulkan {
namespace {

class VulkanLoaderTest : public testing::Test {
 protected:
  void SetUp() override { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }

  // Opens the driver with only `manifest` for drivers, and ends the process: 0 when the answer is
  // UNAVAILABLE, contains `part` and names the variable with its value.
  static void OpenAndExit(const std::string& manifest, const std::string& part) {
    setenv("VK_DRIVER_FILES", manifest.c_str(), 1);
    setenv("VK_ICD_FILENAMES", manifest.c_str(), 1);
    Result<Ref<hal::Driver>> driver = OpenVulkanDriver();
    std::fprintf(stderr, "%s\n", driver.status().ToString().c_str());
    const std::string message(driver.status().message());
    bool is_right = driver.status().code() == StatusCode::kUnavailable &&
                    message.find(part) != std::string::npos &&
                    message.find("with VK_DRIVER_FILES='" + manifest + "'") != std::string::npos;
    std::exit(is_right ? 0 : 1);
  }
};

TEST_F(VulkanLoaderTest, NoManifest) {
  EXPECT_EXIT(OpenAndExit("/nonexistent/icd.json", "found no working driver"),
              testing::ExitedWithCode(0), "");
}

TEST_F(VulkanLoaderTest, AnEmptyListOfManifests) {
  EXPECT_EXIT(OpenAndExit("", "found no working driver"), testing::ExitedWithCode(0), "");
}

TEST_F(VulkanLoaderTest, ManifestOfAMissingLibrary) {
  const std::string path = testing::TempDir() + "missing_icd.json";
  std::ofstream(path) << R"({"file_format_version": "1.0.0", "ICD": {
    "library_path": "/nonexistent/libvulkan_none.so", "api_version": "1.3.0"}})";
  EXPECT_EXIT(OpenAndExit(path, "found no working driver"), testing::ExitedWithCode(0), "");
}

TEST_F(VulkanLoaderTest, ManifestThatIsNoJson) {
  const std::string path = testing::TempDir() + "torn_icd.json";
  std::ofstream(path) << "{\"file_format_version\": ";
  EXPECT_EXIT(OpenAndExit(path, "vkCreateInstance answered"), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace halyard::drivers::vulkan
