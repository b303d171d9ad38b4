// SPDX-License-Identifier: Apache-2.0
// What fusion leaves inside one kernel and memory does not need: stores that nothing reads,
// neighbouring loops over the same elements, and buffers that live within one iteration of the
// outer loops.
#pragma once

#include <functional>
#include <optional>
#include <set>

#include "compiler/loop/loop_ir.h"

namespace halyard::loop {

// A store that fills base, base + 1, ..., base + length - 1, one element per iteration of the inner
// loops.
struct RowAccess {
  Expr base;
  Expr length;
};
// Nothing when the index is not row-major over the variables of `inner` that it uses.
std::optional<RowAccess> RowOf(ExprArena& exprs, Expr index, const std::set<Expr>& inner);
// Whether the index provably stays inside the row of the same iteration of the `shared` loops.
bool ReadsRow(ExprArena& exprs, Expr index, const RowAccess& row, const std::set<Expr>& shared);

// Buffers that the kernel loads from, without loads that became dead.
std::set<BufferId> LoadsOf(const Kernel& kernel);
// Removes stores to temporaries that no kernel reads, and what becomes dead with them.
void DropUnreadStores(Function& function);
// The same of one kernel; `is_read` knows whether any kernel reads a buffer. Whether it removed
// any.
bool DropUnreadStores(const Function& function, Kernel& kernel,
                      const std::function<bool(BufferId)>& is_read);
// Joins loops of one block that have the same extent and share data: a store and the load of the
// same element become one value, and passes over a row become fewer.
void MergeSiblingLoops(Function& function);
// Turns temporaries of one kernel into local buffers where a row of known size holds them, then
// drops buffers that nothing uses.
void Localize(Function& function, int64_t max_local_bytes);

}  // namespace halyard::loop
