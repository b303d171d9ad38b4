// SPDX-License-Identifier: Apache-2.0
// Machines on which a GPU is there and cannot be used: full, in another process's hands, or without
// what compiles its kernels. Everything else works, and the command says what is missing. On the
// stand-in for libcuda.
#include "tests/end_to_end/fixture.h"

namespace halyard {
namespace {

using testing::HasSubstr;
using testing::Not;

class MissingParts : public EndToEnd {
 protected:
  // A command of halyard under those variables, in a shell. NVIDIA's own libraries, where they are
  // installed, would be asked too, and leak.
  std::string With(const std::string& variables, const std::string& arguments) {
    return Run("--help > /dev/null; HALYARD_CUDA_LIBRARY=" HALYARD_FAKE_LIBCUDA
               " HALYARD_CUBLASLT_LIBRARY=" HALYARD_FAKE_LIBCUDA
               " HALYARD_CUDNN_LIBRARY=" HALYARD_FAKE_LIBCUDA " FAKE_CUDA_DELAY_US=0 " +
               variables + " " HALYARD_COMMAND " " + arguments);
  }
  const std::string model_ = HALYARD_SOURCE_DIR "/examples/digits/digits.onnx --no-tune ";
};

// The second of two GPUs has no memory left for a context.
TEST_F(MissingParts, AGpuThatDoesNotOpenIsToldAndLeftOut) {
  const std::string full = "FAKE_CUDA_DEVICES=2 FAKE_CUDA_FAIL=cuDevicePrimaryCtxRetain:2:2";
  const std::string why = "cuDevicePrimaryCtxRetain failed with CUDA_ERROR_OUT_OF_MEMORY.";
  const std::string devices = With(full, "devices");
  EXPECT_EQ(status_, 0) << devices;
  EXPECT_THAT(devices, HasSubstr("driver cuda    2 devices; 'cuda:1' cannot be used: " + why));
  EXPECT_THAT(devices, HasSubstr("\ncuda:0 "));
  EXPECT_THAT(devices, Not(HasSubstr("\ncuda:1 ")));
  const std::string json = With(full, "devices --json");
  EXPECT_EQ(status_, 0) << json;
  EXPECT_THAT(json, HasSubstr("'cuda:1' cannot be used: " + why));
  EXPECT_THAT(With(full, "devices cuda:0,cuda:1"),
              HasSubstr(why));  // of one that is named, a failure
  EXPECT_EQ(status_, 3);

  const std::string left_out = "device 'cuda:1' is left out: ";
  EXPECT_THAT(With(full, "run " + model_), HasSubstr(left_out));
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(With(full, "run " + model_ + "--device cuda:0,cuda:1"), HasSubstr(left_out));
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(With(full, "run " + model_ + "--on-missing-device error"), HasSubstr(why));
  EXPECT_EQ(status_, 3);
}

TEST_F(MissingParts, WithoutNvrtcAGpuIsToldAndLeftOut) {
  const std::string bare = "FAKE_CUDA_TAKES_CUBIN=1 HALYARD_NVRTC_LIBRARY=/nowhere/libnvrtc.so";
  const std::string why =
      "NVRTC, which compiles CUDA kernels, is missing. Library "
      "'/nowhere/libnvrtc.so' cannot be opened: ";
  const std::string devices = With(bare, "devices");
  EXPECT_EQ(status_, 0) << devices;
  EXPECT_THAT(devices, HasSubstr("note: It runs no model that was not compiled before. " + why));
  const std::string ran = With(bare, "run " + model_);
  EXPECT_EQ(status_, 0) << ran;
  EXPECT_THAT(ran, HasSubstr("device 'cuda:0' is left out: " + why));
  EXPECT_THAT(With(bare, "run " + model_ + "--device cuda:0"), HasSubstr(why));
  EXPECT_EQ(status_, 3);
}

}  // namespace
}  // namespace halyard
