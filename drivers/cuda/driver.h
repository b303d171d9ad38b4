// SPDX-License-Identifier: Apache-2.0
// CudaDriver: the NVIDIA GPUs that this process may use, through libcuda.
#pragma once

#include "hal/driver.h"

namespace halyard::drivers::cuda {

// UNAVAILABLE, with the reason, when the library, one of its symbols, a new enough driver or a GPU
// is missing.
Result<Ref<hal::Driver>> OpenCudaDriver();

}  // namespace halyard::drivers::cuda
