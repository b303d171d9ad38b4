// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/spirv/module_writer.h"

#include "compiler/codegen/spirv/khr_enums.h"

namespace halyard::spirv {
namespace {

constexpr uint32_t kVersion = 0x00010500;
constexpr uint32_t kGenerator = 0;  // unregistered

}  // namespace

void ModuleWriter::Append(Words* words, spv::Op op, std::span<const uint32_t> operands) {
  words->push_back(static_cast<uint32_t>(operands.size() + 1) << 16 | static_cast<uint32_t>(op));
  words->insert(words->end(), operands.begin(), operands.end());
}

void ModuleWriter::AppendString(Words* words, std::string_view text) {
  for (size_t at = 0; at <= text.size(); at += 4) {  // the last word holds a zero byte
    uint32_t word = 0;
    for (size_t i = at; i < at + 4 && i < text.size(); ++i) {
      word |= static_cast<uint32_t>(static_cast<uint8_t>(text[i])) << (8 * (i - at));
    }
    words->push_back(word);
  }
}

void ModuleWriter::Require(spv::Capability capability) { capabilities_.insert(capability); }

void ModuleWriter::RequireExtension(std::string_view name) {
  if (!extensions_.contains(name)) extensions_.emplace(name);
}

Id ModuleWriter::Declare(spv::Op op, std::initializer_list<uint32_t> operands, bool* is_new) {
  Words key = {static_cast<uint32_t>(op)};
  key.insert(key.end(), operands.begin(), operands.end());
  const auto [at, inserted] = declared_.try_emplace(std::move(key), 0);
  if (is_new) *is_new = inserted;
  if (!inserted) return at->second;
  at->second = NewId();
  Words all = {at->second};
  all.insert(all.end(), operands.begin(), operands.end());
  Append(&declarations_, op, all);
  return at->second;
}

Id ModuleWriter::DeclareTyped(spv::Op op, Id type, std::span<const uint32_t> operands) {
  Words key = {static_cast<uint32_t>(op), type};
  key.insert(key.end(), operands.begin(), operands.end());
  const auto [at, inserted] = declared_.try_emplace(std::move(key), 0);
  if (!inserted) return at->second;
  at->second = NewId();
  Words all = {type, at->second};
  all.insert(all.end(), operands.begin(), operands.end());
  Append(&declarations_, op, all);
  return at->second;
}

Id ModuleWriter::Void() { return Declare(spv::Op::OpTypeVoid, {}); }
Id ModuleWriter::Bool() { return Declare(spv::Op::OpTypeBool, {}); }

Id ModuleWriter::Int(int bits, bool is_signed) {
  return Declare(spv::Op::OpTypeInt, {static_cast<uint32_t>(bits), is_signed ? 1u : 0u});
}

Id ModuleWriter::Float(int bits) {
  return Declare(spv::Op::OpTypeFloat, {static_cast<uint32_t>(bits)});
}

Id ModuleWriter::BFloat16() { return Declare(spv::Op::OpTypeFloat, {16, kFloatEncodingBFloat16}); }

Id ModuleWriter::Vector(Id component, int count) {
  if (count == 1) return component;
  return Declare(spv::Op::OpTypeVector, {component, static_cast<uint32_t>(count)});
}

Id ModuleWriter::Array(Id element, uint32_t length) {
  const Id count = ConstInt(32, length);
  return Declare(spv::Op::OpTypeArray, {element, count});
}

Id ModuleWriter::Pointer(spv::StorageClass storage, Id pointee) {
  return Declare(spv::Op::OpTypePointer, {static_cast<uint32_t>(storage), pointee});
}

Id ModuleWriter::Matrix(Id component, uint32_t rows, uint32_t cols, uint32_t use) {
  const Id scope = ConstInt(32, static_cast<uint32_t>(spv::Scope::Subgroup));
  const Id row_count = ConstInt(32, rows);
  const Id col_count = ConstInt(32, cols);
  const Id use_id = ConstInt(32, use);
  return Declare(kOpTypeCooperativeMatrix, {component, scope, row_count, col_count, use_id});
}

Id ModuleWriter::ArrayBlock(Id element, uint32_t length, uint32_t stride) {
  const auto [at, inserted] = blocks_.try_emplace({element, length}, 0);
  if (!inserted) return at->second;
  const Id array = NewId();  // never shared with an array of another layout
  if (length == 0) {
    Append(&declarations_, spv::Op::OpTypeRuntimeArray, {array, element});
  } else {
    const Id count = ConstInt(32, length);
    Append(&declarations_, spv::Op::OpTypeArray, {array, element, count});
  }
  Decorate(array, spv::Decoration::ArrayStride, {stride});
  const Id block = NewId();
  Append(&declarations_, spv::Op::OpTypeStruct, {block, array});
  Decorate(block, spv::Decoration::Block);
  Append(&annotations_, spv::Op::OpMemberDecorate,
         {block, 0, static_cast<uint32_t>(spv::Decoration::Offset), 0});
  return at->second = block;
}

Id ModuleWriter::ConstInt(int bits, uint64_t value, bool is_signed) {
  if (bits < 64) value &= (uint64_t{1} << bits) - 1;
  const Id type = Int(bits, is_signed);
  Words words = {static_cast<uint32_t>(value)};
  if (bits == 64) words.push_back(static_cast<uint32_t>(value >> 32));
  // Below 32 bits the literal is sign-extended when the type is signed.
  if (is_signed && bits < 32 && value >> (bits - 1) != 0) words[0] |= ~uint32_t{0} << bits;
  const Id id = DeclareTyped(spv::Op::OpConstant, type, words);
  if (!is_signed) int_values_.emplace(id, value);
  return id;
}

Id ModuleWriter::ConstFloat(int bits, uint64_t value_bits) {
  const Id type = Float(bits);
  Words words = {static_cast<uint32_t>(value_bits)};
  if (bits == 64) words.push_back(static_cast<uint32_t>(value_bits >> 32));
  return DeclareTyped(spv::Op::OpConstant, type, words);
}

Id ModuleWriter::ConstBool(bool value) {
  return DeclareTyped(value ? spv::Op::OpConstantTrue : spv::Op::OpConstantFalse, Bool(), {});
}

Id ModuleWriter::Null(Id type) { return DeclareTyped(spv::Op::OpConstantNull, type, {}); }

std::optional<uint64_t> ModuleWriter::IntValue(Id id) const {
  const auto at = int_values_.find(id);
  if (at == int_values_.end()) return std::nullopt;
  return at->second;
}

Id ModuleWriter::Global(spv::StorageClass storage, Id pointee) {
  const Id type = Pointer(storage, pointee);
  const Id id = NewId();
  Append(&declarations_, spv::Op::OpVariable, {type, id, static_cast<uint32_t>(storage)});
  interface_.push_back(id);
  return id;
}

Id ModuleWriter::Builtin(spv::BuiltIn builtin, Id pointee) {
  const auto [at, inserted] = builtins_.try_emplace(static_cast<uint32_t>(builtin), 0);
  if (inserted) {
    at->second = Global(spv::StorageClass::Input, pointee);
    Decorate(at->second, spv::Decoration::BuiltIn, {static_cast<uint32_t>(builtin)});
  }
  return at->second;
}

void ModuleWriter::Decorate(Id id, spv::Decoration decoration,
                            std::initializer_list<uint32_t> operands) {
  Words words = {id, static_cast<uint32_t>(decoration)};
  words.insert(words.end(), operands.begin(), operands.end());
  Append(&annotations_, spv::Op::OpDecorate, words);
}

void ModuleWriter::ExecutionMode(spv::ExecutionMode mode,
                                 std::initializer_list<uint32_t> operands) {
  Words words = {function_, static_cast<uint32_t>(mode)};
  words.insert(words.end(), operands.begin(), operands.end());
  Append(&modes_, spv::Op::OpExecutionMode, words);
}

Id ModuleWriter::Emit(spv::Op op, Id type, std::span<const uint32_t> operands) {
  const Id id = NewId();
  code_.push_back(static_cast<uint32_t>(operands.size() + 3) << 16 | static_cast<uint32_t>(op));
  code_.push_back(type);
  code_.push_back(id);
  code_.insert(code_.end(), operands.begin(), operands.end());
  return id;
}

void ModuleWriter::EmitVoid(spv::Op op, std::span<const uint32_t> operands) {
  Append(&code_, op, operands);
}

Id ModuleWriter::EmitGlsl(uint32_t instruction, Id type, std::initializer_list<uint32_t> operands) {
  if (glsl_ == 0) glsl_ = NewId();
  Words words = {glsl_, instruction};
  words.insert(words.end(), operands.begin(), operands.end());
  return Emit(spv::Op::OpExtInst, type, words);
}

Id ModuleWriter::LocalVariable(Id pointee) {
  const Id type = Pointer(spv::StorageClass::Function, pointee);
  const Id id = NewId();
  Append(&variables_, spv::Op::OpVariable,
         {type, id, static_cast<uint32_t>(spv::StorageClass::Function)});
  return id;
}

void ModuleWriter::StartBlock(Id label) {
  Append(&code_, spv::Op::OpLabel, {label});
  current_block_ = label;
}

Id ModuleWriter::IncompletePhi(Id type, Id value, Id block, Position* out_position) {
  const Id id = Emit(spv::Op::OpPhi, type, {value, block, 0, 0});
  *out_position = code_.size() - 2;
  return id;
}

void ModuleWriter::CompletePhi(Position position, Id value, Id block) {
  code_[position] = value;
  code_[position + 1] = block;
}

std::vector<uint32_t> ModuleWriter::Finish(std::string_view entry_name,
                                           const int64_t (&workgroup_size)[3]) {
  ExecutionMode(spv::ExecutionMode::LocalSize,
                {static_cast<uint32_t>(workgroup_size[0]), static_cast<uint32_t>(workgroup_size[1]),
                 static_cast<uint32_t>(workgroup_size[2])});
  const Id void_type = Void();
  const Id function_type = Declare(spv::Op::OpTypeFunction, {void_type});
  Words out = {spv::MagicNumber, kVersion, kGenerator, 0, 0};
  for (spv::Capability capability : capabilities_) {
    Append(&out, spv::Op::OpCapability, {static_cast<uint32_t>(capability)});
  }
  for (const std::string& extension : extensions_) {
    Words name;
    AppendString(&name, extension);
    Append(&out, spv::Op::OpExtension, name);
  }
  if (glsl_ != 0) {
    Words words = {glsl_};
    AppendString(&words, "GLSL.std.450");
    Append(&out, spv::Op::OpExtInstImport, words);
  }
  Append(&out, spv::Op::OpMemoryModel,
         {static_cast<uint32_t>(spv::AddressingModel::PhysicalStorageBuffer64),
          static_cast<uint32_t>(spv::MemoryModel::Vulkan)});
  Words entry = {static_cast<uint32_t>(spv::ExecutionModel::GLCompute), function_};
  AppendString(&entry, entry_name);
  entry.insert(entry.end(), interface_.begin(), interface_.end());
  Append(&out, spv::Op::OpEntryPoint, entry);
  const auto append_all = [&out](const Words& words) {
    out.insert(out.end(), words.begin(), words.end());
  };
  append_all(modes_);
  append_all(annotations_);
  append_all(declarations_);
  Append(&out, spv::Op::OpFunction,
         {void_type, function_, static_cast<uint32_t>(spv::FunctionControlMask::MaskNone),
          function_type});
  Append(&out, spv::Op::OpLabel, {first_block_});
  append_all(variables_);
  append_all(code_);
  Append(&out, spv::Op::OpReturn, {});
  Append(&out, spv::Op::OpFunctionEnd, {});
  out[3] = next_id_;
  return out;
}

}  // namespace halyard::spirv
