// SPDX-License-Identifier: Apache-2.0
// The passes over Graph IR: each is a function of a module, exact but where its comment argues
// otherwise. The pipeline says which run and in what order; tools find them by name in the table.
// All leave a well-formed module and keep the names of parameters and results.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/graph/graph.h"

namespace halyard::graph {

struct GraphPass {
  std::string_view name;  // "fold-constants"
  std::string_view doc;
  Status (*run)(Module& module);
};

// In the order in which a pipeline would run them.
std::span<const GraphPass> AllGraphPasses();
// Null when there is none of that name.
const GraphPass* FindGraphPass(std::string_view name);

// graph_refresh_types.cc: runs shape inference over all nodes again, regions before their nodes.
// After anything that narrows symbols or replaces operands by values that say more.
Status RefreshTypes(Module& module);
// graph_propagate_shapes.cc: an integer value whose elements inference knows becomes a constant, or
// a `symbolic` node where they depend on symbols. What computed it is dead then.
Status PropagateShapeValues(Module& module);
// graph_fold_constants.cc: evaluates nodes whose operands are constants, where the result is small
// and no larger than its operands (a broadcast stays a broadcast).
Status FoldConstants(Module& module);
// graph_canonicalize.cc: local rules that never change a value: identities, chains of views and
// casts, transposes that a matmul takes as a flag.
Status Canonicalize(Module& module);
// graph_merge_common.cc: nodes that say the same become one.
Status MergeCommon(Module& module);
// graph_fold_affine.cc: per-channel multiplications and additions of constants after a convolution
// with constant weights go into the weights and one addition. Changes rounding: see there.
Status FoldAffine(Module& module);
// graph_fuse_attention.cc: matmul, scale, mask, softmax, matmul become one attention node. Late,
// since it wants to see what the others have cleaned.
Status FuseAttention(Module& module);
// The same, telling the names of the nodes that an attention node computes beside its own; of some
// of them another reader may keep a node, too.
struct FusedAttention {
  std::string node;
  std::vector<std::string> parts;
};
Status FuseAttentionAndTell(Module& module, std::vector<FusedAttention>* records);
// graph_merge_matmul.cc: products of one value with constant matrices become one product, read
// through slices. After attention is found, since only what templates read is merged.
Status MergeMatmuls(Module& module);
// The same, telling which nodes became one, each with the columns of the merged matrix, and which
// additions went into it. The product has the first one's name, its slices those of all. `wishes`
// has a text per node of the module, or is empty: products of different texts stay apart.
struct MergedMatmul {
  std::vector<std::string> nodes;
  std::vector<std::string> sums;
  int64_t columns = 0;
};
Status MergeMatmulsAndTell(Module& module, std::span<const std::string> wishes,
                           std::vector<MergedMatmul>* records);
// graph_narrow_floats.cc: f32 values become f16 where that is sound; see there for the numerics.
// Only where the compile options ask for it, and late: what folds weights should fold them in f32.
Status NarrowFloats(Module& module);
// graph_narrow_io.cc: f32 parameters and results of the entry become f16; other types stay. Only
// where the compile options ask for it, and after narrow-floats, whose casts it takes away.
Status NarrowIo(Module& module);
// graph_hoist_constants.cc: a constant of a region that is too large for the text form becomes an
// operand of the region's node, a parameter of each of its regions: a node of the interpreter has
// its regions as text, and its data as operands.
Status HoistConstants(Module& module);
// graph_remove_dead.cc: drops what no result needs and renumbers.
Status RemoveDead(Module& module);

}  // namespace halyard::graph
