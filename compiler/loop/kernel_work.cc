// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/kernel_work.h"

#include <map>

#include "compiler/kernel/opcode.h"

namespace halyard::loop {
namespace {

class Counter {
 public:
  Counter(const Function& function, const Kernel& kernel)
      : function_(function), kernel_(kernel), exprs_(*function.exprs), flops_(exprs_.Const(0)) {}

  KernelCounts Run() {
    CountBlock(0, exprs_.Const(1));
    KernelCounts out;
    if (is_known_) {
      out.flops = flops_;
      out.read_bytes = BytesOf(reads_);
      out.written_bytes = BytesOf(writes_);
    }
    const ValueId factor = kernel_.roles.product_a;
    if (kernel_.template_kind == TemplateKind::kContraction && factor != kNone) {
      out.product = FactorType(factor);
    } else if (kernel_.template_kind == TemplateKind::kAttention) {
      out.product = widest_read_;
    }
    return out;
  }

 private:
  // A factor that was widened for the sum counts as what it was stored in; one that was narrowed,
  // or made a float of an integer, is multiplied as what it became.
  DType FactorType(ValueId value) const {
    const DType own = kernel_.values[value].dtype;
    const OpId producer = kernel_.values[value].producer;
    if (producer == kNone || kernel_.ops[producer].kind != OpKind::kScalar ||
        kernel_.ops[producer].opcode != kernel::Opcode::kConvert) {
      return own;
    }
    const DType stored = kernel_.values[kernel_.ops[producer].operands[0]].dtype;
    return IsFloat(stored) == IsFloat(own) && BitWidth(stored) < BitWidth(own) ? stored : own;
  }

  void CountBlock(BlockId block, Expr trips) {
    for (const OpId id : kernel_.blocks[block].ops) CountOp(kernel_.ops[id], trips);
  }

  void CountOp(const Op& op, Expr trips) {
    switch (op.kind) {
      case OpKind::kScalar:
        if (IsFloat(op.dtype) &&
            kernel::InfoOf(op.opcode).op_class == kernel::OpClass::kArithmetic) {
          Add(trips, op.opcode == kernel::Opcode::kFma ? 2 : 1);
        }
        break;
      case OpKind::kLoad:
        Touch(reads_, op.buffer, trips);
        break;
      case OpKind::kStore:
        Touch(writes_, op.buffer, trips);
        break;
      case OpKind::kScatter:
        Touch(reads_, op.buffer, trips);
        Touch(writes_, op.buffer, trips);
        break;
      case OpKind::kLoop:
        CountLoop(op, trips);
        break;
      default:
        break;
    }
  }

  void CountLoop(const Op& op, Expr trips) {
    for (const Expr symbol : exprs_.SymbolsOf(op.extent)) {
      is_known_ &= exprs_.SymbolKindOf(symbol) == SymbolKind::kDim;
    }
    const Expr inside = exprs_.Mul(trips, op.extent);
    for (size_t i = 0; i < op.reduces.size() && op.loop == LoopKind::kReduce; ++i) {
      const bool is_float = i < op.results.size() && IsFloat(kernel_.values[op.results[i]].dtype);
      if (is_float && !JoinsInnerSums(op, i)) Add(inside, 1);
    }
    if (op.body != kNone) CountBlock(op.body, inside);
  }

  // Whether reduction `i` only goes on with what a loop inside of it reduces in the same way: loops
  // over the parts of one index reduce each element once.
  bool JoinsInnerSums(const Op& op, size_t i) const {
    if (op.body == kNone || kernel_.blocks[op.body].ops.empty()) return false;
    const Op& yield = kernel_.ops[kernel_.blocks[op.body].ops.back()];
    if (yield.kind != OpKind::kYield || i >= yield.operands.size()) return false;
    const OpId producer = kernel_.values[yield.operands[i]].producer;
    if (producer == kNone) return false;
    const Op& inner = kernel_.ops[producer];
    for (size_t r = 0; r < inner.results.size() && r < inner.reduces.size(); ++r) {
      if (inner.results[r] == yield.operands[i]) return inner.reduces[r] == op.reduces[i];
    }
    return false;
  }

  void Add(Expr trips, int64_t each) {
    flops_ = exprs_.Add(flops_, exprs_.Mul(trips, exprs_.Const(each)));
  }

  void Touch(std::map<BufferId, Expr>& counts, BufferId id, Expr trips) {
    const Buffer& buffer = function_.buffers[id];
    if (buffer.role == BufferRole::kLocal) return;
    const auto [found, is_new] = counts.try_emplace(id, trips);
    if (!is_new) found->second = exprs_.Add(found->second, trips);
    if (IsFloat(buffer.dtype) && BitWidth(buffer.dtype) > BitWidth(widest_read_))
      widest_read_ = buffer.dtype;
  }

  Expr BytesOf(const std::map<BufferId, Expr>& counts) {
    Expr bytes = exprs_.Const(0);
    for (const auto& [id, count] : counts) {
      const Buffer& buffer = function_.buffers[id];
      const Expr elements = exprs_.Min(count, buffer.elements);
      const int bits = BitWidth(buffer.dtype);
      bytes = exprs_.Add(
          bytes, bits % 8 == 0
                     ? exprs_.Mul(elements, exprs_.Const(bits / 8))
                     : exprs_.CeilDiv(exprs_.Mul(elements, exprs_.Const(bits)), exprs_.Const(8)));
    }
    return bytes;
  }

  const Function& function_;
  const Kernel& kernel_;
  ExprArena& exprs_;
  Expr flops_;
  std::map<BufferId, Expr> reads_, writes_;
  bool is_known_ = true;
  DType widest_read_ = DType::kInvalid;
};

}  // namespace

KernelCounts CountKernel(const Function& function, uint32_t kernel) {
  return Counter(function, function.kernels[kernel]).Run();
}

}  // namespace halyard::loop
