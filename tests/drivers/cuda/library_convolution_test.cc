// SPDX-License-Identifier: Apache-2.0
// Convolutions that cuDNN computes in place of a kernel, on the stand-in for it: against sums
// computed here, in graphs and without, where the library is missing or another one, and where its
// calls fail. With HALYARD_TEST_DEVICE=cuda:0 also by the library itself on that device.
#include "drivers/cuda/library_convolution.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/drivers/cuda/convolution_run.h"
#include "tests/drivers/cuda/fake_cuda.h"

namespace halyard::drivers::cuda {
namespace {

double ToleranceOf(DType dtype) {
  return dtype == DType::kF32 ? 1e-6 : dtype == DType::kF16 ? 1e-3 : 8e-3;
}

class LibraryConvolutionTest : public FakeCudaTest {
 protected:
  ~LibraryConvolutionTest() override { fake_.set_cudnn_version(91901); }

  ConvolutionRun Runner() { return ConvolutionRun(*device_, GpuModuleKind::kKernelIr, 90); }
  Result<Ref<hal::Executable>> TryLoad(const GpuLibraryCall& call) {
    return Runner().Load({reinterpret_cast<const uint8_t*>(&call), sizeof(call)});
  }
  GpuLibraryCall Proposed(const ConvolutionCase& shape) {
    const GpuLibraryCall wanted = RecordOf(shape);
    auto proposals = device_->ProposeLibraryCalls(wanted, 3);
    EXPECT_OK(proposals);
    // The third adds up in 16 bits.
    if (!proposals.ok() || proposals->size() != 2) {
      ADD_FAILURE() << "not two proposals";
      return wanted;
    }
    GpuLibraryCall chosen = (*proposals)[shape.proposal];
    EXPECT_EQ(chosen.choice.version, 91901u);
    if (chosen.choice.workspace_bytes > 0) chosen.workspace_binding = 5;
    return chosen;
  }
};

TEST_F(LibraryConvolutionTest, ComputesWhatTheRecordSays) {
  fake_.set_delay_us(0);
  const DType kTypes[][2] = {{DType::kF32, DType::kF32},
                             {DType::kF16, DType::kF16},
                             {DType::kF16, DType::kF32},
                             {DType::kBF16, DType::kBF16}};
  int number = 0;
  for (const char* graph_commands : {"1", "100"}) {
    const std::vector<hal::DeviceOption> options = {{"graph_commands", graph_commands}};
    device_ = Open(0, options).value();
    for (const auto& types : kTypes) {
      for (int epilogue = 0; epilogue < 4; ++epilogue, ++number) {
        ConvolutionCase shape;
        shape.input_dtype = types[0], shape.output_dtype = types[1];
        shape.has_z = (epilogue & 1) != 0, shape.has_bias = (epilogue & 2) != 0;
        shape.images = 1 + number % 2;
        shape.stride = 1 + number % 3 % 2;
        shape.dilation = 1 + number % 5 % 2;
        shape.pad_before = number % 3;
        shape.pad_after = number % 4;
        shape.is_planar = number % 7 < 3;
        shape.proposal = static_cast<size_t>(number / 2 % 2);
        shape.padding = number % 5;
        SCOPED_TRACE(fmt::format("case {} of graph_commands={}", number, graph_commands));
        const GpuLibraryCall call = Proposed(shape);
        const long before = fake_.call_count("cudnnBackendExecute");
        ConvolutionRun run = Runner();
        ASSERT_OK(run.Run(call));
        EXPECT_LE(run.LargestError(call, 100000), ToleranceOf(types[1]));
        EXPECT_GE(fake_.call_count("cudnnBackendExecute"), before + 2);
        ASSERT_OK(run.Run(call, /*with_nan=*/true));
        EXPECT_LE(run.LargestError(call, 100000), ToleranceOf(types[1]));
      }
    }
    device_.reset();
  }
  EXPECT_GT(fake_.call_count("cuGraphExecChildGraphNodeSetParams"), 0);
}

TEST_F(LibraryConvolutionTest, KernelsStandInWhereTheLibraryIsMissing) {
  ScopedVariable path("HALYARD_CUDNN_LIBRARY", "libnowhere.so.1");
  device_ = Open(0).value();
  EXPECT_FAILS(device_->DescribeLibrary(GpuLibraryKind::kConvolution), kUnavailable,
               "Library 'libnowhere.so.1' cannot be opened");
  // The other library is not this one's concern.
  EXPECT_OK(device_->DescribeLibrary(GpuLibraryKind::kMatmul));
  const GpuLibraryCall call = RecordOf({});
  EXPECT_FAILS(device_->ProposeLibraryCalls(call, 3), kUnavailable, "libnowhere.so.1");
  const auto executable = TryLoad(call);
  ASSERT_OK(executable);
  ASSERT_EQ((*executable)->notes().size(), 1u);
  EXPECT_THAT(
      std::string((*executable)->notes()[0]),
      testing::AllOf(testing::HasSubstr("gives to cuDNN"), testing::HasSubstr("libnowhere.so.1")));
  ConvolutionRun run = Runner();
  ASSERT_OK(run.Run(call));
  EXPECT_EQ(run.First(call), -1234);
}

TEST_F(LibraryConvolutionTest, KernelsStandInForAnotherVersionDeviceOrEngine) {
  device_ = Open(0).value();
  const GpuLibraryCall call = Proposed({});
  const auto note = [&](const GpuLibraryCall& record) -> std::string {
    const auto executable = TryLoad(record);
    EXPECT_OK(executable);
    if (!executable.ok() || (*executable)->notes().empty()) return "";
    return std::string((*executable)->notes()[0]);
  };
  EXPECT_EQ(note(call), "");
  GpuLibraryCall other = call;
  other.choice.device_hash += 1;
  EXPECT_THAT(note(other), testing::HasSubstr("another device"));
  other = call;
  other.choice.algorithm[0] = 77;  // the engine
  EXPECT_THAT(note(other),
              testing::HasSubstr("cudnnBackendFinalize failed with CUDNN_STATUS_NOT_SUPPORTED"));
  other = Proposed({.proposal = 1});
  other.choice.workspace_bytes = 8;
  EXPECT_THAT(note(other), testing::HasSubstr("of workspace; the program has 8"));
  device_.reset();
  fake_.set_cudnn_version(91800);
  device_ = Open(0).value();
  EXPECT_THAT(note(call), testing::HasSubstr("is cuDNN 9.18.0; Halyard takes 9.19.0 and newer"));
  device_.reset();
  fake_.set_cudnn_version(92000);
  device_ = Open(0).value();
  EXPECT_THAT(note(call), testing::HasSubstr("made with cuDNN 9.19.1; here is 9.20.0"));
  ConvolutionRun run = Runner();
  ASSERT_OK(run.Run(call));
  EXPECT_EQ(run.First(call), -1234);
}

TEST_F(LibraryConvolutionTest, ProposalsNeedNoResult) {
  device_ = Open(0).value();
  GpuLibraryCall call = RecordOf({});
  call.convolution.y.binding = kNoLibraryBinding;  // a workspace that is not there yet
  const auto proposals = device_->ProposeLibraryCalls(call, 3);
  ASSERT_OK(proposals);
  ASSERT_EQ(proposals->size(), 2u);
  EXPECT_FAILS(TryLoad((*proposals)[0]), kDataLoss, "takes y from binding");
}

TEST_F(LibraryConvolutionTest, DamagedRecordsAreRefused) {
  device_ = Open(0).value();
  const GpuLibraryCall good = Proposed({});
  const auto refuse = [&](auto damage, const char* what) {
    GpuLibraryCall bad = good;
    damage(bad.convolution);
    EXPECT_FAILS(TryLoad(bad), kDataLoss, what);
  };
  using R = GpuLibraryConvolution;
  refuse([](R& r) { r.images = 0; }, "has the extent 0; 1 to");
  refuse([](R& r) { r.window[1] = int64_t{1} << 40; }, "has the extent 1099511627776");
  refuse([](R& r) { r.pad_after[0] = -1; }, "has the extent -1; 0 to");
  refuse([](R& r) { r.input_dtype = 4; }, "has the element type 4");
  refuse([](R& r) { r.activation = GpuLibraryActivation::kRelu; }, "the activation 1");
  refuse([](R& r) { r.output[0] = 6; }, "has a result of 6x6");
  refuse([](R& r) { r.input[1] = 1, r.pad_before[1] = 0, r.pad_after[1] = 0; }, "has a result of");
  refuse([](R& r) { r.w.binding = 6; }, "takes w from binding 6 of 6");
  refuse([](R& r) { r.x.offset = -1; }, "the offset -1 for x");
  refuse([](R& r) { r.y.strides[2] = 0; }, "the stride 0 for y");
}

// Every call fails once, in a run from proposal to result: nothing leaks, and the next run is good.
TEST_F(LibraryConvolutionTest, EveryCallMayFail) {
  fake_.set_delay_us(0);
  int failures = 0;
  const auto run = [&]() -> Status {
    const std::vector<hal::DeviceOption> options = {{"graph_commands", "1"}};
    HY_ASSIGN(device_, Open(0, options));
    ConvolutionCase shape;
    shape.input[0] = shape.input[1] = 2;
    shape.has_bias = true;
    HY_ASSIGN(auto proposals, device_->ProposeLibraryCalls(RecordOf(shape), 3));
    if (proposals.empty()) return Internal("There is no proposal.");
    proposals.back().workspace_binding = 5;
    HY_TRY(Runner().Run(proposals.back()));
    return device_->Flush();
  };
  for (const char* function :
       {"cudnnCreate", "cudnnSetStream", "cudnnBackendExecute", "cudnnDestroy",
        "cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute", "cudnnBackendGetAttribute",
        "cudnnBackendFinalize", "cudnnBackendDestroyDescriptor"}) {
    // Many of the calls are alike.
    for (long nth = 1;; nth += 1 + nth / 4) {
      ASSERT_LT(nth, 4000) << function;
      fake_.fail(function, nth, 1);
      const Status status = run();
      const bool has_failed = fake_.has_failed() != 0;
      device_.reset();
      fake_.reset();
      EXPECT_EQ(fake_.Leaks(), "") << function << " " << nth << ": " << status.ToString();
      failures += !status.ok();
      if (!has_failed || HasFailure()) break;
    }
    if (HasFailure()) return;
  }
  ASSERT_OK(run());
  EXPECT_GT(failures, 20);
}

// What the library itself computes, in graphs and outside: sampled sums against double. One test
// for each shape, since the plans of one take a while.
class LibraryConvolutionOnDevice : public ::testing::TestWithParam<ConvolutionCase> {};

const ConvolutionCase kShapesOnDevice[] = {
    {.images = 8, .input_channels = 64, .output_channels = 64, .input = {56, 56}},
    {.images = 1, .input_channels = 64, .output_channels = 64, .input = {56, 56}},
    {.images = 8, .input_channels = 128, .output_channels = 128, .input = {57, 56}, .stride = 2},
    {.images = 8, .input_channels = 512, .output_channels = 512, .input = {7, 7}},
    {.images = 1, .input_channels = 512, .output_channels = 512, .input = {7, 7}},
    {.images = 8,
     .input_channels = 256,
     .output_channels = 512,
     .input = {56, 56},
     .window = {1, 1},
     .stride = 2,
     .pad_before = 0,
     .pad_after = 0},
    {.images = 4,
     .input_channels = 4,
     .output_channels = 64,
     .input = {230, 230},
     .window = {7, 7},
     .stride = 2,
     .pad_before = 0,
     .pad_after = 0},
    {.images = 3, .input_channels = 13, .output_channels = 21, .input = {17, 19}},
    {.images = 2,
     .input_channels = 40,
     .output_channels = 24,
     .input = {19, 31},
     .window = {5, 3},
     .pad_before = 2,
     .pad_after = 2},
    {.images = 2,
     .input_channels = 32,
     .output_channels = 48,
     .input = {33, 29},
     .dilation = 2,
     .pad_before = 2,
     .pad_after = 2},
    {.images = 2,
     .input_channels = 32,
     .output_channels = 48,
     .input = {28, 28},
     .stride = 2,
     .pad_before = 0,
     .pad_after = 1},
    {.images = 4,
     .input_channels = 64,
     .output_channels = 64,
     .input = {28, 28},
     .is_planar = true},
};

TEST_P(LibraryConvolutionOnDevice, AgreesWithDouble) {
  const char* const path = std::getenv("HALYARD_TEST_DEVICE");
  if (path == nullptr || std::string_view(path).substr(0, 5) != "cuda:") {
    GTEST_SKIP() << "HALYARD_TEST_DEVICE names no CUDA device";
  }
  const auto ordinal = static_cast<uint32_t>(std::atoi(path + 5));
  Ref<hal::Driver> driver = OpenCudaDriver().value();
  int runs = 0;
  for (const char* graph_commands : {"1", "100"}) {
    const std::vector<hal::DeviceOption> options = {{"graph_commands", graph_commands}};
    Ref<hal::Device> device = driver->CreateDevice(ordinal, options).value();
    const int64_t capability = device->capabilities().compute.compute_capability.ValueOr(0);
    ConvolutionRun run(*device, GpuModuleKind::kPtx, static_cast<uint32_t>(capability));
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32}) {
      for (int epilogue = 0; epilogue < 4; ++epilogue) {
        ConvolutionCase shape = GetParam();
        shape.input_dtype = shape.output_dtype = dtype;
        shape.has_z = (epilogue & 1) != 0, shape.has_bias = (epilogue & 2) != 0;
        const GpuLibraryCall wanted = RecordOf(shape);
        const std::string what = FormatLibraryCall(wanted);
        SCOPED_TRACE(fmt::format("{} graph_commands={}", what, graph_commands));
        const auto proposals = device->ProposeLibraryCalls(wanted, 3);
        ASSERT_OK(proposals);
        if (proposals->empty()) std::printf("none: %s\n", what.c_str());
        for (GpuLibraryCall call : *proposals) {
          call.workspace_binding = 5;
          const Status ran = run.Run(call);
          EXPECT_TRUE(ran.ok()) << ran.ToString();
          if (!ran.ok()) continue;
          ++runs;
          const double error = run.LargestError(call, 800);
          EXPECT_LE(error, ToleranceOf(dtype));
          // A NaN among the weights makes one of a whole channel, with every epilogue.
          const Status ran_again = run.Run(call, /*with_nan=*/true);
          EXPECT_TRUE(ran_again.ok()) << ran_again.ToString();
          const double with_nan = run.LargestError(call, 800);
          EXPECT_LE(with_nan, ToleranceOf(dtype)) << "with a NaN";
          std::printf("engine %d workspace %lld error %.2g with a NaN %.2g: %s graph %s\n",
                      static_cast<int>(call.choice.algorithm[0] & 0xffff),
                      static_cast<long long>(call.choice.workspace_bytes), error, with_nan,
                      what.c_str(), graph_commands);
        }
      }
    }
  }
  EXPECT_GT(runs, 0);
}

INSTANTIATE_TEST_SUITE_P(Shapes, LibraryConvolutionOnDevice, ::testing::ValuesIn(kShapesOnDevice));

}  // namespace
}  // namespace halyard::drivers::cuda
