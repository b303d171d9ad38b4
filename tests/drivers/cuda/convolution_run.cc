// SPDX-License-Identifier: Apache-2.0
#include "tests/drivers/cuda/convolution_run.h"

#include <algorithm>
#include <cstring>

#include "tests/hal/cts/cts.h"
#include "tests/library_call_reference.h"

namespace halyard::drivers::cuda {
namespace {

constexpr std::string_view kInterpretedKernel = R"(kernel convolution workgroup(1, 1, 1) {
  buffer x f32 global read may_alias
  buffer w f32 global read may_alias
  buffer z f32 global read may_alias
  buffer bias f32 global read may_alias
  buffer y f32 global write may_alias
  buffer workspace f32 global readwrite may_alias
  %0 = workgroup_id i64 [0]
  %1 = const f32 -1234.0
  store @y, %0, %1
}
)";
// -1234.0f is 0xc49a4000.
constexpr std::string_view kPtxKernel = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry convolution(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3,
                            .param .u64 p4, .param .u64 p5, .param .u64 p6, .param .u64 p7) {
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [p4];
  cvta.to.global.u64 %rd2, %rd1;
  mov.b32 %r1, 0xc49a4000;
  st.global.b32 [%rd2], %r1;
  ret;
}
)";

// Small multiples of 1/4, which every type holds.
std::vector<uint8_t> Quarters(std::mt19937& random, DType dtype, int64_t count) {
  constexpr uint32_t kNumbers = 25;
  const auto width = static_cast<size_t>(BitWidth(dtype)) / 8;
  std::vector<uint8_t> numbers(kNumbers * width), bytes(static_cast<size_t>(count) * width);
  for (uint32_t i = 0; i < kNumbers; ++i) {
    StoreFloat(numbers.data(), dtype, i, (static_cast<int>(i) - 12) / 4.0);
  }
  for (size_t i = 0; i < bytes.size(); i += width) {
    std::memcpy(&bytes[i], &numbers[random() % kNumbers * width], width);
  }
  return bytes;
}

int64_t ElementsOf(const GpuLibraryTensor& tensor, std::initializer_list<int64_t> dims) {
  int64_t last = tensor.offset;
  int i = 0;
  for (const int64_t dim : dims) last += (dim - 1) * tensor.strides[i++];
  return last + 1;
}

void LieAs(bool is_planar, int64_t channels, int64_t rows, int64_t columns,
           GpuLibraryTensor* tensor) {
  int64_t* const s = tensor->strides;
  s[0] = channels * rows * columns;
  s[1] = is_planar ? rows * columns : 1;
  s[2] = is_planar ? columns : columns * channels;
  s[3] = is_planar ? 1 : channels;
}

}  // namespace

GpuLibraryCall RecordOf(const ConvolutionCase& shape) {
  GpuLibraryCall call;
  call.kind = GpuLibraryKind::kConvolution;
  GpuLibraryConvolution& c = call.convolution;
  c.images = shape.images;
  c.input_channels = shape.input_channels;
  c.output_channels = shape.output_channels;
  for (int i = 0; i < 2; ++i) {
    c.input[i] = shape.input[i];
    c.window[i] = shape.window[i];
    c.stride[i] = shape.stride;
    c.dilation[i] = shape.dilation;
    c.pad_before[i] = shape.pad_before;
    c.pad_after[i] = shape.pad_after;
    const int64_t room = shape.input[i] + shape.pad_before + shape.pad_after -
                         (shape.window[i] - 1) * shape.dilation - 1;
    c.output[i] = room / shape.stride + 1;
  }
  c.input_dtype = static_cast<uint32_t>(shape.input_dtype);
  c.output_dtype = static_cast<uint32_t>(shape.output_dtype);
  c.x.binding = 0;
  c.w.binding = 1;
  if (shape.has_z) c.z.binding = 2;
  if (shape.has_bias) c.bias.binding = 3;
  c.y.binding = 4;
  LieAs(shape.is_planar, c.input_channels, c.input[0], c.input[1], &c.x);
  LieAs(shape.is_planar, c.input_channels, c.window[0], c.window[1], &c.w);
  LieAs(shape.is_planar, c.output_channels, c.output[0], c.output[1], &c.y);
  LieAs(shape.is_planar, c.output_channels, c.output[0], c.output[1], &c.z);
  for (GpuLibraryTensor* tensor : {&c.x, &c.w, &c.y, &c.z, &c.bias}) {
    tensor->offset = shape.padding;
  }
  return call;
}

std::vector<uint8_t> ConvolutionImage(GpuModuleKind kind, uint32_t target,
                                      std::span<const uint8_t> record) {
  const std::string text(kind == GpuModuleKind::kPtx ? kPtxKernel : kInterpretedKernel);
  GpuImage image;
  image.kind = kind;
  image.target = target;
  // With the null that PTX ends in.
  const size_t bytes = text.size() + (kind == GpuModuleKind::kPtx ? 1 : 0);
  image.kernels.push_back(
      {"convolution", {reinterpret_cast<const uint8_t*>(text.c_str()), bytes}, 6, 0});
  image.kernels[0].library = record;
  return WriteGpuImage(image);
}

Result<Ref<hal::Executable>> ConvolutionRun::Load(std::span<const uint8_t> record) {
  const std::vector<uint8_t> code = ConvolutionImage(kind_, target_, record);
  hal::ExecutableSource source;
  source.format = "cuda-image";
  source.code = code;
  source.name = "a convolution";
  return device_.LoadExecutable(source);
}

Status ConvolutionRun::Wait(hal::Semaphore* semaphore) {
  const hal::SemaphorePoint point{semaphore, 1};
  return device_.Wait({&point, 1}, hal::WaitMode::kAll, 20'000'000'000);
}

Result<Ref<hal::Buffer>> ConvolutionRun::Upload(const std::vector<uint8_t>& bytes) {
  HY_ASSIGN(auto buffer,
            device_.AllocateBuffer(hal::MemoryKind::kDevice, static_cast<int64_t>(bytes.size())));
  HY_ASSIGN(auto done, device_.CreateSemaphore(0));
  const hal::SemaphorePoint point{done.get(), 1};
  HY_TRY(device_.QueueUpdate(0, {{}, {&point, 1}}, bytes, cts::Whole(buffer)));
  HY_TRY(Wait(done.get()));
  return buffer;
}

Result<std::vector<uint8_t>> ConvolutionRun::Download(const Ref<hal::Buffer>& buffer) {
  HY_ASSIGN(auto staging, device_.AllocateBuffer(hal::MemoryKind::kStaging, buffer->size_bytes()));
  HY_ASSIGN(auto done, device_.CreateSemaphore(0));
  const hal::SemaphorePoint point{done.get(), 1};
  HY_TRY(device_.QueueCopy(0, {{}, {&point, 1}}, cts::Whole(buffer), cts::Whole(staging)));
  HY_TRY(Wait(done.get()));
  HY_ASSIGN(const uint8_t* mapped, staging->Map(0, staging->size_bytes()));
  return std::vector<uint8_t>(mapped, mapped + staging->size_bytes());
}

Status ConvolutionRun::Run(const GpuLibraryCall& call, bool with_nan) {
  const GpuLibraryConvolution& c = call.convolution;
  HY_ASSIGN(Ref<hal::Executable> executable,
            Load({reinterpret_cast<const uint8_t*>(&call), sizeof(call)}));
  const auto input = static_cast<DType>(c.input_dtype);
  const auto output = static_cast<DType>(c.output_dtype);
  std::mt19937 random(3);
  w_ = Quarters(random, input,
                ElementsOf(c.w, {c.output_channels, c.input_channels, c.window[0], c.window[1]}));
  if (with_nan) {
    const int64_t middle = c.window[0] / 2 * c.w.strides[2] + c.window[1] / 2 * c.w.strides[3];
    StoreFloat(w_.data(), input, c.w.offset + middle, std::nan(""));
  }
  const int64_t results = ElementsOf(c.y, {c.images, c.output_channels, c.output[0], c.output[1]});
  z_ = Quarters(random, output, results);
  bias_ = Quarters(random, output, c.bias.offset + c.output_channels);
  for (auto& x : x_) {
    x = Quarters(random, input,
                 ElementsOf(c.x, {c.images, c.input_channels, c.input[0], c.input[1]}));
  }
  const int64_t room =
      std::max<int64_t>(call.choice.workspace_bytes + kLibraryWorkspaceSlack, int64_t{256});
  HY_ASSIGN(auto w, Upload(w_));
  HY_ASSIGN(auto z, Upload(z_));
  HY_ASSIGN(auto bias, Upload(bias_));
  // In the middle of a buffer, aligned as an arena's ranges are.
  HY_ASSIGN(auto workspace, device_.AllocateBuffer(hal::MemoryKind::kDevice, room + 64));
  Ref<hal::Buffer> x[2], y[2];
  for (int set = 0; set < 2; ++set) {
    HY_ASSIGN(x[set], Upload(x_[set]));
  }
  HY_ASSIGN(auto commands, device_.CreateCommandBuffer());
  using hal::CommandRange;
  const auto direct = [](const Ref<hal::Buffer>& buffer) {
    return CommandRange::Direct(buffer.get(), 0, buffer->size_bytes());
  };
  const CommandRange bindings[6] = {
      CommandRange::Slot(0, 0, x[0]->size_bytes()),
      direct(w),
      direct(z),
      direct(bias),
      CommandRange::Slot(1, 0, static_cast<int64_t>(z_.size())),
      CommandRange::Direct(workspace.get(), 64, room),
  };
  hal::DispatchCommand command;
  command.executable = executable.get();
  command.grid[0] = 1;
  command.bindings = bindings;
  command.label = "the convolution";
  HY_TRY(commands->Dispatch(command));
  HY_TRY(commands->Finish());
  const std::vector<uint8_t> poison(z_.size(), 0xff);
  for (const int set : {0, 1, 0}) {
    HY_ASSIGN(y[set], Upload(poison));
    HY_ASSIGN(auto done, device_.CreateSemaphore(0));
    const hal::SemaphorePoint point{done.get(), 1};
    const hal::BufferRange table[2] = {cts::Whole(x[set]), cts::Whole(y[set])};
    HY_TRY(device_.Submit(0, {{{}, {&point, 1}}, commands.get(), table}));
    HY_TRY(Wait(done.get()));
    HY_ASSIGN(y_[set], Download(y[set]));
  }
  return OkStatus();
}

double ConvolutionRun::LargestError(const GpuLibraryCall& call, int64_t most) const {
  const GpuLibraryConvolution& c = call.convolution;
  const auto output = static_cast<DType>(c.output_dtype);
  const int64_t count = c.images * c.output_channels * c.output[0] * c.output[1];
  double largest = 0;
  for (int set = 0; set < 2; ++set) {
    const auto bytes = [](const std::vector<uint8_t>& of) {
      return const_cast<uint8_t*>(of.data());  // read only, by the reference
    };
    for (int64_t i = 0; i < std::min(count, most); ++i) {
      // All of them, or an uneven walk through them.
      const int64_t at = count <= most ? i : (i * 7919 * 104729 + i) % count;
      const int64_t q = at % c.output[1], p = at / c.output[1] % c.output[0];
      const int64_t k = at / c.output[1] / c.output[0] % c.output_channels;
      const int64_t n = at / c.output[1] / c.output[0] / c.output_channels;
      const double want =
          LibraryConvolutionAt(c, {bytes(x_[set]), bytes(w_), bytes(z_), bytes(bias_)}, n, k, p, q);
      const double got = FloatAt(y_[set].data(), output,
                                 c.y.offset + n * c.y.strides[0] + k * c.y.strides[1] +
                                     p * c.y.strides[2] + q * c.y.strides[3]);
      if (std::isnan(want) != std::isnan(got)) return std::numeric_limits<double>::infinity();
      if (!std::isnan(want)) {
        largest = std::max(largest, std::fabs(got - want) / (1 + std::fabs(want)));
      }
    }
  }
  return largest;
}

double ConvolutionRun::First(const GpuLibraryCall& call) const {
  return FloatAt(y_[0].data(), static_cast<DType>(call.convolution.output_dtype), 0);
}

}  // namespace halyard::drivers::cuda
