// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/spirv_module.h"

#include <algorithm>
#include <cstring>
#include <spirv/unified1/spirv.hpp>
#include <unordered_map>
#include <unordered_set>

namespace halyard::drivers::vulkan {
namespace {

constexpr size_t kHeaderWords = 5;
constexpr uint32_t kMaxBound = 0x3fffff;  // the universal limit of the specification

struct Instruction {
  spv::Op op;
  std::span<const uint32_t> operands;
};

// The instruction at `position`, which moves behind it. The module's lengths have been checked.
Instruction Next(std::span<const uint32_t> words, size_t* position) {
  uint32_t first = words[*position];
  size_t count = first >> spv::WordCountShift;
  Instruction next{static_cast<spv::Op>(first & spv::OpCodeMask),
                   words.subspan(*position + 1, count - 1)};
  *position += count;
  return next;
}

// A literal string and the number of words that it takes; false when it does not end.
bool ReadText(std::span<const uint32_t> words, std::string* text) {
  for (uint32_t word : words) {
    for (int byte = 0; byte < 4; ++byte) {
      char c = static_cast<char>(word >> 8 * byte);
      if (c == 0) return true;
      text->push_back(c);
    }
  }
  return false;
}

Status CheckLengths(std::span<const uint32_t> words) {
  bool is_in_function = false;
  spv::Op last = spv::OpNop;
  for (size_t position = kHeaderWords; position < words.size();) {
    size_t count = words[position] >> spv::WordCountShift;
    if (count == 0 || count > words.size() - position) {
      return DataLoss("The SPIR-V instruction at word {} has {} words; {} are left.", position,
                      count, words.size() - position);
    }
    last = static_cast<spv::Op>(words[position] & spv::OpCodeMask);
    if (last == spv::OpFunction || last == spv::OpFunctionEnd) {
      if (is_in_function == (last == spv::OpFunction)) {
        return DataLoss("The SPIR-V functions around word {} do not nest.", position);
      }
      is_in_function = last == spv::OpFunction;
    }
    position += count;
  }
  if (last != spv::OpFunctionEnd) return DataLoss("The SPIR-V module ends within a function.");
  return OkStatus();
}

}  // namespace

const SpirvModule::EntryPoint* SpirvModule::Find(std::string_view name) const {
  for (const EntryPoint& entry : entry_points) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

Result<SpirvModule> ReadSpirv(std::span<const uint8_t> bytes) {
  SpirvModule module;
  if (bytes.size() % 4 != 0 || bytes.size() <= 4 * kHeaderWords) {
    return DataLoss("A SPIR-V module has {} bytes; that is no module.", bytes.size());
  }
  module.words.resize(bytes.size() / 4);
  std::memcpy(module.words.data(), bytes.data(), bytes.size());
  if (module.words[0] != spv::MagicNumber) {
    return DataLoss("A SPIR-V module starts with {:#x}; expected {:#x}.", module.words[0],
                    uint32_t{spv::MagicNumber});
  }
  if (module.words[3] == 0 || module.words[3] > kMaxBound || module.words[4] != 0) {
    return DataLoss("A SPIR-V module has the bound {} and the schema {}.", module.words[3],
                    module.words[4]);
  }
  HY_TRY(CheckLengths(module.words));
  std::vector<uint32_t> functions;  // of the entry points
  std::unordered_set<uint32_t> defined;
  for (size_t position = kHeaderWords; position < module.words.size();) {
    Instruction i = Next(module.words, &position);
    switch (i.op) {
      case spv::OpCapability:
        if (i.operands.size() == 1) module.capabilities.push_back(i.operands[0]);
        break;
      case spv::OpEntryPoint: {
        SpirvModule::EntryPoint entry;
        if (i.operands.size() < 3 || !ReadText(i.operands.subspan(2), &entry.name)) {
          return DataLoss("A SPIR-V entry point has no name.");
        }
        if (i.operands[0] != spv::ExecutionModelGLCompute) {
          return DataLoss("The SPIR-V entry point '{}' is no kernel.", entry.name);
        }
        module.entry_points.push_back(std::move(entry));
        functions.push_back(i.operands[1]);
        break;
      }
      case spv::OpExecutionMode:
        if (i.operands.size() != 5 || i.operands[1] != spv::ExecutionModeLocalSize) break;
        for (size_t e = 0; e < functions.size(); ++e) {
          if (functions[e] != i.operands[0]) continue;
          std::copy_n(&i.operands[2], 3, module.entry_points[e].workgroup_size);
        }
        break;
      case spv::OpFunction:
        if (i.operands.size() == 4) defined.insert(i.operands[1]);
        break;
      default:
        break;
    }
  }
  for (size_t e = 0; e < functions.size(); ++e) {
    if (!defined.contains(functions[e])) {
      return DataLoss("The SPIR-V entry point '{}' has no function.", module.entry_points[e].name);
    }
  }
  return module;
}

namespace {

class ArgumentMover {
 public:
  ArgumentMover(const SpirvModule& module, uint32_t argument_bytes)
      : in_(module.words), argument_bytes_(argument_bytes), bound_(module.words[3]) {}

  Result<std::vector<uint32_t>> Run() {
    HY_TRY(Survey());
    out_.assign(in_.begin(), in_.begin() + kHeaderWords);
    for (size_t position = kHeaderWords; position < in_.size();) {
      size_t start = position;
      Instruction i = Next(in_, &position);
      HY_TRY(Rewrite(i, in_.subspan(start, position - start)));
    }
    out_[3] = bound_;
    return std::move(out_);
  }

 private:
  struct Variable {
    uint32_t pointer_type = 0;  // of the block, after the change
    uint32_t holder_type = 0;   // the new push constants: one pointer
    uint32_t holder_pointer = 0;
  };

  Status Survey() {
    std::unordered_map<uint32_t, uint32_t> pointees;
    std::unordered_map<uint32_t, uint32_t> ends;  // of structures, by their members' offsets
    bool has_addresses = false;
    for (size_t position = kHeaderWords; position < in_.size();) {
      Instruction i = Next(in_, &position);
      switch (i.op) {
        case spv::OpMemoryModel:
          has_addresses = i.operands.size() == 2 &&
                          i.operands[0] == spv::AddressingModelPhysicalStorageBuffer64;
          break;
        case spv::OpMemberDecorate:
          if (i.operands.size() == 4 && i.operands[2] == spv::DecorationOffset) {
            uint32_t& end = ends[i.operands[0]];
            end = std::max(end, i.operands[3] + 1);
          }
          break;
        case spv::OpTypeInt:
        case spv::OpTypeFloat:
          if (i.operands.size() >= 2) sizes_[i.operands[0]] = i.operands[1] / 8;
          break;
        case spv::OpTypeVector:
        case spv::OpTypeArray:
          if (i.operands.size() == 3) sizes_[i.operands[0]] = AlignmentOf(i.operands[1]);
          break;
        case spv::OpTypePointer:
          if (i.operands.size() == 3) pointees[i.operands[0]] = i.operands[2];
          break;
        case spv::OpVariable:
          if (i.operands.size() >= 3 && i.operands[2] == spv::StorageClassPushConstant) {
            uint32_t end = ends[pointees[i.operands[0]]];
            if (end > argument_bytes_) {
              return DataLoss("A SPIR-V kernel has an argument at byte {}; its entry takes {}.",
                              end - 1, argument_bytes_);
            }
            variables_[i.operands[1]] = {i.operands[0], bound_, bound_ + 1};
            bound_ += 2;
          }
          break;
        default:
          break;
      }
    }
    if (!has_addresses) {
      return Incompatible("A SPIR-V kernel does not use 64-bit physical addresses.");
    }
    return OkStatus();
  }

  // Of a value within the block: pointers and structures stand at multiples of eight.
  uint32_t AlignmentOf(uint32_t type) const {
    auto found = sizes_.find(type);
    return found == sizes_.end() || found->second == 0 ? 8 : found->second;
  }

  void Emit(spv::Op op, std::initializer_list<uint32_t> operands) {
    auto count = static_cast<uint32_t>(operands.size() + 1);
    out_.push_back(count << spv::WordCountShift | static_cast<uint32_t>(op));
    out_.insert(out_.end(), operands.begin(), operands.end());
  }

  void DecorateHolders() {
    for (const auto& [id, variable] : variables_) {
      Emit(spv::OpDecorate, {variable.holder_type, spv::DecorationBlock});
      Emit(spv::OpMemberDecorate, {variable.holder_type, 0, spv::DecorationOffset, 0});
    }
    has_decorated_ = true;
  }

  // The block's address, loaded just before its use.
  uint32_t LoadAddress(const Variable& variable, uint32_t id) {
    uint32_t holder = bound_++, address = bound_++;
    Emit(spv::OpLoad, {variable.holder_type, holder, id});
    Emit(spv::OpCompositeExtract, {variable.pointer_type, address, holder, 0});
    return address;
  }

  // `load` through `pointer`, with the alignment that physical pointers must state.
  void EmitLoad(const Instruction& load, uint32_t pointer) {
    const uint32_t type = load.operands[0];
    uint32_t access = load.operands.size() > 3 ? load.operands[3] : 0;
    std::span<const uint32_t> rest =
        load.operands.subspan(std::min<size_t>(load.operands.size(), 4));
    bool is_aligned = access & spv::MemoryAccessAlignedMask;
    auto count = static_cast<uint32_t>(5 + !is_aligned + rest.size());
    out_.push_back(count << spv::WordCountShift | spv::OpLoad);
    out_.insert(out_.end(),
                {type, load.operands[1], pointer, access | spv::MemoryAccessAlignedMask});
    if (!is_aligned) out_.push_back(AlignmentOf(type));
    out_.insert(out_.end(), rest.begin(), rest.end());
  }

  Status Rewrite(const Instruction& i, std::span<const uint32_t> words) {
    auto keep = [&] { out_.insert(out_.end(), words.begin(), words.end()); };
    // Decorations stand before all types.
    bool is_type_or_decoration = i.op == spv::OpDecorate || i.op == spv::OpMemberDecorate ||
                                 (i.op >= spv::OpTypeVoid && i.op <= spv::OpTypeForwardPointer);
    if (is_type_or_decoration && !has_decorated_) DecorateHolders();
    switch (i.op) {
      case spv::OpTypePointer: {
        size_t at = out_.size();
        keep();
        if (i.operands[1] == spv::StorageClassPushConstant) {
          out_[at + 2] = spv::StorageClassPhysicalStorageBuffer;
        }
        return OkStatus();
      }
      case spv::OpVariable: {
        auto found = variables_.find(i.operands.size() > 1 ? i.operands[1] : 0);
        if (found == variables_.end()) break;
        const Variable& variable = found->second;
        Emit(spv::OpTypeStruct, {variable.holder_type, variable.pointer_type});
        Emit(spv::OpTypePointer,
             {variable.holder_pointer, spv::StorageClassPushConstant, variable.holder_type});
        Emit(spv::OpVariable,
             {variable.holder_pointer, found->first, spv::StorageClassPushConstant});
        return OkStatus();
      }
      case spv::OpAccessChain:
      case spv::OpInBoundsAccessChain: {
        if (i.operands.size() < 3) break;
        auto found = variables_.find(i.operands[2]);
        if (found == variables_.end()) {
          if (derived_.contains(i.operands[2])) derived_.insert(i.operands[1]);
          break;
        }
        uint32_t address = LoadAddress(found->second, found->first);
        size_t at = out_.size();
        keep();
        out_[at + 3] = address;
        derived_.insert(i.operands[1]);
        return OkStatus();
      }
      case spv::OpLoad: {
        if (i.operands.size() < 3) break;
        if (auto found = variables_.find(i.operands[2]); found != variables_.end()) {
          EmitLoad(i, LoadAddress(found->second, found->first));
          return OkStatus();
        }
        if (!derived_.contains(i.operands[2])) break;
        EmitLoad(i, i.operands[2]);
        return OkStatus();
      }
      case spv::OpCopyObject:
      case spv::OpCopyMemory:
      case spv::OpFunctionCall:
      case spv::OpPtrAccessChain:
      case spv::OpPhi:
      case spv::OpSelect:
        for (uint32_t operand : i.operands) {
          if (!variables_.contains(operand) && !derived_.contains(operand)) continue;
          return Incompatible(
              "A SPIR-V kernel uses the address of its arguments in instruction {}.",
              static_cast<uint32_t>(i.op));
        }
        break;
      default:
        break;
    }
    keep();
    return OkStatus();
  }

  std::span<const uint32_t> in_;
  const uint32_t argument_bytes_;
  uint32_t bound_;
  std::vector<uint32_t> out_;
  std::unordered_map<uint32_t, Variable> variables_;
  std::unordered_map<uint32_t, uint32_t> sizes_;  // in bytes, of numbers and what consists of them
  std::unordered_set<uint32_t> derived_;          // pointers into the block
  bool has_decorated_ = false;
};

}  // namespace

uint32_t PushConstantBytes(const SpirvModule& module) {
  std::unordered_map<uint32_t, uint32_t> pointees, ends;
  uint32_t most = 0;
  for (size_t position = kHeaderWords; position < module.words.size();) {
    Instruction i = Next(module.words, &position);
    if (i.op == spv::OpMemberDecorate && i.operands.size() == 4 &&
        i.operands[2] == spv::DecorationOffset) {
      uint32_t& end = ends[i.operands[0]];
      end = std::max(end, (i.operands[3] / 8 + 1) * 8);
    } else if (i.op == spv::OpTypePointer && i.operands.size() == 3) {
      pointees[i.operands[0]] = i.operands[2];
    } else if (i.op == spv::OpVariable && i.operands.size() >= 3 &&
               i.operands[2] == spv::StorageClassPushConstant) {
      most = std::max(most, ends[pointees[i.operands[0]]]);
    }
  }
  return most;
}

Result<std::vector<uint32_t>> MoveArgumentsToBlock(const SpirvModule& module,
                                                   uint32_t argument_bytes) {
  return ArgumentMover(module, argument_bytes).Run();
}

}  // namespace halyard::drivers::vulkan
