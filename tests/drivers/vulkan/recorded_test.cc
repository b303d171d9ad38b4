// SPDX-License-Identifier: Apache-2.0
// What recorded devices are said to be, from the answers of their drivers; and that a recording
// tells the same as the device.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "drivers/vulkan/capabilities.h"
#include "drivers/vulkan/device.h"
#include "drivers/vulkan/instance.h"
#include "tests/drivers/golden.h"
#include "tests/drivers/vulkan/recording.h"
#include "tests/drivers/vulkan/vulkan_fixture.h"

namespace halyard::drivers::vulkan {
namespace {

constexpr uint32_t kMostLanes = 4;  // as a device takes without options

// A buffer that can live in any memory.
void AnswerForBuffers(DeviceFunctions* vk) {
  vk->vkCreateBuffer = [](VkDevice, const VkBufferCreateInfo*, const VkAllocationCallbacks*,
                          VkBuffer*) -> VkResult { return VK_SUCCESS; };
  vk->vkGetBufferMemoryRequirements = [](VkDevice, VkBuffer, VkMemoryRequirements* out) {
    out->memoryTypeBits = ~0u;
  };
  vk->vkDestroyBuffer = [](VkDevice, VkBuffer, const VkAllocationCallbacks*) {};
}

// Known fields, features and notes, without what sysfs of this machine says about the address.
std::string DescribeRecording(Recording recording) {
  const Tap tap(&recording, Tap::Use::kPlay);
  int any = 0;
  const PhysicalDevice physical = QueryPhysicalDevice(reinterpret_cast<VkPhysicalDevice>(&any));
  EXPECT_EQ(ReasonToSkip(physical), "");
  auto handle = std::make_shared<DeviceHandle>();
  handle->physical = &physical;
  handle->compute_family = ComputeFamily(physical);
  handle->transfer_family = TransferFamily(physical);
  handle->features = FeaturesToEnable(physical);
  AnswerForBuffers(&handle->vk);
  const auto memory = Must(MemoryPools::Make(handle));
  const uint32_t lanes =
      std::min(kMostLanes, physical.queue_families[handle->compute_family].queueCount);
  const hal::Capabilities capabilities = DescribeVulkan(*handle, *memory, lanes, 0);
  std::string text = FormatFields(
      capabilities, [](const hal::FieldView& field) { return field.source != hal::Source::kOs; });
  const std::string reason = ReasonToLeaveOut(physical);
  if (!reason.empty()) text += "auto leaves it out: " + reason + "\n";
  for (const std::string& feature : capabilities.features) text += "feature: " + feature + "\n";
  for (const std::string& note : capabilities.notes) text += "note: " + note + "\n";
  return text;
}

Recording RecordingOf(const std::string& name) {
  std::stringstream text;
  text << std::ifstream(HALYARD_SOURCE_DIR "/tests/drivers/vulkan/recordings/" + name).rdbuf();
  return Recording::Parse(text.str());
}

TEST(VulkanRecorded, Goldens) {
  int count = 0;
  const std::string folder = HALYARD_SOURCE_DIR "/tests/drivers/vulkan/recordings";
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".txt") continue;
    const std::string name = file.path().stem().string();
    SCOPED_TRACE(name);
    ++count;
    ExpectGolden("tests/drivers/vulkan/recordings/" + name + ".golden",
                 DescribeRecording(RecordingOf(name + ".txt")));
  }
  EXPECT_GT(count, 0);
}

// Products of any size (VK_NV_cooperative_matrix2), without those of types that no kernel has and
// those that saturate.
TEST(VulkanRecorded, FlexibleProductsAreListed) {
  Recording recording = RecordingOf("h200.txt");
  const std::string call = "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV";
  const auto answer = [&](const std::string& line, const std::string& words) {
    recording.Find(line) ? recording.Replace(line, words) : recording.Add(line, words);
  };
  const char* const rows[] = {"20 20 10 0 0 1 1 0 2 80",   // f16, of a workgroup of 128
                              "10 8 20 3 3 5 5 0 3 0",     // i8, of a subgroup
                              "10 8 20 3 3 5 5 1 3 0",     // saturates
                              "10 10 10 4 4 5 5 0 2 80"};  // i16
  answer(call, "4");
  for (int i = 0; i < 4; ++i) answer(fmt::format("{} {}", call, i), rows[i]);
  const std::string text = DescribeRecording(std::move(recording));
  EXPECT_THAT(text, testing::HasSubstr("flexible_matrices[0].shape = 32x32x16 f16 -> f32 (api)\n"
                                       "flexible_matrices[0].scope = workgroup (api)\n"
                                       "flexible_matrices[0].workgroup_size = 128 (api)\n"
                                       "flexible_matrices[1].shape = 16x8x32 i8 -> i32 (api)\n"
                                       "flexible_matrices[1].scope = subgroup (api)\n"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("flexible_matrices[2]")));
}

// A board that the table does not have is no error: its cache is unknown, with the reason.
TEST(VulkanRecorded, ACacheIsOfAKnownBoardOrUnknown) {
  Recording recording = RecordingOf("h200.txt");
  EXPECT_THAT(DescribeRecording(recording),
              testing::HasSubstr("caches[0].size_bytes = 62914560 (table)\n"));
  for (const char* call :
       {"vkGetPhysicalDeviceProperties", "vkGetPhysicalDeviceProperties2 1000059001"}) {
    std::string answer = *recording.Find(call);
    answer.replace(answer.find(" 2335 "), 6, " 1234 ");
    recording.Replace(call, answer);
  }
  const std::string text = DescribeRecording(recording);
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("caches[")));
  EXPECT_THAT(text, testing::HasSubstr("note: The chip and the size of its second-level cache are "
                                       "unknown: Vulkan tells neither, and the table has no board "
                                       "10de:1234.\n"));
}

// Every number that the driver gives comes back from the text; only the UUID is made up, and
// memory that is free now may not be free any more.
TEST(VulkanRecorded, TellsWhatTheDeviceTells) {
  const auto instance = VulkanInstance::Get();
  ASSERT_TRUE(instance.ok()) << instance.status().ToString();
  const PhysicalDevice& device = (*instance)->devices().at(0);
  Recording recording = RecordPhysicalDevice(device.handle);
  recording = Recording::Parse(recording.Format());
  const Tap tap(&recording, Tap::Use::kPlay);
  const PhysicalDevice heard = QueryPhysicalDevice(device.handle);
  EXPECT_EQ(heard.name(), device.name());
  EXPECT_EQ(heard.extensions, device.extensions);
  EXPECT_EQ(heard.pci_address, device.pci_address);
  EXPECT_EQ(heard.max_subgroup_size, device.max_subgroup_size);
  EXPECT_EQ(heard.import_alignment, device.import_alignment);
  EXPECT_EQ(heard.max_buffer_bytes, device.max_buffer_bytes);
  EXPECT_EQ(heard.queue_families.size(), device.queue_families.size());
  EXPECT_EQ(heard.matrix_shapes.size(), device.matrix_shapes.size());
  EXPECT_EQ(heard.flexible_shapes.size(), device.flexible_shapes.size());
  EXPECT_EQ(std::memcmp(&heard.properties, &device.properties, sizeof(device.properties)), 0);
  EXPECT_EQ(std::memcmp(&heard.memory, &device.memory, sizeof(device.memory)), 0);
  EXPECT_STREQ(heard.v12.driverInfo, device.v12.driverInfo);
  EXPECT_EQ(std::memcmp(&heard.features.base.features, &device.features.base.features,
                        sizeof(VkPhysicalDeviceFeatures)),
            0);
  EXPECT_EQ(FormatUuid(heard.v11.deviceUUID), "00112233-4455-6677-8899-aabbccddeeff");
  EXPECT_EQ(heard.v11.subgroupSize, device.v11.subgroupSize);
  EXPECT_EQ(heard.v11.maxMemoryAllocationSize, device.v11.maxMemoryAllocationSize);
}

}  // namespace
}  // namespace halyard::drivers::vulkan
