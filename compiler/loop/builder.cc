// SPDX-License-Identifier: Apache-2.0
// KernelBuilder: scopes, naming and sharing of equal values.
#include "compiler/loop/builder.h"

#include <bit>

#include "base/check.h"
#include "compiler/kernel/opcode.h"

namespace halyard::loop {

BufferId AddBuffer(Function& function, std::string_view name, DType dtype, BufferRole role,
                   Expr elements) {
  Buffer buffer;
  buffer.name = std::string(name);
  buffer.dtype = dtype;
  buffer.role = role;
  buffer.elements = elements;
  function.buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(function.buffers.size() - 1);
}

DType ScalarResultType(kernel::Opcode opcode, std::span<const DType> operands) {
  if (kernel::InfoOf(opcode).op_class == kernel::OpClass::kCompare) return DType::kBool;
  if (opcode == kernel::Opcode::kSelect) return operands[1];
  return operands[0];
}

KernelBuilder::KernelBuilder(Function& function, std::string_view name) : function_(function) {
  kernel_.name = std::string(name);
  scopes_.push_back({NewBlock(), kNone, {}});
}

BlockId KernelBuilder::NewBlock() {
  kernel_.blocks.emplace_back();
  return static_cast<BlockId>(kernel_.blocks.size() - 1);
}

OpId KernelBuilder::Append(Op op, std::span<const DType> results) {
  auto id = static_cast<OpId>(kernel_.ops.size());
  for (DType dtype : results) {
    kernel_.values.push_back({dtype, id});
    op.results.push_back(static_cast<ValueId>(kernel_.values.size() - 1));
  }
  if (!results.empty()) op.dtype = results[0];
  kernel_.ops.push_back(std::move(op));
  kernel_.blocks[scopes_.back().block].ops.push_back(id);
  return id;
}

ValueId KernelBuilder::Shared(Op op) {
  Key key{static_cast<int>(op.kind),
          static_cast<int>(op.opcode),
          static_cast<int>(op.dtype),
          op.immediate,
          op.buffer,
          op.index.id,
          op.operands};
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (auto it = scope->values.find(key); it != scope->values.end()) return it->second;
  }
  DType dtype = op.dtype;
  ValueId value = kernel_.ops[Append(std::move(op), {&dtype, 1})].results[0];
  scopes_.back().values.emplace(std::move(key), value);
  return value;
}

ValueId KernelBuilder::Constant(DType dtype, int64_t immediate) {
  Op op;
  op.kind = OpKind::kConst;
  op.dtype = dtype;
  op.immediate = immediate;
  return Shared(std::move(op));
}

ValueId KernelBuilder::Float(DType dtype, double value) {
  return Constant(dtype, std::bit_cast<int64_t>(value));
}

ValueId KernelBuilder::Int(DType dtype, int64_t value) { return Constant(dtype, value); }

ValueId KernelBuilder::Index(Expr index, DType dtype) {
  if (std::optional<int64_t> value = exprs().AsConst(index); value && !IsFloat(dtype)) {
    return Int(dtype, *value);
  }
  Op op;
  op.kind = OpKind::kIndex;
  op.dtype = dtype;
  op.index = index;
  return Shared(std::move(op));
}

ValueId KernelBuilder::Scalar(kernel::Opcode opcode, std::span<const ValueId> operands) {
  std::vector<DType> dtypes;
  for (ValueId v : operands) dtypes.push_back(TypeOf(v));
  Op op;
  op.opcode = opcode;
  op.dtype = ScalarResultType(opcode, dtypes);
  op.operands.assign(operands.begin(), operands.end());
  return Shared(std::move(op));
}

ValueId KernelBuilder::Scalar(kernel::Opcode opcode, std::initializer_list<ValueId> operands) {
  return Scalar(opcode, std::span<const ValueId>(operands.begin(), operands.size()));
}

ValueId KernelBuilder::Convert(ValueId value, DType dtype) {
  if (TypeOf(value) == dtype) return value;
  Op op;
  op.opcode = kernel::Opcode::kConvert;
  op.dtype = dtype;
  op.operands = {value};
  return Shared(std::move(op));
}

ValueId KernelBuilder::Bitcast(ValueId value, DType dtype) {
  if (TypeOf(value) == dtype) return value;
  Op op;
  op.opcode = kernel::Opcode::kBitcast;
  op.dtype = dtype;
  op.operands = {value};
  return Shared(std::move(op));
}

ValueId KernelBuilder::IndexLess(Expr index, Expr bound) {
  if (exprs().KnownLess(index, bound)) return kNone;
  if (exprs().KnownLessOrEqual(bound, index)) return Int(DType::kBool, 0);
  return Scalar(kernel::Opcode::kLt, {Index(index), Index(bound)});
}

ValueId KernelBuilder::And(ValueId a, ValueId b) {
  if (a == kNone || a == b) return b;
  if (b == kNone) return a;
  return Scalar(kernel::Opcode::kAnd, {a, b});
}

ValueId KernelBuilder::Load(BufferId buffer, Expr index, ValueId mask, ValueId other) {
  Op op;
  op.kind = OpKind::kLoad;
  op.dtype = function_.buffers[buffer].dtype;
  op.buffer = buffer;
  op.index = index;
  if (mask != kNone) op.operands = {mask, other};
  return Shared(std::move(op));
}

void KernelBuilder::Store(BufferId buffer, Expr index, ValueId value, ValueId mask) {
  Scatter(buffer, index, value, ReduceKind::kNone, mask);
  kernel_.ops.back().kind = OpKind::kStore;
  kernel_.ops.back().reduces.clear();
}

void KernelBuilder::Scatter(BufferId buffer, Expr index, ValueId value, ReduceKind reduce,
                            ValueId mask) {
  Op op;
  op.kind = OpKind::kScatter;
  op.buffer = buffer;
  op.index = index;
  op.operands = {value};
  if (mask != kNone) op.operands.push_back(mask);
  op.reduces = {reduce};
  Append(std::move(op), {});
  // What was loaded from the buffer may have changed.
  for (Scope& scope : scopes_) {
    std::erase_if(scope.values, [&](const auto& entry) {
      return std::get<0>(entry.first) == static_cast<int>(OpKind::kLoad) &&
             std::get<4>(entry.first) == buffer;
    });
  }
}

uint32_t KernelBuilder::Site(std::string_view node, std::string_view what) {
  kernel_.sites.push_back({std::string(node), std::string(what)});
  return static_cast<uint32_t>(kernel_.sites.size() - 1);
}

Expr KernelBuilder::Indirect(ValueId value, Expr extent, std::string_view node,
                             std::string_view what, std::string_view name, bool wraps) {
  Op op;
  op.kind = OpKind::kIndirect;
  op.operands = {value};
  op.immediate = wraps ? 0 : 1;
  op.symbol = exprs().Loop(UniqueName(name), extent);
  op.extent = extent;
  op.site = Site(node, what);
  Expr symbol = op.symbol;
  Append(std::move(op), {});
  return symbol;
}

std::string KernelBuilder::UniqueName(std::string_view name) {
  auto [it, inserted] = names_.try_emplace(std::string(name), 0);
  if (inserted && !exprs().HasDim(name)) return std::string(name);
  while (true) {
    std::string numbered = fmt::format("{}{}", name, ++it->second);
    if (names_.try_emplace(numbered, 0).second && !exprs().HasDim(numbered)) return numbered;
  }
}

Expr KernelBuilder::BeginLoop(LoopKind kind, std::string_view name, Expr extent,
                              std::span<const ReduceKind> reduces,
                              std::span<const ValueId> initial) {
  Op op;
  op.kind = OpKind::kLoop;
  op.loop = kind;
  op.symbol = exprs().Loop(UniqueName(name), extent);
  op.extent = extent;
  op.reduces.assign(reduces.begin(), reduces.end());
  op.operands.assign(initial.begin(), initial.end());
  op.body = NewBlock();
  for (ValueId value : initial) {
    kernel_.values.push_back({TypeOf(value), kNone});
    kernel_.blocks[op.body].parameters.push_back(static_cast<ValueId>(kernel_.values.size() - 1));
  }
  Expr symbol = op.symbol;
  BlockId body = op.body;
  OpId id = Append(std::move(op), {});
  scopes_.push_back({body, id, {}});
  return symbol;
}

std::span<const ValueId> KernelBuilder::LoopParameters() const {
  return kernel_.blocks[scopes_.back().block].parameters;
}

std::vector<ValueId> KernelBuilder::EndLoop(std::span<const ValueId> yields) {
  HY_CHECK(scopes_.size() > 1, "EndLoop without an open loop in kernel '{}'", kernel_.name);
  OpId loop = scopes_.back().loop;
  LoopKind kind = kernel_.ops[loop].loop;
  if (kind != LoopKind::kParallel) {
    Op op;
    op.kind = OpKind::kYield;
    op.operands.assign(yields.begin(), yields.end());
    Append(std::move(op), {});
  }
  scopes_.pop_back();
  std::vector<DType> dtypes;
  if (kind == LoopKind::kSequential) {
    for (ValueId v : yields) dtypes.push_back(TypeOf(v));
  } else if (kind == LoopKind::kReduce) {
    size_t next = 0;
    for (ReduceKind reduce : kernel_.ops[loop].reduces) {
      bool is_arg = reduce == ReduceKind::kArgMax || reduce == ReduceKind::kArgMin;
      next += is_arg ? 2 : 1;
      HY_CHECK(next <= yields.size(), "too few yields in kernel '{}'", kernel_.name);
      dtypes.push_back(TypeOf(yields[next - 1]));
    }
  }
  Op& op = kernel_.ops[loop];
  for (DType dtype : dtypes) {
    kernel_.values.push_back({dtype, loop});
    op.results.push_back(static_cast<ValueId>(kernel_.values.size() - 1));
  }
  if (!dtypes.empty()) op.dtype = dtypes[0];
  return op.results;
}

void KernelBuilder::Parallel(std::string_view name, Expr extent,
                             const std::function<void(Expr)>& body) {
  body(BeginLoop(LoopKind::kParallel, name, extent));
  EndLoop();
}

void KernelBuilder::Parallel(std::string_view name, std::span<const Expr> extents,
                             const std::function<void(std::span<const Expr>)>& body) {
  std::vector<Expr> variables;
  for (Expr extent : extents) variables.push_back(BeginLoop(LoopKind::kParallel, name, extent));
  body(variables);
  for (size_t i = 0; i < extents.size(); ++i) EndLoop();
}

ValueId KernelBuilder::Reduce(ReduceKind kind, std::string_view name, Expr extent,
                              const std::function<ValueId(Expr)>& body) {
  ValueId value = body(BeginLoop(LoopKind::kReduce, name, extent, {&kind, 1}));
  return EndLoop({&value, 1})[0];
}

std::vector<ValueId> KernelBuilder::Reduce(std::span<const ReduceKind> kinds, std::string_view name,
                                           Expr extent,
                                           const std::function<std::vector<ValueId>(Expr)>& body) {
  std::vector<ValueId> values = body(BeginLoop(LoopKind::kReduce, name, extent, kinds));
  return EndLoop(values);
}

std::vector<ValueId> KernelBuilder::Sequential(
    std::string_view name, Expr extent, std::span<const ValueId> initial,
    const std::function<std::vector<ValueId>(Expr, std::span<const ValueId>)>& body) {
  Expr variable = BeginLoop(LoopKind::kSequential, name, extent, {}, initial);
  std::vector<ValueId> parameters(LoopParameters().begin(), LoopParameters().end());
  return EndLoop(body(variable, parameters));
}

Kernel KernelBuilder::Finish() {
  HY_CHECK(scopes_.size() == 1, "kernel '{}' has open loops", kernel_.name);
  return std::move(kernel_);
}

}  // namespace halyard::loop
