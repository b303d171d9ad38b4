// SPDX-License-Identifier: Apache-2.0
// Maps a CPU image and runs its kernels, for tests of generated code only: no driver, no threads.
#pragma once

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/cpu_kernel_abi.h"
#include "compiler/codegen/cpu/emit.h"

namespace halyard::testing {

class ImageRunner {
 public:
  explicit ImageRunner(const cpu::CpuImage& image) : size_(image.bytes.size()) {
    base_ = static_cast<uint8_t*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    HY_CHECK(base_ != MAP_FAILED);
    std::memcpy(base_, image.bytes.data(), size_);
    HY_CHECK(mprotect(base_, size_, PROT_READ | PROT_EXEC) == 0);
  }
  ~ImageRunner() { munmap(base_, size_); }
  ImageRunner(const ImageRunner&) = delete;
  ImageRunner& operator=(const ImageRunner&) = delete;

  const CpuImageHeader& header() const { return *reinterpret_cast<const CpuImageHeader*>(base_); }

  // Runs every workgroup of the grid in order.
  void Run(std::string_view name, std::span<void* const> bindings, std::span<const int64_t> scalars,
           const int64_t (&grid)[3], ErrorRecord* error) const {
    const CpuImageEntry* entries =
        reinterpret_cast<const CpuImageEntry*>(base_ + sizeof(CpuImageHeader));
    for (uint32_t i = 0; i < header().entry_count; ++i) {
      const char* begin = reinterpret_cast<const char*>(base_) + entries[i].name_offset;
      if (std::string_view(begin, entries[i].name_bytes) != name) continue;
      HY_CHECK(entries[i].binding_count == bindings.size() &&
               entries[i].scalar_count == scalars.size());
      const size_t bytes = (entries[i].workgroup_memory_bytes + 127) / 64 * 64;
      void* memory = std::aligned_alloc(64, bytes);
      std::memset(memory, 0xcd, bytes);
      const CpuDispatchArgs args{bindings.data(), scalars.data(), error, memory, 0, 0};
      const auto function = reinterpret_cast<CpuKernelFunction>(base_ + entries[i].code_offset);
      for (int64_t z = 0; z < grid[2]; ++z) {
        for (int64_t y = 0; y < grid[1]; ++y) {
          for (int64_t x = 0; x < grid[0]; ++x) function(&args, x, y, z);
        }
      }
      std::free(memory);
      return;
    }
    HY_CHECK(false, "the image has no kernel '{}'", name);
  }

 private:
  uint8_t* base_ = nullptr;
  size_t size_ = 0;
};

// Memory aligned as the driver's buffers are.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t size, uint8_t fill = 0xa5) : size_(size) {
    data_ = static_cast<uint8_t*>(std::aligned_alloc(64, (size + 127) / 64 * 64));
    std::memset(data_, fill, (size + 127) / 64 * 64);
  }
  AlignedBytes(const AlignedBytes& other) : AlignedBytes(other.size_) {
    std::memcpy(data_, other.data_, size_);
  }
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  ~AlignedBytes() { std::free(data_); }
  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  uint8_t* data_;
  size_t size_;
};

// The forced targets that this machine can run.
inline std::vector<std::string> RunnableTargets() {
  std::vector<std::string> names = {"cpu-sse4.2"};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2")) {
    names.push_back("cpu-avx2");
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      names.push_back("cpu-avx512");
    }
  }
  return names;
}

}  // namespace halyard::testing
