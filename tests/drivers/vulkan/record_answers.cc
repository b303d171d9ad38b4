// SPDX-License-Identifier: Apache-2.0
// Records what a Vulkan driver answers about a physical device, for a golden test to hear again
// (recordings/).
//
// usage: record_vulkan_answers [ORDINAL] > recordings/NAME.txt
#include <cstdio>
#include <cstdlib>

#include "drivers/vulkan/instance.h"
#include "tests/drivers/vulkan/recording.h"

int main(int argc, char** argv) {
  using namespace halyard::drivers::vulkan;
  const auto instance = VulkanInstance::Get();
  if (!instance.ok()) {
    std::fprintf(stderr, "%s\n", instance.status().ToString().c_str());
    return 1;
  }
  const auto& devices = (*instance)->devices();
  const size_t ordinal = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 0;
  if (ordinal >= devices.size()) {
    std::fprintf(stderr, "There are %zu devices.\n", devices.size());
    return 1;
  }
  std::fputs(RecordPhysicalDevice(devices[ordinal].handle).Format().c_str(), stdout);
  return 0;
}
