// SPDX-License-Identifier: Apache-2.0
// Runs kernels of an image on a device of the HAL, one dispatch at a time, for tests of generated
// code.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/kernel/kernel_ir.h"
#include "compiler/target/target.h"
#include "hal/device.h"
#include "hal/executable.h"

namespace halyard::testing {

class DeviceRunner {
 public:
  // The failure of opening the device where it is not there.
  static Result<std::unique_ptr<DeviceRunner>> Open(const std::string& path);

  const Target& target() const { return target_; }
  // The device's name, such as "llvmpipe (LLVM 15.0.6, 256 bits)".
  std::string device_name() const;

  // Compiles the module for the device and loads it; replaces what was loaded.
  Status Load(const kernel::Module& module);
  // Copies `buffers` to the device, runs the grid of the loaded module's kernel and copies them
  // back. The failure that the kernel reports comes back after that.
  Status Run(uint32_t kernel, std::span<const std::span<uint8_t>> buffers,
             std::span<const int64_t> scalars, const int64_t (&grid)[3]);
  const hal::ExecutableEntry& entry(uint32_t kernel) const {
    return executable_->entries()[kernel];
  }

 private:
  Ref<hal::Device> device_;
  Target target_;
  Ref<hal::Executable> executable_;
  Ref<hal::Buffer> memory_;
  Ref<hal::Buffer> staging_;
  Ref<hal::Semaphore> semaphore_;
};

}  // namespace halyard::testing
