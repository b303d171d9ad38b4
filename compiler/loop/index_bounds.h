// SPDX-License-Identifier: Apache-2.0
// What a kernel demands of the integers that it reads and uses as indices. For whoever makes
// content that the kernel can run on; the check of every index stays in the kernel.
#pragma once

#include <map>

#include "compiler/loop/loop_ir.h"

namespace halyard::loop {

struct IndexBound {
  int64_t extent = 0;      // every element has to be less, at the hints of the sizes; at least 1
  bool is_direct = false;  // an element is the index, as it is or converted: 0 to extent - 1 all do
};

// Per buffer of integers that the kernel's checked indices are computed from: the least extent. An
// index that comes from floats, or from what the kernel itself computes, names no buffer.
std::map<BufferId, IndexBound> IndexBoundsOf(const Function& function, uint32_t kernel);

}  // namespace halyard::loop
