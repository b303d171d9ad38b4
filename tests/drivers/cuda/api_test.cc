// SPDX-License-Identifier: Apache-2.0
// Our declarations of the CUDA driver API against the toolkit's cuda.h, where that is installed:
// every function's parameters, every structure's layout and every number.
#include "drivers/cuda/cuda_api.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <tuple>
#include <type_traits>

#if __has_include(<cuda.h>)
#include <cuda.h>

namespace halyard::drivers::cuda {
namespace {

// What matters to a call of a parameter: pointers match pointers of the same depth to things of the
// same size; numbers match by size and kind. Enumerations are numbers of 4 bytes.
template <typename T, typename = void>
inline constexpr size_t kSizeOf = 0;  // void and what is never defined
template <typename T>
inline constexpr size_t kSizeOf<T, std::enable_if_t<(sizeof(T) > 0)>> = sizeof(T);

template <typename A, typename B>
constexpr bool Match() {
  if constexpr (std::is_function_v<A> || std::is_function_v<B>) {
    return std::is_function_v<A> == std::is_function_v<B>;
  } else if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
    using PointeeA = std::remove_pointer_t<A>;
    using PointeeB = std::remove_pointer_t<B>;
    return std::is_const_v<PointeeA> == std::is_const_v<PointeeB> &&
           Match<std::remove_const_t<PointeeA>, std::remove_const_t<PointeeB>>();
  } else {
    return std::is_pointer_v<A> == std::is_pointer_v<B> && kSizeOf<A> == kSizeOf<B> &&
           std::is_class_v<A> == std::is_class_v<B> &&
           std::is_floating_point_v<A> == std::is_floating_point_v<B>;
  }
}

template <typename A, typename B>
struct SameSignature;
template <typename ReturnA, typename... A, typename ReturnB, typename... B>
struct SameSignature<ReturnA (*)(A...), ReturnB (*)(B...)> {
  static constexpr bool Check() {
    if constexpr (sizeof...(A) != sizeof...(B)) {
      return false;
    } else {
      return Match<ReturnA, ReturnB>() && (Match<A, B>() && ...);
    }
  }
};

// From 13.0 on the declarations have the versions that the table names.
#if CUDA_VERSION >= 13000
#define HY_SAME(name, parameters) \
  static_assert(SameSignature<decltype(CudaApi::name), decltype(&::name)>::Check(), #name);
HY_CUDA_FUNCTIONS(HY_SAME)
HY_CUDA_OPTIONAL_FUNCTIONS(HY_SAME)
#endif

#define HY_SAME_LAYOUT(type, ours, theirs)                          \
  static_assert(offsetof(type, ours) == offsetof(::type, theirs) && \
                    sizeof(type::ours) == sizeof(::type::theirs),   \
                #type "::" #ours)
static_assert(sizeof(CUuuid) == sizeof(::CUuuid));
static_assert(sizeof(CUmemPoolProps) == sizeof(::CUmemPoolProps));
HY_SAME_LAYOUT(CUmemPoolProps, allocType, allocType);
HY_SAME_LAYOUT(CUmemPoolProps, handleTypes, handleTypes);
HY_SAME_LAYOUT(CUmemPoolProps, location, location);
HY_SAME_LAYOUT(CUmemPoolProps, maxSize, maxSize);
static_assert(sizeof(CUmemAccessDesc) == sizeof(::CUmemAccessDesc));
HY_SAME_LAYOUT(CUmemAccessDesc, flags, flags);
static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS) == sizeof(::CUDA_KERNEL_NODE_PARAMS));
HY_SAME_LAYOUT(CUDA_KERNEL_NODE_PARAMS, gridDimX, gridDimX);
HY_SAME_LAYOUT(CUDA_KERNEL_NODE_PARAMS, blockDimX, blockDimX);
HY_SAME_LAYOUT(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes, sharedMemBytes);
HY_SAME_LAYOUT(CUDA_KERNEL_NODE_PARAMS, kernelParams, kernelParams);
HY_SAME_LAYOUT(CUDA_KERNEL_NODE_PARAMS, kern, kern);
HY_SAME_LAYOUT(CUDA_KERNEL_NODE_PARAMS, ctx, ctx);
static_assert(sizeof(CUDA_MEMSET_NODE_PARAMS) == sizeof(::CUDA_MEMSET_NODE_PARAMS));
HY_SAME_LAYOUT(CUDA_MEMSET_NODE_PARAMS, pitch, pitch);
HY_SAME_LAYOUT(CUDA_MEMSET_NODE_PARAMS, value, value);
HY_SAME_LAYOUT(CUDA_MEMSET_NODE_PARAMS, elementSize, elementSize);
HY_SAME_LAYOUT(CUDA_MEMSET_NODE_PARAMS, width, width);
HY_SAME_LAYOUT(CUDA_MEMSET_NODE_PARAMS, height, height);
static_assert(sizeof(CUDA_MEMCPY3D) == sizeof(::CUDA_MEMCPY3D));
HY_SAME_LAYOUT(CUDA_MEMCPY3D, srcMemoryType, srcMemoryType);
HY_SAME_LAYOUT(CUDA_MEMCPY3D, srcDevice, srcDevice);
HY_SAME_LAYOUT(CUDA_MEMCPY3D, srcPitch, srcPitch);
HY_SAME_LAYOUT(CUDA_MEMCPY3D, dstMemoryType, dstMemoryType);
HY_SAME_LAYOUT(CUDA_MEMCPY3D, dstDevice, dstDevice);
HY_SAME_LAYOUT(CUDA_MEMCPY3D, dstPitch, dstPitch);
HY_SAME_LAYOUT(CUDA_MEMCPY3D, WidthInBytes, WidthInBytes);
HY_SAME_LAYOUT(CUDA_MEMCPY3D, Depth, Depth);
static_assert(sizeof(CUgraphEdgeData) == sizeof(::CUgraphEdgeData));
HY_SAME_LAYOUT(CUgraphEdgeData, from_port, from_port);
HY_SAME_LAYOUT(CUgraphEdgeData, type, type);

TEST(CudaApiTest, NumbersAreTheToolkits) {
#define HY_SAME_NUMBER(name) \
  EXPECT_EQ(static_cast<long>(cuda::name), static_cast<long>(::name)) << #name
  HY_SAME_NUMBER(CUDA_ERROR_INVALID_VALUE);
  HY_SAME_NUMBER(CUDA_ERROR_OUT_OF_MEMORY);
  HY_SAME_NUMBER(CUDA_ERROR_NOT_INITIALIZED);
  HY_SAME_NUMBER(CUDA_ERROR_DEINITIALIZED);
  HY_SAME_NUMBER(CUDA_ERROR_STUB_LIBRARY);
  HY_SAME_NUMBER(CUDA_ERROR_DEVICE_UNAVAILABLE);
  HY_SAME_NUMBER(CUDA_ERROR_NO_DEVICE);
  HY_SAME_NUMBER(CUDA_ERROR_INVALID_DEVICE);
  HY_SAME_NUMBER(CUDA_ERROR_INVALID_IMAGE);
  HY_SAME_NUMBER(CUDA_ERROR_INVALID_CONTEXT);
  HY_SAME_NUMBER(CUDA_ERROR_NO_BINARY_FOR_GPU);
  HY_SAME_NUMBER(CUDA_ERROR_ECC_UNCORRECTABLE);
  HY_SAME_NUMBER(CUDA_ERROR_INVALID_PTX);
  HY_SAME_NUMBER(CUDA_ERROR_NVLINK_UNCORRECTABLE);
  HY_SAME_NUMBER(CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
  HY_SAME_NUMBER(CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  HY_SAME_NUMBER(CUDA_ERROR_CONTAINED);
  HY_SAME_NUMBER(CUDA_ERROR_INVALID_SOURCE);
  HY_SAME_NUMBER(CUDA_ERROR_INVALID_HANDLE);
  HY_SAME_NUMBER(CUDA_ERROR_NOT_FOUND);
  HY_SAME_NUMBER(CUDA_ERROR_NOT_READY);
  HY_SAME_NUMBER(CUDA_ERROR_ILLEGAL_ADDRESS);
  HY_SAME_NUMBER(CUDA_ERROR_LAUNCH_TIMEOUT);
  HY_SAME_NUMBER(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  HY_SAME_NUMBER(CUDA_ERROR_ASSERT);
  HY_SAME_NUMBER(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  HY_SAME_NUMBER(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  HY_SAME_NUMBER(CUDA_ERROR_HARDWARE_STACK_ERROR);
  HY_SAME_NUMBER(CUDA_ERROR_ILLEGAL_INSTRUCTION);
  HY_SAME_NUMBER(CUDA_ERROR_MISALIGNED_ADDRESS);
  HY_SAME_NUMBER(CUDA_ERROR_INVALID_ADDRESS_SPACE);
  HY_SAME_NUMBER(CUDA_ERROR_INVALID_PC);
  HY_SAME_NUMBER(CUDA_ERROR_LAUNCH_FAILED);
  HY_SAME_NUMBER(CUDA_ERROR_TENSOR_MEMORY_LEAK);
  HY_SAME_NUMBER(CUDA_ERROR_NOT_SUPPORTED);
  HY_SAME_NUMBER(CUDA_ERROR_SYSTEM_NOT_READY);
  HY_SAME_NUMBER(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
  HY_SAME_NUMBER(CUDA_ERROR_MPS_CLIENT_TERMINATED);
  HY_SAME_NUMBER(CUDA_ERROR_EXTERNAL_DEVICE);
  HY_SAME_NUMBER(CUDA_ERROR_UNKNOWN);
  HY_SAME_NUMBER(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  HY_SAME_NUMBER(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  HY_SAME_NUMBER(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  HY_SAME_NUMBER(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  HY_SAME_NUMBER(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  HY_SAME_NUMBER(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  HY_SAME_NUMBER(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  HY_SAME_NUMBER(CU_DEVICE_ATTRIBUTE_INTEGRATED);
  HY_SAME_NUMBER(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  HY_SAME_NUMBER(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  HY_SAME_NUMBER(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
  HY_SAME_NUMBER(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  HY_SAME_NUMBER(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  HY_SAME_NUMBER(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  HY_SAME_NUMBER(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  HY_SAME_NUMBER(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  HY_SAME_NUMBER(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  HY_SAME_NUMBER(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  HY_SAME_NUMBER(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  HY_SAME_NUMBER(CU_JIT_ERROR_LOG_BUFFER);
  HY_SAME_NUMBER(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
  HY_SAME_NUMBER(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
  HY_SAME_NUMBER(CU_MEM_ALLOCATION_TYPE_PINNED);
  HY_SAME_NUMBER(CU_MEM_HANDLE_TYPE_NONE);
  HY_SAME_NUMBER(CU_MEM_LOCATION_TYPE_DEVICE);
  HY_SAME_NUMBER(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  HY_SAME_NUMBER(CU_MEMORYTYPE_UNIFIED);
  HY_SAME_NUMBER(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
  HY_SAME_NUMBER(CU_STREAM_NON_BLOCKING);
  HY_SAME_NUMBER(CU_EVENT_BLOCKING_SYNC);
  HY_SAME_NUMBER(CU_EVENT_DISABLE_TIMING);
  HY_SAME_NUMBER(CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
  // Macros in cuda.h, which hide our names.
  EXPECT_EQ(CU_MEMHOSTALLOC_PORTABLE, 1);
  EXPECT_EQ(CU_MEMHOSTALLOC_DEVICEMAP, 2);
  EXPECT_EQ(CU_MEMHOSTREGISTER_PORTABLE, 1);
  EXPECT_EQ(CU_MEMHOSTREGISTER_DEVICEMAP, 2);
  EXPECT_EQ(CU_MEMHOSTREGISTER_READ_ONLY, 8);
  EXPECT_EQ(CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, 1);
}

}  // namespace
}  // namespace halyard::drivers::cuda

#else

TEST(CudaApiTest, NumbersAreTheToolkits) { GTEST_SKIP() << "cuda.h is not installed"; }

#endif
