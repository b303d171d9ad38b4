// SPDX-License-Identifier: Apache-2.0
// Legal graphs of unusual form, on compiled code: what random graphs compared with ONNX Runtime
// found, each reduced to the few nodes that showed it.
#include <cmath>
#include <limits>

#include "tests/end_to_end/fixture.h"

namespace halyard {
namespace {

using onnx::testing::FloatTensor;
using onnx::testing::GraphAttribute;
using onnx::testing::GraphOf;
using onnx::testing::IntAttribute;
using onnx::testing::IntTensor;
using onnx::testing::kF32;
using onnx::testing::kI64;
using onnx::testing::Message;
using onnx::testing::ModelOf;
using onnx::testing::Node;
using onnx::testing::ValueInfo;

class OddGraph : public EndToEnd {
 protected:
  // Runs a model of one input and one output.
  static std::vector<float> RunOnce(const hy::Program& program, const std::vector<int64_t>& dims,
                                    const std::vector<float>& x) {
    const auto session = hy::Session::Create(program);
    const hy_tensor in = TensorOf(HY_DTYPE_F32, dims, x);
    hy_tensor out = HY_TENSOR_INIT;
    EXPECT_EQ(hy_session_run(session.get(), &in, 1, &out, 1), HY_OK) << LastError();
    return out.data == nullptr ? std::vector<float>{} : ValuesOf<float>(out);
  }
};

// The loop runs in the interpreter; its operand has the size n + 2, from which n cannot be read.
TEST_F(OddGraph, ALoopOverSizesComputedOutsideIt) {
  const Message body =
      GraphOf({{Node("Identity", {"go"}, {"go_on"}), Node("Add", {"a", "padded"}, {"b"})},
               {},
               {ValueInfo("i", kI64, {}), ValueInfo("go", 9, {}), ValueInfo("a", kF32, {""})},
               {ValueInfo("go_on", 9, {}), ValueInfo("b", kF32, {""})}});
  const hy::Program program = Compile(
      ModelOf({{Node("Pad", {"x", "pads"}, {"padded"}),
                Node("Loop", {"trips", "", "padded"}, {"y"}, {GraphAttribute("body", body)})},
               {IntTensor("pads", {2}, {0, 2}), IntTensor("trips", {}, {2})},
               {ValueInfo("x", kF32, {"n"})},
               {ValueInfo("y", kF32, {""})}}));
  EXPECT_EQ(RunOnce(program, {1}, {5}), (std::vector<float>{15, 0, 0}));
  EXPECT_EQ(RunOnce(program, {3}, {1, 2, 3}), (std::vector<float>{3, 6, 9, 0, 0}));
}

// The body's weights, one of the outer graph and one of its own, are too large for its text.
TEST_F(OddGraph, ALoopWithWeights) {
  std::vector<float> outer(64, 0.0f), inner(64, 0.0f);
  for (int i = 0; i < 8; ++i) {
    outer[static_cast<size_t>(i * 8 + (i + 1) % 8)] = 2;  // turns by one, times two
    inner[static_cast<size_t>(i * 8 + i)] = static_cast<float>(i);
  }
  const Message body = GraphOf(
      {{Node("Identity", {"go"}, {"go_on"}), Node("MatMul", {"a", "outer"}, {"turned"}),
        Node("MatMul", {"a", "inner"}, {"scaled"}), Node("Add", {"turned", "scaled"}, {"b"})},
       {FloatTensor("inner", {8, 8}, inner)},
       {ValueInfo("i", kI64, {}), ValueInfo("go", 9, {}), ValueInfo("a", kF32, {"", ""})},
       {ValueInfo("go_on", 9, {}), ValueInfo("b", kF32, {"", ""})}});
  const hy::Program program =
      Compile(ModelOf({{Node("Loop", {"trips", "", "x"}, {"y"}, {GraphAttribute("body", body)})},
                       {IntTensor("trips", {}, {2}), FloatTensor("outer", {8, 8}, outer)},
                       {ValueInfo("x", kF32, {1, 8})},
                       {ValueInfo("y", kF32, {"", ""})}}));
  // b[j] = 2 a[j - 1] + j a[j], twice.
  EXPECT_EQ(RunOnce(program, {1, 8}, {1, 0, 0, 0, 0, 0, 0, 0}),
            (std::vector<float>{0, 2, 4, 0, 0, 0, 0, 0}));
}

// The constants without elements stand behind those that have some.
TEST_F(OddGraph, ConstantsWithoutElements) {
  const auto model = [&](const std::vector<float>& bias) {
    return Compile(
        ModelOf({{Node("Add", {"x", "bias"}, {"sum"}), Node("Mul", {"sum", "none"}, {"product"}),
                  Node("Concat", {"product", "sum"}, {"y"}, {IntAttribute("axis", 1)})},
                 {FloatTensor("bias", {static_cast<int64_t>(bias.size()), 1}, bias),
                  FloatTensor("none", {1, 0}, {})},
                 {ValueInfo("x", kF32, {3, 1})},
                 {ValueInfo("y", kF32, {3, 1})}}));
  };
  EXPECT_EQ(RunOnce(model({1, 2, 3}), {3, 1}, {1, 1, 1}), (std::vector<float>{2, 3, 4}));
  EXPECT_EQ(RunOnce(model({1}), {3, 1}, {1, 1, 1}), (std::vector<float>{2, 2, 2}));
}

// The content hashes of i64[]{0} and i64[0] are equal: 8 bytes of zero, a value or a dim.
TEST_F(OddGraph, ConstantsThatHashAlike) {
  const auto session = hy::Session::Create(
      Compile(ModelOf({{Node("Neg", {"x"}, {"y"})},
                       {IntTensor("none", {0}, {}), IntTensor("zero", {}, {0})},
                       {ValueInfo("x", kF32, {1})},
                       {ValueInfo("y", kF32, {1}), ValueInfo("none", kI64, {int64_t{0}}),
                        ValueInfo("zero", kI64, {})}})));
  const std::vector<float> x = {1};
  const hy_tensor in = TensorOf(HY_DTYPE_F32, {1}, x);
  hy_tensor out[] = {HY_TENSOR_INIT, HY_TENSOR_INIT, HY_TENSOR_INIT};
  ASSERT_EQ(hy_session_run(session.get(), &in, 1, out, 3), HY_OK) << LastError();
  EXPECT_EQ(out[1].size_bytes, 0u);
  EXPECT_EQ(ValuesOf<int64_t>(out[2]), (std::vector<int64_t>{0}));
}

// An axis of size 1 has no loop; what is left of the window are taps that are always outside.
TEST_F(OddGraph, AWindowAlongAPaddedAxisOfSizeOne) {
  std::vector<float> x(5 * 40), w(5 * 3), want(5 * 40);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i) + 1;
  for (size_t i = 0; i < want.size(); ++i) want[i] = x[i] * w[i / 40 * 3 + 1];
  const auto ints = [](std::string_view name, const std::vector<int64_t>& values) {
    return onnx::testing::IntsAttribute(name, values);
  };
  const hy::Program program = Compile(ModelOf(
      {{Node("Conv", {"x", "w"}, {"y"}, {IntAttribute("group", 5), ints("pads", {1, 0, 1, 0})})},
       {FloatTensor("w", {5, 1, 3, 1}, w)},
       {ValueInfo("x", kF32, {1, 5, 1, 40})},
       {ValueInfo("y", kF32, {1, 5, 1, 40})}}));
  EXPECT_EQ(RunOnce(program, {1, 5, 1, 40}, x), want);
}

// One f32 accumulator loses 2% of this sum: near its end each addend is rounded to a multiple of
// 1/64.
TEST_F(OddGraph, LongSumsKeepTheirDigits) {
  const int64_t count = int64_t{1} << 21;
  const std::vector<float> x(static_cast<size_t>(count), 0.1f);
  const auto expect_close = [&](const std::vector<float>& sums, double wanted) {
    for (const float sum : sums) EXPECT_NEAR(sum, wanted, wanted * 1e-4);
  };
  for (const bool is_static : {false, true}) {
    const onnx::testing::Dim whole = is_static ? onnx::testing::Dim(count) : "n";
    const onnx::testing::Dim half = is_static ? onnx::testing::Dim(count / 2) : "n";
    const auto model = [&](const std::vector<onnx::testing::Dim>& dims) {
      return Compile(
          ModelOf({{Node("ReduceSum", {"x", "axes"}, {"y"}, {IntAttribute("keepdims", 0)})},
                   {IntTensor("axes", {1}, {0})},
                   {ValueInfo("x", kF32, dims)},
                   {Message().Text(1, "y")}}));
    };
    expect_close(RunOnce(model({whole}), {count}, x), static_cast<double>(count) * 0.1);
    expect_close(RunOnce(model({half, 2}), {count / 2, 2}, x), static_cast<double>(count) * 0.05);
  }
}

// Kernels without elements have equal candidates first, and others after them: they are no race of
// each other's.
// Squares in f16 are not stored, the largest is: it is one of them all the same.
TEST_F(OddGraph, TheLargestOfUnstoredNarrowFloatsIsFound) {
  constexpr int64_t kF16 = 10;
  const hy::Program program =
      Compile(ModelOf({{Node("Cast", {"x"}, {"narrow"}, {IntAttribute("to", kF16)}),
                        Node("Mul", {"narrow", "narrow"}, {"square"}),
                        Node("Hardmax", {"square"}, {"most"}, {IntAttribute("axis", 0)}),
                        Node("Cast", {"most"}, {"y"}, {IntAttribute("to", kF32)})},
                       {},
                       {ValueInfo("x", kF32, {33})},
                       {ValueInfo("y", kF32, {33})}}));
  std::vector<float> x(33), wanted(33, 0.0f);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 1 + static_cast<float>(i * 7 % 33) / 37;
  wanted[14] = 1;  // 1 + 32 / 37
  EXPECT_EQ(RunOnce(program, {33}, x), wanted);
}

// One vector of products for each sum, which LLVM makes one instruction of where there is one.
TEST_F(OddGraph, ProductsOfSignedAndUnsignedBytes) {
  constexpr int64_t kI8 = 3, kU8 = 2, kI32 = 6;
  for (const int64_t k : {8, 16}) {
    const hy::Program program =
        Compile(ModelOf({{Node("MatMulInteger", {"a", "b"}, {"y"})},
                         {},
                         {ValueInfo("a", kI8, {1, k}), ValueInfo("b", kU8, {k, 1})},
                         {ValueInfo("y", kI32, {1, 1})}}));
    std::vector<int8_t> a;
    std::vector<uint8_t> b;
    int32_t wanted = 0;
    for (int64_t i = 0; i < k; ++i) {
      a.push_back(static_cast<int8_t>(i % 3 == 0 ? 127 - i : i - 128));
      b.push_back(static_cast<uint8_t>(255 - 7 * i));
      wanted += a.back() * b.back();
    }
    const auto session = hy::Session::Create(program);
    const hy_tensor in[] = {TensorOf(HY_DTYPE_I8, {1, k}, a), TensorOf(HY_DTYPE_U8, {k, 1}, b)};
    hy_tensor out = HY_TENSOR_INIT;
    ASSERT_EQ(hy_session_run(session.get(), in, 2, &out, 1), HY_OK) << LastError();
    EXPECT_EQ(ValuesOf<int32_t>(out), std::vector<int32_t>{wanted}) << k;
  }
}

TEST_F(OddGraph, AnEmptyBatchWithTuning) {
  const Message model = ModelOf({{Node("Softmax", {"x"}, {"s"}), Node("Add", {"s", "x"}, {"y"})},
                                 {},
                                 {ValueInfo("x", kF32, {int64_t{0}, 16})},
                                 {ValueInfo("y", kF32, {int64_t{0}, 16})}});
  const hy::Program program = CompileFor(instance_.Open("cpu:0"), model, HY_POLICY_ERROR,
                                         HY_PRECISION_AS_GIVEN, HY_PRECISION_AS_GIVEN, true);
  EXPECT_TRUE(RunOnce(program, {0, 16}, {}).empty());
}

// Nothing is left to place.
TEST_F(OddGraph, GraphsWithoutWork) {
  const Message x = ValueInfo("x", kF32, {"n"}), y = ValueInfo("y", kF32, {"n"});
  const std::vector<float> values = {1, -2, 3};
  EXPECT_EQ(
      RunOnce(Compile(ModelOf({{Node("Identity", {"x"}, {"y"})}, {}, {x}, {y}})), {3}, values),
      values);
  EXPECT_EQ(RunOnce(Compile(ModelOf({{}, {}, {x}, {x}})), {3}, values), values);
}

// Placement ends counting at 4 TiB, which is then no count: this is 16 TiB.
TEST_F(EndToEnd, ASizeBeyondCountingIsNotToldAsACount) {
  using namespace onnx::testing;  // NOLINT
  Write("big.onnx", ModelOf({{Node("Relu", {"x"}, {"y"}, {}, "relu")},
                             {},
                             {ValueInfo("x", kF32, {"n", 1 << 20})},
                             {ValueInfo("y", kF32, {"n", 1 << 20})}})
                        .str());
  EXPECT_THAT(Run("explain big.onnx --no-tune --device cpu:0 --shape n=4194304"),
              testing::HasSubstr("takes 4398046511104 bytes or more; a buffer of the device has"));
  EXPECT_EQ(status_, 2);
  // A sentence for each device that it does not fit.
  EXPECT_THAT(
      Run("explain big.onnx --no-tune --device vulkan:0 --shape n=4194304"),
      testing::ContainsRegex(
          "No device can run '[^']*'\\. 'vulkan:0' cannot run it \\([^)]*\\): '[^']*' takes "
          "[0-9]+ bytes or more; a buffer of the device has at most [0-9]+\\. 'cpu:0' cannot "));
}

// Memory is planned before the run, so a count that the data decides is refused by the node's name.
TEST_F(EndToEnd, ASizeThatTheDataDecidesNamesNodeAndOp) {
  using namespace onnx::testing;  // NOLINT
  Write("nonzero.onnx", ModelOf({{Node("NonZero", {"x"}, {"found"}, {}, "find")},
                                 {},
                                 {ValueInfo("x", kF32, {2, 3})},
                                 {ValueInfo("found", kI64, {2, "k"})}})
                            .str());
  EXPECT_THAT(Run("run nonzero.onnx --no-tune --device cpu:0"),
              testing::AllOf(testing::HasSubstr("Node 'find' (op 'NonZero') has a result whose"),
                             testing::HasSubstr("depends on the data")));
  EXPECT_EQ(status_, 2);
  Write("compress.onnx", ModelOf({{Node("Compress", {"x", "chosen"}, {"y"}, {}, "pick")},
                                  {},
                                  {ValueInfo("x", kF32, {6}), ValueInfo("chosen", kBool, {6})},
                                  {ValueInfo("y", kF32, {"k"})}})
                             .str());
  EXPECT_THAT(Run("run compress.onnx --no-tune --device cpu:0"),
              testing::HasSubstr("Node 'pick' (op 'Compress')"));
  EXPECT_EQ(status_, 2);
}

}  // namespace
}  // namespace halyard
