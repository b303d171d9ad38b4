// SPDX-License-Identifier: Apache-2.0
// Runs SPIR-V kernels on the first Vulkan device, for tests of generated code only: no driver, one
// dispatch at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error_record.h"
#include "base/gpu_image.h"
#include "base/status.h"
#include "compiler/target/target.h"

namespace halyard::testing {

class VulkanRunner {
 public:
  // UNAVAILABLE without a loader or device.
  static Result<std::unique_ptr<VulkanRunner>> Create();
  virtual ~VulkanRunner() = default;
  // What the device has of what generated code may use.
  virtual const Target& target() const = 0;
  // Copies `buffers` to the device, runs the grid and copies them and `error` back.
  virtual Status Run(const GpuKernel& kernel, std::span<const std::span<uint8_t>> buffers,
                     std::span<const int64_t> scalars, const int64_t (&grid)[3],
                     ErrorRecord* error) = 0;
};

}  // namespace halyard::testing
