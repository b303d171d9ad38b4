// SPDX-License-Identifier: Apache-2.0
// Runs scheduled kernels on a device of this machine: with HALYARD_TEST_DEVICE=cuda:0 or vulkan:0
// in the environment, the tests of GPU schedules run on it what is scheduled for it.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compiler/schedule/schedule.h"
#include "tests/codegen/device_runner.h"

namespace halyard::schedule {

// Null where the environment names none; a test failure where it is not there.
testing::DeviceRunner* DeviceUnderTest();

// True for the examples that this process has to do: all, or those numbered `i` modulo `n` with
// HALYARD_TEST_PART=i/n.
bool IsInPart(size_t number);
// Whether that is every example.
bool IsAllParts();

// An error where a workspace that begins with zeros (Workspace::is_zero) did not end with them.
Status ZerosAgain(const ScheduledKernel& built,
                  const std::vector<std::vector<uint8_t>>& workspaces);

// Every dispatch in order; workspaces are poisoned. `size`: the value of an expression.
Status RunOnDevice(testing::DeviceRunner& device, const ScheduledKernel& built,
                   const std::function<Result<int64_t>(Expr)>& size,
                   std::vector<std::vector<uint8_t>>& buffers);

}  // namespace halyard::schedule
