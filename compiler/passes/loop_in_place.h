// SPDX-License-Identifier: Apache-2.0
// In place: a kernel that computes each element of a temporary from the same element of a temporary
// that nothing reads afterwards writes it where that one stood. Typical: the residual sum at the
// end of a convolution, an activation. The arena shrinks by the value, and the sum is written to
// lines that are in the cache. Stands after fusion, which decides what is a temporary at all.
#pragma once

#include <string>
#include <vector>

#include "compiler/loop/loop_ir.h"

namespace halyard::loop {

// One value that took another's place, for reports.
struct InPlaceRecord {
  std::string kernel, value, place;
};

// Renames buffers; kernels stay otherwise as they are. Appends to `records` (may be null).
void WriteInPlace(Function& function, std::vector<InPlaceRecord>* records);

}  // namespace halyard::loop
