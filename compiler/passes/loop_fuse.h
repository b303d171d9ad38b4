// SPDX-License-Identifier: Apache-2.0
// Fusion of loop kernels. Vertical: a consumer joins its producer where, in one iteration of the
// loops they share, it reads only what the producer wrote in that iteration; that covers epilogues
// of reductions and contractions, and rows (softmax, norms). Horizontal: of two kernels that go
// through equal loops and read one large buffer neither needs the other; they read it once. What
// only one kernel sees then leaves memory: scalars become values, rows become local buffers. Stands
// after lowering and before merge-loops, which removes the boundaries between loops that fusion
// matches.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "compiler/loop/loop_ir.h"

namespace halyard::loop {

struct FuseOptions {
  int max_ops = 600;                    // of a fused kernel; a transcendental counts as 8
  int max_buffers = 48;                 // that a fused kernel names
  int64_t max_local_bytes = 128 << 10;  // of all local buffers of a kernel
  int64_t min_rows = 8;           // row fusion of fewer rows is refused for rows longer than ...
  int64_t max_row_of_few = 4096;  // ... this, because it would serialise
  bool merge_loops = true;        // run MergeLoops at the end
  bool side_by_side = true;       // horizontal fusion
};

// One decision, for `explain`.
struct FusionRecord {
  std::string producer, consumer;  // kernel names
  bool is_fused = false;
  std::string reason;  // what allowed it, or what forbade it
  std::string kernel;  // name of the fused kernel; empty where they stay apart
};

Status FuseKernels(Function& function, const FuseOptions& options,
                   std::vector<FusionRecord>* records);

// The decisions of FuseKernels alone: its kernels with their nodes, whose bodies are not yet what
// they will be. For whoever asks what would become one kernel.
Status JoinKernels(Function& function, const FuseOptions& options,
                   std::vector<FusionRecord>* records);

// Merges perfectly nested loops of one kind and role where every index lets it, so that what is
// contiguous becomes one loop.
void MergeLoops(Function& function);

}  // namespace halyard::loop
