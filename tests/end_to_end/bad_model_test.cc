// SPDX-License-Identifier: Apache-2.0
// Models and files that are wrong, as a user meets them: the sentence of the C interface, and one
// line and exit status 2 from the command. What the importer says about each fault is tested beside
// it.
#include <unistd.h>

#include <algorithm>

#include "tests/end_to_end/fixture.h"

namespace halyard {
namespace {

using onnx::testing::FloatTensor;
using onnx::testing::IntTensor;
using onnx::testing::kF32;
using onnx::testing::kI64;
using onnx::testing::Message;
using onnx::testing::ModelOf;
using onnx::testing::Node;
using onnx::testing::ValueInfo;

class BadModel : public EndToEnd {
 protected:
  // Both ways to the same file.
  void ExpectRefused(const std::string& file, hy_result code, const std::string& part) {
    try {
      CompileFile(Path(file));
      ADD_FAILURE() << file << " compiles; wanted: " << part;
    } catch (const hy::Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_THAT(error.what(), testing::HasSubstr(part));
      EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
    }
    const std::string out = Run("run --no-tune " + file);
    EXPECT_EQ(status_, 2) << out;
    // The file is named before what is wrong with it, or within.
    EXPECT_THAT(out, testing::AnyOf(testing::StartsWith("halyard: error: " + file + ": "),
                                    testing::StartsWith("halyard: error: There is no file '")));
    EXPECT_NE(out.find(file), std::string::npos) << out;
    EXPECT_EQ(out.find(file + ":"), out.rfind(file + ":")) << out;
    EXPECT_THAT(out, testing::HasSubstr(part));
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1) << out;
  }
  void ExpectModelRefused(const Message& model, hy_result code, const std::string& part) {
    Write("model.onnx", model.str());
    ExpectRefused("model.onnx", code, part);
  }
  const Message x_ = ValueInfo("x", kF32, {2, 3}), y_ = ValueInfo("y", kF32, {2, 3});
};

TEST_F(BadModel, Structure) {
  ExpectModelRefused(
      ModelOf({{Node("Relu", {"b"}, {"a"}, {}, "first"), Node("Relu", {"a"}, {"b"}, {}, "second")},
               {},
               {x_},
               {ValueInfo("b", kF32, {2, 3})}}),
      HY_INVALID_ARGUMENT, "Node 'first' (Relu): It depends on itself through a cycle of 2 nodes");
  ExpectModelRefused(ModelOf({{Node("Frobnicate", {"x"}, {"y"}, {}, "n")}, {}, {x_}, {y_}}),
                     HY_UNIMPLEMENTED, "Frobnicate (opset 17, 1 node, first 'n')");
  ExpectModelRefused(ModelOf({{Node("Add", {"x"}, {"y"}, {}, "n")}, {}, {x_}, {y_}}),
                     HY_INVALID_ARGUMENT, "Node 'n' (Add): It has 1 input; Add needs 2.");
  ExpectModelRefused(ModelOf({{Node("Add", {"x", "k"}, {"y"}, {}, "n")},
                              {IntTensor("k", {3}, {1, 2, 3})},
                              {x_},
                              {y_}}),
                     HY_INVALID_ARGUMENT, "differ in dtype");
  ExpectModelRefused(ModelOf({{Node("Relu", {"gone"}, {"y"}, {}, "n")}, {}, {x_}, {y_}}),
                     HY_INVALID_ARGUMENT, "Input 'gone' is produced by nothing.");
}

TEST_F(BadModel, SizesThatOverflow) {
  const int64_t big = int64_t{1} << 39;
  ExpectModelRefused(ModelOf({{Node("Expand", {"x", "s"}, {"y"}, {}, "n")},
                              {IntTensor("s", {4}, {big, big, 2, 3})},
                              {x_},
                              {ValueInfo("y", kF32, {big, big, 2, 3})}}),
                     HY_OUT_OF_RANGE, "n");
  ExpectModelRefused(ModelOf({{Node("Relu", {"x"}, {"y"}, {}, "n")},
                              {},
                              {ValueInfo("x", kF32, {big, big})},
                              {ValueInfo("y", kF32, {big, big})}}),
                     HY_OUT_OF_RANGE, "x");
  // Claims of 2^40 elements with three bytes behind them.
  Message tensor;
  tensor.Varint(1, 1u << 20).Varint(1, 1u << 20).Varint(2, kF32).Text(8, "w").Text(9, "abc");
  ExpectModelRefused(ModelOf({{Node("Relu", {"w"}, {"y"}, {}, "n")}, {tensor}, {}, {y_}}),
                     HY_OUT_OF_RANGE, "Initialiser 'w'");
}

TEST_F(BadModel, ExternalDataStaysInTheFolder) {
  const auto external = [&](std::string_view location) {
    Message w;
    w.Varint(1, 2).Varint(1, 3).Varint(2, kF32).Text(8, "w").Varint(14, 1);
    w.Sub(13, Message().Text(1, "location").Text(2, location));
    return ModelOf({{Node("Add", {"x", "w"}, {"y"}, {}, "n")}, {w}, {x_}, {y_}});
  };
  const std::string weights(24, '\1');
  const std::string outside = testing::TempDir() + "/halyard_outside_" + std::to_string(getpid());
  std::ofstream(outside) << weights;
  Write("inside", weights);
  EXPECT_NO_THROW(Compile(external("inside")));
  const std::string name = outside.substr(outside.rfind('/') + 1);
  ExpectModelRefused(external("../" + name), HY_INVALID_ARGUMENT, "leaves the folder of the model");
  ExpectModelRefused(external(outside), HY_INVALID_ARGUMENT, "is not a relative path");
  std::filesystem::create_symlink(outside, Path("link"));
  ExpectModelRefused(external("link"), HY_INVALID_ARGUMENT, "link");
  std::filesystem::create_directory_symlink(testing::TempDir(), Path("folder"));
  ExpectModelRefused(external("folder/" + name), HY_INVALID_ARGUMENT, "folder");
  // Links into one folder, which caches make of the files of a model.
  std::filesystem::create_directory(Path("blobs"));
  std::filesystem::create_directory(Path("snapshot"));
  Write("blobs/1a", external("weights").str());
  Write("blobs/2b", weights);
  std::filesystem::create_symlink("../blobs/1a", Path("snapshot/model.onnx"));
  std::filesystem::create_symlink("../blobs/2b", Path("snapshot/weights"));
  EXPECT_NO_THROW(CompileFile(Path("snapshot/model.onnx")));
  std::filesystem::remove(Path("snapshot/weights"));
  Write("elsewhere", std::string(24, '\2'));
  std::filesystem::create_symlink("../elsewhere", Path("snapshot/weights"));
  ExpectRefused("snapshot/model.onnx", HY_INVALID_ARGUMENT, "where the link to the model leads");
  ExpectModelRefused(external("missing"), HY_NOT_FOUND, "missing");
  Write("inside", "short");
  ExpectModelRefused(external("inside"), HY_OUT_OF_RANGE, "'inside', which has 5 bytes");
  unlink(outside.c_str());
}

TEST_F(BadModel, FilesThatAreNoModels) {
  ExpectRefused("none.onnx", HY_NOT_FOUND, "none.onnx");
  Write("empty.onnx", "");
  ExpectRefused("empty.onnx", HY_INVALID_ARGUMENT,
                "empty.onnx: The file is no ONNX model but empty; ONNX models and programs that "
                "`halyard compile` writes are read.");
  Write("text.onnx", "this is a text and no model, whatever its name says");
  ExpectRefused("text.onnx", HY_INVALID_ARGUMENT, "no ONNX model but text");
  Write("weights.pt", std::string("PK\x03\x04", 4) + std::string(100, '\0'));
  ExpectRefused("weights.pt", HY_INVALID_ARGUMENT, "no ONNX model but a ZIP archive, as PyTorch");
  std::filesystem::create_directory(Path("folder.onnx"));
  ExpectRefused("folder.onnx", HY_INVALID_ARGUMENT, "folder.onnx");
  const std::string model = ModelOf({{Node("Relu", {"x"}, {"y"}, {}, "n")}, {}, {x_}, {y_}}).str();
  for (size_t size = 1; size < model.size(); size += 7) {
    const std::string path = Write("cut.onnx", model.substr(0, size));
    try {
      CompileFile(path);  // a cut between two fields of the model leaves a model
    } catch (const hy::Error& error) {
      EXPECT_THAT(error.code(), testing::AnyOf(HY_INVALID_ARGUMENT, HY_UNIMPLEMENTED))
          << size << ": " << error.what();
    }
  }
}

TEST_F(BadModel, DamagedProgramFiles) {
  Write("model.onnx", ModelOf({{Node("Relu", {"x"}, {"y"}, {}, "n")}, {}, {x_}, {y_}}).str());
  Run("compile --no-tune model.onnx -o good.hyp");
  ASSERT_EQ(status_, 0);
  std::ifstream file(Path("good.hyp"), std::ios::binary);
  const std::string good(std::istreambuf_iterator<char>(file), {});
  const auto expect = [&](const std::string& bytes, const std::string& part) {
    Write("bad.hyp", bytes);
    const std::string out = Run("run bad.hyp");
    EXPECT_EQ(status_, 2) << out;
    EXPECT_THAT(out, testing::StartsWith("halyard: error: bad.hyp: "));
    EXPECT_THAT(out, testing::HasSubstr(part));
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1) << out;
  };
  std::string bytes = good;
  bytes[good.size() / 2] ^= 0x10;
  expect(bytes, "corrupted");
  expect(good.substr(0, good.size() - 1), "");
  expect(good.substr(0, 40), "");
  bytes = good;
  bytes[8] = 99;
  expect(bytes, "has version 99");
  Run("run good.hyp");
  EXPECT_EQ(status_, 0);
}

TEST_F(BadModel, DamagedCacheEntriesAreMadeAgain) {
  Write("model.onnx", ModelOf({{Node("Relu", {"x"}, {"y"}, {}, "n")}, {}, {x_}, {y_}}).str());
  Run("run --no-tune model.onnx");
  ASSERT_EQ(status_, 0);
  std::string entry;
  for (const auto& found : std::filesystem::directory_iterator(Path("cache"))) {
    if (found.path().extension() == ".hyp") entry = found.path();
  }
  ASSERT_FALSE(entry.empty());
  std::filesystem::resize_file(entry, std::filesystem::file_size(entry) / 2);
  EXPECT_THAT(Run("run --no-tune model.onnx"), testing::HasSubstr("a cache entry is not used"));
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(Run("run --no-tune model.onnx"), testing::Not(testing::HasSubstr("not used")));
  EXPECT_EQ(status_, 0);
}

}  // namespace
}  // namespace halyard
