// SPDX-License-Identifier: Apache-2.0
// Our declarations of NVRTC against the toolkit's nvrtc.h, where that is installed.
#include <gtest/gtest.h>

#include "compiler/codegen/cuda/nvrtc.h"
#include "tests/same_signature.h"

#if __has_include(<nvrtc.h>)
#include <nvrtc.h>

namespace halyard::cuda {
namespace {

#define HY_SAME(ours, theirs) \
  static_assert(SameSignature<decltype(NvrtcApi::ours), decltype(&::theirs)>::Check(), #theirs)
HY_SAME(version, nvrtcVersion);
HY_SAME(create_program, nvrtcCreateProgram);
HY_SAME(destroy_program, nvrtcDestroyProgram);
HY_SAME(compile_program, nvrtcCompileProgram);
HY_SAME(get_log_size, nvrtcGetProgramLogSize);
HY_SAME(get_log, nvrtcGetProgramLog);
HY_SAME(get_cubin_size, nvrtcGetCUBINSize);
HY_SAME(get_cubin, nvrtcGetCUBIN);
HY_SAME(get_error_string, nvrtcGetErrorString);
static_assert(sizeof(NvrtcApi) == 9 * sizeof(void*), "A new function needs its row above.");

// What the check itself must refuse.
static_assert(!SameSignature<int (*)(void*), int (*)(void*, int)>::Check());
static_assert(!SameSignature<int (*)(int64_t), int (*)(int)>::Check());
static_assert(!SameSignature<int (*)(char*), int (*)(const char*)>::Check());
static_assert(!SameSignature<int (*)(void**), int (*)(void*)>::Check());

TEST(NvrtcApi, NumbersAreTheToolkits) {
  EXPECT_EQ(0, NVRTC_SUCCESS);
  EXPECT_EQ(NvrtcApi::kInvalidOption, NVRTC_ERROR_INVALID_OPTION);
}

}  // namespace
}  // namespace halyard::cuda

#else

TEST(NvrtcApi, NumbersAreTheToolkits) { GTEST_SKIP() << "nvrtc.h is not installed"; }

#endif
