// SPDX-License-Identifier: Apache-2.0
// Capabilities: everything Halyard knows about one device, each value with its source. Unknown is
// never 0.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace halyard::hal {

enum class Source : uint8_t {
  kUnknown,   // nobody could tell; `value` means nothing
  kApi,       // the driver's API or the instruction set (cpuid)
  kOs,        // the operating system: /proc, /sys, cgroup files, hwloc over them
  kTable,     // a table of ours, by model
  kMeasured,  // a probe of ours on this machine
};
std::string_view FormatSource(Source source);

template <typename T>
struct Field {
  T value{};
  Source source = Source::kUnknown;

  Field() = default;
  Field(T v, Source s) : value(std::move(v)), source(s) {}
  bool known() const { return source != Source::kUnknown; }
  T ValueOr(T other) const { return known() ? value : other; }
};

enum class DeviceType : uint8_t { kCpu, kIntegratedGpu, kDiscreteGpu, kVirtualGpu, kOther };
std::string_view FormatDeviceType(DeviceType type);

struct Identity {
  Field<std::string> name;  // "Intel(R) Xeon(R) ..."
  Field<std::string> vendor;
  Field<DeviceType> type;
  Field<std::string> architecture;    // "x86-64", "sm_90"
  Field<std::string> uuid;            // the same for the same silicon under another driver
  Field<std::string> pci_address;     // "0000:3b:00.0"
  Field<std::string> driver_name;     // "cpu"
  Field<std::string> driver_version;  // of the vendor's driver; the kernel's for a CPU
  Field<std::string> api_version;
  Field<std::string> model_id;  // "family 6 model 207 stepping 2"
};

// Units that run code. A CPU's unit is a core, an NVIDIA GPU's an SM.
struct Compute {
  Field<int64_t> unit_count;    // physical: cores, SMs
  Field<int64_t> thread_count;  // hardware threads in all units that this process may use
  Field<int64_t>
      usable_worker_count;  // tasks that may really run at once: affinity, cpuset and quota applied
  Field<int64_t> affinity_thread_count;  // hardware threads left by affinity and cpuset
  Field<double> quota_threads;           // CPU time per wall time that the cgroup allows
  Field<int64_t> package_count;
  Field<int64_t> numa_node_count;
  Field<int64_t> max_clock_hz;
  Field<int64_t> base_clock_hz;
  Field<int64_t> vector_bytes;  // widest vector register; a GPU's subgroup has its own field
  Field<int64_t> vector_registers;
  Field<int64_t> subgroup_size_min;
  Field<int64_t> subgroup_size_max;
  Field<int64_t> max_workgroup_size;
  Field<int64_t> workgroup_memory_bytes;
  Field<int64_t> registers_per_unit;
  Field<int64_t> max_grid_x, max_grid_y, max_grid_z;  // workgroups of one dispatch
  Field<int64_t> compute_capability;                  // CUDA: 90 for 9.0
  Field<uint64_t> gpu_features;                       // GpuFeature bits (base/gpu_kernel_abi.h)
  Field<uint64_t> cpu_features;                       // CpuFeature bits (base/cpu_kernel_abi.h)
};

struct Cache {
  int32_t level = 0;
  Field<int64_t> size_bytes;
  Field<int64_t> line_bytes;
  Field<int64_t> ways;
  Field<int64_t> instance_count;        // on the device
  Field<int64_t> threads_per_instance;  // hardware threads that share one
};

// A matrix unit's shape: C[m,n] += A[m,k] * B[k,n].
struct MatrixShape {
  std::string input_dtype;
  std::string output_dtype;
  int32_t m = 0, n = 0, k = 0;
  Source source = Source::kUnknown;
};

struct NumaNode {
  uint32_t os_index = 0;
  Field<int64_t> memory_bytes;
  Field<int64_t> unit_count;
  std::vector<Field<int64_t>> distances;  // to each node, relative to 10 for itself
};

struct Memory {
  Field<int64_t> total_bytes;      // of the device
  Field<int64_t> available_bytes;  // when the device was opened
  Field<int64_t> limit_bytes;      // that this process may use: cgroup, rlimit
  Field<int64_t> max_allocation_bytes;
  Field<int64_t> buffer_alignment;
  Field<int64_t> page_bytes;
  Field<int64_t> huge_page_bytes;
  Field<bool> is_host_memory;      // the device works on the host's memory in place
  Field<double> copy_bytes_per_s;  // measured by the runtime's probes
  Field<double> triad_bytes_per_s;
};

struct Queues {
  Field<int64_t> compute_count;
  Field<int64_t> copy_count;
  Field<bool> has_timeline_semaphores;
  Field<double> dispatch_latency_ns;  // measured by the runtime's probes
  Field<double> sync_latency_ns;
};

struct Capabilities {
  Identity identity;
  Compute compute;
  std::vector<Cache> caches;  // data and unified ones, from level 1
  std::vector<MatrixShape> matrix_shapes;
  std::vector<NumaNode> numa_nodes;
  Memory memory;
  Queues queues;
  std::vector<std::string> features;  // names of instruction sets or extensions, for reports
  std::vector<std::string> executable_formats;
  std::vector<std::string>
      notes;  // limits found and why: "cgroup quota: 1.5 CPUs (/sys/fs/cgroup/cpu.max)"
};

// Calls `visit` once per field in declaration order: "compute.unit_count", "2", source. The value
// of an unknown field is "". Lists are numbered: "caches[0].size_bytes".
void VisitFields(
    const Capabilities& capabilities,
    const std::function<void(std::string_view name, std::string_view value, Source source)>& visit);

// "name = value (source)" per line, unknown fields left out.
std::string FormatCapabilities(const Capabilities& capabilities);

}  // namespace halyard::hal
