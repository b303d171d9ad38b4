// SPDX-License-Identifier: Apache-2.0
// Names, text form and the field walk of Capabilities.
#include "hal/capabilities.h"

#include <fmt/format.h>

namespace halyard::hal {
namespace {

using Visitor = std::function<void(std::string_view, std::string_view, Source)>;

std::string FormatValue(const std::string& value) { return value; }
std::string FormatValue(bool value) { return value ? "yes" : "no"; }
std::string FormatValue(DeviceType value) { return std::string(FormatDeviceType(value)); }
std::string FormatValue(int64_t value) { return fmt::format("{}", value); }
std::string FormatValue(uint64_t value) { return fmt::format("{:#x}", value); }
std::string FormatValue(double value) { return fmt::format("{:g}", value); }

// Carries the visitor and the name of the structure being walked.
struct Walk {
  const Visitor& visit;
  std::string prefix;

  template <typename T>
  void operator()(const char* name, const Field<T>& field) const {
    visit(prefix + name, field.known() ? FormatValue(field.value) : "", field.source);
  }
};

}  // namespace

std::string_view FormatSource(Source source) {
  switch (source) {
    case Source::kUnknown:
      return "unknown";
    case Source::kApi:
      return "api";
    case Source::kOs:
      return "os";
    case Source::kTable:
      return "table";
    case Source::kMeasured:
      return "measured";
  }
  return "unknown";
}

std::string_view FormatDeviceType(DeviceType type) {
  switch (type) {
    case DeviceType::kCpu:
      return "cpu";
    case DeviceType::kIntegratedGpu:
      return "integrated-gpu";
    case DeviceType::kDiscreteGpu:
      return "discrete-gpu";
    case DeviceType::kVirtualGpu:
      return "virtual-gpu";
    case DeviceType::kOther:
      return "other";
  }
  return "other";
}

#define HY_VISIT(structure, field) walk(#field, (structure).field)

void VisitFields(const Capabilities& capabilities, const Visitor& visit) {
  {
    Walk walk{visit, "identity."};
    const Identity& s = capabilities.identity;
    HY_VISIT(s, name);
    HY_VISIT(s, vendor);
    HY_VISIT(s, type);
    HY_VISIT(s, architecture);
    HY_VISIT(s, uuid);
    HY_VISIT(s, pci_address);
    HY_VISIT(s, driver_name);
    HY_VISIT(s, driver_version);
    HY_VISIT(s, api_version);
    HY_VISIT(s, model_id);
  }
  {
    Walk walk{visit, "compute."};
    const Compute& s = capabilities.compute;
    HY_VISIT(s, unit_count);
    HY_VISIT(s, thread_count);
    HY_VISIT(s, usable_worker_count);
    HY_VISIT(s, affinity_thread_count);
    HY_VISIT(s, quota_threads);
    HY_VISIT(s, package_count);
    HY_VISIT(s, numa_node_count);
    HY_VISIT(s, max_clock_hz);
    HY_VISIT(s, base_clock_hz);
    HY_VISIT(s, vector_bytes);
    HY_VISIT(s, vector_registers);
    HY_VISIT(s, subgroup_size_min);
    HY_VISIT(s, subgroup_size_max);
    HY_VISIT(s, max_workgroup_size);
    HY_VISIT(s, workgroup_memory_bytes);
    HY_VISIT(s, registers_per_unit);
    HY_VISIT(s, max_grid_x);
    HY_VISIT(s, max_grid_y);
    HY_VISIT(s, max_grid_z);
    HY_VISIT(s, compute_capability);
    HY_VISIT(s, gpu_features);
    HY_VISIT(s, cpu_features);
  }
  for (size_t i = 0; i < capabilities.caches.size(); ++i) {
    Walk walk{visit, fmt::format("caches[{}].", i)};
    const Cache& s = capabilities.caches[i];
    visit(walk.prefix + "level", FormatValue(int64_t{s.level}), s.size_bytes.source);
    HY_VISIT(s, size_bytes);
    HY_VISIT(s, line_bytes);
    HY_VISIT(s, ways);
    HY_VISIT(s, instance_count);
    HY_VISIT(s, threads_per_instance);
  }
  for (size_t i = 0; i < capabilities.matrix_shapes.size(); ++i) {
    const MatrixShape& s = capabilities.matrix_shapes[i];
    visit(fmt::format("matrix_shapes[{}]", i),
          fmt::format("{}x{}x{} {} -> {}", s.m, s.n, s.k, s.input_dtype, s.output_dtype), s.source);
  }
  for (size_t i = 0; i < capabilities.numa_nodes.size(); ++i) {
    Walk walk{visit, fmt::format("numa_nodes[{}].", i)};
    const NumaNode& s = capabilities.numa_nodes[i];
    visit(walk.prefix + "os_index", FormatValue(int64_t{s.os_index}), Source::kOs);
    HY_VISIT(s, memory_bytes);
    HY_VISIT(s, unit_count);
    for (size_t j = 0; j < s.distances.size(); ++j) {
      walk(fmt::format("distances[{}]", j).c_str(), s.distances[j]);
    }
  }
  {
    Walk walk{visit, "memory."};
    const Memory& s = capabilities.memory;
    HY_VISIT(s, total_bytes);
    HY_VISIT(s, available_bytes);
    HY_VISIT(s, limit_bytes);
    HY_VISIT(s, max_allocation_bytes);
    HY_VISIT(s, buffer_alignment);
    HY_VISIT(s, page_bytes);
    HY_VISIT(s, huge_page_bytes);
    HY_VISIT(s, is_host_memory);
    HY_VISIT(s, copy_bytes_per_s);
    HY_VISIT(s, triad_bytes_per_s);
  }
  {
    Walk walk{visit, "queues."};
    const Queues& s = capabilities.queues;
    HY_VISIT(s, compute_count);
    HY_VISIT(s, copy_count);
    HY_VISIT(s, has_timeline_semaphores);
    HY_VISIT(s, dispatch_latency_ns);
    HY_VISIT(s, sync_latency_ns);
  }
}

#undef HY_VISIT

std::string FormatCapabilities(const Capabilities& capabilities) {
  std::string text;
  VisitFields(capabilities, [&](std::string_view name, std::string_view value, Source source) {
    if (source == Source::kUnknown) return;
    text += fmt::format("{} = {} ({})\n", name, value, FormatSource(source));
  });
  auto append_list = [&](std::string_view name, const std::vector<std::string>& list) {
    if (!list.empty()) text += fmt::format("{} = {}\n", name, fmt::join(list, ", "));
  };
  append_list("features", capabilities.features);
  append_list("executable_formats", capabilities.executable_formats);
  append_list("notes", capabilities.notes);
  return text;
}

}  // namespace halyard::hal
