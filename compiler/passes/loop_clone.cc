// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/loop_clone.h"

namespace halyard::loop {

void KernelCloner::Block(BlockId block) {
  for (OpId id : source_.blocks[block].ops) One(id);
}

void KernelCloner::OpenLoop(const Op& op) {
  std::vector<ValueId> initial;
  for (ValueId v : op.operands) initial.push_back(values.at(v));
  const std::string name = target_.exprs().SymbolName(op.symbol);
  symbols.emplace_back(op.symbol,
                       target_.BeginLoop(op.loop, name, Rename(op.extent), op.reduces, initial));
  const std::vector<ValueId>& parameters = source_.blocks[op.body].parameters;
  for (size_t i = 0; i < parameters.size(); ++i)
    values[parameters[i]] = target_.LoopParameters()[i];
}

void KernelCloner::CloseLoop(const Op& op) {
  std::vector<ValueId> yields;
  if (op.loop != LoopKind::kParallel) {
    for (ValueId v : source_.ops[source_.blocks[op.body].ops.back()].operands)
      yields.push_back(values.at(v));
  }
  std::vector<ValueId> results = target_.EndLoop(yields);
  for (size_t i = 0; i < results.size(); ++i) values[op.results[i]] = results[i];
}

void KernelCloner::One(OpId id) {
  const Op& op = source_.ops[id];
  if (op.kind == OpKind::kYield) return;  // CloseLoop writes it
  if (op.kind == OpKind::kLoop) {
    OpenLoop(op);
    Block(op.body);
    CloseLoop(op);
    return;
  }
  Op copy = op;
  copy.results.clear();
  for (ValueId& v : copy.operands) v = values.at(v);
  copy.index = Rename(op.index);
  copy.extent = Rename(op.extent);
  bool is_access =
      op.kind == OpKind::kLoad || op.kind == OpKind::kStore || op.kind == OpKind::kScatter;
  if (is_access && replace) {
    if (std::optional<ValueId> value = replace(copy)) {
      if (!op.results.empty()) values[op.results[0]] = *value;
      return;
    }
  }
  ValueId result = kNone;
  switch (op.kind) {
    case OpKind::kScalar:
      if (op.opcode == kernel::Opcode::kConvert) {
        result = target_.Convert(copy.operands[0], op.dtype);
      } else if (op.opcode == kernel::Opcode::kBitcast) {
        result = target_.Bitcast(copy.operands[0], op.dtype);
      } else {
        result = target_.Scalar(op.opcode, copy.operands);
      }
      break;
    case OpKind::kConst:
      result = target_.Constant(op.dtype, op.immediate);
      break;
    case OpKind::kIndex:
      result = target_.Index(copy.index, op.dtype);
      break;
    case OpKind::kLoad:
      result = copy.operands.empty()
                   ? target_.Load(op.buffer, copy.index)
                   : target_.Load(op.buffer, copy.index, copy.operands[0], copy.operands[1]);
      break;
    case OpKind::kStore:
      target_.Store(op.buffer, copy.index, copy.operands[0],
                    copy.operands.size() > 1 ? copy.operands[1] : kNone);
      break;
    case OpKind::kScatter:
      target_.Scatter(op.buffer, copy.index, copy.operands[0], op.reduces[0],
                      copy.operands.size() > 1 ? copy.operands[1] : kNone);
      break;
    case OpKind::kIndirect: {
      const kernel::ReportSite& site = source_.sites[op.site];
      symbols.emplace_back(
          op.symbol, target_.Indirect(copy.operands[0], copy.extent, site.node, site.what,
                                      target_.exprs().SymbolName(op.symbol), op.immediate == 0));
      break;
    }
    default:
      break;
  }
  if (!op.results.empty()) values[op.results[0]] = result;
}

}  // namespace halyard::loop
