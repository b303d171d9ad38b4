// SPDX-License-Identifier: Apache-2.0
// A whole model, the trained digits, while things go wrong under it: no memory at every allocation,
// a kernel that the driver refuses, a device that is lost at every call, work that never ends. Each
// time a result comes back, nothing stays behind, and the process goes on with another device. On
// the stand-in for libcuda and on the software Vulkan device.
#include "tests/end_to_end/fault_fixture.h"
#include "tests/sanitized.h"

namespace halyard {
namespace {

class CudaFaultSweep : public FaultSweep {
 protected:
  static constexpr char kPath[] = "cuda:0?graph_commands=2";

  // Makes the n-th call of `function` answer `error`, for n = 1, 1 + stride, ... until a run makes
  // fewer; returns how many runs failed.
  int Sweep(const char* function, int error, long stride,
            std::initializer_list<hy_result> allowed) {
    int failures = 0;
    for (long nth = 1;; nth += stride) {
      fake_.fail(function, nth, error);
      const hy_result result = RunModel(kPath, program_);
      const bool has_failed = fake_.has_failed() != 0;
      fake_.reset();
      EXPECT_EQ(fake_.Leaks(), "") << function << " " << nth << ": " << error_;
      if (result != HY_OK) {
        ++failures;
        EXPECT_THAT(std::vector<hy_result>(allowed), testing::Contains(result))
            << function << " " << nth << ": " << error_;
        EXPECT_FALSE(error_.empty());
      }
      if (!has_failed || HasFailure()) break;
    }
    EXPECT_EQ(RunModel(kPath, program_), HY_OK) << error_;
    return failures;
  }

  const std::string program_ = Compiled(kPath);
};

TEST_F(CudaFaultSweep, NoMemoryAtAnyAllocation) {
  int failures = 0;
  for (const char* function : {"cuMemAllocFromPoolAsync", "cuMemAlloc_v2", "cuMemHostAlloc"}) {
    failures += Sweep(function, kOutOfMemory, 1, {HY_OUT_OF_MEMORY});
  }
  EXPECT_GE(failures, 3);  // weights, activations, inputs and outputs
}

TEST_F(CudaFaultSweep, AKernelThatTheDriverRefuses) {
  for (const int error : {kInvalidImage, kInvalidPtx}) {
    EXPECT_GE(Sweep("cuModuleLoadDataEx", error, 1, {HY_INCOMPATIBLE, HY_DATA_LOSS, HY_INTERNAL}),
              1);
  }
}

TEST_F(CudaFaultSweep, LostAtAnyCall) {
  // Calls before the device is open fail to open it.
  EXPECT_GE(Sweep("*", kIllegalAddress, HALYARD_SANITIZED ? 13 : 5,
                  {HY_DEVICE_LOST, HY_UNAVAILABLE, HY_INTERNAL, HY_NOT_FOUND}),
            5);
}

TEST_F(CudaFaultSweep, WorkThatDoesNotEnd) {
  const hy::Instance instance = hy::Instance::Create();
  const hy::Device device = instance.Open(kPath);
  hy_device_t* raw = device.get();
  hy_program_load_desc desc = HY_PROGRAM_LOAD_DESC_INIT;
  desc.path = hy::View(program_);
  desc.devices = &raw;
  desc.device_count = 1;
  const hy::Session session = hy::Session::Create(hy::Program::Load(instance, desc));
  std::vector<hy_tensor> out(1, HY_TENSOR_INIT), held(1, HY_TENSOR_INIT);
  session.Run({Image()}, out);
  fake_.hold_streams(1);
  const hy::Event event = session.Submit({Image()}, held);
  EXPECT_EQ(hy_event_wait(event.get(), 20'000'000), HY_DEADLINE_EXCEEDED);
  EXPECT_EQ(hy_event_status(event.get()), HY_DEADLINE_EXCEEDED);
  EXPECT_EQ(RunOn(instance, "cpu:0", on_cpu_), HY_OK) << error_;
  fake_.hold_streams(0);
  EXPECT_EQ(hy_event_wait(event.get(), HY_WAIT_FOREVER), HY_OK) << LastError();
  ExpectScores(ValuesOf<float>(held[0]));
  // Held again, until the driver notices: the device is lost, and everybody is told.
  fake_.hold_streams(1);
  const hy::Event lost = session.Submit({Image()}, held);
  EXPECT_EQ(hy_event_wait(lost.get(), 1'000'000), HY_DEADLINE_EXCEEDED);
  fake_.fail("cuEventQuery", 1, kIllegalAddress);
  fake_.hold_streams(0);
  EXPECT_EQ(hy_event_wait(lost.get(), HY_WAIT_FOREVER), HY_DEVICE_LOST);
  EXPECT_EQ(RunOn(instance, "cpu:0", on_cpu_), HY_OK) << error_;
}

// The convolutions run on the GPU, the last layers on the CPU. A run that fails is followed by one
// that does without the device.
TEST_F(CudaFaultSweep, APlanOverTwoDevicesLosesOneAtAnyCall) {
  const std::vector<hy_affinity> affinities = {
      {HY_STRING("node_Conv*"), HY_STRING("cuda:0"), HY_AFFINITY_REQUIRE},
      {HY_STRING("node_linear*"), HY_STRING("cpu:0"), HY_AFFINITY_REQUIRE}};
  int failed_runs = 0, replaced = 0;
  bool has_failed = true;
  for (long nth = 1; has_failed && !HasFailure(); nth += HALYARD_SANITIZED ? 37 : 7) {
    SCOPED_TRACE(nth);
    fake_.fail("*", nth, kIllegalAddress);
    try {
      const hy::Instance instance = hy::Instance::Create();
      const hy::Program program = CompileOn(instance, {kPath, "cpu:0"}, affinities);
      const hy::Session session = hy::Session::Create(program);
      for (int run = 0; run < 2; ++run) {
        const hy_result result = RunOnce(session);
        if (result == HY_OK) continue;
        ++failed_runs;
        EXPECT_EQ(result, HY_DEVICE_LOST) << error_;
        EXPECT_EQ(RunOnce(session), HY_OK) << error_;
        replaced += program.Report(HY_REPORT_PLACEMENT, HY_FORMAT_TEXT).find("runs on 'cpu:0'") !=
                    std::string::npos;
      }
    } catch (const hy::Error& error) {  // before the device is open
      EXPECT_THAT(error.code(), testing::AnyOf(HY_DEVICE_LOST, HY_UNAVAILABLE, HY_INTERNAL))
          << error.what();
    }
    has_failed = fake_.has_failed() != 0;
    fake_.reset();
    EXPECT_EQ(fake_.Leaks(), "");
  }
  EXPECT_GE(failed_runs, 1);
  EXPECT_EQ(replaced, failed_runs);
}

class VulkanFaultSweep : public FaultSweep {
 protected:
  // The n-th allocation or submission, for n = 1, 2, ... until a run passes.
  int Sweep(const std::string& option, hy_result wanted) {
    int failures = 0;
    for (int nth = 1;; ++nth) {
      const hy_result result = RunModel("vulkan:0?" + option + "=" + std::to_string(nth), program_);
      if (result == HY_OK) break;
      ++failures;
      EXPECT_EQ(result, wanted) << option << " " << nth << ": " << error_;
      if (HasFailure()) break;
    }
    EXPECT_EQ(RunModel("vulkan:0", program_), HY_OK) << error_;
    return failures;
  }

  const std::string program_ = Compiled("vulkan:0");
};

TEST_F(VulkanFaultSweep, NoMemoryAtAnyAllocation) {
  EXPECT_GE(Sweep("fail_allocation", HY_OUT_OF_MEMORY), 4);
}

TEST_F(VulkanFaultSweep, LostAtAnySubmission) { EXPECT_GE(Sweep("lose_at", HY_DEVICE_LOST), 2); }

// Both compile the same model at the same time into one empty folder; what they leave serves a
// third that has no compiler.
TEST_F(FaultSweep, TwoProcessesFillOneCache) {
  std::ofstream(Path("digits.onnx"), std::ios::binary) << model_;
  const std::string command = HALYARD_COMMAND " run digits.onnx --no-tune --output-dir ";
  const std::string both = Run("--help > /dev/null; " + command + "a & " + command +
                               "b; status=$?; wait $! && exit $status");
  ASSERT_EQ(status_, 0) << both;
  const std::string third = Run("--help > /dev/null; HALYARD_COMPILER_LIBRARY=/nowhere " + command +
                                "c && cmp a/output_0.npy b/output_0.npy && "
                                "cmp a/output_0.npy c/output_0.npy");
  EXPECT_EQ(status_, 0) << third;
}

// One of two processes that compile for the GPU into one folder is killed, each time later; the
// other one and those that come after it find a cache that works.
TEST_F(FaultSweep, OneOfTwoProcessesIsKilledWhileTheyFillACache) {
  Write("digits.onnx", model_);
  Write("kill.sh", R"(
# LeakSanitizer dies in one of so many processes; what a run leaks is tested elsewhere.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
run="$1 run digits.onnx --no-tune --device cuda:0 --output-dir"
killed=0
# How long the two take together, of which each round waits one part more.
began=$(date +%s%N)
HALYARD_CACHE_DIR=$PWD/cache0 $run first0 > first0.txt 2>&1 & first=$!
HALYARD_CACHE_DIR=$PWD/cache0 $run second0 > second0.txt 2>&1 || { cat second0.txt; exit 1; }
wait $first
took=$((($(date +%s%N) - began) / 1000000))
for i in 1 2 3 4 5 6 7 8 9 10; do
  export HALYARD_CACHE_DIR=$PWD/cache$i
  $run first$i > first$i.txt 2>&1 & first=$!
  $run second$i > second$i.txt 2>&1 & second=$!
  sleep $(awk "BEGIN { print $took * $i / 11000 }")
  kill -9 $first 2> /dev/null && killed=$((killed + 1))
  wait $first 2> /dev/null
  wait $second || { echo "the second one failed:"; cat second$i.txt; exit 1; }
  HALYARD_COMPILER_LIBRARY=/nowhere $run third$i || exit 1
  cmp second$i/output_0.npy third$i/output_0.npy || exit 1
done
echo "killed $killed"
)");
  const std::string out = Run("--help > /dev/null; sh kill.sh " HALYARD_COMMAND);
  EXPECT_EQ(status_, 0) << out;
  EXPECT_THAT(out, testing::ContainsRegex("killed ([3-9]|10)"));
}

}  // namespace
}  // namespace halyard
