// SPDX-License-Identifier: Apache-2.0
// The contract between generated CPU code and the CPU driver: the signature of a kernel and the layout of
// the flat image that holds kernels. Both sides include this file and nothing of each other.
#pragma once

#include <cstdint>

#include "base/error_record.h"

namespace halyard {

// What a kernel receives besides its workgroup id. Owned by the driver, valid during the call.
struct CpuDispatchArgs {
  void* const* bindings;    // one address per buffer parameter, in order; 64-byte aligned buffers
  const int64_t* scalars;   // one value per scalar parameter, in order
  ErrorRecord* error;       // of the submission; never null
  void* workgroup_memory;   // private to this call, 64-byte aligned, of the size the entry asks for
  uint32_t dispatch_index;  // copied into the error record on failure
  uint32_t reserved;
};

// One call runs one workgroup. Kernels neither block nor throw nor call anything.
using CpuKernelFunction = void (*)(const CpuDispatchArgs* args, int64_t x, int64_t y, int64_t z);

// A flat image: header, entry table, names, read-only data and page-aligned text. Position-independent, no
// relocations left; mapped PROT_READ|PROT_EXEC as a whole.
inline constexpr uint32_t kCpuImageMagic = 0x49435948;  // "HYCI"
inline constexpr uint32_t kCpuImageVersion = 1;

struct CpuImageHeader {
  uint32_t magic;
  uint32_t version;
  uint64_t image_bytes;   // the whole image
  uint64_t features;      // CpuFeature bits that the code needs; refused where one is missing
  uint32_t entry_count;   // CpuImageEntry records follow the header directly
  uint32_t reserved;
};

struct CpuImageEntry {
  uint32_t name_offset;   // from the image's start; not null-terminated
  uint32_t name_bytes;
  uint64_t code_offset;   // from the image's start
  uint64_t workgroup_memory_bytes;
  uint32_t binding_count;
  uint32_t scalar_count;
};
static_assert(sizeof(CpuImageHeader) == 32 && sizeof(CpuImageEntry) == 32);

// The instruction sets that code may need. The numbers stand in images and program files.
enum class CpuFeature : uint64_t {
  kSse42 = 1ull << 0,
  kAvx2 = 1ull << 1,         // with FMA, BMI2 and F16C
  kAvx512 = 1ull << 2,       // F, BW, CD, DQ, VL
  kAvx512Vnni = 1ull << 3,
  kAvx512Bf16 = 1ull << 4,
  kAvx512Fp16 = 1ull << 5,
  kAmxTile = 1ull << 6,
  kAmxInt8 = 1ull << 7,
  kAmxBf16 = 1ull << 8,
};

}  // namespace halyard
