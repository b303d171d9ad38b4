// SPDX-License-Identifier: Apache-2.0
// A committed model with weights that cost nothing, for tests that compile it and never run it.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/status.h"

namespace halyard {

// A folder with model.onnx and weights.bin; removed at the end. The weights are zero but for the
// first element of each tensor, which tells tensors apart so that no two are taken for one.
class ModelFolder {
 public:
  explicit ModelFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("halyard_model_{}_{}", name, getpid())) {
    const std::filesystem::path source =
        std::filesystem::path(HALYARD_SOURCE_DIR) / "tests/models" / name;
    std::filesystem::create_directories(path_);
    std::filesystem::copy_file(source / "model.onnx", path_ / "model.onnx",
                               std::filesystem::copy_options::overwrite_existing);
    std::ofstream weights(path_ / "weights.bin", std::ios::binary);
    std::ifstream list(source / "weights.txt");
    uintmax_t size_bytes = 0;
    float number = 1;
    for (std::string line; std::getline(list, line);) {
      std::istringstream words(line);
      std::string kind;
      int64_t fan_in = 0, offset = 0;
      words >> kind;
      if (kind == "bytes") words >> size_bytes;
      if (kind == "bytes" || kind == "#" || !(words >> fan_in >> offset)) continue;
      weights.seekp(offset);
      weights.write(reinterpret_cast<const char*>(&number), sizeof number);
      number += 1;
    }
    weights.close();
    std::filesystem::resize_file(path_ / "weights.bin", size_bytes);  // the rest reads as zeros
  }
  ~ModelFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string model() const { return path_ / "model.onnx"; }

 private:
  std::filesystem::path path_;
};

}  // namespace halyard
