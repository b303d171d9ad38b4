// SPDX-License-Identifier: Apache-2.0
// io_precision: programs whose f32 inputs and outputs are f16, through the interface on every kind
// of device and through the command.
#include <cmath>

#include "base/float16.h"
#include "tests/end_to_end/device_fixture.h"

namespace halyard {
namespace {

using testing::HasSubstr;

// y = x w + b, kept = x, picked = y[i], i_out = i. All values of `x` and `w` are f16.
onnx::testing::Message Model() {
  using namespace onnx::testing;  // NOLINT
  std::vector<float> w(8 * 16);
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i * 7 % 13) / 8 - 0.75f;
  return ModelOf({{Node("MatMul", {"x", "w"}, {"p"}), Node("Add", {"p", "b"}, {"y"}),
                   Node("Identity", {"x"}, {"kept"}), Node("Identity", {"i"}, {"i_out"}),
                   Node("Gather", {"y", "i"}, {"picked"}, {IntAttribute("axis", 0)})},
                  {FloatTensor("w", {8, 16}, w), FloatTensor("b", {}, {0.1f})},
                  {ValueInfo("x", kF32, {"n", 8}), ValueInfo("i", kI64, {2})},
                  {ValueInfo("y", kF32, {"n", 16}), ValueInfo("kept", kF32, {"n", 8}),
                   ValueInfo("picked", kF32, {2, 16}), ValueInfo("i_out", kI64, {2})}});
}

class IoPrecision : public OnDevice {
 protected:
  hy::Program CompileWith(hy_precision precision, hy_precision io_precision) const {
    return CompileFor(device_, Model(), HY_POLICY_ERROR, precision, io_precision);
  }
};

TEST_P(IoPrecision, F32InputsAndOutputsAreF16AndOthersStay) {
  const hy::Program plain = CompileWith(HY_PRECISION_AS_GIVEN, HY_PRECISION_AS_GIVEN);
  const hy::Session reference = hy::Session::Create(plain);
  for (const hy_precision precision : {HY_PRECISION_AS_GIVEN, HY_PRECISION_F16}) {
    const hy::Program program = CompileWith(precision, HY_PRECISION_F16);
    for (const hy_io_kind kind : {HY_IO_INPUT, HY_IO_OUTPUT}) {
      const auto now = program.Io(kind), before = plain.Io(kind);
      ASSERT_EQ(now.size(), before.size());
      for (size_t t = 0; t < now.size(); ++t) {
        EXPECT_EQ(hy::ToString(now[t].name), hy::ToString(before[t].name));
        EXPECT_EQ(hy::ToString(now[t].shape), hy::ToString(before[t].shape));
        EXPECT_EQ(now[t].dtype, before[t].dtype == HY_DTYPE_F32 ? HY_DTYPE_F16 : before[t].dtype);
      }
    }
    EXPECT_THAT(program.Report(HY_REPORT_ALL, HY_FORMAT_TEXT),
                testing::AllOf(HasSubstr("  input  x: f16[n, 8]\n  input  i: i64[2]\n"),
                               HasSubstr("  output y: f16[n, 16]\n")));
    const hy::Session session = hy::Session::Create(program);
    for (const int64_t n : {3, 70}) {
      std::vector<float> x(static_cast<size_t>(n) * 8);
      for (size_t e = 0; e < x.size(); ++e) x[e] = static_cast<float>(e * 5 % 11) / 16 - 0.25f;
      std::vector<uint16_t> narrow;
      for (const float value : x) narrow.push_back(F16FromF32(value));
      const std::vector<int64_t> rows = {2, 0};
      const hy_tensor i = TensorOf(HY_DTYPE_I64, {2}, rows);
      std::vector<hy_tensor> got(4, HY_TENSOR_INIT), want(4, HY_TENSOR_INIT);
      session.Run({TensorOf(HY_DTYPE_F16, {n, 8}, narrow), i}, got);
      reference.Run({TensorOf(HY_DTYPE_F32, {n, 8}, x), i}, want);
      EXPECT_EQ(ValuesOf<uint16_t>(got[1]), narrow);
      EXPECT_EQ(ValuesOf<int64_t>(got[3]), rows);
      for (const size_t t : {0u, 2u}) {
        const auto y = ValuesOf<uint16_t>(got[t]);
        const auto expected = ValuesOf<float>(want[t]);
        ASSERT_EQ(got[t].dtype, HY_DTYPE_F16);
        ASSERT_EQ(y.size(), expected.size());
        for (size_t e = 0; e < y.size(); ++e) {
          // In f32 only the output is rounded; in f16 the bias is, and perhaps the product, of
          // values below 4.
          const float error = std::fabs(F32FromF16(y[e]) - expected[e]);
          const float limit = precision == HY_PRECISION_F16 ? 0.006f : 0.0f;
          EXPECT_LE(error, limit + std::fabs(expected[e]) * 0x1p-11f + 0x1p-18f) << e;
        }
      }
      // The host's f32 is not taken for f16.
      hy_tensor outputs[4] = {HY_TENSOR_INIT, HY_TENSOR_INIT, HY_TENSOR_INIT, HY_TENSOR_INIT};
      const hy_tensor wrong[] = {TensorOf(HY_DTYPE_F32, {n, 8}, x), i};
      EXPECT_EQ(hy_session_run(session.get(), wrong, 2, outputs, 4), HY_INVALID_ARGUMENT);
      EXPECT_THAT(LastError(), HasSubstr("Input 'x' has dtype f32; the program needs f16."));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, IoPrecision, testing::ValuesIn(OnDevice::kPaths),
                         OnDevice::NameOf);

class IoPrecisionCommand : public EndToEnd {};

// Output 1 of the model is its input x, output 3 its input i.
TEST_F(IoPrecisionCommand, FilesOfBothTypesAreReadAndExpected) {
  Write("model.onnx", Model().str());
  const std::string run = "run model.onnx --no-tune --device cpu ";
  std::string out = Run(run + "--shape n=3 --output-dir want");
  ASSERT_EQ(status_, 0) << out;
  const std::string narrow = run + "--precision fp16 --io-precision fp16 ";
  const std::string files = "--input x=@want/output_1.npy --input i=@want/output_3.npy ";
  out = Run(narrow + files + "--output-dir got --expect-dir want --rtol 4e-3 --atol 4e-3");
  EXPECT_EQ(status_, 0) << out;
  out = Run(narrow + files + "--expect-dir want --rtol 0 --atol 0");
  EXPECT_EQ(status_, 4) << out;
  EXPECT_THAT(out, HasSubstr("is expected (rtol 0, atol 0)"));
  out = Run(narrow +
            "--input x=@got/output_1.npy --input i=@got/output_3.npy --expect-dir got "
            "--rtol 0 --atol 0");
  EXPECT_EQ(status_, 0) << out;
  out = Run(run + files + "--expect-dir got");
  EXPECT_EQ(status_, 4) << out;
  EXPECT_THAT(out, HasSubstr("output 'y': it is f32[3, 16]; f16[3, 16] is expected"));
}

TEST_F(IoPrecisionCommand, ACompiledProgramKeepsItsTypesAndTheCommandsTellThem) {
  Write("model.onnx", Model().str());
  Run("run model.onnx --no-tune --device cpu --shape n=3 --output-dir want");
  std::string out =
      Run("compile model.onnx --no-tune --device cpu --io-precision fp16 -o program.hyp");
  ASSERT_EQ(status_, 0) << out;
  EXPECT_THAT(Run("explain program.hyp"), HasSubstr("input  x: f16[n, 8]"));
  EXPECT_THAT(Run("run program.hyp --input x=@want/output_1.npy"),
              HasSubstr("Input 'x' has dtype f32; the program needs f16."));
  EXPECT_EQ(status_, 2);
  EXPECT_THAT(Run("explain model.onnx --no-tune --device cpu --io-precision fp16"),
              HasSubstr("output y: f16[n, 16]"));
  out =
      Run("bench model.onnx --no-tune --device cpu --shape n=4 --precision fp16 --io-precision "
          "fp16 --runs 2 --warm-up 0 --seconds 0.01 --no-profile --rtol 4e-3 --atol 4e-3 -o json");
  EXPECT_EQ(status_, 0) << out;
  EXPECT_THAT(
      out, testing::AllOf(HasSubstr("\"io_precision\": \"fp16\""), HasSubstr("\"max_abs_error\"")));
}

}  // namespace
}  // namespace halyard
