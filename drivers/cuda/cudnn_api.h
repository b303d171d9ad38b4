// SPDX-License-Identifier: Apache-2.0
// The part of cuDNN's graph interface that this driver uses, declared by us so that it builds
// without the library, and the table of its functions in a library opened at run time. A test
// compares every declaration with cudnn_graph.h where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "drivers/cuda/cuda_api.h"

namespace halyard::drivers::cuda {

using cudnnHandle_t = struct cudnnContext*;
using cudnnBackendDescriptor_t = void*;

// The thousands of a status are its category.
enum cudnnStatus_t : int {
  CUDNN_STATUS_SUCCESS = 0,
  CUDNN_STATUS_NOT_INITIALIZED = 1001,
  CUDNN_STATUS_BAD_PARAM = 2000,
  CUDNN_STATUS_NOT_SUPPORTED = 3000,
  CUDNN_STATUS_INTERNAL_ERROR = 4000,
  CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED = 4003,
  CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED = 4004,
  CUDNN_STATUS_EXECUTION_FAILED = 5000,
};
enum cudnnDataType_t : int {
  CUDNN_DATA_FLOAT = 0,
  CUDNN_DATA_HALF = 2,
  CUDNN_DATA_BFLOAT16 = 9,
};
enum cudnnConvolutionMode_t : int { CUDNN_CROSS_CORRELATION = 1 };
enum cudnnPointwiseMode_t : int {
  CUDNN_POINTWISE_ADD = 0,
};
enum cudnnBackendHeurMode_t : int { CUDNN_HEUR_MODE_FALLBACK = 2, CUDNN_HEUR_MODE_A = 3 };
enum cudnnBackendNumericalNote_t : int {
  CUDNN_NUMERICAL_NOTE_TENSOR_CORE = 0,
  CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS = 1,
  CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION = 2,
  CUDNN_NUMERICAL_NOTE_FFT = 3,
  CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC = 4,
  CUDNN_NUMERICAL_NOTE_WINOGRAD = 5,
  CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 = 6,
  CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 = 7,
  CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13 = 8,
};
enum cudnnBackendDescriptorType_t : int {
  CUDNN_BACKEND_POINTWISE_DESCRIPTOR = 0,
  CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR = 1,
  CUDNN_BACKEND_ENGINE_DESCRIPTOR = 2,
  CUDNN_BACKEND_ENGINECFG_DESCRIPTOR = 3,
  CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR = 4,
  CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 5,
  CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR = 7,
  CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR = 10,
  CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR = 13,
  CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR = 15,
  CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR = 16,
  CUDNN_BACKEND_TENSOR_DESCRIPTOR = 17,
};
enum cudnnBackendAttributeType_t : int {
  CUDNN_TYPE_HANDLE = 0,
  CUDNN_TYPE_DATA_TYPE = 1,
  CUDNN_TYPE_BOOLEAN = 2,
  CUDNN_TYPE_INT64 = 3,
  CUDNN_TYPE_FLOAT = 4,
  CUDNN_TYPE_VOID_PTR = 6,
  CUDNN_TYPE_CONVOLUTION_MODE = 7,
  CUDNN_TYPE_HEUR_MODE = 8,
  CUDNN_TYPE_KNOB_TYPE = 9,
  CUDNN_TYPE_NUMERICAL_NOTE = 11,
  CUDNN_TYPE_POINTWISE_MODE = 14,
  CUDNN_TYPE_BACKEND_DESCRIPTOR = 15,
};
// What a value is stands behind it; descriptors are of the type that the name says.
enum cudnnBackendAttributeName_t : int {
  CUDNN_ATTR_POINTWISE_MODE = 0,
  CUDNN_ATTR_POINTWISE_MATH_PREC = 1,      // cudnnDataType_t
  CUDNN_ATTR_CONVOLUTION_COMP_TYPE = 100,  // cudnnDataType_t
  CUDNN_ATTR_CONVOLUTION_CONV_MODE = 101,  // cudnnConvolutionMode_t
  CUDNN_ATTR_CONVOLUTION_DILATIONS = 102,  // int64_t each, as the next five
  CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES = 103,
  CUDNN_ATTR_CONVOLUTION_POST_PADDINGS = 104,
  CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS = 105,
  CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS = 106,
  CUDNN_ATTR_ENGINEHEUR_MODE = 200,
  CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH = 201,
  CUDNN_ATTR_ENGINEHEUR_RESULTS = 202,  // configurations of engines
  CUDNN_ATTR_ENGINECFG_ENGINE = 300,
  CUDNN_ATTR_ENGINECFG_KNOB_CHOICES = 302,
  CUDNN_ATTR_EXECUTION_PLAN_HANDLE = 400,
  CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 401,
  CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 402,  // int64_t
  CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE = 600,
  CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE = 601,               // int64_t
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA = 700,  // float
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA = 701,   // float
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC = 702,
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W = 703,
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X = 704,
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y = 705,
  CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR = 750,
  CUDNN_ATTR_OPERATION_POINTWISE_XDESC = 751,
  CUDNN_ATTR_OPERATION_POINTWISE_BDESC = 752,
  CUDNN_ATTR_OPERATION_POINTWISE_YDESC = 753,
  CUDNN_ATTR_OPERATIONGRAPH_HANDLE = 800,
  CUDNN_ATTR_OPERATIONGRAPH_OPS = 801,
  CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT = 900,  // int64_t, as the next two and the unique id
  CUDNN_ATTR_TENSOR_DATA_TYPE = 901,
  CUDNN_ATTR_TENSOR_DIMENSIONS = 902,
  CUDNN_ATTR_TENSOR_STRIDES = 903,
  CUDNN_ATTR_TENSOR_UNIQUE_ID = 906,
  CUDNN_ATTR_TENSOR_IS_VIRTUAL = 907,  // bool
  CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS = 1000,
  CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS = 1001,
  CUDNN_ATTR_VARIANT_PACK_WORKSPACE = 1003,
  CUDNN_ATTR_ENGINE_OPERATION_GRAPH = 1300,
  CUDNN_ATTR_ENGINE_GLOBAL_INDEX = 1301,  // int64_t
  CUDNN_ATTR_ENGINE_NUMERICAL_NOTE = 1303,
};

// Function(return type, symbol in the library, parameters).
// clang-format off
#define HY_CUDNN_FUNCTIONS(Function)                                                               \
  Function(size_t, cudnnGetVersion, ())                                                            \
  Function(const char*, cudnnGetErrorString, (cudnnStatus_t status))                               \
  Function(void, cudnnGetLastErrorString, (char* message, size_t max_size))                        \
  Function(cudnnStatus_t, cudnnCreate, (cudnnHandle_t* handle))                                    \
  Function(cudnnStatus_t, cudnnDestroy, (cudnnHandle_t handle))                                    \
  Function(cudnnStatus_t, cudnnSetStream, (cudnnHandle_t handle, CUstream stream))                 \
  Function(cudnnStatus_t, cudnnBackendCreateDescriptor,                                            \
           (cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor))              \
  Function(cudnnStatus_t, cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t descriptor))    \
  Function(cudnnStatus_t, cudnnBackendFinalize, (cudnnBackendDescriptor_t descriptor))             \
  Function(cudnnStatus_t, cudnnBackendSetAttribute,                                                \
           (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,                 \
            cudnnBackendAttributeType_t type, int64_t count, const void* values))                  \
  Function(cudnnStatus_t, cudnnBackendGetAttribute,                                                \
           (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,                 \
            cudnnBackendAttributeType_t type, int64_t room, int64_t* count, void* values))         \
  Function(cudnnStatus_t, cudnnBackendExecute,                                                     \
           (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack))
// clang-format on

// Immutable after loading, so usable from any thread.
struct CudnnApi {
#define HY_CUDNN_DECLARE(result, name, parameters) result(*name) parameters = nullptr;
  HY_CUDNN_FUNCTIONS(HY_CUDNN_DECLARE)
#undef HY_CUDNN_DECLARE
  std::string library;   // as it was opened
  uint64_t version = 0;  // 91901 for 9.19.1

  // HALYARD_CUDNN_LIBRARY alone where it is set, else the usual names and places
  // (base/nvidia_libraries.h). Opens a small library that opens others when they are needed.
  // UNAVAILABLE names the library and what it lacks, or lists what was tried.
  static Result<std::shared_ptr<const CudnnApi>> Load();

  // OK for success. OUT_OF_MEMORY, INCOMPATIBLE for what the library does not support on this
  // device, UNAVAILABLE where a part of it is missing, otherwise INTERNAL.
  Status Check(cudnnStatus_t status, const char* function) const;
};

// "9.19.1".
std::string FormatCudnnVersion(uint64_t version);

}  // namespace halyard::drivers::cuda
