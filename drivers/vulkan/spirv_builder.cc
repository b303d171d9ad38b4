// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/spirv_builder.h"

#include <algorithm>

namespace halyard::drivers::vulkan {

SpirvBuilder::SpirvBuilder(std::string_view name, uint32_t workgroup_size, uint32_t argument_count)
    : name_(Text(name)), workgroup_size_(workgroup_size) {
  for (spv::Capability capability : {spv::CapabilityShader, spv::CapabilityInt64,
                                     spv::CapabilityPhysicalStorageBufferAddresses}) {
    AddCapability(capability);
  }
  function_ = NewId();
  // A structure of its own: decorated types are never shared.
  Id number = Uint(64);
  Id structure = NewId();
  Words members = {structure};
  for (uint32_t i = 0; i < argument_count; ++i) {
    members.push_back(number);
    Append(&decorations_, spv::OpMemberDecorate,
           {structure, i, static_cast<uint32_t>(spv::DecorationOffset), 8 * i});
  }
  Append(&globals_, spv::OpTypeStruct, members);
  Append(&decorations_, spv::OpDecorate, {structure, static_cast<uint32_t>(spv::DecorationBlock)});
  Id pointer = Pointer(spv::StorageClassPushConstant, structure);
  arguments_ = NewId();
  Append(&globals_, spv::OpVariable,
         {pointer, arguments_, static_cast<uint32_t>(spv::StorageClassPushConstant)});
  interface_.push_back(arguments_);
  Id type = Type(spv::OpTypeFunction, {Void()});
  Append(&body_, spv::OpFunction,
         {Void(), function_, static_cast<uint32_t>(spv::FunctionControlMaskNone), type});
  block_ = NewId();
  Label(block_);
}

void SpirvBuilder::Append(Words* section, spv::Op op, const Words& operands) {
  auto count = static_cast<uint32_t>(operands.size() + 1);
  section->push_back(count << spv::WordCountShift | static_cast<uint32_t>(op));
  section->insert(section->end(), operands.begin(), operands.end());
}

SpirvBuilder::Words SpirvBuilder::Text(std::string_view text) {
  Words words(text.size() / 4 + 1, 0);
  for (size_t i = 0; i < text.size(); ++i) {
    words[i / 4] |= static_cast<uint32_t>(static_cast<uint8_t>(text[i])) << 8 * (i % 4);
  }
  return words;
}

std::vector<uint32_t> SpirvBuilder::Finish() {
  Append(&body_, spv::OpReturn, {});
  Append(&body_, spv::OpFunctionEnd, {});
  Words words = {spv::MagicNumber, 0x00010500, 0, bound_, 0};
  for (spv::Capability capability : capabilities_) {
    Append(&words, spv::OpCapability, {static_cast<uint32_t>(capability)});
  }
  Append(&words, spv::OpMemoryModel,
         {static_cast<uint32_t>(spv::AddressingModelPhysicalStorageBuffer64),
          static_cast<uint32_t>(spv::MemoryModelGLSL450)});
  Words entry = {static_cast<uint32_t>(spv::ExecutionModelGLCompute), function_};
  entry.insert(entry.end(), name_.begin(), name_.end());
  entry.insert(entry.end(), interface_.begin(), interface_.end());
  Append(&words, spv::OpEntryPoint, entry);
  Append(&words, spv::OpExecutionMode,
         {function_, static_cast<uint32_t>(spv::ExecutionModeLocalSize), workgroup_size_, 1, 1});
  for (const Words* section : {&decorations_, &globals_, &body_}) {
    words.insert(words.end(), section->begin(), section->end());
  }
  return words;
}

void SpirvBuilder::AddCapability(spv::Capability capability) {
  if (std::find(capabilities_.begin(), capabilities_.end(), capability) == capabilities_.end()) {
    capabilities_.push_back(capability);
  }
}

// `type` 0: the instruction makes a type.
SpirvBuilder::Id SpirvBuilder::Keyed(Words key, spv::Op op, Id type, const Words& operands) {
  auto [place, is_new] = known_.try_emplace(std::move(key), 0);
  if (!is_new) return place->second;
  Words all;
  if (type != 0) all.push_back(type);
  Id id = place->second = NewId();
  all.push_back(id);
  all.insert(all.end(), operands.begin(), operands.end());
  Append(&globals_, op, all);
  return id;
}

SpirvBuilder::Id SpirvBuilder::Type(spv::Op op, std::initializer_list<uint32_t> operands) {
  Words key = {static_cast<uint32_t>(op), 0};
  key.insert(key.end(), operands.begin(), operands.end());
  if (op == spv::OpTypeInt && *operands.begin() == 8) AddCapability(spv::CapabilityInt8);
  return Keyed(std::move(key), op, 0, operands);
}

SpirvBuilder::Id SpirvBuilder::Constant32(uint32_t value) {
  return Keyed({spv::OpConstant, 32, value}, spv::OpConstant, Uint(32), {value});
}

SpirvBuilder::Id SpirvBuilder::Constant64(uint64_t value) {
  auto low = static_cast<uint32_t>(value), high = static_cast<uint32_t>(value >> 32);
  return Keyed({spv::OpConstant, 64, low, high}, spv::OpConstant, Uint(64), {low, high});
}

SpirvBuilder::Id SpirvBuilder::WorkgroupVariable(Id type) {
  Id pointer = Pointer(spv::StorageClassWorkgroup, type);
  Id id = NewId();
  Append(&globals_, spv::OpVariable,
         {pointer, id, static_cast<uint32_t>(spv::StorageClassWorkgroup)});
  interface_.push_back(id);
  return id;
}

SpirvBuilder::Id SpirvBuilder::Op(spv::Op op, Id type, std::initializer_list<uint32_t> operands) {
  Id id = NewId();
  Words all = {type, id};
  all.insert(all.end(), operands.begin(), operands.end());
  Append(&body_, op, all);
  return id;
}

void SpirvBuilder::Do(spv::Op op, std::initializer_list<uint32_t> operands) {
  Append(&body_, op, operands);
}

SpirvBuilder::Id SpirvBuilder::Argument(uint32_t index) {
  Id place = Op(spv::OpAccessChain, Pointer(spv::StorageClassPushConstant, Uint(64)),
                {arguments_, Constant32(index)});
  return Op(spv::OpLoad, Uint(64), {place});
}

SpirvBuilder::Id SpirvBuilder::Builtin(spv::BuiltIn builtin, Id type) {
  auto [place, is_new] = builtins_.try_emplace(builtin, 0);
  if (is_new) {
    Id pointer = Pointer(spv::StorageClassInput, type);
    place->second = NewId();
    Append(&globals_, spv::OpVariable,
           {pointer, place->second, static_cast<uint32_t>(spv::StorageClassInput)});
    Append(&decorations_, spv::OpDecorate,
           {place->second, static_cast<uint32_t>(spv::DecorationBuiltIn),
            static_cast<uint32_t>(builtin)});
    interface_.push_back(place->second);
  }
  return Op(spv::OpLoad, type, {place->second});
}

SpirvBuilder::Id SpirvBuilder::WorkgroupId(uint32_t axis) {
  Id all = Builtin(spv::BuiltInWorkgroupId, Vector(Uint(32), 3));
  return Op(spv::OpCompositeExtract, Uint(32), {all, axis});
}

SpirvBuilder::Id SpirvBuilder::WorkgroupCount(uint32_t axis) {
  Id all = Builtin(spv::BuiltInNumWorkgroups, Vector(Uint(32), 3));
  return Op(spv::OpCompositeExtract, Uint(32), {all, axis});
}

SpirvBuilder::Id SpirvBuilder::WorkitemIndex() {
  return Builtin(spv::BuiltInLocalInvocationIndex, Uint(32));
}

SpirvBuilder::Id SpirvBuilder::PointerTo(Id address, Id type) {
  return Op(spv::OpConvertUToPtr, Pointer(spv::StorageClassPhysicalStorageBuffer, type), {address});
}

SpirvBuilder::Id SpirvBuilder::LoadFrom(Id address, Id type, uint32_t alignment) {
  return Op(spv::OpLoad, type, {PointerTo(address, type), spv::MemoryAccessAlignedMask, alignment});
}

void SpirvBuilder::StoreTo(Id address, Id type, Id value, uint32_t alignment) {
  Do(spv::OpStore, {PointerTo(address, type), value, spv::MemoryAccessAlignedMask, alignment});
}

void SpirvBuilder::If(Id condition, const std::function<void()>& then,
                      const std::function<void()>& otherwise) {
  Id then_block = NewId(), merge = NewId();
  Id else_block = otherwise ? NewId() : merge;
  Do(spv::OpSelectionMerge, {merge, spv::SelectionControlMaskNone});
  Do(spv::OpBranchConditional, {condition, then_block, else_block});
  Label(block_ = then_block);
  then();
  Do(spv::OpBranch, {merge});
  if (otherwise) {
    Label(block_ = else_block);
    otherwise();
    Do(spv::OpBranch, {merge});
  }
  Label(block_ = merge);
}

void SpirvBuilder::For(Id begin, Id end, uint64_t step, const std::function<void(Id)>& body) {
  Id header = NewId(), check = NewId(), inside = NewId(), next = NewId(), merge = NewId();
  Id before = block_, increment = Constant64(step), increased = NewId();
  Do(spv::OpBranch, {header});
  Label(header);
  Id index = Op(spv::OpPhi, Uint(64), {begin, before, increased, next});
  Do(spv::OpLoopMerge, {merge, next, spv::LoopControlMaskNone});
  Do(spv::OpBranch, {check});
  Label(check);
  Id goes_on = Op(spv::OpULessThan, Bool(), {index, end});
  Do(spv::OpBranchConditional, {goes_on, inside, merge});
  Label(block_ = inside);
  body(index);
  Do(spv::OpBranch, {next});
  Label(next);
  Append(&body_, spv::OpIAdd, {Uint(64), increased, index, increment});
  Do(spv::OpBranch, {header});
  Label(block_ = merge);
}

}  // namespace halyard::drivers::vulkan
