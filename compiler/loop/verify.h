// SPDX-License-Identifier: Apache-2.0
// The verifier of Loop IR: structure, scopes and types. It proves nothing about bounds; the
// interpreter checks those.
#pragma once

#include "base/status.h"
#include "compiler/loop/loop_ir.h"

namespace halyard::loop {

// INTERNAL naming kernel and statement when the function is not well formed: passes must never make
// one.
Status VerifyFunction(const Function& function);

}  // namespace halyard::loop
