// SPDX-License-Identifier: Apache-2.0
// What tests over several kinds of devices share: their paths, the stand-in for libcuda, and a
// small model whose run can fail.
#pragma once

#include "tests/end_to_end/fixture.h"

namespace halyard {

// y = x[i] + `added` over the rows of x, f32[3, 2]; i is i64[2].
inline onnx::testing::Message RowsModel(float added) {
  using namespace onnx::testing;  // NOLINT
  return ModelOf({{Node("Gather", {"x", "i"}, {"g"}, {IntAttribute("axis", 0)}, "pick_rows"),
                   Node("Add", {"g", "c"}, {"y"}, {}, "add")},
                  {FloatTensor("c", {}, {added})},
                  {ValueInfo("x", kF32, {3, 2}), ValueInfo("i", kI64, {2})},
                  {ValueInfo("y", kF32, {2, 2})}});
}

class OnDevice : public EndToEnd, public testing::WithParamInterface<const char*> {
 public:
  static constexpr const char* kPaths[] = {"cpu:0", "cpu:0?discrete=3", "cuda:0?graph_commands=1",
                                           "vulkan:0"};
  static std::string NameOf(const testing::TestParamInfo<const char*>& info) {
    return std::string(info.param).find('?') == std::string::npos
               ? std::string(info.param).substr(0, std::string(info.param).find(':'))
               : std::string(info.param[1] == 'p' ? "discrete" : "cuda");
  }

 protected:
  OnDevice() {
    setenv("HALYARD_CUDA_LIBRARY", HALYARD_FAKE_LIBCUDA, 1);
    device_ = instance_.Open(GetParam());
  }

  hy::Device device_;
};

}  // namespace halyard
