// SPDX-License-Identifier: Apache-2.0
// The text form of Graph IR. parser.h reads it back: print(parse(print(m))) == print(m).
//
//   symbol n in [1, 4096] divisor 8
//   graph main(%x: f32[n, 3]) -> (%y) {
//     %w = constant @bias f32[3]{1, 2, 3}
//     %k = constant @weight f32[768, 768]#0123456789abcdef
//     %b = broadcast %w {shape = [n, 3]} : f32[n, 3]
//     %y = add %x, %b : f32[n, 3] "name of the source node"
//   }
//
// An absent operand is "_"; a result with another name than its value is `"name" = %y`; regions
// stand in brackets after the attributes. Symbols are declared where they have other limits than a
// fresh one. Integer constants of up to 64 elements and others of up to 16 stand in the text; the
// data of larger ones are named by their content hash and live beside it. Dead nodes are not
// printed, and of segments only nodes that the entry does not have, in the entry.
#pragma once

#include <string>

#include "compiler/graph/graph.h"

namespace halyard::graph {

std::string PrintModule(const Module& module);
// One node as a line, without indentation; for messages and reports.
std::string PrintNode(const Module& module, const Node& node);
// A module whose entry holds this node alone: one parameter for each operand that is present, in
// order (a value used twice is two parameters), the node's results, and the regions it names.
// FAILED_PRECONDITION for a constant node, whose data the text may not hold.
Result<std::string> PrintNodeModule(const Module& module, NodeId node);
std::string FormatAttribute(const ExprArena& exprs, const Attribute& attribute);
// Whether the printer writes the elements of a constant into the text.
bool IsPrintedInline(const Constant& constant);

}  // namespace halyard::graph
