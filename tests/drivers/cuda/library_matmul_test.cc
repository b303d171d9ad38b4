// SPDX-License-Identifier: Apache-2.0
// Products that cuBLASLt computes in place of a kernel, on the stand-in for it: against a product
// computed here, in graphs and without, with other buffers from one replay to the next, where the
// library is missing or another one, and where its calls fail.
#include "drivers/cuda/library_matmul.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "base/gpu_image.h"
#include "tests/drivers/cuda/fake_cuda.h"
#include "tests/library_call_reference.h"

namespace halyard::drivers::cuda {
namespace {

// What runs where the library does not: it writes this into the first element.
constexpr float kStandIn = -1234;
constexpr std::string_view kKernel = R"(kernel product workgroup(1, 1, 1) {
  buffer a f32 global read may_alias
  buffer b f32 global read may_alias
  buffer c f32 global read may_alias
  buffer bias f32 global read may_alias
  buffer d f32 global write may_alias
  buffer workspace f32 global readwrite may_alias
  %0 = workgroup_id i64 [0]
  %1 = const f32 -1234.0
  store @d, %0, %1
}
)";

struct Product {
  int64_t m = 5, n = 7, k = 9, batch = 1;
  DType input = DType::kF32, output = DType::kF32;
  bool transpose_a = false, transpose_b = false;
  bool has_c = false, is_in_place = false, has_bias = false;
  GpuLibraryActivation activation = GpuLibraryActivation::kNone;
  size_t algorithm = 0;
  int64_t padding = 0;  // of leading dimensions, and elements before the first
};

GpuLibraryCall RecordOf(const Product& p) {
  GpuLibraryCall call;
  GpuLibraryMatmul& matmul = call.matmul;
  matmul.m = p.m, matmul.n = p.n, matmul.k = p.k, matmul.batch = p.batch;
  matmul.input_dtype = static_cast<uint32_t>(p.input);
  matmul.output_dtype = static_cast<uint32_t>(p.output);
  matmul.activation = p.activation;
  const auto place = [&](uint32_t binding, int64_t rows, int64_t cols, bool is_transposed) {
    GpuLibraryOperand operand;
    operand.binding = binding;
    operand.offset = p.padding;
    operand.row_stride = is_transposed ? cols + p.padding : 1;
    operand.col_stride = is_transposed ? 1 : rows + p.padding;
    operand.batch_stride = is_transposed ? operand.row_stride * rows : operand.col_stride * cols;
    return operand;
  };
  matmul.a = place(0, p.m, p.k, p.transpose_a);
  matmul.b = place(1, p.k, p.n, p.transpose_b);
  matmul.d = place(4, p.m, p.n, false);
  if (p.has_c) matmul.c = place(p.is_in_place ? 4 : 2, p.m, p.n, false);
  if (p.has_bias) matmul.bias = {3, 0, p.padding, 1, 0, 0};
  return call;
}

int64_t ElementsOf(const GpuLibraryOperand& operand, int64_t rows, int64_t cols, int64_t batch) {
  return operand.offset + (rows - 1) * operand.row_stride + (cols - 1) * operand.col_stride +
         (batch - 1) * operand.batch_stride + 1;
}

// Small multiples of 1/4, which every type holds.
std::vector<uint8_t> RandomBytes(std::mt19937& random, DType dtype, int64_t count) {
  std::vector<uint8_t> bytes(static_cast<size_t>(count * BitWidth(dtype) / 8));
  for (int64_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(std::uniform_int_distribution<int>(-12, 12)(random)) / 4;
    StoreFloat(bytes.data(), dtype, i, value);
  }
  return bytes;
}

class LibraryMatmulTest : public FakeCudaTest {
 protected:
  ~LibraryMatmulTest() override { fake_.set_cublaslt_version(130100); }

  Ref<hal::Executable> Load(const GpuLibraryCall& call) {
    auto loaded = TryLoad(call);
    EXPECT_OK(loaded);
    return loaded.ok() ? *loaded : Ref<hal::Executable>();
  }
  Result<Ref<hal::Executable>> TryLoad(const GpuLibraryCall& call) {
    return TryLoad({reinterpret_cast<const uint8_t*>(&call), sizeof(call)});
  }
  Result<Ref<hal::Executable>> TryLoad(std::span<const uint8_t> record) {
    GpuImage image;
    image.kind = GpuModuleKind::kKernelIr;
    image.target = 90;
    image.kernels.push_back(
        {"product", {reinterpret_cast<const uint8_t*>(kKernel.data()), kKernel.size()}, 6, 0});
    image.kernels[0].library = record;
    const std::vector<uint8_t> code = WriteGpuImage(image);
    hal::ExecutableSource source;
    source.format = "cuda-image";
    source.code = code;
    source.name = "a product";
    return device_->LoadExecutable(source);
  }

  Result<Ref<hal::Buffer>> Upload(const std::vector<uint8_t>& bytes) {
    HY_ASSIGN(auto buffer, device_->AllocateBuffer(hal::MemoryKind::kDevice,
                                                   static_cast<int64_t>(bytes.size())));
    HY_ASSIGN(auto done, device_->CreateSemaphore(0));
    const hal::SemaphorePoint point{done.get(), 1};
    HY_TRY(device_->QueueUpdate(0, {{}, {&point, 1}}, bytes, cts::Whole(buffer)));
    HY_TRY(WaitFor(done.get(), 1));
    return buffer;
  }
  Result<std::vector<uint8_t>> Download(const Ref<hal::Buffer>& buffer) {
    HY_ASSIGN(auto staging,
              device_->AllocateBuffer(hal::MemoryKind::kStaging, buffer->size_bytes()));
    HY_ASSIGN(auto done, device_->CreateSemaphore(0));
    const hal::SemaphorePoint point{done.get(), 1};
    HY_TRY(device_->QueueCopy(0, {{}, {&point, 1}}, cts::Whole(buffer), cts::Whole(staging)));
    HY_TRY(WaitFor(done.get(), 1));
    HY_ASSIGN(const uint8_t* mapped, staging->Map(0, staging->size_bytes()));
    return std::vector<uint8_t>(mapped, mapped + staging->size_bytes());
  }

  // Two sets of A and D, run in turn through one recording: 0, 1, 0. `out`: what each wrote.
  Status Run(const GpuLibraryCall& call) {
    const GpuLibraryMatmul& matmul = call.matmul;
    HY_ASSIGN(Ref<hal::Executable> executable, TryLoad(call));
    const auto input = static_cast<DType>(matmul.input_dtype);
    const auto output = static_cast<DType>(matmul.output_dtype);
    std::mt19937 random(3);
    const bool has_c = matmul.c.binding != kNoLibraryBinding;
    const int64_t d_count = ElementsOf(matmul.d, matmul.m, matmul.n, matmul.batch);
    b_ = RandomBytes(random, input, ElementsOf(matmul.b, matmul.k, matmul.n, matmul.batch));
    bias_ = RandomBytes(random, output, matmul.bias.offset + matmul.m);
    c_ = RandomBytes(random, output, d_count);
    for (int set = 0; set < 2; ++set) {
      a_[set] = RandomBytes(random, input, ElementsOf(matmul.a, matmul.m, matmul.k, matmul.batch));
    }
    const int64_t room =
        std::max<int64_t>(call.choice.workspace_bytes + kLibraryWorkspaceSlack, int64_t{256});
    HY_ASSIGN(auto b, Upload(b_));
    HY_ASSIGN(auto c, Upload(c_));
    HY_ASSIGN(auto bias, Upload(bias_));
    // In the middle of a buffer, aligned as an arena's ranges are.
    HY_ASSIGN(auto workspace, device_->AllocateBuffer(hal::MemoryKind::kDevice, room + 64));
    Ref<hal::Buffer> a[2], d[2];
    for (int set = 0; set < 2; ++set) {
      HY_ASSIGN(a[set], Upload(a_[set]));
    }
    HY_ASSIGN(auto commands, device_->CreateCommandBuffer());
    using hal::CommandRange;
    const auto direct = [](const Ref<hal::Buffer>& buffer) {
      return CommandRange::Direct(buffer.get(), 0, buffer->size_bytes());
    };
    const CommandRange bindings[6] = {
        CommandRange::Slot(0, 0, a[0]->size_bytes()),
        direct(b),
        direct(c),
        direct(bias),
        CommandRange::Slot(1, 0, static_cast<int64_t>(c_.size())),
        CommandRange::Direct(workspace.get(), 64, room),
    };
    hal::DispatchCommand command;
    command.executable = executable.get();
    command.grid[0] = 1;
    command.bindings = bindings;
    command.label = "the product";
    HY_TRY(commands->Dispatch(command));
    HY_TRY(commands->Finish());
    const bool is_in_place = has_c && matmul.c.binding == matmul.d.binding;
    const std::vector<uint8_t> poison(c_.size(), 0xff);
    for (const int set : {0, 1, 0}) {
      HY_ASSIGN(d[set], Upload(is_in_place ? c_ : poison));
      HY_ASSIGN(auto done, device_->CreateSemaphore(0));
      const hal::SemaphorePoint point{done.get(), 1};
      const hal::BufferRange table[2] = {cts::Whole(a[set]), cts::Whole(d[set])};
      HY_TRY(device_->Submit(0, {{{}, {&point, 1}}, commands.get(), table}));
      HY_TRY(WaitFor(done.get(), 1));
      HY_ASSIGN(d_[set], Download(d[set]));
    }
    return OkStatus();
  }

  // D and what lies between its columns.
  void ExpectProducts(const GpuLibraryCall& call) {
    const GpuLibraryMatmul& matmul = call.matmul;
    const auto output = static_cast<DType>(matmul.output_dtype);
    const bool is_in_place = matmul.c.binding == matmul.d.binding;
    const double tolerance = output == DType::kF32 ? 1e-6 : output == DType::kF16 ? 1e-3 : 8e-3;
    for (int set = 0; set < 2; ++set) {
      std::vector<uint8_t> wanted = is_in_place ? c_ : std::vector<uint8_t>(c_.size(), 0xff);
      ApplyLibraryMatmul(matmul,
                         {a_[set].data(), b_.data(), c_.data(), bias_.data(), wanted.data()});
      const auto count = static_cast<int64_t>(wanted.size()) * 8 / BitWidth(output);
      for (int64_t i = 0; i < count; ++i) {
        const double want = FloatAt(wanted.data(), output, i);
        const double got = FloatAt(d_[set].data(), output, i);
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(got)) << "set " << set << " at " << i;
        } else {
          ASSERT_NEAR(got, want, tolerance * (1 + std::fabs(want))) << "set " << set << " at " << i;
        }
      }
    }
  }

  GpuLibraryCall Proposed(const Product& product) {
    GpuLibraryCall wanted = RecordOf(product);
    auto proposals = device_->ProposeLibraryCalls(wanted, 3);
    EXPECT_OK(proposals);
    if (!proposals.ok() || proposals->size() != 2) {
      ADD_FAILURE() << "not two proposals";
      return wanted;
    }
    GpuLibraryCall chosen = (*proposals)[product.algorithm];
    if (chosen.choice.workspace_bytes > 0) chosen.workspace_binding = 5;
    return chosen;
  }

  std::vector<uint8_t> a_[2], b_, c_, bias_, d_[2];
};

TEST_F(LibraryMatmulTest, ComputesWhatTheRecordSays) {
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
      for (int layout = 0; layout < 4; ++layout) {
        for (int epilogue = 0; epilogue < 4; ++epilogue, ++number) {
          Product product;
          product.input = types[0], product.output = types[1];
          product.transpose_a = (layout & 1) != 0, product.transpose_b = (layout & 2) != 0;
          product.has_bias = epilogue % 2 == 1;
          product.activation =
              epilogue < 2 ? GpuLibraryActivation::kNone : GpuLibraryActivation::kGeluTanh;
          product.has_c = number % 3 != 0;
          product.is_in_place = number % 3 == 2;
          product.batch = product.has_bias ? 1 : 1 + number % 3;
          product.algorithm = static_cast<size_t>(number / 2 % 2);
          product.padding = number % 5;
          SCOPED_TRACE(fmt::format("case {} of graph_commands={}", number, graph_commands));
          const GpuLibraryCall call = Proposed(product);
          const long before = fake_.call_count("cublasLtMatmul");
          ASSERT_OK(Run(call));
          ExpectProducts(call);
          if (HasFatalFailure()) return;
          // A graph asks for the second set of buffers, for which it was not made, and for the
          // first again where the memory of D moved.
          EXPECT_GE(fake_.call_count("cublasLtMatmul"), before + 2);
        }
      }
    }
    device_.reset();
  }
  EXPECT_GT(fake_.call_count("cuGraphExecChildGraphNodeSetParams"), 0);
}

TEST_F(LibraryMatmulTest, KernelsStandInWhereTheLibraryIsMissing) {
  ScopedVariable path("HALYARD_CUBLASLT_LIBRARY", "libnowhere.so.1");
  device_ = Open(0).value();
  EXPECT_FAILS(device_->DescribeLibrary(GpuLibraryKind::kMatmul), kUnavailable,
               "Library 'libnowhere.so.1' cannot be opened");
  GpuLibraryCall call = RecordOf({});
  EXPECT_FAILS(device_->ProposeLibraryCalls(call, 3), kUnavailable, "libnowhere.so.1");
  const auto executable = Load(call);
  ASSERT_EQ(executable->notes().size(), 1u);
  EXPECT_THAT(executable->notes()[0], testing::HasSubstr("libnowhere.so.1"));
  ASSERT_OK(Run(call));
  EXPECT_EQ(FloatAt(d_[0].data(), DType::kF32, 0), kStandIn);
  EXPECT_EQ(FloatAt(d_[1].data(), DType::kF32, 0), kStandIn);
}

TEST_F(LibraryMatmulTest, KernelsStandInForAnotherVersionOrDevice) {
  device_ = Open(0).value();
  GpuLibraryCall call = Proposed({});
  EXPECT_TRUE(Load(call)->notes().empty());
  GpuLibraryCall other = call;
  other.choice.device_hash += 1;
  EXPECT_THAT(std::string(Load(other)->notes()[0]), testing::HasSubstr("another device"));
  other = call;
  other.choice.algorithm[0] = 77;
  EXPECT_THAT(
      std::string(Load(other)->notes()[0]),
      testing::HasSubstr("cublasLtMatmulAlgoCheck failed with CUBLAS_STATUS_NOT_SUPPORTED"));
  device_.reset();
  fake_.set_cublaslt_version(130200);
  device_ = Open(0).value();
  EXPECT_THAT(std::string(Load(call)->notes()[0]),
              testing::HasSubstr("made with cuBLASLt 13.1.0; here is 13.2.0"));
  ASSERT_OK(Run(call));
  EXPECT_EQ(FloatAt(d_[0].data(), DType::kF32, 0), kStandIn);
}

TEST_F(LibraryMatmulTest, KernelsStandInForRecordsOfAnotherRelease) {
  device_ = Open(0).value();
  const std::vector<uint8_t> record(sizeof(GpuLibraryCall) - 8, 1);
  const auto executable = TryLoad(record);
  ASSERT_OK(executable);
  ASSERT_EQ((*executable)->notes().size(), 1u);
  EXPECT_THAT(std::string((*executable)->notes()[0]), testing::HasSubstr("here they have"));
  GpuLibraryCall call = Proposed({});
  call.kind = static_cast<GpuLibraryKind>(77);
  EXPECT_FAILS(TryLoad(call), kDataLoss, "has the kind 77");
}

TEST_F(LibraryMatmulTest, ProposalsNeedNoBindings) {
  device_ = Open(0).value();
  GpuLibraryCall call = RecordOf({});
  call.matmul.d.binding = kNoLibraryBinding;  // a workspace that is not there yet
  const auto proposals = device_->ProposeLibraryCalls(call, 3);
  ASSERT_OK(proposals);
  ASSERT_EQ(proposals->size(), 2u);
  EXPECT_FAILS(TryLoad((*proposals)[0]), kDataLoss, "takes D from binding");
}

TEST_F(LibraryMatmulTest, DamagedRecordsAreRefused) {
  device_ = Open(0).value();
  const GpuLibraryCall good = Proposed({});
  const auto refuse = [&](auto damage, const char* what) {
    GpuLibraryCall bad = good;
    damage(bad);
    EXPECT_FAILS(TryLoad(bad), kDataLoss, what);
  };
  using R = GpuLibraryCall;
  refuse([](R& r) { r.matmul.m = 0; }, "has the extent 0");
  refuse([](R& r) { r.matmul.batch = int64_t{1} << 40; }, "has the extent 1099511627776");
  refuse([](R& r) { r.matmul.input_dtype = 4; }, "has the element type 4");
  refuse([](R& r) { r.matmul.activation = static_cast<GpuLibraryActivation>(9); },
         "the activation 9");
  refuse([](R& r) { r.matmul.activation = GpuLibraryActivation::kRelu; }, "the activation 1");
  refuse([](R& r) { r.matmul.a.binding = 6; }, "takes A from binding 6 of 6");
  refuse([](R& r) { r.matmul.d.binding = kNoLibraryBinding; },
         "takes D from binding 4294967295 of 6");
  refuse([](R& r) { r.matmul.b.offset = -1; }, "offset or stride -1 for B");
  refuse([](R& r) { r.matmul.b.col_stride = 2; }, "strides that no matrix has");
  refuse([](R& r) { r.matmul.d.row_stride = 2; }, "strides that no matrix has");
  refuse([](R& r) { r.choice.workspace_bytes = 8; }, "8 bytes of workspace in binding 4294967295");
}

TEST_F(LibraryMatmulTest, AFailureNamesTheDispatchAndTheSizes) {
  for (const char* graph_commands : {"1", "100"}) {
    const std::vector<hal::DeviceOption> options = {{"graph_commands", graph_commands}};
    device_ = Open(0, options).value();
    Product product;
    product.has_bias = true;
    const GpuLibraryCall call = Proposed(product);
    fake_.fail("cublasLtMatmul", 1, 1);
    const Status status = Run(call);
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    EXPECT_THAT(status.ToString(),
                testing::AllOf(testing::HasSubstr("cublasLtMatmul failed with "
                                                  "CUBLAS_STATUS_INTERNAL_ERROR"),
                               testing::HasSubstr("5x7x9 f32, with bias"),
                               testing::HasSubstr("dispatch 'the product'")));
    fake_.reset();
    ASSERT_OK(Run(call));
    ExpectProducts(call);
    device_.reset();
  }
}

// Every call fails once, in a run from proposal to result: nothing leaks, and the next run is good.
TEST_F(LibraryMatmulTest, EveryCallMayFail) {
  fake_.set_delay_us(0);
  int failures = 0;
  for (const char* graph_commands : {"1", "100"}) {
    const std::vector<hal::DeviceOption> options = {{"graph_commands", graph_commands}};
    const auto run = [&]() -> Status {
      HY_ASSIGN(device_, Open(0, options));
      Product product;
      product.has_bias = true;
      product.algorithm = 1;
      HY_ASSIGN(auto proposals, device_->ProposeLibraryCalls(RecordOf(product), 3));
      if (proposals.size() != 2) return Internal("There are {} proposals.", proposals.size());
      proposals[1].workspace_binding = 5;
      HY_TRY(Run(proposals[1]));
      return device_->Flush();
    };
    for (const char* function :
         {"cublasLtCreate", "cublasLtMatmulDescCreate", "cublasLtMatmulDescSetAttribute",
          "cublasLtMatrixLayoutCreate", "cublasLtMatrixLayoutSetAttribute",
          "cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceSetAttribute",
          "cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmulAlgoCheck", "cublasLtMatmul",
          "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphAddChildGraphNode",
          "cuGraphExecChildGraphNodeSetParams", "cuStreamCreate", "cublasLtDestroy",
          "cublasLtMatrixLayoutDestroy"}) {
      for (long nth = 1;; ++nth) {
        ASSERT_LT(nth, 60) << function;
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
    device_.reset();
  }
  EXPECT_GT(failures, 40);
}

}  // namespace
}  // namespace halyard::drivers::cuda
