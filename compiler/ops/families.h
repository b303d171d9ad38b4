// SPDX-License-Identifier: Apache-2.0
// The families of op records, one source file each; all.cc joins them. Nothing but they and
// all.cc includes this.
#pragma once

#include <span>

#include "compiler/ops/op_def.h"

namespace halyard::graph {

std::span<const OpDef> SourceOps();       // constant, symbolic, shape_of, iota, random_bits
std::span<const OpDef> UnaryOps();        // neg to round_even
std::span<const OpDef> BinaryOps();       // add to shr
std::span<const OpDef> SelectionOps();    // eq to ge, select, cast, bitcast
std::span<const OpDef> ViewOps();         // broadcast, reshape, transpose, slice, pad, concat
std::span<const OpDef> IndexingOps();     // gather and its kind, scatter, check_index
std::span<const OpDef> ReductionOps();    // reduce_*, argmax, argmin, cumsum
std::span<const OpDef> MatmulOps();       // matmul
std::span<const OpDef> ConvolutionOps();  // conv, conv_transpose
std::span<const OpDef> PoolingOps();      // max_pool, avg_pool
std::span<const OpDef> ResizeOps();       // resize
std::span<const OpDef> AttentionOps();    // attention
std::span<const OpDef> OrderingOps();     // sort, topk, nonzero
std::span<const OpDef> ControlOps();      // if, loop

}  // namespace halyard::graph
