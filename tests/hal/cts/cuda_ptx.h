// SPDX-License-Identifier: Apache-2.0
// The test kernels as PTX, written by hand. Parameters as base/gpu_kernel_abi.h orders them. The lines
// "// wait" stand where a kernel that is launched early has to wait for those before it.
#pragma once

#include <string_view>

namespace halyard::cts {

inline constexpr std::string_view kPtx = R"(.version 6.4
.target sm_75
.address_size 64

.visible .entry add_scalar(.param .u64 in, .param .u64 out, .param .u64 s, .param .u64 error,
                           .param .u64 dispatch)
{
  .reg .b32 %r<2>;
  .reg .b64 %d<8>;
  // wait
  ld.param.u64 %d1, [in];
  ld.param.u64 %d2, [out];
  ld.param.u64 %d3, [s];
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %d4, %r1, 8;
  add.u64 %d1, %d1, %d4;
  add.u64 %d2, %d2, %d4;
  ld.global.u64 %d5, [%d1];
  add.u64 %d5, %d5, %d3;
  st.global.u64 [%d2], %d5;
  ret;
}

.visible .entry gather(.param .u64 data, .param .u64 index, .param .u64 out, .param .u64 extent,
                       .param .u64 error, .param .u64 dispatch)
{
  .reg .pred %p<3>;
  .reg .b32 %r<5>;
  .reg .b64 %d<12>;
  // wait
  ld.param.u64 %d1, [data];
  ld.param.u64 %d2, [index];
  ld.param.u64 %d3, [out];
  ld.param.u64 %d4, [extent];
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %d5, %r1, 8;
  add.u64 %d2, %d2, %d5;
  ld.global.u64 %d6, [%d2];
  setp.ge.u64 %p1, %d6, %d4;
  @%p1 bra REPORT;
  shl.b64 %d7, %d6, 3;
  add.u64 %d7, %d1, %d7;
  ld.global.u64 %d8, [%d7];
  add.u64 %d9, %d3, %d5;
  st.global.u64 [%d9], %d8;
  ret;
REPORT:
  ld.param.u64 %d10, [error];
  atom.global.sys.cas.b32 %r2, [%d10], 0, 1;
  setp.ne.u32 %p2, %r2, 0;
  @%p2 ret;
  ld.param.u32 %r3, [dispatch];
  st.global.u32 [%d10+4], %r3;
  mov.u32 %r4, 1;
  st.global.u32 [%d10+8], %r4;
  st.global.u32 [%d10+12], %r4;
  st.global.u64 [%d10+16], %d6;
  st.global.u64 [%d10+24], %d4;
  ret;
}

.visible .entry grid(.param .u64 out, .param .u64 gx, .param .u64 gy, .param .u64 error,
                     .param .u64 dispatch)
{
  .reg .b32 %r<4>;
  .reg .b64 %d<12>;
  // wait
  ld.param.u64 %d1, [out];
  ld.param.u64 %d2, [gx];
  ld.param.u64 %d3, [gy];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ctaid.y;
  mov.u32 %r3, %ctaid.z;
  cvt.u64.u32 %d4, %r1;
  cvt.u64.u32 %d5, %r2;
  cvt.u64.u32 %d6, %r3;
  mad.lo.u64 %d7, %d6, %d3, %d5;
  mad.lo.u64 %d7, %d7, %d2, %d4;
  shl.b64 %d7, %d7, 3;
  add.u64 %d7, %d1, %d7;
  mad.lo.u64 %d8, %d5, 1000, %d4;
  mad.lo.u64 %d8, %d6, 1000000, %d8;
  atom.global.add.u64 %d9, [%d7], %d8;
  ret;
}

.visible .entry scratch(.param .u64 out, .param .u64 error, .param .u64 dispatch)
{
  .shared .align 64 .b8 memory[4096];
  .reg .b32 %r<2>;
  .reg .b64 %d<10>;
  // wait
  ld.param.u64 %d1, [out];
  mov.u32 %r1, %ctaid.x;
  cvt.u64.u32 %d2, %r1;
  mov.u64 %d3, memory;
  st.shared.u64 [%d3], %d2;
  st.shared.u64 [%d3+4088], %d2;
  and.b64 %d4, %d3, 63;
  mul.lo.u64 %d4, %d4, 1000000;
  ld.shared.u64 %d5, [%d3];
  ld.shared.u64 %d6, [%d3+4088];
  add.u64 %d4, %d4, %d5;
  add.u64 %d4, %d4, %d6;
  shl.b64 %d7, %d2, 3;
  add.u64 %d7, %d1, %d7;
  st.global.u64 [%d7], %d4;
  ret;
}
)";

}  // namespace halyard::cts
