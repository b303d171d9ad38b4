// SPDX-License-Identifier: Apache-2.0
// What a CUDA device can do, from its attributes, NVML and, by compute capability, from tables of
// ours.
#pragma once

#include "drivers/cuda/context.h"
#include "drivers/cuda/management.h"
#include "drivers/cuda/options.h"
#include "hal/capabilities.h"

namespace halyard::drivers::cuda {

// The context need not be current.
Result<hal::Capabilities> DescribeDevice(Context& context, const Management& management,
                                         const CudaOptions& options);

// Lower-case hexadecimal digits in groups of 8-4-4-4-12, as Vulkan's deviceUUID reads too.
std::string FormatUuid(const CUuuid& uuid);

// GpuFeature bits of a compute capability (90 for 9.0).
uint64_t GpuFeaturesOf(int64_t compute_capability, bool has_programmatic_edges);
std::vector<hal::MatrixShape> MatrixShapesOf(int64_t compute_capability);

}  // namespace halyard::drivers::cuda
