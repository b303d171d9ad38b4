// SPDX-License-Identifier: Apache-2.0
// The table of Kernel IR opcodes: text names, operand counts and the dtypes an arithmetic op takes.
// The printer, parser, verifier, interpreter and the completeness tests read it; it holds no
// semantics.
#pragma once

#include <string>
#include <string_view>

#include "compiler/kernel/kernel_ir.h"

namespace halyard::kernel {

// What the operand and result types of an opcode have to do with each other.
enum class OpClass : uint8_t {
  kSource,      // no operands: const, scalar, ids, iota
  kLanes,       // splat, extract, insert, shuffle
  kArithmetic,  // operands and result of one type
  kCompare,     // operands of one type, result bool
  kSelect,
  kConvert,  // convert, bitcast
  kMemory,
  kReduce,  // vector to scalar of its dtype
  kControl,
  kFragment,
  kGpu,  // barrier, subgroup and async operations
  kCpu,  // arithmetic that only CPU kernels have
};

// Kinds of dtype that an arithmetic, comparison or reduction op takes.
enum OpDomain : uint8_t { kNoDomain = 0, kInts = 1, kFloats = 2, kBools = 4 };

struct OpcodeInfo {
  Opcode opcode;
  std::string_view name;
  OpClass op_class;
  int min_operands;
  int max_operands;     // -1: any number
  int immediates;       // -1: any number; without the optional align
  uint8_t domain;       // OpDomain bits
  bool transcendental;  // expand-math rewrites it
};

// `opcode` must be a member of the enumeration.
const OpcodeInfo& InfoOf(Opcode opcode);
inline std::string_view FormatOpcode(Opcode opcode) { return InfoOf(opcode).name; }
Result<Opcode> ParseOpcode(std::string_view name);

// Load, store, fragment_load and fragment_store: the immediate after the opcode's own ones may be
// `align`.
bool TakesAlign(Opcode opcode);
// The align of a load or store in elements; 1 where none is given.
int64_t AlignOf(const Op& op);

// Of a fragment that fragment_elements and fragment_of take: how many elements a workitem has, and
// where the one numbered `element` of lane `lane` is.
struct FragmentPlace {
  int row = 0;
  int col = 0;
};
int ElementsPerWorkitem(Type fragment);
FragmentPlace PlaceInFragment(Type fragment, int lane, int element);

inline constexpr int32_t kSubgroupsOfQuad = 4;
inline constexpr int kRowsOfQuad = 64;      // of A and the sum of one mma_async
inline constexpr int kDepthOfProduct = 16;  // and its k

// Where element `place` of a buffer of swizzled tiles of 16-bit elements is: of eight groups of
// eight elements in a row of 64, group g of row r is at g xor (r mod 8). Its own inverse; a
// multiple of 512 may be added before or after.
constexpr int64_t SwizzledPlace(int64_t place) { return place ^ (((place >> 6) & 7) << 3); }
// The index of an element of an operand of mma_async whose index is `first`. kDepthMajor: row
// `side` follows the row before, `stride` is not used. kSideMajor: row `depth` likewise, and groups
// of 64 along the side are `stride` elements apart.
constexpr int64_t PlaceInTile(TileLayout layout, int64_t first, int64_t stride, int64_t side,
                              int64_t depth) {
  return SwizzledPlace(layout == TileLayout::kDepthMajor
                           ? first + side * 64 + depth
                           : first + side / 64 * stride + depth * 64 + side % 64);
}

// The buffer that an op names in its immediates, beside Op::buffer: the source of an async_copy, B
// of an mma_async. kNone: the op names no second one.
BufferId SecondBuffer(const Op& op);

// The op, or one inside of it, reads or writes the buffer.
bool Touches(const Kernel& kernel, const Op& op, BufferId buffer);

// "f32", "i64x8"; "f16.a.16x16", "f32.c.16x16", pending "f32.p.16x16" for fragments; "void" for no
// value. Parse is the inverse (lanes 1 is never written).
std::string FormatType(Type type);
Result<Type> ParseType(std::string_view text);

// The most lanes a value may have.
inline constexpr int kMaxLanes = 256;

}  // namespace halyard::kernel
