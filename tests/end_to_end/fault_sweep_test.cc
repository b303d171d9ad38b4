// SPDX-License-Identifier: Apache-2.0
// A whole model, the trained digits, while things go wrong under it: no memory at every allocation,
// a kernel that the driver refuses, a device that is lost at every call, work that never ends. Each
// time a result comes back, nothing stays behind, and the process goes on with another device. On
// the stand-in for libcuda and on the software Vulkan device.
#include <fstream>
#include <iterator>

#include "tests/drivers/cuda/fake_knobs.h"
#include "tests/end_to_end/device_fixture.h"
#include "tests/sanitized.h"

namespace halyard {
namespace {

constexpr int kOutOfMemory = 2, kInvalidImage = 200, kInvalidPtx = 218, kIllegalAddress = 700;

class FaultSweep : public EndToEnd {
 protected:
  FaultSweep() {
    fake_.reset();
    fake_.set_delay_us(0);
    std::ifstream file(HALYARD_SOURCE_DIR "/examples/digits/digits.onnx", std::ios::binary);
    model_.assign(std::istreambuf_iterator<char>(file), {});
    for (int i = 0; i < 64; ++i) image_.push_back(static_cast<float>(i * 37 % 17) / 16);
    on_cpu_ = Compiled("cpu:0");
    hy_program_load_desc desc = HY_PROGRAM_LOAD_DESC_INIT;
    desc.path = hy::View(on_cpu_);
    std::vector<hy_tensor> out(1, HY_TENSOR_INIT);
    const hy::Session session = hy::Session::Create(hy::Program::Load(instance_, desc));
    session.Run({Image()}, out);
    expected_ = ValuesOf<float>(out[0]);
  }
  ~FaultSweep() override {
    fake_.hold_streams(0);
    fake_.reset();
  }

  hy_tensor Image() const { return TensorOf(HY_DTYPE_F32, {1, 1, 8, 8}, image_); }
  // What is compiled for a device of that path, as a file. The instance, which keeps its devices,
  // ends.
  std::string Compiled(const std::string& path) const {
    const hy::Instance instance = hy::Instance::Create();
    const hy::Device device = instance.Open(path);
    hy_device_t* raw = device.get();
    hy_compile_desc desc = HY_COMPILE_DESC_INIT;
    desc.onnx_data = model_.data();
    desc.onnx_size_bytes = model_.size();
    desc.devices = &raw;
    desc.device_count = 1;
    desc.disable_tuning = desc.disable_cache = 1;
    desc.on_unsupported_op = HY_POLICY_ERROR;
    const std::string file = Path("program_" + path.substr(0, path.find(':')));
    hy::Program::Compile(instance, desc).Save(file);
    return file;
  }

  // Opens the device, loads the program, runs it twice; the first result that is not OK.
  hy_result RunOn(const hy::Instance& instance, const std::string& path,
                  const std::string& program) {
    hy_device_t* raw_device = nullptr;
    hy_program_t* raw_program = nullptr;
    hy_session_t* raw_session = nullptr;
    hy_result result = hy_device_open(instance.get(), hy::View(path), &raw_device);
    const hy::Device device(raw_device);
    hy_program_load_desc desc = HY_PROGRAM_LOAD_DESC_INIT;
    desc.path = hy::View(program);
    desc.devices = &raw_device;
    desc.device_count = 1;
    if (result == HY_OK) result = hy_program_load(instance.get(), &desc, &raw_program);
    const hy::Program loaded(raw_program);
    if (result == HY_OK) result = hy_session_create(raw_program, nullptr, &raw_session);
    const hy::Session session(raw_session);
    const hy_tensor image = Image();
    for (int run = 0; run < 2 && result == HY_OK; ++run) {
      hy_tensor out = HY_TENSOR_INIT;
      result = hy_session_run(raw_session, &image, 1, &out, 1);
      if (result == HY_OK) ExpectScores(ValuesOf<float>(out));
    }
    error_ = result == HY_OK ? "" : LastError();
    return result;
  }
  // In an instance of its own, in which the CPU works whatever happens to the other device.
  hy_result RunModel(const std::string& path, const std::string& program) {
    const hy::Instance instance = hy::Instance::Create();
    const hy_result result = RunOn(instance, path, program);
    const std::string error = error_;
    EXPECT_EQ(RunOn(instance, "cpu:0", on_cpu_), HY_OK) << error_ << " after: " << error;
    error_ = error;
    return result;
  }
  void ExpectScores(const std::vector<float>& scores) const {
    ASSERT_EQ(scores.size(), expected_.size());
    for (size_t i = 0; i < scores.size(); ++i) EXPECT_NEAR(scores[i], expected_[i], 1e-3) << i;
  }

  const drivers::cuda::ScopedVariable library_{"HALYARD_CUDA_LIBRARY", HALYARD_FAKE_LIBCUDA};
  drivers::cuda::FakeCuda fake_;
  std::string model_, on_cpu_, error_;
  std::vector<float> image_, expected_;
};

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

}  // namespace
}  // namespace halyard
