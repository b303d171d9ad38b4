// SPDX-License-Identifier: Apache-2.0
// The kernels that exercise what only GPUs have: ids, subgroups, barriers, workgroup memory,
// aligned accesses, async copies, atomics between workitems and matrix fragments. One list for
// every GPU emitter; buffers and inputs are those of op_cases.h.
#pragma once

#include <string>
#include <vector>

#include "compiler/target/target.h"
#include "tests/codegen/op_cases.h"

namespace halyard::testing {

struct GpuCase {
  OpCase c;
  int64_t grid[3] = {1, 1, 1};
  int64_t elements = kCaseElements + kCaseSlack;  // of every buffer parameter
};

// A family of cases: "ids", "widened", "places", "subgroups", "align", "workgroup_memory",
// "private_memory", "async_copies", "atomics", "arrivals", "control", "reports", "arguments",
// "fragments", "products". Fragments: one case for each matrix shape of the target, use and layout;
// none without. Products: on compute capability 9.0. A buffer named "counters" begins with zeros.
std::vector<std::string> GpuCaseFamilies();
std::vector<GpuCase> GpuCasesFor(const std::string& family, const GpuTarget& target);

}  // namespace halyard::testing
