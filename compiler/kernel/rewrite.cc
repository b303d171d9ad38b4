// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernel/rewrite.h"

namespace halyard::kernel {
namespace {

class Rewriter {
 public:
  Rewriter(const Kernel& kernel, const OpRewrite& rewrite)
      : kernel_(kernel),
        rewrite_(rewrite),
        b_(Builder::Like(kernel)),
        map_(kernel.values.size(), kNone) {}

  Kernel Run() {
    Copy(0);
    return std::move(b_).Finish();
  }

 private:
  std::vector<ValueId> Map(const std::vector<ValueId>& values) const {
    std::vector<ValueId> out;
    for (ValueId value : values) out.push_back(map_[value]);
    return out;
  }

  // Copies the ops of a block and returns what its yield yields.
  std::vector<ValueId> Copy(BlockId block) {
    for (OpId id : kernel_.blocks[block].ops) {
      const Op& op = kernel_.ops[id];
      if (op.opcode == Opcode::kYield) return Map(op.operands);
      CopyOp(op);
    }
    return {};
  }

  void CopyOp(const Op& op) {
    const std::vector<ValueId> operands = Map(op.operands);
    std::vector<ValueId> results;
    if (op.opcode == Opcode::kFor) {
      const Block& body = kernel_.blocks[op.blocks[0]];
      results = b_.For(
          operands[0], operands[1], operands[2], std::span<const ValueId>(operands).subspan(3),
          [&](ValueId iv, std::span<const ValueId> carried) {
            map_[body.parameters[0]] = iv;
            for (size_t i = 0; i < carried.size(); ++i) map_[body.parameters[i + 1]] = carried[i];
            return Copy(op.blocks[0]);
          },
          static_cast<int>(op.immediates[0]));
    } else if (op.opcode == Opcode::kIf) {
      results = b_.If(
          operands[0], [&] { return Copy(op.blocks[0]); }, [&] { return Copy(op.blocks[1]); });
    } else {
      std::optional<ValueId> replaced;
      if (op.results.size() == 1) replaced = rewrite_(&b_, op, operands);
      results =
          replaced ? std::vector<ValueId>{*replaced} : b_.Copy(kernel_, op, operands, op.buffer);
    }
    for (size_t i = 0; i < op.results.size(); ++i) map_[op.results[i]] = results[i];
  }

  const Kernel& kernel_;
  const OpRewrite& rewrite_;
  Builder b_;
  std::vector<ValueId> map_;
};

}  // namespace

Kernel RewriteOps(const Kernel& kernel, const OpRewrite& rewrite) {
  return Rewriter(kernel, rewrite).Run();
}

}  // namespace halyard::kernel
