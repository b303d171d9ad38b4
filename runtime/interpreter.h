// SPDX-License-Identifier: Apache-2.0
// Interpreter: how a session evaluates an op that no device compiles. Implemented by the compiler
// library; the session only knows this function.
#pragma once

#include <functional>

#include "compiler/abi.h"

namespace halyard::runtime {

// Thread-safe. Empty when the program has no interpreted op.
using Interpreter = std::function<Status(const InterpretRequest& request)>;

}  // namespace halyard::runtime
