// SPDX-License-Identifier: Apache-2.0
// Machines on which Vulkan is broken: a precise reason, no crash. Each case runs in a process of
// its own, because the environment is read once.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "drivers/vulkan/manifests.h"
#include "tests/drivers/vulkan/vulkan_fixture.h"

namespace halyard::drivers::vulkan {
namespace {

class VulkanLoaderTest : public testing::Test {
 protected:
  void SetUp() override { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }

  // Opens the driver with only `manifest` for drivers, and ends the process: 0 when the answer is
  // UNAVAILABLE, contains both parts and the manifest's name.
  static void OpenAndExit(const std::string& manifest, const std::string& part,
                          const std::string& reason = "") {
    setenv("VK_DRIVER_FILES", manifest.c_str(), 1);
    setenv("VK_ICD_FILENAMES", manifest.c_str(), 1);
    Result<Ref<hal::Driver>> driver = OpenVulkanDriver();
    std::fprintf(stderr, "%s\n", driver.status().ToString().c_str());
    const std::string message(driver.status().message());
    bool is_right = driver.status().code() == StatusCode::kUnavailable &&
                    message.find(part) != std::string::npos &&
                    message.find(reason) != std::string::npos &&
                    message.find("'" + manifest + "'") != std::string::npos;
    std::exit(is_right ? 0 : 1);
  }
};

TEST_F(VulkanLoaderTest, NoManifest) {
  EXPECT_EXIT(OpenAndExit("/nonexistent/icd.json", "found no working driver",
                          "with VK_DRIVER_FILES='/nonexistent/icd.json'"),
              testing::ExitedWithCode(0), "");
}

TEST_F(VulkanLoaderTest, AnEmptyListOfManifests) {
  EXPECT_EXIT(OpenAndExit("", "found no working driver"), testing::ExitedWithCode(0), "");
}

TEST_F(VulkanLoaderTest, ManifestOfAMissingLibrary) {
  const std::string path = testing::TempDir() + "missing_icd.json";
  std::ofstream(path) << R"({"file_format_version": "1.0.0", "ICD": {
    "library_path": "/nonexistent/libvulkan_none.so", "api_version": "1.3.0"}})";
  EXPECT_EXIT(OpenAndExit(path, "found no working driver",
                          "'" + path +
                              "': Library '/nonexistent/libvulkan_none.so' cannot be "
                              "opened: cannot open shared object file"),
              testing::ExitedWithCode(0), "");
}

TEST_F(VulkanLoaderTest, ManifestOfAnotherLibrary) {
  const std::string path = testing::TempDir() + "other_icd.json";
  std::ofstream(path) << R"({"file_format_version": "1.0.0", "ICD": {
    "library_path": "libm.so.6", "api_version": "1.3.0"}})";
  EXPECT_EXIT(
      OpenAndExit(path, "found no working driver", "Library 'libm.so.6' is no driver of Vulkan."),
      testing::ExitedWithCode(0), "");
}

// Debian 12's loader dies of the first two, in a file that is named and in a folder.
TEST_F(VulkanLoaderTest, ManifestsThatTheLoaderDiesOf) {
  const std::string path = testing::TempDir() + "deadly_icd.json";
  std::ofstream(path) << R"({"file_format_version": "1.0.0", "ICD": {
    "library_path": 5, "api_version": "1.3.0"}})";
  EXPECT_EXIT(OpenAndExit(path, "its 'library_path' is no text", "not started"),
              testing::ExitedWithCode(0), "");
  std::ofstream(path) << R"({"file_format_version": "1.0.0", "ICD": ["/a"]})";
  EXPECT_EXIT(OpenAndExit(path, "its 'ICD' is no object"), testing::ExitedWithCode(0), "");
  std::ofstream(path) << std::string(200000, '[');
  EXPECT_EXIT(OpenAndExit(path, "nested too deeply"), testing::ExitedWithCode(0), "");
  const std::string folder = testing::TempDir() + "deadly_icd.d";
  std::filesystem::create_directories(folder);
  std::filesystem::rename(path, folder + "/one.json");
  EXPECT_EXIT(
      {
        setenv("VK_DRIVER_FILES", folder.c_str(), 1);
        const Status status = OpenVulkanDriver().status();
        std::exit(status.message().find("/one.json' of Vulkan is broken") == std::string::npos);
      },
      testing::ExitedWithCode(0), "");
}

// The loader reads layers with every program, and dies of the second.
TEST_F(VulkanLoaderTest, BrokenLayers) {
  const std::string home = testing::TempDir() + "broken_layers";
  const std::string folder = home + "/vulkan/implicit_layer.d";
  std::filesystem::create_directories(folder);
  const auto open_and_exit = [&](const std::string& part) {
    setenv("XDG_DATA_HOME", home.c_str(), 1);
    const Status status = OpenVulkanDriver().status();
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::exit(status.code() == StatusCode::kUnavailable &&
                      status.message().find("/one.json'" + part) != std::string::npos
                  ? 0
                  : 1);
  };
  std::ofstream(folder + "/one.json") << "{\"layer\": ";
  EXPECT_EXIT(open_and_exit(" is broken: it is no JSON."), testing::ExitedWithCode(0), "");
  std::ofstream(folder + "/one.json") << R"({"file_format_version": "1.0.0", "layers": [1]})";
  EXPECT_EXIT(open_and_exit(" of Vulkan is broken: its 'layers[]' is not of the right type."),
              testing::ExitedWithCode(0), "");
  std::filesystem::remove_all(home);
}

TEST(VulkanManifest, IsReadAsWhatItIs) {
  const Manifest whole = ReadManifest(
      R"( {"a": [1, {"library_path": 7}, "x\"}"], "b": null, "ICD": {"api_version": "1.3.0",
      "library_path": "libx.so", "is_portability_driver": false}} )");
  EXPECT_EQ(whole.why_broken, "");
  EXPECT_EQ(whole.library, "libx.so");
  for (const char* text :
       {"", "{", "{\"ICD\": {\"library_path\": \"a\"}", "{} {}", "\"a", "{1: 2}", "{\"a\" 1}",
        "[1,]", "text \xff", "garbage{{", "[nul]", "{\"ICD\": ", "{\"ICD\": {\"library_path\":"}) {
    EXPECT_EQ(ReadManifest(text).why_broken, "it is no JSON") << text;
    EXPECT_FALSE(ReadManifest(text).is_deadly) << text;
  }
  for (const char* text : {"{}", "[]", "5", "{\"ICD\": {}}"}) {
    EXPECT_EQ(ReadManifest(text).why_broken, "it names no library") << text;
  }
  EXPECT_TRUE(ReadManifest("{\"ICD\": {\"library_path\": null").is_deadly);
  for (const char* deadly :
       {"[1]", "{\"functions\": []}", "{\"enable_environment\": { }}",
        "{\"disable_environment\": {\"a\": 5}}", "{\"device_extensions\": [[]]}"}) {
    EXPECT_TRUE(ReadManifest("{\"layer\": " + std::string(deadly) + "}").is_deadly) << deadly;
    EXPECT_TRUE(ReadManifest("{\"layers\": [" + std::string(deadly) + "]}").is_deadly) << deadly;
  }
  EXPECT_FALSE(ReadManifest(R"({"layer": {"functions": {}, "enable_environment": {"a": "1"},
      "device_extensions": [{"name": "x"}], "functionsOf": 5}})")
                   .is_deadly);
}

TEST_F(VulkanLoaderTest, ManifestThatIsNoJson) {
  const std::string path = testing::TempDir() + "torn_icd.json";
  std::ofstream(path) << "{\"file_format_version\": ";
  EXPECT_EXIT(OpenAndExit(path, "vkCreateInstance answered", "is broken: it is no JSON."),
              testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace halyard::drivers::vulkan
