// SPDX-License-Identifier: Apache-2.0
// Attention in one kernel with an online softmax, after FlashAttention (Dao et al., 2022): a
// workgroup owns a block of query rows and walks over blocks of keys, keeping the running maximum
// and sum of each row and rescaling what it has summed so far. Scores live in workgroup memory
// only; masks and scales are whatever the loop kernel's body says. Where the body hides every key
// beyond one that grows with the row (a causal mask), blocks of hidden keys are not visited.
#pragma once

#include <vector>

#include "base/status.h"
#include "compiler/loop/loop_ir.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

// Best first, all of which build; empty where the kernel is no attention of the form
//   scores[j] = f(sum of q * k); maximum; weights[j] = exp(scores[j] - maximum) and their sum;
//   g(sum of weights * v, the sum of weights).
// In the record, tile.m counts rows and tile.n keys of a block.
std::vector<ScheduleRecord> EnumerateGpuAttention(const loop::Function& function, uint32_t kernel,
                                                  const Target& target);

Result<ScheduledKernel> BuildGpuAttention(const loop::Function& function, uint32_t kernel,
                                          const ScheduleRecord& record, const Target& target);

}  // namespace halyard::schedule
