// SPDX-License-Identifier: Apache-2.0
#include "drivers/cpu/capabilities.h"

#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "base/hash.h"
#include "drivers/cpu/buffer.h"
#include "drivers/cpu/cgroup.h"
#include "drivers/cpu/code_name.h"
#include "drivers/cpu/image.h"

namespace halyard::drivers::cpu {
namespace {

using hal::SetIfPositive;
using hal::SetIfText;
using hal::Source;

constexpr const char* kMeminfo = "/proc/meminfo";
constexpr const char* kCpuinfo = "/proc/cpuinfo";
const std::string kCpus = "/sys/devices/system/cpu/";

int64_t Kilobytes(const SystemFiles& files, std::string_view key) {
  return std::strtoll(files.ValueOf(kMeminfo, key).c_str(), nullptr, 10) * 1024;
}

bool Has(uint64_t features, CpuFeature feature) {
  return (features & static_cast<uint64_t>(feature)) != 0;
}

void DescribeIdentity(const CpuId& id, const SystemFiles& files, hal::Identity* out) {
  SetIfText(&out->name, id.brand, Source::kApi);
  SetIfText(&out->vendor, id.vendor, Source::kApi);
  out->type = {hal::DeviceType::kCpu, Source::kApi};
  utsname system = {};
  if (uname(&system) == 0) {
    SetIfText(&out->architecture, system.machine, Source::kOs);
    // What follows the numbers names whose machine it is on; reports are for others too.
    const std::string release = system.release;
    SetIfText(&out->driver_version,
              fmt::format("{} {}", system.sysname,
                          release.substr(0, release.find_first_not_of("0123456789."))),
              Source::kOs);
  }
  out->driver_name = {"cpu", Source::kTable};
  if (id.family != 0) {
    out->model_id = {
        fmt::format("family {} model {} stepping {}", id.family, id.model, id.stepping),
        Source::kApi};
  }
  SetIfText(&out->chip, CodeNameOf(id), Source::kTable);
  // Of the machine's own identity, which is not to be told; there is one CPU device per machine.
  if (const std::string machine = files.FirstLine("/etc/machine-id"); !machine.empty()) {
    out->uuid = {fmt::format("{:016x}", HashString(machine)), Source::kOs};
  }
  SetIfText(&out->firmware_version, files.ValueOf(kCpuinfo, "microcode"), Source::kOs);
  SetIfText(&out->c_library, fmt::format("glibc {}", gnu_get_libc_version()), Source::kApi);
}

void DescribeCompute(const CpuDescription& cpu, const SystemFiles& files, hal::Compute* out) {
  const CpuTopology& topology = cpu.topology;
  out->unit_count = {topology.core_count, Source::kOs};
  out->thread_count = {topology.thread_count, Source::kOs};
  out->affinity_thread_count = {static_cast<int64_t>(topology.allowed_cpus.size()), Source::kOs};
  out->usable_worker_count = {cpu.worker_count, Source::kOs};
  if (topology.quota_threads) out->quota_threads = {*topology.quota_threads, Source::kOs};
  out->package_count = {topology.package_count, Source::kOs};
  SetIfPositive(&out->numa_node_count, static_cast<int64_t>(topology.numa_nodes.size()),
                Source::kOs);
  SetIfText(&out->core_kinds, topology.core_kinds, Source::kOs);
  const auto khz = [&](const char* file) {
    return files.Number(kCpus + "cpu0/cpufreq/" + file).value_or(0) * 1000;
  };
  SetIfPositive(&out->max_clock_hz, khz("cpuinfo_max_freq"), Source::kOs);
  SetIfPositive(&out->base_clock_hz, khz("base_frequency"), Source::kOs);
#if defined(__x86_64__)
  const bool is_avx512 = Has(cpu.features, CpuFeature::kAvx512);
  out->vector_bytes = {is_avx512                              ? 64
                       : Has(cpu.features, CpuFeature::kAvx2) ? 32
                                                              : 16,
                       Source::kApi};
  out->vector_registers = {is_avx512 ? 32 : 16, Source::kApi};
  out->cpu_features = {cpu.features, Source::kApi};
#endif
}

// Of the instruction sets: the processor rounds and keeps subnormal numbers as IEEE 754 says.
void DescribeNumerics(uint64_t features, hal::Numerics* out) {
  out->has_fma = {Has(features, CpuFeature::kAvx2), Source::kApi};
  out->keeps_f32_denormals = {true, Source::kTable};
  out->keeps_infinities = {true, Source::kTable};
  out->rounds_f32_to_even = {true, Source::kTable};
  out->has_integer_dot = {Has(features, CpuFeature::kAvx512Vnni), Source::kApi};
  if (Has(features, CpuFeature::kAmxBf16)) out->matrix_flushes_denormals = {true, Source::kTable};
  if (Has(features, CpuFeature::kAvx512Fp16)) out->keeps_f16_denormals = {true, Source::kTable};
}

// A tile product of 16x16 results takes 16 clocks, whatever its type (Intel's optimisation manual).
void DescribeMatrixUnits(uint64_t features, hal::Capabilities* out) {
  struct Row {
    CpuFeature feature;
    const char* input;
    const char* output;
    int32_t k;
  };
  constexpr Row kRows[] = {{CpuFeature::kAmxBf16, "bf16", "f32", 32},
                           {CpuFeature::kAmxInt8, "i8", "i32", 64}};
  for (const Row& row : kRows) {
    if (!Has(features, row.feature)) continue;
    out->matrix_shapes.push_back({row.input, row.output, 16, 16, row.k, Source::kTable});
    out->compute.matrix_units_per_unit = {1, Source::kTable};
  }
}

void DescribeDtypes(uint64_t features, std::vector<hal::DtypeSupport>* out) {
  const bool has_f16 = Has(features, CpuFeature::kAvx512Fp16);
  struct Row {
    const char* dtype;
    bool arithmetic, matrix;
    double clocks;  // matrix operations per clock of one core
  };
  const Row rows[] = {
      {"f64", true, false, 0},
      {"f32", true, false, 0},
      {"f16", has_f16, false, 0},
      {"bf16", Has(features, CpuFeature::kAvx512Bf16), Has(features, CpuFeature::kAmxBf16), 1024},
      {"i64", true, false, 0},
      {"i32", true, false, 0},
      {"i16", true, false, 0},
      {"i8", true, Has(features, CpuFeature::kAmxInt8), 2048}};
  for (const Row& row : rows) {
    hal::DtypeSupport added;
    added.dtype = {row.dtype, Source::kTable};
    added.has_storage = {true, Source::kTable};
    added.has_arithmetic = {row.arithmetic, Source::kApi};
    added.has_matrix = {row.matrix, Source::kApi};
    if (row.matrix) added.matrix_ops_per_clock = {row.clocks, Source::kTable};
    out->push_back(std::move(added));
  }
}

void DescribeCaches(const CpuTopology& topology, std::vector<hal::Cache>* out) {
  for (const CacheTopology& cache : topology.caches) {
    hal::Cache added;
    added.level = {cache.level, Source::kOs};
    SetIfPositive(&added.size_bytes, cache.size_bytes, Source::kOs);
    SetIfPositive(&added.line_bytes, cache.line_bytes, Source::kOs);
    SetIfPositive(&added.ways, cache.ways, Source::kOs);
    SetIfPositive(&added.instance_count, cache.instance_count, Source::kOs);
    SetIfPositive(&added.threads_per_instance, cache.threads_per_instance, Source::kOs);
    out->push_back(std::move(added));
  }
}

void DescribeMemory(const CpuDescription& cpu, const SystemFiles& files, hal::Capabilities* out) {
  for (const NumaTopology& node : cpu.topology.numa_nodes) {
    hal::NumaNode added;
    added.os_index = {int64_t{node.os_index}, Source::kOs};
    SetIfPositive(&added.memory_bytes, node.memory_bytes, Source::kOs);
    SetIfPositive(&added.unit_count, node.core_count, Source::kOs);
    if (node.bytes_per_s > 0) added.peak_bytes_per_s = {node.bytes_per_s, Source::kOs};
    if (node.latency_ns > 0) added.latency_ns = {node.latency_ns, Source::kOs};
    SetIfText(&added.distances, fmt::format("{}", fmt::join(node.distances, " ")), Source::kOs);
    out->numa_nodes.push_back(std::move(added));
  }
  const SystemMemory memory = ReadSystemMemory(files);
  SetIfPositive(&out->memory.total_bytes, memory.total_bytes, Source::kOs);
  SetIfPositive(&out->memory.available_bytes, memory.available_bytes, Source::kOs);
  SetIfPositive(&out->memory.huge_page_bytes, memory.huge_page_bytes, Source::kOs);
  SetIfPositive(&out->memory.page_bytes, sysconf(_SC_PAGESIZE), Source::kOs);
  SetIfText(&out->memory.huge_pages, files.Choice("/sys/kernel/mm/transparent_hugepage/enabled"),
            Source::kOs);
  if (cpu.memory_limit_bytes != INT64_MAX) {
    out->memory.limit_bytes = {cpu.memory_limit_bytes, Source::kOs};
    out->memory.max_allocation_bytes = {cpu.memory_limit_bytes, Source::kOs};
  }
  out->memory.buffer_alignment = {CpuBuffer::kAlignment, Source::kTable};
  out->memory.is_host_memory = {!cpu.has_own_memory(), Source::kTable};
  out->memory.has_unified_addressing = {true, Source::kTable};
  out->memory.can_access_pageable = {!cpu.has_own_memory(), Source::kTable};
  // Correctable memory shows a controller; none does not mean that there is no correction.
  for (const std::string& name : files.List("/sys/devices/system/edac/mc")) {
    if (name.starts_with("mc")) out->memory.has_ecc = {true, Source::kOs};
  }
}

}  // namespace

SystemMemory ReadSystemMemory(const SystemFiles& files) {
  return {Kilobytes(files, "MemTotal"), Kilobytes(files, "MemAvailable"),
          Kilobytes(files, "Hugepagesize")};
}

hal::Capabilities DescribeCpu(const CpuDescription& cpu, const SystemFiles& files) {
  hal::Capabilities out;
  DescribeIdentity(cpu.id, files, &out.identity);
  if (cpu.options.synthetic != 0) {
    // Another device than the processor that it runs on: nothing links the two.
    const std::string limit = cpu.options.link_bytes_per_s == 0
                                  ? "without a limit"
                                  : fmt::format("{} bytes/s", cpu.options.link_bytes_per_s);
    out.identity.name = {fmt::format("synthetic device (speed {}%, link {}, {} us)",
                                     cpu.options.speed_percent, limit, cpu.options.link_latency_us),
                         Source::kTable};
    out.identity.uuid = {};
    out.identity.chip = {};
  } else if (cpu.options.speed_percent != 100) {
    // Its measurements are not those of the processor.
    out.identity.name.value += fmt::format(" (speed {}%)", cpu.options.speed_percent);
  }
  DescribeCompute(cpu, files, &out.compute);
  DescribeNumerics(cpu.features, &out.numerics);
  DescribeMatrixUnits(cpu.features, &out);
  DescribeDtypes(cpu.features, &out.dtypes);
  DescribeCaches(cpu.topology, &out.caches);
  DescribeMemory(cpu, files, &out);

  out.queues.compute_count = {cpu.options.queues, Source::kTable};
  if (cpu.options.numa >= 0) out.links.numa_node = {cpu.options.numa, Source::kOs};
  out.queues.copy_count = {0, Source::kTable};
  out.queues.has_timeline_semaphores = {true, Source::kTable};
  out.queues.replay = {"task list", Source::kTable};
  out.interop.can_import_host_memory = {!cpu.has_own_memory(), Source::kTable};
  out.interop.memory_handles = {"host pointer", Source::kTable};
  out.partition.virtualization = {cpu.id.is_hypervised ? "guest" : "none", Source::kApi};
  out.tools.code_formats = {std::string(kImageFormat), Source::kTable};
  if (const auto paranoid = files.Number("/proc/sys/kernel/perf_event_paranoid")) {
    out.tools.perf_event_paranoid = {*paranoid, Source::kOs};
  }
  // Root may count whatever the system lets others do.
  if (out.tools.perf_event_paranoid.known()) {
    out.tools.can_count = {out.tools.perf_event_paranoid.value <= 2 || geteuid() == 0, Source::kOs};
  }
  if (const std::string flags = files.ValueOf(kCpuinfo, "flags"); !flags.empty()) {
    out.tools.has_invariant_clock = {flags.find("nonstop_tsc") != std::string::npos, Source::kOs};
  }

  out.features = FormatCpuFeatures(cpu.features);
  out.executable_formats = {std::string(kImageFormat)};
  out.notes = cpu.topology.notes;
  if (cpu.id.is_hypervised) {
    out.notes.push_back(
        "This is a virtual machine: cores, siblings and shared caches may not be real.");
  }
  if (cpu.options.discrete != 0) {
    out.notes.push_back(
        "Test mode 'discrete': the host cannot address device memory, work starts late.");
  }
  if (cpu.options.synthetic != 0) {
    out.notes.push_back("A synthetic device for tests: it runs on this machine's processors.");
  }
  return out;
}

hal::DeviceState ReadCpuState(const SystemFiles& files) {
  hal::DeviceState out;
  int64_t sum_khz = 0, count = 0, throttles = 0;
  bool counts_throttles = false;
  for (const std::string& name : files.List(kCpus)) {
    if (!name.starts_with("cpu") || name.find_first_not_of("0123456789", 3) != std::string::npos) {
      continue;
    }
    if (const auto khz = files.Number(kCpus + name + "/cpufreq/scaling_cur_freq")) {
      sum_khz += *khz;
      ++count;
    }
    if (const auto times = files.Number(kCpus + name + "/thermal_throttle/core_throttle_count")) {
      counts_throttles = true;
      throttles += *times;
    }
  }
  if (count > 0) {
    SetIfPositive(&out.clock_hz, sum_khz / count * 1000, Source::kOs);
  } else {
    const double mhz = std::strtod(files.ValueOf(kCpuinfo, "cpu MHz").c_str(), nullptr);
    SetIfPositive(&out.clock_hz, static_cast<int64_t>(mhz * 1e6), Source::kOs);
  }
  if (counts_throttles) {
    out.throttle_reasons = {throttles == 0
                                ? std::string("none")
                                : fmt::format("heat, {} times since the start", throttles),
                            Source::kOs};
  }
  SetIfText(&out.performance_state, files.FirstLine(kCpus + "cpu0/cpufreq/scaling_governor"),
            Source::kOs);
  SetIfPositive(&out.available_bytes, ReadSystemMemory(files).available_bytes, Source::kOs);
  const std::string load = files.FirstLine("/proc/loadavg");
  if (!load.empty()) out.load_average = {std::strtod(load.c_str(), nullptr), Source::kOs};
  std::ifstream membership(files.root() + "/proc/self/cgroup");
  const std::string groups((std::istreambuf_iterator<char>(membership)), {});
  if (const auto pauses = ReadCgroupPauses(files.root() + "/sys/fs/cgroup", groups)) {
    out.quota_pauses = {pauses->count, Source::kOs};
    out.quota_paused_s = {pauses->seconds, Source::kOs};
  }
  // Of every controller of correctable memory.
  for (const std::string& name : files.List("/sys/devices/system/edac/mc")) {
    const std::string at = "/sys/devices/system/edac/mc/" + name + "/";
    const auto add = [&](const char* file, hal::Field<int64_t>* field) {
      if (const auto errors = files.Number(at + file)) {
        *field = {field->ValueOr(0) + *errors, Source::kOs};
      }
    };
    add("ce_count", &out.corrected_memory_errors);
    add("ue_count", &out.uncorrected_memory_errors);
  }
  for (const std::string& zone : files.List("/sys/class/thermal")) {
    const std::string at = "/sys/class/thermal/" + zone;
    if (files.FirstLine(at + "/type") != "x86_pkg_temp") continue;
    if (const auto heat = files.Number(at + "/temp")) {
      out.temperature_c = {static_cast<double>(*heat) * 1e-3, Source::kOs};
    }
  }
  if (const auto energy = files.Number("/sys/class/powercap/intel-rapl:0/energy_uj")) {
    out.energy_j = {static_cast<double>(*energy) * 1e-6, Source::kOs};
  }
  return out;
}

}  // namespace halyard::drivers::cpu
