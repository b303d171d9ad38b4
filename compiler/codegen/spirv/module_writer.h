// SPDX-License-Identifier: Apache-2.0
// ModuleWriter: the words of one SPIR-V 1.5 module with one compute entry point. It keeps the
// sections in the order that SPIR-V asks for, declares each type and constant once and each
// capability when it is first required. It knows nothing of Kernel IR. Integer types have
// signedness 0 unless asked for; the ops carry the sign.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <spirv/unified1/spirv.hpp11>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace halyard::spirv {

using Id = uint32_t;

class ModuleWriter {
 public:
  // Words of the instructions so far; what a phi needs to be completed later.
  using Position = size_t;

  Id NewId() { return next_id_++; }
  void Require(spv::Capability capability);
  void RequireExtension(std::string_view name);

  // Types
  Id Void();
  Id Bool();
  Id Int(int bits, bool is_signed = false);
  Id Float(int bits);
  Id BFloat16();
  Id Vector(Id component, int count);
  Id Array(Id element, uint32_t length);  // without layout
  Id Pointer(spv::StorageClass storage, Id pointee);
  Id Matrix(Id component, uint32_t rows, uint32_t cols, uint32_t use);  // subgroup scope
  // A block whose only member is an array of `length` elements (0: as many as there are), each
  // `stride` bytes apart.
  Id ArrayBlock(Id element, uint32_t length, uint32_t stride);

  // Constants. `value` is cut to `bits`.
  Id ConstInt(int bits, uint64_t value, bool is_signed = false);
  Id ConstFloat(int bits, uint64_t value_bits);
  Id ConstBool(bool value);
  Id Null(Id type);
  // The value of an integer constant of signedness 0, zero-extended.
  std::optional<uint64_t> IntValue(Id id) const;

  // Module-scope variables; both become part of the entry point's interface.
  Id Global(spv::StorageClass storage, Id pointee);
  Id Builtin(spv::BuiltIn builtin, Id pointee);  // once each

  void Decorate(Id id, spv::Decoration decoration, std::initializer_list<uint32_t> operands = {});
  void ExecutionMode(spv::ExecutionMode mode, std::initializer_list<uint32_t> operands);

  // Code of the entry point, which starts inside its first block.
  Id Emit(spv::Op op, Id type, std::initializer_list<uint32_t> operands) {
    return Emit(op, type, std::span<const uint32_t>(operands.begin(), operands.size()));
  }
  Id Emit(spv::Op op, Id type, std::span<const uint32_t> operands);
  void EmitVoid(spv::Op op, std::initializer_list<uint32_t> operands) {
    EmitVoid(op, std::span<const uint32_t>(operands.begin(), operands.size()));
  }
  void EmitVoid(spv::Op op, std::span<const uint32_t> operands);
  Id EmitGlsl(uint32_t instruction, Id type, std::initializer_list<uint32_t> operands);
  Id LocalVariable(Id pointee);  // of the whole function
  void StartBlock(Id label);
  Id current_block() const { return current_block_; }
  // A phi with `incoming` (value, block) and one more pair that CompletePhi gives.
  Id IncompletePhi(Id type, Id value, Id block, Position* out_position);
  void CompletePhi(Position position, Id value, Id block);

  // The finished module; the writer must not be used again.
  std::vector<uint32_t> Finish(std::string_view entry_name, const int64_t (&workgroup_size)[3]);

 private:
  using Words = std::vector<uint32_t>;
  static void Append(Words* words, spv::Op op, std::span<const uint32_t> operands);
  static void Append(Words* words, spv::Op op, std::initializer_list<uint32_t> operands) {
    Append(words, op, std::span<const uint32_t>(operands.begin(), operands.size()));
  }
  static void AppendString(Words* words, std::string_view text);
  // The id of a declaration without or with a result type, made on first use.
  Id Declare(spv::Op op, std::initializer_list<uint32_t> operands, bool* is_new = nullptr);
  Id DeclareTyped(spv::Op op, Id type, std::span<const uint32_t> operands);

  Id next_id_ = 1;
  std::set<spv::Capability> capabilities_;
  std::set<std::string, std::less<>> extensions_;
  Id glsl_ = 0;
  Words modes_;  // without the entry point's id, which Finish knows
  Words annotations_;
  Words declarations_;
  Words variables_;
  Words code_;
  std::vector<Id> interface_;
  std::map<Words, Id> declared_;
  std::map<std::pair<Id, uint32_t>, Id> blocks_;  // (element, length) to block
  std::map<uint32_t, Id> builtins_;
  std::unordered_map<Id, uint64_t> int_values_;
  Id first_block_ = NewId();
  Id current_block_ = first_block_;
  Id function_ = NewId();
};

}  // namespace halyard::spirv
