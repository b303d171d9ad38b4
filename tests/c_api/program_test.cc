// SPDX-License-Identifier: Apache-2.0
// Compiling, the cache, and saved programs.
#include <sys/stat.h>

#include <thread>

#include "fixture.h"

namespace halyard {
namespace {

class CApiProgramTest : public CApiTest {
 protected:
  std::vector<std::string> log_;
  hy::Instance MakeLogged() {
    hy_instance_desc desc = HY_INSTANCE_DESC_INIT;
    desc.log = [](void* context, hy_log_level, hy_string text) {
      static_cast<std::vector<std::string>*>(context)->push_back(hy::ToString(text));
    };
    desc.log_context = &log_;
    return hy::Instance::Create(&desc);
  }
  hy::Program CompileFile(const hy::Instance& instance, const std::string& path) {
    hy_compile_desc desc = HY_COMPILE_DESC_INIT;
    desc.onnx_path = hy::View(path);
    return hy::Program::Compile(instance, desc);
  }
  std::string OnlyEntry() const {
    for (const auto& entry : std::filesystem::directory_iterator(Path("cache"))) {
      if (entry.path().extension() == ".hyp") return entry.path();
    }
    return "";
  }
};

TEST_F(CApiProgramTest, SecondCompileComesFromTheCache) {
  const auto instance = MakeLogged();
  const std::string model = Write("model.onnx", "copy");
  CompileFile(instance, model);
  EXPECT_EQ(CompileCount(), 1u);
  struct stat info;
  ASSERT_EQ(stat(Path("cache").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  CompileFile(hy::Instance::Create(), model);
  EXPECT_EQ(CompileCount(), 1u);
  Write("model.onnx", "copy, but other bytes");
  CompileFile(instance, model);
  EXPECT_EQ(CompileCount(), 2u);
  hy_compile_desc desc = HY_COMPILE_DESC_INIT;
  desc.onnx_path = hy::View(model);
  desc.fast_reductions = 1;
  hy::Program::Compile(instance, desc);
  EXPECT_EQ(CompileCount(), 3u);
  desc.disable_cache = 1;
  hy::Program::Compile(instance, desc);
  EXPECT_EQ(CompileCount(), 4u);
  EXPECT_THAT(log_, testing::IsEmpty());
}

// The callback is asked until it stops the compile; later compiles of a program do not ask it.
TEST_F(CApiProgramTest, ACallbackStopsACompile) {
  const auto instance = MakeLogged();
  int left = 3;
  hy_compile_desc desc = HY_COMPILE_DESC_INIT;
  desc.progress_context = &left;
  desc.should_stop = [](void* context) -> int32_t { return --*static_cast<int*>(context) < 0; };
  const std::string endless = Write("endless.onnx", "endless"), copy = Write("copy.onnx", "copy");
  desc.onnx_path = hy::View(endless);
  hy_program_t* none = nullptr;
  EXPECT_EQ(hy_program_compile(instance.get(), &desc, &none), HY_ABORTED);
  EXPECT_EQ(LastError(), "Compiling was stopped.");
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(left, -1);
  // Not even one from the cache.
  desc.onnx_path = hy::View(copy);
  CompileFile(instance, copy);
  EXPECT_EQ(hy_program_compile(instance.get(), &desc, &none), HY_ABORTED);
  left = 100;
  const hy::Program program = hy::Program::Compile(instance, desc);
  const int asked = left;
  hy_session_desc session_desc = HY_SESSION_DESC_INIT;
  session_desc.on_new_shapes = HY_NEW_SHAPES_COMPILE;
  const auto session = hy::Session::Create(program, &session_desc);
  const size_t compiles = CompileCount();
  const std::vector<float> x = {1, 2};
  const hy_tensor input = F32(x);
  hy_tensor output = HY_TENSOR_INIT;
  ASSERT_EQ(hy_session_run(session.get(), &input, 1, &output, 1), HY_OK) << LastError();
  EXPECT_GT(CompileCount(), compiles);
  EXPECT_EQ(left, asked);
}

TEST_F(CApiProgramTest, PrecisionIsPartOfTheKeyAndChecked) {
  const auto instance = MakeLogged();
  const std::string model = Write("model.onnx", "copy");
  CompileFile(instance, model);
  hy_compile_desc desc = HY_COMPILE_DESC_INIT;
  desc.onnx_path = hy::View(model);
  desc.precision = HY_PRECISION_F16;
  hy::Program::Compile(instance, desc);
  EXPECT_EQ(CompileCount(), 2u);
  desc.io_precision = HY_PRECISION_F16;
  hy::Program::Compile(instance, desc);
  EXPECT_EQ(CompileCount(), 3u);
  for (hy_precision* field : {&desc.precision, &desc.io_precision}) {
    *field = 7;
    hy_program_t* program = nullptr;
    EXPECT_EQ(hy_program_compile(instance.get(), &desc, &program), HY_INVALID_ARGUMENT);
    EXPECT_THAT(LastError(),
                testing::HasSubstr("There is no precision 7; 0 and 1 are precisions."));
    *field = HY_PRECISION_F16;
  }
  // What a caller of an older header does not give is the default.
  desc.struct_size = offsetof(hy_compile_desc, io_precision);
  hy::Program::Compile(instance, desc);
  EXPECT_EQ(CompileCount(), 3u);
}

TEST_F(CApiProgramTest, ExternalDataIsPartOfTheKey) {
  const auto instance = MakeLogged();
  const std::string model =
      Write("model.onnx", std::string("copy \x0a\x08location\x12\x07w.bytes", 25));
  Write("w.bytes", "one");
  CompileFile(instance, model);
  CompileFile(instance, model);
  EXPECT_EQ(CompileCount(), 1u);
  Write("w.bytes", "two");
  CompileFile(instance, model);
  EXPECT_EQ(CompileCount(), 2u);
  // Dots in a name lead nowhere.
  const std::string dots =
      Write("dots.onnx", std::string("copy \x0a\x08location\x12\x08w..bytes", 26));
  Write("w..bytes", "one");
  CompileFile(instance, dots);
  Write("w..bytes", "two");
  CompileFile(instance, dots);
  EXPECT_EQ(CompileCount(), 4u);
}

TEST_F(CApiProgramTest, CorruptedEntriesAreMadeAgain) {
  const auto instance = MakeLogged();
  const std::string model = Write("model.onnx", "copy");
  CompileFile(instance, model);
  {
    std::fstream file(OnlyEntry(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(300);
    file.write("garbage", 7);
  }
  CompileFile(instance, model);
  EXPECT_EQ(CompileCount(), 2u);
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_THAT(log_[0], testing::HasSubstr("corrupted"));
  std::filesystem::resize_file(OnlyEntry(), 100);
  CompileFile(instance, model);
  EXPECT_EQ(CompileCount(), 3u);
  CompileFile(instance, model);
  EXPECT_EQ(CompileCount(), 3u);
}

TEST_F(CApiProgramTest, AFolderThatOthersCanWriteToIsNotUsed) {
  const auto instance = MakeLogged();
  std::filesystem::create_directory(Path("cache"));
  chmod(Path("cache").c_str(), 0777);
  const std::string model = Write("model.onnx", "copy");
  CompileFile(instance, model);
  CompileFile(instance, model);
  EXPECT_EQ(CompileCount(), 2u);
  ASSERT_FALSE(log_.empty());
  EXPECT_THAT(log_[0], testing::HasSubstr("Others can write to the cache folder"));
  EXPECT_EQ(OnlyEntry(), "");
}

TEST_F(CApiProgramTest, AFallbackIsARecordAndWithTheWarningPolicyALineOfTheLog) {
  const auto instance = MakeLogged();
  const std::string model = Write("model.onnx", "interpret");
  hy_compile_desc desc = HY_COMPILE_DESC_INIT;
  desc.onnx_path = hy::View(model);
  for (const hy_policy policy : {HY_POLICY_DEFAULT, HY_POLICY_FALLBACK, HY_POLICY_FALLBACK_WARN}) {
    desc.on_unsupported_op = policy;
    const auto program = hy::Program::Compile(instance, desc);
    EXPECT_THAT(program.Report(HY_REPORT_PLACEMENT, HY_FORMAT_TEXT), testing::HasSubstr("slow"));
  }
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_THAT(log_[0], testing::HasSubstr(
                           "model.onnx' fell back; the report names each, the first is 'slow'"));
  hy_program_t* program = nullptr;
  desc.on_unsupported_op = 4;
  EXPECT_EQ(hy_program_compile(instance.get(), &desc, &program), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("There is no policy 4; 0 to 3 are policies."));
}

TEST_F(CApiProgramTest, ThreadsCompileTheSameModel) {
  const auto instance = MakeLogged();
  const std::string model = Write("model.onnx", "copy");
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) CompileFile(instance, model);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(log_, testing::IsEmpty());
  EXPECT_LE(CompileCount(), 8u);
}

TEST_F(CApiProgramTest, FailuresOfTheCompilerComeBack) {
  const auto instance = MakeLogged();
  hy_compile_desc desc = HY_COMPILE_DESC_INIT;
  hy_program_t* program = nullptr;
  EXPECT_EQ(hy_program_compile(instance.get(), &desc, &program), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("0 are given"));
  const std::string none = Path("none.onnx");
  desc.onnx_path = hy::View(none);
  EXPECT_EQ(hy_program_compile(instance.get(), &desc, &program), HY_NOT_FOUND);
  EXPECT_THAT(LastError(), testing::HasSubstr("none.onnx"));
  const std::string bad = Write("bad.onnx", "bad");
  desc.onnx_path = hy::View(bad);
  EXPECT_EQ(hy_program_compile(instance.get(), &desc, &program), HY_INVALID_ARGUMENT);
  EXPECT_EQ(LastError(), "Node 'g' is wrong.");
  const std::string thrown = Write("throw.onnx", "throw");
  desc.onnx_path = hy::View(thrown);
  EXPECT_EQ(hy_program_compile(instance.get(), &desc, &program), HY_INTERNAL);
  EXPECT_THAT(LastError(), testing::HasSubstr("thrown by the compiler"));
  desc.onnx_path = hy::View(folder_);
  EXPECT_EQ(hy_program_compile(instance.get(), &desc, &program), HY_INVALID_ARGUMENT);
  EXPECT_EQ(program, nullptr);
}

TEST_F(CApiProgramTest, SaveLoadAndCheck) {
  const auto instance = MakeLogged();
  const auto compiled = Compile(instance, "copy");
  compiled.Save(Path("p.hyp"));
  hy_program_load_desc desc = HY_PROGRAM_LOAD_DESC_INIT;
  const std::string path = Path("p.hyp");
  desc.path = hy::View(path);
  EXPECT_EQ(hy_program_check(instance.get(), &desc), HY_OK) << LastError();
  const auto program = hy::Program::Load(instance, desc);
  const std::vector<float> x = {1, 2, 3};
  const hy_tensor empty = HY_TENSOR_INIT;
  std::vector<hy_tensor> out = {empty};
  hy::Session::Create(program).Run({F32(x)}, out);

  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  hy_program_load_desc memory = HY_PROGRAM_LOAD_DESC_INIT;
  memory.data = bytes.data();
  memory.size_bytes = bytes.size();
  EXPECT_EQ(hy_program_check(instance.get(), &memory), HY_OK) << LastError();
  bytes[bytes.size() / 2] ^= 1;
  EXPECT_EQ(hy_program_check(instance.get(), &memory), HY_DATA_LOSS);
  memory.trust_data = 1;  // of tables and code nothing is taken on trust
  EXPECT_EQ(hy_program_check(instance.get(), &memory), HY_DATA_LOSS);
  memory.path = hy::View(path);
  EXPECT_EQ(hy_program_check(instance.get(), &memory), HY_INVALID_ARGUMENT);

  // A program from a file has no model to compile for new sizes.
  hy_session_desc session_desc = HY_SESSION_DESC_INIT;
  session_desc.on_new_shapes = HY_NEW_SHAPES_COMPILE;
  const auto session = hy::Session::Create(program, &session_desc);
  hy_tensor in = F32(x), y = HY_TENSOR_INIT;
  EXPECT_EQ(hy_session_run(session.get(), &in, 1, &y, 1), HY_FAILED_PRECONDITION);
}

TEST_F(CApiProgramTest, WeightsAreCheckedUnlessTheHostTrustsThem) {
  const auto instance = MakeLogged();
  Compile(instance, "weigh").Save(Path("p.hyp"));
  std::fstream file(Path("p.hyp"), std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(-2, std::ios::end);
  file.put('\x01');
  file.close();
  const std::string path = Path("p.hyp");
  hy_program_load_desc desc = HY_PROGRAM_LOAD_DESC_INIT;
  desc.path = hy::View(path);
  hy_program_t* program = nullptr;
  EXPECT_EQ(hy_program_load(instance.get(), &desc, &program), HY_DATA_LOSS);
  EXPECT_THAT(LastError(), testing::HasSubstr("p.hyp"));
  desc.trust_data = 1;
  EXPECT_EQ(hy_program_load(instance.get(), &desc, &program), HY_OK) << LastError();
  hy_program_release(program);
  // A host that knows no such field.
  desc.struct_size = offsetof(hy_program_load_desc, trust_data);
  EXPECT_EQ(hy_program_check(instance.get(), &desc), HY_DATA_LOSS);
}

TEST_F(CApiProgramTest, WhatAProgramTells) {
  const auto instance = MakeLogged();
  const auto program = Compile(instance, "copy");
  const auto inputs = program.Io(HY_IO_INPUT), outputs = program.Io(HY_IO_OUTPUT);
  ASSERT_EQ(inputs.size(), 1u);
  EXPECT_EQ(hy::ToString(inputs[0].name), "x");
  EXPECT_EQ(hy::ToString(inputs[0].shape), "n");
  EXPECT_EQ(inputs[0].dims[0], -1);
  ASSERT_EQ(outputs.size(), 1u);
  const auto symbols = program.Symbols();
  ASSERT_EQ(symbols.size(), 1u);
  EXPECT_EQ(symbols[0].max, 1048576);
  const auto memory = program.Memory({{hy::View("n"), 100}});
  ASSERT_EQ(memory.size(), 1u);
  EXPECT_EQ(memory[0].activation_bytes, 400);
  EXPECT_EQ(memory[0].io_bytes, 800);
  hy_memory_info info = HY_MEMORY_INFO_INIT;
  size_t count = 1;
  EXPECT_EQ(hy_program_memory(program.get(), nullptr, 0, &info, &count), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("Symbol 'n' has no value"));
  const std::string text = program.Report(HY_REPORT_ALL, HY_FORMAT_TEXT);
  EXPECT_THAT(text, testing::HasSubstr("cpu:0: 2 copies"));
  EXPECT_THAT(text, testing::HasSubstr("group: a made-up record"));
  EXPECT_THAT(program.Report(HY_REPORT_ALL, HY_FORMAT_JSON), testing::HasSubstr("\"fusion\""));
  EXPECT_THAT(program.Report(HY_REPORT_ALL, HY_FORMAT_DOT), testing::StartsWith("digraph"));
  EXPECT_THAT(program.Report(HY_REPORT_COMMANDS, HY_FORMAT_TEXT),
              testing::StartsWith("program \""));
  const hy_writer refuse = [](void*, const void*, size_t) -> hy_result { return HY_CANCELLED; };
  EXPECT_EQ(hy_program_report(program.get(), HY_REPORT_ALL, HY_FORMAT_TEXT, refuse, nullptr),
            HY_CANCELLED);
  EXPECT_EQ(hy_program_report(program.get(), HY_REPORT_COMMANDS, HY_FORMAT_DOT, refuse, nullptr),
            HY_UNIMPLEMENTED);
  EXPECT_EQ(hy_program_report(program.get(), 99, HY_FORMAT_TEXT, refuse, nullptr),
            HY_INVALID_ARGUMENT);
}

TEST_F(CApiProgramTest, ExplainsANode) {
  const auto program = Compile(MakeLogged(), "copy");
  EXPECT_THAT(program.ExplainNode("folded", "", HY_FORMAT_TEXT),
              testing::StartsWith("node: folded\nop: Add\nfate: gone after pass"));
  EXPECT_THAT(program.ExplainNode("slow", "cpu", HY_FORMAT_JSON),
              testing::AllOf(testing::HasSubstr("\"code\": \"UNSUPPORTED_OP\""),
                             testing::HasSubstr("\"device\": \"cpu:0\"")));
  EXPECT_THAT(program.ExplainNode("slow", "cuda:3", HY_FORMAT_TEXT),
              testing::StartsWith("NOT_ASKED_FOR: Device 'cuda:3' has no part in this program"));
  const auto ignore = [](void*, const void*, size_t) -> hy_result { return HY_OK; };
  const auto explain = [&](hy_string name, hy_string device, hy_report_format format) {
    return hy_program_explain_node(program.get(), name, device, format, ignore, nullptr);
  };
  EXPECT_EQ(explain(HY_STRING("slw"), {}, HY_FORMAT_TEXT), HY_NOT_FOUND);
  EXPECT_THAT(LastError(), testing::HasSubstr("near it are 'slow'"));
  EXPECT_EQ(explain(HY_STRING("slow"), {}, HY_FORMAT_HTML), HY_UNIMPLEMENTED);
  EXPECT_EQ(explain(HY_STRING("slow"), HY_STRING("cuda:x"), HY_FORMAT_TEXT), HY_INVALID_ARGUMENT);
  EXPECT_EQ(explain({nullptr, 4}, {}, HY_FORMAT_TEXT), HY_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace halyard
