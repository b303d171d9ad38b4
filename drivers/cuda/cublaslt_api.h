// SPDX-License-Identifier: Apache-2.0
// The part of cuBLASLt that this driver uses, declared by us so that it builds without the toolkit,
// and the table of its functions in a library opened at run time. A test compares every declaration
// with the toolkit's cublasLt.h where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "drivers/cuda/cuda_api.h"

namespace halyard::drivers::cuda {

using cublasLtHandle_t = struct cublasLtContext*;
struct cublasLtMatmulDescOpaque_t {
  uint64_t data[32];
};
struct cublasLtMatrixLayoutOpaque_t {
  uint64_t data[8];
};
struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t data[8];
};
using cublasLtMatmulDesc_t = cublasLtMatmulDescOpaque_t*;
using cublasLtMatrixLayout_t = cublasLtMatrixLayoutOpaque_t*;
using cublasLtMatmulPreference_t = cublasLtMatmulPreferenceOpaque_t*;

enum cublasStatus_t : int {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
};
enum cudaDataType_t : int { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
enum cublasComputeType_t : int { CUBLAS_COMPUTE_32F = 68 };
enum cublasOperation_t : int { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasLtMatrixLayoutAttribute_t : int {
  CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,           // int32_t
  CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6,  // int64_t, elements
};
enum cublasLtMatmulDescAttributes_t : int {
  CUBLASLT_MATMUL_DESC_TRANSA = 3,        // int32_t
  CUBLASLT_MATMUL_DESC_TRANSB = 4,        // int32_t
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,      // uint32_t
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,  // void*
  CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26,
};
enum cublasLtEpilogue_t : int {
  CUBLASLT_EPILOGUE_DEFAULT = 1,
  CUBLASLT_EPILOGUE_BIAS = 4,
  CUBLASLT_EPILOGUE_GELU = 32,
  CUBLASLT_EPILOGUE_GELU_BIAS = 36,
};
enum cublasLtMatmulPreferenceAttributes_t : int {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,    // uint64_t
  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,  // uint32_t
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,  // uint32_t, as the next three
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,
};
inline constexpr uint32_t CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2;

struct cublasLtMatmulAlgo_t {
  uint64_t data[8];
};

struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

// Function(return type, symbol in the library, parameters).
// clang-format off
#define HY_CUBLASLT_FUNCTIONS(Function)                                                            \
  Function(size_t, cublasLtGetVersion, ())                                                         \
  Function(const char*, cublasLtGetStatusName, (cublasStatus_t status))                            \
  Function(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t* handle))                             \
  Function(cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t handle))                             \
  Function(cublasStatus_t, cublasLtMatmulDescCreate,                                               \
           (cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale))        \
  Function(cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t desc))                 \
  Function(cublasStatus_t, cublasLtMatmulDescSetAttribute,                                         \
           (cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,                   \
            const void* value, size_t bytes))                                                      \
  Function(cublasStatus_t, cublasLtMatrixLayoutCreate,                                             \
           (cublasLtMatrixLayout_t* layout, cudaDataType_t type, uint64_t rows, uint64_t columns,  \
            int64_t leading_dimension))                                                            \
  Function(cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout))           \
  Function(cublasStatus_t, cublasLtMatrixLayoutSetAttribute,                                       \
           (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,              \
            const void* value, size_t bytes))                                                      \
  Function(cublasStatus_t, cublasLtMatmulPreferenceCreate,                                         \
           (cublasLtMatmulPreference_t* preference))                                               \
  Function(cublasStatus_t, cublasLtMatmulPreferenceDestroy,                                        \
           (cublasLtMatmulPreference_t preference))                                                \
  Function(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,                                   \
           (cublasLtMatmulPreference_t preference,                                                 \
            cublasLtMatmulPreferenceAttributes_t attribute, const void* value, size_t bytes))      \
  Function(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,                                         \
           (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,          \
            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,          \
            cublasLtMatmulPreference_t preference, int most,                                       \
            cublasLtMatmulHeuristicResult_t* results, int* count))                                 \
  Function(cublasStatus_t, cublasLtMatmulAlgoCheck,                                                \
           (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,          \
            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,          \
            const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* result))       \
  Function(cublasStatus_t, cublasLtMatmul,                                                         \
           (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,  \
            cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,       \
            const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,             \
            cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm,                \
            void* workspace, size_t workspace_bytes, CUstream stream))
// clang-format on

// Immutable after loading, so usable from any thread.
struct CublasLtApi {
#define HY_CUBLASLT_DECLARE(result, name, parameters) result(*name) parameters = nullptr;
  HY_CUBLASLT_FUNCTIONS(HY_CUBLASLT_DECLARE)
#undef HY_CUBLASLT_DECLARE
  std::string library;   // as it was opened
  uint64_t version = 0;  // 130100 for 13.1.0

  // HALYARD_CUBLASLT_LIBRARY alone where it is set, else the usual names and places
  // (base/nvidia_libraries.h). The library has 500 MB, of which the loader maps what is used; the
  // first time takes some 50 ms. UNAVAILABLE names the library and what it lacks, or lists what was
  // tried.
  static Result<std::shared_ptr<const CublasLtApi>> Load();

  // OK for success. OUT_OF_MEMORY, INCOMPATIBLE for what the library does not support on this
  // device, otherwise INTERNAL.
  Status Check(cublasStatus_t status, const char* function) const;
};

// "13.1.0".
std::string FormatCublasLtVersion(uint64_t version);

}  // namespace halyard::drivers::cuda
