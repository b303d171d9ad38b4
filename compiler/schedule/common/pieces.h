// SPDX-License-Identifier: Apache-2.0
// A kernel body is cut into pieces, each a dispatch of its own: one per outermost parallel loop
// where these share nothing, otherwise one for all. In a piece the perfectly nested parallel loops
// at the top form the chain, whose iterations may be spread over tasks or workitems.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/schedule/common/nest.h"

namespace halyard::schedule {

// A part of the kernel's body that becomes one dispatch: ops of blocks[0].
struct Piece {
  std::vector<loop::OpId> ops;
  std::vector<int> chain;  // loops of the nest; empty: one task does everything
};

std::vector<Piece> Cut(const Nest& nest);

// "[A-Za-z0-9_]+" from any name.
std::string KernelName(std::string_view name, std::string_view suffix);

}  // namespace halyard::schedule
