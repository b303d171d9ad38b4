// SPDX-License-Identifier: Apache-2.0
// Device memory is host memory that the library gives out; every access of a stream is checked
// against what is allocated.
#include <cstdlib>
#include <cstring>

#include "tests/drivers/cuda/fake_libcuda/state.h"

namespace halyard::fake_cuda {

const Allocation* FindMemory(CUdeviceptr address, size_t bytes, uintptr_t* out_end) {
  State& state = TheState();
  auto next = state.memory.upper_bound(static_cast<uintptr_t>(address));
  if (next == state.memory.begin()) return nullptr;
  const auto& [start, allocation] = *std::prev(next);
  const uintptr_t end = start + allocation.bytes;
  if (address > end || bytes > end - address) return nullptr;
  if (out_end) *out_end = end;
  return &allocation;
}

CUresult AllocateMemory(Allocation::Kind kind, int device, size_t bytes, void** out) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  size_t used = bytes;
  for (const auto& [address, allocation] : state.memory) used += allocation.bytes;
  constexpr size_t kMost = size_t{1} << 30;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > kMost || used > kMost) return CUDA_ERROR_OUT_OF_MEMORY;
  void* address = nullptr;
  if (posix_memalign(&address, 256, bytes) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  constexpr int kPoison = 0xcb;
  std::memset(address, kPoison, bytes);
  state.memory[reinterpret_cast<uintptr_t>(address)] = {bytes, device, kind};
  ++state.live[kind == Allocation::Kind::kDevice ? "device memory" : "host memory"];
  *out = address;
  return CUDA_SUCCESS;
}

CUresult FreeMemory(void* address) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  auto found = state.memory.find(reinterpret_cast<uintptr_t>(address));
  if (found == state.memory.end()) return CUDA_ERROR_INVALID_VALUE;
  const bool is_device = found->second.kind == Allocation::Kind::kDevice;
  --state.live[is_device ? "device memory" : "host memory"];
  state.memory.erase(found);
  std::free(address);
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  FAKE_ENTER(cuMemPoolCreate);
  if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  *pool = new CUmemPoolHandle_st{properties->location.id};
  CountLive("pool", 1);
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  const CUresult injected = Enter("cuMemPoolDestroy");
  delete pool;
  CountLive("pool", -1);
  return injected;
}

FAKE_API CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) {
  FAKE_ENTER(cuMemPoolSetAttribute);
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuMemPoolSetAccess(CUmemoryPool, const CUmemAccessDesc*, size_t) {
  FAKE_ENTER(cuMemPoolSetAccess);
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                                          CUstream) {
  FAKE_ENTER(cuMemAllocFromPoolAsync);
  void* memory = nullptr;
  CUresult result = AllocateMemory(Allocation::Kind::kDevice, pool->device, bytes, &memory);
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return result;
}

FAKE_API CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  const CUresult injected = Enter("cuMemFreeAsync");
  Operation operation;
  operation.kind = Operation::Kind::kFree;
  operation.address = address;
  Enqueue(stream, std::move(operation));
  return injected;
}

FAKE_API CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  FAKE_ENTER(cuMemAlloc_v2);
  void* memory = nullptr;
  CUresult result = AllocateMemory(Allocation::Kind::kDevice, 0, bytes, &memory);
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return result;
}

FAKE_API CUresult cuMemFree_v2(CUdeviceptr address) {
  const CUresult injected = Enter("cuMemFree_v2");
  FreeMemory(reinterpret_cast<void*>(address));
  return injected;
}

FAKE_API CUresult cuMemHostAlloc(void** address, size_t bytes, unsigned int) {
  FAKE_ENTER(cuMemHostAlloc);
  return AllocateMemory(Allocation::Kind::kHost, -1, bytes, address);
}

FAKE_API CUresult cuMemFreeHost(void* address) {
  const CUresult injected = Enter("cuMemFreeHost");
  FreeMemory(address);
  return injected;
}

FAKE_API CUresult cuMemHostRegister_v2(void* address, size_t bytes, unsigned int) {
  FAKE_ENTER(cuMemHostRegister_v2);
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  Allocation allocation{bytes, -1, Allocation::Kind::kRegistered};
  if (!state.memory.emplace(reinterpret_cast<uintptr_t>(address), allocation).second) {
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  ++state.live["registration"];
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuMemHostUnregister(void* address) {
  const CUresult injected = Enter("cuMemHostUnregister");
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  if (state.memory.erase(reinterpret_cast<uintptr_t>(address)) == 0) {
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  --state.live["registration"];
  return injected;
}

FAKE_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* host, unsigned int) {
  FAKE_ENTER(cuMemHostGetDevicePointer_v2);
  *address = reinterpret_cast<CUdeviceptr>(host);
  return CUDA_SUCCESS;
}

}  // namespace halyard::fake_cuda
