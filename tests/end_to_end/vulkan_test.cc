// SPDX-License-Identifier: Apache-2.0
// Mesa's software Vulkan device brings an LLVM of its own into the process; the compiler library
// hides another version. Each must go on working once the other is there, and after it compiled.
#include "tests/end_to_end/fixture.h"

namespace halyard {
namespace {

using onnx::testing::FloatTensor;
using onnx::testing::IntAttribute;
using onnx::testing::kF32;
using onnx::testing::kI64;
using onnx::testing::Message;
using onnx::testing::ModelOf;
using onnx::testing::Node;
using onnx::testing::ValueInfo;

class EndToEndVulkan : public EndToEnd {
 protected:
  // y = x[i] + `added` over the rows of x.
  static Message Rows(float added) {
    return ModelOf({{Node("Gather", {"x", "i"}, {"g"}, {IntAttribute("axis", 0)}, "pick_rows"),
                     Node("Add", {"g", "c"}, {"y"}, {}, "add")},
                    {FloatTensor("c", {}, {added})},
                    {ValueInfo("x", kF32, {3, 2}), ValueInfo("i", kI64, {2})},
                    {ValueInfo("y", kF32, {2, 2})}});
  }

  hy::Session SessionOn(const hy::Device& device, float added) const {
    const std::string path = Write("model.onnx", Rows(added).str());
    hy_device_t* raw = device.get();
    hy_compile_desc desc = HY_COMPILE_DESC_INIT;
    desc.onnx_path = hy::View(path);
    desc.devices = &raw;
    desc.device_count = 1;
    desc.disable_tuning = 1;
    desc.disable_cache = 1;
    desc.on_unsupported_op = HY_POLICY_ERROR;
    return hy::Session::Create(hy::Program::Compile(instance_, desc));
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

}  // namespace
}  // namespace halyard
