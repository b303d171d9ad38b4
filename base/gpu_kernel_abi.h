// SPDX-License-Identifier: Apache-2.0
// The contract between generated GPU code and the GPU drivers: what a kernel is given and the
// layout of the image that holds kernels. Both sides include this file and nothing of each other.
//
// Arguments of a kernel, eight bytes each, in this order:
//   the device address of each binding, one per buffer parameter;
//   the value of each scalar parameter, as a signed 64-bit integer;
//   the device address of the submission's ErrorRecord;
//   the index of the dispatch within its submission, in the low 32 bits (the rest is 0).
// CUDA: they are the kernel's parameters, one each. Vulkan: they are the push constants when they
// take at most kMaxPushConstantBytes; otherwise the push constants hold one device address, of a
// block with this content. The grid that a dispatch names is in workgroups; the workgroup's size
// stands in the image. Workgroup memory is declared by the module where it is static and requested
// at launch where the entry asks for it (CUDA above 48 KiB has no other way).
#pragma once

#include <cstdint>

#include "base/error_record.h"

namespace halyard {

inline constexpr uint32_t kMaxPushConstantBytes = 128;

// An image: header, entry table, names, then modules, each at an offset that is a multiple of 16.
// Several entries may share a module.
inline constexpr uint32_t kGpuImageMagic = 0x49475948;  // "HYGI"
inline constexpr uint32_t kGpuImageVersion = 1;

enum class GpuModuleKind : uint32_t {
  kCubin = 1,     // for one architecture, as NVRTC makes it
  kPtx = 2,       // null-terminated
  kSpirv = 3,     // little-endian words
  kKernelIr = 4,  // text of one module; for devices that interpret (tests)
};

struct GpuImageHeader {
  uint32_t magic;
  uint32_t version;
  uint64_t image_bytes;  // the whole image
  uint32_t module_kind;  // GpuModuleKind
  uint32_t entry_count;  // GpuImageEntry records follow the header directly
  uint32_t target;       // CUDA: compute capability, 90 for 9.0; others: 0
  uint32_t reserved;
};

struct GpuImageEntry {
  uint32_t name_offset;  // from the image's start; not null-terminated; the symbol in the module
  uint32_t name_bytes;
  uint64_t module_offset;  // from the image's start
  uint64_t module_bytes;
  uint32_t binding_count;
  uint32_t scalar_count;
  uint32_t workgroup_size[3];        // workitems
  uint32_t subgroup_size;            // that the code relies on; 0: any
  uint32_t dynamic_workgroup_bytes;  // requested at launch; 0 where the module declares it all
  uint32_t flags;                    // kGpuEntry... bits
};
// The kernel waits for the grids before it (griddepcontrol.wait) ahead of its first access to
// memory, so that it may be launched before those have ended. Only with kDependentLaunch.
inline constexpr uint32_t kGpuEntryWaitsItself = 1u << 0;
static_assert(sizeof(GpuImageHeader) == 32 && sizeof(GpuImageEntry) == 56);

// What code may need beyond the minimum (32-bit integers, f32, 32-bit storage, subgroup shuffle and
// vote). The numbers stand in program files. CUDA devices have all but those that depend on the
// architecture.
enum class GpuFeature : uint64_t {
  kInt8 = 1ull << 0,  // arithmetic; 8-bit storage is kStorage8
  kInt16 = 1ull << 1,
  kInt64 = 1ull << 2,
  kFloat16 = 1ull << 3,  // arithmetic and conversion
  kFloat64 = 1ull << 4,
  kStorage8 = 1ull << 5,  // 8-bit elements in buffers and push constants
  kStorage16 = 1ull << 6,
  kWorkgroupStorage8 = 1ull << 7,  // explicit layout of workgroup memory with 8-bit elements
  kWorkgroupStorage16 = 1ull << 8,
  kAtomicInt64 = 1ull << 9,
  kAsyncCopy = 1ull << 10,        // cp.async, from sm_80
  kMatrix = 1ull << 11,           // mma or KHR cooperative matrices; the shapes are in the target
  kBFloat16 = 1ull << 12,         // hardware conversion and matrix operands
  kDependentLaunch = 1ull << 13,  // programmatic dependent launch, from sm_90
  // f32, and f16 and f64 where they exist: signed zeros, infinities and NaNs are kept and rounding
  // is to nearest even (Vulkan: code asks for both).
  kFloatControls = 1ull << 14,
  kDenormPreserve = 1ull << 15,  // subnormal numbers are kept (Vulkan: code asks for it)
  kFma = 1ull << 16,             // fma of f32 and f64 rounds once; Vulkan does not promise it
  kKernelIr = 1ull << 17,        // modules are Kernel IR text: a stand-in for tests
};

}  // namespace halyard
