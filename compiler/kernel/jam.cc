// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernel/jam.h"

#include <algorithm>
#include <vector>

#include "compiler/kernel/builder.h"
#include "compiler/kernel/opcode.h"

namespace halyard::kernel {
namespace {

class Jammer {
 public:
  Jammer(const Kernel& kernel, int count, bool is_whole)
      : kernel_(kernel), count_(count), is_whole_(is_whole), b_(Builder::Like(kernel)) {
    Copies one;
    one.values.assign(kernel.values.size(), kNone);
    for (BufferId id = 0; id < kernel.buffers.size(); ++id) one.buffers.push_back(id);
    copies_.assign(static_cast<size_t>(count), one);
    for (BufferId id = 0; id < kernel.buffers.size(); ++id) {
      const Buffer& buffer = kernel.buffers[id];
      if (buffer.space == MemorySpace::kGlobal) continue;
      for (int c = 1; c < count; ++c) {
        copies_[static_cast<size_t>(c)].buffers[id] = b_.Allocate(
            fmt::format("{}_{}", buffer.name, c), buffer.dtype, buffer.elements, buffer.space);
      }
    }
  }

  Result<Kernel> Run() {
    OpId outer = kNone;
    for (const OpId id : kernel_.blocks[0].ops) {
      if (kernel_.ops[id].opcode != Opcode::kFor) continue;
      if (outer != kNone) return Bad("it has several outermost loops");
      outer = id;
    }
    if (outer == kNone) return Bad("it has no loop");
    if (!kernel_.ops[outer].results.empty()) return Bad("its outermost loop carries values");
    for (const OpId id : kernel_.blocks[0].ops) {
      if (id == outer) {
        HY_TRY(JamOuter(kernel_.ops[id]));
      } else {
        HY_TRY(CopyOp(kernel_.ops[id], std::span(copies_)));
      }
    }
    return std::move(b_).Finish();
  }

 private:
  struct Copies {
    std::vector<ValueId> values;  // of the new kernel, by those of the old one
    std::vector<BufferId> buffers;
  };
  using Set = std::span<Copies>;  // iterations that are written side by side

  Status Bad(std::string_view why) const {
    return InvalidArgument("Iterations of kernel '{}' cannot run side by side: {}.", kernel_.name,
                           why);
  }

  static std::vector<ValueId> Map(const Copies& copy, const std::vector<ValueId>& values) {
    std::vector<ValueId> out;
    for (const ValueId value : values) out.push_back(copy.values[value]);
    return out;
  }

  Status JamOuter(const Op& loop) {
    const Set all(copies_);
    const std::vector<ValueId> bounds = Map(copies_[0], loop.operands);
    int64_t step = 0;
    if (!b_.IsConstInt(bounds[2], &step) || step != 1) return Bad("its loop has another step");
    const Block& body = kernel_.blocks[loop.blocks[0]];
    const ValueId lo = bounds[0], hi = bounds[1];
    const ValueId wide = b_.ConstLike(bounds[2], count_);
    ValueId end = hi;
    if (!is_whole_) {
      end = b_.Add(lo, b_.Mul(b_.Div(b_.Sub(hi, lo), wide), wide));
    }
    Status status = OkStatus();
    b_.For(
        lo, end, wide,
        [&](ValueId first) {
          for (int c = 0; c < count_; ++c) {
            all[static_cast<size_t>(c)].values[body.parameters[0]] =
                c == 0 ? first : b_.Add(first, b_.ConstLike(first, c));
          }
          status = CopyBlock(loop.blocks[0], all, nullptr);
        },
        static_cast<int>(loop.immediates[0]));
    HY_TRY(status);
    if (is_whole_) return OkStatus();
    b_.For(
        end, hi, bounds[2],
        [&](ValueId at) {
          copies_[0].values[body.parameters[0]] = at;
          status = CopyBlock(loop.blocks[0], all.first(1), nullptr);
        },
        static_cast<int>(loop.immediates[0]));
    return status;
  }

  // `yields`: of all copies, one after the other.
  Status CopyBlock(BlockId block, Set set, std::vector<ValueId>* yields) {
    for (const OpId id : kernel_.blocks[block].ops) {
      const Op& op = kernel_.ops[id];
      if (op.opcode != Opcode::kYield) {
        HY_TRY(CopyOp(op, set));
      } else if (yields != nullptr) {
        for (const Copies& copy : set) {
          const std::vector<ValueId> mapped = Map(copy, op.operands);
          yields->insert(yields->end(), mapped.begin(), mapped.end());
        }
      }
    }
    return OkStatus();
  }

  Status CopyFor(const Op& op, Set set) {
    const Block& body = kernel_.blocks[op.blocks[0]];
    const std::vector<ValueId> bounds = Map(set[0], {op.operands.begin(), op.operands.begin() + 3});
    std::vector<ValueId> initial;
    for (const Copies& copy : set) {
      const std::vector<ValueId> mapped = Map(copy, op.operands);
      if (!std::equal(bounds.begin(), bounds.end(), mapped.begin())) {
        return Bad("a loop in it has other bounds in each");
      }
      initial.insert(initial.end(), mapped.begin() + 3, mapped.end());
    }
    const size_t each = op.results.size();
    Status status = OkStatus();
    const std::vector<ValueId> results = b_.For(
        bounds[0], bounds[1], bounds[2], initial,
        [&](ValueId at, std::span<const ValueId> carried) {
          for (size_t c = 0; c < set.size(); ++c) {
            set[c].values[body.parameters[0]] = at;
            for (size_t i = 0; i < each; ++i) {
              set[c].values[body.parameters[i + 1]] = carried[c * each + i];
            }
          }
          std::vector<ValueId> yields;
          status = CopyBlock(op.blocks[0], set, &yields);
          return status.ok() ? yields : std::vector<ValueId>(carried.begin(), carried.end());
        },
        static_cast<int>(op.immediates[0]));
    HY_TRY(status);
    for (size_t c = 0; c < set.size(); ++c) {
      for (size_t i = 0; i < each; ++i) set[c].values[op.results[i]] = results[c * each + i];
    }
    return OkStatus();
  }

  Status CopyIf(const Op& op, Set set) {
    for (size_t c = 0; c < set.size(); ++c) {  // each has a condition of its own
      const Set one = set.subspan(c, 1);
      Status status = OkStatus();
      const auto branch = [&](BlockId block) {
        std::vector<ValueId> yields;
        if (status.ok()) status = CopyBlock(block, one, &yields);
        return yields;
      };
      const std::vector<ValueId> results = b_.If(
          one[0].values[op.operands[0]], [&] { return branch(op.blocks[0]); },
          [&] { return branch(op.blocks[1]); });
      HY_TRY(status);
      for (size_t i = 0; i < op.results.size(); ++i) one[0].values[op.results[i]] = results[i];
    }
    return OkStatus();
  }

  // Nothing but its operands decides what it gives.
  bool IsSame(const Op& op, Set set) const {
    const OpClass kind = InfoOf(op.opcode).op_class;
    const bool reads_constant = op.opcode == Opcode::kLoad && op.buffer != kNone &&
                                kernel_.buffers[op.buffer].access == Access::kRead;
    if (op.results.empty() || (kind == OpClass::kMemory && !reads_constant)) return false;
    if (kind == OpClass::kCpu || kind == OpClass::kControl) return false;
    const std::vector<ValueId> first = Map(set[0], op.operands);
    return std::all_of(set.begin(), set.end(),
                       [&](const Copies& copy) { return Map(copy, op.operands) == first; });
  }

  void CopyPlain(const Op& op, Copies& copy) {
    const BufferId buffer = op.buffer == kNone ? kNone : copy.buffers[op.buffer];
    const std::vector<ValueId> results = b_.Copy(kernel_, op, Map(copy, op.operands), buffer);
    for (size_t i = 0; i < op.results.size(); ++i) copy.values[op.results[i]] = results[i];
  }

  Status CopyOp(const Op& op, Set set) {
    if (op.opcode == Opcode::kFor) return CopyFor(op, set);
    if (op.opcode == Opcode::kIf) return CopyIf(op, set);
    if (IsSame(op, set)) {
      CopyPlain(op, set[0]);
      for (Copies& copy : set.subspan(1)) {
        for (const ValueId result : op.results) copy.values[result] = set[0].values[result];
      }
      return OkStatus();
    }
    for (Copies& copy : set) CopyPlain(op, copy);
    return OkStatus();
  }

  const Kernel& kernel_;
  const int count_;
  const bool is_whole_;
  Builder b_;
  std::vector<Copies> copies_;
};

}  // namespace

Result<Kernel> JamOuterLoop(const Kernel& kernel, int count, bool is_whole) {
  if (count < 2 || count > 8) {
    return InvalidArgument("{} iterations of kernel '{}' cannot run side by side; 2 to 8 can.",
                           count, kernel.name);
  }
  return Jammer(kernel, count, is_whole).Run();
}

}  // namespace halyard::kernel
