// SPDX-License-Identifier: Apache-2.0
// The stand-in for libcuda as the tests of the driver see it: its knobs, and a device on it.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "drivers/cuda/driver.h"
#include "tests/drivers/cuda/fake_libcuda/control.h"
#include "base/gpu_kernel_abi.h"
#include "tests/hal/cts/cts.h"

namespace halyard::drivers::cuda {

// Functions of the library that the driver opens, found by name.
struct FakeCuda {
  template <typename T>
  static T* Find(const char* name) {
    static void* library = dlopen(HALYARD_FAKE_LIBCUDA, RTLD_NOW | RTLD_LOCAL);
    void* symbol = library ? dlsym(library, name) : nullptr;
    EXPECT_NE(symbol, nullptr) << name;
    return reinterpret_cast<T*>(symbol);
  }
#define HY_FAKE_FUNCTION(name) \
  decltype(::fake_cuda_##name)* name = Find<decltype(::fake_cuda_##name)>("fake_cuda_" #name);
  HY_FAKE_FUNCTION(fail)
  HY_FAKE_FUNCTION(has_failed)
  HY_FAKE_FUNCTION(call_count)
  HY_FAKE_FUNCTION(live_count)
  HY_FAKE_FUNCTION(reset)
  HY_FAKE_FUNCTION(set_device_count)
  HY_FAKE_FUNCTION(set_delay_us)
  HY_FAKE_FUNCTION(hold_streams)
#undef HY_FAKE_FUNCTION

  // "" when nothing is alive. The device's own threads may hold the last references for a moment.
  std::string Leaks() const {
    char text[512] = "";
    for (int i = 0; i < 10000 && live_count(text, sizeof(text)) != 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return text;
  }
};

// Sets an environment variable for as long as it lives.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() {
    if (old_.empty()) {
      unsetenv(name_);
    } else {
      setenv(name_, old_.c_str(), 1);
    }
  }

 private:
  const char* name_;
  std::string old_;
};

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
