// SPDX-License-Identifier: Apache-2.0
// What the end-to-end tests share: a folder of their own, models written into it, the real compiler
// through the C interface, and the command.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <halyard.hpp>
#include <string>
#include <vector>

#include "tests/compiler/import/model_writer.h"
#include "tests/run_command.h"

namespace halyard {

class EndToEnd : public testing::Test {
 protected:
  EndToEnd() {
    std::string name = testing::TempDir() + "/halyard_end_to_end_XXXXXX";
    folder_ = mkdtemp(name.data());
    setenv("HALYARD_CACHE_DIR", (folder_ + "/cache").c_str(), 1);
    setenv("HALYARD_FIRST_PROBE_MS", "0", 1);
    instance_ = hy::Instance::Create();
  }
  ~EndToEnd() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
    return Path(name);
  }

  // Compiles a file without timing anything; throws hy::Error.
  hy::Program CompileFile(const std::string& path) const {
    hy_compile_desc desc = HY_COMPILE_DESC_INIT;
    desc.onnx_path = hy::View(path);
    desc.disable_tuning = 1;
    return hy::Program::Compile(instance_, desc);
  }
  hy::Program Compile(const onnx::testing::Message& model) const {
    return CompileFile(Write("model.onnx", model.str()));
  }

  // For one device and nothing else, past the cache, timing nothing unless told to; throws
  // hy::Error.
  hy::Program CompileFor(const hy::Device& device, const onnx::testing::Message& model,
                         hy_policy on_unsupported_op = HY_POLICY_ERROR,
                         hy_precision precision = HY_PRECISION_AS_GIVEN,
                         hy_precision io_precision = HY_PRECISION_AS_GIVEN,
                         bool tunes = false) const {
    const std::string path = Write("model.onnx", model.str());
    hy_device_t* raw = device.get();
    hy_compile_desc desc = HY_COMPILE_DESC_INIT;
    desc.onnx_path = hy::View(path);
    desc.devices = &raw;
    desc.device_count = 1;
    desc.disable_tuning = tunes ? 0 : 1;
    desc.disable_cache = 1;
    desc.on_unsupported_op = on_unsupported_op;
    desc.precision = precision;
    desc.io_precision = io_precision;
    return hy::Program::Compile(instance_, desc);
  }

  // Runs the command in the folder; returns all that it wrote, sets status_.
  std::string Run(const std::string& arguments) { return RunCommand(folder_, arguments, &status_); }

  std::string folder_;
  hy::Instance instance_;
  int status_ = -1;
};

template <typename T>
hy_tensor TensorOf(hy_dtype dtype, const std::vector<int64_t>& dims, const std::vector<T>& values) {
  hy_tensor tensor = HY_TENSOR_INIT;
  tensor.dtype = dtype;
  tensor.rank = static_cast<uint32_t>(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) tensor.dims[d] = dims[d];
  tensor.data = const_cast<T*>(values.data());
  tensor.size_bytes = values.size() * sizeof(T);
  return tensor;
}
template <typename T>
std::vector<T> ValuesOf(const hy_tensor& tensor) {
  const auto* data = static_cast<const T*>(tensor.data);
  return std::vector<T>(data, data + tensor.size_bytes / sizeof(T));
}
inline std::string LastError() { return hy::ToString(hy_last_error()); }

}  // namespace halyard
