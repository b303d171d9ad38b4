// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/options.h"

#include "base/env.h"
#include "hal/device_options.h"

namespace halyard::drivers::cuda {
namespace {

constexpr hal::OptionRow<CudaOptions> kOptionRows[] = {
    {"compute_queues", &CudaOptions::compute_queues, 1, 64},
    {"copy_queues", &CudaOptions::copy_queues, 1, 64},
    {"memory_bytes", &CudaOptions::memory_bytes, 0, INT64_MAX},
    {"graph_commands", &CudaOptions::graph_commands, 1, INT64_MAX},
    {"dependent_launch", &CudaOptions::dependent_launch, 0, 1},
    {"poll_us", &CudaOptions::poll_us, 0, 1000000},
    {"wait_limit_s", &CudaOptions::wait_limit_s, 0, 1000000},
};

}  // namespace

Result<CudaOptions> ParseCudaOptions(std::span<const hal::DeviceOption> options) {
  CudaOptions parsed;
  parsed.is_serial = EnvFlag(EnvVar::kValidate);
  HY_TRY(hal::ParseOptions("CUDA", kOptionRows, options, &parsed));
  return parsed;
}

}  // namespace halyard::drivers::cuda
