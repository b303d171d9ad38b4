// SPDX-License-Identifier: Apache-2.0
// SpirvBuilder: assembles one small kernel as a SPIR-V 1.5 module with physical addresses. It is
// for kernels written by hand (this driver's copies and fills, test kernels), not a compiler's back
// end: it decides nothing and folds nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <spirv/unified1/spirv.hpp>

namespace halyard::drivers::vulkan {

class SpirvBuilder {
 public:
  using Id = uint32_t;

  // A kernel of that name with one-dimensional workgroups; its `argument_count` arguments of eight
  // bytes are push constants, as base/gpu_kernel_abi.h says. The body starts at once.
  SpirvBuilder(std::string_view name, uint32_t workgroup_size, uint32_t argument_count);
  // The whole module. Once.
  std::vector<uint32_t> Finish();

  void AddCapability(spv::Capability capability);

  // Types and constants; asked again they are the same.
  Id Void() { return Type(spv::OpTypeVoid, {}); }
  Id Bool() { return Type(spv::OpTypeBool, {}); }
  Id Uint(uint32_t bits) { return Type(spv::OpTypeInt, {bits, 0}); }
  Id Vector(Id element, uint32_t count) { return Type(spv::OpTypeVector, {element, count}); }
  Id Pointer(spv::StorageClass storage, Id type) {
    return Type(spv::OpTypePointer, {static_cast<uint32_t>(storage), type});
  }
  Id Type(spv::Op op, std::initializer_list<uint32_t> operands);
  Id Constant32(uint32_t value);
  Id Constant64(uint64_t value);
  // A global of workgroup memory.
  Id WorkgroupVariable(Id type);

  // An instruction with a result.
  Id Op(spv::Op op, Id type, std::initializer_list<uint32_t> operands);
  // One without.
  void Do(spv::Op op, std::initializer_list<uint32_t> operands);

  // Argument `index` as a 64-bit number.
  Id Argument(uint32_t index);
  // The vectors of the workgroup's id and of their number, and the workitem's index in it.
  Id WorkgroupId(uint32_t axis);
  Id WorkgroupCount(uint32_t axis);
  Id WorkitemIndex();

  // Through a 64-bit address, which is a multiple of `alignment` bytes.
  Id LoadFrom(Id address, Id type, uint32_t alignment);
  void StoreTo(Id address, Id type, Id value, uint32_t alignment);
  Id PointerTo(Id address, Id type);

  // Runs `then` where the condition holds, `otherwise` (may be empty) where not.
  void If(Id condition, const std::function<void()>& then,
          const std::function<void()>& otherwise = {});
  // Runs `body` for begin, begin + step, ... below `end`; 64-bit numbers.
  void For(Id begin, Id end, uint64_t step, const std::function<void(Id)>& body);

 private:
  using Words = std::vector<uint32_t>;
  static void Append(Words* section, spv::Op op, const Words& operands);
  static Words Text(std::string_view text);
  Id NewId() { return bound_++; }
  Id Keyed(Words key, spv::Op op, Id type, const Words& operands);
  Id Builtin(spv::BuiltIn builtin, Id type);
  void Label(Id id) { Append(&body_, spv::OpLabel, {id}); }

  Id bound_ = 1;
  Id function_ = 0, arguments_ = 0, block_ = 0;
  Words name_;
  uint32_t workgroup_size_;
  std::vector<spv::Capability> capabilities_;
  std::vector<Id> interface_;
  Words decorations_, globals_, body_;
  std::map<Words, Id> known_;
  std::map<uint32_t, Id> builtins_;
};

}  // namespace halyard::drivers::vulkan
