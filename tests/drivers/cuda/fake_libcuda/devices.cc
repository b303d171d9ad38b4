// SPDX-License-Identifier: Apache-2.0
// Devices, contexts and the words for errors.
#include <cstdio>
#include <cstring>

#include "tests/drivers/cuda/fake_libcuda/recording.h"
#include "tests/drivers/cuda/fake_libcuda/state.h"

namespace halyard::fake_cuda {

constexpr size_t kDeviceBytes = size_t{1} << 30;

bool IsDevice(CUdevice device) { return device >= 0 && device < TheState().device_count; }

FAKE_API CUresult cuInit(unsigned int) {
  FAKE_ENTER(cuInit);
  return TheState().device_count == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

FAKE_API CUresult cuDriverGetVersion(int* version) {
  FAKE_ENTER(cuDriverGetVersion);
  *version = TheState().version;
  RecordedNumber("cuDriverGetVersion", version);
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuGetErrorName(CUresult error, const char** text) {
  switch (error) {
    case CUDA_ERROR_INVALID_VALUE:
      *text = "CUDA_ERROR_INVALID_VALUE";
      return CUDA_SUCCESS;
    case CUDA_ERROR_OUT_OF_MEMORY:
      *text = "CUDA_ERROR_OUT_OF_MEMORY";
      return CUDA_SUCCESS;
    case CUDA_ERROR_NO_DEVICE:
      *text = "CUDA_ERROR_NO_DEVICE";
      return CUDA_SUCCESS;
    case CUDA_ERROR_ILLEGAL_ADDRESS:
      *text = "CUDA_ERROR_ILLEGAL_ADDRESS";
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

FAKE_API CUresult cuGetErrorString(CUresult error, const char** text) {
  if (error != CUDA_ERROR_ILLEGAL_ADDRESS) return CUDA_ERROR_INVALID_VALUE;
  *text = "an illegal memory access was encountered";
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuDeviceGetCount(int* count) {
  FAKE_ENTER(cuDeviceGetCount);
  *count = TheState().device_count;
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  FAKE_ENTER(cuDeviceGet);
  if (!IsDevice(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  FAKE_ENTER(cuDeviceGetName);
  if (RecordedText("cuDeviceGetName", name, static_cast<size_t>(size))) return CUDA_SUCCESS;
  std::snprintf(name, static_cast<size_t>(size), "Stand-in %d", device);
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  FAKE_ENTER(cuDeviceGetUuid_v2);
  if (const std::string* hex = Recorded("cuDeviceGetUuid_v2"); hex && hex->size() == 32) {
    for (size_t i = 0; i < 16; ++i) {
      uuid->bytes[i] = static_cast<char>(std::stoi(hex->substr(2 * i, 2), nullptr, 16));
    }
    return CUDA_SUCCESS;
  }
  for (int i = 0; i < 16; ++i) uuid->bytes[i] = static_cast<char>(0xf0 + device + i);
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuDeviceGetPCIBusId(char* text, int size, CUdevice device) {
  FAKE_ENTER(cuDeviceGetPCIBusId);
  if (RecordedText("cuDeviceGetPCIBusId", text, static_cast<size_t>(size))) return CUDA_SUCCESS;
  std::snprintf(text, static_cast<size_t>(size), "0000:%02X:00.0", 0x1b + device);
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) {
  FAKE_ENTER(cuDeviceTotalMem_v2);
  if (RecordedNumber("cuDeviceTotalMem_v2", bytes)) return CUDA_SUCCESS;
  *bytes = kDeviceBytes;
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  FAKE_ENTER(cuCtxGetStreamPriorityRange);
  if (!RecordedNumber("cuCtxGetStreamPriorityRange", least)) return CUDA_ERROR_NOT_SUPPORTED;
  *greatest = 0;
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  FAKE_ENTER(cuMemGetInfo_v2);
  std::vector<unsigned long long> numbers;
  if (RecordedNumbers("cuMemGetInfo_v2", &numbers, 2)) {
    *free = numbers[0];
    *total = numbers[1];
    return CUDA_SUCCESS;
  }
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  size_t used = 0;
  for (const auto& [address, allocation] : state.memory) {
    if (allocation.kind == Allocation::Kind::kDevice) used += allocation.bytes;
  }
  *total = kDeviceBytes;
  *free = used < kDeviceBytes ? kDeviceBytes - used : 0;
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  FAKE_ENTER(cuDeviceGetAttribute);
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (IsPlaying()) {
    const std::string call = "cuDeviceGetAttribute " + std::to_string(attribute);
    return RecordedNumber(call, value) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = TheState().capability / 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = TheState().capability % 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      *value = INT32_MAX;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      *value = 65535;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = 99 << 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      *value = 32;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      *value = 1000000;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 4;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      *value = 1536;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      *value = 4 << 20;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      *value = 65536;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
      *value = 1;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
      *value = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

FAKE_API CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  FAKE_ENTER(cuDeviceCanAccessPeer);
  *can = IsDevice(device) && IsDevice(peer) && device != peer;
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute, CUdevice, CUdevice) {
  FAKE_ENTER(cuDeviceGetP2PAttribute);
  *value = 1;
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  FAKE_ENTER(cuDevicePrimaryCtxRetain);
  *context = &TheState().contexts[device];
  CountLive("primary context", 1);
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) {
  const CUresult injected = Enter("cuDevicePrimaryCtxRelease_v2");
  CountLive("primary context", -1);
  return injected;
}

FAKE_API CUresult cuCtxPushCurrent_v2(CUcontext context) {
  // Works in a context that is beyond use.
  const CUresult injected = Enter("cuCtxPushCurrent_v2");
  if (injected != CUDA_SUCCESS && !IsSticky(injected)) return injected;
  CurrentContexts().push_back(context);
  return CUDA_SUCCESS;
}

FAKE_API CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  const CUresult injected = Enter("cuCtxPopCurrent_v2");
  if (CurrentContexts().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = CurrentContexts().back();
  CurrentContexts().pop_back();
  return injected;
}

}  // namespace halyard::fake_cuda
