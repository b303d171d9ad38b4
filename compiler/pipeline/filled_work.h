// SPDX-License-Identifier: Apache-2.0
// What a kernel computes only because its operands were filled up for alignment: no work of the
// model, though the device does it.
#pragma once

#include "compiler/graph/graph.h"
#include "compiler/loop/loop_ir.h"

namespace halyard::pipeline {

// FLOPs of the products with channels that the pass `layout` filled up (`filled_channels` of conv)
// in a kernel that was lowered from `graph`; 0 where there are none. The module gains expressions.
Expr FilledFlops(graph::Module& module, const graph::Graph& graph, const loop::Kernel& kernel);

}  // namespace halyard::pipeline
