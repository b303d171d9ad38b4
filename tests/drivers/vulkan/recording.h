// SPDX-License-Identifier: Apache-2.0
// Recording: what a Vulkan driver answers about one physical device, as text: a line for each call
// and structure, "call = words", each word a hexadecimal number of 32 bits. A program records them
// (record_answers.cc), and tests hear them again without the device.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "drivers/vulkan/physical_device.h"

namespace halyard::drivers::vulkan {

class Recording {
 public:
  static Recording Parse(std::string_view text);
  std::string Format() const;

  // What follows " = "; null without such a line.
  const std::string* Find(std::string_view call) const;
  void Add(std::string call, std::string answer);
  // In the place of the line that is there.
  void Replace(std::string_view call, std::string answer);

 private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

// Until it is destroyed the instance's functions that PhysicalDevice and MemoryPools call are ours.
// One at a time, and no other thread may use Vulkan meanwhile.
class Tap {
 public:
  enum class Use {
    kRecord,  // they ask the driver and add what it answers
    kPlay,    // they answer what was recorded, for every handle, and zero where nothing was
  };
  Tap(Recording* recording, Use use);
  ~Tap();
  Tap(const Tap&) = delete;
  Tap& operator=(const Tap&) = delete;
};

// Asks everything that the driver of Halyard asks about a device. The result has a made-up UUID.
Recording RecordPhysicalDevice(VkPhysicalDevice handle);

}  // namespace halyard::drivers::vulkan
