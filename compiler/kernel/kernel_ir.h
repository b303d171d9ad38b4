// SPDX-License-Identifier: Apache-2.0
// Kernel IR: the loops, vectors and memory accesses of one kernel, for every target. SSA with structured
// control flow. Scheduling writes it; the interpreter defines its meaning; the LLVM, CUDA C++ and SPIR-V
// emitters translate it op by op and decide nothing.
//
// Semantics. Integers wrap; div and rem truncate, x/0 is 0 and x%0 is 0, INT_MIN/-1 is INT_MIN, abs(INT_MIN)
// is INT_MIN. A shift amount is read as unsigned; by the width or more it gives 0 (arithmetic right shift:
// the sign). Floats are IEEE, round to nearest even, no reassociation and no contraction: a fused
// multiply-add is written `fma`. NaNs are one value: their sign and payload are unspecified. Min and max
// return NaN when an operand is NaN, and one of them when both are equal: which of -0 and +0 is unspecified (a
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
// accesses to one element of which one is a write are a race, as is any such pair in two workgroups unless
// last_arrival orders them. Atomics do not race with atomics. Barriers are reached by all workitems of the workgroup or by none;
// subgroup operations and fragment operations likewise by all of the subgroup. All these are undefined here and
// found by the interpreter.
// Matrix fragments are held by the subgroup together: what they are made from is equal in all of its workitems.
// Where their elements are is the target's secret, except where a kernel asks for a workitem's own elements
// (fragment_elements, fragment_of; subgroups of 32): of tiles of 16 x 8, which go by columns first, element 4t + i of
// lane l is element (l / 4 + 8 * (i / 2), 2 * (l % 4) + i % 2) of tile t. PlaceInFragment (opcode.h) says it in code.
// Asynchronous products. Four subgroups in a row, from one whose number is a multiple of four, are a quad. A quad holds
// a matrix of 64 rows, subgroup i of it rows 16 i to 16 i + 15, each as a fragment. mma_begin hands a fragment over
// (use kPending), mma_async adds to it, mma_end gives it back; between them its elements are nobody's. The groups of a
// quad (mma_commit) end in their order; until one has ended (mma_wait), what its products read in workgroup memory must
// not be written. They see what a workitem wrote there only after an async_fence of that workitem behind the write and a
// barrier behind the fence. Operands lie in tiles: 64 elements of 16 bits in a row, rows swizzled (SwizzledPlace,
// PlaceInTile in opcode.h), in allocations that begin at a multiple of 1024 bytes. All of a quad
// reaches these ops, with equal indices.
// Dispatches. A kernel without await_dispatches begins when the dispatches that it depends on are done. One with it may
// begin earlier, and sees what they wrote, and may write what they read, only behind that op, which every workitem
// reaches outside of control flow.
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
// kPending: an accumulator that asynchronous products may be changing.
enum class FragmentUse : uint8_t { kNone, kA, kB, kAccumulator, kPending };

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

// How an operand of mma_async lies in its tile (PlaceInTile). Its side is m of A and n of B.
enum class TileLayout : int64_t {
  kDepthMajor,  // rows along k
  kSideMajor,   // rows along the side
};

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
  kScale,        // (x, n): x * 2^floor(n), rounded once; f32. Of an infinite n: any value. CPU kernels only
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
  kFragmentElements,  // (accumulator): the workitem's own elements as a vector
  kFragmentOf,     // (vector): the accumulator, or A of 16-bit floats, whose elements these are
  kMmaBegin,       // (accumulator 16 x n of f32, or one that is pending): the same, pending
  kMmaAsync,       // (pending, index of A, index of B): pending + A (64 x 16) * B (16 x n). Imms: the buffer of B,
                   // TileLayout of A and of B, and the strides of both tiles (PlaceInTile); `buffer` has A. Of 16-bit
                   // floats, indices multiples of 8
  kMmaEnd,         // (pending): the accumulator; every product of the quad has ended
  // GPU only
  kBarrier,             // orders workgroup and global memory between the workitems of the workgroup
  kAwaitDispatches,     // until the dispatches that this one depends on are done; once in a kernel
  kReleaseDispatches,   // dispatches that depend on this one may begin once all of its workgroups came here or ended
  kSubgroupShuffle,     // (value, lane i32): the value of that lane
  kSubgroupShuffleXor,  // (value), imm: mask; the value of lane (own lane xor mask)
  kAsyncCopy,    // (destination index, source index [, mask]), imms: source buffer, elements. From global to workgroup
                 // memory (`buffer`), 4, 8 or 16 bytes, indices multiples of `elements`; masked off: zeros
  kAsyncCommit,  // the workitem's copies since the last commit are one group
  kAsyncWait,    // imm: at most so many of the workitem's latest groups are pending; the rest took effect for it
  kAsyncFence,   // what the workitem wrote to workgroup memory is seen by mma_async behind a barrier
  kMmaCommit,    // the quad's products since the last commit are one group
  kMmaWait,      // imm: at most so many of the quad's latest groups are pending
  kLastArrival,  // (index, count): a barrier that also adds one to that element (32-bit integer in global memory, 0
                 // at first). True in the workgroup that is the count-th, which sets the element to 0 again: it then
                 // sees what the others wrote before they arrived. One index and count in all of the workgroup
};
inline constexpr int kOpcodeCount = static_cast<int>(Opcode::kLastArrival) + 1;

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
  // Whether a kernel that waits itself (kAwaitDispatches) is to be launched before what it waits
  // for has ended. If not, the wait is over at once; the code is as good as what waits makes it.
  bool begins_early = true;
  std::vector<Op> ops;
  std::vector<Value> values;
  std::vector<Block> blocks;       // blocks[0] is the body
  std::vector<ReportSite> sites;
};

struct Module {
  std::vector<Kernel> kernels;
};

}  // namespace halyard::kernel
