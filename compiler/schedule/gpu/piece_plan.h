// SPDX-License-Identifier: Apache-2.0
// What the GPU schedules of loop kernels ask about a piece before they choose or build.
#pragma once

#include <vector>

#include "compiler/schedule/common/nest.h"
#include "compiler/schedule/common/pieces.h"

namespace halyard::schedule {

// The loops of a chain by role.
struct ChainSplit {
  std::vector<int> grid;    // iterations write distinct elements, together too; outermost first
  std::vector<int> serial;  // in order within one workitem
};
ChainSplit SplitChain(const Nest& nest, const Piece& piece);

// The ops of one iteration of the chain, without the loops of the chain.
const std::vector<loop::OpId>& RowOps(const Nest& nest, const Piece& piece);

// True where `lanes` neighbouring iterations of the loops may be computed as one vector.
bool MayVectorise(const Nest& nest, const std::vector<int>& loops);

// A team may share an iteration of the piece's chain.
bool MayBeTeam(const Nest& nest, const Piece& piece);

// Stores of one iteration of the chain into a buffer that outlives it are read by the same
// iteration: a team must not repeat a row.
bool ReadsItsStores(const Nest& nest, const Piece& piece);

// The loops of a row may be cut into parts that run in dispatches of their own.
bool MaySplit(const Nest& nest, const Piece& piece);

// The row's loops that a team spreads, as indices of the nest (outermost of each perfect nest), and
// the innermost of each.
struct RowLoop {
  int outer = -1, inner = -1;
  Expr extent;  // through the whole perfect nest
  bool is_reduce = false;
};
std::vector<RowLoop> RowLoops(const Nest& nest, const Piece& piece);

// Loads and stores below `inside` (-1: anywhere in the piece) whose index moves by one element with
// the loop.
int ContiguousAccesses(const Nest& nest, const Piece& piece, int loop, int inside);

bool IsInPiece(const Piece& piece, const AccessSite& site);

// Elements of a 16-byte vector of the widest dtype that the piece loads or stores often.
int VectorLanes(const Nest& nest, const Piece& piece);

Expr CountOf(const Nest& nest, const std::vector<int>& loops);

// Windows of neighbouring iterations of the loop overlap, as those of depthwise convolutions and
// pools do: a load moves along it by less than along a whole reduction of the body. The loops of
// the body are reductions of known, small extent, and none of them stores: the stores of a strip
// stand behind all its loops.
bool Slides(const Nest& nest, const Piece& piece, int loop);
// The innermost such loop of the grid but `fastest`; -1: none.
int SlidingLoop(const Nest& nest, const Piece& piece, const std::vector<int>& grid, int fastest);
// How many times the body's innermost ops run in one iteration of the grid.
int64_t WindowSteps(const Nest& nest, const Piece& piece);

}  // namespace halyard::schedule
