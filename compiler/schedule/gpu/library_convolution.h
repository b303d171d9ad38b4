// SPDX-License-Identifier: Apache-2.0
// Contractions as convolutions of cuDNN's (base/gpu_library_convolution.h). Loops and indices are
// read as numbers, not by what the model called them: whatever convolution has the same sum will
// do. It takes a bias and one addend of the result's shape behind the sum.
#pragma once

#include <optional>
#include <string>

#include "compiler/schedule/gpu/library_plan.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

// Nothing where the kernel is no convolution over one or two dimensions with fixed sizes and one
// group, or it is too small to be worth asking (which it never is for a device that interprets, a
// stand-in); `why` (may be null) says what stands in the way.
std::optional<LibraryPlan> PlanLibraryConvolution(const loop::Function& function,
                                                  const loop::Kernel& kernel,
                                                  const Problem& problem, const Target& target,
                                                  std::string* why);

}  // namespace halyard::schedule
