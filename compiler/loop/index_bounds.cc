// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/index_bounds.h"

#include <algorithm>
#include <set>

namespace halyard::loop {
namespace {

class Tracer {
 public:
  Tracer(const Function& function, const Kernel& kernel) : function_(function), kernel_(kernel) {}

  std::map<BufferId, IndexBound> Run() {
    for (const Op& op : kernel_.ops) {
      if (op.kind != OpKind::kIndirect) continue;
      seen_.clear();
      extent_ = std::max<int64_t>(1, function_.exprs->HintOf(op.extent));
      Trace(op.operands[0], true);
    }
    return std::move(bounds_);
  }

 private:
  void Trace(ValueId value, bool is_direct) {
    const OpId producer = value == kNone ? kNone : kernel_.values[value].producer;
    if (producer == kNone || !seen_.insert({value, is_direct}).second) return;
    const Op& op = kernel_.ops[producer];
    if (op.kind == OpKind::kLoad) {
      const DType dtype = function_.buffers[op.buffer].dtype;
      if (!IsFloat(dtype) && dtype != DType::kBool) Bound(op.buffer, is_direct);
    } else if (op.kind == OpKind::kScalar) {
      // A condition does not become a part of what it selects.
      const bool selects = op.opcode == kernel::Opcode::kSelect;
      const bool keeps = selects || op.opcode == kernel::Opcode::kConvert;
      for (size_t i = selects ? 1 : 0; i < op.operands.size(); ++i) {
        Trace(op.operands[i], is_direct && keeps);
      }
    } else if (op.kind == OpKind::kLoop && op.body != kNone) {
      // What a loop results in, of whichever result: its initial values and what its body yields.
      for (const ValueId operand : op.operands) Trace(operand, false);
      const std::vector<OpId>& body = kernel_.blocks[op.body].ops;
      if (body.empty() || kernel_.ops[body.back()].kind != OpKind::kYield) return;
      for (const ValueId yielded : kernel_.ops[body.back()].operands) Trace(yielded, false);
    }
  }

  void Bound(BufferId buffer, bool is_direct) {
    const auto [found, is_new] = bounds_.try_emplace(buffer, IndexBound{extent_, is_direct});
    if (is_new) return;
    found->second.extent = std::min(found->second.extent, extent_);
    found->second.is_direct &= is_direct;
  }

  const Function& function_;
  const Kernel& kernel_;
  int64_t extent_ = 1;
  std::set<std::pair<ValueId, bool>> seen_;  // of one index
  std::map<BufferId, IndexBound> bounds_;
};

}  // namespace

std::map<BufferId, IndexBound> IndexBoundsOf(const Function& function, uint32_t kernel) {
  return Tracer(function, function.kernels[kernel]).Run();
}

}  // namespace halyard::loop
