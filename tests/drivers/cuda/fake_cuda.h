// SPDX-License-Identifier: Apache-2.0
// A device on the stand-in for libcuda, as the tests of the driver use it.
#pragma once

#include <gtest/gtest.h>

#include "base/gpu_kernel_abi.h"
#include "drivers/cuda/driver.h"
#include "tests/drivers/cuda/fake_knobs.h"
#include "tests/hal/cts/cts.h"

namespace halyard::drivers::cuda {

class FakeCudaTest : public testing::Test {
 protected:
  void SetUp() override {
    fake_.reset();
    fake_.set_device_count(1);
    fake_.set_delay_us(30);
    EXPECT_EQ(fake_.Leaks(), "");
  }
  void TearDown() override {
    fake_.hold_streams(0);
    device_.reset();
    fake_.reset();
    fake_.play("");
    fake_.set_device_count(1);
    EXPECT_EQ(fake_.Leaks(), "");
  }

  Result<Ref<hal::Device>> Open(uint32_t ordinal, std::vector<hal::DeviceOption> options = {}) {
    HY_ASSIGN(Ref<hal::Driver> driver, OpenCudaDriver());
    return driver->CreateDevice(ordinal, options);
  }
  Ref<hal::Executable> LoadKernels(const Ref<hal::Device>& device) {
    const std::vector<uint8_t> image = cts::CudaKernels().Image(device->capabilities());
    hal::ExecutableSource source;
    source.format = cts::CudaKernels().format();
    source.code = image;
    source.name = "test kernels";
    return device->LoadExecutable(source).value();
  }
  Status WaitFor(hal::Semaphore* semaphore, uint64_t value, int64_t timeout_ns = 20'000'000'000) {
    const hal::SemaphorePoint point{semaphore, value};
    return device_->Wait({&point, 1}, hal::WaitMode::kAll, timeout_ns);
  }

  ScopedVariable library_{"HALYARD_CUDA_LIBRARY", HALYARD_FAKE_LIBCUDA};
  ScopedVariable management_{"HALYARD_NVML_LIBRARY", HALYARD_FAKE_LIBCUDA};
  ScopedVariable matmuls_{"HALYARD_CUBLASLT_LIBRARY", HALYARD_FAKE_LIBCUDA};
  ScopedVariable convolutions_{"HALYARD_CUDNN_LIBRARY", HALYARD_FAKE_LIBCUDA};
  FakeCuda fake_;
  Ref<hal::Device> device_;
};

// A dispatch of add_scalar (entry 0), for `bindings` in and out.
inline hal::DispatchCommand AddCommand(hal::Executable* executable,
                                       const hal::CommandRange (&bindings)[2],
                                       const int64_t& scalar, int64_t count,
                                       std::string_view label = "add") {
  hal::DispatchCommand command;
  command.executable = executable;
  command.grid[0] = count;
  command.bindings = bindings;
  command.scalars = {&scalar, 1};
  command.label = label;
  return command;
}

}  // namespace halyard::drivers::cuda
