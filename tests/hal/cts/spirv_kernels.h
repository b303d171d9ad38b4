// SPDX-License-Identifier: Apache-2.0
// The test kernels' SPIR-V modules one by one, for the tests of the driver itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace halyard::cts {

struct SpirvKernel {
  std::string name;
  std::vector<uint32_t> words;
  uint32_t binding_count = 0;
  uint32_t scalar_count = 0;
};
// In the order of the test image.
std::vector<SpirvKernel> SpirvTestKernels();

}  // namespace halyard::cts
