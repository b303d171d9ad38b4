// SPDX-License-Identifier: Apache-2.0
// What every CUDA kernel of ours starts with: types by their IR names and the ops that take more
// than an expression. Uses compiler builtins and PTX only.
#pragma once

#include <string_view>

namespace halyard::cuda {

inline constexpr std::string_view kPrelude = R"(typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
struct __align__(8) w2 { u32 x, y; };
struct __align__(16) w4 { u32 x, y, z, w; };
struct ErrorRecord { u32 state, dispatch, reason, site; i64 value, limit; };
#define FN static __device__ __forceinline__

FN void report(ErrorRecord* record, u64 dispatch, u32 reason, u32 site, i64 value, i64 limit) {
  if (atomicCAS(&record->state, 0u, 1u) != 0u) return;
  record->dispatch = u32(dispatch);
  record->reason = reason;
  record->site = site;
  record->value = value;
  record->limit = limit;
}

template <class T> FN T div_signed(T a, T b) {
  return b == 0 ? T(0) : b == T(-1) ? T(u64(0) - u64(a)) : T(a / b);
}
template <class T> FN T div_unsigned(T a, T b) { return b == 0 ? T(0) : T(a / b); }
template <class T> FN T rem_signed(T a, T b) { return b == 0 || b == T(-1) ? T(0) : T(a % b); }
template <class T> FN T rem_unsigned(T a, T b) { return b == 0 ? T(0) : T(a % b); }
template <class T> FN T min_int(T a, T b) { return a < b ? a : b; }
template <class T> FN T max_int(T a, T b) { return a > b ? a : b; }
template <class T> FN T min_float(T a, T b) { return a != a || a < b ? a : b; }
template <class T> FN T max_float(T a, T b) { return a != a || a > b ? a : b; }
#if __CUDA_ARCH__ >= 800
template <> __device__ __forceinline__ f32 min_float<f32>(f32 a, f32 b) {
  f32 r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
template <> __device__ __forceinline__ f32 max_float<f32>(f32 a, f32 b) {
  f32 r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
#endif

FN f32 exp2_of(f32 x) {
  f32 r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
FN f32 from_f16(u16 x) {
  f32 r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
  return r;
}
FN u16 to_f16(f32 x) {
  u16 r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
}
FN f32 from_bf16(u16 x) { return __uint_as_float(u32(x) << 16); }
FN u16 to_bf16(f32 x) {
#if __CUDA_ARCH__ >= 800
  u16 r;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
#else
  const u32 bits = __float_as_uint(x);
  return x != x ? u16(0x7fff) : u16((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
#endif
}

// Two at once, the first in the low half.
FN u32 pack_f16(f32 a, f32 b) {
#if __CUDA_ARCH__ >= 800
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
  return r;
#else
  return u32(to_f16(a)) | u32(to_f16(b)) << 16;
#endif
}
FN u32 pack_bf16(f32 a, f32 b) {
#if __CUDA_ARCH__ >= 800
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
  return r;
#else
  return u32(to_bf16(a)) | u32(to_bf16(b)) << 16;
#endif
}

FN i32 to_i32(f32 x) { return x != x ? 0 : __float2int_rz(x); }
FN u32 to_u32(f32 x) { return x != x ? 0u : __float2uint_rz(x); }
FN i64 to_i64(f32 x) { return x != x ? 0ll : __float2ll_rz(x); }
FN u64 to_u64(f32 x) { return x != x ? 0ull : __float2ull_rz(x); }
FN i32 to_i32(f64 x) { return x != x ? 0 : __double2int_rz(x); }
FN u32 to_u32(f64 x) { return x != x ? 0u : __double2uint_rz(x); }
FN i64 to_i64(f64 x) { return x != x ? 0ll : __double2ll_rz(x); }
FN u64 to_u64(f64 x) { return x != x ? 0ull : __double2ull_rz(x); }
template <class F> FN i8 to_i8(F x) { return i8(max_int(-128, min_int(127, to_i32(x)))); }
template <class F> FN u8 to_u8(F x) { return u8(min_int(255u, to_u32(x))); }
template <class F> FN i16 to_i16(F x) { return i16(max_int(-32768, min_int(32767, to_i32(x)))); }
template <class F> FN u16 to_u16(F x) { return u16(min_int(65535u, to_u32(x))); }

FN u64 bits_of(f64 x) { return u64(__double_as_longlong(x)); }
FN f64 f64_of(u64 x) { return __longlong_as_double(i64(x)); }
FN u64 join(u32 low, u32 high) { return u64(high) << 32 | low; }
FN u32 workgroup_address(const void* p) { return u32(__cvta_generic_to_shared(p)); }
)";

// A barrier that counts workgroups; only in kernels that have it.
inline constexpr std::string_view kArrivalPrelude = R"(
FN bool last_arrival(void* counter, u32 count, bool speaks) {
  __threadfence();
  __syncthreads();
  bool is_last = false;
  if (speaks) {
    is_last = atomicAdd((u32*)counter, 1u) + 1u == count;
    if (is_last) *(volatile u32*)counter = 0u;
    __threadfence();
  }
  return __syncthreads_or(is_last) != 0;
}
)";

// Async copies; only in kernels that have them.
inline constexpr std::string_view kAsyncPrelude = R"(
#if __CUDA_ARCH__ >= 800
FN void copy4(void* to, const void* from, bool mask) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(workgroup_address(to)),
               "l"(from), "r"(mask ? 4 : 0) : "memory");
}
FN void copy8(void* to, const void* from, bool mask) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(workgroup_address(to)),
               "l"(from), "r"(mask ? 8 : 0) : "memory");
}
FN void copy16(void* to, const void* from, bool mask) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(workgroup_address(to)),
               "l"(from), "r"(mask ? 16 : 0) : "memory");
}
#define ASYNC_COMMIT asm volatile("cp.async.commit_group;" ::: "memory")
#define ASYNC_WAIT(pending) asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory")
#else
FN void copy4(void* to, const void* from, bool mask) {
  *(u32*)to = mask ? *(const u32*)from : 0u;
}
FN void copy8(void* to, const void* from, bool mask) {
  *(w2*)to = mask ? *(const w2*)from : w2{0, 0};
}
FN void copy16(void* to, const void* from, bool mask) {
  *(w4*)to = mask ? *(const w4*)from : w4{0, 0, 0, 0};
}
#define ASYNC_COMMIT
#define ASYNC_WAIT(pending)
#endif
)";

// Fragments; only in kernels that have them. The operands of one mma are 4 registers of A (16 x 16
// 16-bit floats or 16 x 32 bytes), 2 of B (8 columns) and 4 of the accumulator.
inline constexpr std::string_view kFragmentPrelude = R"(
template <class S> FN u32 gather(const u16* p, S step) { return u32(p[0]) | u32(p[step]) << 16; }
template <class S> FN u32 gather(const u8* p, S step) {
  return u32(p[0]) | u32(p[step]) << 8 | u32(p[2 * step]) << 16 | u32(p[3 * step]) << 24;
}
FN void load_matrices(u32& a, u32& b, u32& c, u32& d, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(workgroup_address(row)));
}
FN void load_matrices_transposed(u32& a, u32& b, u32& c, u32& d, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(workgroup_address(row)));
}
FN void mma_f16(f32& c0, f32& c1, f32& c2, f32& c3, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%0, %1, %2, %3};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a0), "r"(a1), "r"(b0));
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%0, %1, %2, %3};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a2), "r"(a3), "r"(b1));
#endif
}
FN void mma_f16(u16& c0, u16& c1, u16& c2, u16& c3, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  u32 low = u32(c0) | u32(c1) << 16, high = u32(c2) | u32(c3) << 16;
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, "
      "{%0, %1};"
      : "+r"(low), "+r"(high) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
  asm("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%0, %1};"
      : "+r"(low), "+r"(high) : "r"(a0), "r"(a1), "r"(b0));
  asm("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%0, %1};"
      : "+r"(low), "+r"(high) : "r"(a2), "r"(a3), "r"(b1));
#endif
  c0 = u16(low), c1 = u16(low >> 16), c2 = u16(high), c3 = u16(high >> 16);
}
#if __CUDA_ARCH__ >= 800
FN void mma_bf16(f32& c0, f32& c1, f32& c2, f32& c3, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0,
                 u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
#define BYTE_MMA(NAME, TYPE)                                                                        \
  FN void NAME(i32& c0, i32& c1, i32& c2, i32& c3, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0,          \
               u32 b1) {                                                                            \
    asm("mma.sync.aligned.m16n8k32.row.col.s32." TYPE "." TYPE ".s32 {%0, %1, %2, %3}, "            \
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                             \
        : "+r"(c0), "+r"(c1), "+r"(c2), "+r"(c3)                                                    \
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                                    \
  }
#else
#define BYTE_MMA(NAME, TYPE)                                                                        \
  FN void NAME##_half(i32& c0, i32& c1, u32 a, u32 b) {                                             \
    asm("mma.sync.aligned.m8n8k16.row.col.s32." TYPE "." TYPE ".s32 {%0, %1}, {%2}, {%3}, "         \
        "{%0, %1};" : "+r"(c0), "+r"(c1) : "r"(a), "r"(b));                                         \
  }                                                                                                 \
  FN void NAME(i32& c0, i32& c1, i32& c2, i32& c3, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0,          \
               u32 b1) {                                                                            \
    NAME##_half(c0, c1, a0, b0);                                                                    \
    NAME##_half(c2, c3, a1, b0);                                                                    \
    NAME##_half(c0, c1, a2, b1);                                                                    \
    NAME##_half(c2, c3, a3, b1);                                                                    \
  }
#endif
BYTE_MMA(mma_i8, "s8")
BYTE_MMA(mma_u8, "u8")
)";

// Tiles in workgroup memory as wgmma's operands; only in kernels that have them. Bits 0 to 13: the
// address, from bit 16: how far 64 elements along the side are from the next 64 (of no matter for
// rows along k: 1), from bit 32: how far 8 rows are from the next 8, from bit 62: the swizzle of
// 128 bytes; all but the last in units of 16 bytes.
inline constexpr std::string_view kProductPrelude = R"(
FN u64 tile_descriptor(const void* p, u32 stride) {
  const u32 low = (workgroup_address(p) & 0x3ffffu) >> 4 | (stride == 0u ? 1u : stride >> 4) << 16;
  return join(low, 1u << 30 | 1024u >> 4);
}
)";

}  // namespace halyard::cuda
