// SPDX-License-Identifier: Apache-2.0
#include "base/nvidia_libraries.h"

#include <glob.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/env.h"
#include "base/status.h"

namespace halyard {

std::vector<std::string> FilesMatching(const std::string& pattern) {
  std::vector<std::string> paths;
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  }
  globfree(&found);
  std::reverse(paths.begin(), paths.end());
  return paths;
}

std::vector<std::string> NvidiaLibraryCandidates(std::string_view name,
                                                 std::span<const std::string_view> versions) {
  std::vector<std::string> candidates;
  for (const std::string_view version : versions) {
    candidates.push_back(fmt::format("{}.so.{}", name, version));
  }
  candidates.push_back(fmt::format("{}.so", name));
  std::vector<std::string> folders = {"/usr/local/cuda/lib64", "/usr/local/cuda-1*/lib64",
                                      "/opt/cuda/lib64",
                                      "/usr/local/lib/python3*/*-packages/nvidia/cu*/lib",
                                      "/usr/lib/python3*/*-packages/nvidia/cu*/lib"};
  for (const std::string& folder : EnvPythonFolders()) {
    folders.push_back(folder + "/lib/python3*/site-packages/nvidia/cu*/lib");
  }
  const bool is_short = !versions.empty() && versions.front().size() == 1;
  for (const std::string& folder : folders) {
    const std::string pattern =
        fmt::format("{}/{}.so.{}", folder, name, is_short ? "[0-9]" : "1[0-9]");
    const std::vector<std::string> found = FilesMatching(pattern);
    candidates.insert(candidates.end(), found.begin(), found.end());
    if (found.empty()) candidates.push_back(pattern);
  }
  return candidates;
}

std::vector<std::string> NvrtcCandidates() {
  const std::string named = EnvString(EnvVar::kNvrtcLibrary);
  if (!named.empty()) return {named};
  constexpr std::string_view kVersions[] = {"13", "12"};
  return NvidiaLibraryCandidates("libnvrtc", kVersions);
}

Result<DynamicLibrary> OpenNvrtcLibrary(const std::vector<std::string>& candidates) {
  Result<DynamicLibrary> library = DynamicLibrary::OpenFirst(candidates);
  if (library.ok()) return library;
  if (candidates.size() == 1) {
    return Unavailable("NVRTC, which compiles CUDA kernels, is missing. {}",
                       DynamicLibrary::Open(candidates[0]).status().message());
  }
  return Unavailable(
      "NVRTC, which compiles CUDA kernels, was not found; install it, or name it in "
      "HALYARD_NVRTC_LIBRARY. Tried: {}.",
      fmt::join(candidates, ", "));
}

Result<std::string> DescribeNvrtc() {
  HY_ASSIGN(const DynamicLibrary library, OpenNvrtcLibrary(NvrtcCandidates()));
  using Version = int (*)(int* major, int* minor);
  const Result<Version> version = library.FindFunction<Version>("nvrtcVersion");
  int major = 0, minor = 0;
  if (!version.ok() || (*version)(&major, &minor) != 0) {
    return Unavailable("NVRTC, which compiles CUDA kernels, is missing: '{}' is another library.",
                       library.path());
  }
  return fmt::format("NVRTC {}.{}, {}", major, minor, library.path());
}

std::string InstalledNvidiaRelease(std::string_view name) {
  std::set<std::string> folders = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64",
                                   "/usr/local/cuda/extras/CUPTI/lib64"};
  for (const std::string& candidate : NvidiaLibraryCandidates(name, {})) {
    const size_t slash = candidate.rfind('/');
    if (slash != candidate.npos) folders.insert(candidate.substr(0, slash));
  }
  int64_t newest = -1;
  for (const std::string& folder : folders) {
    for (const std::string& path : FilesMatching(fmt::format("{}/{}.so.[0-9]*", folder, name))) {
      // The name that programs ask for has the release alone, the file behind it may have a year.
      const std::string release = path.substr(path.rfind(".so.") + 4);
      if (release.find_first_not_of("0123456789") != release.npos) continue;
      newest = std::max<int64_t>(newest, std::strtoll(release.c_str(), nullptr, 10));
    }
  }
  return newest < 0 ? "" : std::to_string(newest);
}

}  // namespace halyard
