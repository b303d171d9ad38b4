// SPDX-License-Identifier: Apache-2.0
// Opening of drivers and devices.
#include "runtime/instance.h"

#include <algorithm>
#include <new>
#include <set>

#include "base/deep_stack.h"
#include "base/env.h"
#include "base/excerpt.h"
#include "base/quantity.h"
#include "drivers/init.h"
#include "runtime/silicon.h"

namespace halyard::runtime {
namespace {

// Many instances of one process need not repeat it.
void WarnOnce(const Instance& instance, const std::string& message) {
  if (!instance.options().log || instance.options().log_level < LogLevel::kWarning) return;
  static std::mutex mutex;
  static auto* const told = new std::set<std::string>;  // never destroyed
  std::unique_lock lock(mutex);
  if (!told->insert(message).second) return;
  lock.unlock();
  instance.Log(LogLevel::kWarning, message);
}

}  // namespace

Result<std::shared_ptr<Instance>> Instance::Create(InstanceOptions options) {
  std::shared_ptr<Instance> instance(new Instance(std::move(options)));
  HY_TRY(RegisterAllDrivers(&instance->registry_));
  std::vector<std::string> known = instance->registry_.names();
  for (const std::string& name : instance->options_.drivers) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      std::erase(known, "null");  // there for tests only
      return InvalidArgument("There is no driver '{}'; this build has: {}.", Excerpt(name),
                             fmt::join(known, ", "));
    }
  }
  for (const std::string& fault : CheckEnvironment()) WarnOnce(*instance, fault);
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
    const Status opened = OnDeepStack([this] {
      OpenDrivers();
      return OkStatus();
    });
    // Only memory can be short here. What is thrown leaves the next call to try again.
    if (!opened.ok()) throw std::bad_alloc();
  });
  return drivers_;
}

void Instance::OpenDrivers() {
  drivers_.clear();
  std::vector<hal::DeviceInfo> seen;
  for (const std::string& name : registry_.names()) {
    if (!IsAllowed(name)) continue;
    if (name == "null" && options_.drivers.empty())
      continue;  // the skeleton is there for tests only
    DriverState& state = drivers_.emplace_back();
    state.name = name;
    auto driver = registry_.Open(name);
    if (!driver.ok()) {
      state.status = driver.status();
      Log(LogLevel::kDebug, fmt::format("driver '{}' is missing: {}", name, state.status.ToLine()));
      continue;
    }
    auto devices = (*driver)->EnumerateDevices();
    if (devices.ok()) {
      state.devices = std::move(devices).value();
      LeaveOutSeen(seen, state.devices);
      seen.insert(seen.end(), state.devices.begin(), state.devices.end());
    } else {
      state.status = devices.status();
    }
    state.skipped = fmt::format("{}", fmt::join((*driver)->SkippedDevices(), " "));
    Log(LogLevel::kDebug,
        fmt::format("driver '{}' has {}", name, CountedNoun(state.devices.size(), "device")));
  }
}

Result<Ref<hal::Device>> Instance::OpenDevice(std::string_view path) {
  HY_ASSIGN(const hal::DevicePath parsed, hal::ParseDevicePath(path));
  const std::string_view driver = parsed.driver;
  if (driver == "null" && options_.drivers.empty()) {  // there for tests only
    std::vector<std::string> known = registry_.names();
    std::erase(known, "null");
    return InvalidArgument("There is no driver 'null'; this build has: {}.",
                           fmt::join(known, ", "));
  }
  if (!IsAllowed(parsed.driver)) {
    return InvalidArgument("The driver of device '{}' is not among those allowed: {}.",
                           Excerpt(path), fmt::join(options_.drivers, ", "));
  }
  const std::string key = hal::FormatDevicePath(parsed);
  const std::lock_guard lock(mutex_);
  if (const auto found = devices_.find(key); found != devices_.end()) return found->second;
  HY_ASSIGN(Ref<hal::Device> device, OnDeepStack([&] { return registry_.OpenDevice(path); }));
  devices_.emplace(key, device);
  Log(LogLevel::kDebug, fmt::format("device '{}' is open", key));
  return device;
}

std::string Instance::OpenedAs(const hal::Device& device) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [path, opened] : devices_) {
    if (opened.get() == &device) return path;
  }
  return std::string(device.path());
}

Result<std::vector<Ref<hal::Device>>> Instance::OpenAutomatic(
    std::vector<std::string>* fallbacks, std::map<std::string, std::string>* left_out) {
  std::vector<Ref<hal::Device>> devices;
  ClosedDevices closed;
  const auto add = [&](const std::string& path) -> Status {
    auto device = OpenDevice(path);
    // It may be full, in another process's hands or broken, and it may lack what compiles for it.
    const Status usable = device.ok() ? (*device)->DescribeCompiler().status() : device.status();
    if (usable.ok()) {
      devices.push_back(std::move(device).value());
      return OkStatus();
    }
    if (options_.on_missing_device == FallbackPolicy::kError) return usable;
    std::string note = fmt::format("device '{}' is left out: {}", path, usable.ToLine());
    if (options_.on_missing_device == FallbackPolicy::kFallbackWarn) {
      Log(LogLevel::kWarning, note);
    }
    fallbacks->push_back(std::move(note));
    closed.Add(path);
    return OkStatus();
  };
  for (const DriverState& driver : Drivers()) {
    for (const hal::DeviceInfo& info : driver.devices) {
      if (info.left_out.empty() || closed.AreReplacedBy(info)) {
        HY_TRY(add(info.path));
      } else {
        left_out->emplace(info.path, fmt::format("{} ({})", info.left_out, info.name));
      }
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
