// SPDX-License-Identifier: Apache-2.0
// An epilogue read as what libraries can do behind a product: a sum with loads, then an activation.
#pragma once

#include <optional>
#include <vector>

#include "base/gpu_library_matmul.h"
#include "compiler/loop/loop_ir.h"

namespace halyard::schedule {

struct LibraryEpilogue {
  GpuLibraryActivation activation = GpuLibraryActivation::kNone;
  std::vector<loop::OpId> addends;  // unmasked loads of floats
};

// `stored`: the value that the kernel stores, `sum`: that of the product. Conversions between f32,
// f16 and bf16 on the way are passed over. Nothing where it is anything else.
std::optional<LibraryEpilogue> ReadLibraryEpilogue(const loop::Kernel& kernel, loop::ValueId sum,
                                                   loop::ValueId stored);

}  // namespace halyard::schedule
