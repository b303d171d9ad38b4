// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/verify.h"

#include <map>
#include <set>

#include "compiler/kernel/opcode.h"
#include "compiler/loop/builder.h"
#include "compiler/loop/text.h"

namespace halyard::loop {

namespace {

class Verifier {
 public:
  Verifier(const Function& function, uint32_t index)
      : function_(function), index_(index), kernel_(function.kernels[index]) {}

  Status Run() {
    if (kernel_.blocks.empty()) return Fail("it has no body");
    defined_.assign(kernel_.values.size(), false);
    seen_ops_.assign(kernel_.ops.size(), false);
    HY_TRY(CheckBlock(0, nullptr, 0));
    return CheckRoles();
  }

 private:
  template <typename... Args>
  Status Fail(fmt::format_string<Args...> format, Args&&... args) {
    return Internal("Loop kernel '{}' is malformed: {}.", kernel_.name,
                    fmt::format(format, std::forward<Args>(args)...));
  }
  const ExprArena& exprs() const { return *function_.exprs; }

  Status CheckExpr(Expr e, std::string_view what) {
    if (!e.valid()) return Fail("{} is missing", what);
    for (Expr symbol : exprs().SymbolsOf(e)) {
      if (exprs().SymbolKindOf(symbol) == SymbolKind::kDim) {
        dim_names_.insert(exprs().SymbolName(symbol));
      } else if (!scope_.contains(symbol)) {
        return Fail("{} '{}' uses the variable '{}' outside its loop", what, exprs().Format(e),
                    exprs().SymbolName(symbol));
      }
    }
    return OkStatus();
  }

  Status CheckBuffer(const Op& op, bool is_store) {
    if (op.buffer >= function_.buffers.size()) return Fail("buffer {} does not exist", op.buffer);
    const Buffer& buffer = function_.buffers[op.buffer];
    if (buffer.role == BufferRole::kLocal && buffer.kernel != index_) {
      return Fail("the local buffer '{}' belongs to kernel {}", buffer.name, buffer.kernel);
    }
    if (is_store && (buffer.role == BufferRole::kInput || buffer.role == BufferRole::kConstant)) {
      return Fail("it stores to the {} buffer '{}'", FormatBufferRole(buffer.role), buffer.name);
    }
    return CheckExpr(op.index, "an index");
  }

  Status Open(Expr symbol) {
    if (!symbol.valid() || exprs().KindOf(symbol) != ExprKind::kSymbol) {
      return Fail("a loop has no variable");
    }
    const std::string& name = exprs().SymbolName(symbol);
    for (Expr other : scope_) {
      if (exprs().SymbolName(other) == name)
        return Fail("two variables in scope are named '{}'", name);
    }
    if (!all_symbols_.insert(symbol).second) return Fail("the variable '{}' is bound twice", name);
    scope_.insert(symbol);
    return OkStatus();
  }

  DType TypeOf(ValueId v) const { return kernel_.values[v].dtype; }

  Status CheckBlock(BlockId block, const Op* loop, int depth) {
    if (block >= kernel_.blocks.size()) return Fail("block {} does not exist", block);
    if (depth > 64) return Fail("loops nest deeper than 64");
    std::set<Expr> outer = scope_;
    if (loop != nullptr) HY_TRY(Open(loop->symbol));
    std::vector<ValueId> here = kernel_.blocks[block].parameters;
    for (ValueId v : here) {
      if (v >= defined_.size()) return Fail("value {} does not exist", v);
      defined_[v] = true;
    }
    const std::vector<OpId>& ops = kernel_.blocks[block].ops;
    for (size_t i = 0; i < ops.size(); ++i) {
      if (ops[i] >= kernel_.ops.size()) return Fail("op {} does not exist", ops[i]);
      if (seen_ops_[ops[i]]) return Fail("op {} stands twice", ops[i]);
      seen_ops_[ops[i]] = true;
      const Op& op = kernel_.ops[ops[i]];
      for (ValueId v : op.operands) {
        if (v >= defined_.size() || !defined_[v])
          return Fail("value {} is used before its definition", v);
      }
      bool is_last = i + 1 == ops.size();
      bool yields = loop != nullptr && loop->loop != LoopKind::kParallel;
      if (is_last && yields && op.kind != OpKind::kYield) return Fail("a loop's body has no yield");
      HY_TRY(CheckOp(op, loop, is_last, depth));
      for (ValueId v : op.results) {
        if (v >= defined_.size()) return Fail("value {} does not exist", v);
        if (defined_[v]) return Fail("value {} is defined twice", v);
        if (kernel_.values[v].producer != ops[i]) return Fail("value {} names another producer", v);
        defined_[v] = true;
        here.push_back(v);
      }
    }
    if (loop != nullptr && loop->loop != LoopKind::kParallel && ops.empty()) {
      return Fail("a loop's body has no yield");
    }
    for (ValueId v : here) defined_[v] = block == 0;
    scope_ = std::move(outer);
    return OkStatus();
  }

  Status CheckMask(const Op& op, size_t at) {
    if (op.operands.size() > at && TypeOf(op.operands[at]) != DType::kBool) {
      return Fail("a mask has dtype {}", FormatDType(TypeOf(op.operands[at])));
    }
    return OkStatus();
  }

  Status CheckOp(const Op& op, const Op* loop, bool is_last, int depth) {
    auto results = [&](size_t count) -> Status {
      if (op.results.size() != count) {
        return Fail("an op of kind {} has {} results", static_cast<int>(op.kind),
                    op.results.size());
      }
      if (count == 1 && TypeOf(op.results[0]) != op.dtype)
        return Fail("a result's dtype differs from its op's");
      return OkStatus();
    };
    switch (op.kind) {
      case OpKind::kScalar: {
        HY_TRY(results(1));
        const kernel::OpcodeInfo& info = kernel::InfoOf(op.opcode);
        switch (info.op_class) {
          case kernel::OpClass::kArithmetic:
          case kernel::OpClass::kCompare:
          case kernel::OpClass::kSelect:
          case kernel::OpClass::kConvert:
            break;
          default:
            return Fail("'{}' is not a scalar op", info.name);
        }
        if (static_cast<int>(op.operands.size()) != info.min_operands) {
          return Fail("'{}' has {} operands", info.name, op.operands.size());
        }
        if (info.op_class == kernel::OpClass::kConvert) {
          if (op.opcode == kernel::Opcode::kBitcast &&
              BitWidth(op.dtype) != BitWidth(TypeOf(op.operands[0]))) {
            return Fail("a bitcast changes the width");
          }
          return OkStatus();
        }
        size_t first = info.op_class == kernel::OpClass::kSelect ? 1 : 0;
        if (first == 1 && TypeOf(op.operands[0]) != DType::kBool)
          return Fail("a select's condition is not bool");
        DType type = TypeOf(op.operands[first]);
        for (size_t i = first; i < op.operands.size(); ++i) {
          if (TypeOf(op.operands[i]) != type) {
            return Fail("'{}' has operands of {} and {}", info.name, FormatDType(type),
                        FormatDType(TypeOf(op.operands[i])));
          }
        }
        if (first == 0) {
          bool is_narrow = IsFloat(type) && type != DType::kF32 && type != DType::kF64;
          uint8_t domain = type == DType::kBool ? kernel::kBools
                           : IsFloat(type)      ? kernel::kFloats
                                                : kernel::kInts;
          if (is_narrow || (info.domain & domain) == 0) {
            return Fail("'{}' is not defined on {}", info.name, FormatDType(type));
          }
        }
        DType expected = info.op_class == kernel::OpClass::kCompare ? DType::kBool : type;
        if (op.dtype != expected)
          return Fail("'{}' has a result of {}", info.name, FormatDType(op.dtype));
        return OkStatus();
      }
      case OpKind::kConst:
        return results(1);
      case OpKind::kIndex:
        HY_TRY(results(1));
        return CheckExpr(op.index, "an index value");
      case OpKind::kLoad:
        HY_TRY(results(1));
        HY_TRY(CheckBuffer(op, false));
        if (op.dtype != function_.buffers[op.buffer].dtype)
          return Fail("a load has another dtype than its buffer");
        if (!op.operands.empty() && op.operands.size() != 2)
          return Fail("a load has {} operands", op.operands.size());
        if (op.operands.size() == 2 && TypeOf(op.operands[1]) != op.dtype) {
          return Fail("a masked load of {} has a default of {}", FormatDType(op.dtype),
                      FormatDType(TypeOf(op.operands[1])));
        }
        return CheckMask(op, 0);
      case OpKind::kStore:
      case OpKind::kScatter:
        HY_TRY(results(0));
        HY_TRY(CheckBuffer(op, true));
        if (op.operands.empty() || op.operands.size() > 2)
          return Fail("a store has {} operands", op.operands.size());
        if (op.kind == OpKind::kScatter && op.reduces.size() != 1)
          return Fail("a scatter states no reduction");
        if (TypeOf(op.operands[0]) != function_.buffers[op.buffer].dtype) {
          return Fail("a value of {} is stored to '{}' of {}", FormatDType(TypeOf(op.operands[0])),
                      function_.buffers[op.buffer].name,
                      FormatDType(function_.buffers[op.buffer].dtype));
        }
        return CheckMask(op, 1);
      case OpKind::kIndirect:
        HY_TRY(results(0));
        if (op.operands.size() != 1 || !IsInteger(TypeOf(op.operands[0]))) {
          return Fail("an indirect index is not one integer");
        }
        if (op.site >= kernel_.sites.size()) return Fail("report site {} does not exist", op.site);
        HY_TRY(CheckExpr(op.extent, "a bound"));
        return Open(op.symbol);
      case OpKind::kYield:
        HY_TRY(results(0));
        if (loop == nullptr || loop->loop == LoopKind::kParallel || !is_last)
          return Fail("a yield is misplaced");
        return CheckYield(op, *loop);
      case OpKind::kLoop:
        HY_TRY(CheckExpr(op.extent, "an extent"));
        if (op.loop != LoopKind::kSequential && !op.operands.empty())
          return Fail("only sequential loops carry values");
        if (op.loop == LoopKind::kReduce ? op.results.size() != op.reduces.size()
                                         : op.results.size() != op.operands.size()) {
          return Fail("a loop has {} results", op.results.size());
        }
        if (op.loop == LoopKind::kSequential) {
          if (op.body >= kernel_.blocks.size() ||
              kernel_.blocks[op.body].parameters.size() != op.operands.size()) {
            return Fail("a sequential loop has other parameters than operands");
          }
        }
        return CheckBlock(op.body, &op, depth + 1);
    }
    return Fail("an op has kind {}", static_cast<int>(op.kind));
  }

  Status CheckYield(const Op& yield, const Op& loop) {
    std::vector<DType> expected;
    if (loop.loop == LoopKind::kSequential) {
      for (ValueId v : loop.results) expected.push_back(TypeOf(v));
      for (size_t i = 0; i < loop.operands.size(); ++i) {
        if (TypeOf(loop.operands[i]) != expected[i])
          return Fail("a carried value changes its dtype");
      }
    } else {
      for (size_t i = 0; i < loop.reduces.size(); ++i) {
        bool is_arg =
            loop.reduces[i] == ReduceKind::kArgMax || loop.reduces[i] == ReduceKind::kArgMin;
        if (is_arg && expected.size() < yield.operands.size()) {
          expected.push_back(TypeOf(yield.operands[expected.size()]));
        }
        expected.push_back(TypeOf(loop.results[i]));
      }
    }
    if (yield.operands.size() != expected.size()) {
      return Fail("a yield has {} values, its loop needs {}", yield.operands.size(),
                  expected.size());
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      if (TypeOf(yield.operands[i]) != expected[i]) {
        return Fail("a yield of {} meets a result of {}", FormatDType(TypeOf(yield.operands[i])),
                    FormatDType(expected[i]));
      }
    }
    return OkStatus();
  }

  Status CheckRoles() {
    for (Expr symbol : all_symbols_) {
      if (dim_names_.contains(exprs().SymbolName(symbol))) {
        return Fail("a loop and a dimension are both named '{}'", exprs().SymbolName(symbol));
      }
    }
    const TemplateRoles& roles = kernel_.roles;
    std::set<Expr> used;
    for (const std::vector<Expr>* symbols : {&roles.batch, &roles.m, &roles.n, &roles.k}) {
      for (Expr symbol : *symbols) {
        if (!all_symbols_.contains(symbol)) return Fail("a role names a variable of no loop");
        if (!used.insert(symbol).second) return Fail("a variable has two roles");
      }
    }
    for (ValueId v : {roles.product_a, roles.product_b, roles.accumulator}) {
      if (v != kNone && v >= kernel_.values.size()) return Fail("a role names value {}", v);
    }
    if (kernel_.template_kind == TemplateKind::kContraction &&
        (roles.product_a == kNone || roles.product_b == kNone || roles.accumulator == kNone)) {
      return Fail("a contraction does not name its product and sum");
    }
    return OkStatus();
  }

  const Function& function_;
  uint32_t index_;
  const Kernel& kernel_;
  std::vector<bool> defined_, seen_ops_;
  std::set<Expr> scope_, all_symbols_;
  std::set<std::string> dim_names_;
};

}  // namespace

Status VerifyFunction(const Function& function) {
  std::set<std::string> names;
  for (const Buffer& buffer : function.buffers) {
    if (buffer.dtype == DType::kInvalid || !buffer.elements.valid()) {
      return Internal("The loop buffer '{}' has no dtype or no size.", buffer.name);
    }
    std::string scope = buffer.role == BufferRole::kLocal ? fmt::format("{}/", buffer.kernel) : "";
    if (!names.insert(scope + buffer.name).second) {
      return Internal("Two loop buffers are named '{}'.", buffer.name);
    }
  }
  for (uint32_t k = 0; k < function.kernels.size(); ++k) HY_TRY(Verifier(function, k).Run());
  return OkStatus();
}

}  // namespace halyard::loop
