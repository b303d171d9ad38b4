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

// "f32", "i64x8"; "f16.a.16x16", "f32.c.16x16" for fragments; "void" for no value. Parse is the
// inverse (lanes 1 is never written).
std::string FormatType(Type type);
Result<Type> ParseType(std::string_view text);

// The most lanes a value may have.
inline constexpr int kMaxLanes = 256;

}  // namespace halyard::kernel
