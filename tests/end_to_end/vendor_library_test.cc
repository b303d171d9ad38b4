// SPDX-License-Identifier: Apache-2.0
// Compiling with and without vendor libraries on the stand-ins for libcuda and cuBLASLt: the
// library's products race, win (the kernels beside them are interpreted), run in the program and in
// the saved one, and kernels stand in where the library has gone.
#include <cmath>
#include <regex>

#include "tests/drivers/cuda/fake_knobs.h"
#include "tests/end_to_end/device_fixture.h"

namespace halyard {
namespace {

class VendorLibrary : public EndToEnd {
 protected:
  VendorLibrary() {
    fake_.reset();
    fake_.set_delay_us(0);
    using namespace onnx::testing;  // NOLINT
    const auto numbers = [](size_t count, int step) {
      std::vector<float> values;
      for (size_t i = 0; i < count; ++i) {
        values.push_back(static_cast<float>(static_cast<int>(i) * step % 17 - 8) / 16);
      }
      return values;
    };
    // A hidden layer with ReLU, and one whose sum goes back to its input's width, added to it.
    model_ = Write("model.onnx",
                   ModelOf({{Node("MatMul", {"x", "w1"}, {"h1"}), Node("Add", {"h1", "b1"}, {"h2"}),
                             Node("Relu", {"h2"}, {"h3"}), Node("MatMul", {"h3", "w2"}, {"h4"}),
                             Node("Add", {"h4", "b2"}, {"h5"}), Node("Add", {"h5", "x"}, {"y"})},
                            {FloatTensor("w1", {32, 40}, numbers(1280, 5)),
                             FloatTensor("b1", {40}, numbers(40, 3)),
                             FloatTensor("w2", {40, 32}, numbers(1280, 7)),
                             FloatTensor("b2", {32}, numbers(32, 11))},
                            {ValueInfo("x", kF32, {48, 32})},
                            {ValueInfo("y", kF32, {48, 32})}})
                       .str());
    x_ = numbers(48 * 32, 13);
    expected_ = RunOf(CompileOn("cpu:0", HY_VENDOR_LIBRARIES_OFF));
  }
  ~VendorLibrary() override {
    fake_.set_cublaslt_version(130100);
    fake_.reset();
  }

  hy::Program CompileOn(const std::string& path, hy_vendor_libraries libraries,
                        bool with_cache = false) {
    devices_.push_back(instance_.Open(path));
    hy_device_t* raw = devices_.back().get();
    hy_compile_desc desc = HY_COMPILE_DESC_INIT;
    desc.onnx_path = hy::View(model_);
    desc.devices = &raw;
    desc.device_count = 1;
    desc.disable_cache = with_cache ? 0 : 1;
    desc.on_unsupported_op = HY_POLICY_ERROR;
    desc.vendor_libraries = libraries;
    return hy::Program::Compile(instance_, desc);
  }
  std::vector<float> RunOf(const hy::Program& program) {
    const hy::Session session = hy::Session::Create(program);
    std::vector<hy_tensor> out(1, HY_TENSOR_INIT);
    for (int run = 0; run < 2; ++run) {
      session.Run({TensorOf(HY_DTYPE_F32, {48, 32}, x_)}, out);
    }
    return ValuesOf<float>(out[0]);
  }
  void ExpectNear(const std::vector<float>& got) const {
    ASSERT_EQ(got.size(), expected_.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected_[i], 1e-5) << i;
  }
  long Calls() const { return fake_.call_count("cublasLtMatmul"); }

  const drivers::cuda::ScopedVariable library_{"HALYARD_CUDA_LIBRARY", HALYARD_FAKE_LIBCUDA};
  const drivers::cuda::ScopedVariable matmuls_{"HALYARD_CUBLASLT_LIBRARY", HALYARD_FAKE_LIBCUDA};
  const drivers::cuda::ScopedVariable convolutions_{"HALYARD_CUDNN_LIBRARY", HALYARD_FAKE_LIBCUDA};
  drivers::cuda::FakeCuda fake_;
  std::string model_;
  std::vector<float> x_, expected_;
  std::vector<hy::Device> devices_;
};

TEST_F(VendorLibrary, WinsAndRuns) {
  for (const char* path : {"cuda:0?graph_commands=100", "cuda:0?graph_commands=1"}) {
    const hy::Program program = CompileOn(path, HY_VENDOR_LIBRARIES_RACE);
    const std::string schedules = program.Report(HY_REPORT_SCHEDULE, HY_FORMAT_TEXT);
    EXPECT_THAT(schedules, testing::HasSubstr("gpu-library"));
    EXPECT_THAT(schedules, testing::HasSubstr("cuBLASLt 13.1.0"));
    EXPECT_THAT(schedules, testing::ContainsRegex("its matrix products won [12] of [0-9]+ "
                                                  "kernels, with [0-9]+ % of the [0-9.]+ us"));
    // What stands in for the second product is a kernel of ours that races too.
    std::smatch races;
    ASSERT_TRUE(std::regex_search(
        schedules, races, std::regex("([0-9]+) candidates with ([0-9]+) pieces of code took")));
    EXPECT_LT(std::stoi(races[2]), std::stoi(races[1]));
    const long before = Calls();
    ExpectNear(RunOf(program));
    EXPECT_GT(Calls(), before);
  }
}

TEST_F(VendorLibrary, RacesAlone) {
  const hy::Program program = CompileOn("cuda:0", HY_VENDOR_LIBRARIES_ALONE, true);
  const std::string schedules = program.Report(HY_REPORT_SCHEDULE, HY_FORMAT_TEXT);
  // Both products are the library's, and only its proposals raced for them.
  EXPECT_THAT(schedules, testing::ContainsRegex("its matrix products won 2 of [0-9]+ kernels"));
  EXPECT_THAT(schedules, testing::ContainsRegex("gpu-library .*: fastest of [1-3] in a race at .*, "
                                                "the library's own first choice took"));
  ExpectNear(RunOf(program));
  // What it took is no choice for other programs.
  EXPECT_THAT(CompileOn("cuda:0", HY_VENDOR_LIBRARIES_RACE, true)
                  .Report(HY_REPORT_SCHEDULE, HY_FORMAT_TEXT),
              testing::Not(testing::HasSubstr("the library's own first choice")));
  EXPECT_THROW(CompileOn("cuda:0", 3), hy::Error);
}

TEST_F(VendorLibrary, IsLeftOutWhereItIsDisabled) {
  const long calls = Calls(), opened = fake_.call_count("cublasLtCreate");
  ExpectNear(RunOf(CompileOn("cuda:0", HY_VENDOR_LIBRARIES_OFF)));
  EXPECT_EQ(Calls(), calls);
  EXPECT_EQ(fake_.call_count("cublasLtCreate"), opened);
}

TEST_F(VendorLibrary, KernelsStandInWhereASavedProgramFindsAnother) {
  const std::string file = Path("program");
  CompileOn("cuda:0", HY_VENDOR_LIBRARIES_ALONE).Save(file);
  hy_program_load_desc desc = HY_PROGRAM_LOAD_DESC_INIT;
  desc.path = hy::View(file);
  const auto load = [&] {
    hy_device_t* raw = devices_.back().get();
    desc.devices = &raw;
    desc.device_count = 1;
    return hy::Program::Load(instance_, desc);
  };
  long before = Calls();
  ExpectNear(RunOf(load()));
  EXPECT_GE(Calls(), before + 2);
  before = Calls();
  fake_.set_cublaslt_version(130200);
  devices_.clear();
  instance_ = hy::Instance::Create();
  devices_.push_back(instance_.Open("cuda:0"));
  const hy::Program program = load();
  ExpectNear(RunOf(program));
  EXPECT_EQ(Calls(), before);
  EXPECT_THAT(program.Report(HY_REPORT_PLACEMENT, HY_FORMAT_TEXT),
              testing::HasSubstr("made with cuBLASLt 13.1.0; here is 13.2.0"));
}

TEST_F(VendorLibrary, AnEarlierRaceIsRemembered) {
  const hy::Program first = CompileOn("cuda:0", HY_VENDOR_LIBRARIES_RACE, true);
  ExpectNear(RunOf(first));
  // Without the program, but with the race; and without the library it is another race.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ + "/cache")) {
    if (entry.path().extension() == ".hyp") std::filesystem::remove(entry.path());
  }
  const hy::Program again = CompileOn("cuda:0", HY_VENDOR_LIBRARIES_RACE, true);
  const std::string schedules = again.Report(HY_REPORT_SCHEDULE, HY_FORMAT_TEXT);
  EXPECT_THAT(schedules, testing::ContainsRegex("gpu-library .*: fastest in an earlier race"));
  ExpectNear(RunOf(again));
  const hy::Program without = CompileOn("cuda:0", HY_VENDOR_LIBRARIES_OFF, true);
  EXPECT_THAT(without.Report(HY_REPORT_SCHEDULE, HY_FORMAT_TEXT),
              testing::Not(testing::HasSubstr("gpu-library")));
}

TEST_F(VendorLibrary, WithoutItTheReportSaysWhy) {
  const drivers::cuda::ScopedVariable none("HALYARD_CUBLASLT_LIBRARY", "libnowhere.so.1");
  const hy::Program program = CompileOn("cuda:0", HY_VENDOR_LIBRARIES_RACE);
  EXPECT_THAT(program.Report(HY_REPORT_SCHEDULE, HY_FORMAT_TEXT),
              testing::HasSubstr(
                  "No library takes part in matrix products: Library 'libnowhere.so.1' cannot be"));
  ExpectNear(RunOf(program));
  EXPECT_THAT(devices_.back().Report(HY_FORMAT_TEXT),
              testing::HasSubstr("No library of matrix products"));
}

TEST_F(VendorLibrary, AMissingOneIsLookedForOncePerDeviceInSilence) {
  std::string log;
  hy_instance_desc desc = HY_INSTANCE_DESC_INIT;
  desc.log_level = HY_LOG_INFO;
  desc.log_context = &log;
  desc.log = [](void* context, hy_log_level, hy_string message) {
    static_cast<std::string*>(context)->append(message.data, message.size) += '\n';
  };
  instance_ = hy::Instance::Create(&desc);
  const long opened = fake_.call_count("cublasLtCreate");
  {
    const drivers::cuda::ScopedVariable none("HALYARD_CUBLASLT_LIBRARY", "libnowhere.so.1");
    ExpectNear(RunOf(CompileOn("cuda:0", HY_VENDOR_LIBRARIES_RACE)));
  }
  // It could be found now, but the device has looked.
  ExpectNear(RunOf(CompileOn("cuda:0", HY_VENDOR_LIBRARIES_RACE)));
  EXPECT_EQ(fake_.call_count("cublasLtCreate"), opened);
  EXPECT_THAT(log, testing::Not(testing::HasSubstr("ibrary")));
}

TEST_F(VendorLibrary, ConvolutionsOfTheOtherLibraryRaceToo) {
  using namespace onnx::testing;  // NOLINT
  const auto numbers = [](size_t count, int step) {
    std::vector<float> values;
    for (size_t i = 0; i < count; ++i) {
      values.push_back(static_cast<float>(static_cast<int>(i) * step % 17 - 8) / 16);
    }
    return values;
  };
  Write("model.onnx",
        ModelOf({{Node("Conv", {"x", "w1", "b1"}, {"h1"}, {IntsAttribute("pads", {1, 1, 1, 1})}),
                  Node("Relu", {"h1"}, {"h2"}),
                  Node("Conv", {"h2", "w2"}, {"h3"},
                       {IntsAttribute("pads", {1, 1, 1, 1}), IntsAttribute("strides", {2, 2})}),
                  Node("Add", {"h3", "h3"}, {"y"})},
                 {FloatTensor("w1", {24, 8, 3, 3}, numbers(24 * 72, 5)),
                  FloatTensor("b1", {24}, numbers(24, 3)),
                  FloatTensor("w2", {16, 24, 3, 3}, numbers(16 * 216, 7))},
                 {ValueInfo("x", kF32, {2, 8, 9, 9})},
                 {ValueInfo("y", kF32, {2, 16, 5, 5})}})
            .str());
  const std::vector<float> x = numbers(2 * 8 * 81, 13);
  const auto result_of = [&](const hy::Program& program) {
    const hy::Session session = hy::Session::Create(program);
    std::vector<hy_tensor> out(1, HY_TENSOR_INIT);
    for (int run = 0; run < 2; ++run) session.Run({TensorOf(HY_DTYPE_F32, {2, 8, 9, 9}, x)}, out);
    return ValuesOf<float>(out[0]);
  };
  expected_ = result_of(CompileOn("cpu:0", HY_VENDOR_LIBRARIES_OFF));
  for (const char* path : {"cuda:0?graph_commands=100", "cuda:0?graph_commands=1"}) {
    const hy::Program program = CompileOn(path, HY_VENDOR_LIBRARIES_ALONE);
    EXPECT_THAT(program.Report(HY_REPORT_SCHEDULE, HY_FORMAT_TEXT),
                testing::ContainsRegex("cuDNN 9.19.1, .*: its convolutions won 2 of [0-9]+ "));
    const long before = fake_.call_count("cudnnBackendExecute");
    ExpectNear(result_of(program));
    EXPECT_GE(fake_.call_count("cudnnBackendExecute"), before + 2);
  }
  // Against ours, where its kernels are timed whoever wins, and the winner's share is told.
  const long timed = fake_.call_count("cudnnBackendExecute");
  const hy::Program raced = CompileOn("cuda:0", HY_VENDOR_LIBRARIES_RACE);
  EXPECT_GT(fake_.call_count("cudnnBackendExecute"), timed);
  EXPECT_THAT(raced.Report(HY_REPORT_SCHEDULE, HY_FORMAT_TEXT),
              testing::ContainsRegex("cuDNN 9.19.1, .*: its convolutions won [0-2] of [0-9]+ "
                                     "kernels, with [0-9]+ % of the [0-9.]+ us"));
  ExpectNear(result_of(raced));
  const long calls = fake_.call_count("cudnnBackendExecute");
  const drivers::cuda::ScopedVariable none("HALYARD_CUDNN_LIBRARY", "libnowhere.so.1");
  instance_ = hy::Instance::Create();
  const hy::Program without = CompileOn("cuda:0", HY_VENDOR_LIBRARIES_ALONE);
  EXPECT_THAT(without.Report(HY_REPORT_SCHEDULE, HY_FORMAT_TEXT),
              testing::HasSubstr("No library takes part in convolutions: Library 'libnowhere"));
  ExpectNear(result_of(without));
  EXPECT_EQ(fake_.call_count("cudnnBackendExecute"), calls);
}

// A row that is NaN is NaN behind ReLU, whoever computes that.
TEST_F(VendorLibrary, ReluOfNanIsNan) {
  using namespace onnx::testing;  // NOLINT
  Write("model.onnx", ModelOf({{Node("MatMul", {"x", "w"}, {"p"}), Node("Relu", {"p"}, {"y"})},
                               {FloatTensor("w", {32, 32}, std::vector<float>(1024, 0.5f))},
                               {ValueInfo("x", kF32, {48, 32})},
                               {ValueInfo("y", kF32, {48, 32})}})
                          .str());
  x_[5 * 32 + 7] = std::nanf("");
  for (const hy_vendor_libraries libraries : {HY_VENDOR_LIBRARIES_ALONE, HY_VENDOR_LIBRARIES_OFF}) {
    const long before = Calls();
    const std::vector<float> y = RunOf(CompileOn("cuda:0", libraries));
    EXPECT_EQ(Calls() > before, libraries == HY_VENDOR_LIBRARIES_ALONE);
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 32 == 5) << i;
  }
}

}  // namespace
}  // namespace halyard
