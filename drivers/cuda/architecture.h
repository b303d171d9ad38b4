// SPDX-License-Identifier: Apache-2.0
// What NVIDIA's white papers say of a multiprocessor, by compute capability, and of whole chips:
// the fields that no query answers. From the architecture papers of Volta to Blackwell and the
// table of technical specifications in the CUDA programming guide.
#pragma once

#include <cstdint>

#include "hal/capabilities.h"

namespace halyard::drivers::cuda {

// Fills what the tables know of `compute_capability` (90 for 9.0), and of the board where its numbers
// are known (hal/known_boards.h); what was told by the API stays.
// Rates follow from lanes, units and clocks, so those come first.
void DescribeArchitecture(int64_t compute_capability, hal::Capabilities* out);

}  // namespace halyard::drivers::cuda
