// SPDX-License-Identifier: Apache-2.0
// The knobs of the stand-in for libcuda, found in the library that the driver opens, and the
// environment variable that makes it open that one.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/drivers/cuda/fake_libcuda/control.h"

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
  HY_FAKE_FUNCTION(play)
#undef HY_FAKE_FUNCTION
  decltype(::fake_cublaslt_set_version)* set_cublaslt_version =
      Find<decltype(::fake_cublaslt_set_version)>("fake_cublaslt_set_version");
  decltype(::fake_cudnn_set_version)* set_cudnn_version =
      Find<decltype(::fake_cudnn_set_version)>("fake_cudnn_set_version");

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

}  // namespace halyard::drivers::cuda
