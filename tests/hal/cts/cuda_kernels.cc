// SPDX-License-Identifier: Apache-2.0
// The test kernels as GPU images for CUDA: hand-written PTX that any device from sm_75 compiles
// when it loads it, a CUBIN made from that text where CTS_CUDA_CUBIN names a file, and Kernel IR
// for the stand-in.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/gpu_image.h"
#include "tests/hal/cts/cuda_ptx.h"
#include "tests/hal/cts/test_kernels.h"

namespace halyard::cts {
namespace {

// Bindings may name one buffer, so none is free of aliases.
constexpr std::string_view kKernelIr = R"(kernel add_scalar workgroup(1, 1, 1) {
  buffer in i64 global read may_alias
  buffer out i64 global write may_alias
  scalar s
  %0 = workgroup_id i64 [0]
  %1 = load i64 @in, %0
  %2 = scalar i64 [0]
  %3 = add i64 %1, %2
  store @out, %0, %3
}

kernel gather workgroup(1, 1, 1) {
  buffer data i64 global read may_alias
  buffer index i64 global read may_alias
  buffer out i64 global write may_alias
  scalar extent
  site "first" "unused"
  site "second" "index"
  %0 = workgroup_id i64 [0]
  %1 = load i64 @index, %0
  %2 = scalar i64 [0]
  %3 = const i64 0
  %4 = lt bool %1, %3
  %5 = ge bool %1, %2
  %6 = or bool %4, %5
  report %6, %1, %2 [1, 1]
  %7 = not bool %6
  %8 = load i64 @data, %1, %7, %3
  store @out, %0, %8, %7
}

kernel grid workgroup(1, 1, 1) {
  buffer out i64 global readwrite
  scalar gx
  scalar gy
  %0 = workgroup_id i64 [0]
  %1 = workgroup_id i64 [1]
  %2 = workgroup_id i64 [2]
  %3 = scalar i64 [0]
  %4 = scalar i64 [1]
  %5 = mul i64 %2, %4
  %6 = add i64 %5, %1
  %7 = mul i64 %6, %3
  %8 = add i64 %7, %0
  %9 = const i64 1000
  %10 = mul i64 %1, %9
  %11 = const i64 1000000
  %12 = mul i64 %2, %11
  %13 = add i64 %10, %12
  %14 = add i64 %13, %0
  %15 = load i64 @out, %8
  %16 = add i64 %15, %14
  store @out, %8, %16
}

kernel scratch workgroup(1, 1, 1) {
  buffer out i64 global write
  buffer memory i64 workgroup readwrite [512]
  %0 = workgroup_id i64 [0]
  %1 = const i64 0
  %2 = const i64 511
  store @memory, %1, %0
  store @memory, %2, %0
  %3 = load i64 @memory, %1
  %4 = load i64 @memory, %2
  %5 = add i64 %3, %4
  store @out, %0, %5
}
)";

bool Takes(const hal::Capabilities& capabilities, std::string_view feature) {
  return std::find(capabilities.features.begin(), capabilities.features.end(), feature) !=
         capabilities.features.end();
}

std::vector<uint8_t> Build(const GpuImage& image_head, std::span<const uint8_t> module,
                           uint32_t flags) {
  GpuImage image = image_head;
  image.kernels = {{"add_scalar", module, 2, 1},
                   {"gather", module, 3, 1},
                   {"grid", module, 1, 2},
                   {"scratch", module, 1, 0}};
  for (GpuKernel& kernel : image.kernels) kernel.flags = flags;
  return WriteGpuImage(image);
}

std::string Replace(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// With the waits, which need sm_90.
std::string WaitingPtx() {
  std::string text = Replace(std::string(kPtx), "// wait",
                             "griddepcontrol.wait;\n  griddepcontrol.launch_dependents;");
  text = Replace(std::move(text), ".version 6.4", ".version 7.8");
  return Replace(std::move(text), ".target sm_75", ".target sm_90");
}

std::vector<uint8_t> BytesOf(std::string_view text) {
  std::vector<uint8_t> bytes(text.begin(), text.end());
  bytes.push_back(0);
  return bytes;
}

class CudaTestKernels final : public TestKernels {
 public:
  explicit CudaTestKernels(bool is_waiting) : is_waiting_(is_waiting) {}

  std::string_view format() const override { return "cuda-image"; }
  size_t table_bytes() const override { return sizeof(GpuImageHeader) + 4 * sizeof(GpuImageEntry); }

  std::vector<uint8_t> Image(const hal::Capabilities& capabilities) const override {
    return ImageFor(capabilities, capabilities.compute.compute_capability.ValueOr(0));
  }

  std::vector<ImageCase> BadImages(const hal::Capabilities& capabilities) const override {
    const std::vector<uint8_t> good = Image(capabilities);
    constexpr StatusCode kDataLoss = StatusCode::kDataLoss;
    constexpr StatusCode kIncompatible = StatusCode::kIncompatible;
    const size_t entry = sizeof(GpuImageHeader) + sizeof(GpuImageEntry);  // the second
    // The module becomes text that is none.
    std::vector<uint8_t> nonsense = good;
    uint64_t module_offset;
    std::memcpy(&module_offset, &good[entry + offsetof(GpuImageEntry, module_offset)],
                sizeof(module_offset));
    std::memcpy(&nonsense[module_offset], "abacus 1 2 3", 12);
    return {
        {{}, kDataLoss, "0 bytes"},
        {{good.begin(), good.begin() + 31}, kDataLoss, "31 bytes"},
        {{good.begin(), good.end() - 1}, kDataLoss, "says that it has"},
        {With(good, 0, uint32_t{1}), kDataLoss, "starts with"},
        {With(good, 16, uint32_t{3}), kIncompatible, "SPIR-V"},
        {With(good, 16, uint32_t{99}), kDataLoss, "unknown kind 99"},
        {With(good, 20, UINT32_MAX), kDataLoss, "4294967295 entries"},
        {With(good, entry + offsetof(GpuImageEntry, name_bytes), uint32_t{0}), kDataLoss, "name"},
        {With(good, entry + offsetof(GpuImageEntry, module_offset), UINT64_MAX), kDataLoss,
         "module"},
        {With(good, entry + offsetof(GpuImageEntry, binding_count), uint32_t{1} << 20), kDataLoss,
         "bindings"},
        {With(good, entry + offsetof(GpuImageEntry, scalar_count), UINT32_MAX), kDataLoss,
         "scalars"},
        {With(good, entry + offsetof(GpuImageEntry, binding_count), uint32_t{2}), kDataLoss,
         "Kernel 'gather' does not take 2 bindings"},
        {With(good, entry + offsetof(GpuImageEntry, workgroup_size), uint32_t{4096}), kIncompatible,
         "4096"},
        {With(good, entry + offsetof(GpuImageEntry, dynamic_workgroup_bytes), uint32_t{1} << 30),
         kIncompatible, "1073741824 bytes of workgroup memory"},
        {With(good, entry + offsetof(GpuImageEntry, flags), uint32_t{4}), kDataLoss, "flags"},
        {nonsense, kDataLoss, ""},
    };
  }

  std::vector<ImageCase> FeatureImages(const hal::Capabilities& capabilities) const override {
    const auto capability = capabilities.compute.compute_capability.ValueOr(0);
    if (Takes(capabilities, "kernel-ir")) return {{Image(capabilities), StatusCode::kOk, ""}};
    return {{ImageFor(capabilities, 75), StatusCode::kOk, ""},
            {ImageFor(capabilities, 1000), StatusCode::kIncompatible,
             fmt::format("this device is sm_{}", capability)}};
  }

 private:
  std::vector<uint8_t> ImageFor(const hal::Capabilities& capabilities, int64_t target) const {
    constexpr auto kDependentLaunch = static_cast<uint64_t>(GpuFeature::kDependentLaunch);
    const bool waits =
        is_waiting_ && (capabilities.compute.gpu_features.ValueOr(0) & kDependentLaunch) != 0;
    const uint32_t flags = waits ? kGpuEntryWaitsItself : 0;
    GpuImage image;
    image.target = static_cast<uint32_t>(target);
    if (Takes(capabilities, "kernel-ir")) {
      image.kind = GpuModuleKind::kKernelIr;
      return Build(image, BytesOf(kKernelIr), flags);
    }
    const char* cubin = std::getenv("CTS_CUDA_CUBIN");
    // Another target is asked for only of text, which is made for the oldest.
    if (cubin && !waits && target == capabilities.compute.compute_capability.ValueOr(0)) {
      std::ifstream stream(cubin, std::ios::binary);
      std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(stream), {}};
      image.kind = GpuModuleKind::kCubin;
      return Build(image, bytes, flags);
    }
    image.kind = GpuModuleKind::kPtx;
    return Build(image, BytesOf(waits ? WaitingPtx() : std::string(kPtx)), flags);
  }

  const bool is_waiting_;
};

}  // namespace

const TestKernels& CudaKernels() {
  static const CudaTestKernels kernels(false);
  return kernels;
}

const TestKernels& CudaWaitingKernels() {
  static const CudaTestKernels kernels(true);
  return kernels;
}

}  // namespace halyard::cts
