// SPDX-License-Identifier: Apache-2.0
// Writing and checked reading of GPU images (base/gpu_kernel_abi.h).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/gpu_kernel_abi.h"
#include "base/gpu_library_call.h"
#include "base/status.h"

namespace halyard {

// One kernel of an image. When reading, `name` and `module` point into the bytes read.
struct GpuKernel {
  std::string_view name;
  std::span<const uint8_t> module;
  uint32_t binding_count = 0;
  uint32_t scalar_count = 0;
  uint32_t workgroup_size[3] = {1, 1, 1};
  uint32_t subgroup_size = 0;
  uint32_t dynamic_workgroup_bytes = 0;
  uint32_t flags = 0;
  // A GpuLibraryCall that a library may compute instead; empty: there is none.
  std::span<const uint8_t> library = {};
};

struct GpuImage {
  GpuModuleKind kind = GpuModuleKind::kSpirv;
  uint32_t target = 0;
  std::vector<GpuKernel> kernels;
};

// Modules at the same address are stored once. A kernel's library record follows it as an entry of
// the same name with kGpuEntryLibraryCall.
std::vector<uint8_t> WriteGpuImage(const GpuImage& image);

// DATA_LOSS names what is wrong: sizes, offsets, an unknown kind or flag, a workgroup of size 0 or
// an empty or repeated name. What a library record says is not looked at. The result borrows from
// `bytes`.
Result<GpuImage> ReadGpuImage(std::span<const uint8_t> bytes);

// The image with library records added to kernels, by index.
Result<std::vector<uint8_t>> AddLibraryCalls(std::span<const uint8_t> image,
                                             const std::map<uint32_t, GpuLibraryCall>& calls);

}  // namespace halyard
