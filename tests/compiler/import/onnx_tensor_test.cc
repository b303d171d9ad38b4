// SPDX-License-Identifier: Apache-2.0
// TensorProtos as bytes: every encoding of values, sizes that lie, and external data.
#include "compiler/import/onnx_tensor.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "compiler/graph/constants.h"
#include "tests/compiler/import/model_writer.h"

namespace halyard::onnx {
namespace {

using testing::Message;

Result<TensorBytes> Resolve(const Message& message, ExternalFiles* external = nullptr) {
  const auto& text = message.str();
  const auto source = graph::OwnBytes(std::vector<uint8_t>(text.begin(), text.end()));
  HY_ASSIGN(const TensorProto proto, ReadTensor(*source));
  return ResolveTensor(proto, "Tensor 't'", source, external);
}

std::vector<uint8_t> BytesOf(const Result<TensorBytes>& tensor) {
  if (!tensor.ok()) {
    ADD_FAILURE() << tensor.status().ToString();
    return {};
  }
  auto bytes = graph::ReadAll(*tensor->bytes, 1 << 20);
  return bytes.ok() ? *bytes : std::vector<uint8_t>();
}

Message Tensor(int type, const std::vector<int64_t>& dims) {
  Message t;
  for (const int64_t d : dims) t.Varint(1, static_cast<uint64_t>(d));
  return t.Varint(2, static_cast<uint64_t>(type));
}

std::string Packed(const std::vector<int64_t>& values) {
  Message m;
  for (const int64_t v : values) m.Raw(static_cast<uint64_t>(v));
  return m.str();
}

TEST(ResolveTensor, DecodesTypedData) {
  using Bytes = std::vector<uint8_t>;
  EXPECT_EQ(BytesOf(Resolve(Tensor(7, {2}).Text(7, Packed({-1, 5})))),
            (Bytes{255, 255, 255, 255, 255, 255, 255, 255, 5, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(BytesOf(Resolve(Tensor(6, {2}).Text(5, Packed({-2, 258})))),
            (Bytes{254, 255, 255, 255, 2, 1, 0, 0}));
  EXPECT_EQ(BytesOf(Resolve(
                Tensor(3, {3}).Varint(5, static_cast<uint64_t>(-1)).Varint(5, 2).Varint(5, 3))),
            (Bytes{255, 2, 3}));
  // Half floats travel as the 16 bits in an int32.
  EXPECT_EQ(BytesOf(Resolve(Tensor(10, {2}).Text(5, Packed({0x3c00, 0xc000})))),
            (Bytes{0, 0x3c, 0, 0xc0}));
  EXPECT_EQ(BytesOf(Resolve(Tensor(12, {1}).Text(11, Packed({0xffffffff})))),
            (Bytes{255, 255, 255, 255}));
  // 4-bit values: two in a byte, the low one first; three need two bytes.
  EXPECT_EQ(BytesOf(Resolve(Tensor(22, {3}).Text(5, Packed({0x21, 0x0f})))), (Bytes{0x21, 0x0f}));
  // Bools become 0 or 1.
  EXPECT_EQ(BytesOf(Resolve(Tensor(9, {3}).Text(9, std::string("\x00\x02\x01", 3)))),
            (Bytes{0, 1, 1}));
  const auto one = std::bit_cast<std::array<uint8_t, 4>>(1.0f);
  EXPECT_EQ(BytesOf(Resolve(Tensor(1, {}).Float(4, 1.0f))), Bytes(one.begin(), one.end()));
  EXPECT_EQ(BytesOf(Resolve(Tensor(1, {0, 3}))), Bytes());
}

TEST(ResolveTensor, RefusesWhatDoesNotFit) {
  struct Case {
    Message tensor;
    StatusCode code;
    std::string_view message;
  };
  const int64_t huge = int64_t{1} << 40;
  const Case cases[] = {
      {Tensor(1, {2}).Text(9, "1234"), StatusCode::kInvalidArgument,
       "Tensor 't' has 4 bytes of raw data; its type and shape need 8."},
      {Tensor(1, {-1}).Text(9, ""), StatusCode::kInvalidArgument,
       "Tensor 't' has a dimension of -1."},
      {Tensor(1, {huge, huge}).Text(9, ""), StatusCode::kOutOfRange,
       "Tensor 't' has more elements than the limit of 1099511627776."},
      {Tensor(7, {huge / 8}).Text(7, Packed({1})), StatusCode::kInvalidArgument,
       "Tensor 't' needs 137438953472 values in int64_data; it has 1 byte of them."},
      {Tensor(7, {1}).Text(7, Packed({1, 2})), StatusCode::kInvalidArgument,
       "Tensor 't' has more values in int64_data than the 1 that its shape needs."},
      {Tensor(7, {2}).Text(7, Packed({300})), StatusCode::kInvalidArgument,
       "Tensor 't' has 1 value in int64_data; its shape needs 2."},
      {Tensor(1, {2}).Float(4, 1.0f), StatusCode::kInvalidArgument,
       "Tensor 't' has 4 bytes of values; its type and shape need 8."},
      {Tensor(8, {1}), StatusCode::kUnimplemented, "Element type string (8) is not supported."},
      {Tensor(77, {1}), StatusCode::kInvalidArgument,
       "Element type 77 is not one of ONNX's 1 to 28."},
      {Tensor(1, std::vector<int64_t>(65, 1)), StatusCode::kOutOfRange,
       "Tensor 't' has 65 dimensions; the limit is 64."},
      {Tensor(1, {1}).Varint(14, 1).Sub(13, Message().Text(1, "location").Text(2, "w.bin")),
       StatusCode::kInvalidArgument,
       "Tensor 't' has external data in 'w.bin'; a single tensor file cannot have any."},
      {Tensor(1, {1}).Varint(14, 2), StatusCode::kInvalidArgument,
       "Tensor 't' has data location 2; it must be 0 or 1."},
  };
  for (const Case& test : cases) {
    const auto tensor = Resolve(test.tensor);
    ASSERT_FALSE(tensor.ok());
    EXPECT_EQ(tensor.status().code(), test.code);
    EXPECT_EQ(tensor.status().message(), test.message);
  }
}

class ExternalData : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ =
        std::filesystem::temp_directory_path() / ("halyard_external_" + std::to_string(::getpid()));
    std::filesystem::create_directories(root_ / "model" / "weights");
    std::ofstream(root_ / "model" / "weights" / "w.bin", std::ios::binary) << "0123456789abcdef";
    std::ofstream(root_ / "secret.bin", std::ios::binary) << "0123456789abcdef";
    std::filesystem::create_symlink(root_ / "secret.bin", root_ / "model" / "out.bin");
    std::filesystem::create_symlink("weights/w.bin", root_ / "model" / "in.bin");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  Result<TensorBytes> Read(std::string_view location, std::string_view offset = "4",
                           std::string_view length = "8") {
    Message t = Tensor(1, {2}).Varint(14, 1);
    t.Sub(13, Message().Text(1, "location").Text(2, location));
    t.Sub(13, Message().Text(1, "offset").Text(2, offset));
    if (!length.empty()) t.Sub(13, Message().Text(1, "length").Text(2, length));
    ExternalFiles files((root_ / "model").string(), model_);
    return Resolve(t, &files);
  }
  std::string model_;  // the path of the model's file; empty: it is bytes
  std::filesystem::path root_;
};

TEST_F(ExternalData, IsReadBelowTheFolder) {
  for (const char* location : {"weights/w.bin", "./weights/w.bin", "in.bin"}) {
    const std::vector<uint8_t> bytes = BytesOf(Read(location));
    EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "456789ab") << location;
  }
  EXPECT_TRUE(Read("weights/w.bin", "8", "").ok());
}

TEST_F(ExternalData, IsRefusedElsewhere) {
  struct Case {
    const char* location;
    const char* offset;
    const char* length;
    std::string_view message;
  };
  const Case cases[] = {
      {"/etc/passwd", "0", "8", "External data location '/etc/passwd' is not a relative path."},
      {"", "0", "8", "External data location '' is not a relative path."},
      {"../secret.bin", "0", "8",
       "External data location '../secret.bin' leaves the folder of the model."},
      {"weights/../../secret.bin", "0", "8",
       "External data location 'weights/../../secret.bin' leaves the folder of the model."},
      {"out.bin", "0", "8",
       "External data location 'out.bin' is a link that leaves the folder of the model; it could "
       "lead out only if the model's file were a link into the same folder."},
      {"gone.bin", "0", "8", "External data file 'gone.bin' is not in the folder of the model."},
      {"weights", "0", "8", "'weights' is not a regular file."},
      {"weights/w.bin", "12", "8",
       "Tensor 't' needs bytes 12 to 12 + 8 of 'weights/w.bin', which has 16 bytes."},
      {"weights/w.bin", "9223372036854775807", "8",
       "Tensor 't' needs bytes 9223372036854775807 to 9223372036854775807 + 8 of 'weights/w.bin', "
       "which has 16 "
       "bytes."},
      {"weights/w.bin", "-1", "8",
       "Tensor 't' has external data with offset '-1'; it must be a number of at least 0."},
      {"weights/w.bin", "0", "12",
       "Tensor 't' has external data of 12 bytes; its type and shape need 8."},
  };
  for (const Case& test : cases) {
    const auto tensor = Read(test.location, test.offset, test.length);
    ASSERT_FALSE(tensor.ok()) << test.location;
    EXPECT_EQ(tensor.status().message(), test.message);
  }
}

// As a cache that keeps files by their hashes holds a model: all its files are links into one
// folder.
TEST_F(ExternalData, IsALinkWhereTheModelIsALinkIntoTheSameFolder) {
  const std::filesystem::path blobs = root_ / "blobs", model = root_ / "model";
  std::filesystem::create_directories(blobs / "inner");
  for (const char* name : {"1a", "2b", "inner/3c"})
    std::ofstream(blobs / name, std::ios::binary) << "0123456789abcdef";
  std::filesystem::create_symlink("../blobs/2b", model / "model.onnx_data");
  std::filesystem::create_symlink("../../blobs/2b", model / "weights" / "far.bin");
  std::filesystem::create_symlink("../blobs/inner/3c", model / "deep.bin");
  std::filesystem::create_directory_symlink("../blobs", model / "folder");
  std::filesystem::create_symlink("../blobs/1a", model / "linked.onnx");
  std::filesystem::create_symlink("linked.onnx", model / "twice.onnx");
  std::filesystem::create_directory_symlink("model", root_ / "main");
  std::ofstream(model / "real.onnx") << "";
  for (const char* path : {"model/linked.onnx", "model/twice.onnx", "main/linked.onnx"}) {
    model_ = (root_ / path).string();
    for (const char* location : {"model.onnx_data", "weights/far.bin", "folder/2b", "in.bin"}) {
      const std::vector<uint8_t> bytes = BytesOf(Read(location));
      EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "456789ab") << path << ' ' << location;
    }
    EXPECT_EQ(Read("../blobs/2b").status().message(),
              "External data location '../blobs/2b' leaves the folder of the model.");
    for (const char* location : {"out.bin", "deep.bin"}) {
      const auto refused = Read(location);
      ASSERT_FALSE(refused.ok()) << path << ' ' << location;
      EXPECT_EQ(
          refused.status().message(),
          std::string("External data location '") + location +
              "' is a link that leaves the folder of the model and leads elsewhere than to '" +
              std::filesystem::canonical(blobs).string() +
              "/', where the link to the model leads.");
    }
  }
  for (const char* path : {"model/real.onnx", "model/gone.onnx"}) {
    model_ = (root_ / path).string();
    const auto refused = Read("model.onnx_data");
    ASSERT_FALSE(refused.ok()) << path;
    EXPECT_EQ(
        refused.status().message(),
        "External data location 'model.onnx_data' is a link that leaves the folder of the "
        "model; it could lead out only if the model's file were a link into the same folder.");
  }
}

}  // namespace
}  // namespace halyard::onnx
