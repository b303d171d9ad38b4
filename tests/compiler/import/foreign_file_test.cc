// SPDX-License-Identifier: Apache-2.0
// Files that are no ONNX models, and what the error calls them.
#include "compiler/import/foreign_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/import/onnx_import.h"
#include "tests/compiler/import/model_writer.h"

namespace halyard::onnx {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string MessageOf(std::string_view bytes) {
  const auto module = ImportOnnxBytes(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, {}, nullptr, nullptr, "file");
  return module.ok() ? "it was read" : module.status().ToLine();
}

TEST(ForeignFile, IsCalledWhatItIs) {
  using namespace std::string_literals;
  const std::string header = R"({"weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  std::string safetensors(8, '\0');
  safetensors[0] = static_cast<char>(header.size());
  safetensors += header + "\0\0\0\0"s;
  const std::pair<std::string, const char*> files[] = {
      {"", "empty"},
      {"HALYPROG\x01\0\0\0"s, "a compiled program of Halyard"},
      {"PK\x03\x04\x14\0\0\0"s, "a ZIP archive, as PyTorch (.pt, .pth)"},
      {"\x80\x02}q\0X"s, "a Python pickle, as older versions of PyTorch"},
      {safetensors, "a safetensors file"},
      {"GGUF\x03\0\0\0"s, "a GGUF file"},
      {"\x93NUMPY\x01\0v\0"s, "a NumPy array"},
      {"\x1c\0\0\0TFL3\x14\0"s, "a TensorFlow Lite model"},
      {"\x89HDF\r\n\x1a\n"s, "an HDF5 file"},
      {"\x1f\x8b\x08\0"s, "a gzip archive"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a pointer of Git LFS"},
      {"<!DOCTYPE html>\n<html>", "a page of HTML"},
      {"  {\"format\": 1}", "JSON"},
      {"ir_version: 8\nproducer_name: \"x\"\n", "text"},
      {std::string(100, '\0'), "all zeros"},
  };
  for (const auto& [bytes, what] : files) {
    const std::string message = MessageOf(bytes);
    EXPECT_THAT(message, StartsWith(std::string("file: The file is no ONNX model but ") + what));
    EXPECT_THAT(message,
                HasSubstr("ONNX models and programs that `halyard compile` writes are read."));
  }
}

TEST(ForeignFile, OthersAreToldApartFromDamagedModels) {
  EXPECT_THAT(MessageOf("\x93\x01\x02\x03"),
              StartsWith("file: The file is no ONNX model (Wire type 3"));
  const std::string model = testing::ModelOf({{testing::Node("Relu", {"x"}, {"y"}, {}, "n")},
                                              {},
                                              {testing::ValueInfo("x", 1, {2})},
                                              {testing::ValueInfo("y", 1, {2})}})
                                .str();
  EXPECT_EQ(MessageOf(model), "it was read");
  EXPECT_THAT(MessageOf(model.substr(0, model.size() / 2)),
              StartsWith("file: The ONNX model is damaged or cut off: "));
}

}  // namespace
}  // namespace halyard::onnx
