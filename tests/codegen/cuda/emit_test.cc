// SPDX-License-Identifier: Apache-2.0
// CUDA C++ of a few kernels as exact text, what the compiled code must not need, images, and every
// refusal.
#include <gtest/gtest.h>

#include <cstring>

#include "base/gpu_image.h"
#include "compiler/codegen/cuda/emit.h"
#include "compiler/codegen/cuda/nvrtc.h"
#include "compiler/kernel/text.h"
#include "compiler/kernel/verifier.h"
#include "tests/codegen/cuda/nvrtc_place.h"

namespace halyard::cuda {
namespace {

Target TargetNamed(std::string_view name) { return *ParseTarget(name); }

kernel::Module ModuleOf(std::string_view text) {
  Result<kernel::Module> module = kernel::ParseModule(text);
  EXPECT_TRUE(module.ok()) << module.status().ToString();
  if (!module.ok()) return {};
  const Status verified = kernel::VerifyModule(*module);
  EXPECT_TRUE(verified.ok()) << verified.ToString();
  return std::move(*module);
}

constexpr const char* kScale = R"(kernel scale workgroup(256, 1, 1) {
  buffer x f16 global read
  buffer y f16 global write
  scalar n
  site "node" "index"
  %0 = workgroup_id i32 [0]
  %1 = workitem_id i32 [0]
  %2 = const i32 2048
  %3 = mul i32 %0, %2
  %4 = const i32 8
  %5 = mul i32 %1, %4
  %6 = add i32 %3, %5
  %7 = scalar i64 [0]
  %8 = convert i32 %7
  %9 = lt bool %6, %8
  %10 = splat boolx4 %9
  %11 = const f16x4 0
  %12 = load f16x4 @x, %6, %10, %11 align=4
  %13 = convert f32x4 %12
  %14 = const f32x4 0.5
  %15 = const f32x4 0
  %16 = mul f32x4 %13, %14
  %17 = max f32x4 %15, %16
  %18 = convert f16x4 %17
  store @y, %6, %18, %10 align=4
  %19 = gt bool %6, %8
  %20 = convert i64 %6
  report %19, %20, %7 [1, 0]
}
)";

constexpr const char* kScaleCuda =
    R"(extern "C" __global__ void __launch_bounds__(256) scale(const u16* __restrict__ b0, u16* __restrict__ b1, i64 s0, ErrorRecord* record, u64 dispatch) {
  const i32 v0 = i32(blockIdx.x);
  const i32 v1 = i32(threadIdx.x);
  const i32 v2 = i32(u32(v0) * u32(2048));
  const i32 v3 = i32(u32(v1) * u32(8));
  const i32 v4 = i32(u32(v2) + u32(v3));
  const i32 v5 = i32(s0);
  const bool v6 = v4 < v5;
  u16 v7_0 = u16(0);
  u16 v7_1 = u16(0);
  u16 v7_2 = u16(0);
  u16 v7_3 = u16(0);
  if (v6) {
    const w2 v8 = *(const w2*)(b0 + v4);
    v7_0 = u16(v8.x);
    v7_1 = u16((v8.x) >> 16);
    v7_2 = u16(v8.y);
    v7_3 = u16((v8.y) >> 16);
  }
  const f32 v9_0 = from_f16(v7_0);
  const f32 v9_1 = from_f16(v7_1);
  const f32 v9_2 = from_f16(v7_2);
  const f32 v9_3 = from_f16(v7_3);
  const f32 v10_0 = v9_0 * 0.5f;
  const f32 v10_1 = v9_1 * 0.5f;
  const f32 v10_2 = v9_2 * 0.5f;
  const f32 v10_3 = v9_3 * 0.5f;
  const f32 v11_0 = max_float<f32>(0.0f, v10_0);
  const f32 v11_1 = max_float<f32>(0.0f, v10_1);
  const f32 v11_2 = max_float<f32>(0.0f, v10_2);
  const f32 v11_3 = max_float<f32>(0.0f, v10_3);
  const u32 v12 = pack_f16(v11_0, v11_1);
  const u32 v13 = pack_f16(v11_2, v11_3);
  if (v6) {
    *(w2*)(b1 + v4) = w2{u32(u16(u16(v12))) | u32(u16(u16(v12 >> 16))) << 16, u32(u16(u16(v13))) | u32(u16(u16(v13 >> 16))) << 16};
  }
  const bool v14 = v4 > v5;
  const i64 v15 = i64(v4);
  if (v14) report(record, dispatch, 1u, 0u, v15, s0);
}
)";

constexpr const char* kSum = R"(kernel sum workgroup(64, 1, 1) subgroup(32) {
  buffer x f32 global read
  buffer y f32 global write
  buffer t f32 workgroup readwrite [2]
  %0 = workitem_id i32 [0]
  %1 = const i32 0
  %2 = const i32 4096
  %3 = const i32 64
  %4 = const f32 0
  %5 = for i32 %6 = %0 to %2 step %3 carry(f32 %7 = %4) unroll 4 {
    %8 = load f32 @x, %6
    %9 = add f32 %7, %8
    yield %9
  }
  %10 = subgroup_shuffle_xor f32 %5 [16]
  %11 = add f32 %5, %10
  %12 = subgroup_id i32
  store @t, %12, %11
  barrier
  %13 = eq bool %0, %1
  if () %13 {
    %14 = load f32x2 @t, %1 align=2
    %15 = reduce_add f32 %14
    store @y, %1, %15
    yield
  } else {
    yield
  }
}
)";

constexpr const char* kSumCuda =
    R"(extern "C" __global__ void __launch_bounds__(64) sum(const f32* __restrict__ b0, f32* __restrict__ b1, ErrorRecord* record, u64 dispatch) {
  __shared__ __align__(128) f32 b2[2];
  const i32 v0 = i32(threadIdx.x);
  f32 v1 = 0.0f;
  #pragma unroll 4
  for (i32 v2 = v0; v2 < 4096; v2 += 64) {
    const f32 v3 = *(b0 + v2);
    const f32 v4 = v1 + v3;
    v1 = v4;
  }
  const u32 v5 = __shfl_xor_sync(0xffffffffu, __float_as_uint(v1), 16);
  const f32 v6 = __uint_as_float(v5);
  const f32 v7 = v1 + v6;
  const i32 v8 = i32(threadIdx.x >> 5);
  *(b2 + v8) = v7;
  __syncthreads();
  const bool v9 = v0 == 0;
  if (v9) {
    const w2 v10 = *(const w2*)(b2 + 0);
    const f32 v11_0 = __uint_as_float(v10.x);
    const f32 v11_1 = __uint_as_float(v10.y);
    const f32 v12 = v11_0 + v11_1;
    *(b1 + 0) = v12;
  }
}
)";

constexpr const char* kTile = R"(kernel tile workgroup(32, 1, 1) subgroup(32) {
  buffer a f16 global read
  buffer b f16 global read
  buffer c f32 global write
  buffer t f16 workgroup readwrite [512]
  scalar k
  %0 = workitem_id i32 [0]
  %1 = const i32 8
  %2 = mul i32 %0, %1
  %3 = const i32 0
  %4 = const i32 16
  %5 = const f32 0
  %6 = fragment_fill f32.c.16x16 %5
  %7 = scalar i64 [0]
  %8 = convert i32 %7
  %9 = for i32 %10 = %3 to %8 step %4 carry(f32.c.16x16 %11 = %6) unroll 0 {
    barrier
    async_copy @t, %2, %2 [0, 8]
    async_commit
    async_wait [0]
    barrier
    %12 = fragment_load f16.a.16x16 @t, %3, %4 [0] align=8
    %13 = fragment_load f16.b.16x16 @b, %3, %4 [1] align=8
    %14 = fragment_mma f32.c.16x16 %12, %13, %11
    yield %14
  }
  fragment_store @c, %3, %9, %4 [0] align=8
}
)";

constexpr const char* kTileCuda =
    R"(extern "C" __global__ void __launch_bounds__(32) tile(const u16* __restrict__ b0, const u16* __restrict__ b1, f32* __restrict__ b2, i64 s0, ErrorRecord* record, u64 dispatch) {
  __shared__ __align__(128) u16 b3[512];
  const i32 lane = i32(threadIdx.x & 31u), lane_row = lane >> 2, lane_col = lane & 3;
  const i32 v0 = i32(threadIdx.x);
  const i32 v1 = i32(u32(v0) * u32(8));
  const f32 v2_0 = 0.0f;
  const f32 v2_1 = 0.0f;
  const f32 v2_2 = 0.0f;
  const f32 v2_3 = 0.0f;
  const f32 v2_4 = 0.0f;
  const f32 v2_5 = 0.0f;
  const f32 v2_6 = 0.0f;
  const f32 v2_7 = 0.0f;
  const i32 v3 = i32(s0);
  f32 v4_0 = v2_0;
  f32 v4_1 = v2_1;
  f32 v4_2 = v2_2;
  f32 v4_3 = v2_3;
  f32 v4_4 = v2_4;
  f32 v4_5 = v2_5;
  f32 v4_6 = v2_6;
  f32 v4_7 = v2_7;
  #pragma unroll 1
  for (i32 v5 = 0; v5 < v3; v5 += 16) {
    __syncthreads();
    copy16(b3 + v1, b0 + v1, true);
    ASYNC_COMMIT;
    ASYNC_WAIT(0);
    __syncthreads();
    u32 v6_0, v6_1, v6_2, v6_3;
    load_matrices(v6_0, v6_1, v6_2, v6_3, b3 + 0 + (lane % 8 + lane / 8 % 2 * 8) * 16 + (lane / 16 * 8));
    u32 v7_0, v7_1, v7_2, v7_3;
    v7_0 = *(const u32*)(b1 + 0 + (lane_col * 2) + (lane_row) * 16);
    v7_1 = *(const u32*)(b1 + 0 + (lane_col * 2 + 8) + (lane_row) * 16);
    v7_2 = *(const u32*)(b1 + 0 + (lane_col * 2) + (lane_row + 8) * 16);
    v7_3 = *(const u32*)(b1 + 0 + (lane_col * 2 + 8) + (lane_row + 8) * 16);
    f32 v8_0 = v4_0;
    f32 v8_1 = v4_1;
    f32 v8_2 = v4_2;
    f32 v8_3 = v4_3;
    f32 v8_4 = v4_4;
    f32 v8_5 = v4_5;
    f32 v8_6 = v4_6;
    f32 v8_7 = v4_7;
    mma_f16(v8_0, v8_1, v8_2, v8_3, v6_0, v6_1, v6_2, v6_3, v7_0, v7_1);
    mma_f16(v8_4, v8_5, v8_6, v8_7, v6_0, v6_1, v6_2, v6_3, v7_2, v7_3);
    v4_0 = v8_0;
    v4_1 = v8_1;
    v4_2 = v8_2;
    v4_3 = v8_3;
    v4_4 = v8_4;
    v4_5 = v8_5;
    v4_6 = v8_6;
    v4_7 = v8_7;
  }
  *(w2*)(b2 + 0 + (lane_row) * 16 + (lane_col * 2)) = w2{__float_as_uint(v4_0), __float_as_uint(v4_1)};
  *(w2*)(b2 + 0 + (lane_row + 8) * 16 + (lane_col * 2)) = w2{__float_as_uint(v4_2), __float_as_uint(v4_3)};
  *(w2*)(b2 + 0 + (lane_row) * 16 + (lane_col * 2 + 8)) = w2{__float_as_uint(v4_4), __float_as_uint(v4_5)};
  *(w2*)(b2 + 0 + (lane_row + 8) * 16 + (lane_col * 2 + 8)) = w2{__float_as_uint(v4_6), __float_as_uint(v4_7)};
}
)";

constexpr const char* kBits = R"(kernel bits workgroup(64, 1, 1) {
  buffer x f32 global read
  buffer y i32 global write
  buffer c i32 global readwrite
  %0 = workitem_id i32 [0]
  %1 = const i32 4
  %2 = mul i32 %0, %1
  %3 = load f32x4 @x, %2 align=4
  %4 = bitcast i32x4 %3
  %5 = iota i32x4
  %6 = lt boolx4 %4, %5
  %7 = reduce_and bool %6
  %8 = reduce_or bool %6
  %9 = and bool %7, %8
  %10 = const i32 0
  %11 = last_arrival bool @c, %10, %1
  %12 = and bool %9, %11
  %13 = convert i32 %12
  store @y, %0, %13
}
)";

constexpr const char* kBitsCuda =
    R"(extern "C" __global__ void __launch_bounds__(64) bits(const f32* __restrict__ b0, i32* __restrict__ b1, i32* __restrict__ b2, ErrorRecord* record, u64 dispatch) {
  const i32 v0 = i32(threadIdx.x);
  const i32 v1 = i32(u32(v0) * u32(4));
  const w4 v2 = *(const w4*)(b0 + v1);
  const f32 v3_0 = __uint_as_float(v2.x);
  const f32 v3_1 = __uint_as_float(v2.y);
  const f32 v3_2 = __uint_as_float(v2.z);
  const f32 v3_3 = __uint_as_float(v2.w);
  const u32 v4 = __float_as_uint(v3_0);
  const u32 v5 = __float_as_uint(v3_1);
  const u32 v6 = __float_as_uint(v3_2);
  const u32 v7 = __float_as_uint(v3_3);
  const i32 v8_0 = i32(v4);
  const i32 v8_1 = i32(v5);
  const i32 v8_2 = i32(v6);
  const i32 v8_3 = i32(v7);
  const bool v9_0 = v8_0 < 0;
  const bool v9_1 = v8_1 < 1;
  const bool v9_2 = v8_2 < 2;
  const bool v9_3 = v8_3 < 3;
  const bool v10 = bool(v9_0 & v9_2);
  const bool v11 = bool(v9_1 & v9_3);
  const bool v12 = bool(v10 & v11);
  const bool v13 = bool(v9_0 | v9_2);
  const bool v14 = bool(v9_1 | v9_3);
  const bool v15 = bool(v13 | v14);
  const bool v16 = bool(v12 & v15);
  const bool v17 = last_arrival(b2 + 0, u32(4), threadIdx.x == 0);
  const bool v18 = bool(v16 & v17);
  const i32 v19 = i32(v18);
  *(b1 + v0) = v19;
}
)";

TEST(CudaText, IsExact) {
  const Target target = TargetNamed("cuda-sm90");
  for (const auto& [text, expected] : {std::pair(kScale, kScaleCuda), std::pair(kSum, kSumCuda),
                                       std::pair(kTile, kTileCuda), std::pair(kBits, kBitsCuda)}) {
    const Result<std::string> source = EmitCudaKernel(ModuleOf(text).kernels[0], target);
    ASSERT_TRUE(source.ok()) << source.status().ToString();
    EXPECT_EQ(*source, expected);
  }
}

// Bytes of local memory of each function of a CUBIN, from the attribute that ptxas writes into
// .nv.info: format 4, attribute 0x11 (frame size), then symbol and size.
std::vector<uint32_t> FrameBytes(std::span<const uint8_t> cubin) {
  const auto read = [&](size_t at, size_t bytes) {
    uint64_t value = 0;
    if (at + bytes <= cubin.size()) std::memcpy(&value, cubin.data() + at, bytes);
    return value;
  };
  std::vector<uint32_t> frames;
  const size_t sections = read(0x28, 8);
  const size_t count = read(0x3c, 2);
  const size_t names = read(sections + 64 * read(0x3e, 2) + 0x18, 8);
  for (size_t i = 0; i < count; ++i) {
    const size_t section = sections + 64 * i;
    const char* name = reinterpret_cast<const char*>(cubin.data()) + names + read(section, 4);
    if (std::string_view(name) != ".nv.info") continue;
    const size_t begin = read(section + 0x18, 8);
    const size_t end = begin + read(section + 0x20, 8);
    for (size_t at = begin; at + 4 <= end;) {
      const bool sized = read(at, 1) == 4;
      if (sized && read(at + 1, 1) == 0x11) {
        frames.push_back(static_cast<uint32_t>(read(at + 8, 4)));
      }
      at += 4 + (sized ? read(at + 2, 2) : 0);
    }
  }
  return frames;
}

TEST(CudaCode, KeepsValuesAndFragmentsInRegisters) {
  halyard::testing::PlaceNvrtc();
  for (const char* name : {"cuda-sm75", "cuda-sm80", "cuda-sm90"}) {
    const Target target = TargetNamed(name);
    for (const char* text : {kScale, kSum, kTile}) {
      const kernel::Module module = ModuleOf(text);
      const Result<std::string> source = EmitCudaSource(module.kernels, target);
      ASSERT_TRUE(source.ok()) << source.status().ToString();
      const auto cubin = CompileCubin("k", *source, target.gpu.compute_capability);
      ASSERT_TRUE(cubin.ok()) << cubin.status().ToString();
      EXPECT_EQ(FrameBytes(*cubin), std::vector<uint32_t>{0}) << name << *source;
    }
  }
  // The check sees local memory where there is some.
  const kernel::Module indexed = ModuleOf(R"(kernel k workgroup(32, 1, 1) {
  buffer y f32 global write
  buffer p f32 private readwrite [64]
  scalar n
  %0 = scalar i64 [0]
  %1 = const f32 1
  store @p, %0, %1
  %2 = const i64 5
  %3 = load f32 @p, %2
  store @y, %2, %3
})");
  const Target target = TargetNamed("cuda-sm80");
  const Result<std::string> source = EmitCudaSource(indexed.kernels, target);
  ASSERT_TRUE(source.ok());
  const auto cubin = CompileCubin("k", *source, 80);
  ASSERT_TRUE(cubin.ok()) << cubin.status().ToString();
  ASSERT_EQ(FrameBytes(*cubin).size(), 1u);
  EXPECT_GE(FrameBytes(*cubin)[0], 256u);
}

TEST(CudaImage, HoldsOneCubinPerKernelAndItsInterface) {
  halyard::testing::PlaceNvrtc();
  kernel::Module module = ModuleOf(std::string(kScale) + kTile + R"(kernel big workgroup(8, 4, 2) {
  buffer y f32 global write
  buffer t f32 workgroup readwrite [15000]
  buffer u f32 workgroup readwrite [100]
  %0 = const i32 7
  %1 = const f32 1
  store @t, %0, %1
  store @u, %0, %1
})");
  const Result<std::vector<uint8_t>> bytes = EmitCudaImage(module, TargetNamed("cuda-sm80"));
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  const Result<GpuImage> image = ReadGpuImage(*bytes);
  ASSERT_TRUE(image.ok()) << image.status().ToString();
  EXPECT_EQ(image->kind, GpuModuleKind::kCubin);
  EXPECT_EQ(image->target, 80u);
  ASSERT_EQ(image->kernels.size(), 3u);
  EXPECT_EQ(image->kernels[0].name, "scale");
  EXPECT_EQ(image->kernels[0].binding_count, 2u);
  EXPECT_EQ(image->kernels[0].scalar_count, 1u);
  EXPECT_EQ(image->kernels[0].dynamic_workgroup_bytes, 0u);
  EXPECT_EQ(image->kernels[1].subgroup_size, 32u);
  EXPECT_EQ(image->kernels[2].workgroup_size[1], 4u);
  EXPECT_EQ(image->kernels[2].dynamic_workgroup_bytes, 60032u + 512u);
  EXPECT_NE(image->kernels[0].module.data(), image->kernels[1].module.data());
}

TEST(CudaImage, IsKernelIrForADeviceThatInterprets) {
  Target target = TargetNamed("cuda-sm80");
  target.gpu.features |= static_cast<uint64_t>(GpuFeature::kKernelIr);
  const kernel::Module module = ModuleOf(std::string(kScale) + kSum);
  const Result<std::vector<uint8_t>> bytes = EmitCudaImage(module, target);
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  const Result<GpuImage> image = ReadGpuImage(*bytes);
  ASSERT_TRUE(image.ok()) << image.status().ToString();
  EXPECT_EQ(image->kind, GpuModuleKind::kKernelIr);
  const std::span<const uint8_t> text = image->kernels[1].module;
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(text.data()), text.size()),
            kernel::FormatModule(module));
}

TEST(CudaImage, RefusesWhatTheTargetLacks) {
  const struct {
    const char* target;
    const char* text;
    const char* message;
  } cases[] = {
      {"cpu-avx2", kScale, "is no CUDA device"},
      {"cuda-sm80", "kernel k workgroup(32, 1, 1) subgroup(16) {\n}",
       "it relies on a subgroup size of 16; CUDA has 32"},
      {"cuda-sm75",
       "kernel k workgroup(32, 1, 1) {\n%0 = const bf16 0\n%1 = fragment_fill bf16.a.16x16 %0\n}",
       "needs compute capability 8.0; target 'cuda-sm75' has 7.5"},
      {"cuda-sm90",
       "kernel k workgroup(32, 1, 1) {\n%0 = const f16 0\n%1 = fragment_fill f16.a.8x16 %0\n}",
       "a fragment f16.a.8x16 is no multiple of the tiles of mma"},
      {"cuda-sm90",
       "kernel k workgroup(32, 1, 1) {\n%0 = const f32 0\n%1 = subgroup_shuffle_xor f32 %0 [32]\n}",
       "has the mask 32"},
      {"cuda-sm90", "kernel k workgroup(32, 1, 1) {\n%0 = const f64 0\n%1 = exp2 f64 %0\n}",
       "op 'exp2' of f64 was not expanded"},
      {"cuda-sm80",
       "kernel k workgroup(128, 1, 1) subgroup(32) {\n%0 = const f32 0\n"
       "%1 = fragment_fill f32.c.16x8 %0\n%2 = mma_begin f32.p.16x8 %1\n}",
       "op 'mma_begin' needs compute capability 9.0; target 'cuda-sm80' has 8.0"},
      {"cuda-sm75", "kernel k workgroup(32, 1, 1) {\nbuffer t f32 workgroup readwrite [16385]\n}",
       "has 65664 bytes of workgroup memory; target 'cuda-sm75' has at most 65536"},
  };
  for (const auto& c : cases) {
    const auto image = EmitCudaImage(ModuleOf(c.text), TargetNamed(c.target));
    ASSERT_FALSE(image.ok()) << c.text;
    EXPECT_NE(image.status().message().find(c.message), std::string::npos)
        << image.status().ToString();
  }
}

// Tiles begin at multiples of 1024 bytes, whatever stands before them.
TEST(CudaText, PlacesTilesBySwizzle) {
  const kernel::Module module = ModuleOf(
      "kernel k workgroup(128, 1, 1) subgroup(32) {\nbuffer s f32 workgroup readwrite [8]\n"
      "buffer a f16 workgroup readwrite [1024]\nbuffer t f32 workgroup readwrite [16384]\n"
      "buffer b f16 workgroup readwrite [512]\n%0 = const f32 0\n%1 = const i32 0\n"
      "%2 = fragment_fill f32.c.16x8 %0\n%3 = mma_begin f32.p.16x8 %2\n"
      "%4 = mma_async f32.p.16x8 @a, %3, %1, %1 [3, 0, 0, 0, 0]\nmma_commit\nmma_wait [0]\n"
      "%5 = mma_end f32.c.16x8 %4\n}");
  EXPECT_EQ(WorkgroupMemoryBytes(module.kernels[0]), 1024 + 2048 + 65536 + 1024);
  const auto source = EmitCudaKernel(module.kernels[0], TargetNamed("cuda-sm90"));
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  for (const char* text :
       {"extern __shared__ __align__(1024) u8 workgroup_memory[];",
        "b1 = (u16*)(workgroup_memory + 1024);", "b3 = (u16*)(workgroup_memory + 68608);"}) {
    EXPECT_NE(source->find(text), std::string::npos) << text << "\n" << *source;
  }
}

TEST(Nvrtc, SaysWhatItDoesNotCompile) {
  halyard::testing::PlaceNvrtc();
  const auto cubin = CompileCubin("broken", "int f() { return nothing; }", 80);
  ASSERT_FALSE(cubin.ok());
  EXPECT_EQ(cubin.status().code(), StatusCode::kInternal);
  EXPECT_NE(cubin.status().message().find("NVRTC does not compile kernel 'broken'"),
            std::string::npos);
  EXPECT_NE(cubin.status().message().find("\"nothing\" is undefined"), std::string::npos)
      << cubin.status().message();
}

TEST(Nvrtc, SaysWhereItWasLookedFor) {
  const Result<NvrtcApi> api = internal::LoadNvrtc({"libnvrtc.so.0", "/nowhere/libnvrtc.so"});
  ASSERT_FALSE(api.ok());
  EXPECT_EQ(api.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(api.status().message().find(
                "HALYARD_NVRTC_LIBRARY. Tried: libnvrtc.so.0, /nowhere/libnvrtc.so."),
            std::string::npos)
      << api.status().message();
}

}  // namespace
}  // namespace halyard::cuda
