// SPDX-License-Identifier: Apache-2.0
#include "drivers/cpu/topology.h"

#include <hwloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <sstream>

#include "drivers/cpu/cgroup.h"

namespace halyard::drivers::cpu {
namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyDeleter>;

struct BitmapDeleter {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapDeleter>;

Result<Topology> LoadTopology(const std::string& xml_path) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return OutOfMemory("hwloc_topology_init failed.");
  Topology topology(raw);
  if (!xml_path.empty() && hwloc_topology_set_xml(raw, xml_path.c_str()) != 0) {
    return Unavailable("hwloc cannot read the topology file '{}'.", xml_path);
  }
  if (hwloc_topology_load(raw) != 0) {
    return Unavailable("hwloc cannot read the topology of {}.",
                       xml_path.empty() ? "this machine" : "'" + xml_path + "'");
  }
  return topology;
}

// The CPUs of the process, whatever their number; empty when the system does not tell.
std::vector<int> ReadAffinity() {
  for (int count = 1024; count <= 1 << 20; count *= 2) {
    const auto release = [](cpu_set_t* owned) { CPU_FREE(owned); };
    const std::unique_ptr<cpu_set_t, decltype(release)> owner(CPU_ALLOC(count), release);
    cpu_set_t* set = owner.get();
    if (!set) break;
    size_t bytes = CPU_ALLOC_SIZE(count);
    CPU_ZERO_S(bytes, set);
    std::vector<int> cpus;
    // The process and not the calling thread: a host that pins its own thread does not mean the
    // pool.
    bool is_read = sched_getaffinity(getpid(), bytes, set) == 0;
    for (int cpu = 0; is_read && cpu < count; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
    }
    if (is_read) return cpus;
    if (errno != EINVAL) break;
  }
  return {};
}

std::string ReadWholeFile(const std::string& path) {
  std::ifstream stream(path);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

Bitmap MakeBitmap(const std::vector<int>& cpus) {
  Bitmap bitmap(hwloc_bitmap_alloc());
  for (int cpu : cpus) hwloc_bitmap_set(bitmap.get(), static_cast<unsigned>(cpu));
  return bitmap;
}

std::vector<int> ToList(hwloc_const_bitmap_t bitmap) {
  std::vector<int> cpus;
  for (int cpu = hwloc_bitmap_first(bitmap); cpu >= 0; cpu = hwloc_bitmap_next(bitmap, cpu)) {
    cpus.push_back(cpu);
  }
  return cpus;
}

void ReadCaches(hwloc_topology_t topology, CpuTopology* out) {
  constexpr hwloc_obj_type_t kTypes[] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE,
                                         HWLOC_OBJ_L4CACHE};
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    int count = hwloc_get_nbobjs_by_type(topology, kTypes[i]);
    if (count <= 0) continue;
    hwloc_obj_t first = hwloc_get_obj_by_type(topology, kTypes[i], 0);
    CacheTopology cache;
    cache.level = static_cast<int32_t>(i + 1);
    cache.size_bytes = static_cast<int64_t>(first->attr->cache.size);
    cache.line_bytes = first->attr->cache.linesize;
    cache.ways = first->attr->cache.associativity;
    cache.instance_count = count;
    cache.threads_per_instance = hwloc_bitmap_weight(first->cpuset);
    out->caches.push_back(cache);
  }
}

// What hwloc knows of the memory of a node from the cores beside it; 0: nothing.
double ReadMemoryAttribute(hwloc_topology_t topology, hwloc_memattr_id_t attribute,
                           hwloc_obj_t node) {
  hwloc_location from = {};
  from.type = HWLOC_LOCATION_TYPE_CPUSET;
  from.location.cpuset = node->cpuset;
  hwloc_uint64_t value = 0;
  if (hwloc_memattr_get_value(topology, attribute, node, &from, 0, &value) != 0) return 0;
  return static_cast<double>(value);
}

void ReadNumaNodes(hwloc_topology_t topology, CpuTopology* out) {
  int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
  for (int i = 0; i < count; ++i) {
    hwloc_obj_t node =
        hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, static_cast<unsigned>(i));
    NumaTopology numa;
    numa.os_index = node->os_index;
    numa.memory_bytes = static_cast<int64_t>(node->attr->numanode.local_memory);
    numa.cpus = ToList(node->cpuset);
    numa.core_count =
        hwloc_get_nbobjs_inside_cpuset_by_type(topology, node->cpuset, HWLOC_OBJ_CORE);
    // In MiB/s and ns.
    numa.bytes_per_s = ReadMemoryAttribute(topology, HWLOC_MEMATTR_ID_BANDWIDTH, node) * (1 << 20);
    numa.latency_ns = ReadMemoryAttribute(topology, HWLOC_MEMATTR_ID_LATENCY, node);
    out->numa_nodes.push_back(std::move(numa));
  }
  unsigned matrices = 1;
  hwloc_distances_s* distances = nullptr;
  unsigned long kind = HWLOC_DISTANCES_KIND_MEANS_LATENCY;
  if (hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &matrices, &distances, kind, 0) !=
          0 ||
      matrices == 0) {
    return;
  }
  if (distances->nbobjs == out->numa_nodes.size()) {
    for (size_t i = 0; i < out->numa_nodes.size(); ++i) {
      for (size_t j = 0; j < out->numa_nodes.size(); ++j) {
        uint64_t value = distances->values[i * distances->nbobjs + j];
        out->numa_nodes[i].distances.push_back(static_cast<int64_t>(value));
      }
    }
  }
  hwloc_distances_release(topology, distances);
}

// Kinds by rising efficiency number, as hwloc ranks them: the fastest last.
void ReadCoreKinds(hwloc_topology_t topology, CpuTopology* out) {
  const int count = hwloc_cpukinds_get_nr(topology, 0);
  Bitmap cpus(hwloc_bitmap_alloc());
  for (int i = count - 1; i >= 0 && count > 1; --i) {
    unsigned info_count = 0;
    hwloc_info_s* infos = nullptr;
    const auto index = static_cast<unsigned>(i);
    int rank = -1;
    if (hwloc_cpukinds_get_info(topology, index, cpus.get(), &rank, &info_count, &infos, 0) != 0) {
      continue;
    }
    std::string name = fmt::format("kind {}", i);
    for (unsigned j = 0; j < info_count; ++j) {
      if (std::string(infos[j].name) == "CoreType") name = infos[j].value;
    }
    const int cores = hwloc_get_nbobjs_inside_cpuset_by_type(topology, cpus.get(), HWLOC_OBJ_CORE);
    out->core_kinds += fmt::format("{}{} x {}", out->core_kinds.empty() ? "" : ", ", cores, name);
  }
}

int64_t CountCoresWithAny(hwloc_topology_t topology, hwloc_const_bitmap_t allowed) {
  int64_t count = 0;
  int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
  for (int i = 0; i < cores; ++i) {
    hwloc_obj_t core = hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, static_cast<unsigned>(i));
    count += hwloc_bitmap_intersects(core->cpuset, allowed);
  }
  // Some virtual machines and containers show processors without cores.
  return count > 0 ? count : hwloc_bitmap_weight(allowed);
}

}  // namespace

int64_t CpuTopology::WorkerCount(int64_t asked) const {
  int64_t count = asked > 0 ? std::min<int64_t>(asked, static_cast<int64_t>(allowed_cpus.size()))
                            : allowed_core_count;
  if (quota_threads && *quota_threads < 1e6) {
    count = std::min(count, static_cast<int64_t>(std::ceil(*quota_threads)));
  }
  return std::max<int64_t>(count, 1);
}

Result<CpuTopology> ReadTopology(const TopologySource& source) {
  HY_ASSIGN(Topology owned, LoadTopology(source.hwloc_xml_path));
  hwloc_topology_t topology = owned.get();
  CpuTopology out;
  out.package_count = std::max(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE), 1);
  out.thread_count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
  int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
  out.core_count = cores > 0 ? cores : out.thread_count;
  ReadCaches(topology, &out);
  ReadNumaNodes(topology, &out);
  ReadCoreKinds(topology, &out);

  Bitmap allowed(hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology)));
  auto narrow = [&](const std::vector<int>& cpus, const std::string& reason) {
    int before = hwloc_bitmap_weight(allowed.get());
    Bitmap other = MakeBitmap(cpus);
    hwloc_bitmap_and(allowed.get(), allowed.get(), other.get());
    int after = hwloc_bitmap_weight(allowed.get());
    if (after < before)
      out.notes.push_back(fmt::format("{} leaves {} of {} CPUs.", reason, after, before));
  };
  std::vector<int> affinity = source.affinity ? *source.affinity : std::vector<int>();
  if (!source.affinity && source.hwloc_xml_path.empty()) affinity = ReadAffinity();
  if (source.affinity || !affinity.empty()) narrow(affinity, "The CPU affinity of the process");

  CgroupLimits limits =
      ReadCgroupLimits(source.cgroup_root, ReadWholeFile(source.cgroup_membership_path));
  if (limits.cpus) narrow(*limits.cpus, fmt::format("The CPU set in {}", limits.cpus_file));
  if (limits.quota_threads) {
    out.quota_threads = limits.quota_threads;
    out.notes.push_back(
        fmt::format("The quota in {} allows {:g} CPUs.", limits.quota_file, *limits.quota_threads));
  }
  if (limits.memory_bytes) {
    out.memory_limit_bytes = limits.memory_bytes;
    out.notes.push_back(fmt::format("The limit in {} allows {} bytes of memory.",
                                    limits.memory_file, *limits.memory_bytes));
  }
  if (source.numa >= 0) {
    auto has_index = [&](const NumaTopology& node) { return node.os_index == source.numa; };
    auto node = std::find_if(out.numa_nodes.begin(), out.numa_nodes.end(), has_index);
    if (node == out.numa_nodes.end()) {
      return NotFound("There is no NUMA node {}; the machine has {}.", source.numa,
                      out.numa_nodes.size());
    }
    narrow(node->cpus, fmt::format("NUMA node {}", source.numa));
  }
  out.allowed_cpus = ToList(allowed.get());
  if (out.allowed_cpus.empty()) {
    return Unavailable("No CPU is left for this process: {}", fmt::join(out.notes, " "));
  }
  out.allowed_core_count = CountCoresWithAny(topology, allowed.get());
  return out;
}

}  // namespace halyard::drivers::cpu
