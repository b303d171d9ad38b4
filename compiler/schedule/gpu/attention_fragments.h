// SPDX-License-Identifier: Apache-2.0
// Attention of 16-bit operands on matrix units, after FlashAttention-2 (Dao, 2023): a subgroup has
// 16 query rows as fragments and walks over blocks of keys and values in workgroup memory. Scores,
// their maximum and the sum of weights stay in registers in f32; weights are rounded to the dtype
// of the values, as the second product takes them. Where the target does not tell which elements of
// a fragment a workitem has, both pass through workgroup memory. Where rows are few, the subgroups
// of a workgroup share rows and divide each block's keys, and workgroups divide all keys; both join
// in a fixed order.
#pragma once

#include <vector>

#include "base/status.h"
#include "compiler/loop/loop_ir.h"
#include "compiler/schedule/gpu/online_softmax.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

// Best first, all of which build; empty where operands or target do not have the form. In the
// record, tile.m counts rows and tile.n keys of a block, item_m (16) and item_n those of a
// subgroup, split the workgroups that share rows.
std::vector<ScheduleRecord> EnumerateFragmentAttention(const loop::Function& function,
                                                       uint32_t kernel, const OnlineSoftmax& online,
                                                       const Target& target);

Result<ScheduledKernel> BuildFragmentAttention(const loop::Function& function, uint32_t kernel,
                                               const ScheduleRecord& record,
                                               const OnlineSoftmax& online, const Target& target);

}  // namespace halyard::schedule
