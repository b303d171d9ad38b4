// SPDX-License-Identifier: Apache-2.0
// Contractions that a library of NVIDIA's may compute (base/gpu_library_call.h): what of a kernel
// the library does, and what is left for kernels of ours. The library's product takes a bias along
// the contiguous side of the result, one addend of the result's shape, and GELU (tanh);
// with anything else behind it the kernel is cut in two, the product and the rest, which pass the
// sums to each other in the type that the kernel rounds them to first.
//
// Roundings to 16 bits between the product and the end of a folded epilogue are left out: the sums
// stay in f32. The entry that the library stands in for is a kernel of ours of the same function.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/gpu_library_call.h"
#include "compiler/schedule/schedule.h"

namespace halyard::schedule {

struct LibraryPlan {
  // Bindings are buffers of the function. Of a cut kernel, D's is kNoLibraryBinding where the sums
  // pass through a workspace. No choice is made yet.
  GpuLibraryCall call;
  bool is_cut = false;
  DType between = DType::kInvalid;  // is_cut: of the sums that the two parts pass
};

// Nothing where the library cannot compute the kernel's product, or it is too small to be worth
// asking (which it never is for a device that interprets, a stand-in); `why` (may be null) says
// what stands in the way.
std::optional<LibraryPlan> PlanLibraryMatmul(const loop::Function& function, uint32_t kernel,
                                             const Target& target, std::string* why);

// Records of kind kGpuLibrary for what the library proposed. `records`: of our own schedules, best
// first; the first that is one dispatch without a split sum stands in where the library is missing.
// Empty where none is.
std::vector<ScheduleRecord> LibrarySchedules(std::span<const ScheduleRecord> records,
                                             std::span<const GpuLibraryCall> proposals);

// Of kind kGpuLibrary.
Result<ScheduledKernel> BuildLibraryMatmul(const loop::Function& function, uint32_t kernel,
                                           const ScheduleRecord& record, const Target& target);

}  // namespace halyard::schedule
