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
    const TemplateRoles& roles = kernel_.roles;
    if (kernel_.template_kind == TemplateKind::kContraction && roles.product_a != kNone) {
      out.product = Wider(FactorType(roles.product_a), FactorType(roles.product_b));
    } else if (kernel_.template_kind == TemplateKind::kAttention) {
      for (const Op& op : kernel_.ops) out.product = Wider(out.product, ProductType(op));
    }
    return out;
  }

 private:
  static DType Wider(DType a, DType b) {
    if (a == DType::kInvalid || b == DType::kInvalid) return a == DType::kInvalid ? b : a;
    return BitWidth(b) > BitWidth(a) ? b : a;
  }

  const Op* ProducerOf(ValueId value, OpKind kind) const {
    const OpId id = value == kNone ? kNone : kernel_.values[value].producer;
    return id != kNone && kernel_.ops[id].kind == kind ? &kernel_.ops[id] : nullptr;
  }

  // A factor that was widened for the sum counts as what it was stored in; one that was narrowed,
  // or made a float of an integer, is multiplied as what it became. What only stands for an
  // element outside (a padded window's 0) and what the kernel itself has written do not count.
  DType FactorType(ValueId value) const {
    if (value == kNone || ProducerOf(value, OpKind::kConst)) return DType::kInvalid;
    const DType own = kernel_.values[value].dtype;
    if (const Op* load = ProducerOf(value, OpKind::kLoad))
      return writes_.count(load->buffer) > 0 || IsLocal(load->buffer) ? DType::kInvalid : own;
    const Op* op = ProducerOf(value, OpKind::kScalar);
    if (op && op->opcode == kernel::Opcode::kSelect)
      return Wider(FactorType(op->operands[1]), FactorType(op->operands[2]));
    if (!op || op->opcode != kernel::Opcode::kConvert) return own;
    const DType stored = FactorType(op->operands[0]);
    const bool is_widened = stored == DType::kInvalid ||
                            (IsFloat(stored) == IsFloat(own) && BitWidth(stored) < BitWidth(own));
    return is_widened ? stored : own;
  }

  // Of the product that a loop sums; invalid: it sums none.
  DType ProductType(const Op& loop) const {
    if (loop.kind != OpKind::kLoop || loop.loop != LoopKind::kReduce || loop.body == kNone)
      return DType::kInvalid;
    DType type = DType::kInvalid;
    const Op& yield = kernel_.ops[kernel_.blocks[loop.body].ops.back()];
    for (size_t i = 0; i < loop.reduces.size() && i < yield.operands.size(); ++i) {
      const Op* product = ProducerOf(yield.operands[i], OpKind::kScalar);
      if (loop.reduces[i] != ReduceKind::kSum || !product ||
          product->opcode != kernel::Opcode::kMul) {
        continue;
      }
      for (const ValueId factor : product->operands) type = Wider(type, FactorType(factor));
    }
    return type;
  }

  bool IsLocal(BufferId buffer) const {
    return function_.buffers[buffer].role == BufferRole::kLocal;
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
    if (IsLocal(id)) return;
    const auto [found, is_new] = counts.try_emplace(id, trips);
    if (!is_new) found->second = exprs_.Add(found->second, trips);
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
};

}  // namespace

KernelCounts CountKernel(const Function& function, uint32_t kernel) {
  return Counter(function, function.kernels[kernel]).Run();
}

}  // namespace halyard::loop
