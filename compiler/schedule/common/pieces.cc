// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/common/pieces.h"

namespace halyard::schedule {

using loop::LoopKind;
using loop::Op;
using loop::OpKind;

namespace {

std::vector<int> ChainFrom(const Nest& nest, int top) {
  std::vector<int> chain = {top};
  for (;;) {
    const Op& op = nest.OpOf(chain.back());
    int inner = -1, others = 0;
    size_t child = 0;
    for (loop::OpId id : nest.kernel.blocks[op.body].ops) {
      const Op& body_op = nest.kernel.ops[id];
      if (body_op.kind == OpKind::kLoop) {
        int index = nest.loops[static_cast<size_t>(chain.back())].children[child++];
        if (body_op.loop == LoopKind::kParallel && inner < 0)
          inner = index;
        else
          ++others;
      } else if (body_op.kind != OpKind::kConst) {
        ++others;
      }
    }
    if (inner < 0 || others > 0) return chain;
    // Extents must not depend on the chain: the grid is flattened.
    for (int outer : chain)
      if (nest.Varies(nest.OpOf(inner).extent, outer)) return chain;
    chain.push_back(inner);
  }
}

}  // namespace

std::vector<Piece> Cut(const Nest& nest) {
  const loop::Kernel& kernel = nest.kernel;
  std::vector<loop::OpId> pure;
  bool separate = true;
  int top_loops = 0;
  for (loop::OpId id : kernel.blocks[0].ops) {
    const Op& op = kernel.ops[id];
    if (op.kind == OpKind::kLoop) {
      ++top_loops;
      // A sequential loop that carries nothing is a piece that one task does.
      separate &= op.loop == LoopKind::kParallel ||
                  (op.loop == LoopKind::kSequential && op.results.empty());
    } else if (op.kind == OpKind::kConst || op.kind == OpKind::kIndex ||
               op.kind == OpKind::kScalar) {
      pure.push_back(id);
    } else {
      separate = false;
    }
  }
  for (const loop::Op& op : kernel.ops) {
    if (op.buffer == loop::kNone) continue;
    if (nest.function.buffers[op.buffer].role == loop::BufferRole::kLocal && top_loops > 1 &&
        nest.ScopeOf(op.buffer).empty())
      separate = false;
  }
  std::vector<Piece> pieces;
  if (!separate) {
    Piece all;
    all.ops = kernel.blocks[0].ops;
    pieces.push_back(std::move(all));
    return pieces;
  }
  for (size_t i = 0; i < nest.loops.size(); ++i) {
    if (nest.loops[i].parent >= 0) continue;
    Piece piece;
    piece.ops = pure;
    piece.ops.push_back(nest.loops[i].op);
    if (nest.OpOf(static_cast<int>(i)).loop == LoopKind::kParallel)
      piece.chain = ChainFrom(nest, static_cast<int>(i));
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

std::string KernelName(std::string_view name, std::string_view suffix) {
  std::string result;
  for (char c : name) {
    bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    result += good ? c : '_';
  }
  if (result.empty()) result = "kernel";
  return result + std::string(suffix);
}

}  // namespace halyard::schedule
