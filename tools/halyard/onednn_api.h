// SPDX-License-Identifier: Apache-2.0
// The part of oneDNN's C interface that `halyard bench --op` uses, declared by us so that neither
// building nor running needs the library, and the table of its functions. Releases 2 and 3 differ
// in how an op is described; what they share stands once. A test compares every declaration with
// the dnnl.h that is installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/dylib.h"

namespace halyard::tools {

struct OneDnnVersion {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
};
struct OneDnnArgument {
  int argument;
  void* memory;
};

// Numbers of both releases. Status 0 is success.
inline constexpr int kOneDnnUnimplemented = 3;
inline constexpr int kOneDnnCpu = 1, kOneDnnInOrder = 1;
inline constexpr int kOneDnnF16 = 1, kOneDnnBf16 = 2, kOneDnnF32 = 3;       // data types
inline constexpr int kOneDnnAnyLayout = 1;                                  // format tag
inline constexpr int kOneDnnInference = 96;                                 // kind of propagation
inline constexpr int kOneDnnConvolutionAuto = 3, kOneDnnSoftmax = 0x30000;  // algorithms
inline constexpr int kOneDnnNameOfImplementation = 8;                       // queries
inline constexpr int kOneDnnSourceLayout = 129, kOneDnnWeightsLayout = 131,
                     kOneDnnResultLayout = 133;
inline constexpr int kOneDnnSource = 1, kOneDnnResult = 17, kOneDnnWeights = 33, kOneDnnScale = 51,
                     kOneDnnShift = 52;                                              // arguments
inline constexpr unsigned kOneDnnSequential = 1, kOneDnnOpenMp = 2, kOneDnnTbb = 4;  // runtimes
// Of layernorm, that scale and shift are given: each release has bits of its own.
inline constexpr unsigned kOneDnn2ScaleAndShift = 0x8 | 0x10, kOneDnn3ScaleAndShift = 0x2 | 0x4;

// Room for structures of release 2, which it fills itself.
inline constexpr size_t kOneDnn2LayoutBytes = 2048, kOneDnn2OpBytes = 16384;

// Function(return type, symbol, parameters). Handles and layouts are pointers that only the
// library looks behind; sizes and strides are 12 numbers.
// clang-format off
#define HY_ONEDNN_SHARED(Function)                                                                 \
  Function(const OneDnnVersion*, dnnl_version, ())                                                 \
  Function(int, dnnl_engine_create, (void** engine, int kind, size_t index))                       \
  Function(int, dnnl_engine_destroy, (void* engine))                                               \
  Function(int, dnnl_stream_create, (void** stream, void* engine, unsigned flags))                 \
  Function(int, dnnl_stream_wait, (void* stream))                                                  \
  Function(int, dnnl_stream_destroy, (void* stream))                                               \
  Function(int, dnnl_memory_create,                                                                \
           (void** memory, const void* layout, void* engine, void* data))                          \
  Function(int, dnnl_memory_destroy, (void* memory))                                               \
  Function(int, dnnl_memory_desc_equal, (const void* one, const void* other))                      \
  Function(size_t, dnnl_memory_desc_get_size, (const void* layout))                                \
  Function(int, dnnl_primitive_create, (void** primitive, const void* desc))                       \
  Function(int, dnnl_primitive_execute,                                                            \
           (const void* primitive, void* stream, int count, const OneDnnArgument* arguments))      \
  Function(int, dnnl_primitive_destroy, (void* primitive))                                         \
  Function(int, dnnl_primitive_desc_destroy, (void* desc))                                         \
  Function(int, dnnl_primitive_desc_query,                                                         \
           (const void* desc, int what, int index, void* result))                                  \
  Function(const void*, dnnl_primitive_desc_query_md, (const void* desc, int what, int index))     \
  Function(int, dnnl_reorder_primitive_desc_create,                                                \
           (void** desc, const void* from, void* from_engine, const void* to, void* to_engine,     \
            const void* attributes))

#define HY_ONEDNN_2(Function)                                                                      \
  Function(int, dnnl_memory_desc_init_by_strides,                                                  \
           (void* layout, int rank, const int64_t* dims, int dtype, const int64_t* strides))       \
  Function(int, dnnl_memory_desc_init_by_tag,                                                      \
           (void* layout, int rank, const int64_t* dims, int dtype, int tag))                      \
  Function(int, dnnl_primitive_desc_create,                                                        \
           (void** desc, const void* op, const void* attributes, void* engine,                     \
            const void* forward))                                                                  \
  Function(int, dnnl_matmul_desc_init,                                                             \
           (void* op, const void* source, const void* weights, const void* bias,                   \
            const void* result))                                                                   \
  Function(int, dnnl_convolution_forward_desc_init,                                                \
           (void* op, int kind, int algorithm, const void* source, const void* weights,            \
            const void* bias, const void* result, const int64_t* strides, const int64_t* low,      \
            const int64_t* high))                                                                  \
  Function(int, dnnl_softmax_v2_forward_desc_init,                                                 \
           (void* op, int kind, int algorithm, const void* source, const void* result, int axis))  \
  Function(int, dnnl_layer_normalization_forward_desc_init,                                        \
           (void* op, int kind, const void* data, const void* statistics, float epsilon,           \
            unsigned flags))

#define HY_ONEDNN_3(Function)                                                                      \
  Function(int, dnnl_memory_desc_create_with_strides,                                              \
           (void** layout, int rank, const int64_t* dims, int dtype, const int64_t* strides))      \
  Function(int, dnnl_memory_desc_create_with_tag,                                                  \
           (void** layout, int rank, const int64_t* dims, int dtype, int tag))                     \
  Function(int, dnnl_memory_desc_destroy, (void* layout))                                          \
  Function(int, dnnl_matmul_primitive_desc_create,                                                 \
           (void** desc, void* engine, const void* source, const void* weights, const void* bias,  \
            const void* result, const void* attributes))                                           \
  Function(int, dnnl_convolution_forward_primitive_desc_create,                                    \
           (void** desc, void* engine, int kind, int algorithm, const void* source,                \
            const void* weights, const void* bias, const void* result, const int64_t* strides,     \
            const int64_t* dilations, const int64_t* low, const int64_t* high,                     \
            const void* attributes))                                                               \
  Function(int, dnnl_softmax_forward_primitive_desc_create,                                        \
           (void** desc, void* engine, int kind, int algorithm, const void* source,                \
            const void* result, int axis, const void* attributes))                                 \
  Function(int, dnnl_layer_normalization_forward_primitive_desc_create,                            \
           (void** desc, void* engine, int kind, const void* source, const void* result,           \
            const void* statistics, float epsilon, unsigned flags, const void* attributes))
// clang-format on

// Immutable after loading. Functions of the other release are null.
struct OneDnnApi {
#define HY_ONEDNN_DECLARE(result, name, parameters) result(*name) parameters = nullptr;
  HY_ONEDNN_SHARED(HY_ONEDNN_DECLARE)
  HY_ONEDNN_2(HY_ONEDNN_DECLARE)
  HY_ONEDNN_3(HY_ONEDNN_DECLARE)
#undef HY_ONEDNN_DECLARE
  DynamicLibrary library;

  bool is_release_2() const { return dnnl_version()->major == 2; }
  // "oneDNN 2.6.3".
  std::string Name() const;

  // HALYARD_ONEDNN_LIBRARY alone where it is set, else libdnnl.so.3 or .2. UNAVAILABLE names the
  // library and what it lacks, or lists what was tried.
  static Result<std::shared_ptr<const OneDnnApi>> Load();
};

}  // namespace halyard::tools
