// SPDX-License-Identifier: Apache-2.0
// Contractions as products of cuBLASLt's (base/gpu_library_matmul.h). Its product takes a bias
// along the contiguous side of the result, one addend of the result's shape, and GELU (tanh).
#pragma once

#include <optional>
#include <string>

#include "compiler/schedule/gpu/library_plan.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

// Nothing where the library cannot compute the product, or it is too small to be worth asking
// (which it never is for a device that interprets, a stand-in); `why` (may be null) says what
// stands in the way.
std::optional<LibraryPlan> PlanLibraryMatmul(const loop::Function& function,
                                             const loop::Kernel& kernel, const Problem& problem,
                                             const Target& target, std::string* why);

}  // namespace halyard::schedule
