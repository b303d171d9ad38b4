// SPDX-License-Identifier: Apache-2.0
#include "tests/codegen/spirv/module_checker.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <spirv/unified1/spirv.hpp11>
#include <string_view>
#include <vector>

#include "compiler/codegen/spirv/khr_enums.h"

namespace halyard::testing {
namespace {

using spv::Op;

// The operands of an instruction: t result type, r result, i id, l literal word, s string, I any
// number of ids, L any number of literals. `rule` says what the types must be.
enum class Rule {
  kNone,
  kSame,     // every id has the result's type
  kDivide,   // the same, and of 32 bits
  kSelect,   // bool, then two of the result's type
  kCompare,  // two ids of one type; bool
  kLoad,
  kStore,
  kMulAdd,
  kMatrixLoad,
  kMatrixStore,
  kCompositeFill,
  kCondition,  // the first id is a bool
};
struct Grammar {
  Op op;
  std::string_view operands;
  Rule rule = Rule::kNone;
};

constexpr Grammar kGrammar[] = {
    {Op::OpCapability, "l"},
    {Op::OpExtension, "s"},
    {Op::OpExtInstImport, "rs"},
    {Op::OpMemoryModel, "ll"},
    {Op::OpEntryPoint, "lisI"},
    {Op::OpExecutionMode, "ilL"},
    {Op::OpDecorate, "ilL"},
    {Op::OpMemberDecorate, "illL"},
    {Op::OpTypeVoid, "r"},
    {Op::OpTypeBool, "r"},
    {Op::OpTypeInt, "rll"},
    {Op::OpTypeFloat, "rlL"},
    {Op::OpTypeVector, "ril"},
    {Op::OpTypeArray, "rii"},
    {Op::OpTypeRuntimeArray, "ri"},
    {Op::OpTypeStruct, "rI"},
    {Op::OpTypePointer, "rli"},
    {Op::OpTypeFunction, "riI"},
    {spirv::kOpTypeCooperativeMatrix, "riiiii"},
    {Op::OpConstantTrue, "tr"},
    {Op::OpConstantFalse, "tr"},
    {Op::OpConstant, "trL"},
    {Op::OpConstantNull, "tr"},
    {Op::OpVariable, "trl"},
    {Op::OpFunction, "trli"},
    {Op::OpFunctionEnd, ""},
    {Op::OpLabel, "r"},
    {Op::OpReturn, ""},
    {Op::OpBranch, "i"},
    {Op::OpBranchConditional, "iii", Rule::kCondition},
    {Op::OpSelectionMerge, "il"},
    {Op::OpLoopMerge, "iil"},
    {Op::OpPhi, "trI"},
    {Op::OpLoad, "triL", Rule::kLoad},
    {Op::OpStore, "iiL", Rule::kStore},
    {Op::OpAccessChain, "triI"},
    {Op::OpExtInst, "trilI"},
    {Op::OpConvertUToPtr, "tri"},
    {Op::OpBitcast, "tri"},
    {Op::OpUConvert, "tri"},
    {Op::OpSConvert, "tri"},
    {Op::OpFConvert, "tri"},
    {Op::OpConvertSToF, "tri"},
    {Op::OpConvertUToF, "tri"},
    {Op::OpConvertFToS, "tri"},
    {Op::OpConvertFToU, "tri"},
    {Op::OpCompositeConstruct, "trI", Rule::kCompositeFill},
    {Op::OpCompositeExtract, "triL"},
    {Op::OpSelect, "triii", Rule::kSelect},
    {Op::OpControlBarrier, "iii"},
    {Op::OpAtomicIAdd, "triiii"},
    {Op::OpAtomicStore, "iiii"},
    {Op::OpAtomicCompareExchange, "triiiiii"},
    {Op::OpGroupNonUniformShuffle, "triii"},
    {Op::OpGroupNonUniformShuffleXor, "triii"},
    {Op::OpIsNan, "tri"},
    {Op::OpSNegate, "tri", Rule::kSame},
    {Op::OpFNegate, "tri", Rule::kSame},
    {Op::OpNot, "tri", Rule::kSame},
    {Op::OpLogicalNot, "tri", Rule::kSame},
    {Op::OpIAdd, "trii", Rule::kSame},
    {Op::OpISub, "trii", Rule::kSame},
    {Op::OpIMul, "trii", Rule::kSame},
    {Op::OpSDiv, "trii", Rule::kDivide},
    {Op::OpUDiv, "trii", Rule::kDivide},
    {Op::OpSRem, "trii", Rule::kDivide},
    {Op::OpUMod, "trii", Rule::kDivide},
    {Op::OpFAdd, "trii", Rule::kSame},
    {Op::OpFSub, "trii", Rule::kSame},
    {Op::OpFMul, "trii", Rule::kSame},
    {Op::OpFDiv, "trii", Rule::kSame},
    {Op::OpShiftLeftLogical, "trii", Rule::kSame},
    {Op::OpShiftRightLogical, "trii", Rule::kSame},
    {Op::OpShiftRightArithmetic, "trii", Rule::kSame},
    {Op::OpBitwiseAnd, "trii", Rule::kSame},
    {Op::OpBitwiseOr, "trii", Rule::kSame},
    {Op::OpBitwiseXor, "trii", Rule::kSame},
    {Op::OpLogicalAnd, "trii", Rule::kSame},
    {Op::OpLogicalOr, "trii", Rule::kSame},
    {Op::OpLogicalEqual, "trii", Rule::kSame},
    {Op::OpLogicalNotEqual, "trii", Rule::kSame},
    {Op::OpIEqual, "trii", Rule::kCompare},
    {Op::OpINotEqual, "trii", Rule::kCompare},
    {Op::OpSLessThan, "trii", Rule::kCompare},
    {Op::OpSLessThanEqual, "trii", Rule::kCompare},
    {Op::OpSGreaterThan, "trii", Rule::kCompare},
    {Op::OpSGreaterThanEqual, "trii", Rule::kCompare},
    {Op::OpULessThan, "trii", Rule::kCompare},
    {Op::OpULessThanEqual, "trii", Rule::kCompare},
    {Op::OpUGreaterThan, "trii", Rule::kCompare},
    {Op::OpUGreaterThanEqual, "trii", Rule::kCompare},
    {Op::OpFOrdEqual, "trii", Rule::kCompare},
    {Op::OpFUnordNotEqual, "trii", Rule::kCompare},
    {Op::OpFOrdLessThan, "trii", Rule::kCompare},
    {Op::OpFOrdLessThanEqual, "trii", Rule::kCompare},
    {Op::OpFOrdGreaterThan, "trii", Rule::kCompare},
    {Op::OpFOrdGreaterThanEqual, "trii", Rule::kCompare},
    {spirv::kOpCooperativeMatrixLoad, "triiiL", Rule::kMatrixLoad},
    {spirv::kOpCooperativeMatrixStore, "iiiiL", Rule::kMatrixStore},
    {spirv::kOpCooperativeMatrixMulAdd, "triiiL", Rule::kMulAdd},
};

struct Instruction {
  Op op = Op::OpNop;
  uint32_t type = 0;
  uint32_t result = 0;
  std::vector<uint32_t> ids;  // without type and result
  std::vector<uint32_t> literals;
  int block = -1;  // index of the block that holds it; -1: outside the function
};

class Checker {
 public:
  explicit Checker(std::span<const uint32_t> words) : words_(words) {}

  std::string Run() {
    if (words_.size() < 5 || words_[0] != spv::MagicNumber) return "There is no header.";
    if (!Read() || !CheckBlocks() || !CheckUses() || !CheckTypes()) return problem_;
    return "";
  }

 private:
  template <typename... Args>
  bool Fail(fmt::format_string<Args...> format, Args&&... args) {
    problem_ = fmt::format(format, std::forward<Args>(args)...);
    return false;
  }

  bool Read() {
    for (size_t at = 5; at < words_.size();) {
      const uint32_t length = words_[at] >> 16;
      const Op op = static_cast<Op>(words_[at] & 0xffff);
      if (length == 0 || at + length > words_.size()) return Fail("Word {} has no length.", at);
      const Grammar* grammar = nullptr;
      for (const Grammar& row : kGrammar) {
        if (row.op == op) grammar = &row;
      }
      if (!grammar) return Fail("Word {} has the unknown op {}.", at, static_cast<int>(op));
      Instruction instruction;
      instruction.op = op;
      size_t next = at + 1;
      const size_t end = at + length;
      for (char kind : grammar->operands) {
        if (kind == 'I' || kind == 'L') {
          while (next < end) {
            (kind == 'I' ? instruction.ids : instruction.literals).push_back(words_[next++]);
          }
          continue;
        }
        if (kind == 's') {
          while (next < end && (words_[next++] >> 24) != 0) {
          }
          continue;
        }
        if (next >= end) return Fail("Op {} at word {} is short.", static_cast<int>(op), at);
        const uint32_t word = words_[next++];
        if (kind == 't') instruction.type = word;
        if (kind == 'r') instruction.result = word;
        if (kind == 'i') instruction.ids.push_back(word);
        if (kind == 'l') instruction.literals.push_back(word);
      }
      if (next != end) return Fail("Op {} at word {} is long.", static_cast<int>(op), at);
      if (instruction.result != 0) {
        if (instruction.result >= words_[3])
          return Fail("Id {} is not below the bound.", instruction.result);
        if (!definitions_.emplace(instruction.result, instructions_.size()).second) {
          return Fail("Id {} is defined twice.", instruction.result);
        }
      }
      instructions_.push_back(std::move(instruction));
      at = end;
    }
    return true;
  }

  static bool IsTerminator(Op op) {
    return op == Op::OpReturn || op == Op::OpBranch || op == Op::OpBranchConditional;
  }

  bool CheckBlocks() {
    bool is_open = false;
    for (size_t n = 0; n < instructions_.size(); ++n) {
      Instruction& i = instructions_[n];
      if (i.op == Op::OpLabel) {
        if (is_open) return Fail("Block {} starts inside another.", i.result);
        is_open = true;
        block_of_[i.result] = static_cast<int>(blocks_.size());
        blocks_.push_back(i.result);
        successors_.emplace_back();
      }
      if (!is_open) continue;
      i.block = static_cast<int>(blocks_.size()) - 1;
      const bool merges = i.op == Op::OpSelectionMerge || i.op == Op::OpLoopMerge;
      if (merges && !IsTerminator(instructions_[n + 1].op)) return Fail("A merge stands alone.");
      if (i.op == Op::OpBranchConditional && instructions_[n - 1].op != Op::OpSelectionMerge &&
          instructions_[n - 1].op != Op::OpLoopMerge) {
        return Fail("A branch in block {} has no merge.", blocks_.back());
      }
      if (!IsTerminator(i.op)) continue;
      is_open = false;
      for (size_t t = i.op == Op::OpBranchConditional ? 1 : 0; t < i.ids.size(); ++t) {
        successors_.back().push_back(i.ids[t]);
      }
    }
    if (is_open) return Fail("The last block does not end.");
    const size_t count = blocks_.size();
    predecessors_.resize(count);
    for (size_t b = 0; b < count; ++b) {
      for (uint32_t label : successors_[b]) {
        if (!block_of_.contains(label)) return Fail("A branch goes to {}, no block.", label);
        predecessors_[static_cast<size_t>(block_of_[label])].insert(static_cast<int>(b));
      }
    }
    // Dominators, to a fixed point.
    std::set<int> all;
    for (size_t b = 0; b < count; ++b) all.insert(static_cast<int>(b));
    dominators_.assign(count, all);
    dominators_[0] = {0};
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t b = 1; b < count; ++b) {
        std::set<int> common = predecessors_[b].empty() ? std::set<int>() : all;
        for (int p : predecessors_[b]) {
          std::erase_if(common,
                        [&](int d) { return !dominators_[static_cast<size_t>(p)].contains(d); });
        }
        common.insert(static_cast<int>(b));
        if (common != dominators_[b]) {
          dominators_[b] = std::move(common);
          changed = true;
        }
      }
    }
    return true;
  }

  // The definition of `id` reaches the end of `block` (before instruction `user`, in its own
  // block).
  bool Reaches(uint32_t id, size_t user, int block) const {
    const auto at = definitions_.find(id);
    if (at == definitions_.end()) return false;
    const Instruction& definition = instructions_[at->second];
    if (definition.block < 0) return at->second < user;
    if (definition.block == block) return at->second < user;
    return dominators_[static_cast<size_t>(block)].contains(definition.block);
  }

  bool CheckUses() {
    for (size_t n = 0; n < instructions_.size(); ++n) {
      const Instruction& i = instructions_[n];
      if (i.op == Op::OpEntryPoint || i.op == Op::OpExecutionMode || i.op == Op::OpDecorate ||
          i.op == Op::OpMemberDecorate) {
        for (uint32_t id : i.ids) {
          if (!definitions_.contains(id)) return Fail("Id {} is named and not defined.", id);
        }
        continue;
      }
      if (i.type != 0 && !Reaches(i.type, n, i.block)) return Fail("Id {} has no type.", i.result);
      if (i.op == Op::OpPhi) {
        std::set<int> named;
        for (size_t k = 0; k + 1 < i.ids.size(); k += 2) {
          if (!block_of_.contains(i.ids[k + 1])) return Fail("Phi {} names no block.", i.result);
          const int from = block_of_[i.ids[k + 1]];
          named.insert(from);
          if (!Reaches(i.ids[k], instructions_.size(), from)) {
            return Fail("Phi {} uses {}, which does not reach it.", i.result, i.ids[k]);
          }
        }
        if (named != predecessors_[static_cast<size_t>(i.block)]) {
          return Fail("Phi {} does not name the predecessors.", i.result);
        }
        continue;
      }
      for (uint32_t id : i.ids) {
        if (block_of_.contains(id)) continue;
        if (!Reaches(id, n, i.block)) return Fail("Id {} is used before it is defined.", id);
      }
    }
    return true;
  }

  // Of an id without a definition, and of a type of no operands: zeros.
  const Instruction& Definition(uint32_t id) const {
    static const Instruction kNothing = [] {
      Instruction nothing;
      nothing.ids.assign(8, 0);
      nothing.literals.assign(8, 0);
      return nothing;
    }();
    const auto at = definitions_.find(id);
    return at == definitions_.end() ? kNothing : instructions_[at->second];
  }
  uint32_t TypeOf(uint32_t id) const { return Definition(id).type; }
  bool IsMatrix(uint32_t type) const {
    return Definition(type).op == spirv::kOpTypeCooperativeMatrix;
  }
  // Component, scope, rows, columns and use of a matrix type.
  const std::vector<uint32_t>& MatrixOf(uint32_t type) const { return Definition(type).ids; }
  uint32_t PointeeOf(uint32_t pointer) const {
    const Instruction& type = Definition(TypeOf(pointer));
    return type.op == Op::OpTypePointer ? type.ids[0] : 0;
  }

  bool CheckType(const Instruction& i, Rule rule) {
    switch (rule) {
      case Rule::kNone:
        return true;
      case Rule::kSame:
        for (uint32_t id : i.ids) {
          if (TypeOf(id) != i.type) return false;
        }
        return true;
      case Rule::kDivide:
        return CheckType(i, Rule::kSame) && Definition(i.type).literals[0] == 32;
      case Rule::kSelect:
        return Definition(TypeOf(i.ids[0])).op == Op::OpTypeBool && TypeOf(i.ids[1]) == i.type &&
               TypeOf(i.ids[2]) == i.type;
      case Rule::kCompare:
        return TypeOf(i.ids[0]) == TypeOf(i.ids[1]) && Definition(i.type).op == Op::OpTypeBool;
      case Rule::kLoad:
        return PointeeOf(i.ids[0]) == i.type;
      case Rule::kStore:
        return PointeeOf(i.ids[0]) == TypeOf(i.ids[1]);
      case Rule::kCondition:
        return Definition(TypeOf(i.ids[0])).op == Op::OpTypeBool;
      case Rule::kCompositeFill:
        return !IsMatrix(i.type) || (i.ids.size() == 1 && TypeOf(i.ids[0]) == MatrixOf(i.type)[0]);
      case Rule::kMatrixLoad:
      case Rule::kMatrixStore: {
        const bool loads = rule == Rule::kMatrixLoad;
        const uint32_t type = loads ? i.type : TypeOf(i.ids[1]);
        const Op pointee = Definition(PointeeOf(i.ids[0])).op;
        const uint32_t stride = i.ids.back();
        return IsMatrix(type) && Definition(i.ids[0]).op == Op::OpAccessChain &&
               (pointee == Op::OpTypeInt || pointee == Op::OpTypeFloat ||
                pointee == Op::OpTypeVector) &&
               Definition(TypeOf(stride)).op == Op::OpTypeInt &&
               Definition(i.ids[loads ? 1 : 2]).op == Op::OpConstant;
      }
      case Rule::kMulAdd: {
        for (uint32_t id : i.ids) {
          if (!IsMatrix(TypeOf(id))) return false;
        }
        const auto& a = MatrixOf(TypeOf(i.ids[0]));
        const auto& b = MatrixOf(TypeOf(i.ids[1]));
        const auto& c = MatrixOf(TypeOf(i.ids[2]));
        const auto use = [&](const std::vector<uint32_t>& m) {
          return Definition(m[4]).literals[0];
        };
        return TypeOf(i.ids[2]) == i.type && a[2] == c[2] && a[3] == b[2] && b[3] == c[3] &&
               use(a) == spirv::kMatrixUseA && use(b) == spirv::kMatrixUseB &&
               use(c) == spirv::kMatrixUseAccumulator;
      }
    }
    return true;
  }

  bool CheckTypes() {
    for (const Instruction& i : instructions_) {
      for (const Grammar& row : kGrammar) {
        if (row.op != i.op || CheckType(i, row.rule)) continue;
        return Fail("Op {} with result {} has operands of wrong types.", static_cast<int>(i.op),
                    i.result);
      }
    }
    return true;
  }

  std::span<const uint32_t> words_;
  std::string problem_;
  std::vector<Instruction> instructions_;
  std::map<uint32_t, size_t> definitions_;
  std::map<uint32_t, int> block_of_;
  std::vector<uint32_t> blocks_;
  std::vector<std::vector<uint32_t>> successors_;
  std::vector<std::set<int>> predecessors_;
  std::vector<std::set<int>> dominators_;
};

}  // namespace

std::string CheckSpirvModule(std::span<const uint32_t> words) { return Checker(words).Run(); }

}  // namespace halyard::testing
