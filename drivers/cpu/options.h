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
  int64_t memory_bytes = 0;  // limit of its buffers together; 0: none of ours
  int64_t spin_us = 50;      // within a run, how long a thread watches for another before it sleeps
  int64_t numa = -1;         // use this NUMA node only; -1: all
  // Test mode, on when `discrete` is not 0; its value seeds the delays. The host cannot map device
  // memory nor import its own, work starts late and in random order, one submission runs at a time
  // and parallel loops hand out one element at a time.
  int64_t discrete = 0;
  // A synthetic device: stands for an accelerator in tests of programs over several devices. The
  // host cannot map its memory nor can it import the host's, other devices reach it through staging
  // memory only, and what follows limits it. All of them share this machine's processors.
  int64_t synthetic = 0;
  int64_t speed_percent = 100;   // its kernels take 100 / speed_percent as long; of any CPU device
  int64_t link_bytes_per_s = 0;  // between its memory and staging memory, each way; 0: no limit
  int64_t link_latency_us = 0;   // of each such copy
  int64_t lose_at = 0;           // the device is lost at that queued work, counted from 1; 0: never
  uint64_t feature_mask = ~0ull;  // CpuFeature bits that may be reported; tests narrow it

  // Whether work may end later than it is done.
  bool ends_late() const { return synthetic != 0 || speed_percent != 100; }
};

// The options of each device that HALYARD_SYNTHETIC_DEVICES lists: of cpu:1, cpu:2, ...
Result<std::vector<std::vector<hal::DeviceOption>>> SyntheticDevices();

// INVALID_ARGUMENT names an unknown key or a bad value and what is allowed.
Result<CpuOptions> ParseCpuOptions(std::span<const hal::DeviceOption> options);

}  // namespace halyard::drivers::cpu
