// SPDX-License-Identifier: Apache-2.0
#include "hal/registry.h"

#include <charconv>

#include "base/env.h"
#include "base/excerpt.h"
#include "hal/validation.h"

namespace halyard::hal {

Status DriverRegistry::Register(std::string name, Factory factory) {
  std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.name == name)
      return InvalidArgument("A driver named '{}' is registered already.", name);
  }
  Entry entry;
  entry.name = std::move(name);
  entry.factory = std::move(factory);
  entries_.push_back(std::move(entry));
  return OkStatus();
}

std::vector<std::string> DriverRegistry::names() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  return names;
}

Result<Ref<Driver>> DriverRegistry::Open(std::string_view name) {
  // The lock is held while the factory runs: a second caller must not open the vendor's library
  // twice.
  std::lock_guard lock(mutex_);
  std::string known;
  for (Entry& entry : entries_) {
    if (entry.name != "null") {  // there for tests only
      known += known.empty() ? "" : ", ";
      known += entry.name;
    }
    if (entry.name != name) continue;
    if (!entry.is_open) {
      Result<Ref<Driver>> result = entry.factory();
      if (result.ok()) {
        entry.driver = *result;
      } else {
        entry.status = result.status();
      }
      entry.is_open = true;
    }
    if (!entry.status.ok()) return entry.status;
    return entry.driver;
  }
  return InvalidArgument("There is no driver '{}'; this build has: {}.", Excerpt(name), known);
}

Result<Ref<Device>> DriverRegistry::OpenDevice(std::string_view text) {
  HY_ASSIGN(DevicePath path, ParseDevicePath(text));
  HY_ASSIGN(Ref<Driver> driver, Open(path.driver));
  Result<Ref<Device>> device = driver->CreateDevice(path.ordinal, path.options);
  HY_TRY_CONTEXT(device, "opening device '{}'", Excerpt(text));
  if (EnvFlag(EnvVar::kValidate)) return WrapInValidation(*device);
  return *device;
}

Result<DevicePath> ParseDevicePath(std::string_view text) {
  DevicePath path;
  std::string_view rest = text;
  std::string_view options;
  if (size_t question = rest.find('?'); question != std::string_view::npos) {
    options = rest.substr(question + 1);
    rest = rest.substr(0, question);
  }
  size_t colon = rest.find(':');
  path.driver = std::string(rest.substr(0, colon));
  if (path.driver.empty()) {
    return InvalidArgument("Device '{}' names no driver; the form is DRIVER[:N][?KEY=VALUE&...].",
                           Excerpt(text));
  }
  if (colon != std::string_view::npos) {
    std::string_view digits = rest.substr(colon + 1);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), path.ordinal);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      return InvalidArgument("Device '{}' has '{}' where a device number is expected.",
                             Excerpt(text), Excerpt(digits));
    }
  }
  while (!options.empty()) {
    size_t end = options.find('&');
    std::string_view option = options.substr(0, end);
    options = end == std::string_view::npos ? std::string_view() : options.substr(end + 1);
    size_t equals = option.find('=');
    if (equals == 0 || equals == std::string_view::npos) {
      return InvalidArgument("Device '{}' has the option '{}'; the form is KEY=VALUE.",
                             Excerpt(text), Excerpt(option));
    }
    path.options.push_back(
        {std::string(option.substr(0, equals)), std::string(option.substr(equals + 1))});
  }
  return path;
}

std::string FormatDevicePath(const DevicePath& path) {
  std::string text = fmt::format("{}:{}", path.driver, path.ordinal);
  char separator = '?';
  for (const DeviceOption& option : path.options) {
    text += fmt::format("{}{}={}", separator, option.key, option.value);
    separator = '&';
  }
  return text;
}

}  // namespace halyard::hal
