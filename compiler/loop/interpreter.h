// SPDX-License-Identifier: Apache-2.0
// The Loop IR interpreter: the slow oracle that lowering, fusion and scheduling are tested against.
// It checks what the verifier cannot: bounds, reads of elements that nothing wrote, elements
// written by two iterations of one kernel.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "base/status.h"
#include "compiler/graph/tensor.h"
#include "compiler/loop/loop_ir.h"

namespace halyard::loop {

struct InterpretOptions {
  std::function<std::optional<int64_t>(Expr)> value_of;  // of dimension symbols
  bool reverse_parallel = false;  // runs parallel loops backwards: a correct kernel does not notice
};

// `buffers` has one tensor per buffer of the function, flat. Inputs and constants are given (dtype
// and size as the buffer's); the others are made here, poisoned. OUT_OF_RANGE on an access out of
// bounds or a checked index out of range, FAILED_PRECONDITION on a read of what nothing wrote.
Status InterpretFunction(const Function& function, const InterpretOptions& options,
                         std::vector<graph::Tensor>& buffers);

}  // namespace halyard::loop
