// SPDX-License-Identifier: Apache-2.0
// C functions of the library itself, instances, drivers and devices.
#include "runtime/c_api/handles.h"
#include "runtime/report.h"

using namespace halyard;           // NOLINT: the C functions are the outermost layer
using namespace halyard::runtime;  // NOLINT

namespace {

// Sizes of the first version of each struct.
constexpr size_t kInstanceDescSize = 80;
constexpr size_t kDriverInfoSize = 64;
constexpr size_t kDeviceInfoSize = 128;
static_assert(sizeof(hy_instance_desc) >= kInstanceDescSize &&
              sizeof(hy_driver_info) >= kDriverInfoSize &&
              sizeof(hy_device_info) >= kDeviceInfoSize);

struct DeviceLine {
  const DriverState* driver;
  const hal::DeviceInfo* info;
};

hy_device_kind KindOf(hal::DeviceType type) {
  switch (type) {
    case hal::DeviceType::kCpu:
      return HY_DEVICE_KIND_CPU;
    case hal::DeviceType::kIntegratedGpu:
      return HY_DEVICE_KIND_INTEGRATED_GPU;
    case hal::DeviceType::kDiscreteGpu:
      return HY_DEVICE_KIND_DISCRETE_GPU;
    case hal::DeviceType::kVirtualGpu:
      return HY_DEVICE_KIND_VIRTUAL_GPU;
    case hal::DeviceType::kOther:
      break;
  }
  return HY_DEVICE_KIND_OTHER;
}

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
    for (const hy_policy policy : {d.on_missing_device, d.on_unsupported_op}) {
      if (policy < HY_POLICY_DEFAULT || policy > HY_POLICY_FALLBACK) {
        return InvalidArgument("There is no policy {}.", policy);
      }
    }
    options.fall_back_on_missing_device = d.on_missing_device != HY_POLICY_ERROR;
    options.fall_back_on_unsupported_op = d.on_unsupported_op != HY_POLICY_ERROR;
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
      return WriteStruct(info, HY_STRUCT_DEVICE_INFO, kDeviceInfoSize, "hy_device_info", out);
    });
  });
}

hy_result hy_device_open(hy_instance_t* instance, hy_string path, hy_device_t** out_device) {
  return Guarded([&]() -> Status {
    HY_REQUIRE(instance);
    HY_REQUIRE(out_device);
    HY_ASSIGN(const std::string name, ToString(path, "path"));
    auto handle = std::make_unique<hy_device>();
    handle->instance = instance->instance;
    HY_ASSIGN(handle->device, instance->instance->OpenDevice(name));
    const hal::Identity& identity = handle->device->capabilities().identity;
    handle->path = handle->device->path();
    handle->name = identity.name.ValueOr("");
    handle->driver = handle->path.substr(0, handle->path.find(':'));
    handle->uuid = identity.uuid.ValueOr("");
    *out_device = handle.release();
    return OkStatus();
  });
}

void hy_device_release(hy_device_t* device) { ReleaseHandle(device); }

hy_result hy_device_get_info(hy_device_t* device, hy_device_info* info) {
  return Guarded([&]() -> Status {
    HY_REQUIRE(device);
    HY_REQUIRE(info);
    const hal::Capabilities& capabilities = device->device->capabilities();
    hy_device_info out = HY_DEVICE_INFO_INIT;
    out.path = ToC(device->path);
    out.name = ToC(device->name);
    out.driver = ToC(device->driver);
    out.uuid = ToC(device->uuid);
    out.kind = KindOf(capabilities.identity.type.ValueOr(hal::DeviceType::kOther));
    out.unit_count = capabilities.compute.unit_count.ValueOr(-1);
    out.worker_count = capabilities.compute.usable_worker_count.ValueOr(-1);
    out.memory_bytes = capabilities.memory.total_bytes.ValueOr(-1);
    out.memory_limit_bytes = capabilities.memory.limit_bytes.ValueOr(-1);
    out.buffer_alignment = device->device->buffer_alignment();
    return WriteStruct(out, HY_STRUCT_DEVICE_INFO, kDeviceInfoSize, "hy_device_info", info);
  });
}

hy_result hy_device_report(hy_device_t* device, hy_report_format format, hy_writer writer,
                           void* context) {
  return Guarded([&]() -> Result<hy_result> {
    HY_REQUIRE(device);
    HY_ASSIGN(const std::string text,
              MakeDeviceReport(*device->device, static_cast<ReportFormat>(format)));
    return WriteText(text, writer, context);
  });
}
