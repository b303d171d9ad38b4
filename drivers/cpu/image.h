// SPDX-License-Identifier: Apache-2.0
// CpuImage: a flat code image (base/cpu_kernel_abi.h), checked and mapped read-execute. The code
// itself is trusted like a shared library; every field around it is not.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_kernel_abi.h"
#include "base/status.h"

namespace halyard::drivers::cpu {

inline constexpr std::string_view kImageFormat = "cpu-image";
inline constexpr uint64_t kMaxImageBytes = uint64_t{1} << 30;
inline constexpr uint64_t kMaxWorkgroupMemoryBytes = uint64_t{1} << 26;
inline constexpr uint32_t kMaxBindings = 1024;
inline constexpr uint32_t kMaxScalars = 1024;

class CpuImage {
 public:
  struct Entry {
    std::string name;
    CpuKernelFunction function = nullptr;
    uint64_t workgroup_memory_bytes = 0;
    uint32_t binding_count = 0;
    uint32_t scalar_count = 0;
  };

  // DATA_LOSS names the malformed field; INCOMPATIBLE the version or the instruction sets that
  // `host_features` lacks. The mapping is never writable and executable at once.
  static Result<CpuImage> Load(std::span<const uint8_t> bytes, uint64_t host_features);
  CpuImage(CpuImage&& other) noexcept;
  CpuImage& operator=(CpuImage&&) = delete;
  ~CpuImage();

  std::span<const Entry> entries() const { return entries_; }

 private:
  CpuImage() = default;

  void* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace halyard::drivers::cpu
