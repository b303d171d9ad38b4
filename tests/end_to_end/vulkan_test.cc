// SPDX-License-Identifier: Apache-2.0
// Mesa's software Vulkan device brings an LLVM of its own into the process; the compiler library
// hides another version. Each must go on working once the other is there, and after it compiled.
#include "tests/end_to_end/device_fixture.h"

namespace halyard {
namespace {

class EndToEndVulkan : public EndToEnd {
 protected:
  hy::Session SessionOn(const hy::Device& device, float added) const {
    return hy::Session::Create(CompileFor(device, RowsModel(added)));
  }

  static hy_result RunRows(const hy::Session& session, const std::vector<int64_t>& indices,
                           std::vector<float>* out) {
    const std::vector<float> x = {0, 1, 10, 11, 20, 21};
    const hy_tensor inputs[] = {TensorOf(HY_DTYPE_F32, {3, 2}, x),
                                TensorOf(HY_DTYPE_I64, {2}, indices)};
    hy_tensor y = HY_TENSOR_INIT;
    const hy_result result = hy_session_run(session.get(), inputs, 2, &y, 1);
    if (result == HY_OK) *out = ValuesOf<float>(y);
    return result;
  }
};

TEST_F(EndToEndVulkan, BothCompilersWorkInOneProcessInEitherOrder) {
  const hy::Device vulkan = instance_.Open("vulkan:0"), cpu = instance_.Open("cpu:0");
  // The device compiles a kernel when it first runs; so each compiles after the other did.
  for (int round = 0; round < 3; ++round) {
    const auto added = static_cast<float>(round + 1);
    const hy::Session on_vulkan = SessionOn(vulkan, added);
    const hy::Session on_cpu = SessionOn(cpu, added);
    for (const hy::Session* session : {&on_vulkan, &on_cpu, &on_vulkan}) {
      std::vector<float> y;
      ASSERT_EQ(RunRows(*session, {2, 0}, &y), HY_OK) << LastError();
      EXPECT_EQ(y, (std::vector<float>{20 + added, 21 + added, added, 1 + added}));
    }
  }
}

TEST_F(EndToEndVulkan, AnIndexOutOfRangeNamesNodeIndexAndExtent) {
  const hy::Session session = SessionOn(instance_.Open("vulkan:0"), 1);
  std::vector<float> y;
  EXPECT_EQ(RunRows(session, {0, 3}, &y), HY_OUT_OF_RANGE);
  EXPECT_THAT(LastError(), testing::HasSubstr("Index 3 is outside an extent of 3"));
  EXPECT_THAT(LastError(), testing::HasSubstr("pick_rows"));
  EXPECT_EQ(RunRows(session, {0, 1}, &y), HY_OK) << LastError();
  EXPECT_EQ(y, (std::vector<float>{1, 2, 11, 12}));
}

// The constant of the remainder is spread by a dispatch of the device; the remainder itself, which
// no code generator has on f64, runs on the CPU. Both bear the node's name.
TEST_F(EndToEndVulkan, ANodeInTwoPartsIsExplainedByBoth) {
  using namespace onnx::testing;  // NOLINT
  constexpr int kF64 = 11;
  Write("wrap.onnx",
        ModelOf({{Node("Cast", {"x"}, {"wide"}, {IntAttribute("to", kF64)}, "wide"),
                  Node("Cast", {"two"}, {"period"}, {IntAttribute("to", kF64)}, "period"),
                  Node("Mod", {"wide", "period"}, {"rest"}, {IntAttribute("fmod", 1)}, "wrap"),
                  Node("Cast", {"rest"}, {"y"}, {IntAttribute("to", kF32)}, "narrow")},
                 {FloatTensor("two", {}, {2})},
                 {ValueInfo("x", kF32, {64, 32})},
                 {ValueInfo("y", kF32, {64, 32})}})
            .str());
  const std::string base = "explain wrap.onnx --no-tune --device vulkan ";
  const std::string node = Run(base + "--node wrap");
  ASSERT_EQ(status_, 0) << node;
  EXPECT_THAT(node, testing::HasSubstr("fate: in the interpreter\nfate: in dispatch 'wrap'\n"
                                       "device: cpu:0\ndevice: vulkan:0\n"));
  const size_t on_cpu = node.find("placement: wrap -> cpu:0: ");
  const size_t on_vulkan = node.find("placement: wrap -> vulkan:0: ");
  ASSERT_NE(on_vulkan, std::string::npos) << node;
  EXPECT_LT(on_cpu, on_vulkan) << node;
  EXPECT_THAT(
      Run(base + "--why-not wrap=vulkan:0"),
      testing::AllOf(
          testing::StartsWith("UNSUPPORTED_OP: Cluster 'wrap' cannot run on 'vulkan:0': The op "
                              "'rem' on f64 has no lowering"),
          testing::EndsWith("\nRUNS_THERE: Cluster 'wrap' runs on 'vulkan:0', in dispatch "
                            "'wrap'.\n")));
  EXPECT_THAT(Run(base + "--why-not wrap=cpu:0"),
              testing::AllOf(testing::StartsWith("RUNS_THERE: Cluster 'wrap' runs on 'cpu:0', in "
                                                 "the interpreter.\n"),
                             testing::HasSubstr("\nLAST_RESORT: ")));
  EXPECT_THAT(Run(base + "--why-not wrap=cpu:0 --json"), testing::HasSubstr("\"parts\": ["));
}

// llvmpipe ends a workitem's loops after 65535 iterations in all.
// -----------------------------------

class EndToEndLlvmpipe : public EndToEnd {
 protected:
  void SetUp() override {
    if (Run("devices").find("llvmpipe") == std::string::npos) GTEST_SKIP() << "no llvmpipe here";
  }

  static onnx::testing::Message RunningSum(const onnx::testing::Dim& length) {
    using namespace onnx::testing;  // NOLINT
    return ModelOf({{Node("CumSum", {"x", "axis"}, {"y"}, {}, "sum")},
                    {IntTensor("axis", {}, {1})},
                    {ValueInfo("x", kF32, {2, length})},
                    {ValueInfo("y", kF32, {2, length})}});
  }

  // y = values and indices of the largest `k` of rows of that length.
  static onnx::testing::Message Largest(int64_t length, int64_t k) {
    using namespace onnx::testing;  // NOLINT
    return ModelOf({{Node("TopK", {"x", "k"}, {"y", "at"}, {}, "largest")},
                    {IntTensor("k", {1}, {k})},
                    {ValueInfo("x", kF32, {2, length})},
                    {ValueInfo("y", kF32, {2, k}), ValueInfo("at", kI64, {2, k})}});
  }

  // Runs model.onnx there and compares with the CPU; what the run wrote.
  std::string RunsAsOnTheCpu(const onnx::testing::Message& model) {
    Write("model.onnx", model.str());
    const std::string want = Run("run model.onnx --no-tune --device cpu --output-dir want");
    EXPECT_EQ(status_, 0) << want;
    const std::string got =
        Run("run model.onnx --no-tune --device vulkan --expect-dir want --rtol 1e-4 --atol 1e-3");
    EXPECT_EQ(status_, 0) << got;
    return got;
  }
};

TEST_F(EndToEndLlvmpipe, ALongRunningSumGoesToTheCpuAndIsReported) {
  RunsAsOnTheCpu(RunningSum(70000));
  EXPECT_THAT(Run("explain model.onnx --no-tune --device vulkan"),
              testing::HasSubstr("Op 'cumsum' runs on 'cpu:0', which joined because no device that "
                                 "was asked for runs it."));
  EXPECT_THAT(Run("explain model.onnx --no-tune --device vulkan --why-not sum=vulkan:0"),
              testing::HasSubstr("A workitem makes 70001 loop iterations; device 'vulkan:0' ends "
                                 "them after 65535."));
  const std::string refused = Run("run model.onnx --no-tune --device vulkan --no-fallback");
  EXPECT_EQ(status_, 2) << refused;
  EXPECT_THAT(refused, testing::HasSubstr("A workitem makes 70001 loop iterations"));
}

TEST_F(EndToEndLlvmpipe, AShorterOneStaysOnTheDevice) {
  RunsAsOnTheCpu(RunningSum(60000));
  Run("run model.onnx --no-tune --device vulkan --no-fallback");
  EXPECT_EQ(status_, 0);
}

TEST_F(EndToEndLlvmpipe, TheLargestOfManyAreRight) {
  for (const auto& [length, k] : {std::pair(300, 256), std::pair(256, 256), std::pair(255, 3),
                                  std::pair(5000, 3), std::pair(70000, 1)}) {
    SCOPED_TRACE(testing::Message() << k << " of " << length);
    RunsAsOnTheCpu(Largest(length, k));
  }
}

TEST_F(EndToEndLlvmpipe, OfALengthThatIsGivenAtRunAGuardDecides) {
  const hy::Device vulkan = instance_.Open("vulkan:0");
  const hy::Program program = CompileFor(vulkan, RunningSum("n"), HY_POLICY_DEFAULT);
  const hy::Session session = hy::Session::Create(program);
  for (const int64_t length : {1000, 60000, 70000, 60000}) {
    const std::vector<float> x(static_cast<size_t>(2 * length), 0.5f);
    const hy_tensor input = TensorOf(HY_DTYPE_F32, {2, length}, x);
    hy_tensor y = HY_TENSOR_INIT;
    const hy_result result = hy_session_run(session.get(), &input, 1, &y, 1);
    if (length > 65534) {
      EXPECT_EQ(result, HY_INVALID_ARGUMENT);
      EXPECT_THAT(LastError(), testing::AllOf(testing::HasSubstr("n = 70000"),
                                              testing::HasSubstr("loop iterations of 'sum")));
      continue;
    }
    ASSERT_EQ(result, HY_OK) << LastError();
    EXPECT_EQ(ValuesOf<float>(y).back(), static_cast<float>(length) / 2);
  }
  // A program for that very length has the sum on the CPU.
  hy_session_desc exact = HY_SESSION_DESC_INIT;
  exact.on_new_shapes = HY_NEW_SHAPES_COMPILE;
  const hy::Session compiling = hy::Session::Create(program, &exact);
  const std::vector<float> x(140000, 0.5f);
  const hy_tensor input = TensorOf(HY_DTYPE_F32, {2, 70000}, x);
  hy_tensor y = HY_TENSOR_INIT;
  ASSERT_EQ(hy_session_run(compiling.get(), &input, 1, &y, 1), HY_OK) << LastError();
  EXPECT_EQ(ValuesOf<float>(y).back(), 35000);
}

}  // namespace
}  // namespace halyard
