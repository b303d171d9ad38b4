// SPDX-License-Identifier: Apache-2.0
// C functions of devices: what they are, how they are linked, and what probes measure.
#include <deque>

#include "base/deep_stack.h"
#include "runtime/c_api/handles.h"
#include "runtime/device_report.h"
#include "runtime/probe/store.h"
#include "runtime/silicon.h"

using namespace halyard;           // NOLINT: the C functions are the outermost layer
using namespace halyard::runtime;  // NOLINT

namespace {

// Sizes of the first version of each struct.
constexpr size_t kIdentitySize = 128;
constexpr size_t kComputeSize = 96;
constexpr size_t kMemorySize = 72;
constexpr size_t kStateSize = 88;
constexpr size_t kPropertySize = 88;
constexpr size_t kMatrixShapeSize = 40;
constexpr size_t kLinkInfoSize = 56;
constexpr size_t kProbeDescSize = 64;
static_assert(sizeof(hy_device_info) >= kDeviceInfoSize &&
              sizeof(hy_device_identity) >= kIdentitySize &&
              sizeof(hy_device_compute) >= kComputeSize &&
              sizeof(hy_device_memory) >= kMemorySize && sizeof(hy_device_state) >= kStateSize &&
              sizeof(hy_property) >= kPropertySize && sizeof(hy_matrix_shape) >= kMatrixShapeSize &&
              sizeof(hy_link_info) >= kLinkInfoSize && sizeof(hy_probe_desc) >= kProbeDescSize);

// Texts that info structs borrow until the next call on this thread. A deque keeps them in place.
std::deque<std::string>& BorrowedTexts() {
  thread_local std::deque<std::string> texts;
  return texts;
}
hy_string Lend(std::string_view text) { return ToC(BorrowedTexts().emplace_back(text)); }

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

// Of a field that lives as long as the device.
hy_string TextOf(const hal::Field<std::string>& field) {
  return field.known() ? ToC(field.value) : hy_string{nullptr, 0};
}
int32_t FlagOf(const hal::Field<bool>& field) { return field.known() ? (field.value ? 1 : 0) : -1; }

Status WriteIdentity(const hal::Identity& from, void* head) {
  hy_device_identity out = HY_DEVICE_IDENTITY_INIT;
  out.vendor = TextOf(from.vendor);
  out.architecture = TextOf(from.architecture);
  out.chip = TextOf(from.chip);
  out.pci_address = TextOf(from.pci_address);
  out.vendor_driver = TextOf(from.driver_name);
  out.driver_version = TextOf(from.driver_version);
  out.api_version = TextOf(from.api_version);
  return WriteStruct(out, HY_STRUCT_DEVICE_IDENTITY, kIdentitySize, "hy_device_identity",
                     static_cast<hy_device_identity*>(head));
}

Status WriteCompute(const hal::Compute& from, void* head) {
  hy_device_compute out = HY_DEVICE_COMPUTE_INIT;
  out.max_clock_hz = from.max_clock_hz.ValueOr(-1);
  out.f32_lanes_per_unit = from.f32_lanes_per_unit.ValueOr(-1);
  out.matrix_units_per_unit = from.matrix_units_per_unit.ValueOr(-1);
  out.vector_bytes = from.vector_bytes.ValueOr(-1);
  out.subgroup_size_min = from.subgroup_size_min.ValueOr(-1);
  out.subgroup_size_max = from.subgroup_size_max.ValueOr(-1);
  out.max_workgroup_size = from.max_workgroup_size.ValueOr(-1);
  out.workgroup_memory_bytes = from.workgroup_memory_bytes.ValueOr(-1);
  out.registers_per_unit = from.registers_per_unit.ValueOr(-1);
  out.peak_f32_flops = from.peak_f32_flops.ValueOr(-1);
  return WriteStruct(out, HY_STRUCT_DEVICE_COMPUTE, kComputeSize, "hy_device_compute",
                     static_cast<hy_device_compute*>(head));
}

Status WriteMemory(const hal::Device& device, void* head) {
  const hal::Memory& from = device.capabilities().memory;
  hy_device_memory out = HY_DEVICE_MEMORY_INIT;
  out.available_bytes =
      device.ReadState().available_bytes.ValueOr(from.available_bytes.ValueOr(-1));
  out.max_allocation_bytes = from.max_allocation_bytes.ValueOr(-1);
  out.bus_bits = from.bus_bits.ValueOr(-1);
  for (const hal::Cache& cache : device.capabilities().caches) {
    if (!cache.size_bytes.known()) continue;
    out.last_cache_bytes = cache.size_bytes.value * cache.instance_count.ValueOr(1);
  }
  out.peak_bytes_per_s = from.peak_bytes_per_s.ValueOr(-1);
  out.is_host_memory = FlagOf(from.is_host_memory);
  out.has_ecc = FlagOf(from.has_ecc);
  out.is_resizable_bar = FlagOf(from.is_resizable_bar);
  const hal::MemoryStatistics allocated = device.memory_statistics();
  out.allocated_bytes = allocated.live_bytes;
  out.allocated_peak_bytes = allocated.peak_bytes;
  return WriteStruct(out, HY_STRUCT_DEVICE_MEMORY, kMemorySize, "hy_device_memory",
                     static_cast<hy_device_memory*>(head));
}

Status WriteState(const hal::DeviceState& from, void* head) {
  hy_device_state out = HY_DEVICE_STATE_INIT;
  out.clock_hz = from.clock_hz.ValueOr(-1);
  out.memory_clock_hz = from.memory_clock_hz.ValueOr(-1);
  out.temperature_c = from.temperature_c.ValueOr(-1);
  out.power_w = from.power_w.ValueOr(-1);
  out.power_limit_w = from.power_limit_w.ValueOr(-1);
  out.utilization = from.utilization.ValueOr(-1);
  out.load_average = from.load_average.ValueOr(-1);
  if (from.throttle_reasons.known()) out.throttle_reasons = Lend(from.throttle_reasons.value);
  return WriteStruct(out, HY_STRUCT_DEVICE_STATE, kStateSize, "hy_device_state",
                     static_cast<hy_device_state*>(head));
}

Status WriteDetail(const hal::Device& device, hy_struct_type type, void* head) {
  switch (type) {
    case HY_STRUCT_DEVICE_IDENTITY:
      return WriteIdentity(device.capabilities().identity, head);
    case HY_STRUCT_DEVICE_COMPUTE:
      return WriteCompute(device.capabilities().compute, head);
    case HY_STRUCT_DEVICE_MEMORY:
      return WriteMemory(device, head);
    case HY_STRUCT_DEVICE_STATE:
      return WriteState(device.ReadState(), head);
    default:
      return OkStatus();  // a newer library's; skipped
  }
}

hy_link_kind LinkKindOf(hal::LinkKind kind) {
  switch (kind) {
    case hal::LinkKind::kNone:
      break;
    case hal::LinkKind::kSameMemory:
      return HY_LINK_SAME_MEMORY;
    case hal::LinkKind::kHostStaged:
      return HY_LINK_HOST_STAGED;
    case hal::LinkKind::kPcie:
      return HY_LINK_PCIE;
    case hal::LinkKind::kNvlink:
      return HY_LINK_NVLINK;
  }
  return HY_LINK_NONE;
}

}  // namespace

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
    BorrowedTexts().clear();
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
    HY_TRY(WriteStruct(out, HY_STRUCT_DEVICE_INFO, kDeviceInfoSize, "hy_device_info", info));
    return WriteChain(info->next, [&](hy_struct_type type, void* head) {
      return WriteDetail(*device->device, type, head);
    });
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

hy_result hy_device_properties(hy_device_t* device, hy_string prefix, hy_property* properties,
                               size_t* count) {
  return Guarded([&]() -> Result<hy_result> {
    HY_REQUIRE(device);
    HY_ASSIGN(const std::string start, ToString(prefix, "prefix"));
    BorrowedTexts().clear();
    std::vector<hy_property> found;
    const auto visit = [&](const hal::FieldView& field) {
      if (!field.name.starts_with(start)) return;
      hy_property out = HY_PROPERTY_INIT;
      out.name = Lend(field.name);
      out.kind = static_cast<hy_property_kind>(field.kind);
      out.source = static_cast<hy_property_source>(field.source);
      out.integer = field.integer;
      out.real = field.real;
      out.text = Lend(field.text);
      out.doc = Lend(field.doc);
      found.push_back(out);
    };
    hal::VisitFields(device->device->capabilities(), visit);
    hal::VisitFields(device->device->ReadState(), visit);
    if (found.empty()) return NotFound("No property of a device begins with '{}'.", start);
    return WriteArray(properties, count, found.size(), [&](size_t i, hy_property* out) {
      return WriteStruct(found[i], HY_STRUCT_PROPERTY, kPropertySize, "hy_property", out);
    });
  });
}

hy_result hy_device_matrix_shapes(hy_device_t* device, hy_matrix_shape* shapes, size_t* count) {
  return Guarded([&]() -> Result<hy_result> {
    HY_REQUIRE(device);
    std::vector<hy_matrix_shape> known;
    for (const hal::MatrixShape& shape : device->device->capabilities().matrix_shapes) {
      const Result<DType> input = ParseDType(shape.input_dtype);
      const Result<DType> output = ParseDType(shape.output_dtype);
      if (!input.ok() || !output.ok()) continue;
      hy_matrix_shape out = HY_MATRIX_SHAPE_INIT;
      out.input = static_cast<hy_dtype>(*input);
      out.output = static_cast<hy_dtype>(*output);
      out.m = shape.m;
      out.n = shape.n;
      out.k = shape.k;
      out.source = static_cast<hy_property_source>(shape.source);
      known.push_back(out);
    }
    return WriteArray(shapes, count, known.size(), [&](size_t i, hy_matrix_shape* out) {
      return WriteStruct(known[i], HY_STRUCT_MATRIX_SHAPE, kMatrixShapeSize, "hy_matrix_shape",
                         out);
    });
  });
}

hy_result hy_link_get_info(hy_device_t* from, hy_device_t* to, hy_link_info* info) {
  return Guarded([&]() -> Status {
    HY_REQUIRE(from);
    HY_REQUIRE(to);
    HY_REQUIRE(info);
    BorrowedTexts().clear();
    HY_ASSIGN(const hal::LinkInfo link, from->device->LinkTo(*to->device));
    hy_link_info out = HY_LINK_INFO_INIT;
    out.kind = LinkKindOf(link.kind);
    out.can_access_peer = link.can_access_peer ? 1 : 0;
    out.can_copy_direct = link.can_copy_direct ? 1 : 0;
    out.has_native_atomics = FlagOf(link.has_native_atomics);
    out.is_same_silicon =
        IsSameSilicon(from->device->capabilities(), to->device->capabilities()) ? 1 : 0;
    out.rank = static_cast<int32_t>(link.rank.ValueOr(-1));
    if (link.nearest.known()) out.nearest = Lend(link.nearest.value);
    return WriteStruct(out, HY_STRUCT_LINK_INFO, kLinkInfoSize, "hy_link_info", info);
  });
}

hy_result hy_devices_probe(hy_instance_t* instance, hy_device_t* const* devices, size_t count,
                           const hy_probe_desc* desc, hy_report_format format, hy_writer writer,
                           void* context) {
  return Guarded([&]() -> Result<hy_result> {
    HY_REQUIRE(instance);
    if (count > 0) HY_REQUIRE(devices);
    hy_probe_desc d = HY_PROBE_DESC_INIT;
    if (desc != nullptr) {
      HY_TRY(ReadStruct(desc, HY_STRUCT_PROBE_DESC, kProbeDescSize, "hy_probe_desc", d));
    }
    if (format != HY_FORMAT_TEXT && format != HY_FORMAT_JSON) {
      return Unimplemented("Probes are reported as text or JSON only.");
    }
    if (d.again != 0 && d.stored_only != 0) {
      return InvalidArgument("A probe cannot both measure again and take only what is stored.");
    }
    if (!(d.seconds_per_device >= 0) || d.seconds_per_device > 1e6) {
      return InvalidArgument("A probe of {} s per device was asked for; 0 to 1000000 are allowed.",
                             d.seconds_per_device);
    }
    ProbeOptions options;
    if (d.seconds_per_device > 0) options.seconds_per_device = d.seconds_per_device;
    options.with_kernels = d.no_kernels == 0;
    options.tune = d.no_tune == 0;
    options.stored_only = d.stored_only != 0;
    if (d.progress != nullptr) {
      options.progress = [&](std::string_view what, double done) {
        d.progress(d.context, ToC(what), done);
      };
    }
    if (d.should_stop != nullptr) {
      options.should_stop = [&] { return d.should_stop(d.context) != 0; };
    }
    std::vector<Ref<hal::Device>> opened;
    for (size_t i = 0; i < count; ++i) {
      HY_REQUIRE(devices[i]);
      opened.push_back(devices[i]->device);
    }
    if (auto home = instance->instance->OpenDevice("cpu:0"); home.ok()) options.home = *home;
    std::vector<std::string> notes;
    HY_ASSIGN(const ProbeReport report, OnDeepStack([&] {
                return ProbeOrLoad(opened, options, instance->instance->CacheFolder(), d.again != 0,
                                   &notes);
              }));
    for (const std::string& note : notes) instance->instance->Log(LogLevel::kWarning, note);
    if (format == HY_FORMAT_JSON) return WriteText(FormatProbeReport(report), writer, context);
    std::string text;
    for (const DeviceProbe& probe : report.devices) text += TabulateProbe(probe);
    return WriteText(text, writer, context);
  });
}
