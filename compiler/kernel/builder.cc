// SPDX-License-Identifier: Apache-2.0
// Constants, scalar parameters and ids are collected apart and put before the body, so that each
// exists once and dominates every use wherever it was first asked for.
#include "compiler/kernel/builder.h"

#include <bit>
#include <utility>

#include "base/check.h"
#include "compiler/kernel/opcode.h"

namespace halyard::kernel {

Builder::Builder(std::string_view name) {
  kernel_.name = name;
  kernel_.blocks.emplace_back();
}

Builder Builder::Like(const Kernel& like) {
  Builder builder(like.name);
  builder.kernel_ = like;  // whatever a kernel says of itself, now and later
  builder.kernel_.ops.clear();
  builder.kernel_.values.clear();
  builder.kernel_.blocks.assign(1, Block());
  return builder;
}

Kernel Builder::Finish() && {
  std::vector<OpId>& body = kernel_.blocks[0].ops;
  body.insert(body.begin(), constants_.begin(), constants_.end());
  constants_.clear();
  return std::move(kernel_);
}

BufferId Builder::Parameter(std::string_view name, DType dtype, Access access, bool no_alias) {
  HY_CHECK(kernel_.buffers.empty() || kernel_.buffers.back().space == MemorySpace::kGlobal,
           "parameter '{}' declared after an allocation", name);
  kernel_.buffers.push_back({std::string(name), dtype, MemorySpace::kGlobal, access, -1, no_alias});
  return static_cast<BufferId>(kernel_.buffers.size() - 1);
}

BufferId Builder::Allocate(std::string_view name, DType dtype, int64_t elements,
                           MemorySpace space) {
  HY_CHECK(space != MemorySpace::kGlobal && elements > 0, "allocation '{}'", name);
  kernel_.buffers.push_back({std::string(name), dtype, space, Access::kReadWrite, elements, true});
  return static_cast<BufferId>(kernel_.buffers.size() - 1);
}

int64_t Builder::Site(std::string_view node, std::string_view what) {
  kernel_.sites.push_back({std::string(node), std::string(what)});
  return static_cast<int64_t>(kernel_.sites.size() - 1);
}

BlockId Builder::NewBlock() {
  kernel_.blocks.emplace_back();
  return static_cast<BlockId>(kernel_.blocks.size() - 1);
}

ValueId Builder::NewValue(Type type, OpId producer) {
  kernel_.values.push_back({type, producer});
  return static_cast<ValueId>(kernel_.values.size() - 1);
}

OpId Builder::Append(Opcode opcode, std::span<const Type> result_types,
                     std::span<const ValueId> operands, std::span<const int64_t> immediates,
                     BufferId buffer) {
  const OpId id = static_cast<OpId>(kernel_.ops.size());
  Op op{opcode, result_types.empty() ? Type{} : result_types[0], buffer, {}, {}, {}, {}};
  for (ValueId operand : operands) {
    HY_CHECK(operand < kernel_.values.size(), "{}: operand {}", FormatOpcode(opcode), operand);
  }
  op.operands.assign(operands.begin(), operands.end());
  op.immediates.assign(immediates.begin(), immediates.end());
  for (Type type : result_types) op.results.push_back(NewValue(type, id));
  kernel_.ops.push_back(std::move(op));
  const bool first_in_body = InfoOf(opcode).op_class == OpClass::kSource && opcode != Opcode::kIota;
  (first_in_body ? constants_ : kernel_.blocks[block_].ops).push_back(id);
  return id;
}

std::vector<ValueId> Builder::Copy(const Kernel& from, const Op& op,
                                   std::span<const ValueId> operands, BufferId buffer) {
  if (op.opcode == Opcode::kConst) return {ConstBits(op.type, op.immediates[0])};
  if (InfoOf(op.opcode).op_class == OpClass::kSource && op.opcode != Opcode::kIota) {
    return {Source(op.opcode, op.immediates.empty() ? 0 : op.immediates[0], op.type.dtype)};
  }
  std::vector<Type> types;
  for (const ValueId result : op.results) types.push_back(from.values[result].type);
  const OpId id = Append(op.opcode, types, operands, op.immediates, buffer);
  return kernel_.ops[id].results;
}

ValueId Builder::Append1(Opcode opcode, Type type, std::initializer_list<ValueId> operands,
                         std::initializer_list<int64_t> immediates, BufferId buffer) {
  const OpId id = Append(opcode, std::span<const Type>(&type, 1),
                         std::span<const ValueId>(operands.begin(), operands.size()),
                         std::span<const int64_t>(immediates.begin(), immediates.size()), buffer);
  return kernel_.ops[id].results[0];
}

ValueId Builder::Scalar(std::string_view name) {
  kernel_.scalars.emplace_back(name);
  return ScalarAt(static_cast<int64_t>(kernel_.scalars.size() - 1));
}

ValueId Builder::ScalarAt(int64_t index) {
  HY_CHECK(index >= 0 && index < static_cast<int64_t>(kernel_.scalars.size()), "scalar {}", index);
  return Source(Opcode::kScalar, index, DType::kI64);
}

ValueId Builder::Source(Opcode opcode, int64_t index, DType dtype) {
  auto [entry, is_new] =
      sources_.try_emplace({static_cast<int>(opcode), index, static_cast<int>(dtype)}, kNone);
  if (is_new) {
    const size_t immediates = static_cast<size_t>(InfoOf(opcode).immediates);
    const Type type{dtype, 1};
    const OpId id = Append(opcode, std::span<const Type>(&type, 1), {},
                           std::span<const int64_t>(&index, immediates));
    entry->second = kernel_.ops[id].results[0];
  }
  return entry->second;
}

ValueId Builder::WorkgroupId(int axis, DType dtype) {
  return Source(Opcode::kWorkgroupId, axis, dtype);
}
ValueId Builder::WorkitemId(int axis, DType dtype) {
  return Source(Opcode::kWorkitemId, axis, dtype);
}
ValueId Builder::SubgroupId(DType dtype) { return Source(Opcode::kSubgroupId, 0, dtype); }
ValueId Builder::SubgroupLane(DType dtype) { return Source(Opcode::kSubgroupLane, 0, dtype); }
ValueId Builder::SubgroupSize(DType dtype) { return Source(Opcode::kSubgroupSize, 0, dtype); }

void Builder::SetWorkgroup(int64_t x, int64_t y, int64_t z, int32_t subgroup_size) {
  kernel_.workgroup_size[0] = x;
  kernel_.workgroup_size[1] = y;
  kernel_.workgroup_size[2] = z;
  kernel_.subgroup_size = subgroup_size;
}

ValueId Builder::ConstBits(Type type, int64_t bits) {
  auto [entry, is_new] =
      constant_values_.try_emplace({static_cast<int>(type.dtype), type.lanes, bits}, kNone);
  if (is_new) entry->second = Append1(Opcode::kConst, type, {}, {bits});
  return entry->second;
}

ValueId Builder::ConstFloat(DType dtype, double value, int lanes) {
  HY_CHECK(IsFloat(dtype), "float constant of {}", FormatDType(dtype));
  return ConstBits({dtype, static_cast<uint16_t>(lanes)}, std::bit_cast<int64_t>(value));
}

ValueId Builder::ConstInt(DType dtype, int64_t value, int lanes) {
  HY_CHECK(IsInteger(dtype) || dtype == DType::kBool, "integer constant of {}", FormatDType(dtype));
  return ConstBits({dtype, static_cast<uint16_t>(lanes)}, value);
}

ValueId Builder::ConstLike(ValueId like, double value) {
  const Type type = TypeOf(like);
  if (IsFloat(type.dtype)) return ConstFloat(type.dtype, value, type.lanes);
  return ConstInt(type.dtype, static_cast<int64_t>(value), type.lanes);
}

bool Builder::IsConstInt(ValueId value, int64_t* out) const {
  const Value& v = kernel_.values[value];
  if (v.producer == kNone || !IsInteger(v.type.dtype)) return false;
  const Op& op = kernel_.ops[v.producer];
  if (op.opcode != Opcode::kConst) return false;
  *out = op.immediates[0];
  return true;
}

ValueId Builder::Iota(DType dtype, int lanes) {
  return Append1(Opcode::kIota, {dtype, static_cast<uint16_t>(lanes)}, {});
}

ValueId Builder::Splat(ValueId scalar, int lanes) {
  const Type type = TypeOf(scalar);
  if (type.lanes == lanes) return scalar;
  HY_CHECK(type.lanes == 1, "splat of {} to {} lanes", FormatType(type), lanes);
  const Type result{type.dtype, static_cast<uint16_t>(lanes)};
  const OpId producer = kernel_.values[scalar].producer;
  if (producer != kNone && kernel_.ops[producer].opcode == Opcode::kConst) {
    return ConstBits(result, kernel_.ops[producer].immediates[0]);
  }
  return Append1(Opcode::kSplat, result, {scalar});
}

ValueId Builder::Extract(ValueId vector, int lane) {
  const Type type = TypeOf(vector);
  HY_CHECK(lane >= 0 && lane < type.lanes, "lane {} of {}", lane, FormatType(type));
  if (type.lanes == 1) return vector;
  return Append1(Opcode::kExtract, {type.dtype, 1}, {vector}, {lane});
}

ValueId Builder::Insert(ValueId vector, ValueId scalar, int lane) {
  const Type type = TypeOf(vector);
  HY_CHECK(lane >= 0 && lane < type.lanes && TypeOf(scalar) == (Type{type.dtype, 1}),
           "insert {} into lane {} of {}", FormatType(TypeOf(scalar)), lane, FormatType(type));
  return Append1(Opcode::kInsert, type, {vector, scalar}, {lane});
}

ValueId Builder::Shuffle(ValueId a, ValueId b, std::span<const int> lanes) {
  const Type type = TypeOf(a);
  HY_CHECK(TypeOf(b) == type, "shuffle of {} and {}", FormatType(type), FormatType(TypeOf(b)));
  const std::vector<int64_t> immediates(lanes.begin(), lanes.end());
  for (int64_t lane : immediates) HY_CHECK(lane >= 0 && lane < 2 * type.lanes, "lane {}", lane);
  const Type result{type.dtype, static_cast<uint16_t>(lanes.size())};
  const ValueId operands[] = {a, b};
  const OpId id = Append(Opcode::kShuffle, std::span<const Type>(&result, 1), operands, immediates);
  return kernel_.ops[id].results[0];
}

ValueId Builder::TailMask(ValueId count, int lanes) {
  // 32-bit lanes: half the compares of 64-bit ones. The count is clamped so that it fits.
  const ValueId zero = Index(0);
  const ValueId at_most = Min(Index(lanes), count);
  const ValueId clamped = Max(zero, at_most);
  const ValueId limit = Splat(Convert(clamped, DType::kI32), lanes);
  const ValueId lane = Iota(DType::kI32, lanes);
  return Lt(lane, limit);
}

void Builder::Match(ValueId* a, ValueId* b) {
  const int lanes_a = TypeOf(*a).lanes;
  const int lanes_b = TypeOf(*b).lanes;
  if (lanes_a == 1 && lanes_b > 1) *a = Splat(*a, lanes_b);
  if (lanes_b == 1 && lanes_a > 1) *b = Splat(*b, lanes_a);
  HY_CHECK(TypeOf(*a) == TypeOf(*b), "operands of {} and {}", FormatType(TypeOf(*a)),
           FormatType(TypeOf(*b)));
}

ValueId Builder::Unary(Opcode opcode, ValueId a) { return Append1(opcode, TypeOf(a), {a}); }

ValueId Builder::FoldIndex(Opcode opcode, ValueId a, ValueId b) {
  const Type type = TypeOf(a);
  const bool narrow = type.dtype == DType::kI32;
  if ((type.dtype != DType::kI64 && !narrow) || type.lanes != 1 || type.IsFragment()) return kNone;
  const auto constant = [&](int64_t value) {
    return ConstInt(type.dtype, narrow ? static_cast<int32_t>(value) : value);
  };
  int64_t x = 0;
  int64_t y = 0;
  const bool has_x = IsConstInt(a, &x);
  const bool has_y = IsConstInt(b, &y);
  if (narrow) {
    x = static_cast<int32_t>(x);
    y = static_cast<int32_t>(y);
  }
  if (has_x && has_y) {
    const uint64_t ux = static_cast<uint64_t>(x);
    const uint64_t uy = static_cast<uint64_t>(y);
    const bool divides = y != 0 && !(x == INT64_MIN && y == -1);
    switch (opcode) {
      case Opcode::kAdd:
        return constant(static_cast<int64_t>(ux + uy));
      case Opcode::kSub:
        return constant(static_cast<int64_t>(ux - uy));
      case Opcode::kMul:
        return constant(static_cast<int64_t>(ux * uy));
      case Opcode::kDiv:
        return divides ? constant(x / y) : kNone;
      case Opcode::kRem:
        return divides ? constant(x % y) : kNone;
      case Opcode::kMin:
        return constant(x < y ? x : y);
      case Opcode::kMax:
        return constant(x > y ? x : y);
      default:
        return kNone;
    }
  }
  switch (opcode) {
    case Opcode::kAdd:
      if (has_x && x == 0) return b;
      if (has_y && y == 0) return a;
      return kNone;
    case Opcode::kSub:
      return has_y && y == 0 ? a : kNone;
    case Opcode::kMul:
      if ((has_x && x == 0) || (has_y && y == 0)) return constant(0);
      if (has_x && x == 1) return b;
      if (has_y && y == 1) return a;
      return kNone;
    case Opcode::kDiv:
      return has_y && y == 1 ? a : kNone;
    case Opcode::kRem:
      return has_y && y == 1 ? constant(0) : kNone;
    default:
      return kNone;
  }
}

ValueId Builder::Binary(Opcode opcode, ValueId a, ValueId b) {
  Match(&a, &b);
  const ValueId folded = FoldIndex(opcode, a, b);
  if (folded != kNone) return folded;
  return Append1(opcode, TypeOf(a), {a, b});
}

ValueId Builder::Compare(Opcode opcode, ValueId a, ValueId b) {
  Match(&a, &b);
  return Append1(opcode, {DType::kBool, TypeOf(a).lanes}, {a, b});
}

ValueId Builder::Reduce(Opcode opcode, ValueId vector) {
  const Type type = TypeOf(vector);
  if (type.lanes == 1) return vector;
  return Append1(opcode, {type.dtype, 1}, {vector});
}

ValueId Builder::Fma(ValueId a, ValueId b, ValueId c) {
  Match(&a, &b);
  Match(&a, &c);
  Match(&b, &c);
  return Append1(Opcode::kFma, TypeOf(a), {a, b, c});
}

ValueId Builder::Select(ValueId mask, ValueId a, ValueId b) {
  Match(&a, &b);
  const int mask_lanes = TypeOf(mask).lanes;
  if (mask_lanes > 1 && TypeOf(a).lanes == 1) {
    a = Splat(a, mask_lanes);
    b = Splat(b, mask_lanes);
  }
  return Append1(Opcode::kSelect, TypeOf(a), {mask, a, b});
}

ValueId Builder::Convert(ValueId a, DType to) {
  const Type type = TypeOf(a);
  if (type.dtype == to) return a;
  return Append1(Opcode::kConvert, {to, type.lanes}, {a});
}

ValueId Builder::Bitcast(ValueId a, Type to) {
  if (TypeOf(a) == to) return a;
  return Append1(Opcode::kBitcast, to, {a});
}

ValueId Builder::Load(BufferId buffer, ValueId index, int lanes, ValueId mask, ValueId passthrough,
                      int64_t align) {
  const Type type{kernel_.buffers[buffer].dtype, static_cast<uint16_t>(lanes)};
  if (mask != kNone && passthrough == kNone) passthrough = Zero(type);
  const ValueId operands[] = {index, mask, passthrough};
  const OpId id = Append(Opcode::kLoad, std::span<const Type>(&type, 1),
                         std::span<const ValueId>(operands, mask == kNone ? 1 : 3),
                         std::span<const int64_t>(&align, align == 1 ? 0 : 1), buffer);
  return kernel_.ops[id].results[0];
}

void Builder::Store(BufferId buffer, ValueId index, ValueId value, ValueId mask, int64_t align) {
  const ValueId operands[] = {index, value, mask};
  Append(Opcode::kStore, {}, std::span<const ValueId>(operands, mask == kNone ? 2 : 3),
         std::span<const int64_t>(&align, align == 1 ? 0 : 1), buffer);
}

ValueId Builder::Gather(BufferId buffer, ValueId indices, ValueId mask, ValueId passthrough) {
  const Type type{kernel_.buffers[buffer].dtype, TypeOf(indices).lanes};
  if (mask == kNone) return Append1(Opcode::kGather, type, {indices}, {}, buffer);
  if (passthrough == kNone) passthrough = Zero(type);
  return Append1(Opcode::kGather, type, {indices, mask, passthrough}, {}, buffer);
}

void Builder::Scatter(BufferId buffer, ValueId indices, ValueId value, ValueId mask) {
  const ValueId operands[] = {indices, value, mask};
  Append(Opcode::kScatter, {}, std::span<const ValueId>(operands, mask == kNone ? 2 : 3), {},
         buffer);
}

ValueId Builder::BroadcastLoad(BufferId buffer, ValueId index, int lanes) {
  const Type type{kernel_.buffers[buffer].dtype, static_cast<uint16_t>(lanes)};
  return Append1(Opcode::kBroadcastLoad, type, {index}, {}, buffer);
}

void Builder::Prefetch(BufferId buffer, ValueId index, int locality) {
  const int64_t immediates[] = {locality};
  Append(Opcode::kPrefetch, {}, std::span<const ValueId>(&index, 1), immediates, buffer);
}

void Builder::AtomicAdd(BufferId buffer, ValueId index, ValueId value) {
  const ValueId operands[] = {index, value};
  Append(Opcode::kAtomicAdd, {}, operands, {}, buffer);
}

ValueId Builder::FragmentFill(ValueId scalar, Type type) {
  return Append1(Opcode::kFragmentFill, type, {scalar});
}

ValueId Builder::FragmentLoad(BufferId buffer, ValueId index, ValueId stride, Type type,
                              FragmentLayout layout, int64_t align) {
  const ValueId operands[] = {index, stride};
  const int64_t immediates[] = {static_cast<int64_t>(layout), align};
  const OpId id = Append(Opcode::kFragmentLoad, std::span<const Type>(&type, 1), operands,
                         std::span<const int64_t>(immediates, align == 1 ? 1 : 2), buffer);
  return kernel_.ops[id].results[0];
}

void Builder::FragmentStore(BufferId buffer, ValueId index, ValueId value, ValueId stride,
                            FragmentLayout layout, int64_t align) {
  const ValueId operands[] = {index, value, stride};
  const int64_t immediates[] = {static_cast<int64_t>(layout), align};
  Append(Opcode::kFragmentStore, {}, operands,
         std::span<const int64_t>(immediates, align == 1 ? 1 : 2), buffer);
}

ValueId Builder::FragmentMma(ValueId a, ValueId b, ValueId c) {
  return Append1(Opcode::kFragmentMma, TypeOf(c), {a, b, c});
}

ValueId Builder::FragmentElements(ValueId fragment) {
  const Type type = TypeOf(fragment);
  return Append1(Opcode::kFragmentElements,
                 Type{type.dtype, static_cast<uint16_t>(ElementsPerWorkitem(type))}, {fragment});
}

ValueId Builder::FragmentOf(ValueId elements, Type type) {
  return Append1(Opcode::kFragmentOf, type, {elements});
}

ValueId Builder::MmaBegin(ValueId sum) {
  Type type = TypeOf(sum);
  type.use = FragmentUse::kPending;
  return Append1(Opcode::kMmaBegin, type, {sum});
}

ValueId Builder::MmaAsync(ValueId pending, const TileOperand& a, const TileOperand& b) {
  return Append1(Opcode::kMmaAsync, TypeOf(pending), {pending, a.index, b.index},
                 {b.buffer, static_cast<int64_t>(a.layout), static_cast<int64_t>(b.layout),
                  a.stride, b.stride},
                 a.buffer);
}

ValueId Builder::MmaEnd(ValueId pending) {
  Type type = TypeOf(pending);
  type.use = FragmentUse::kAccumulator;
  return Append1(Opcode::kMmaEnd, type, {pending});
}

void Builder::AsyncFence() { Append(Opcode::kAsyncFence, {}, {}); }

void Builder::MmaCommit() { Append(Opcode::kMmaCommit, {}, {}); }

void Builder::MmaWait(int64_t pending) {
  Append(Opcode::kMmaWait, {}, {}, std::span<const int64_t>(&pending, 1));
}

void Builder::Barrier() { Append(Opcode::kBarrier, {}, {}); }

ValueId Builder::SubgroupShuffle(ValueId value, ValueId lane) {
  return Append1(Opcode::kSubgroupShuffle, TypeOf(value), {value, lane});
}

ValueId Builder::SubgroupShuffleXor(ValueId value, int64_t mask) {
  return Append1(Opcode::kSubgroupShuffleXor, TypeOf(value), {value}, {mask});
}

void Builder::AsyncCopy(BufferId to, ValueId to_index, BufferId from, ValueId from_index,
                        int64_t elements, ValueId mask) {
  const ValueId operands[] = {to_index, from_index, mask};
  const int64_t immediates[] = {from, elements};
  Append(Opcode::kAsyncCopy, {}, std::span<const ValueId>(operands, mask == kNone ? 2 : 3),
         immediates, to);
}

ValueId Builder::LastArrival(BufferId counters, ValueId index, ValueId count) {
  return Append1(Opcode::kLastArrival, Type{DType::kBool, 1}, {index, count}, {}, counters);
}

void Builder::AsyncCommit() { Append(Opcode::kAsyncCommit, {}, {}); }

void Builder::AsyncWait(int64_t pending) {
  Append(Opcode::kAsyncWait, {}, {}, std::span<const int64_t>(&pending, 1));
}

std::vector<ValueId> Builder::For(ValueId lo, ValueId hi, ValueId step,
                                  std::span<const ValueId> inits, const LoopBody& body,
                                  int unroll) {
  std::vector<ValueId> operands = {lo, hi, step};
  operands.insert(operands.end(), inits.begin(), inits.end());
  std::vector<Type> types;
  for (ValueId init : inits) types.push_back(TypeOf(init));
  const int64_t immediates[] = {unroll};
  const OpId id = Append(Opcode::kFor, types, operands, immediates);

  const BlockId block = NewBlock();
  kernel_.ops[id].blocks = {block};
  std::vector<ValueId> parameters = {NewValue(TypeOf(lo), kNone)};
  for (Type type : types) parameters.push_back(NewValue(type, kNone));
  kernel_.blocks[block].parameters = parameters;

  const BlockId outer = std::exchange(block_, block);
  const std::vector<ValueId> carried =
      body(parameters[0], std::span<const ValueId>(parameters).subspan(1));
  HY_CHECK(carried.size() == types.size(), "the loop body yields {} values and carries {}",
           carried.size(), types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    HY_CHECK(TypeOf(carried[i]) == types[i], "carried value {} is {} and becomes {}", i,
             FormatType(types[i]), FormatType(TypeOf(carried[i])));
  }
  Append(Opcode::kYield, {}, carried);
  block_ = outer;
  return kernel_.ops[id].results;
}

void Builder::For(ValueId lo, ValueId hi, ValueId step, const std::function<void(ValueId)>& body,
                  int unroll) {
  For(
      lo, hi, step, {},
      [&body](ValueId iv, std::span<const ValueId>) {
        body(iv);
        return std::vector<ValueId>();
      },
      unroll);
}

std::vector<ValueId> Builder::If(ValueId condition,
                                 const std::function<std::vector<ValueId>()>& then_body,
                                 const std::function<std::vector<ValueId>()>& else_body) {
  // The result types are known only after the then-body; results are added to the op then.
  const OpId id = Append(Opcode::kIf, {}, std::span<const ValueId>(&condition, 1));
  const BlockId outer = block_;
  const BlockId then_block = NewBlock();
  block_ = then_block;
  const std::vector<ValueId> then_values = then_body();
  Append(Opcode::kYield, {}, then_values);
  const BlockId else_block = NewBlock();
  block_ = else_block;
  const std::vector<ValueId> else_values = else_body();
  Append(Opcode::kYield, {}, else_values);
  block_ = outer;

  HY_CHECK(then_values.size() == else_values.size(), "the branches yield {} and {} values",
           then_values.size(), else_values.size());
  std::vector<ValueId> results;
  for (size_t i = 0; i < then_values.size(); ++i) {
    const Type type = TypeOf(then_values[i]);
    HY_CHECK(TypeOf(else_values[i]) == type, "the branches yield {} and {}", FormatType(type),
             FormatType(TypeOf(else_values[i])));
    results.push_back(NewValue(type, id));
  }
  Op& op = kernel_.ops[id];
  op.blocks = {then_block, else_block};
  op.results = results;
  if (!results.empty()) op.type = TypeOf(results[0]);
  return results;
}

void Builder::If(ValueId condition, const std::function<void()>& then_body) {
  If(
      condition,
      [&then_body] {
        then_body();
        return std::vector<ValueId>();
      },
      [] { return std::vector<ValueId>(); });
}

void Builder::Report(ValueId condition, ValueId value, ValueId limit, KernelErrorReason reason,
                     int64_t site) {
  const ValueId operands[] = {condition, value, limit};
  const int64_t immediates[] = {static_cast<int64_t>(reason), site};
  Append(Opcode::kReport, {}, operands, immediates);
}

}  // namespace halyard::kernel
