// SPDX-License-Identifier: Apache-2.0
// Kernel IR: the loops, vectors and memory accesses of one kernel, for every target. SSA with structured
// control flow. Scheduling writes it; the interpreter defines its meaning; the LLVM, CUDA C++ and SPIR-V
// emitters translate it op by op and decide nothing.
//
// Semantics. Integers wrap; div and rem truncate, x/0 is 0 and x%0 is 0, INT_MIN/-1 is INT_MIN, abs(INT_MIN)
// is INT_MIN. A shift amount is read as unsigned; by the width or more it gives 0 (arithmetic right shift:
// the sign). Floats are IEEE, round to nearest even, no reassociation and no contraction: a fused
// multiply-add is written `fma`. NaNs are one value: their sign and payload are unspecified. Min and max
// return NaN when an operand is NaN, and the second operand when both are equal (so max(-0, +0) is +0; a
// constant is cheapest as the first operand). Comparisons with NaN are false but for ne.
// Conversion: float to int truncates and saturates, NaN becomes 0; int to int wraps; to bool is "not 0" (NaN
// is true); to f16 or bf16 from anything but f32 goes through f32, rounding twice.
// f16, bf16 and bool carry no arithmetic (bool: and, or, xor, not, eq, ne only): convert to f32 first.
// A masked-off lane accesses no memory; a masked-off load yields the pass-through operand.
// Accesses out of a buffer's bounds are undefined here and found by the interpreter.
// A for loop runs while iv < hi; its step is positive and hi + unroll * step fits the type. A report does
// not leave the kernel.
// Workitems. A value belongs to one workitem; a vector is several elements that one workitem holds. The linear id
// of a workitem is x + sx * (y + sy * z); subgroups are runs of consecutive linear ids. A kernel of one workitem
// and no subgroup size is a CPU kernel: it has no barriers, subgroup operations, fragments and async copies.
// Workitems see each other's writes to workgroup and global memory after a barrier; without one between them, two
// accesses to one element of which one is a write are a race, as is any such pair in two workgroups. Atomics
// do not race with atomics. Barriers are reached by all workitems of the workgroup or by none;
// subgroup operations and fragment operations likewise by all of the subgroup. All these are undefined here and
// found by the interpreter.
// Matrix fragments are held by the subgroup together: what they are made from is equal in all of its workitems.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/error_record.h"
#include "base/status.h"

namespace halyard::kernel {

// What a matrix fragment is in C[m,n] += A[m,k] * B[k,n]: A is m x k, B is k x n, the accumulator is m x n.
enum class FragmentUse : uint8_t { kNone, kA, kB, kAccumulator };

// The type of an SSA value: `lanes` elements of `dtype`. Lanes 1 is a scalar. A mask is kBool with lanes.
// Indices are kI64 (kI32 where scheduling proved that it suffices). kInvalid with 0 lanes: no value.
// With a `use`, a matrix of rows x cols elements spread over the subgroup; lanes is 1.
struct Type {
  DType dtype = DType::kInvalid;
  uint16_t lanes = 0;
  FragmentUse use = FragmentUse::kNone;
  uint16_t rows = 0;
  uint16_t cols = 0;
  bool IsFragment() const { return use != FragmentUse::kNone; }
  friend bool operator==(Type, Type) = default;
};

enum class MemorySpace : uint8_t { kGlobal, kWorkgroup, kPrivate };

enum class Access : uint8_t { kRead, kWrite, kReadWrite };

// How a fragment lies in memory: element (row, col) is at index + row * stride + col, or + row + col * stride.
enum class FragmentLayout : int64_t { kRowMajor, kColumnMajor };

// A memory object that loads and stores name by index: a buffer parameter, or an allocation in workgroup
// memory (shared by a workgroup) or private memory (of one workitem), with a fixed element count and undefined
// contents at the start. Element type and index unit are `dtype`.
struct Buffer {
  std::string name;
  DType dtype = DType::kInvalid;
  MemorySpace space = MemorySpace::kGlobal;
  Access access = Access::kRead;
  int64_t elements = -1;   // fixed for allocations; -1: given at dispatch
  bool no_alias = true;    // no other buffer of the kernel overlaps it, unless both are only read
};

enum class Opcode : uint8_t {
  // Values
  kConst,        // imm: bits of the value (double bits for floats of any width, int64 for the rest), splat
  kScalar,       // imm: index of the scalar parameter; i64
  kWorkgroupId,  // imm: axis 0..2; this and the next four: i32 or i64
  kWorkitemId,   // imm: axis
  kSubgroupLane, kSubgroupSize,
  kSubgroupId,   // index of the subgroup in its workgroup
  kIota,         // lanes 0, 1, 2, ... of the result's dtype
  kSplat,        // (scalar) -> vector
  kExtract,      // (vector), imm: lane
  kInsert,       // (vector, scalar), imm: lane
  kShuffle,      // (a, b), imms: lane of concat(a, b) per result lane
  // Arithmetic; operands and result have one type
  kAdd, kSub, kMul, kDiv, kRem, kMin, kMax, kNeg, kAbs,
  kFma,          // a * b + c in one rounding; floats
  kAnd, kOr, kXor, kNot, kShl, kShr,   // kShr is arithmetic for signed types
  kSqrt, kFloor, kCeil, kTrunc, kRoundEven, kCopySign,
  // Transcendentals: legal until `expand-math`, which writes them as arithmetic where the target has none
  kExp, kExp2, kLog, kLog2, kSin, kCos, kTan, kTanh, kErf, kPow, kAsin, kAcos, kAtan, kSinh, kCosh,
  kAsinh, kAcosh, kAtanh, kRsqrt,
  // Comparison (result bool with the operands' lanes), selection, conversion
  kEq, kNe, kLt, kLe, kGt, kGe,
  kSelect,       // (mask, a, b); the mask has the lanes of a and b, or one for all of them
  kConvert,      // value conversion between dtypes
  kBitcast,      // same total bits
  // Memory. `buffer` names the object; index in elements. An optional last immediate of load, store,
  // fragment_load and fragment_store: `align`, the index (and stride) is a multiple of so many elements.
  kLoad,         // (index [, mask, passthrough]): lanes contiguous elements
  kStore,        // (index, value [, mask])
  kGather,       // (index vector [, mask, passthrough])
  kScatter,      // (index vector, value [, mask]); overlapping lanes: the highest lane wins
  kBroadcastLoad,// (index): one element to all lanes
  kPrefetch,     // (index), imm: locality 0..3
  kAtomicAdd,    // (index, value): integers only; global or workgroup memory
  // Lane reductions, vector to scalar; lanes a power of two; order: lane i with lane i + n/2, repeated
  kReduceAdd, kReduceMul, kReduceMin, kReduceMax, kReduceAnd, kReduceOr,
  // Structured control flow
  kFor,          // (lo, hi, step, init...): body block params = (iv, carried...); yields carried; imm: how
                 // many times the emitter repeats the body (0 and 1: not unrolled)
  kIf,           // (condition): blocks then, else; results are what they yield
  kYield,        // (values...)
  kReport,       // (condition, value, limit), imm: KernelErrorReason, imm2: site; on true writes the record.
                 // i64 value with the condition's lanes, i64 scalar limit; the lowest true lane reports
  // Matrix fragments (AMX tiles, mma, cooperative matrices), in global or workgroup memory. Accumulators of one type
  // also go through add and mul, and through convert to another accumulator dtype, element by element.
  kFragmentFill,   // (scalar): every element
  kFragmentLoad,   // (index, stride), imm: FragmentLayout
  kFragmentStore,  // (index, value, stride), imm: FragmentLayout
  kFragmentMma,    // (a, b, c): a * b + c; the order of the sum and its intermediate rounding are the target's
  // GPU only
  kBarrier,             // orders workgroup and global memory between the workitems of the workgroup
  kSubgroupShuffle,     // (value, lane i32): the value of that lane
  kSubgroupShuffleXor,  // (value), imm: mask; the value of lane (own lane xor mask)
  kAsyncCopy,    // (destination index, source index [, mask]), imms: source buffer, elements. From global to workgroup
                 // memory (`buffer`), 4, 8 or 16 bytes, indices multiples of `elements`; masked off: zeros
  kAsyncCommit,  // the workitem's copies since the last commit are one group
  kAsyncWait,    // imm: at most so many of the workitem's latest groups are pending; the rest took effect for it
};
inline constexpr int kOpcodeCount = static_cast<int>(Opcode::kAsyncWait) + 1;

using OpId = uint32_t;
using ValueId = uint32_t;
using BlockId = uint32_t;
using BufferId = uint32_t;
inline constexpr uint32_t kNone = UINT32_MAX;

struct Op {
  Opcode opcode;
  Type type;                       // of the (first) result; lanes 0: none
  BufferId buffer = kNone;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  std::vector<int64_t> immediates;
  std::vector<BlockId> blocks;     // kFor: one; kIf: two
};

struct Value {
  Type type;
  OpId producer = kNone;           // kNone: a block parameter
};

struct Block {
  std::vector<ValueId> parameters;
  std::vector<OpId> ops;           // the last is kYield in loop and if bodies
};

// Where a kError report points back to: a graph node and operand, for the message.
struct ReportSite {
  std::string node;                // name of the graph node
  std::string what;                // "index of Gather", ...
};

struct Kernel {
  std::string name;                // unique within its module; [A-Za-z0-9_]+
  std::vector<Buffer> buffers;     // parameters (space kGlobal) first, in binding order; then allocations
  std::vector<std::string> scalars;
  int64_t workgroup_size[3] = {1, 1, 1};
  int32_t subgroup_size = 0;       // that the code relies on; 0: any
  std::vector<Op> ops;
  std::vector<Value> values;
  std::vector<Block> blocks;       // blocks[0] is the body
  std::vector<ReportSite> sites;
};

struct Module {
  std::vector<Kernel> kernels;
};

}  // namespace halyard::kernel
