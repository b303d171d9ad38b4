// SPDX-License-Identifier: Apache-2.0
// Values carry the depth of the scope that defines them. A pure op goes to the end of the block at
// the largest depth among its operands: loops are appended to their block only when they end, so
// what is placed there meanwhile stands before them.
#include "compiler/schedule/common/writer.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "compiler/kernel/opcode.h"

namespace halyard::schedule {

using kernel::BufferId;
using kernel::Opcode;
using kernel::Type;

Writer::Writer(std::string name, DType index) : index_dtype_(index) {
  kernel_.name = std::move(name);
  kernel_.blocks.emplace_back();
  scopes_.emplace_back();
}

BufferId Writer::AddParameter(kernel::Buffer buffer) {
  buffer.space = kernel::MemorySpace::kGlobal;
  kernel_.buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(kernel_.buffers.size() - 1);
}

BufferId Writer::AddAllocation(std::string name, DType dtype, int64_t elements,
                               kernel::MemorySpace space) {
  kernel::Buffer buffer;
  buffer.name = std::move(name);
  buffer.dtype = dtype;
  buffer.space = space;
  buffer.access = kernel::Access::kReadWrite;
  buffer.elements = elements;
  kernel_.buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(kernel_.buffers.size() - 1);
}

void Writer::SetWorkgroup(int64_t workitems, int32_t subgroup_size) {
  kernel_.workgroup_size[0] = workitems;
  kernel_.subgroup_size = subgroup_size;
}

uint32_t Writer::AddScalar(std::string name) {
  kernel_.scalars.push_back(std::move(name));
  return static_cast<uint32_t>(kernel_.scalars.size() - 1);
}

uint32_t Writer::AddSite(const kernel::ReportSite& site) {
  for (size_t i = 0; i < kernel_.sites.size(); ++i)
    if (kernel_.sites[i].node == site.node && kernel_.sites[i].what == site.what)
      return static_cast<uint32_t>(i);
  kernel_.sites.push_back(site);
  return static_cast<uint32_t>(kernel_.sites.size() - 1);
}

kernel::BlockId Writer::NewBlock() {
  kernel_.blocks.emplace_back();
  return static_cast<kernel::BlockId>(kernel_.blocks.size() - 1);
}

Writer::V Writer::NewValue(Type type, size_t depth) {
  kernel::Value value;
  value.type = type;
  kernel_.values.push_back(value);
  depth_.push_back(static_cast<uint32_t>(depth));
  constant_.emplace_back();
  return static_cast<V>(kernel_.values.size() - 1);
}

size_t Writer::DepthOf(std::span<const V> values) const {
  size_t depth = 0;
  for (V v : values) depth = std::max<size_t>(depth, depth_[v]);
  return depth;
}

Writer::V Writer::Place(kernel::Op op, size_t depth, bool share) {
  HY_DCHECK(depth < scopes_.size());
  Scope& scope = scopes_[depth];
  Key key;
  if (share) {
    key = Key(static_cast<uint8_t>(op.opcode), op.buffer, static_cast<uint8_t>(op.type.dtype),
              op.type.lanes, op.operands, op.immediates);
    if (auto it = scope.known.find(key); it != scope.known.end()) return it->second;
  }
  V result = NewValue(op.type, depth);
  op.results = {result};
  kernel_.ops.push_back(std::move(op));
  auto id = static_cast<kernel::OpId>(kernel_.ops.size() - 1);
  kernel_.values[result].producer = id;
  kernel_.blocks[scope.block].ops.push_back(id);
  if (share) scope.known.emplace(std::move(key), result);
  return result;
}

void Writer::Effect(kernel::Op op) {
  op.type = Type{};
  kernel_.ops.push_back(std::move(op));
  kernel_.blocks[scopes_.back().block].ops.push_back(
      static_cast<kernel::OpId>(kernel_.ops.size() - 1));
}

Writer::V Writer::Pure(Opcode opcode, Type type, std::vector<V> operands,
                       std::vector<int64_t> immediates) {
  kernel::Op op;
  op.opcode = opcode;
  op.type = type;
  op.operands = std::move(operands);
  op.immediates = std::move(immediates);
  size_t depth = DepthOf(op.operands);
  return Place(std::move(op), depth, true);
}

Writer::V Writer::Const(DType dtype, int64_t bits, int lanes) {
  V v = Pure(Opcode::kConst, Type{dtype, static_cast<uint16_t>(lanes)}, {}, {bits});
  if (lanes == 1 && !IsFloat(dtype)) constant_[v] = bits;
  return v;
}

Writer::V Writer::Float(DType dtype, double value, int lanes) {
  return Const(dtype, std::bit_cast<int64_t>(value), lanes);
}

std::optional<int64_t> Writer::AsConst(V v) const { return constant_[v]; }

Writer::V Writer::ScalarParameter(uint32_t index) {
  return Convert(Pure(Opcode::kScalar, Type{DType::kI64, 1}, {}, {index}), index_dtype_);
}

Writer::V Writer::WorkgroupId(int axis) {
  return Pure(Opcode::kWorkgroupId, Type{index_dtype_, 1}, {}, {axis});
}

Writer::V Writer::WorkitemId(int axis) {
  return Pure(Opcode::kWorkitemId, Type{index_dtype_, 1}, {}, {axis});
}

Writer::V Writer::Splat(V v, int lanes) {
  if (LanesOf(v) == lanes) return v;
  HY_CHECK(LanesOf(v) == 1, "a value of {} lanes is splat to {}", LanesOf(v), lanes);
  Type type{TypeOf(v).dtype, static_cast<uint16_t>(lanes)};
  kernel::OpId producer = kernel_.values[v].producer;
  if (producer != kernel::kNone && kernel_.ops[producer].opcode == Opcode::kConst)
    return Const(type.dtype, kernel_.ops[producer].immediates[0], lanes);
  return Pure(Opcode::kSplat, type, {v});
}

Writer::V Writer::Iota(DType dtype, int lanes) {
  return Pure(Opcode::kIota, Type{dtype, static_cast<uint16_t>(lanes)}, {});
}

namespace {
// Two's complement arithmetic without overflow traps.
int64_t WrapAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t WrapMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
}  // namespace

Writer::V Writer::Add(V a, V b) {
  int lanes = std::max(LanesOf(a), LanesOf(b));
  auto ca = AsConst(a), cb = AsConst(b);
  if (ca && cb) return Const(TypeOf(a).dtype, WrapAdd(*ca, *cb));
  if (ca && *ca == 0) return b;
  if (cb && *cb == 0) return a;
  a = Splat(a, lanes), b = Splat(b, lanes);
  return Pure(Opcode::kAdd, TypeOf(a), {a, b});
}

Writer::V Writer::Sub(V a, V b) {
  int lanes = std::max(LanesOf(a), LanesOf(b));
  auto ca = AsConst(a), cb = AsConst(b);
  if (ca && cb) return Const(TypeOf(a).dtype, WrapAdd(*ca, WrapMul(*cb, -1)));
  if (cb && *cb == 0) return a;
  a = Splat(a, lanes), b = Splat(b, lanes);
  return Pure(Opcode::kSub, TypeOf(a), {a, b});
}

Writer::V Writer::Mul(V a, V b) {
  int lanes = std::max(LanesOf(a), LanesOf(b));
  auto ca = AsConst(a), cb = AsConst(b);
  if (ca && cb) return Const(TypeOf(a).dtype, WrapMul(*ca, *cb));
  if (ca && *ca == 1) return b;
  if (cb && *cb == 1) return a;
  if ((ca && *ca == 0) || (cb && *cb == 0)) return Const(TypeOf(a).dtype, 0);
  a = Splat(a, lanes), b = Splat(b, lanes);
  return Pure(Opcode::kMul, TypeOf(a), {a, b});
}

Writer::V Writer::FloorDiv(V a, V b, bool non_negative) {
  auto ca = AsConst(a), cb = AsConst(b);
  if (ca && cb && *cb > 0) {
    int64_t quotient = *ca / *cb;
    return Const(TypeOf(a).dtype, quotient - (*ca % *cb < 0));
  }
  if (cb && *cb == 1) return a;
  int lanes = std::max(LanesOf(a), LanesOf(b));
  Type type{TypeOf(a).dtype, static_cast<uint16_t>(lanes)};
  if (cb && *cb > 0 && (*cb & (*cb - 1)) == 0)  // the arithmetic shift rounds down
    return Pure(
        Opcode::kShr, type,
        {Splat(a, lanes), Const(type.dtype, std::countr_zero(static_cast<uint64_t>(*cb)), lanes)});
  a = Splat(a, lanes), b = Splat(b, lanes);
  V quotient = Pure(Opcode::kDiv, type, {a, b});
  if (non_negative) return quotient;
  V remainder = Sub(a, Pure(Opcode::kMul, type, {quotient, b}));
  V negative = Compare(Opcode::kLt, remainder, Const(type.dtype, 0, lanes));
  return Select(negative, Sub(quotient, Const(type.dtype, 1, lanes)), quotient);
}

Writer::V Writer::FloorMod(V a, V b, bool non_negative) {
  auto ca = AsConst(a), cb = AsConst(b);
  if (ca && cb && *cb > 0) {
    int64_t remainder = *ca % *cb;
    return Const(TypeOf(a).dtype, remainder < 0 ? remainder + *cb : remainder);
  }
  if (cb && *cb == 1) return Const(TypeOf(a).dtype, 0);
  int lanes = std::max(LanesOf(a), LanesOf(b));
  Type type{TypeOf(a).dtype, static_cast<uint16_t>(lanes)};
  if (cb && *cb > 0 && (*cb & (*cb - 1)) == 0)
    return Pure(Opcode::kAnd, type, {Splat(a, lanes), Const(type.dtype, *cb - 1, lanes)});
  V quotient = FloorDiv(a, b, non_negative);
  return Sub(a, Mul(quotient, b));
}

Writer::V Writer::Min(V a, V b) {
  auto ca = AsConst(a), cb = AsConst(b);
  if (ca && cb) return Const(TypeOf(a).dtype, std::min(*ca, *cb));
  int lanes = std::max(LanesOf(a), LanesOf(b));
  return Pure(Opcode::kMin, Type{TypeOf(a).dtype, static_cast<uint16_t>(lanes)},
              {Splat(a, lanes), Splat(b, lanes)});
}

Writer::V Writer::Max(V a, V b) {
  auto ca = AsConst(a), cb = AsConst(b);
  if (ca && cb) return Const(TypeOf(a).dtype, std::max(*ca, *cb));
  int lanes = std::max(LanesOf(a), LanesOf(b));
  return Pure(Opcode::kMax, Type{TypeOf(a).dtype, static_cast<uint16_t>(lanes)},
              {Splat(a, lanes), Splat(b, lanes)});
}

Writer::V Writer::Compare(Opcode opcode, V a, V b) {
  int lanes = std::max(LanesOf(a), LanesOf(b));
  return Pure(opcode, Type{DType::kBool, static_cast<uint16_t>(lanes)},
              {Splat(a, lanes), Splat(b, lanes)});
}

Writer::V Writer::AsI32(V v) {
  kernel::OpId producer = kernel_.values[v].producer;
  if (producer == kernel::kNone || TypeOf(v).dtype != DType::kI64) return kernel::kNone;
  const kernel::Op& op = kernel_.ops[producer];
  if (op.opcode == Opcode::kConvert && TypeOf(op.operands[0]).dtype == DType::kI32)
    return op.operands[0];
  if (op.opcode == Opcode::kConst && op.immediates[0] == static_cast<int32_t>(op.immediates[0]))
    return Const(DType::kI32, op.immediates[0], LanesOf(v));
  return kernel::kNone;
}

Writer::V Writer::BeforeRounding(V v) const {
  const kernel::OpId producer = kernel_.values[v].producer;
  if (producer == kernel::kNone || !IsFloat(TypeOf(v).dtype)) return kernel::kNone;
  const kernel::Op& op = kernel_.ops[producer];
  const bool rounds = op.opcode == Opcode::kConvert && BitWidth(TypeOf(v).dtype) < 32 &&
                      TypeOf(op.operands[0]).dtype == DType::kF32;
  return rounds ? op.operands[0] : kernel::kNone;
}

Writer::V Writer::Select(V mask, V a, V b) {
  int lanes = std::max({LanesOf(mask), LanesOf(a), LanesOf(b)});
  a = Splat(a, lanes), b = Splat(b, lanes);
  return Pure(Opcode::kSelect, TypeOf(a), {Splat(mask, lanes), a, b});
}

Writer::V Writer::Convert(V v, DType dtype) {
  Type type = TypeOf(v);
  if (type.dtype == dtype) return v;
  return Pure(Opcode::kConvert, Type{dtype, type.lanes}, {v});
}

Writer::V Writer::LoadOp(kernel::Op op, bool stable) {
  op.type.dtype = kernel_.buffers[op.buffer].dtype;
  if (!stable) return Place(std::move(op), scopes_.size() - 1, false);
  size_t depth = DepthOf(op.operands);
  for (size_t i = scopes_.size() - 1; i > depth; --i)
    if (!scopes_[i].always_runs) depth = i;
  return Place(std::move(op), depth, true);
}

namespace {
std::vector<int64_t> Alignment(int align) {
  return align > 1 ? std::vector<int64_t>{align} : std::vector<int64_t>{};
}
}  // namespace

Writer::V Writer::Load(BufferId buffer, V index, int lanes, bool stable, int align) {
  kernel::Op op;
  op.opcode = Opcode::kLoad;
  op.buffer = buffer;
  op.type.lanes = static_cast<uint16_t>(lanes);
  op.operands = {index};
  op.immediates = Alignment(align);
  return LoadOp(std::move(op), stable);
}

Writer::V Writer::LoadMasked(BufferId buffer, V index, V mask, V other, bool stable, int align) {
  kernel::Op op;
  op.opcode = Opcode::kLoad;
  op.buffer = buffer;
  op.immediates = Alignment(align);
  op.type.lanes = static_cast<uint16_t>(LanesOf(mask));
  op.operands = {index, mask, Splat(other, LanesOf(mask))};
  return LoadOp(std::move(op), stable);
}

Writer::V Writer::Gather(BufferId buffer, V indices, bool stable) {
  kernel::Op op;
  op.opcode = Opcode::kGather;
  op.buffer = buffer;
  op.type.lanes = static_cast<uint16_t>(LanesOf(indices));
  op.operands = {indices};
  return LoadOp(std::move(op), stable);
}

Writer::V Writer::GatherMasked(BufferId buffer, V indices, V mask, V other, bool stable) {
  kernel::Op op;
  op.opcode = Opcode::kGather;
  op.buffer = buffer;
  op.type.lanes = static_cast<uint16_t>(LanesOf(mask));
  op.operands = {indices, mask, Splat(other, LanesOf(mask))};
  return LoadOp(std::move(op), stable);
}

void Writer::Store(BufferId buffer, V index, V value, V mask, int align) {
  kernel::Op op;
  op.opcode = Opcode::kStore;
  op.immediates = Alignment(align);
  op.buffer = buffer;
  op.operands = {index, value};
  if (mask != kernel::kNone) op.operands.push_back(mask);
  Effect(std::move(op));
}

void Writer::Scatter(BufferId buffer, V indices, V value, V mask) {
  kernel::Op op;
  op.opcode = Opcode::kScatter;
  op.buffer = buffer;
  op.operands = {indices, value};
  if (mask != kernel::kNone) op.operands.push_back(mask);
  Effect(std::move(op));
}

void Writer::Barrier() {
  kernel::Op op;
  op.opcode = Opcode::kBarrier;
  Effect(std::move(op));
}

Writer::V Writer::ShuffleXor(V value, int mask) {
  kernel::Op op;
  op.opcode = Opcode::kSubgroupShuffleXor;
  op.type = TypeOf(value);
  op.operands = {value};
  op.immediates = {mask};
  return Place(std::move(op), scopes_.size() - 1, false);
}

Writer::V Writer::SubgroupId() { return Pure(Opcode::kSubgroupId, Type{index_dtype_, 1}, {}); }

Writer::V Writer::Value(Opcode opcode, Type type, std::vector<V> operands,
                        std::vector<int64_t> immediates, BufferId buffer) {
  kernel::Op op;
  op.opcode = opcode;
  op.type = type;
  op.buffer = buffer;
  op.operands = std::move(operands);
  op.immediates = std::move(immediates);
  return Place(std::move(op), scopes_.size() - 1, false);
}

void Writer::Do(Opcode opcode, std::vector<V> operands, std::vector<int64_t> immediates,
                BufferId buffer) {
  kernel::Op op;
  op.opcode = opcode;
  op.buffer = buffer;
  op.operands = std::move(operands);
  op.immediates = std::move(immediates);
  Effect(std::move(op));
}

void Writer::Report(V condition, V value, V limit, int64_t reason, uint32_t site) {
  kernel::Op op;
  op.opcode = Opcode::kReport;
  op.operands = {condition, value, limit};
  op.immediates = {reason, site};
  Effect(std::move(op));
}

Writer::Loop Writer::BeginFor(V lo, V hi, V step, std::span<const V> initial,
                              bool runs_at_least_once, int unroll) {
  Scope scope;
  scope.block = NewBlock();
  scope.always_runs = runs_at_least_once;
  scope.op.opcode = Opcode::kFor;
  scope.op.operands = {lo, hi, step};
  scope.op.operands.insert(scope.op.operands.end(), initial.begin(), initial.end());
  scope.op.immediates = {unroll};
  scope.op.blocks = {scope.block};
  size_t depth = scopes_.size();
  Loop loop;
  loop.variable = NewValue(TypeOf(lo), depth);
  for (V v : initial) loop.carried.push_back(NewValue(TypeOf(v), depth));
  auto& parameters = kernel_.blocks[scope.block].parameters;
  parameters.push_back(loop.variable);
  parameters.insert(parameters.end(), loop.carried.begin(), loop.carried.end());
  scopes_.push_back(std::move(scope));
  return loop;
}

std::vector<Writer::V> Writer::Close(std::span<const V> yields) {
  kernel::Op yield;
  yield.opcode = Opcode::kYield;
  yield.operands.assign(yields.begin(), yields.end());
  Effect(std::move(yield));
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  kernel::Op op = std::move(scope.op);
  std::vector<V> results;
  for (V v : yields) results.push_back(NewValue(TypeOf(v), scopes_.size() - 1));
  op.results = results;
  op.type = results.empty() ? Type{} : TypeOf(results[0]);
  kernel_.ops.push_back(std::move(op));
  auto id = static_cast<kernel::OpId>(kernel_.ops.size() - 1);
  for (V v : results) kernel_.values[v].producer = id;
  kernel_.blocks[scopes_.back().block].ops.push_back(id);
  return results;
}

std::vector<Writer::V> Writer::EndFor(std::span<const V> yields) { return Close(yields); }

void Writer::BeginIf(V condition) {
  Scope scope;
  scope.block = NewBlock();
  scope.always_runs = false;
  scope.op.opcode = Opcode::kIf;
  scope.op.operands = {condition};
  scope.op.blocks = {scope.block};
  scopes_.push_back(std::move(scope));
}

void Writer::BeginElse(std::span<const V> then_yields) {
  kernel::Op yield;
  yield.opcode = Opcode::kYield;
  yield.operands.assign(then_yields.begin(), then_yields.end());
  Effect(std::move(yield));
  kernel::BlockId block = NewBlock();
  Scope& scope = scopes_.back();
  scope.block = block;
  scope.op.blocks.push_back(block);
  scope.known.clear();
  scope.in_else = true;
}

std::vector<Writer::V> Writer::EndIf(std::span<const V> else_yields) {
  if (!scopes_.back().in_else) BeginElse({});
  return Close(else_yields);
}

kernel::Kernel Writer::Finish() {
  HY_CHECK(scopes_.size() == 1, "{} scopes are open at the end of kernel '{}'", scopes_.size() - 1,
           kernel_.name);
  // Parameters first, allocations behind them.
  std::vector<BufferId> place(kernel_.buffers.size());
  std::vector<kernel::Buffer> buffers;
  for (bool global : {true, false}) {
    for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
      if ((kernel_.buffers[i].space == kernel::MemorySpace::kGlobal) != global) continue;
      place[i] = static_cast<BufferId>(buffers.size());
      buffers.push_back(kernel_.buffers[i]);
    }
  }
  kernel_.buffers = std::move(buffers);
  for (kernel::Op& op : kernel_.ops) {
    if (op.buffer != kernel::kNone) op.buffer = place[op.buffer];
    if (const BufferId second = kernel::SecondBuffer(op); second != kernel::kNone) {
      op.immediates[0] = place[second];
    }
  }
  return std::move(kernel_);
}

}  // namespace halyard::schedule
