// SPDX-License-Identifier: Apache-2.0
// NPY and TensorProto files: literal bytes as NumPy writes them, round trips, and what is refused.
#include "tools/tensor_file/tensor_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

namespace halyard::tensor_file {
namespace {

using graph::Tensor;

std::span<const uint8_t> AsBytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// A file with the given header, as NumPy lays it out.
std::string Npy(std::string header, const std::string& data, char major = 1) {
  const size_t fixed = major == 1 ? 10 : 12;
  while ((fixed + header.size() + 1) % 64 != 0) header.push_back(' ');
  header.push_back('\n');
  std::string out = "\x93NUMPY";
  out.push_back(major);
  out.push_back(0);
  for (size_t i = 0; i < (major == 1 ? 2u : 4u); ++i)
    out.push_back(static_cast<char>(header.size() >> (8 * i)));
  return out + header + data;
}

TEST(Npy, ReadsEveryVersion) {
  for (const char version : {1, 2, 3}) {
    const auto tensor =
        ParseNpy(AsBytes(Npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 2), }",
                             std::string("\1\0\2\0\3\0\xff\xff", 8), version)));
    ASSERT_TRUE(tensor.ok()) << tensor.status().ToString();
    EXPECT_EQ(graph::FormatTensor(*tensor), "i16[2, 2]{1, 2, 3, -1}");
  }
}

TEST(Npy, ReadsFortranOrderAndOddSpellings) {
  const auto fortran = ParseNpy(
      AsBytes(Npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", "\1\2\3\4\5\6")));
  ASSERT_TRUE(fortran.ok()) << fortran.status().ToString();
  EXPECT_EQ(graph::FormatTensor(*fortran), "u8[2, 3]{1, 3, 5, 2, 4, 6}");
  const auto odd =
      ParseNpy(AsBytes(Npy("{\"shape\":(3L,),\"descr\":'=u1','fortran_order':False}", "\1\2\3")));
  ASSERT_TRUE(odd.ok()) << odd.status().ToString();
  EXPECT_EQ(graph::FormatTensor(*odd), "u8[3]{1, 2, 3}");
  const auto scalar =
      ParseNpy(AsBytes(Npy("{'descr': '|b1', 'fortran_order': False, 'shape': (), }", "\2")));
  ASSERT_TRUE(scalar.ok()) << scalar.status().ToString();
  EXPECT_EQ(scalar->bytes, (std::vector<uint8_t>{1}));
}

TEST(Npy, WritesWhatNumPyWrites) {
  const double values[] = {1.5};
  const auto text = FormatNpy(graph::TensorOfFloats(DType::kF32, {1}, values));
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text, Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }",
                       std::string("\x00\x00\xc0\x3f", 4)));
}

TEST(Npy, RoundTripsEveryDType) {
  std::mt19937_64 random(1);
  const DType dtypes[] = {DType::kBool, DType::kI8,  DType::kU8,  DType::kI16,
                          DType::kU16,  DType::kI32, DType::kU32, DType::kI64,
                          DType::kU64,  DType::kF16, DType::kF32, DType::kF64};
  for (const DType dtype : dtypes) {
    for (const std::vector<int64_t>& dims :
         std::vector<std::vector<int64_t>>{{}, {0}, {7}, {3, 5}, {2, 1, 3}}) {
      auto tensor = graph::MakeTensor(dtype, dims);
      ASSERT_TRUE(tensor.ok());
      for (uint8_t& byte : tensor->bytes) byte = static_cast<uint8_t>(random());
      if (dtype == DType::kBool) {
        for (uint8_t& byte : tensor->bytes) byte &= 1;
      }
      const auto text = FormatNpy(*tensor);
      ASSERT_TRUE(text.ok());
      const auto read = ParseNpy(AsBytes(*text));
      ASSERT_TRUE(read.ok()) << read.status().ToString();
      EXPECT_EQ(*read, *tensor) << FormatDType(dtype);
    }
  }
}

TEST(Npy, WidensWhatNumPyLacks) {
  const double values[] = {1.5, -2};
  const auto text = FormatNpy(graph::TensorOfFloats(DType::kBF16, {2}, values));
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(graph::FormatTensor(*ParseNpy(AsBytes(*text))), "f32[2]{1.5, -2}");
  const int64_t small[] = {-8, 7, 3};
  const auto nibbles = FormatNpy(graph::TensorOfInts(DType::kI4, {3}, small));
  ASSERT_TRUE(nibbles.ok());
  EXPECT_EQ(graph::FormatTensor(*ParseNpy(AsBytes(*nibbles))), "i8[3]{-8, 7, 3}");
}

TEST(Npy, RefusesWhatItCannotRead) {
  struct Case {
    std::string file;
    std::string_view message;
  };
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
  const Case cases[] = {
      {"hello, world", "The file does not begin like an NPY file."},
      {std::string("\x93NUMPY\x04\x00\x00\x00\x00\x00", 12),
       "NPY version 4.0 is not supported; 1.0, 2.0 and 3.0 are."},
      {std::string("\x93NUMPY\x01\x00\xff\x7f{", 11), "The NPY header is cut off."},
      {std::string("\x93NUMPY\x02\x00\xff\xff\xff\x7f{", 13),
       "The NPY header has 2147483647 bytes; the limit is 65536."},
      {Npy(good, "123"), "The NPY header asks for 4 bytes of elements; the file has 3."},
      {Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1048576, 1048576), }", ""),
       "The NPY header asks for 4398046511104 bytes of elements; the file has 0."},
      {Npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "1234"),
       "NPY type '>f4' is not supported; little-endian bool, integers and floats are."},
      {Npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "1234"),
       "NPY type '|O' is not supported; little-endian bool, integers and floats are."},
      {Npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "1234"),
       "Structured NPY types are not supported."},
      {Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", "1234"),
       "The NPY header has the key 'x', which is unknown or there twice."},
      {Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "1234"),
       "'shape' of the NPY header is no tuple of at most 64 sizes."},
      {Npy("{'descr': '<f4', 'shape': (1,), }", "1234"),
       "The NPY header lacks one of descr, fortran_order and shape."},
      {Npy(good + " or __import__('os')", "1234"), "Something follows the dict of the NPY header."},
  };
  for (const Case& test : cases) {
    const auto tensor = ParseNpy(AsBytes(test.file));
    ASSERT_FALSE(tensor.ok()) << test.message;
    EXPECT_EQ(tensor.status().message(), test.message);
  }
}

// Any cut and any changed byte gives a tensor or a sentence.
TEST(Npy, SurvivesDamage) {
  std::mt19937_64 random(2);
  const std::string good =
      Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", std::string(24, 'x'));
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    bad[random() % bad.size()] = static_cast<char>(random());
    if (i % 3 == 0) bad.resize(random() % bad.size());
    const auto tensor = ParseNpy(AsBytes(bad));
    if (tensor.ok()) {
      EXPECT_LE(tensor->bytes.size(), bad.size());
    } else {
      EXPECT_FALSE(tensor.status().message().empty());
    }
  }
}

TEST(TensorProto, IsRead) {
  // dims 2, type float, float_data packed.
  const std::string proto("\x08\x02\x10\x01\x22\x08\x00\x00\x80\x3f\x00\x00\x00\xc0", 14);
  const auto tensor = ParseTensorProto(AsBytes(proto));
  ASSERT_TRUE(tensor.ok()) << tensor.status().ToString();
  EXPECT_EQ(graph::FormatTensor(*tensor), "f32[2]{1, -2}");
}

TEST(TensorFile, GoesByTheEndOfTheName) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("halyard_tensor_file_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "x.npy").string();
  const double values[] = {1, 2, 3};
  const Tensor tensor = graph::TensorOfFloats(DType::kF32, {3}, values);
  ASSERT_TRUE(WriteNpyFile(path, tensor).ok());
  const auto read = ReadTensorFile(path);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*read, tensor);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  const auto limited = ReadTensorFile(path, 10);
  ASSERT_FALSE(limited.ok());
  EXPECT_EQ(limited.status().message(), path + ": The elements take 12 bytes; the limit is 10.");
  EXPECT_EQ(ReadTensorFile((folder / "x.txt").string()).status().message(),
            (folder / "x.txt").string() + ": The name ends neither in .npy nor in .pb.");
  EXPECT_EQ(ReadTensorFile((folder / "y.npy").string()).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(WriteNpyFile((folder / "no" / "x.npy").string(), tensor).code(),
            StatusCode::kUnavailable);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace halyard::tensor_file
