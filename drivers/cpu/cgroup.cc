// SPDX-License-Identifier: Apache-2.0
#include "drivers/cpu/cgroup.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

namespace halyard::drivers::cpu {
namespace {

std::optional<std::string> ReadSmallFile(const std::string& path) {
  std::ifstream stream(path);
  if (!stream) return std::nullopt;
  std::string text(65536, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

std::optional<int64_t> ParseNumber(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "/a/b" gives "/a/b", "/a", "". Inside a container the path may be the host's and exist only in
// part.
std::vector<std::string> SelfAndAncestors(std::string path) {
  std::vector<std::string> paths;
  while (path.size() > 1) {
    paths.push_back(path);
    path.resize(path.rfind('/'));
  }
  paths.push_back("");
  return paths;
}

void TightenQuota(CgroupLimits& limits, double quota, const std::string& file) {
  if (quota <= 0 || (limits.quota_threads && *limits.quota_threads <= quota)) return;
  limits.quota_threads = quota;
  limits.quota_file = file;
}

void TightenMemory(CgroupLimits& limits, int64_t bytes, const std::string& file) {
  // Version 1 writes "no limit" as the largest multiple of a page.
  constexpr int64_t kNoLimit = int64_t{1} << 60;
  if (bytes <= 0 || bytes >= kNoLimit) return;
  if (limits.memory_bytes && *limits.memory_bytes <= bytes) return;
  limits.memory_bytes = bytes;
  limits.memory_file = file;
}

// The innermost group that names CPUs decides; the kernel keeps it inside its ancestors.
void SetCpus(CgroupLimits& limits, const std::string& file) {
  if (limits.cpus) return;
  std::optional<std::string> text = ReadSmallFile(file);
  if (!text || text->empty()) return;
  Result<std::vector<int>> cpus = ParseCpuList(*text);
  if (!cpus.ok() || cpus->empty()) return;
  limits.cpus = *cpus;
  limits.cpus_file = file;
}

void ReadVersion2(CgroupLimits& limits, const std::string& mount, const std::string& group) {
  for (const std::string& path : SelfAndAncestors(group)) {
    std::string folder = mount + path;
    if (std::optional<std::string> text = ReadSmallFile(folder + "/cpu.max")) {
      size_t space = text->find(' ');
      if (space != std::string::npos) {
        auto quota = ParseNumber(std::string_view(*text).substr(0, space));
        auto period = ParseNumber(std::string_view(*text).substr(space + 1));
        if (quota && period && *period > 0) {
          TightenQuota(limits, double(*quota) / double(*period), folder + "/cpu.max");
        }
      }
    }
    if (std::optional<std::string> text = ReadSmallFile(folder + "/memory.max")) {
      if (auto bytes = ParseNumber(*text)) TightenMemory(limits, *bytes, folder + "/memory.max");
    }
    SetCpus(limits, folder + "/cpuset.cpus.effective");
  }
}

void ReadVersion1(CgroupLimits& limits, const std::string& mount, std::string_view controller,
                  const std::string& group) {
  for (const std::string& path : SelfAndAncestors(group)) {
    std::string folder = mount + path;
    if (controller == "cpu") {
      auto quota_text = ReadSmallFile(folder + "/cpu.cfs_quota_us");
      auto period_text = ReadSmallFile(folder + "/cpu.cfs_period_us");
      if (!quota_text || !period_text) continue;
      auto quota = ParseNumber(*quota_text);
      auto period = ParseNumber(*period_text);
      if (quota && period && *period > 0) {
        TightenQuota(limits, double(*quota) / double(*period), folder + "/cpu.cfs_quota_us");
      }
    } else if (controller == "memory") {
      auto text = ReadSmallFile(folder + "/memory.limit_in_bytes");
      if (!text) continue;
      if (auto bytes = ParseNumber(*text))
        TightenMemory(limits, *bytes, folder + "/memory.limit_in_bytes");
    } else if (controller == "cpuset") {
      SetCpus(limits, folder + "/cpuset.effective_cpus");
      SetCpus(limits, folder + "/cpuset.cpus");
    }
  }
}

}  // namespace

Result<std::vector<int>> ParseCpuList(std::string_view text) {
  constexpr size_t kMaxCpus = 65536;
  std::vector<int> cpus;
  while (!text.empty()) {
    size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    size_t dash = part.find('-');
    auto first = ParseNumber(part.substr(0, dash));
    auto last = dash == std::string_view::npos ? first : ParseNumber(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= int64_t(kMaxCpus)) {
      return InvalidArgument("'{}' is not a list of CPU numbers below {}.", part, kMaxCpus);
    }
    for (int64_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<int>(cpu));
    if (cpus.size() > kMaxCpus)
      return InvalidArgument("A CPU list names more than {} CPUs.", kMaxCpus);
  }
  return cpus;
}

namespace {

// Calls one of the two for every place that a hierarchy of this process may be mounted at.
void ForEachMount(
    const std::string& root, std::string_view membership,
    const std::function<void(const std::string& mount, const std::string& group)>& version2,
    const std::function<void(const std::string& mount, const std::string& controller,
                             const std::string& group)>& version1) {
  std::istringstream lines{std::string(membership)};
  for (std::string line; std::getline(lines, line);) {
    // "hierarchy:controller,controller:/path"; version 2 is hierarchy 0 without controllers.
    size_t first = line.find(':');
    size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    std::string group = line.substr(second + 1);
    if (group.empty() || group[0] != '/') group = "/";
    if (controllers.empty()) {
      // Mounted at the root, or beside version 1 in a folder of its own.
      version2(root, group);
      version2(root + "/unified", group);
      continue;
    }
    std::istringstream names(controllers);
    for (std::string name; std::getline(names, name, ',');) {
      version1(root + "/" + name, name, group);
      if (name != controllers) version1(root + "/" + controllers, name, group);
    }
  }
}

// The number behind "key " at the start of a line.
std::optional<int64_t> NumberOf(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == ' ')
      return ParseNumber(std::string_view(line).substr(key.size() + 1));
  }
  return std::nullopt;
}

}  // namespace

CgroupLimits ReadCgroupLimits(const std::string& root, std::string_view membership) {
  CgroupLimits limits;
  ForEachMount(
      root, membership,
      [&](const std::string& mount, const std::string& group) {
        ReadVersion2(limits, mount, group);
      },
      [&](const std::string& mount, const std::string& controller, const std::string& group) {
        ReadVersion1(limits, mount, controller, group);
      });
  return limits;
}

std::optional<CgroupPauses> ReadCgroupPauses(const std::string& root, std::string_view membership) {
  std::map<std::string, CgroupPauses> groups;  // by file; "cpu" and "cpu,cpuacct" may be one
  const auto read = [&](const std::string& mount, const std::string& group, const char* time,
                        double unit) {
    for (const std::string& path : SelfAndAncestors(group)) {
      const std::string file = mount + path + "/cpu.stat";
      const std::optional<std::string> text = ReadSmallFile(file);
      if (!text) continue;
      const auto count = NumberOf(*text, "nr_throttled"), paused = NumberOf(*text, time);
      if (!count || !paused) continue;
      std::error_code error;
      const std::string real = std::filesystem::canonical(file, error).string();
      groups[error ? file : real] = {*count, static_cast<double>(*paused) * unit};
    }
  };
  ForEachMount(
      root, membership,
      [&](const std::string& mount, const std::string& group) {
        read(mount, group, "throttled_usec", 1e-6);
      },
      [&](const std::string& mount, const std::string& controller, const std::string& group) {
        if (controller == "cpu") read(mount, group, "throttled_time", 1e-9);
      });
  if (groups.empty()) return std::nullopt;
  CgroupPauses sum;
  for (const auto& [file, pauses] : groups) {
    sum.count += pauses.count;
    sum.seconds += pauses.seconds;
  }
  return sum;
}

}  // namespace halyard::drivers::cpu
