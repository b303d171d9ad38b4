// SPDX-License-Identifier: Apache-2.0
// Convolutions that cuDNN computes in place of a kernel, run on a device and compared with sums in
// double.
#pragma once

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/gpu_image.h"
#include "base/gpu_library_call.h"
#include "hal/device.h"

namespace halyard::drivers::cuda {

struct ConvolutionCase {
  int64_t images = 1, input_channels = 3, output_channels = 5;
  int64_t input[2] = {7, 6}, window[2] = {3, 3};
  int64_t stride = 1, dilation = 1, pad_before = 1, pad_after = 1;
  DType input_dtype = DType::kF32, output_dtype = DType::kF32;
  bool is_planar = false;  // channels outside, else innermost
  bool has_z = false, has_bias = false;
  int64_t padding = 0;  // elements before the first
  size_t proposal = 0;
};

// Bindings: x, w, z, bias, y, workspace.
GpuLibraryCall RecordOf(const ConvolutionCase& shape);

// An image of one kernel of six bindings that writes -1234 into y's first element, and its record.
std::vector<uint8_t> ConvolutionImage(GpuModuleKind kind, uint32_t target,
                                      std::span<const uint8_t> record);

// Two sets of x and y, run in turn through one recording: 0, 1, 0.
class ConvolutionRun {
 public:
  ConvolutionRun(hal::Device& device, GpuModuleKind kind, uint32_t target)
      : device_(device), kind_(kind), target_(target) {}

  // `with_nan`: the middle of w's first window is NaN, and with it the first channel of y.
  Status Run(const GpuLibraryCall& call, bool with_nan = false);
  Result<Ref<hal::Executable>> Load(std::span<const uint8_t> record);

  // Of at most `most` results in each set: the largest error in units of 1 + |wanted|, infinite
  // where one is NaN and the other is not.
  double LargestError(const GpuLibraryCall& call, int64_t most) const;
  // Of y as it was written in set 0.
  double First(const GpuLibraryCall& call) const;

 private:
  Result<Ref<hal::Buffer>> Upload(const std::vector<uint8_t>& bytes);
  Result<std::vector<uint8_t>> Download(const Ref<hal::Buffer>& buffer);
  Status Wait(hal::Semaphore* semaphore);

  hal::Device& device_;
  const GpuModuleKind kind_;
  const uint32_t target_;
  std::vector<uint8_t> x_[2], w_, z_, bias_, y_[2];
};

}  // namespace halyard::drivers::cuda
