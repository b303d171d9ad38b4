// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/graph_passes.h"

#include "compiler/passes/graph_choose_layouts.h"

namespace halyard::graph {
namespace {

constexpr GraphPass kPasses[] = {
    {"refresh-types", "Runs shape inference over all nodes again.", RefreshTypes},
    {"propagate-shapes", "Replaces known integer values by constants and symbols.",
     PropagateShapeValues},
    {"fold-constants", "Evaluates small nodes of constants.", FoldConstants},
    {"canonicalize", "Applies local rules that never change a value.", Canonicalize},
    {"merge-common", "Merges nodes that say the same.", MergeCommon},
    {"fold-affine", "Moves per-channel scales after a convolution into its weights.", FoldAffine},
    {"fuse-attention", "Recognises scaled dot-product attention.", FuseAttention},
    {"merge-matmuls", "Merges products of one value with constant matrices.", MergeMatmuls},
    {"narrow-floats", "Computes in f16 where that is sound.", NarrowFloats},
    {"narrow-io", "Reads f32 inputs and writes f32 outputs as f16.", NarrowIo},
    {"hoist-constants", "Gives regions their weights as operands.", HoistConstants},
    {"remove-dead", "Drops what no result needs.", RemoveDead},
    {"layout", "Chooses storage orders in the entry graph.", ChooseEntryLayouts},
};

}  // namespace

std::span<const GraphPass> AllGraphPasses() { return kPasses; }

const GraphPass* FindGraphPass(std::string_view name) {
  for (const GraphPass& pass : kPasses) {
    if (pass.name == name) return &pass;
  }
  return nullptr;
}

}  // namespace halyard::graph
