// SPDX-License-Identifier: Apache-2.0
// Copies bodies of loop kernels through a builder, renaming values and variables on the way. The
// tool that the loop passes share; a pass decides what to copy and what to replace.
#pragma once

#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/loop/builder.h"

namespace halyard::loop {

class KernelCloner {
 public:
  // Copies from `source` into `target`; both outlive the cloner.
  KernelCloner(const Kernel& source, KernelBuilder& target) : source_(source), target_(target) {}

  // Variables of the source and what they are in the target.
  std::vector<std::pair<Expr, Expr>> symbols;
  std::unordered_map<ValueId, ValueId> values;
  // Called for each load and store (index already renamed, operands renamed). Loads: the value that
  // replaces it. Stores: return kNone to drop it. Nothing: copy as it is.
  std::function<std::optional<ValueId>(const Op& op)> replace;

  Expr Rename(Expr e) { return e.valid() ? target_.exprs().Substitute(e, symbols) : e; }
  void Block(BlockId block);
  void One(OpId id);
  // Opens the loop `op` in the target; its body is left to the caller.
  void OpenLoop(const Op& op);
  void CloseLoop(const Op& op);

 private:
  const Kernel& source_;
  KernelBuilder& target_;
};

}  // namespace halyard::loop
