// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/gpu/library_plan.h"

#include <algorithm>

namespace halyard::schedule {

using loop::Op;
using loop::OpKind;

bool IsLibraryType(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

const Op* OnlyStoreBehind(const loop::Kernel& kernel, const Problem& problem) {
  const Op* store = nullptr;
  for (const loop::OpId id : problem.epilogue) {
    if (kernel.ops[id].kind != OpKind::kStore) continue;
    if (store != nullptr) return nullptr;
    store = &kernel.ops[id];
  }
  return store;
}

DType TypeBetween(const loop::Kernel& kernel, const Problem& problem, DType input) {
  // Where the first thing is to round the sum to the operands' type, that is what passes.
  int uses = 0;
  DType rounded = DType::kF32;
  for (const loop::OpId id : problem.epilogue) {
    const Op& op = kernel.ops[id];
    for (const loop::ValueId operand : op.operands) {
      if (operand != problem.accumulator) continue;
      ++uses;
      if (op.kind == OpKind::kScalar && op.opcode == kernel::Opcode::kConvert) rounded = op.dtype;
    }
  }
  return uses == 1 && rounded == input ? rounded : DType::kF32;
}

bool PassesThroughResult(const loop::Function& function, const loop::Kernel& kernel,
                         const Op* store, DType between) {
  return store != nullptr && store->operands.size() == 1 &&
         function.buffers[store->buffer].dtype == between &&
         std::none_of(kernel.ops.begin(), kernel.ops.end(), [&](const Op& op) {
           return op.kind == OpKind::kLoad && op.buffer == store->buffer;
         });
}

}  // namespace halyard::schedule
