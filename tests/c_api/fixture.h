// SPDX-License-Identifier: Apache-2.0
// What the C API tests share: a cache folder of their own and the stand-in for the compiler
// library.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <halyard.hpp>
#include <iterator>
#include <string>
#include <vector>

namespace halyard {

class CApiTest : public testing::Test {
 protected:
  CApiTest() {
    std::string name = testing::TempDir() + "/halyard_c_api_XXXXXX";
    folder_ = mkdtemp(name.data());
    setenv("HALYARD_COMPILER_LIBRARY", HALYARD_FAKE_COMPILER, 1);
    setenv("HALYARD_FAKE_COMPILER_LOG", Path("log").c_str(), 1);
    setenv("HALYARD_CACHE_DIR", Path("cache").c_str(), 1);
    setenv("HALYARD_FIRST_PROBE_MS", "0", 1);
  }
  ~CApiTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name), std::ios::binary) << text;
    return Path(name);
  }
  // How often the stand-in has compiled.
  size_t CompileCount() const {
    std::ifstream file(Path("log"));
    return std::string(std::istreambuf_iterator<char>(file), {}).size();
  }
  hy::Program Compile(const hy::Instance& instance, const std::string& source) const {
    hy_compile_desc desc = HY_COMPILE_DESC_INIT;
    desc.onnx_data = source.data();
    desc.onnx_size_bytes = source.size();
    return hy::Program::Compile(instance, desc);
  }
  std::string folder_;
};

inline hy_tensor F32(const std::vector<float>& values) {
  hy_tensor tensor = HY_TENSOR_INIT;
  tensor.dtype = HY_DTYPE_F32;
  tensor.rank = 1;
  tensor.dims[0] = static_cast<int64_t>(values.size());
  tensor.data = const_cast<float*>(values.data());
  tensor.size_bytes = values.size() * 4;
  return tensor;
}
inline std::vector<float> Values(const hy_tensor& tensor) {
  const auto* data = static_cast<const float*>(tensor.data);
  return std::vector<float>(data, data + tensor.size_bytes / 4);
}
inline std::string LastError() { return hy::ToString(hy_last_error()); }

}  // namespace halyard
