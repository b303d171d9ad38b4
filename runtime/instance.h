// SPDX-License-Identifier: Apache-2.0
// Instance: what one hy_instance owns: the drivers, the devices that were opened, the log sink,
// policies and the place of the cache. Nothing here runs programs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "hal/registry.h"

namespace halyard::runtime {

enum class LogLevel : int32_t { kError = 0, kWarning = 1, kInfo = 2, kDebug = 3 };

// What happens where something that was asked for is not to be had.
enum class FallbackPolicy : uint8_t {
  kError,         // the call fails
  kFallback,      // on with what there is; each is a record of the program's report
  kFallbackWarn,  // the same, and a warning in the log
};

struct InstanceOptions {
  std::function<void(LogLevel, std::string_view)> log;  // thread-safe; may be empty
  LogLevel log_level = LogLevel::kWarning;
  FallbackPolicy on_missing_device = FallbackPolicy::kFallbackWarn;  // or a lost one
  FallbackPolicy on_unsupported_op = FallbackPolicy::kFallback;
  std::vector<std::string> drivers;  // empty: all
  std::string cache_folder;          // empty: the environment decides; "off": none
};

// One driver of this build: open, or the reason why not.
struct DriverState {
  std::string name;
  Status status;
  std::vector<hal::DeviceInfo> devices;
  std::string skipped;  // devices that the driver sees and cannot use, with the reasons
};

// Thread-safe.
class Instance {
 public:
  // INVALID_ARGUMENT when the options name a driver that does not exist.
  static Result<std::shared_ptr<Instance>> Create(InstanceOptions options);

  const InstanceOptions& options() const { return options_; }
  void Log(LogLevel level, std::string_view message) const;

  // Opens every allowed driver, once; the order is that of drivers/init.cc.
  const std::vector<DriverState>& Drivers();
  // The device of that path; the same one for the same path. INVALID_ARGUMENT when its driver is
  // not allowed; otherwise as DriverRegistry::OpenDevice.
  Result<Ref<hal::Device>> OpenDevice(std::string_view path);
  // The path under which the device was opened, with its options; its own path for one that another
  // instance opened.
  std::string OpenedAs(const hal::Device& device) const;
  // The devices that "auto" stands for: the CPU, every CUDA device, and every Vulkan GPU that is
  // none of them. One that does not open, or that nothing compiles for, is an error or a record in
  // `fallbacks`, as the policy says; the CPU is what remains when all are missing. `left_out`: why,
  // by path, of the others.
  Result<std::vector<Ref<hal::Device>>> OpenAutomatic(std::vector<std::string>* fallbacks,
                                                      std::map<std::string, std::string>* left_out);

  // Where compiled programs are kept; empty: nowhere.
  std::string CacheFolder() const;

 private:
  explicit Instance(InstanceOptions options) : options_(std::move(options)) {}
  bool IsAllowed(std::string_view driver) const;
  void OpenDrivers();

  InstanceOptions options_;
  hal::DriverRegistry registry_;
  std::once_flag drivers_once_;
  std::vector<DriverState> drivers_;
  mutable std::mutex mutex_;
  std::map<std::string, Ref<hal::Device>, std::less<>> devices_;
};

}  // namespace halyard::runtime
