// SPDX-License-Identifier: Apache-2.0
// The stand-in as NVML: it answers what a recording holds, and without one is not there.
#include "drivers/cuda/nvml_api.h"

#include "tests/drivers/cuda/fake_libcuda/recording.h"
#include "tests/drivers/cuda/fake_libcuda/state.h"

namespace halyard::fake_cuda {
namespace {

template <typename T>
nvmlReturn_t Number(const std::string& call, T* out) {
  return RecordedNumber(call, out) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t Text(const std::string& call, char* out, unsigned int size) {
  return RecordedText(call, out, size) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

std::string WithNumber(const char* name, unsigned int number) {
  return std::string(name) + " " + std::to_string(number);
}

}  // namespace

FAKE_API nvmlReturn_t nvmlInit_v2() {
  return IsPlaying() ? NVML_SUCCESS : static_cast<nvmlReturn_t>(9);  // driver not loaded
}
FAKE_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* address, nvmlDevice_t* device) {
  const std::string* known = Recorded("cuDeviceGetPCIBusId");
  if (!known || *known != address) return NVML_ERROR_NOT_FOUND;
  *device = reinterpret_cast<nvmlDevice_t>(uintptr_t{1});
  return NVML_SUCCESS;
}
FAKE_API nvmlReturn_t nvmlSystemGetNVMLVersion(char* text, unsigned int size) {
  return Text("nvmlSystemGetNVMLVersion", text, size);
}
FAKE_API nvmlReturn_t nvmlSystemGetDriverVersion(char* text, unsigned int size) {
  return Text("nvmlSystemGetDriverVersion", text, size);
}
FAKE_API nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t, char* text, unsigned int size) {
  return Text("nvmlDeviceGetVbiosVersion", text, size);
}

// Those that write one number.
#define FAKE_NVML(name, Type) \
  FAKE_API nvmlReturn_t name(nvmlDevice_t, Type* out) { return Number(#name, out); }
FAKE_NVML(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long)
FAKE_NVML(nvmlDeviceGetTotalEnergyConsumption, unsigned long long)
FAKE_NVML(nvmlDeviceGetPerformanceState, nvmlPstates_t)
FAKE_NVML(nvmlDeviceGetPowerUsage, unsigned int)
FAKE_NVML(nvmlDeviceGetEnforcedPowerLimit, unsigned int)
FAKE_NVML(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int)
FAKE_NVML(nvmlDeviceGetCurrPcieLinkWidth, unsigned int)
FAKE_NVML(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int)
FAKE_NVML(nvmlDeviceGetMaxPcieLinkWidth, unsigned int)
FAKE_NVML(nvmlDeviceGetMaxMigDeviceCount, unsigned int)
FAKE_NVML(nvmlDeviceGetPcieReplayCounter, unsigned int)
FAKE_NVML(nvmlDeviceGetComputeMode, nvmlComputeMode_t)
FAKE_NVML(nvmlDeviceGetDisplayActive, nvmlEnableState_t)
FAKE_NVML(nvmlDeviceGetPersistenceMode, nvmlEnableState_t)
FAKE_NVML(nvmlDeviceGetVirtualizationMode, nvmlGpuVirtualizationMode_t)

// And those that choose by a number first.
#define FAKE_NVML_BY(name, By, Type)                                     \
  FAKE_API nvmlReturn_t name(nvmlDevice_t, By which, Type* out) {        \
    return Number(WithNumber(#name, static_cast<unsigned>(which)), out); \
  }
FAKE_NVML_BY(nvmlDeviceGetClockInfo, nvmlClockType_t, unsigned int)
FAKE_NVML_BY(nvmlDeviceGetMaxClockInfo, nvmlClockType_t, unsigned int)
FAKE_NVML_BY(nvmlDeviceGetTemperature, nvmlTemperatureSensors_t, unsigned int)
FAKE_NVML_BY(nvmlDeviceGetTemperatureThreshold, nvmlTemperatureThresholds_t, unsigned int)
FAKE_NVML_BY(nvmlDeviceGetNvLinkState, unsigned int, nvmlEnableState_t)
FAKE_NVML_BY(nvmlDeviceGetNvLinkVersion, unsigned int, unsigned int)

FAKE_API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t, nvmlUtilization_t* rates) {
  std::vector<unsigned long long> numbers;
  if (!RecordedNumbers("nvmlDeviceGetUtilizationRates", &numbers, 2))
    return NVML_ERROR_NOT_SUPPORTED;
  *rates = {static_cast<unsigned>(numbers[0]), static_cast<unsigned>(numbers[1])};
  return NVML_SUCCESS;
}
FAKE_API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t, nvmlMemory_v2_t* memory) {
  if (memory->version != kNvmlMemoryVersion) return NVML_ERROR_INVALID_ARGUMENT;
  std::vector<unsigned long long> numbers;
  if (!RecordedNumbers("nvmlDeviceGetMemoryInfo_v2", &numbers, 4)) return NVML_ERROR_NOT_SUPPORTED;
  *memory = {memory->version, numbers[0], numbers[1], numbers[2], numbers[3]};
  return NVML_SUCCESS;
}
FAKE_API nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t, nvmlBAR1Memory_t* memory) {
  std::vector<unsigned long long> numbers;
  if (!RecordedNumbers("nvmlDeviceGetBAR1MemoryInfo", &numbers, 3)) return NVML_ERROR_NOT_SUPPORTED;
  *memory = {numbers[0], numbers[1], numbers[2]};
  return NVML_SUCCESS;
}
FAKE_API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t, unsigned int* current,
                                           unsigned int* pending) {
  std::vector<unsigned long long> numbers;
  if (!RecordedNumbers("nvmlDeviceGetMigMode", &numbers, 2)) return NVML_ERROR_NOT_SUPPORTED;
  *current = static_cast<unsigned>(numbers[0]);
  *pending = static_cast<unsigned>(numbers[1]);
  return NVML_SUCCESS;
}
// Instances have handles of their own.
FAKE_API nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t, unsigned int index,
                                                          nvmlDevice_t* instance) {
  if (!Recorded(WithNumber("nvmlDeviceGetMigDeviceHandleByIndex", index)))
    return NVML_ERROR_NOT_FOUND;
  *instance = reinterpret_cast<nvmlDevice_t>(uintptr_t{100} + index);
  return NVML_SUCCESS;
}
FAKE_API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* text, unsigned int size) {
  const auto handle = reinterpret_cast<uintptr_t>(device);
  if (handle < 100) return Text("nvmlDeviceGetName", text, size);
  const auto index = static_cast<unsigned>(handle - 100);
  return Text(WithNumber("nvmlDeviceGetMigDeviceHandleByIndex", index), text, size);
}
FAKE_API nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t, nvmlMemoryErrorType_t type,
                                                  nvmlEccCounterType_t, unsigned long long* count) {
  return Number(WithNumber("nvmlDeviceGetTotalEccErrors", type), count);
}
FAKE_API nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t, nvmlPageRetirementCause_t cause,
                                                unsigned int* count, unsigned long long*) {
  if (!RecordedNumber(WithNumber("nvmlDeviceGetRetiredPages", cause), count)) {
    return NVML_ERROR_NOT_SUPPORTED;
  }
  return *count == 0 ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}
FAKE_API nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t, unsigned int* corrected,
                                                unsigned int* uncorrected, unsigned int* pending,
                                                unsigned int* failed) {
  std::vector<unsigned long long> numbers;
  if (!RecordedNumbers("nvmlDeviceGetRemappedRows", &numbers, 4)) return NVML_ERROR_NOT_SUPPORTED;
  *corrected = static_cast<unsigned>(numbers[0]);
  *uncorrected = static_cast<unsigned>(numbers[1]);
  *pending = static_cast<unsigned>(numbers[2]);
  *failed = static_cast<unsigned>(numbers[3]);
  return NVML_SUCCESS;
}
FAKE_API nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t, unsigned int link,
                                                      nvmlNvLinkErrorCounter_t kind,
                                                      unsigned long long* count) {
  return Number(WithNumber("nvmlDeviceGetNvLinkErrorCounter", link) + " " + std::to_string(kind),
                count);
}
// Events are those of the recording, one after the other.
FAKE_API nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  *set = reinterpret_cast<nvmlEventSet_t>(new unsigned(0));
  return NVML_SUCCESS;
}
FAKE_API nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  delete reinterpret_cast<unsigned*>(set);
  return NVML_SUCCESS;
}
FAKE_API nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t, unsigned long long types,
                                               nvmlEventSet_t) {
  return Recorded("nvmlDeviceRegisterEvents " + std::to_string(types)) ? NVML_SUCCESS
                                                                       : NVML_ERROR_NOT_SUPPORTED;
}
FAKE_API nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* data, unsigned int) {
  auto* next = reinterpret_cast<unsigned*>(set);
  if (!RecordedNumber(WithNumber("nvmlEventSetWait_v2", *next), &data->eventData)) {
    return NVML_ERROR_TIMEOUT;
  }
  data->eventType = nvmlEventTypeXidCriticalError;
  ++*next;
  return NVML_SUCCESS;
}

// Those that count what there is no room for.
#define FAKE_NVML_PROCESSES(name)                                        \
  FAKE_API nvmlReturn_t name(nvmlDevice_t, unsigned int* count, void*) { \
    if (!RecordedNumber(#name, count)) return NVML_ERROR_NOT_SUPPORTED;  \
    return *count == 0 ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;    \
  }
FAKE_NVML_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3)
FAKE_NVML_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3)

}  // namespace halyard::fake_cuda
