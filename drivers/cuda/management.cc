// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/management.h"

#include "hal/pci.h"

namespace halyard::drivers::cuda {
namespace {

using hal::SetIfPositive;
using hal::Source;

constexpr int64_t kMega = 1000000;

std::string FormatComputeMode(nvmlComputeMode_t mode) {
  switch (mode) {
    case NVML_COMPUTEMODE_DEFAULT:
      return "default";
    case NVML_COMPUTEMODE_PROHIBITED:
      return "prohibited";
    case NVML_COMPUTEMODE_EXCLUSIVE_PROCESS:
      return "exclusive-process";
  }
  return fmt::format("mode {}", static_cast<int>(mode));
}

std::string FormatVirtualization(nvmlGpuVirtualizationMode_t mode) {
  switch (mode) {
    case NVML_GPU_VIRTUALIZATION_MODE_NONE:
      return "none";
    case NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH:
      return "passthrough";
    case NVML_GPU_VIRTUALIZATION_MODE_VGPU:
      return "vgpu";
    case NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU:
    case NVML_GPU_VIRTUALIZATION_MODE_HOST_VSGA:
      return "host";
  }
  return fmt::format("mode {}", static_cast<int>(mode));
}

// One direction of one link, from the generation.
double NvlinkBytesPerSecond(int64_t version) {
  switch (version) {
    case 1:
      return 20e9;
    case 2:
    case 3:
    case 4:
      return 25e9;
    case 5:
      return 50e9;
    default:
      return 0;
  }
}

// Whether the function is there and answers.
#define HY_ASK(function, ...) \
  (api_->function && api_->function(device_, __VA_ARGS__) == NVML_SUCCESS)

}  // namespace

Management Management::Open(const std::string& pci_address, std::string* why_not) {
  Management out;
  auto api = NvmlApi::Load();
  if (!api.ok()) {
    *why_not = std::string(api.status().message());
    return out;
  }
  const nvmlReturn_t result =
      (*api)->nvmlDeviceGetHandleByPciBusId_v2(pci_address.c_str(), &out.device_);
  if (result != NVML_SUCCESS) {
    out.device_ = nullptr;
    *why_not = fmt::format("NVML does not know the device at {} (error {}).", pci_address,
                           static_cast<int>(result));
    return out;
  }
  out.api_ = std::move(*api);
  out.faults_ = Faults::Listen(out.api_, out.device_);
  return out;
}

std::shared_ptr<Management::Faults> Management::Faults::Listen(std::shared_ptr<const NvmlApi> api,
                                                               nvmlDevice_t device) {
  if (!api->nvmlEventSetCreate || !api->nvmlEventSetFree || !api->nvmlDeviceRegisterEvents ||
      !api->nvmlEventSetWait_v2) {
    return nullptr;
  }
  auto out = std::make_shared<Faults>();
  if (api->nvmlEventSetCreate(&out->set_) != NVML_SUCCESS) {
    out->set_ = nullptr;
    return nullptr;
  }
  out->api_ = std::move(api);
  const nvmlReturn_t result =
      out->api_->nvmlDeviceRegisterEvents(device, nvmlEventTypeXidCriticalError, out->set_);
  return result == NVML_SUCCESS ? out : nullptr;
}

Management::Faults::~Faults() {
  if (set_) api_->nvmlEventSetFree(set_);
}

std::string Management::Faults::Read() {
  constexpr int kMost = 1000;  // at once; a device that fails again and again does not hold us here
  std::lock_guard lock(mutex_);
  nvmlEventData_t event = {};
  for (int i = 0; i < kMost && api_->nvmlEventSetWait_v2(set_, &event, 0) == NVML_SUCCESS; ++i) {
    if ((event.eventType & nvmlEventTypeXidCriticalError) == 0) continue;
    const std::string name = fmt::format("Xid {}", event.eventData);
    if ((seen_ + ",").find(name + ",") != seen_.npos) continue;
    seen_ += (seen_.empty() ? "" : ", ") + name;
  }
  return seen_.empty() ? "none" : seen_;
}

void Management::Describe(hal::Capabilities* out) const {
  if (!is_open()) return;
  char text[128] = "";
  unsigned int value = 0, pending = 0;
  nvmlEnableState_t state = NVML_FEATURE_DISABLED;
  if (api_->nvmlSystemGetNVMLVersion &&
      api_->nvmlSystemGetNVMLVersion(text, sizeof(text)) == NVML_SUCCESS) {
    out->identity.management_version = {fmt::format("NVML {}", text), Source::kApi};
  }
  if (api_->nvmlSystemGetDriverVersion &&
      api_->nvmlSystemGetDriverVersion(text, sizeof(text)) == NVML_SUCCESS) {
    out->identity.driver_version = {text, Source::kApi};
  }
  if (HY_ASK(nvmlDeviceGetVbiosVersion, text, sizeof(text))) {
    out->identity.firmware_version = {fmt::format("VBIOS {}", text), Source::kApi};
  }
  if (HY_ASK(nvmlDeviceGetMaxClockInfo, NVML_CLOCK_SM, &value)) {
    SetIfPositive(&out->compute.max_clock_hz, value * kMega, Source::kApi);
  }
  if (HY_ASK(nvmlDeviceGetMaxClockInfo, NVML_CLOCK_MEM, &value)) {
    SetIfPositive(&out->memory.max_clock_hz, value * kMega, Source::kApi);
  }
  nvmlMemory_v2_t memory = {};
  memory.version = kNvmlMemoryVersion;
  if (HY_ASK(nvmlDeviceGetMemoryInfo_v2, &memory)) {
    SetIfPositive(&out->memory.reserved_bytes, static_cast<int64_t>(memory.reserved), Source::kApi);
  }
  nvmlBAR1Memory_t window = {};
  if (HY_ASK(nvmlDeviceGetBAR1MemoryInfo, &window)) {
    const auto bytes = static_cast<int64_t>(window.bar1Total);
    SetIfPositive(&out->memory.window_bytes, bytes, Source::kApi);
    if (out->memory.total_bytes.known() && bytes > 0) {
      out->memory.is_resizable_bar = {bytes >= out->memory.total_bytes.value, Source::kApi};
    }
  }
  if (HY_ASK(nvmlDeviceGetMigMode, &value, &pending)) {
    out->partition.is_mig_enabled = {value != 0, Source::kApi};
    out->partition.is_mig_change_pending = {value != pending, Source::kApi};
    DescribeInstances(value != 0, &out->partition);
  }
  nvmlComputeMode_t mode = NVML_COMPUTEMODE_DEFAULT;
  if (HY_ASK(nvmlDeviceGetComputeMode, &mode)) {
    out->partition.compute_mode = {FormatComputeMode(mode), Source::kApi};
  }
  nvmlGpuVirtualizationMode_t virtualization = NVML_GPU_VIRTUALIZATION_MODE_NONE;
  if (HY_ASK(nvmlDeviceGetVirtualizationMode, &virtualization)) {
    out->partition.virtualization = {FormatVirtualization(virtualization), Source::kApi};
  }
  if (HY_ASK(nvmlDeviceGetDisplayActive, &state)) {
    out->partition.has_display = {state == NVML_FEATURE_ENABLED, Source::kApi};
  }
  if (HY_ASK(nvmlDeviceGetPersistenceMode, &state)) {
    out->partition.is_persistent = {state == NVML_FEATURE_ENABLED, Source::kApi};
  }
  hal::Links& links = out->links;
  if (HY_ASK(nvmlDeviceGetMaxPcieLinkGeneration, &value)) {
    SetIfPositive(&links.pcie_generation_max, value, Source::kApi);
  }
  if (HY_ASK(nvmlDeviceGetMaxPcieLinkWidth, &value)) {
    SetIfPositive(&links.pcie_width_max, value, Source::kApi);
  }
  int64_t up = 0;
  bool is_told = false;
  for (unsigned int link = 0; link < kNvmlMaxLinks; ++link) {
    if (!HY_ASK(nvmlDeviceGetNvLinkState, link, &state)) continue;
    is_told = true;
    if (state != NVML_FEATURE_ENABLED) continue;
    ++up;
    if (HY_ASK(nvmlDeviceGetNvLinkVersion, link, &value)) {
      SetIfPositive(&links.nvlink_version, value, Source::kApi);
    }
  }
  // None is an answer too.
  if (is_told) links.nvlink_count = {up, Source::kApi};
  const double one = NvlinkBytesPerSecond(links.nvlink_version.ValueOr(0));
  if (up > 0 && one > 0) {
    links.nvlink_peak_bytes_per_s = {one * static_cast<double>(up), Source::kTable};
  }
}

void Management::DescribeInstances(bool is_cut, hal::Partition* out) const {
  unsigned int most = 0;
  // 0 while the device is whole; then our table says how many there can be.
  if (HY_ASK(nvmlDeviceGetMaxMigDeviceCount, &most)) {
    SetIfPositive(&out->mig_instance_max, most, Source::kApi);
  }
  if (is_cut && !(api_->nvmlDeviceGetMigDeviceHandleByIndex && most > 0)) return;
  int64_t count = 0;
  std::string profiles;
  for (unsigned int i = 0; is_cut && i < most; ++i) {
    nvmlDevice_t instance = nullptr;
    if (!HY_ASK(nvmlDeviceGetMigDeviceHandleByIndex, i, &instance)) continue;
    ++count;
    char text[128] = "";
    if (!api_->nvmlDeviceGetName ||
        api_->nvmlDeviceGetName(instance, text, sizeof(text)) != NVML_SUCCESS) {
      continue;
    }
    // "NVIDIA H200 MIG 3g.71gb"
    const std::string name = text;
    const size_t at = name.rfind(" MIG ");
    profiles += (profiles.empty() ? "" : ", ") + (at == name.npos ? name : name.substr(at + 5));
  }
  out->mig_instance_count = {count, Source::kApi};
  hal::SetIfText(&out->mig_instances, profiles, Source::kApi);
}

void Management::ReadHealth(hal::DeviceState* out) const {
  unsigned int value = 0;
  unsigned long long large = 0;
  const auto count = [](unsigned long long number) {
    return hal::Field<int64_t>(static_cast<int64_t>(number), Source::kApi);
  };
  if (HY_ASK(nvmlDeviceGetTotalEccErrors, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC,
             &large)) {
    out->corrected_memory_errors = count(large);
  }
  if (HY_ASK(nvmlDeviceGetTotalEccErrors, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC,
             &large)) {
    out->uncorrected_memory_errors = count(large);
  }
  // Since Ampere rows are remapped; before, pages were retired.
  unsigned int corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (HY_ASK(nvmlDeviceGetRemappedRows, &corrected, &uncorrected, &pending, &failed)) {
    out->retired_memory = count(0ull + corrected + uncorrected);
    out->memory_repair = {failed ? "failed" : pending ? "pending" : "none", Source::kApi};
  } else if (api_->nvmlDeviceGetRetiredPages) {
    for (const auto cause : {NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
                             NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR}) {
      value = 0;  // without room for the addresses, the answer is their number
      const nvmlReturn_t result = api_->nvmlDeviceGetRetiredPages(device_, cause, &value, nullptr);
      if (result != NVML_SUCCESS && result != NVML_ERROR_INSUFFICIENT_SIZE) continue;
      out->retired_memory = count(static_cast<uint64_t>(out->retired_memory.ValueOr(0)) + value);
    }
  }
  if (HY_ASK(nvmlDeviceGetPcieReplayCounter, &value)) out->pcie_replays = count(value);
  for (unsigned int link = 0; link < kNvmlMaxLinks; ++link) {
    for (const auto kind : {NVML_NVLINK_ERROR_DL_REPLAY, NVML_NVLINK_ERROR_DL_RECOVERY,
                            NVML_NVLINK_ERROR_DL_CRC_FLIT, NVML_NVLINK_ERROR_DL_CRC_DATA}) {
      if (!HY_ASK(nvmlDeviceGetNvLinkErrorCounter, link, kind, &large)) continue;
      out->nvlink_errors = count(static_cast<uint64_t>(out->nvlink_errors.ValueOr(0)) + large);
    }
  }
  if (faults_) out->faults = {faults_->Read(), Source::kApi};
}

void Management::ReadState(hal::DeviceState* out) const {
  if (!is_open()) return;
  unsigned int value = 0;
  unsigned long long large = 0;
  if (HY_ASK(nvmlDeviceGetClockInfo, NVML_CLOCK_SM, &value)) {
    SetIfPositive(&out->clock_hz, value * kMega, Source::kApi);
  }
  if (HY_ASK(nvmlDeviceGetClockInfo, NVML_CLOCK_MEM, &value)) {
    SetIfPositive(&out->memory_clock_hz, value * kMega, Source::kApi);
  }
  if (HY_ASK(nvmlDeviceGetCurrentClocksThrottleReasons, &large)) {
    out->throttle_reasons = {FormatThrottleReasons(large), Source::kApi};
  }
  nvmlPstates_t performance = NVML_PSTATE_UNKNOWN;
  if (HY_ASK(nvmlDeviceGetPerformanceState, &performance) && performance <= NVML_PSTATE_15) {
    out->performance_state = {fmt::format("P{}", static_cast<int>(performance)), Source::kApi};
  }
  const auto real = [](double number) { return hal::Field<double>(number, Source::kApi); };
  if (HY_ASK(nvmlDeviceGetTemperature, NVML_TEMPERATURE_GPU, &value))
    out->temperature_c = real(value);
  if (HY_ASK(nvmlDeviceGetTemperatureThreshold, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, &value)) {
    out->temperature_limit_c = real(value);
  }
  if (HY_ASK(nvmlDeviceGetPowerUsage, &value)) out->power_w = real(value * 1e-3);
  if (HY_ASK(nvmlDeviceGetEnforcedPowerLimit, &value)) out->power_limit_w = real(value * 1e-3);
  if (HY_ASK(nvmlDeviceGetTotalEnergyConsumption, &large)) {
    out->energy_j = real(static_cast<double>(large) * 1e-3);
  }
  nvmlUtilization_t rates = {};
  if (HY_ASK(nvmlDeviceGetUtilizationRates, &rates)) out->utilization = real(rates.gpu * 1e-2);
  if (HY_ASK(nvmlDeviceGetCurrPcieLinkGeneration, &value)) {
    SetIfPositive(&out->pcie_generation, value, Source::kApi);
  }
  if (HY_ASK(nvmlDeviceGetCurrPcieLinkWidth, &value)) {
    SetIfPositive(&out->pcie_width, value, Source::kApi);
  }
  ReadHealth(out);
  const auto count_processes = [&](auto* function, hal::Field<int64_t>* field) {
    unsigned int count = 0;  // without room for the list, the answer is their number
    if (!function) return;
    const nvmlReturn_t result = function(device_, &count, nullptr);
    if (result == NVML_SUCCESS || result == NVML_ERROR_INSUFFICIENT_SIZE) {
      *field = {int64_t{count}, Source::kApi};
    }
  };
  count_processes(api_->nvmlDeviceGetComputeRunningProcesses_v3, &out->process_count);
  count_processes(api_->nvmlDeviceGetMPSComputeRunningProcesses_v3, &out->mps_process_count);
}

std::string Management::Nearest(const Management& other) const {
  if (!is_open() || !other.is_open() || !api_->nvmlDeviceGetTopologyCommonAncestor) return "";
  nvmlGpuTopologyLevel_t level = NVML_TOPOLOGY_SYSTEM;
  if (api_->nvmlDeviceGetTopologyCommonAncestor(device_, other.device_, &level) != NVML_SUCCESS) {
    return "";
  }
  switch (level) {
    case NVML_TOPOLOGY_INTERNAL:
      return "same board";
    case NVML_TOPOLOGY_SINGLE:
      return "PCIe switch";
    case NVML_TOPOLOGY_MULTIPLE:
      return "PCIe switches";
    case NVML_TOPOLOGY_HOSTBRIDGE:
      return "host bridge";
    case NVML_TOPOLOGY_NODE:
      return "memory node";
    case NVML_TOPOLOGY_SYSTEM:
      return "system";
  }
  return "";
}

#undef HY_ASK

std::string FormatThrottleReasons(unsigned long long bits) {
  constexpr std::pair<unsigned long long, const char*> kNames[] = {
      {nvmlClocksEventReasonGpuIdle, "idle"},
      {nvmlClocksEventReasonApplicationsClocksSetting, "clock setting of applications"},
      {nvmlClocksEventReasonSwPowerCap, "software power cap"},
      {nvmlClocksThrottleReasonHwSlowdown, "hardware slowdown"},
      {nvmlClocksEventReasonSyncBoost, "sync boost"},
      {nvmlClocksEventReasonSwThermalSlowdown, "heat (software)"},
      {nvmlClocksThrottleReasonHwThermalSlowdown, "heat (hardware)"},
      {nvmlClocksThrottleReasonHwPowerBrakeSlowdown, "power brake"},
      {nvmlClocksEventReasonDisplayClockSetting, "clock setting of the display"},
  };
  std::string text;
  for (const auto& [bit, name] : kNames) {
    if (bits & bit) text += fmt::format("{}{}", text.empty() ? "" : ", ", name);
    bits &= ~bit;
  }
  if (bits != 0) text += fmt::format("{}bits {:#x}", text.empty() ? "" : ", ", bits);
  return text.empty() ? "none" : text;
}

}  // namespace halyard::drivers::cuda
