// SPDX-License-Identifier: Apache-2.0
// The part of NVML, NVIDIA's management library, that this driver reads: clocks, power, links and
// partitions, which the CUDA driver does not tell. Declared by us; a test compares the declarations
// with nvml.h where that is installed. It is optional: without it those fields stay unknown.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"

namespace halyard::drivers::cuda {

using nvmlDevice_t = struct nvmlDevice_st*;

enum nvmlReturn_t : int {
  NVML_SUCCESS = 0,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_TIMEOUT = 10,
};

enum nvmlClockType_t : int { NVML_CLOCK_GRAPHICS = 0, NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2 };
enum nvmlTemperatureSensors_t : int { NVML_TEMPERATURE_GPU = 0 };
enum nvmlTemperatureThresholds_t : int { NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1 };
enum nvmlMemoryErrorType_t : int {
  NVML_MEMORY_ERROR_TYPE_CORRECTED = 0,
  NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1,
};
enum nvmlEccCounterType_t : int { NVML_VOLATILE_ECC = 0 };
enum nvmlPageRetirementCause_t : int {
  NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS = 0,
  NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR = 1,
};
enum nvmlNvLinkErrorCounter_t : int {
  NVML_NVLINK_ERROR_DL_REPLAY = 0,
  NVML_NVLINK_ERROR_DL_RECOVERY = 1,
  NVML_NVLINK_ERROR_DL_CRC_FLIT = 2,
  NVML_NVLINK_ERROR_DL_CRC_DATA = 3,
};
enum nvmlEnableState_t : int { NVML_FEATURE_DISABLED = 0, NVML_FEATURE_ENABLED = 1 };
enum nvmlComputeMode_t : int {
  NVML_COMPUTEMODE_DEFAULT = 0,
  NVML_COMPUTEMODE_PROHIBITED = 2,
  NVML_COMPUTEMODE_EXCLUSIVE_PROCESS = 3,
};
enum nvmlPstates_t : int { NVML_PSTATE_15 = 15, NVML_PSTATE_UNKNOWN = 32 };
enum nvmlGpuTopologyLevel_t : int {
  NVML_TOPOLOGY_INTERNAL = 0,
  NVML_TOPOLOGY_SINGLE = 10,
  NVML_TOPOLOGY_MULTIPLE = 20,
  NVML_TOPOLOGY_HOSTBRIDGE = 30,
  NVML_TOPOLOGY_NODE = 40,
  NVML_TOPOLOGY_SYSTEM = 50,
};
enum nvmlGpuVirtualizationMode_t : int {
  NVML_GPU_VIRTUALIZATION_MODE_NONE = 0,
  NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH = 1,
  NVML_GPU_VIRTUALIZATION_MODE_VGPU = 2,
  NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU = 3,
  NVML_GPU_VIRTUALIZATION_MODE_HOST_VSGA = 4,
};

using nvmlEventSet_t = struct nvmlEventSet_st*;
inline constexpr unsigned long long nvmlEventTypeXidCriticalError = 0x8;
struct nvmlEventData_t {
  nvmlDevice_t device;
  unsigned long long eventType;
  unsigned long long eventData;  // the number of an Xid
  unsigned int gpuInstanceId;
  unsigned int computeInstanceId;
};
struct nvmlUtilization_t {
  unsigned int gpu;
  unsigned int memory;
};
struct nvmlBAR1Memory_t {
  unsigned long long bar1Total;
  unsigned long long bar1Free;
  unsigned long long bar1Used;
};
struct nvmlMemory_v2_t {
  unsigned int version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};
inline constexpr unsigned int kNvmlMemoryVersion =
    static_cast<unsigned int>(sizeof(nvmlMemory_v2_t)) | 2u << 24;
inline constexpr unsigned int kNvmlMaxLinks = 18;

// Bits of the reasons why a clock is below the highest.
inline constexpr unsigned long long nvmlClocksEventReasonGpuIdle = 0x1;
inline constexpr unsigned long long nvmlClocksEventReasonApplicationsClocksSetting = 0x2;
inline constexpr unsigned long long nvmlClocksEventReasonSwPowerCap = 0x4;
inline constexpr unsigned long long nvmlClocksThrottleReasonHwSlowdown = 0x8;
inline constexpr unsigned long long nvmlClocksEventReasonSyncBoost = 0x10;
inline constexpr unsigned long long nvmlClocksEventReasonSwThermalSlowdown = 0x20;
inline constexpr unsigned long long nvmlClocksThrottleReasonHwThermalSlowdown = 0x40;
inline constexpr unsigned long long nvmlClocksThrottleReasonHwPowerBrakeSlowdown = 0x80;
inline constexpr unsigned long long nvmlClocksEventReasonDisplayClockSetting = 0x100;

// clang-format off
// Every function is optional: old libraries lack the newer ones.
#define HY_NVML_FUNCTIONS(Function)                                                                \
  Function(nvmlInit_v2, ())                                                                        \
  Function(nvmlSystemGetNVMLVersion, (char* text, unsigned int size))                              \
  Function(nvmlSystemGetDriverVersion, (char* text, unsigned int size))                            \
  Function(nvmlDeviceGetHandleByPciBusId_v2, (const char* address, nvmlDevice_t* device))          \
  Function(nvmlDeviceGetClockInfo, (nvmlDevice_t device, nvmlClockType_t type, unsigned int* mhz)) \
  Function(nvmlDeviceGetMaxClockInfo,                                                              \
           (nvmlDevice_t device, nvmlClockType_t type, unsigned int* mhz))                         \
  Function(nvmlDeviceGetCurrentClocksThrottleReasons,                                              \
           (nvmlDevice_t device, unsigned long long* reasons))                                     \
  Function(nvmlDeviceGetPerformanceState, (nvmlDevice_t device, nvmlPstates_t* state))             \
  Function(nvmlDeviceGetTemperature,                                                               \
           (nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int* celsius))          \
  Function(nvmlDeviceGetPowerUsage, (nvmlDevice_t device, unsigned int* milliwatts))               \
  Function(nvmlDeviceGetEnforcedPowerLimit, (nvmlDevice_t device, unsigned int* milliwatts))       \
  Function(nvmlDeviceGetTotalEnergyConsumption,                                                    \
           (nvmlDevice_t device, unsigned long long* millijoules))                                 \
  Function(nvmlDeviceGetUtilizationRates, (nvmlDevice_t device, nvmlUtilization_t* rates))         \
  Function(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t device, nvmlMemory_v2_t* memory))             \
  Function(nvmlDeviceGetBAR1MemoryInfo, (nvmlDevice_t device, nvmlBAR1Memory_t* memory))           \
  Function(nvmlDeviceGetMigMode,                                                                   \
           (nvmlDevice_t device, unsigned int* current, unsigned int* pending))                    \
  Function(nvmlDeviceGetMaxMigDeviceCount, (nvmlDevice_t device, unsigned int* count))             \
  Function(nvmlDeviceGetMigDeviceHandleByIndex,                                                    \
           (nvmlDevice_t device, unsigned int index, nvmlDevice_t* instance))                      \
  Function(nvmlDeviceGetName, (nvmlDevice_t device, char* text, unsigned int size))                \
  Function(nvmlDeviceGetNvLinkState,                                                               \
           (nvmlDevice_t device, unsigned int link, nvmlEnableState_t* state))                     \
  Function(nvmlDeviceGetNvLinkVersion,                                                             \
           (nvmlDevice_t device, unsigned int link, unsigned int* version))                        \
  Function(nvmlDeviceGetCurrPcieLinkGeneration, (nvmlDevice_t device, unsigned int* value))        \
  Function(nvmlDeviceGetCurrPcieLinkWidth, (nvmlDevice_t device, unsigned int* value))             \
  Function(nvmlDeviceGetMaxPcieLinkGeneration, (nvmlDevice_t device, unsigned int* value))         \
  Function(nvmlDeviceGetMaxPcieLinkWidth, (nvmlDevice_t device, unsigned int* value))              \
  Function(nvmlDeviceGetComputeMode, (nvmlDevice_t device, nvmlComputeMode_t* mode))               \
  Function(nvmlDeviceGetDisplayActive, (nvmlDevice_t device, nvmlEnableState_t* state))            \
  Function(nvmlDeviceGetPersistenceMode, (nvmlDevice_t device, nvmlEnableState_t* state))          \
  Function(nvmlDeviceGetVirtualizationMode,                                                        \
           (nvmlDevice_t device, nvmlGpuVirtualizationMode_t* mode))                               \
  Function(nvmlDeviceGetComputeRunningProcesses_v3,                                                \
           (nvmlDevice_t device, unsigned int* count, void* infos))                                \
  Function(nvmlDeviceGetMPSComputeRunningProcesses_v3,                                             \
           (nvmlDevice_t device, unsigned int* count, void* infos))                                \
  Function(nvmlDeviceGetVbiosVersion, (nvmlDevice_t device, char* text, unsigned int size))        \
  Function(nvmlDeviceGetTemperatureThreshold,                                                      \
           (nvmlDevice_t device, nvmlTemperatureThresholds_t type, unsigned int* celsius))         \
  Function(nvmlDeviceGetTotalEccErrors,                                                            \
           (nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,         \
            unsigned long long* count))                                                            \
  Function(nvmlDeviceGetRetiredPages,                                                              \
           (nvmlDevice_t device, nvmlPageRetirementCause_t cause, unsigned int* count,             \
            unsigned long long* addresses))                                                        \
  Function(nvmlDeviceGetRemappedRows,                                                              \
           (nvmlDevice_t device, unsigned int* corrected, unsigned int* uncorrected,               \
            unsigned int* pending, unsigned int* failed))                                          \
  Function(nvmlDeviceGetPcieReplayCounter, (nvmlDevice_t device, unsigned int* count))             \
  Function(nvmlDeviceGetNvLinkErrorCounter,                                                        \
           (nvmlDevice_t device, unsigned int link, nvmlNvLinkErrorCounter_t counter,              \
            unsigned long long* count))                                                            \
  Function(nvmlEventSetCreate, (nvmlEventSet_t* set))                                              \
  Function(nvmlEventSetFree, (nvmlEventSet_t set))                                                 \
  Function(nvmlDeviceRegisterEvents,                                                               \
           (nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set))                    \
  Function(nvmlEventSetWait_v2,                                                                    \
           (nvmlEventSet_t set, nvmlEventData_t* data, unsigned int milliseconds))                 \
  Function(nvmlDeviceGetTopologyCommonAncestor,                                                    \
           (nvmlDevice_t one, nvmlDevice_t other, nvmlGpuTopologyLevel_t* level))
// clang-format on

// Immutable after loading, so usable from any thread. A function that the library lacks is null.
struct NvmlApi {
#define HY_NVML_DECLARE(name, parameters) nvmlReturn_t(*name) parameters = nullptr;
  HY_NVML_FUNCTIONS(HY_NVML_DECLARE)
#undef HY_NVML_DECLARE

  // Opens the library that HALYARD_NVML_LIBRARY names and initialises it, once. UNAVAILABLE says
  // what is in the way.
  static Result<std::shared_ptr<const NvmlApi>> Load();
};

}  // namespace halyard::drivers::cuda
