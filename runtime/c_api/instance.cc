// SPDX-License-Identifier: Apache-2.0
// C functions of the library itself, instances and drivers.
#include "runtime/c_api/handles.h"

using namespace halyard;           // NOLINT: the C functions are the outermost layer
using namespace halyard::runtime;  // NOLINT

namespace {

// Sizes of the first version of each struct.
constexpr size_t kInstanceDescSize = 80;
constexpr size_t kDriverInfoSize = 64;
static_assert(sizeof(hy_instance_desc) >= kInstanceDescSize &&
              sizeof(hy_driver_info) >= kDriverInfoSize &&
              sizeof(hy_device_info) >= kDeviceInfoSize);

struct DeviceLine {
  const DriverState* driver;
  const hal::DeviceInfo* info;
};

}  // namespace

uint32_t hy_version(void) { return HY_VERSION; }

hy_string hy_result_name(hy_result result) {
  if (result == HY_INCOMPLETE) return HY_STRING("INCOMPLETE");
  return ToC(FormatStatusCode(static_cast<StatusCode>(result)));
}

hy_result hy_instance_create(const hy_instance_desc* desc, hy_instance_t** out_instance) {
  return Guarded([&]() -> Status {
    HY_REQUIRE(out_instance);
    hy_instance_desc d = HY_INSTANCE_DESC_INIT;
    if (desc != nullptr) {
      HY_TRY(ReadStruct(desc, HY_STRUCT_INSTANCE_DESC, kInstanceDescSize, "hy_instance_desc", d));
    }
    InstanceOptions options;
    if (d.log != nullptr) {
      options.log = [sink = d.log, context = d.log_context](LogLevel level,
                                                            std::string_view message) {
        sink(context, static_cast<hy_log_level>(level), ToC(message));
      };
    }
    options.log_level = static_cast<LogLevel>(d.log_level);
    HY_ASSIGN(options.on_missing_device,
              ReadPolicy(d.on_missing_device, FallbackPolicy::kFallbackWarn));
    HY_ASSIGN(options.on_unsupported_op,
              ReadPolicy(d.on_unsupported_op, FallbackPolicy::kFallback));
    if (d.driver_count > 0) HY_REQUIRE(d.drivers);
    for (size_t i = 0; i < d.driver_count; ++i) {
      HY_ASSIGN(auto name, ToString(d.drivers[i], "drivers"));
      options.drivers.push_back(std::move(name));
    }
    HY_ASSIGN(options.cache_folder, ToString(d.cache_folder, "cache_folder"));
    auto handle = std::make_unique<hy_instance>();
    HY_ASSIGN(handle->instance, Instance::Create(std::move(options)));
    WatchForks();
    *out_instance = handle.release();
    return OkStatus();
  });
}

void hy_instance_release(hy_instance_t* instance) { ReleaseHandle(instance); }

hy_result hy_enumerate_drivers(hy_instance_t* instance, hy_driver_info* infos, size_t* count) {
  return Guarded([&]() -> Result<hy_result> {
    HY_REQUIRE(instance);
    const std::vector<DriverState>& drivers = instance->instance->Drivers();
    return WriteArray(infos, count, drivers.size(), [&](size_t i, hy_driver_info* out) {
      hy_driver_info info = HY_DRIVER_INFO_INIT;
      info.name = ToC(drivers[i].name);
      info.status = static_cast<hy_result>(drivers[i].status.code());
      info.reason = ToC(drivers[i].status.ok() ? drivers[i].skipped : drivers[i].status.message());
      info.device_count = static_cast<uint32_t>(drivers[i].devices.size());
      return WriteStruct(info, HY_STRUCT_DRIVER_INFO, kDriverInfoSize, "hy_driver_info", out);
    });
  });
}

hy_result hy_enumerate_devices(hy_instance_t* instance, hy_device_info* infos, size_t* count) {
  return Guarded([&]() -> Result<hy_result> {
    HY_REQUIRE(instance);
    std::vector<DeviceLine> lines;
    for (const DriverState& driver : instance->instance->Drivers()) {
      for (const hal::DeviceInfo& info : driver.devices) lines.push_back({&driver, &info});
    }
    return WriteArray(infos, count, lines.size(), [&](size_t i, hy_device_info* out) {
      hy_device_info info = HY_DEVICE_INFO_INIT;
      info.path = ToC(lines[i].info->path);
      info.name = ToC(lines[i].info->name);
      info.driver = ToC(lines[i].driver->name);
      info.uuid = ToC(lines[i].info->uuid);
      info.left_out = ToC(lines[i].info->left_out);
      return WriteStruct(info, HY_STRUCT_DEVICE_INFO, kDeviceInfoSize, "hy_device_info", out);
    });
  });
}
