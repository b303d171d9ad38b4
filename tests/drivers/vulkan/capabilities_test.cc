// SPDX-License-Identifier: Apache-2.0
// What lavapipe, Mesa's Vulkan on the processor, is said to be: one golden text for each of its
// versions.
#include "drivers/vulkan/capabilities.h"

#include <algorithm>
#include <filesystem>

#include "tests/drivers/golden.h"
#include "tests/drivers/vulkan/vulkan_fixture.h"

namespace halyard::drivers::vulkan {
namespace {

using VulkanCapabilitiesTest = VulkanTest;

// Not of the machine that runs the test: the vectors that LLVM takes on its processor, its free
// memory, and the build of Mesa. The heap has one size everywhere.
bool IsOfLavapipe(const hal::FieldView& field) {
  for (const char* name :
       {"identity.name", "identity.uuid", "compute.subgroup_size_min", "compute.subgroup_size_max",
        "memory.available_bytes", "heaps[0].budget_bytes", "tools.pipeline_cache_uuid"}) {
    if (field.name == name) return false;
  }
  return true;
}

TEST_F(VulkanCapabilitiesTest, GoldenOfLavapipe) {
  Use();
  const hal::Capabilities& capabilities = device_->capabilities();
  const std::string name = capabilities.identity.name.ValueOr("");
  if (!name.starts_with("llvmpipe")) GTEST_SKIP() << "'vulkan:0' is " << name;
  // "Mesa 22.3.6 (LLVM 15.0.6)"
  std::string version = capabilities.identity.driver_version.ValueOr("");
  version = version.substr(0, version.find(" ("));
  std::replace(version.begin(), version.end(), ' ', '_');
  const std::string golden = "tests/drivers/vulkan/goldens/lavapipe_" + version + ".txt";
  if (!EnvFlag(EnvVar::kBless) && !std::filesystem::exists(HALYARD_SOURCE_DIR "/" + golden)) {
    GTEST_SKIP() << "there is no " << golden << "; HALYARD_BLESS=1 writes it";
  }
  std::string text = FormatFields(capabilities, IsOfLavapipe);
  for (const std::string& feature : capabilities.features) text += "feature: " + feature + "\n";
  for (const std::string& note : capabilities.notes) text += "note: " + note + "\n";
  ExpectGolden(golden, text);
  // What the golden leaves out is known all the same.
  EXPECT_GT(capabilities.memory.available_bytes.ValueOr(0), 0);
  EXPECT_GT(capabilities.compute.subgroup_size_max.ValueOr(0), 0);
  EXPECT_TRUE(capabilities.identity.uuid.known());
}

}  // namespace
}  // namespace halyard::drivers::vulkan
