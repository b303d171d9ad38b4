// SPDX-License-Identifier: Apache-2.0
// The walk that every op-replacing pass over Kernel IR shares: rebuilds a kernel through the
// builder, op by op, and lets the pass write something else in the place of an op. Not for passes
// that move ops.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "compiler/kernel/builder.h"

namespace halyard::kernel {

// Called for each op without blocks and with one result; `operands` are values of the new kernel.
// Returns the value that replaces the result, or nothing to keep the op as it is.
using OpRewrite = std::function<std::optional<ValueId>(Builder* b, const Op& op,
                                                       std::span<const ValueId> operands)>;

// `kernel` must be verified.
Kernel RewriteOps(const Kernel& kernel, const OpRewrite& rewrite);

}  // namespace halyard::kernel
