// SPDX-License-Identifier: Apache-2.0
#include "drivers/cpu/capabilities.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "drivers/cpu/buffer.h"
#include "drivers/cpu/image.h"

namespace halyard::drivers::cpu {
namespace {

using hal::Field;
using hal::Source;

std::string ReadFirstLine(const std::string& path) {
  std::ifstream stream(path);
  std::string line;
  std::getline(stream, line);
  return line;
}

// The value in kB after "name:" in /proc/meminfo, in bytes; 0 when absent.
int64_t ReadMeminfo(const std::string& name) {
  std::ifstream stream("/proc/meminfo");
  for (std::string line; std::getline(stream, line);) {
    if (line.compare(0, name.size() + 1, name + ":") == 0) {
      return std::strtoll(line.c_str() + name.size() + 1, nullptr, 10) * 1024;
    }
  }
  return 0;
}

// A positive number becomes a known field, anything else stays unknown.
void SetIfPositive(Field<int64_t>* field, int64_t value, Source source) {
  if (value > 0) *field = Field<int64_t>(value, source);
}

void SetIfText(Field<std::string>* field, std::string text, Source source) {
  if (!text.empty()) *field = Field<std::string>(std::move(text), source);
}

bool Has(uint64_t features, CpuFeature feature) {
  return (features & static_cast<uint64_t>(feature)) != 0;
}

void DescribeIdentity(const CpuId& id, hal::Identity* out) {
  SetIfText(&out->name, id.brand, Source::kApi);
  SetIfText(&out->vendor, id.vendor, Source::kApi);
  out->type = {hal::DeviceType::kCpu, Source::kApi};
  utsname system = {};
  if (uname(&system) == 0) {
    SetIfText(&out->architecture, system.machine, Source::kOs);
    SetIfText(&out->driver_version, fmt::format("{} {}", system.sysname, system.release),
              Source::kOs);
  }
  out->driver_name = {"cpu", Source::kTable};
  if (id.family != 0) {
    out->model_id = {
        fmt::format("family {} model {} stepping {}", id.family, id.model, id.stepping),
        Source::kApi};
  }
  // The machine's own identity; there is one CPU device per machine.
  SetIfText(&out->uuid, ReadFirstLine("/etc/machine-id"), Source::kOs);
}

void DescribeCompute(uint64_t features, const CpuTopology& topology, int64_t worker_count,
                     hal::Compute* out) {
  out->unit_count = {topology.core_count, Source::kOs};
  out->thread_count = {topology.thread_count, Source::kOs};
  out->affinity_thread_count = {static_cast<int64_t>(topology.allowed_cpus.size()), Source::kOs};
  out->usable_worker_count = {worker_count, Source::kOs};
  if (topology.quota_threads) out->quota_threads = {*topology.quota_threads, Source::kOs};
  out->package_count = {topology.package_count, Source::kOs};
  SetIfPositive(&out->numa_node_count, static_cast<int64_t>(topology.numa_nodes.size()),
                Source::kOs);
  std::string folder = "/sys/devices/system/cpu/cpu0/cpufreq/";
  auto read_khz = [&](const char* file) {
    return std::strtoll(ReadFirstLine(folder + file).c_str(), nullptr, 10) * 1000;
  };
  SetIfPositive(&out->max_clock_hz, read_khz("cpuinfo_max_freq"), Source::kOs);
  SetIfPositive(&out->base_clock_hz, read_khz("base_frequency"), Source::kOs);
#if defined(__x86_64__)
  bool is_avx512 = Has(features, CpuFeature::kAvx512);
  out->vector_bytes = {is_avx512 ? 64 : Has(features, CpuFeature::kAvx2) ? 32 : 16, Source::kApi};
  out->vector_registers = {is_avx512 ? 32 : 16, Source::kApi};
  out->cpu_features = {features, Source::kApi};
#endif
}

void DescribeMatrixUnits(uint64_t features, std::vector<hal::MatrixShape>* out) {
  if (Has(features, CpuFeature::kAmxBf16))
    out->push_back({"bf16", "f32", 16, 16, 32, Source::kTable});
  if (Has(features, CpuFeature::kAmxInt8))
    out->push_back({"i8", "i32", 16, 16, 64, Source::kTable});
}

}  // namespace

SystemMemory ReadSystemMemory() {
  return {ReadMeminfo("MemTotal"), ReadMeminfo("MemAvailable"), ReadMeminfo("Hugepagesize")};
}

hal::Capabilities DescribeCpu(const CpuId& id, uint64_t features, const CpuTopology& topology,
                              int64_t worker_count, int64_t queue_count, int64_t memory_limit_bytes,
                              bool is_discrete) {
  hal::Capabilities out;
  DescribeIdentity(id, &out.identity);
  DescribeCompute(features, topology, worker_count, &out.compute);
  DescribeMatrixUnits(features, &out.matrix_shapes);
  for (const CacheTopology& cache : topology.caches) {
    hal::Cache added;
    added.level = cache.level;
    SetIfPositive(&added.size_bytes, cache.size_bytes, Source::kOs);
    SetIfPositive(&added.line_bytes, cache.line_bytes, Source::kOs);
    SetIfPositive(&added.ways, cache.ways, Source::kOs);
    SetIfPositive(&added.instance_count, cache.instance_count, Source::kOs);
    SetIfPositive(&added.threads_per_instance, cache.threads_per_instance, Source::kOs);
    out.caches.push_back(added);
  }
  for (const NumaTopology& node : topology.numa_nodes) {
    hal::NumaNode added;
    added.os_index = node.os_index;
    SetIfPositive(&added.memory_bytes, node.memory_bytes, Source::kOs);
    SetIfPositive(&added.unit_count, node.core_count, Source::kOs);
    for (int64_t distance : node.distances) added.distances.push_back({distance, Source::kOs});
    out.numa_nodes.push_back(std::move(added));
  }

  SystemMemory memory = ReadSystemMemory();
  SetIfPositive(&out.memory.total_bytes, memory.total_bytes, Source::kOs);
  SetIfPositive(&out.memory.available_bytes, memory.available_bytes, Source::kOs);
  SetIfPositive(&out.memory.huge_page_bytes, memory.huge_page_bytes, Source::kOs);
  SetIfPositive(&out.memory.page_bytes, sysconf(_SC_PAGESIZE), Source::kOs);
  if (memory_limit_bytes != INT64_MAX) {
    out.memory.limit_bytes = {memory_limit_bytes, Source::kOs};
    out.memory.max_allocation_bytes = {memory_limit_bytes, Source::kOs};
  }
  out.memory.buffer_alignment = {CpuBuffer::kAlignment, Source::kTable};
  out.memory.is_host_memory = {!is_discrete, Source::kTable};

  out.queues.compute_count = {queue_count, Source::kTable};
  out.queues.copy_count = {0, Source::kTable};
  out.queues.has_timeline_semaphores = {true, Source::kTable};

  out.features = FormatCpuFeatures(features);
  out.executable_formats = {std::string(kImageFormat)};
  out.notes = topology.notes;
  if (id.is_hypervised) {
    out.notes.push_back(
        "This is a virtual machine: cores, siblings and shared caches may not be real.");
  }
  if (is_discrete) {
    out.notes.push_back(
        "Test mode 'discrete': the host cannot address device memory, work starts late.");
  }
  return out;
}

}  // namespace halyard::drivers::cpu
