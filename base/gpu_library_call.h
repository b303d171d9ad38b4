// SPDX-License-Identifier: Apache-2.0
// The contract between the compiler and the CUDA driver about what a vendor's library may compute
// instead of a kernel of ours. Such a record stands in a GPU image beside the entry that it may
// replace (base/gpu_image.h): same bindings, same results up to rounding. Who loads the image
// decides which of the two runs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/gpu_library_convolution.h"
#include "base/gpu_library_matmul.h"

namespace halyard {

// In GpuImageEntry::flags, alone: no kernel; its module is a GpuLibraryCall that may stand for the
// entry before it, whose name it has. Not in SPIR-V images.
inline constexpr uint32_t kGpuEntryLibraryCall = 1u << 1;

// What is computed; each kind has one library.
enum class GpuLibraryKind : uint32_t {
  kMatmul = 1,       // cuBLASLt
  kConvolution = 2,  // cuDNN
};
inline constexpr GpuLibraryKind kGpuLibraryKinds[] = {GpuLibraryKind::kMatmul,
                                                      GpuLibraryKind::kConvolution};

// How the library computes it: what one library of one version chose on one device. All of it
// stands in program files.
struct GpuLibraryChoice {
  uint64_t version = 0;      // as the library numbers itself, cuBLASLt 13.1.0: 130100; 0: no choice
  uint64_t device_hash = 0;  // of the device's name and number of units
  int64_t workspace_bytes = 0;
  // cublasLtMatmulAlgo_t; of cuDNN an engine and its knobs (drivers/cuda/cudnn_library.cc).
  uint64_t algorithm[8] = {};
  friend bool operator==(const GpuLibraryChoice&, const GpuLibraryChoice&) = default;
};

// As bytes in an image: exactly this structure.
struct GpuLibraryCall {
  GpuLibraryKind kind = GpuLibraryKind::kMatmul;
  // kNoLibraryBinding: the algorithm needs no workspace. The binding holds kLibraryWorkspaceSlack
  // bytes more than `choice` says, so that its start can be aligned.
  uint32_t workspace_binding = kNoLibraryBinding;
  GpuLibraryChoice choice;
  GpuLibraryMatmul matmul;            // kMatmul
  GpuLibraryConvolution convolution;  // kConvolution
  friend bool operator==(const GpuLibraryCall&, const GpuLibraryCall&) = default;
};
static_assert(sizeof(GpuLibraryCall) ==
              8 + 88 + sizeof(GpuLibraryMatmul) + sizeof(GpuLibraryConvolution));

// The libraries want their workspace aligned to 256 bytes; ranges of an arena are to 64.
inline constexpr int64_t kLibraryWorkspaceAlignment = 256;
inline constexpr int64_t kLibraryWorkspaceSlack = 192;

// "cuBLASLt", and what it computes: "matrix products".
std::string_view LibraryName(GpuLibraryKind kind);
std::string_view LibraryWork(GpuLibraryKind kind);
// "the product 512x768x768 f16 with bias, gelu", for messages.
std::string FormatLibraryCall(const GpuLibraryCall& call);

}  // namespace halyard
