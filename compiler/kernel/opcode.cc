// SPDX-License-Identifier: Apache-2.0
// One row per opcode, in the order of the enumeration.
#include "compiler/kernel/opcode.h"

#include <charconv>

#include "base/check.h"

namespace halyard::kernel {
namespace {

constexpr uint8_t kNumbers = kInts | kFloats;
constexpr uint8_t kBits = kInts | kBools;
constexpr uint8_t kAll = kInts | kFloats | kBools;

constexpr OpcodeInfo kTable[] = {
    {Opcode::kConst, "const", OpClass::kSource, 0, 0, 1, kNoDomain, false},
    {Opcode::kScalar, "scalar", OpClass::kSource, 0, 0, 1, kNoDomain, false},
    {Opcode::kWorkgroupId, "workgroup_id", OpClass::kSource, 0, 0, 1, kNoDomain, false},
    {Opcode::kWorkitemId, "workitem_id", OpClass::kSource, 0, 0, 1, kNoDomain, false},
    {Opcode::kSubgroupLane, "subgroup_lane", OpClass::kSource, 0, 0, 0, kNoDomain, false},
    {Opcode::kSubgroupSize, "subgroup_size", OpClass::kSource, 0, 0, 0, kNoDomain, false},
    {Opcode::kSubgroupId, "subgroup_id", OpClass::kSource, 0, 0, 0, kNoDomain, false},
    {Opcode::kIota, "iota", OpClass::kSource, 0, 0, 0, kNoDomain, false},
    {Opcode::kSplat, "splat", OpClass::kLanes, 1, 1, 0, kNoDomain, false},
    {Opcode::kExtract, "extract", OpClass::kLanes, 1, 1, 1, kNoDomain, false},
    {Opcode::kInsert, "insert", OpClass::kLanes, 2, 2, 1, kNoDomain, false},
    {Opcode::kShuffle, "shuffle", OpClass::kLanes, 2, 2, -1, kNoDomain, false},
    {Opcode::kAdd, "add", OpClass::kArithmetic, 2, 2, 0, kNumbers, false},
    {Opcode::kSub, "sub", OpClass::kArithmetic, 2, 2, 0, kNumbers, false},
    {Opcode::kMul, "mul", OpClass::kArithmetic, 2, 2, 0, kNumbers, false},
    {Opcode::kDiv, "div", OpClass::kArithmetic, 2, 2, 0, kNumbers, false},
    {Opcode::kRem, "rem", OpClass::kArithmetic, 2, 2, 0, kInts, false},
    {Opcode::kMin, "min", OpClass::kArithmetic, 2, 2, 0, kNumbers, false},
    {Opcode::kMax, "max", OpClass::kArithmetic, 2, 2, 0, kNumbers, false},
    {Opcode::kNeg, "neg", OpClass::kArithmetic, 1, 1, 0, kNumbers, false},
    {Opcode::kAbs, "abs", OpClass::kArithmetic, 1, 1, 0, kNumbers, false},
    {Opcode::kFma, "fma", OpClass::kArithmetic, 3, 3, 0, kFloats, false},
    {Opcode::kAnd, "and", OpClass::kArithmetic, 2, 2, 0, kBits, false},
    {Opcode::kOr, "or", OpClass::kArithmetic, 2, 2, 0, kBits, false},
    {Opcode::kXor, "xor", OpClass::kArithmetic, 2, 2, 0, kBits, false},
    {Opcode::kNot, "not", OpClass::kArithmetic, 1, 1, 0, kBits, false},
    {Opcode::kShl, "shl", OpClass::kArithmetic, 2, 2, 0, kInts, false},
    {Opcode::kShr, "shr", OpClass::kArithmetic, 2, 2, 0, kInts, false},
    {Opcode::kSqrt, "sqrt", OpClass::kArithmetic, 1, 1, 0, kFloats, false},
    {Opcode::kFloor, "floor", OpClass::kArithmetic, 1, 1, 0, kFloats, false},
    {Opcode::kCeil, "ceil", OpClass::kArithmetic, 1, 1, 0, kFloats, false},
    {Opcode::kTrunc, "trunc", OpClass::kArithmetic, 1, 1, 0, kFloats, false},
    {Opcode::kRoundEven, "round_even", OpClass::kArithmetic, 1, 1, 0, kFloats, false},
    {Opcode::kCopySign, "copysign", OpClass::kArithmetic, 2, 2, 0, kFloats, false},
    {Opcode::kScale, "scale", OpClass::kCpu, 2, 2, 0, kFloats, false},
    {Opcode::kExp, "exp", OpClass::kArithmetic, 1, 1, 0, kFloats, true},
    {Opcode::kExp2, "exp2", OpClass::kArithmetic, 1, 1, 0, kFloats, true},
    {Opcode::kLog, "log", OpClass::kArithmetic, 1, 1, 0, kFloats, true},
    {Opcode::kLog2, "log2", OpClass::kArithmetic, 1, 1, 0, kFloats, true},
    {Opcode::kSin, "sin", OpClass::kArithmetic, 1, 1, 0, kFloats, true},
    {Opcode::kCos, "cos", OpClass::kArithmetic, 1, 1, 0, kFloats, true},
    {Opcode::kTan, "tan", OpClass::kArithmetic, 1, 1, 0, kFloats, true},
    {Opcode::kTanh, "tanh", OpClass::kArithmetic, 1, 1, 0, kFloats, true},
    {Opcode::kErf, "erf", OpClass::kArithmetic, 1, 1, 0, kFloats, true},
    {Opcode::kPow, "pow", OpClass::kArithmetic, 2, 2, 0, kFloats, true},
    {Opcode::kAsin, "asin", OpClass::kArithmetic, 1, 1, 0, kFloats, true},
    {Opcode::kAcos, "acos", OpClass::kArithmetic, 1, 1, 0, kFloats, true},
    {Opcode::kAtan, "atan", OpClass::kArithmetic, 1, 1, 0, kFloats, true},
    {Opcode::kSinh, "sinh", OpClass::kArithmetic, 1, 1, 0, kFloats, true},
    {Opcode::kCosh, "cosh", OpClass::kArithmetic, 1, 1, 0, kFloats, true},
    {Opcode::kAsinh, "asinh", OpClass::kArithmetic, 1, 1, 0, kFloats, true},
    {Opcode::kAcosh, "acosh", OpClass::kArithmetic, 1, 1, 0, kFloats, true},
    {Opcode::kAtanh, "atanh", OpClass::kArithmetic, 1, 1, 0, kFloats, true},
    {Opcode::kRsqrt, "rsqrt", OpClass::kArithmetic, 1, 1, 0, kFloats, true},
    {Opcode::kEq, "eq", OpClass::kCompare, 2, 2, 0, kAll, false},
    {Opcode::kNe, "ne", OpClass::kCompare, 2, 2, 0, kAll, false},
    {Opcode::kLt, "lt", OpClass::kCompare, 2, 2, 0, kNumbers, false},
    {Opcode::kLe, "le", OpClass::kCompare, 2, 2, 0, kNumbers, false},
    {Opcode::kGt, "gt", OpClass::kCompare, 2, 2, 0, kNumbers, false},
    {Opcode::kGe, "ge", OpClass::kCompare, 2, 2, 0, kNumbers, false},
    {Opcode::kSelect, "select", OpClass::kSelect, 3, 3, 0, kNoDomain, false},
    {Opcode::kConvert, "convert", OpClass::kConvert, 1, 1, 0, kNoDomain, false},
    {Opcode::kBitcast, "bitcast", OpClass::kConvert, 1, 1, 0, kNoDomain, false},
    {Opcode::kLoad, "load", OpClass::kMemory, 1, 3, 0, kNoDomain, false},
    {Opcode::kStore, "store", OpClass::kMemory, 2, 3, 0, kNoDomain, false},
    {Opcode::kGather, "gather", OpClass::kMemory, 1, 3, 0, kNoDomain, false},
    {Opcode::kScatter, "scatter", OpClass::kMemory, 2, 3, 0, kNoDomain, false},
    {Opcode::kBroadcastLoad, "broadcast_load", OpClass::kMemory, 1, 1, 0, kNoDomain, false},
    {Opcode::kPrefetch, "prefetch", OpClass::kMemory, 1, 1, 1, kNoDomain, false},
    {Opcode::kAtomicAdd, "atomic_add", OpClass::kMemory, 2, 2, 0, kNoDomain, false},
    {Opcode::kReduceAdd, "reduce_add", OpClass::kReduce, 1, 1, 0, kNumbers, false},
    {Opcode::kReduceMul, "reduce_mul", OpClass::kReduce, 1, 1, 0, kNumbers, false},
    {Opcode::kReduceMin, "reduce_min", OpClass::kReduce, 1, 1, 0, kNumbers, false},
    {Opcode::kReduceMax, "reduce_max", OpClass::kReduce, 1, 1, 0, kNumbers, false},
    {Opcode::kReduceAnd, "reduce_and", OpClass::kReduce, 1, 1, 0, kBits, false},
    {Opcode::kReduceOr, "reduce_or", OpClass::kReduce, 1, 1, 0, kBits, false},
    {Opcode::kFor, "for", OpClass::kControl, 3, -1, 1, kNoDomain, false},
    {Opcode::kIf, "if", OpClass::kControl, 1, 1, 0, kNoDomain, false},
    {Opcode::kYield, "yield", OpClass::kControl, 0, -1, 0, kNoDomain, false},
    {Opcode::kReport, "report", OpClass::kControl, 3, 3, 2, kNoDomain, false},
    {Opcode::kFragmentFill, "fragment_fill", OpClass::kFragment, 1, 1, 0, kNoDomain, false},
    {Opcode::kFragmentLoad, "fragment_load", OpClass::kFragment, 2, 2, 1, kNoDomain, false},
    {Opcode::kFragmentStore, "fragment_store", OpClass::kFragment, 3, 3, 1, kNoDomain, false},
    {Opcode::kFragmentMma, "fragment_mma", OpClass::kFragment, 3, 3, 0, kNoDomain, false},
    {Opcode::kFragmentElements, "fragment_elements", OpClass::kFragment, 1, 1, 0, kNoDomain, false},
    {Opcode::kFragmentOf, "fragment_of", OpClass::kFragment, 1, 1, 0, kNoDomain, false},
    {Opcode::kMmaBegin, "mma_begin", OpClass::kFragment, 1, 1, 0, kNoDomain, false},
    {Opcode::kMmaAsync, "mma_async", OpClass::kFragment, 3, 3, 5, kNoDomain, false},
    {Opcode::kMmaEnd, "mma_end", OpClass::kFragment, 1, 1, 0, kNoDomain, false},
    {Opcode::kBarrier, "barrier", OpClass::kGpu, 0, 0, 0, kNoDomain, false},
    {Opcode::kAwaitDispatches, "await_dispatches", OpClass::kGpu, 0, 0, 0, kNoDomain, false},
    {Opcode::kReleaseDispatches, "release_dispatches", OpClass::kGpu, 0, 0, 0, kNoDomain, false},
    {Opcode::kSubgroupShuffle, "subgroup_shuffle", OpClass::kGpu, 2, 2, 0, kNoDomain, false},
    {Opcode::kSubgroupShuffleXor, "subgroup_shuffle_xor", OpClass::kGpu, 1, 1, 1, kNoDomain, false},
    {Opcode::kAsyncCopy, "async_copy", OpClass::kGpu, 2, 3, 2, kNoDomain, false},
    {Opcode::kAsyncCommit, "async_commit", OpClass::kGpu, 0, 0, 0, kNoDomain, false},
    {Opcode::kAsyncWait, "async_wait", OpClass::kGpu, 0, 0, 1, kNoDomain, false},
    {Opcode::kAsyncFence, "async_fence", OpClass::kGpu, 0, 0, 0, kNoDomain, false},
    {Opcode::kMmaCommit, "mma_commit", OpClass::kGpu, 0, 0, 0, kNoDomain, false},
    {Opcode::kMmaWait, "mma_wait", OpClass::kGpu, 0, 0, 1, kNoDomain, false},
    {Opcode::kLastArrival, "last_arrival", OpClass::kGpu, 2, 2, 0, kNoDomain, false},
};

constexpr bool IsInOrder() {
  int index = 0;
  for (const OpcodeInfo& row : kTable) {
    if (static_cast<int>(row.opcode) != index++) return false;
  }
  return index == kOpcodeCount;
}
static_assert(IsInOrder(), "one row per opcode, in the order of the enumeration");

}  // namespace

const OpcodeInfo& InfoOf(Opcode opcode) {
  const int index = static_cast<int>(opcode);
  HY_CHECK(index < kOpcodeCount, "opcode {}", index);
  return kTable[index];
}

Result<Opcode> ParseOpcode(std::string_view name) {
  for (const OpcodeInfo& row : kTable) {
    if (row.name == name) return row.opcode;
  }
  return InvalidArgument("'{}' is not a Kernel IR op.", name);
}

bool TakesAlign(Opcode opcode) {
  return opcode == Opcode::kLoad || opcode == Opcode::kStore || opcode == Opcode::kFragmentLoad ||
         opcode == Opcode::kFragmentStore;
}

int64_t AlignOf(const Op& op) {
  const size_t own = static_cast<size_t>(InfoOf(op.opcode).immediates);
  return TakesAlign(op.opcode) && op.immediates.size() > own ? op.immediates[own] : 1;
}

int ElementsPerWorkitem(Type fragment) { return fragment.rows * fragment.cols / 32; }

FragmentPlace PlaceInFragment(Type fragment, int lane, int element) {
  const int tile = element / 4, i = element % 4, tiles = fragment.cols / 8;
  return {tile / tiles * 16 + lane / 4 + i / 2 * 8, tile % tiles * 8 + lane % 4 * 2 + i % 2};
}

BufferId SecondBuffer(const Op& op) {
  const bool has = op.opcode == Opcode::kAsyncCopy || op.opcode == Opcode::kMmaAsync;
  return has ? static_cast<BufferId>(op.immediates[0]) : kNone;
}

bool Touches(const Kernel& kernel, const Op& op, BufferId buffer) {
  if (op.buffer == buffer) return true;
  if (SecondBuffer(op) == buffer) return true;
  for (BlockId block : op.blocks) {
    for (OpId inner : kernel.blocks[block].ops) {
      if (Touches(kernel, kernel.ops[inner], buffer)) return true;
    }
  }
  return false;
}

std::string FormatType(Type type) {
  if (type.lanes == 0) return "void";
  if (type.IsFragment()) {
    const char use = "?abcp"[static_cast<int>(type.use)];
    return fmt::format("{}.{}.{}x{}", FormatDType(type.dtype), use, type.rows, type.cols);
  }
  if (type.lanes == 1) return std::string(FormatDType(type.dtype));
  return fmt::format("{}x{}", FormatDType(type.dtype), type.lanes);
}

// The part of a fragment's type after the dtype: "a.16x16".
static bool ParseFragment(std::string_view text, Type* type) {
  static constexpr std::pair<char, FragmentUse> kUses[] = {{'a', FragmentUse::kA},
                                                           {'b', FragmentUse::kB},
                                                           {'c', FragmentUse::kAccumulator},
                                                           {'p', FragmentUse::kPending}};
  if (text.size() < 5 || text[1] != '.') return false;
  for (const auto& [letter, use] : kUses) {
    if (letter == text[0]) type->use = use;
  }
  const char* end = text.data() + text.size();
  const auto rows = std::from_chars(text.data() + 2, end, type->rows);
  if (!type->IsFragment() || rows.ec != std::errc() || rows.ptr == end || *rows.ptr != 'x') {
    return false;
  }
  const auto cols = std::from_chars(rows.ptr + 1, end, type->cols);
  return cols.ec == std::errc() && cols.ptr == end;
}

Result<Type> ParseType(std::string_view text) {
  if (text == "void") return Type{};
  if (const size_t dot = text.find('.'); dot != std::string_view::npos) {
    Type type{DType::kInvalid, 1};
    HY_ASSIGN(type.dtype, ParseDType(text.substr(0, dot)));
    if (ParseFragment(text.substr(dot + 1), &type)) return type;
    return InvalidArgument("'{}' is not a type; a fragment is written as f16.a.16x16.", text);
  }
  const size_t cross = text.find('x');
  HY_ASSIGN(const DType dtype, ParseDType(text.substr(0, cross)));
  if (cross == std::string_view::npos) return Type{dtype, 1};
  int lanes = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + cross + 1, end, lanes);
  if (parsed.ec != std::errc() || parsed.ptr != end || lanes < 2 || lanes > kMaxLanes) {
    return InvalidArgument("'{}' is not a type; lanes are 2 to {}.", text, kMaxLanes);
  }
  return Type{dtype, static_cast<uint16_t>(lanes)};
}

}  // namespace halyard::kernel
