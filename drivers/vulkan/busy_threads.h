// SPDX-License-Identifier: Apache-2.0
// At the end of the process the Vulkan loader and the drivers destroy what they hold, on the thread
// that called exit. A thread of ours that is still giving up a device would then work on destroyed
// locks. So threads say when they are busy, and exit waits for those, for two seconds at most;
// sleeping ones are not waited for.
#pragma once

namespace halyard::drivers::vulkan {

// The calling thread is busy while one of these lives, but for the time between Rest and Resume.
// Once per thread.
class BusyThread {
 public:
  BusyThread();
  ~BusyThread();
  BusyThread(const BusyThread&) = delete;
  BusyThread& operator=(const BusyThread&) = delete;

  static void Rest();
  static void Resume();
};

}  // namespace halyard::drivers::vulkan
