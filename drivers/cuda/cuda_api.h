// SPDX-License-Identifier: Apache-2.0
// The part of the CUDA driver API that this driver uses, declared by us so that it builds without
// the toolkit, and the table of its functions in a library opened at run time. A test compares
// every declaration with the toolkit's cuda.h where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"

namespace halyard::drivers::cuda {

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUkernel = struct CUkern_st*;
using CUarray = struct CUarray_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUmemoryPool = struct CUmemPoolHandle_st*;

enum CUresult : int {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_DEINITIALIZED = 4,
  CUDA_ERROR_STUB_LIBRARY = 34,
  CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_ECC_UNCORRECTABLE = 214,
  CUDA_ERROR_INVALID_PTX = 218,
  CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
  CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_CONTAINED = 226,
  CUDA_ERROR_INVALID_SOURCE = 300,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_TIMEOUT = 702,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_ASSERT = 710,
  CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
  CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
  CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
  CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
  CUDA_ERROR_MISALIGNED_ADDRESS = 716,
  CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
  CUDA_ERROR_INVALID_PC = 718,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_TENSOR_MEMORY_LEAK = 721,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_SYSTEM_NOT_READY = 802,
  CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
  CUDA_ERROR_MPS_CLIENT_TERMINATED = 810,
  CUDA_ERROR_EXTERNAL_DEVICE = 911,
  CUDA_ERROR_UNKNOWN = 999,
};

// CUdevice_attribute: A(name, number).
// clang-format off
#define HY_CUDA_ATTRIBUTES(A) \
  A(MAX_THREADS_PER_BLOCK, 1) \
  A(MAX_BLOCK_DIM_X, 2) \
  A(MAX_BLOCK_DIM_Y, 3) \
  A(MAX_BLOCK_DIM_Z, 4) \
  A(MAX_GRID_DIM_X, 5) \
  A(MAX_GRID_DIM_Y, 6) \
  A(MAX_GRID_DIM_Z, 7) \
  A(MAX_SHARED_MEMORY_PER_BLOCK, 8) \
  A(TOTAL_CONSTANT_MEMORY, 9) \
  A(WARP_SIZE, 10) \
  A(MAX_REGISTERS_PER_BLOCK, 12) \
  A(CLOCK_RATE, 13) \
  A(MULTIPROCESSOR_COUNT, 16) \
  A(KERNEL_EXEC_TIMEOUT, 17) \
  A(INTEGRATED, 18) \
  A(CAN_MAP_HOST_MEMORY, 19) \
  A(COMPUTE_MODE, 20) \
  A(CONCURRENT_KERNELS, 31) \
  A(ECC_ENABLED, 32) \
  A(MEMORY_CLOCK_RATE, 36) \
  A(GLOBAL_MEMORY_BUS_WIDTH, 37) \
  A(L2_CACHE_SIZE, 38) \
  A(MAX_THREADS_PER_MULTIPROCESSOR, 39) \
  A(ASYNC_ENGINE_COUNT, 40) \
  A(UNIFIED_ADDRESSING, 41) \
  A(COMPUTE_CAPABILITY_MAJOR, 75) \
  A(COMPUTE_CAPABILITY_MINOR, 76) \
  A(STREAM_PRIORITIES_SUPPORTED, 78) \
  A(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 81) \
  A(MAX_REGISTERS_PER_MULTIPROCESSOR, 82) \
  A(MANAGED_MEMORY, 83) \
  A(PAGEABLE_MEMORY_ACCESS, 88) \
  A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97) \
  A(HOST_REGISTER_SUPPORTED, 99) \
  A(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 103) \
  A(MAX_BLOCKS_PER_MULTIPROCESSOR, 106) \
  A(MAX_PERSISTING_L2_CACHE_SIZE, 108) \
  A(RESERVED_SHARED_MEMORY_PER_BLOCK, 111) \
  A(READ_ONLY_HOST_REGISTER_SUPPORTED, 113) \
  A(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, 114) \
  A(MEMORY_POOLS_SUPPORTED, 115) \
  A(GPU_DIRECT_RDMA_SUPPORTED, 116) \
  A(CLUSTER_LAUNCH, 120) \
  A(CAN_USE_64_BIT_STREAM_MEM_OPS, 122) \
  A(DMA_BUF_SUPPORTED, 124) \
  A(IPC_EVENT_SUPPORTED, 125) \
  A(HANDLE_TYPE_FABRIC_SUPPORTED, 128) \
  A(MPS_ENABLED, 133) \
  A(HOST_NUMA_ID, 134) \
  A(GPU_PCI_DEVICE_ID, 139)
// clang-format on
enum CUdevice_attribute : int {
#define HY_CUDA_ATTRIBUTE(name, number) CU_DEVICE_ATTRIBUTE_##name = number,
  HY_CUDA_ATTRIBUTES(HY_CUDA_ATTRIBUTE)
#undef HY_CUDA_ATTRIBUTE
};

enum CUfunction_attribute : int {
  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
};

enum CUjit_option : int {
  CU_JIT_ERROR_LOG_BUFFER = 5,
  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
};

enum CUmemPool_attribute : int { CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4 };
enum CUmemAllocationType : int { CU_MEM_ALLOCATION_TYPE_PINNED = 1 };
enum CUmemAllocationHandleType : int { CU_MEM_HANDLE_TYPE_NONE = 0 };
enum CUmemLocationType : int { CU_MEM_LOCATION_TYPE_DEVICE = 1 };
enum CUmemAccess_flags : int { CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3 };
enum CUstreamCaptureMode : int { CU_STREAM_CAPTURE_MODE_RELAXED = 2 };
enum CUmemorytype : int { CU_MEMORYTYPE_UNIFIED = 4 };
enum CUdevice_P2PAttribute : int {
  CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK = 1,
  CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED = 3,
};

inline constexpr unsigned int CU_STREAM_NON_BLOCKING = 1;
inline constexpr unsigned int CU_EVENT_BLOCKING_SYNC = 1;
inline constexpr unsigned int CU_EVENT_DISABLE_TIMING = 2;
inline constexpr unsigned int CU_MEMHOSTALLOC_PORTABLE = 1;
inline constexpr unsigned int CU_MEMHOSTALLOC_DEVICEMAP = 2;
inline constexpr unsigned int CU_MEMHOSTREGISTER_PORTABLE = 1;
inline constexpr unsigned int CU_MEMHOSTREGISTER_DEVICEMAP = 2;
inline constexpr unsigned int CU_MEMHOSTREGISTER_READ_ONLY = 8;
inline constexpr unsigned char CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC = 1;
inline constexpr unsigned char CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC = 1;

struct CUuuid {
  char bytes[16];
};

struct CUmemLocation {
  CUmemLocationType type;
  int id;
};

struct CUmemPoolProps {
  CUmemAllocationType allocType;
  CUmemAllocationHandleType handleTypes;
  CUmemLocation location;
  void* win32SecurityAttributes;
  size_t maxSize;
  unsigned short usage;
  unsigned char reserved[54];
};

struct CUmemAccessDesc {
  CUmemLocation location;
  CUmemAccess_flags flags;
};

struct CUDA_KERNEL_NODE_PARAMS {
  CUfunction func;
  unsigned int gridDimX;
  unsigned int gridDimY;
  unsigned int gridDimZ;
  unsigned int blockDimX;
  unsigned int blockDimY;
  unsigned int blockDimZ;
  unsigned int sharedMemBytes;
  void** kernelParams;
  void** extra;
  CUkernel kern;
  CUcontext ctx;
};

struct CUDA_MEMSET_NODE_PARAMS {
  CUdeviceptr dst;
  size_t pitch;
  unsigned int value;
  unsigned int elementSize;
  size_t width;
  size_t height;
};

struct CUDA_MEMCPY3D {
  size_t srcXInBytes;
  size_t srcY;
  size_t srcZ;
  size_t srcLOD;
  CUmemorytype srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  void* reserved0;
  size_t srcPitch;
  size_t srcHeight;
  size_t dstXInBytes;
  size_t dstY;
  size_t dstZ;
  size_t dstLOD;
  CUmemorytype dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  void* reserved1;
  size_t dstPitch;
  size_t dstHeight;
  size_t WidthInBytes;
  size_t Height;
  size_t Depth;
};

struct CUgraphEdgeData {
  unsigned char from_port;
  unsigned char to_port;
  unsigned char type;
  unsigned char reserved[5];
};

// Function(symbol in the library, parameters). The member of CudaApi has the symbol's name.
// clang-format off
#define HY_CUDA_FUNCTIONS(Function)                                                                \
  Function(cuInit, (unsigned int flags))                                                           \
  Function(cuDriverGetVersion, (int* version))                                                     \
  Function(cuGetErrorName, (CUresult error, const char** text))                                    \
  Function(cuGetErrorString, (CUresult error, const char** text))                                  \
  Function(cuDeviceGetCount, (int* count))                                                         \
  Function(cuDeviceGet, (CUdevice* device, int ordinal))                                           \
  Function(cuDeviceGetName, (char* name, int size, CUdevice device))                               \
  Function(cuDeviceGetUuid_v2, (CUuuid* uuid, CUdevice device))                                    \
  Function(cuDeviceGetPCIBusId, (char* text, int size, CUdevice device))                           \
  Function(cuDeviceTotalMem_v2, (size_t* bytes, CUdevice device))                                  \
  Function(cuDeviceGetAttribute, (int* value, CUdevice_attribute attribute, CUdevice device))      \
  Function(cuDeviceCanAccessPeer, (int* can, CUdevice device, CUdevice peer))                      \
  Function(cuDeviceGetP2PAttribute,                                                                \
           (int* value, CUdevice_P2PAttribute attribute, CUdevice source, CUdevice target))        \
  Function(cuDevicePrimaryCtxRetain, (CUcontext* context, CUdevice device))                        \
  Function(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                        \
  Function(cuCtxPushCurrent_v2, (CUcontext context))                                               \
  Function(cuCtxPopCurrent_v2, (CUcontext* context))                                               \
  Function(cuMemGetInfo_v2, (size_t* free, size_t* total))                                         \
  Function(cuMemPoolCreate, (CUmemoryPool* pool, const CUmemPoolProps* properties))                \
  Function(cuMemPoolDestroy, (CUmemoryPool pool))                                                  \
  Function(cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void* value)) \
  Function(cuMemPoolSetAccess, (CUmemoryPool pool, const CUmemAccessDesc* map, size_t count))      \
  Function(cuMemAllocFromPoolAsync,                                                                \
           (CUdeviceptr* address, size_t bytes, CUmemoryPool pool, CUstream stream))               \
  Function(cuMemFreeAsync, (CUdeviceptr address, CUstream stream))                                 \
  Function(cuMemAlloc_v2, (CUdeviceptr* address, size_t bytes))                                    \
  Function(cuMemFree_v2, (CUdeviceptr address))                                                    \
  Function(cuMemHostAlloc, (void** address, size_t bytes, unsigned int flags))                     \
  Function(cuMemFreeHost, (void* address))                                                         \
  Function(cuMemHostRegister_v2, (void* address, size_t bytes, unsigned int flags))                \
  Function(cuMemHostUnregister, (void* address))                                                   \
  Function(cuMemHostGetDevicePointer_v2,                                                           \
           (CUdeviceptr* address, void* host, unsigned int flags))                                 \
  Function(cuMemcpyAsync,                                                                          \
           (CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream))                \
  Function(cuMemsetD8Async,                                                                        \
           (CUdeviceptr target, unsigned char value, size_t count, CUstream stream))               \
  Function(cuMemsetD16Async,                                                                       \
           (CUdeviceptr target, unsigned short value, size_t count, CUstream stream))              \
  Function(cuMemsetD32Async,                                                                       \
           (CUdeviceptr target, unsigned int value, size_t count, CUstream stream))                \
  Function(cuMemsetD2D32Async, (CUdeviceptr target, size_t pitch, unsigned int value,              \
                                size_t width, size_t height, CUstream stream))                     \
  Function(cuStreamCreate, (CUstream* stream, unsigned int flags))                                 \
  Function(cuStreamDestroy_v2, (CUstream stream))                                                  \
  Function(cuStreamSynchronize, (CUstream stream))                                                 \
  Function(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags))                \
  Function(cuEventCreate, (CUevent* event, unsigned int flags))                                    \
  Function(cuEventDestroy_v2, (CUevent event))                                                     \
  Function(cuEventRecord, (CUevent event, CUstream stream))                                        \
  Function(cuEventQuery, (CUevent event))                                                          \
  Function(cuEventSynchronize, (CUevent event))                                                    \
  Function(cuEventElapsedTime, (float* milliseconds, CUevent start, CUevent end))                  \
  Function(cuModuleLoadDataEx, (CUmodule* module, const void* image, unsigned int count,           \
                                CUjit_option* options, void** values))                             \
  Function(cuModuleUnload, (CUmodule module))                                                      \
  Function(cuModuleGetFunction, (CUfunction* function, CUmodule module, const char* name))         \
  Function(cuFuncGetAttribute, (int* value, CUfunction_attribute attribute, CUfunction function))  \
  Function(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value))   \
  Function(cuLaunchKernel,                                                                         \
           (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,    \
            unsigned int block_x, unsigned int block_y, unsigned int block_z,                      \
            unsigned int shared_bytes, CUstream stream, void** parameters, void** extra))          \
  Function(cuGraphCreate, (CUgraph* graph, unsigned int flags))                                    \
  Function(cuGraphDestroy, (CUgraph graph))                                                        \
  Function(cuGraphAddKernelNode_v2,                                                                \
           (CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,       \
            const CUDA_KERNEL_NODE_PARAMS* parameters))                                            \
  Function(cuGraphAddMemcpyNode,                                                                   \
           (CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,       \
            const CUDA_MEMCPY3D* parameters, CUcontext context))                                   \
  Function(cuGraphAddMemsetNode,                                                                   \
           (CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,       \
            const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext context))                         \
  Function(cuGraphAddEmptyNode, (CUgraphNode* node, CUgraph graph,                                 \
                                 const CUgraphNode* dependencies, size_t count))                   \
  Function(cuGraphInstantiateWithFlags,                                                            \
           (CUgraphExec* exec, CUgraph graph, unsigned long long flags))                           \
  Function(cuGraphExecDestroy, (CUgraphExec exec))                                                 \
  Function(cuGraphExecKernelNodeSetParams_v2, (CUgraphExec exec, CUgraphNode node,                 \
                                               const CUDA_KERNEL_NODE_PARAMS* parameters))         \
  Function(cuGraphExecMemcpyNodeSetParams, (CUgraphExec exec, CUgraphNode node,                    \
                                            const CUDA_MEMCPY3D* parameters, CUcontext context))   \
  Function(cuGraphExecMemsetNodeSetParams,                                                         \
           (CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* parameters,         \
            CUcontext context))                                                                    \
  Function(cuGraphLaunch, (CUgraphExec exec, CUstream stream))

// Newer than the oldest driver that is taken, or needed for library calls alone; null where the
// library lacks them.
#define HY_CUDA_OPTIONAL_FUNCTIONS(Function)                                                       \
  Function(cuGraphAddDependencies_v2,                                                              \
           (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,                         \
            const CUgraphEdgeData* edges, size_t count))                                           \
  Function(cuFuncGetParamInfo,                                                                     \
           (CUfunction function, size_t index, size_t* offset, size_t* bytes))                     \
  Function(cuCtxGetStreamPriorityRange, (int* least, int* greatest))                               \
  Function(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))                   \
  Function(cuStreamEndCapture, (CUstream stream, CUgraph* graph))                                  \
  Function(cuGraphAddChildGraphNode,                                                               \
           (CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,       \
            CUgraph child))                                                                        \
  Function(cuGraphExecChildGraphNodeSetParams, (CUgraphExec exec, CUgraphNode node, CUgraph child))
// clang-format on

inline constexpr int kOldestDriver = 12000;  // 1000 * major + 10 * minor, as CUDA numbers them

// Immutable after loading, so usable from any thread.
struct CudaApi {
#define HY_CUDA_DECLARE(name, parameters) CUresult(*name) parameters = nullptr;
  HY_CUDA_FUNCTIONS(HY_CUDA_DECLARE)
  HY_CUDA_OPTIONAL_FUNCTIONS(HY_CUDA_DECLARE)
#undef HY_CUDA_DECLARE
  std::string library;  // as it was opened
  int driver_version = 0;
  // The library is a stand-in for tests, which says so by a function of this name.
  bool halyard_takes_kernel_ir = false;

  // Opens the library that HALYARD_CUDA_LIBRARY names and initialises it. UNAVAILABLE names the
  // library, symbol, version or error that is in the way.
  static Result<std::shared_ptr<const CudaApi>> Load();

  // "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)".
  std::string FormatError(CUresult error) const;
  // OK for success. The code follows from the error: OUT_OF_MEMORY, DEVICE_LOST for what a context
  // does not survive, INCOMPATIBLE and DATA_LOSS for modules, otherwise INTERNAL.
  Status Check(CUresult error, const char* function) const;
};

// Whether every later call in the context answers with this error as well.
bool IsSticky(CUresult error);

// Calls api.FUNCTION(...) and returns from the enclosing function when it fails.
#define HY_CUDA_TRY(api, function, ...) HY_TRY((api).Check((api).function(__VA_ARGS__), #function))

}  // namespace halyard::drivers::cuda
