// SPDX-License-Identifier: Apache-2.0
// Split reductions: a long reduction of few rows leaves all workers but few idle. It becomes two
// kernels, one that reduces parts of each row and one that reduces the parts and does the rest. How
// many parts depends on sizes alone, so that the result does not change with the number of workers.
// For CPUs; GPU schedules cut long rows themselves. Stands after fusion, which decides what the
// kernel around a reduction is.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "compiler/loop/loop_ir.h"

namespace halyard::loop {

struct SplitOptions {
  int64_t most_rows = 8;       // rows that reduce side by side already
  int64_t least_work = 65536;  // elements of one row
  int64_t least_part = 4096;   // elements of one part
  int64_t most_parts = 64;     // of one row
};

struct SplitRecord {
  std::string kernel;
  int64_t parts = 0;  // of each row
};

// Leaves arg reductions, ordered reductions, templates and sizes that are not known as they are.
Status SplitReductions(Function& function, const SplitOptions& options,
                       std::vector<SplitRecord>* records);

}  // namespace halyard::loop
