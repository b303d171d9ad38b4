// SPDX-License-Identifier: Apache-2.0
// What can be chosen when the CPU device is opened.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "hal/driver.h"

namespace halyard::drivers::cpu {

struct CpuOptions {
  int64_t threads =
      0;  // tasks run at once; 0: as many as the machine allows; more is cut down to that
  int64_t queues = 8;        // lanes for independent submissions
  int64_t memory_bytes = 0;  // limit of all buffers together; 0: none of ours
  int64_t spin_us = 50;      // within a run, how long a thread watches for another before it sleeps
  int64_t numa = -1;         // use this NUMA node only; -1: all
  // Test mode, on when `discrete` is not 0; its value seeds the delays. The host cannot map device
  // memory nor import its own, work starts late and in random order, one submission runs at a time
  // and parallel loops hand out one element at a time.
  int64_t discrete = 0;
  uint64_t feature_mask = ~0ull;  // CpuFeature bits that may be reported; tests narrow it
};

// INVALID_ARGUMENT names an unknown key or a bad value and what is allowed.
Result<CpuOptions> ParseCpuOptions(std::span<const hal::DeviceOption> options);

}  // namespace halyard::drivers::cpu
