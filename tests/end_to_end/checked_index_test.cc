// SPDX-License-Identifier: Apache-2.0
// Lengths and indices that only a run tells and that ONNX does not let count from the end: each is
// checked where it is used, on every kind of device.
#include "tests/drivers/cuda/fake_knobs.h"
#include "tests/end_to_end/device_fixture.h"

namespace halyard {
namespace {

using namespace onnx::testing;  // NOLINT

struct Case {
  const char* op;
  int64_t opset;
  std::vector<std::string> inputs;  // "" is absent
  std::vector<Message> infos;
  std::vector<Message> attributes;
  std::vector<Message> constants;
  int index_type;
  std::vector<int64_t> index_dims;
  int64_t most;  // the largest value that is in range
  const char* what;
};

std::vector<Case> Cases() {
  const auto ramp = [](size_t count) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = 0.01f * static_cast<float>(i % 7);
    return values;
  };
  const auto layer = [&](const char* op, int64_t gates, const char* direction) {
    return Case{op,
                17,
                {"x", "w", "r", "", "i"},
                {ValueInfo("x", kF32, {4, 2, 3})},
                {IntAttribute("hidden_size", 2), TextAttribute("direction", direction)},
                {FloatTensor("w", {1, gates * 2, 3}, ramp(static_cast<size_t>(gates) * 6)),
                 FloatTensor("r", {1, gates * 2, 2}, ramp(static_cast<size_t>(gates) * 4))},
                kI32,
                {2},
                4,
                "entry of 'sequence_lens'"};
  };
  return {
      layer("LSTM", 4, "forward"),
      layer("GRU", 3, "reverse"),
      layer("RNN", 1, "forward"),
      {"ReverseSequence",
       17,
       {"x", "i"},
       {ValueInfo("x", kF32, {3, 2})},
       {},
       {},
       kI64,
       {2},
       3,
       "entry of 'sequence_lens'"},
      {"RoiAlign",
       17,
       {"x", "r", "i"},
       {ValueInfo("x", kF32, {2, 1, 4, 4}), ValueInfo("r", kF32, {2, 4})},
       {IntAttribute("output_height", 2), IntAttribute("output_width", 2),
        IntAttribute("sampling_ratio", 2)},
       {},
       kI64,
       {2},
       1,
       "entry of 'batch_indices'"},
      {"TensorScatter",
       24,
       {"x", "u", "i"},
       {ValueInfo("x", kF32, {2, 4, 3}), ValueInfo("u", kF32, {2, 2, 3})},
       {},
       {},
       kI64,
       {2},
       2,
       "entry of 'write_indices'"},
      {"TensorScatter",
       24,
       {"x", "u", "i"},
       {ValueInfo("x", kF32, {2, 4, 3}), ValueInfo("u", kF32, {2, 2, 3})},
       {TextAttribute("mode", "circular")},
       {},
       kI64,
       {2},
       3,
       "entry of 'write_indices'"},
      {"NegativeLogLikelihoodLoss",
       17,
       {"x", "i"},
       {ValueInfo("x", kF32, {2, 3})},
       {},
       {},
       kI64,
       {2},
       2,
       "target"},
      {"MaxUnpool",
       17,
       {"x", "i"},
       {ValueInfo("x", kF32, {1, 1, 2})},
       {IntsAttribute("kernel_shape", {2}), IntsAttribute("strides", {2})},
       {},
       kI64,
       {1, 1, 2},
       3,
       "index"},
      {"RotaryEmbedding",
       23,
       {"x", "c", "s", "i"},
       {ValueInfo("x", kF32, {1, 1, 2, 4}), ValueInfo("c", kF32, {5, 2}),
        ValueInfo("s", kF32, {5, 2})},
       {},
       {},
       kI64,
       {1, 2},
       4,
       "entry of 'position_ids'"},
      {"Attention",
       24,
       {"q", "k", "v", "", "", "", "i"},
       {ValueInfo("q", kF32, {2, 1, 2, 4}), ValueInfo("k", kF32, {2, 1, 3, 4}),
        ValueInfo("v", kF32, {2, 1, 3, 4})},
       {},
       {},
       kI64,
       {2},
       3,
       "entry of 'nonpad_kv_seqlen'"},
  };
}

class CheckedIndex : public OnDevice {
 protected:
  // A real library of the machine knows nothing of the stand-in.
  const drivers::cuda::ScopedVariable matmuls_{"HALYARD_CUBLASLT_LIBRARY", "libnowhere.so.1"};
  const drivers::cuda::ScopedVariable convolutions_{"HALYARD_CUDNN_LIBRARY", "libnowhere.so.1"};
};

TEST_P(CheckedIndex, OutOfRangeIsRefusedByNameAndValue) {
  for (const Case& one : Cases()) {
    SCOPED_TRACE(one.op);
    std::vector<Message> infos = one.infos;
    std::vector<Dim> dims;
    for (const int64_t dim : one.index_dims) dims.emplace_back(dim);
    infos.push_back(ValueInfo("i", one.index_type, dims));
    const Message model = ModelOf({{Node(one.op, one.inputs, {"y"}, one.attributes, "checked")},
                                   one.constants,
                                   infos,
                                   {ValueInfo("y", kF32, {""})}},
                                  one.opset);
    const hy::Program program = CompileFor(device_, model, HY_POLICY_FALLBACK);
    const hy::Session session = hy::Session::Create(program);
    const std::vector<float> zeros(64, 0.0f);
    const auto run = [&](std::vector<int64_t> index) {
      std::vector<hy_tensor> inputs;
      for (const hy_tensor_info& info : program.Io(HY_IO_INPUT)) {
        std::vector<int64_t> shape(info.dims, info.dims + info.rank);
        size_t count = 1;
        for (const int64_t dim : shape) count *= static_cast<size_t>(dim);
        if (info.dtype == HY_DTYPE_F32) {
          inputs.push_back(TensorOf(HY_DTYPE_F32, shape, zeros));
          inputs.back().size_bytes = count * 4;
        } else if (info.dtype == HY_DTYPE_I32) {
          // In place: a little-endian i64 begins with the i32.
          auto* narrow = reinterpret_cast<int32_t*>(index.data());
          for (size_t i = 0; i < count; ++i) narrow[i] = static_cast<int32_t>(index[i]);
          inputs.push_back(TensorOf(HY_DTYPE_I32, shape, index));
          inputs.back().size_bytes = count * 4;
        } else {
          inputs.push_back(TensorOf(HY_DTYPE_I64, shape, index));
        }
      }
      hy_tensor y = HY_TENSOR_INIT;
      return hy_session_run(session.get(), inputs.data(), inputs.size(), &y, 1);
    };
    EXPECT_EQ(run({one.most, 0}), HY_OK) << LastError();
    for (const int64_t bad : {int64_t{-1}, one.most + 1, int64_t{INT32_MAX}, int64_t{INT32_MIN}}) {
      EXPECT_EQ(run({0, bad}), HY_OUT_OF_RANGE) << bad;
      EXPECT_THAT(LastError(),
                  testing::HasSubstr("Index " + std::to_string(bad) + " is outside an extent of " +
                                     std::to_string(one.most + 1)));
      EXPECT_THAT(LastError(), testing::HasSubstr("'checked': " + std::string(one.what)));
    }
    EXPECT_EQ(run({0, 0}), HY_OK) << LastError();
  }
}

// Races run kernels on content of their own, which has to be in range, too: also where an index is
// computed from floats, or in another kernel.
TEST_P(CheckedIndex, RacesHaveContentThatIsInRange) {
  std::vector<Message> models;
  for (const Case& one : Cases()) {
    std::vector<Message> infos = one.infos;
    std::vector<Dim> dims;
    for (const int64_t dim : one.index_dims) dims.emplace_back(dim);
    infos.push_back(ValueInfo("i", one.index_type, dims));
    models.push_back(ModelOf({{Node(one.op, one.inputs, {"y"}, one.attributes, "checked")},
                              one.constants,
                              infos,
                              {ValueInfo("y", kF32, {""})}},
                             one.opset));
  }
  const Message x = ValueInfo("x", kF32, {2, 64}), i = ValueInfo("i", kI64, {8});
  const Message y = ValueInfo("y", kF32, {""});
  models.push_back(ModelOf({{Node("Relu", {"a"}, {"r"}), Node("Det", {"r"}, {"y"}, {}, "det")},
                            {},
                            {ValueInfo("a", kF32, {3, 2, 2})},
                            {y}}));
  models.push_back(ModelOf(
      {{Node("Gather", {"x", "i"}, {"y"}, {IntAttribute("axis", 0)}, "rows")}, {}, {x, i}, {y}}));
  models.push_back(ModelOf({{Node("Mul", {"i", "i"}, {"s"}),
                             Node("Gather", {"x", "s"}, {"y"}, {IntAttribute("axis", 0)}, "rows")},
                            {},
                            {x, i},
                            {y}}));
  models.push_back(ModelOf(
      {{Node("Mul", {"f", "c"}, {"m"}), Node("Cast", {"m"}, {"s"}, {IntAttribute("to", kI64)}),
        Node("Gather", {"x", "s"}, {"y"}, {IntAttribute("axis", 0)}, "rows")},
       {FloatTensor("c", {}, {1000})},
       {x, ValueInfo("f", kF32, {8})},
       {y}}));
  models.push_back(ModelOf({{Node("GatherND", {"x", "j"}, {"y"}, {}, "nd")},
                            {},
                            {x, ValueInfo("j", kI64, {8, 1})},
                            {y}}));
  models.push_back(
      ModelOf({{Node("GatherElements", {"x", "j"}, {"y"}, {IntAttribute("axis", 0)}, "elements")},
               {},
               {x, ValueInfo("j", kI64, {1, 64})},
               {y}}));
  models.push_back(ModelOf(
      {{Node("ScatterElements", {"x", "j", "u"}, {"y"}, {IntAttribute("axis", 0)}, "scatter")},
       {},
       {x, ValueInfo("j", kI64, {1, 64}), ValueInfo("u", kF32, {1, 64})},
       {y}}));
  models.push_back(ModelOf({{Node("ScatterND", {"x", "j", "u"}, {"y"}, {}, "scatter")},
                            {},
                            {x, ValueInfo("j", kI64, {3, 1}), ValueInfo("u", kF32, {3, 64})},
                            {y}}));
  size_t raced = 0;
  for (const Message& model : models) {
    const hy::Program program = CompileFor(device_, model, HY_POLICY_FALLBACK,
                                           HY_PRECISION_AS_GIVEN, HY_PRECISION_AS_GIVEN, true);
    const std::string schedules = program.Report(HY_REPORT_SCHEDULE, HY_FORMAT_TEXT);
    EXPECT_THAT(schedules, testing::Not(testing::HasSubstr("the race failed")));
    raced += schedules.find(" in a race at ") != std::string::npos;
  }
  EXPECT_GE(raced, 4u) << "most kernels of most devices have one candidate here";
}

INSTANTIATE_TEST_SUITE_P(Devices, CheckedIndex, testing::ValuesIn(OnDevice::kPaths),
                         OnDevice::NameOf);

}  // namespace
}  // namespace halyard
