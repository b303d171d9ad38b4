// SPDX-License-Identifier: Apache-2.0
// Opening of drivers and devices.
#include "runtime/instance.h"

#include <algorithm>

#include "base/env.h"
#include "drivers/init.h"

namespace halyard::runtime {

Result<std::shared_ptr<Instance>> Instance::Create(InstanceOptions options) {
  std::shared_ptr<Instance> instance(new Instance(std::move(options)));
  HY_TRY(RegisterAllDrivers(&instance->registry_));
  const std::vector<std::string> known = instance->registry_.names();
  for (const std::string& name : instance->options_.drivers) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return InvalidArgument("There is no driver '{}'; this build has {}.", name,
                             fmt::join(known, ", "));
    }
  }
  return instance;
}

void Instance::Log(LogLevel level, std::string_view message) const {
  if (options_.log && level <= options_.log_level) options_.log(level, message);
}

bool Instance::IsAllowed(std::string_view driver) const {
  const auto& allowed = options_.drivers;
  return allowed.empty() || std::find(allowed.begin(), allowed.end(), driver) != allowed.end();
}

const std::vector<DriverState>& Instance::Drivers() {
  std::call_once(drivers_once_, [this] {
    for (const std::string& name : registry_.names()) {
      if (!IsAllowed(name)) continue;
      if (name == "null" && options_.drivers.empty()) continue;  // the skeleton is there for tests only
      DriverState& state = drivers_.emplace_back();
      state.name = name;
      auto driver = registry_.Open(name);
      if (!driver.ok()) {
        state.status = driver.status();
        continue;
      }
      auto devices = (*driver)->EnumerateDevices();
      if (devices.ok())
        state.devices = std::move(devices).value();
      else
        state.status = devices.status();
      state.skipped = fmt::format("{}", fmt::join((*driver)->SkippedDevices(), " "));
    }
  });
  return drivers_;
}

Result<Ref<hal::Device>> Instance::OpenDevice(std::string_view path) {
  HY_ASSIGN(const hal::DevicePath parsed, hal::ParseDevicePath(path));
  if (!IsAllowed(parsed.driver)) {
    return InvalidArgument("The driver of device '{}' is not among those allowed: {}.", path,
                           fmt::join(options_.drivers, ", "));
  }
  const std::string key = hal::FormatDevicePath(parsed);
  const std::lock_guard lock(mutex_);
  if (const auto found = devices_.find(key); found != devices_.end()) return found->second;
  HY_ASSIGN(Ref<hal::Device> device, registry_.OpenDevice(path));
  devices_.emplace(key, device);
  return device;
}

Result<std::vector<Ref<hal::Device>>> Instance::OpenDevices(std::string_view list,
                                                            std::vector<std::string>* fallbacks) {
  std::vector<Ref<hal::Device>> devices;
  const auto add = [&](std::string_view path) -> Status {
    auto device = OpenDevice(path);
    if (device.ok()) {
      if (std::find(devices.begin(), devices.end(), *device) == devices.end()) {
        devices.push_back(std::move(device).value());
      }
      return OkStatus();
    }
    const StatusCode code = device.status().code();
    const bool is_missing = code == StatusCode::kNotFound || code == StatusCode::kUnavailable;
    if (!is_missing || !options_.fall_back_on_missing_device) {
      return device.status().WithContext(fmt::format("opening device '{}'", path));
    }
    std::string note = fmt::format("device '{}' is left out: {}", path, device.status().ToLine());
    Log(LogLevel::kWarning, note);
    if (fallbacks != nullptr) fallbacks->push_back(std::move(note));
    return OkStatus();
  };
  if (list.empty() || list == "auto") {
    for (const DriverState& driver : Drivers()) {
      for (const hal::DeviceInfo& info : driver.devices) {
        if (info.is_automatic) HY_TRY(add(info.path));
      }
    }
  } else {
    while (true) {
      const size_t comma = list.find(',');
      HY_TRY(add(list.substr(0, comma)));
      if (comma == std::string_view::npos) break;
      list.remove_prefix(comma + 1);
    }
  }
  if (devices.empty()) {
    HY_ASSIGN(Ref<hal::Device> cpu, OpenDevice("cpu:0"));
    devices.push_back(std::move(cpu));
  }
  return devices;
}

std::string Instance::CacheFolder() const {
  std::string folder = options_.cache_folder;
  if (folder.empty()) folder = EnvString(EnvVar::kCacheDir);
  if (folder.empty()) folder = EnvDefaultCacheFolder();
  return folder == "off" ? "" : folder;
}

}  // namespace halyard::runtime
