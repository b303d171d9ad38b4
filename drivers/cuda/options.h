// SPDX-License-Identifier: Apache-2.0
// CudaOptions: the key=value pairs of a CUDA device's path.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "hal/driver.h"

namespace halyard::drivers::cuda {

struct CudaOptions {
  int64_t compute_queues = 1;  // "compute_queues": streams for kernels; queues 0 and up
  int64_t copy_queues = 1;     // "copy_queues": streams for copies; the queues after those
  int64_t memory_bytes = 0;    // "memory_bytes": limit of device memory; 0: all there is
  // "graph_commands": recordings with at least so many commands become CUDA graphs; shorter ones
  // are launched one by one, which starts sooner.
  int64_t graph_commands = 4;
  // "dependent_launch": connects kernels that wait themselves by programmatic launch edges.
  int64_t dependent_launch = 1;
  // "poll_us": how long a waiting caller asks for events before it sleeps.
  int64_t poll_us = 2000;
  // "wait_limit_s": a device that holds work and ends none for so long is lost; 0: never.
  int64_t wait_limit_s = 600;
  // HALYARD_VALIDATE: waits for each dispatch before it launches the next, so that a fault has the
  // name of the one at fault.
  bool is_serial = false;
};

// INVALID_ARGUMENT names an unknown key with those known, or a value out of range.
Result<CudaOptions> ParseCudaOptions(std::span<const hal::DeviceOption> options);

}  // namespace halyard::drivers::cuda
