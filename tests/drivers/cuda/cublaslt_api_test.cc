// SPDX-License-Identifier: Apache-2.0
// Our declarations of cuBLASLt against the toolkit's cublasLt.h, where that is installed: every
// function's parameters, every structure's layout and every number.
#include "drivers/cuda/cublaslt_api.h"

#include <gtest/gtest.h>

#include "tests/same_signature.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

namespace halyard::drivers::cuda {
namespace {

#define HY_SAME_LIBRARY(result, name, parameters) \
  static_assert(SameSignature<decltype(CublasLtApi::name), decltype(&::name)>::Check(), #name);
HY_CUBLASLT_FUNCTIONS(HY_SAME_LIBRARY)

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(::cublasLtMatmulAlgo_t));
static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == sizeof(::cublasLtMatmulHeuristicResult_t));
#define HY_SAME_PLACE(field)                                        \
  static_assert(offsetof(cublasLtMatmulHeuristicResult_t, field) == \
                offsetof(::cublasLtMatmulHeuristicResult_t, field))
HY_SAME_PLACE(algo);
HY_SAME_PLACE(workspaceSize);
HY_SAME_PLACE(state);
HY_SAME_PLACE(wavesCount);

TEST(CublasLtApiTest, NumbersAreTheToolkits) {
#define HY_SAME_NUMBER(name) \
  EXPECT_EQ(static_cast<long>(cuda::name), static_cast<long>(::name)) << #name
  HY_SAME_NUMBER(CUBLAS_STATUS_SUCCESS);
  HY_SAME_NUMBER(CUBLAS_STATUS_NOT_INITIALIZED);
  HY_SAME_NUMBER(CUBLAS_STATUS_ALLOC_FAILED);
  HY_SAME_NUMBER(CUBLAS_STATUS_INVALID_VALUE);
  HY_SAME_NUMBER(CUBLAS_STATUS_ARCH_MISMATCH);
  HY_SAME_NUMBER(CUBLAS_STATUS_EXECUTION_FAILED);
  HY_SAME_NUMBER(CUBLAS_STATUS_INTERNAL_ERROR);
  HY_SAME_NUMBER(CUBLAS_STATUS_NOT_SUPPORTED);
  HY_SAME_NUMBER(CUDA_R_32F);
  HY_SAME_NUMBER(CUDA_R_16F);
  HY_SAME_NUMBER(CUDA_R_16BF);
  HY_SAME_NUMBER(CUBLAS_COMPUTE_32F);
  HY_SAME_NUMBER(CUBLAS_OP_N);
  HY_SAME_NUMBER(CUBLAS_OP_T);
  HY_SAME_NUMBER(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  HY_SAME_NUMBER(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  HY_SAME_NUMBER(CUBLASLT_MATMUL_DESC_TRANSA);
  HY_SAME_NUMBER(CUBLASLT_MATMUL_DESC_TRANSB);
  HY_SAME_NUMBER(CUBLASLT_MATMUL_DESC_EPILOGUE);
  HY_SAME_NUMBER(CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  HY_SAME_NUMBER(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
  HY_SAME_NUMBER(CUBLASLT_EPILOGUE_DEFAULT);
  HY_SAME_NUMBER(CUBLASLT_EPILOGUE_BIAS);
  HY_SAME_NUMBER(CUBLASLT_EPILOGUE_GELU);
  HY_SAME_NUMBER(CUBLASLT_EPILOGUE_GELU_BIAS);
  HY_SAME_NUMBER(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  HY_SAME_NUMBER(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
  HY_SAME_NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  HY_SAME_NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
  HY_SAME_NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
  HY_SAME_NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  HY_SAME_NUMBER(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
}

}  // namespace
}  // namespace halyard::drivers::cuda

#else

TEST(CublasLtApiTest, NumbersAreTheToolkits) { GTEST_SKIP() << "cublasLt.h is not installed"; }

#endif
