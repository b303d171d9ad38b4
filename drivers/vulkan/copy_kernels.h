// SPDX-License-Identifier: Apache-2.0
// The driver's own kernels: copies and fills of any alignment between buffers that the device
// addresses. A vendor's buffer copy can be several times slower than such a kernel.
#pragma once

#include <cstdint>
#include <vector>

namespace halyard::drivers::vulkan {

inline constexpr uint32_t kCopyWorkgroupSize = 256;
// Each workitem moves this many bytes.
inline constexpr int64_t kCopyBytesPerWorkitem = 16;

// Arguments: source address, target address, size in bytes. The ranges do not overlap. Workgroups
// form a plane; together they cover at least the size.
std::vector<uint32_t> MakeCopyKernel();
inline constexpr uint32_t kCopyArguments = 3;

// Arguments: target address, size in bytes, the pattern repeated to eight bytes.
std::vector<uint32_t> MakeFillKernel();
inline constexpr uint32_t kFillArguments = 3;

// The low `pattern_bytes` (1, 2, 4 or 8) of `pattern`, repeated.
uint64_t RepeatPattern(uint64_t pattern, uint32_t pattern_bytes);

// The plane of workgroups for a size; no side is above 65535, which every device takes.
struct CopyGrid {
  uint32_t x = 0, y = 0;
};
CopyGrid GridForBytes(int64_t size_bytes);

}  // namespace halyard::drivers::vulkan
