// SPDX-License-Identifier: Apache-2.0
// The contract between the compiler and the CUDA driver about products that a vendor's library may
// compute instead of a kernel of ours. Such a record stands in a GPU image beside the entry that it
// may replace (base/gpu_image.h): same bindings, same results up to rounding. Who loads the image
// decides which of the two runs.
//
//   D(i, j) = activation(sum over l of A(i, l) * B(l, j) + C(i, j) + bias(i))     for each batch
//
// Sums are in f32, and D is rounded once. D and C lie with i contiguous; of the two strides of A
// and of B one is 1. C and bias may be absent.
#pragma once

#include <cstdint>
#include <string>

#include "base/dtype.h"

namespace halyard {

// In GpuImageEntry::flags, alone: no kernel; its module is a GpuLibraryMatmul that may stand for
// the entry before it, whose name it has. Not in SPIR-V images.
inline constexpr uint32_t kGpuEntryLibraryMatmul = 1u << 1;

inline constexpr uint32_t kNoLibraryBinding = UINT32_MAX;

// What one operand is: a binding of the entry and places in it, in elements.
struct GpuLibraryOperand {
  uint32_t binding = kNoLibraryBinding;
  uint32_t reserved = 0;
  int64_t offset = 0;
  int64_t row_stride = 1;  // between neighbouring rows
  int64_t col_stride = 0;
  int64_t batch_stride = 0;
  friend bool operator==(const GpuLibraryOperand&, const GpuLibraryOperand&) = default;
};

enum class GpuLibraryActivation : uint32_t {
  kNone = 0,
  // Not 1, which was ReLU: in f32 the library makes zeros of NaN (on an H200, version 13.1).
  kGeluTanh = 2,  // x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
};

// Which of the library's algorithms computes it: what one library of one version chose on one
// device. All of it stands in program files.
struct GpuLibraryChoice {
  uint64_t version = 0;      // as the library numbers itself, cuBLASLt 13.1.0: 130100; 0: no choice
  uint64_t device_hash = 0;  // of the device's name and number of units
  int64_t workspace_bytes = 0;
  uint64_t algorithm[8] = {};  // cublasLtMatmulAlgo_t
  friend bool operator==(const GpuLibraryChoice&, const GpuLibraryChoice&) = default;
};

// As bytes in an image: exactly this structure.
struct GpuLibraryMatmul {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  uint32_t input_dtype = 0;   // DType of A and B: f32, f16 or bf16
  uint32_t output_dtype = 0;  // DType of C, D and bias: that of A and B, or f32
  GpuLibraryActivation activation = GpuLibraryActivation::kNone;
  // kNoLibraryBinding: the algorithm needs no workspace. The binding holds kLibraryWorkspaceSlack
  // bytes more than `choice` says, so that its start can be aligned.
  uint32_t workspace_binding = kNoLibraryBinding;
  GpuLibraryOperand a, b, c, d, bias;  // bias: strides mean nothing
  GpuLibraryChoice choice;
  friend bool operator==(const GpuLibraryMatmul&, const GpuLibraryMatmul&) = default;
};
static_assert(sizeof(GpuLibraryOperand) == 40 && sizeof(GpuLibraryMatmul) == 336);

// cuBLASLt wants its workspace aligned to 256 bytes; ranges of an arena are to 64.
inline constexpr int64_t kLibraryWorkspaceAlignment = 256;
inline constexpr int64_t kLibraryWorkspaceSlack = 192;

// "512x768x768 f16 with bias, gelu", for messages.
std::string FormatLibraryMatmul(const GpuLibraryMatmul& matmul);

}  // namespace halyard
