// SPDX-License-Identifier: Apache-2.0
// What of a kernel a library of the device's vendor would compute (base/gpu_library_call.h). With
// anything behind it that the library lacks the kernel is cut in two, the library's sums and the
// rest, which pass the sums to each other in the type that the kernel rounds them to first.
#pragma once

#include <cstdint>

#include "base/gpu_library_call.h"
#include "compiler/loop/loop_ir.h"
#include "compiler/schedule/common/contraction_problem.h"

namespace halyard::schedule {

struct LibraryPlan {
  // Bindings are buffers of the function. Of a cut kernel, the result's is kNoLibraryBinding where
  // the sums pass through a workspace. No choice is made yet.
  GpuLibraryCall call;
  bool is_cut = false;
  // is_cut: of the sums that the two parts pass, where in the result's buffer or the workspace the
  // sum of an iteration lies (over the kernel's loops), and how large a workspace is.
  DType between = DType::kInvalid;
  Expr place;
  int64_t elements = 0;
};

// f32, f16 and bf16.
bool IsLibraryType(DType dtype);

// The only store behind the sum; null where there are several.
const loop::Op* OnlyStoreBehind(const loop::Kernel& kernel, const Problem& problem);

// The type of what the parts of a cut kernel pass to each other, for operands of type `input`.
DType TypeBetween(const loop::Kernel& kernel, const Problem& problem, DType input);

// Whether sums of that type can pass through the place of what the kernel stores at last.
bool PassesThroughResult(const loop::Function& function, const loop::Kernel& kernel,
                         const loop::Op* store, DType between);

}  // namespace halyard::schedule
