// SPDX-License-Identifier: Apache-2.0
// The limits of the devices' memories against the program as it is: what placement counts before
// the kernels exist is an estimate. A program that takes too much is placed again with that much
// less, and at last with as little as can be, so that no limit is refused above one that is met.
#pragma once

#include <optional>

#include "base/status.h"
#include "compiler/pipeline/state.h"

namespace halyard::pipeline {

// Of an assembled program: fills memory_excess. OUT_OF_MEMORY where the program takes too much,
// which is the compilation's failure in the last attempt only; there it has to be too much for what
// the caller or the device allows, not only for what placement keeps to.
Status CheckMemory(CompileState& state);

// What to try after an attempt that failed with `status`; nothing where that is the answer.
std::optional<MemoryAttempt> NextAttempt(const CompileState& failed, const Status& status,
                                         uint32_t attempts);

}  // namespace halyard::pipeline
