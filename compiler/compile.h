// SPDX-License-Identifier: Apache-2.0
// The entry points of the compiler: what the table of abi.h points to. They may throw what
// libraries throw; abi.cc catches it.
#pragma once

#include "compiler/abi.h"

namespace halyard {

// From a model to a program: the whole pipeline.
Result<CompileResult> Compile(const CompileRequest& request);
// Evaluates one-node Graph IR on host tensors.
Status InterpretNode(const InterpretRequest& request);
// Imports (or parses) the source and verifies the graph.
Status VerifyGraph(const CompileRequest& request);

}  // namespace halyard
