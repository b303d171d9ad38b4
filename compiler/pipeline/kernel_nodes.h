// SPDX-License-Identifier: Apache-2.0
// KernelNodes: which nodes of the graph each kernel stands for, where times of kernels are told or
// asked for. A cheap node that several kernels compute, each for itself, such as what makes a mask
// of all layers' attention, is of the first of them: it makes no single work of them all.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "compiler/pipeline/state.h"

namespace halyard::pipeline {

// Per kernel of all the segments, in order, names of its nodes. They live as long as the segments.
std::vector<std::vector<std::string_view>> NodesOfKernels(const graph::Module& module,
                                                          std::span<const Segment> segments);

}  // namespace halyard::pipeline
