// SPDX-License-Identifier: Apache-2.0
// Verify: the structure check of programs. What passes here can be indexed without further checks;
// sizes that depend on symbols are checked when they are evaluated.
#include <set>

#include "compiler/program/program.h"
#include "compiler/program/streamed.h"

namespace halyard::program {
namespace {

constexpr size_t kMaxTokens = 4096;
constexpr int kMaxDepth = 64;
constexpr size_t kMaxRank = 64;

class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program) {}

  Status Run() {
    HY_TRY(CheckSymbols());
    for (const Device& device : program_.devices) {
      if (device.name.empty()) return InvalidArgument("A device of the program has no name.");
      if (device.memory_cap_bytes < 0) {
        return InvalidArgument("Device '{}' has the memory cap {}; 0 or more is possible.",
                               device.name, device.memory_cap_bytes);
      }
      HY_TRY(CheckTarget(device));
    }
    HY_TRY(CheckConstants());
    streamed_ = StreamedConstants(program_);
    HY_TRY(CheckExecutables());
    std::set<std::string_view> names;
    for (const Entry& entry : program_.entries) {
      if (entry.name.empty()) return InvalidArgument("An entry of the program has no name.");
      if (!names.insert(entry.name).second) {
        return InvalidArgument("Two entries have the name '{}'.", entry.name);
      }
      HY_TRY_CONTEXT(CheckEntry(entry), "checking entry '{}'", entry.name);
    }
    return OkStatus();
  }

 private:
  Status CheckSymbols() {
    std::set<std::string_view> names;
    for (const Symbol& symbol : program_.symbols) {
      if (symbol.name.empty()) return InvalidArgument("A symbol of the program has no name.");
      if (!names.insert(symbol.name).second) {
        return InvalidArgument("Two symbols have the name '{}'.", symbol.name);
      }
      if (symbol.min > symbol.max) {
        return InvalidArgument("Symbol '{}' has the empty range [{}, {}].", symbol.name, symbol.min,
                               symbol.max);
      }
      if (symbol.divisor < 1) {
        return InvalidArgument("Symbol '{}' has the divisor {}; at least 1 is needed.", symbol.name,
                               symbol.divisor);
      }
    }
    return OkStatus();
  }

  Status CheckTarget(const Device& device) {
    if (device.target.kind > TargetKind::kVulkan) {
      return InvalidArgument("Device '{}' has the unknown kind {}.", device.name,
                             static_cast<int>(device.target.kind));
    }
    for (const MatrixShape& shape : device.target.gpu.matrix_shapes) {
      if (BitWidth(shape.input) == 0 || BitWidth(shape.accumulator) == 0) {
        return InvalidArgument("Device '{}' has a matrix shape without a dtype.", device.name);
      }
    }
    return OkStatus();
  }

  Status CheckDevice(uint32_t device) {
    if (device < program_.devices.size()) return OkStatus();
    return InvalidArgument("Device {} is named; the program has {}.", device,
                           program_.devices.size());
  }

  Status CheckConstants() {
    for (const Constant& constant : program_.constants) {
      HY_TRY_CONTEXT(CheckDevice(constant.device), "checking constant '{}'", constant.name);
      if (constant.offset % kDataAlignment != 0) {
        return InvalidArgument("Constant '{}' starts at byte {}; a multiple of {} is needed.",
                               constant.name, constant.offset, kDataAlignment);
      }
      uint64_t end = 0;
      if (__builtin_add_overflow(constant.offset, constant.size_bytes, &end) ||
          end > static_cast<uint64_t>(INT64_MAX)) {
        return InvalidArgument("Constant '{}' ends beyond 64 bits.", constant.name);
      }
    }
    return OkStatus();
  }

  Status CheckExecutables() {
    for (size_t i = 0; i < program_.executables.size(); ++i) {
      const Executable& executable = program_.executables[i];
      HY_TRY_CONTEXT(CheckDevice(executable.device), "checking executable {}", i);
      if (executable.format.empty()) return InvalidArgument("Executable {} names no format.", i);
      for (const KernelEntry& entry : executable.entries) {
        if (entry.name.empty())
          return InvalidArgument("Executable {} has an entry without a name.", i);
      }
    }
    return OkStatus();
  }

  Status CheckExpr(const SizeExpr& expr, std::string_view what) {
    if (expr.tokens.size() > kMaxTokens) {
      return InvalidArgument("The expression of {} has {} parts; at most {} are allowed.", what,
                             expr.tokens.size(), kMaxTokens);
    }
    int depth = 0;
    for (const ExprToken& token : expr.tokens) {
      switch (token.op) {
        case ExprOp::kSymbol:
          if (token.value < 0 || static_cast<uint64_t>(token.value) >= program_.symbols.size()) {
            return InvalidArgument("The expression of {} names symbol {}; the program has {}.",
                                   what, token.value, program_.symbols.size());
          }
          [[fallthrough]];
        case ExprOp::kConst:
          ++depth;
          break;
        case ExprOp::kAdd:
        case ExprOp::kMul:
        case ExprOp::kFloorDiv:
        case ExprOp::kMod:
        case ExprOp::kMin:
        case ExprOp::kMax:
          if (depth < 2) return InvalidArgument("The expression of {} lacks an operand.", what);
          --depth;
          break;
        default:
          return InvalidArgument("The expression of {} holds the unknown operation {}.", what,
                                 static_cast<int>(token.op));
      }
      if (depth > kMaxDepth) {
        return InvalidArgument("The expression of {} nests deeper than {} operands.", what,
                               kMaxDepth);
      }
    }
    if (depth != 1) {
      return InvalidArgument("The expression of {} leaves {} values; 1 is needed.", what, depth);
    }
    return OkStatus();
  }

  Status CheckTensor(const TensorDesc& tensor) {
    if (BitWidth(tensor.dtype) == 0)
      return InvalidArgument("Tensor '{}' has no dtype.", tensor.name);
    if (tensor.dims.size() > kMaxRank) {
      return InvalidArgument("Tensor '{}' has {} dimensions; at most {} are allowed.", tensor.name,
                             tensor.dims.size(), kMaxRank);
    }
    for (const SizeExpr& dim : tensor.dims) HY_TRY(CheckExpr(dim, tensor.name));
    return OkStatus();
  }

  // The size of what a range lies in, where it is a number.
  std::optional<int64_t> StorageSize(const Entry& entry, const BufferRange& range) {
    if (range.kind == StorageKind::kArena) return entry.arenas[range.index].size_bytes.AsConstant();
    if (range.kind == StorageKind::kConstant) {
      return static_cast<int64_t>(program_.constants[range.index].size_bytes);
    }
    return std::nullopt;
  }

  Status CheckRange(const Entry& entry, const BufferRange& range) {
    size_t count = 0;
    std::string_view what;
    switch (range.kind) {
      case StorageKind::kInput:
        count = entry.inputs.size(), what = "input";
        break;
      case StorageKind::kOutput:
        count = entry.outputs.size(), what = "output";
        break;
      case StorageKind::kConstant:
        count = program_.constants.size(), what = "constant";
        break;
      case StorageKind::kArena:
        count = entry.arenas.size(), what = "arena";
        break;
      case StorageKind::kState:
        return Unimplemented("Buffer '{}' is a state; this version runs none.", range.name);
      default:
        return InvalidArgument("Buffer '{}' has the unknown kind {}.", range.name,
                               static_cast<int>(range.kind));
    }
    if (range.index >= count) {
      return InvalidArgument("Buffer '{}' lies in {} {}; there are {}.", range.name, what,
                             range.index, count);
    }
    HY_TRY(CheckExpr(range.offset, range.name));
    HY_TRY(CheckExpr(range.size, range.name));
    const auto offset = range.offset.AsConstant(), size = range.size.AsConstant();
    const auto storage = StorageSize(entry, range);
    if ((offset && *offset < 0) || (size && *size < 0)) {
      return InvalidArgument("Buffer '{}' has a negative offset or size.", range.name);
    }
    int64_t end = 0;
    if (offset && size && storage &&
        (__builtin_add_overflow(*offset, *size, &end) || end > *storage)) {
      return InvalidArgument("Buffer '{}' takes bytes {} to {} + {}; {} {} has {}.", range.name,
                             *offset, *offset, *size, what, range.index, *storage);
    }
    return OkStatus();
  }

  Status CheckBinding(const Entry& entry, const Command& command, size_t index, bool is_written) {
    const BufferRange& range = entry.buffers[command.bindings[index]];
    if (is_written && (range.kind == StorageKind::kInput || range.kind == StorageKind::kConstant)) {
      return InvalidArgument("Command '{}' writes buffer '{}', which is only read.", command.label,
                             range.name);
    }
    return OkStatus();
  }

  Status CheckDispatch(const Block& block, const Command& command) {
    if (command.executable >= program_.executables.size()) {
      return InvalidArgument("It names executable {}; the program has {}.", command.executable,
                             program_.executables.size());
    }
    const Executable& executable = program_.executables[command.executable];
    if (executable.device != block.device) {
      return InvalidArgument("It runs code of device {} on device {}.", executable.device,
                             block.device);
    }
    if (command.entry >= executable.entries.size()) {
      return InvalidArgument("It names kernel {}; the executable has {}.", command.entry,
                             executable.entries.size());
    }
    const KernelEntry& kernel = executable.entries[command.entry];
    if (command.bindings.size() != kernel.binding_count) {
      return InvalidArgument("It binds {} buffers; kernel '{}' takes {}.", command.bindings.size(),
                             kernel.name, kernel.binding_count);
    }
    if (command.scalars.size() != kernel.scalar_count) {
      return InvalidArgument("It passes {} scalars; kernel '{}' takes {}.", command.scalars.size(),
                             kernel.name, kernel.scalar_count);
    }
    for (const SizeExpr& scalar : command.scalars) HY_TRY(CheckExpr(scalar, "a scalar"));
    for (const SizeExpr& axis : command.grid) HY_TRY(CheckExpr(axis, "the grid"));
    return OkStatus();
  }

  Status CheckTransfer(const Entry& entry, const Block& block, const Command& command) {
    if (command.bindings.size() != 2) {
      return InvalidArgument("A transfer names {} buffers; it needs 2.", command.bindings.size());
    }
    const BufferRange& source = entry.buffers[command.bindings[0]];
    const BufferRange& target = entry.buffers[command.bindings[1]];
    const uint32_t from = program_.DeviceOf(entry, source), to = program_.DeviceOf(entry, target);
    const bool streams = from == to && source.kind == StorageKind::kConstant;
    if (to != block.device || (from == to && !streams)) {
      return InvalidArgument(
          "It brings buffer '{}' of device {} to '{}' of device {}, in a block of device {}; a "
          "transfer brings what another device has to its own, or weights that its own streams.",
          source.name, from, target.name, to, block.device);
    }
    return CheckBinding(entry, command, 1, true);
  }

  // A block holds transfers only, or none.
  Status CheckBlock(const Block& block) {
    size_t transfers = 0;
    for (const Command& command : block.commands) {
      transfers += command.kind == CommandKind::kTransfer;
    }
    if (transfers == 0 || transfers == block.commands.size()) return OkStatus();
    return InvalidArgument(
        "A block holds {} transfers and {} other commands; it may hold one kind.", transfers,
        block.commands.size() - transfers);
  }

  Status CheckCommand(const Entry& entry, const Block& block, size_t index) {
    const Command& command = block.commands[index];
    for (const uint32_t binding : command.bindings) {
      if (binding >= entry.buffers.size()) {
        return InvalidArgument("It names buffer {}; the entry has {}.", binding,
                               entry.buffers.size());
      }
    }
    for (const uint32_t before : command.after) {
      if (before >= index) {
        return InvalidArgument("Command {} waits for command {}, which does not stand before it.",
                               index, before);
      }
    }
    const size_t bindings = command.bindings.size();
    if (command.kind == CommandKind::kTransfer) return CheckTransfer(entry, block, command);
    for (const uint32_t binding : command.bindings) {
      const BufferRange& range = entry.buffers[binding];
      const uint32_t device = program_.DeviceOf(entry, range);
      if (device != block.device) {
        return InvalidArgument(
            "It names buffer '{}' in the memory of device {}; it runs on device {}.", range.name,
            device, block.device);
      }
      if (range.kind == StorageKind::kConstant && streamed_[range.index]) {
        return InvalidArgument(
            "It names constant '{}', which is streamed; only a transfer may name that.",
            range.name);
      }
    }
    switch (command.kind) {
      case CommandKind::kDispatch:
        return CheckDispatch(block, command);
      case CommandKind::kCopy:
        if (bindings != 2) return InvalidArgument("A copy names {} buffers; it needs 2.", bindings);
        return CheckBinding(entry, command, 1, true);
      case CommandKind::kFill:
        if (bindings != 1) return InvalidArgument("A fill names {} buffers; it needs 1.", bindings);
        if (command.fill_bytes != 1 && command.fill_bytes != 2 && command.fill_bytes != 4 &&
            command.fill_bytes != 8) {
          return InvalidArgument("A fill has an element of {} bytes; 1, 2, 4 or 8 is needed.",
                                 command.fill_bytes);
        }
        return CheckBinding(entry, command, 0, true);
      case CommandKind::kInterpret:
        if (command.interpret_operand_count > bindings) {
          return InvalidArgument("An interpreted op has {} operands but {} buffers.",
                                 command.interpret_operand_count, bindings);
        }
        if (command.interpret_text.empty()) {
          return InvalidArgument("An interpreted op has no text.");
        }
        if (command.interpret_tensors.size() != bindings) {
          return InvalidArgument("An interpreted op has {} buffers but describes {} tensors.",
                                 bindings, command.interpret_tensors.size());
        }
        for (const TensorDesc& tensor : command.interpret_tensors) HY_TRY(CheckTensor(tensor));
        for (size_t i = command.interpret_operand_count; i < bindings; ++i) {
          HY_TRY(CheckBinding(entry, command, i, true));
        }
        return OkStatus();
      case CommandKind::kTransfer:
        break;
    }
    return InvalidArgument("It has the unknown kind {}.", static_cast<int>(command.kind));
  }

  Status CheckWaits(const Entry& entry) {
    const size_t count = entry.blocks.size();
    std::vector<uint32_t> open(count, 0);
    std::vector<std::vector<uint32_t>> successors(count);
    for (size_t i = 0; i < count; ++i) {
      for (const uint32_t before : entry.blocks[i].waits) {
        if (before >= count) {
          return InvalidArgument("Block {} waits for block {}; the entry has {}.", i, before,
                                 count);
        }
        successors[before].push_back(static_cast<uint32_t>(i));
        ++open[i];
      }
    }
    std::vector<uint32_t> ready;
    for (size_t i = 0; i < count; ++i) {
      if (open[i] == 0) ready.push_back(static_cast<uint32_t>(i));
    }
    size_t done = 0;
    for (; done < ready.size(); ++done) {
      for (const uint32_t next : successors[ready[done]]) {
        if (--open[next] == 0) ready.push_back(next);
      }
    }
    if (done != count) return InvalidArgument("{} blocks wait for each other.", count - done);
    return OkStatus();
  }

  Status CheckEntry(const Entry& entry) {
    for (const TensorDesc& input : entry.inputs) {
      HY_TRY_CONTEXT(CheckTensor(input), "checking input '{}'", input.name);
      HY_TRY_CONTEXT(CheckDevice(input.device), "checking input '{}'", input.name);
    }
    for (const TensorDesc& output : entry.outputs) {
      HY_TRY_CONTEXT(CheckTensor(output), "checking output '{}'", output.name);
      HY_TRY_CONTEXT(CheckDevice(output.device), "checking output '{}'", output.name);
    }
    for (const Arena& arena : entry.arenas) {
      HY_TRY(CheckDevice(arena.device));
      HY_TRY(CheckExpr(arena.size_bytes, "an arena"));
    }
    for (const BufferRange& range : entry.buffers) HY_TRY(CheckRange(entry, range));
    for (const Block& block : entry.blocks) {
      HY_TRY(CheckDevice(block.device));
      HY_TRY(CheckBlock(block));
      for (size_t i = 0; i < block.commands.size(); ++i) {
        HY_TRY_CONTEXT(CheckCommand(entry, block, i), "checking command {} '{}'", i,
                       block.commands[i].label);
      }
    }
    HY_TRY(CheckWaits(entry));
    for (const Guard& guard : entry.guards) HY_TRY(CheckExpr(guard.expr, "a guard"));
    return OkStatus();
  }

  const Program& program_;
  std::vector<bool> streamed_;  // per constant
};

}  // namespace

uint32_t Program::DeviceOf(const Entry& entry, const BufferRange& range) const {
  switch (range.kind) {
    case StorageKind::kInput:
      return entry.inputs[range.index].device;
    case StorageKind::kOutput:
      return entry.outputs[range.index].device;
    case StorageKind::kConstant:
      return constants[range.index].device;
    case StorageKind::kArena:
    case StorageKind::kState:
      break;
  }
  return entry.arenas[range.index].device;
}

Status VerifyTables(const Program& program) {
  return Verifier(program).Run().WithContext("verifying the program");
}

Status Verify(const Program& program) {
  HY_TRY(VerifyTables(program));
  const uint64_t data_bytes = program.DataBytes().size();
  for (const Constant& constant : program.constants) {
    if (constant.offset + constant.size_bytes > data_bytes) {
      return InvalidArgument("Constant '{}' takes bytes {} to {}; the program carries {}.",
                             constant.name, constant.offset, constant.offset + constant.size_bytes,
                             data_bytes);
    }
  }
  for (size_t i = 0; i < program.executables.size(); ++i) {
    if (program.executables[i].code.empty())
      return InvalidArgument("Executable {} has no code.", i);
  }
  return OkStatus();
}

}  // namespace halyard::program
