// SPDX-License-Identifier: Apache-2.0
// Faults while a model is compiled and its schedules race: no memory, a kernel that the driver
// refuses, a device that is lost. Each time there is a program that runs or a failure, nothing
// stays behind, and the next compile is as good as the first.
#include "tests/end_to_end/fault_fixture.h"
#include "tests/sanitized.h"

namespace halyard {
namespace {

using testing::HasSubstr;

class CompileFault : public FaultSweep {
 protected:
  // The digits take long where races are interpreted.
  CompileFault() {
    using namespace onnx::testing;  // NOLINT
    std::vector<float> w(64 * 10);
    for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i * 7 % 13) / 64 - 0.05f;
    model_ = ModelOf({{Node("Flatten", {"x"}, {"f"}), Node("MatMul", {"f", "w"}, {"p"}),
                       Node("Relu", {"p"}, {"y"}), Node("Softmax", {"y"}, {"z"})},
                      {FloatTensor("w", {64, 10}, w)},
                      {ValueInfo("x", kF32, {1, 1, 8, 8})},
                      {ValueInfo("z", kF32, {1, 10})}})
                 .str();
    on_cpu_ = Compiled("cpu:0");
    const hy::Instance instance = hy::Instance::Create();
    hy_program_load_desc desc = HY_PROGRAM_LOAD_DESC_INIT;
    desc.path = hy::View(on_cpu_);
    std::vector<hy_tensor> out(1, HY_TENSOR_INIT);
    const hy::Session session = hy::Session::Create(hy::Program::Load(instance, desc));
    session.Run({Image()}, out);
    expected_ = ValuesOf<float>(out[0]);
  }

  // Compiles with races and runs; the result, and in error_ why it failed.
  hy_result CompileAndRun(const std::string& path) {
    const hy::Instance instance = hy::Instance::Create();
    schedules_.clear();
    placement_.clear();
    try {
      const hy::Program program = CompileOn(instance, {path}, {}, true);
      schedules_ = program.Report(HY_REPORT_SCHEDULE, HY_FORMAT_TEXT);
      placement_ = program.Report(HY_REPORT_PLACEMENT, HY_FORMAT_TEXT);
      return RunOnce(hy::Session::Create(program));
    } catch (const hy::Error& error) {
      error_ = error.what();
      return error.code();
    }
  }

  std::string schedules_, placement_;
};

class CudaCompileFault : public CompileFault {
 protected:
  // Makes the n-th call of `function` answer `error` until a compile makes fewer. Returns how many
  // compiles ended otherwise than the first.
  int Sweep(const char* function, int error, long stride, const std::vector<hy_result>& allowed,
            const std::string& said) {
    int affected = 0;
    for (long nth = 1;; nth += stride) {
      fake_.fail(function, nth, error);
      const hy_result result = CompileAndRun("cuda:0");
      const bool has_failed = fake_.has_failed() != 0;
      fake_.reset();
      EXPECT_EQ(fake_.Leaks(), "") << function << " " << nth << ": " << error_;
      if (result != HY_OK) {
        EXPECT_THAT(allowed, testing::Contains(result)) << function << " " << nth << ": " << error_;
        EXPECT_THAT(error_, HasSubstr(said));
      }
      affected += result != HY_OK || (schedules_ + placement_).find(said) != std::string::npos;
      if (!has_failed || HasFailure()) break;
    }
    EXPECT_EQ(CompileAndRun("cuda:0"), HY_OK) << error_;
    EXPECT_THAT(schedules_, testing::Not(HasSubstr("the race failed")));
    return affected;
  }

  // A real library of the machine knows nothing of the stand-in.
  const drivers::cuda::ScopedVariable matmuls_{"HALYARD_CUBLASLT_LIBRARY", "libnowhere.so.1"};
  const drivers::cuda::ScopedVariable convolutions_{"HALYARD_CUDNN_LIBRARY", "libnowhere.so.1"};
};

TEST_F(CudaCompileFault, NoMemoryAtAnyAllocation) {
  const long stride = HALYARD_SANITIZED ? 7 : 1;
  EXPECT_GE(Sweep("cuMemAllocFromPoolAsync", kOutOfMemory, stride, {HY_OUT_OF_MEMORY},
                  "does not fit 'cuda:0'"),
            HALYARD_SANITIZED ? 2 : 4);
  EXPECT_GE(Sweep("cuMemHostAlloc", kOutOfMemory, stride, {HY_OUT_OF_MEMORY}, "OUT_OF_MEMORY"), 1);
}

// One schedule among others, or the one that was chosen.
TEST_F(CudaCompileFault, AKernelThatTheDriverRefuses) {
  for (const int error : {kInvalidImage, kInvalidPtx}) {
    EXPECT_GE(Sweep("cuModuleLoadDataEx", error, 1, {HY_DATA_LOSS}, "cuModuleLoadDataEx failed"),
              1);
  }
}

// Calls before the device is open fail to open it; after that the policy lets the CPU take what the
// GPU was to run.
TEST_F(CudaCompileFault, LostAtAnyCall) {
  EXPECT_GE(Sweep("*", kIllegalAddress, HALYARD_SANITIZED ? 211 : 37,
                  {HY_DEVICE_LOST, HY_UNAVAILABLE, HY_INTERNAL, HY_NOT_FOUND},
                  "CUDA_ERROR_ILLEGAL_ADDRESS"),
            HALYARD_SANITIZED ? 2 : 3);
}

TEST_F(CompileFault, VulkanHasNoMemoryAtAnyAllocation) {
  int affected = 0;
  for (int nth = 1;; ++nth) {
    const hy_result result = CompileAndRun("vulkan:0?fail_allocation=" + std::to_string(nth));
    const bool is_told = schedules_.find("are left") != std::string::npos;
    if (result == HY_OK && !is_told && nth > 4) break;
    ++affected;
    EXPECT_THAT(result, testing::AnyOf(HY_OK, HY_OUT_OF_MEMORY)) << nth << ": " << error_;
    ASSERT_LT(nth, 200);
  }
  EXPECT_GE(affected, 4);
  EXPECT_EQ(CompileAndRun("vulkan:0"), HY_OK) << error_;
}

TEST_F(CompileFault, VulkanLostAtAnySubmission) {
  int affected = 0;
  for (int nth = 1; nth < 100000; nth = nth * 2 + 1) {
    const hy_result result = CompileAndRun("vulkan:0?lose_at=" + std::to_string(nth));
    if (result != HY_OK) {
      EXPECT_EQ(result, HY_DEVICE_LOST) << nth << ": " << error_;
    } else if (placement_.find("device 'vulkan:0' is left out") == std::string::npos) {
      break;
    }
    ++affected;
  }
  EXPECT_GE(affected, 4);
}

// What was compiled while memory was short is not what later processes get.
TEST_F(CudaCompileFault, ARaceWithoutMemoryIsNotKept) {
  Write("model.onnx", model_);
  const auto compile = [&](const std::string& environment) {
    return Run("--help > /dev/null; " + environment +
               " " HALYARD_COMMAND " explain model.onnx --device cuda:0");
  };
  const std::string failed = compile("FAKE_CUDA_FAIL=cuMemAllocFromPoolAsync:3:2");
  EXPECT_THAT(failed, HasSubstr("since the race failed: A buffer of "));
  EXPECT_THAT(compile(""), testing::Not(HasSubstr("the race failed")));
}

}  // namespace
}  // namespace halyard
