// SPDX-License-Identifier: Apache-2.0
// Contractions that a library of NVIDIA's may compute (library_plan.h): products of matrices
// (library_matmul.h) and convolutions (library_convolution.h).
//
// Roundings to 16 bits between the sum and the end of a folded epilogue are left out: the sums stay
// in f32. The entry that the library stands in for is a kernel of ours of the same function.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/gpu_library_call.h"
#include "compiler/schedule/gpu/library_plan.h"
#include "compiler/schedule/schedule.h"

namespace halyard::schedule {

// Nothing where no library can compute the kernel's sum, or it is too small to be worth asking
// (which it never is for a device that interprets, a stand-in); `why` (may be null) says what
// stands in the way.
std::optional<LibraryPlan> PlanLibraryCall(const loop::Function& function, uint32_t kernel,
                                           const Target& target, std::string* why);

// The buffer that the library writes; kNoLibraryBinding: a workspace, as in LibraryPlan.
uint32_t ResultBinding(GpuLibraryCall call);

// Records of kind kGpuLibrary for what the library proposed. `records`: of our own schedules, best
// first; the first that is one dispatch without a split sum stands in where the library is missing.
// Empty where none is.
std::vector<ScheduleRecord> LibrarySchedules(std::span<const ScheduleRecord> records,
                                             std::span<const GpuLibraryCall> proposals);

// Of kind kGpuLibrary.
Result<ScheduledKernel> BuildLibraryCall(const loop::Function& function, uint32_t kernel,
                                         const ScheduleRecord& record, const Target& target);

}  // namespace halyard::schedule
