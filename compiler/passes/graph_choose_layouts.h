// SPDX-License-Identifier: Apache-2.0
// The choice of storage orders inside one segment. It stands after segmentation, because only a
// value that never leaves its segment may have an order of its own, and before lowering, which
// writes the order into every index; nothing after lowering knows of layouts.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "compiler/graph/graph.h"

namespace halyard::graph {

// One decision, for `explain`.
struct LayoutRecord {
  std::string node;
  std::string text;
};

// Convolutions store their channels innermost where vectors of `lanes` elements along the channels
// are well filled: a pixel's channels are then contiguous, the contraction broadcasts pixels
// against packed weights, and a 1x1 convolution reads its operand in place. Elementwise nodes,
// pools, pads, slices and concats follow what they read. Constant weights of depthwise convolutions
// are rewritten with channels innermost, since no contraction packs them; so are those of all
// windows unless `packs_weights`, and there a row-major operand is also copied with its channels
// filled up to a multiple of 4, and constant matrices whose rows no vectors fill are transposed.
// Parameters, results and constants of the graph stay row-major.
Status ChooseLayouts(Module& module, uint32_t graph, int lanes, bool packs_weights,
                     std::vector<LayoutRecord>* records);
// The same for the entry graph and vectors of 16 elements: for tools that run passes by name.
Status ChooseEntryLayouts(Module& module);

}  // namespace halyard::graph
