// SPDX-License-Identifier: Apache-2.0
// Runs every schedule of every kernel of a loop function for GPU targets: built, verified, run in
// the Kernel IR interpreter (which finds races, divergence and what is read before it was written)
// over poisoned outputs, and compared with a direct evaluation of the loops in double; or on a
// device (run_on_device.h).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/schedule/schedule.h"
#include "compiler/target/target.h"
#include "tests/codegen/schedule/check_schedules.h"

namespace halyard::schedule {

// "cuda-sm75", ..., "vulkan-8", "vulkan-32", and "vulkan-32-matrix": with f16 and bf16 matrix units
// and 48 KiB of workgroup memory; "cuda-sm80-interpreted": as a stand-in, whose code is Kernel IR.
Target GpuTargetOf(std::string_view name);

struct GpuCheck {
  std::vector<std::string> targets = {"cuda-sm75", "cuda-sm80", "vulkan-8", "vulkan-32-matrix"};
  double tolerance = 3e-5;  // |got - want| <= tolerance * (1 + |want|)
  // Only records whose text starts with one of these; empty: all.
  std::vector<std::string> kinds;
  std::vector<std::string> records;  // run instead of those that are enumerated
  // Breaks a kernel in the interpreter, which then must find a fault or get other results.
  std::function<void(kernel::Kernel&)> breaks;
  // Library records run as they say (library_call_reference.h) instead of the kernels that stand
  // in.
  bool uses_library = false;
};

// What was checked: the record's text with the target before it, and the kernel made of it.
struct GpuSeen {
  std::string target;
  ScheduleRecord record;
  ScheduledKernel built;
};

// Reports through GoogleTest; returns what it ran.
std::vector<GpuSeen> CheckGpu(std::string_view text, const Dims& dims, const GpuCheck& check = {});

// Bytes of workgroup memory of one kernel.
int64_t WorkgroupBytes(const kernel::Kernel& kernel);

}  // namespace halyard::schedule
