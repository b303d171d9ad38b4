// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/assemble.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/hash.h"
#include "compiler/codegen/codegen.h"
#include "compiler/graph/printer.h"
#include "compiler/ops/op_def.h"
#include "compiler/pipeline/canonical_kernel.h"
#include "compiler/plan/arena_plan.h"
#include "compiler/plan/size_convert.h"

namespace halyard::pipeline {
namespace {

using graph::kNone;
using graph::ValueId;
using program::Command;
using program::CommandKind;
using program::StorageKind;

constexpr int64_t kAlignment = 64;  // of constants and arena ranges, in bytes

// Builds entry 0 of the program. One instance per compilation.
class Assembler {
 public:
  explicit Assembler(CompileState& state)
      : state_(state), module_(state.module), exprs_(state.module.exprs), program_(state.program) {}

  Status Run() {
    HY_TRY(DeclareSymbols());
    entry_.name = module_.entry().name.empty() ? "main" : module_.entry().name;
    entry_.blocks.emplace_back();
    HY_TRY(DeclareInputsAndOutputs());
    HY_TRY(AddGuards());
    for (size_t i = 0; i < state_.segments.size(); ++i) {
      Segment& segment = state_.segments[i];
      if (segment.is_interpreted) {
        HY_TRY(AddInterpreted(segment));
      } else {
        HY_TRY(AddSegment(i));
      }
    }
    HY_TRY(CopyRemainingResults());
    HY_TRY(PlaceArena());
    OrderCommands();
    program_.entries.push_back(std::move(entry_));
    return program::VerifyTables(program_);
  }

 private:
  // Bytes of `elements` elements; sub-byte types round up.
  Expr SizeOf(DType dtype, Expr elements) {
    const int bits = BitWidth(dtype);
    if (bits % 8 == 0) return exprs_.Mul(elements, exprs_.Const(bits / 8));
    return exprs_.CeilDiv(exprs_.Mul(elements, exprs_.Const(bits)), exprs_.Const(8));
  }
  Expr SizeOf(ValueId value) {
    const graph::TensorType& type = module_.values[value].type;
    return SizeOf(type.dtype, graph::ElementCount(exprs_, type));
  }
  Result<program::SizeExpr> Convert(Expr expr) { return plan::ConvertSize(exprs_, expr, symbols_); }

  Status DeclareSymbols() {
    for (ValueId parameter : module_.entry().parameters) {
      for (Expr dim : module_.values[parameter].type.dims) {
        for (Expr symbol : exprs_.SymbolsOf(dim)) {
          if (std::find(symbols_.begin(), symbols_.end(), symbol) != symbols_.end()) continue;
          symbols_.push_back(symbol);
          const ExprRange range = exprs_.RangeOf(symbol);
          program_.symbols.push_back(
              {exprs_.SymbolName(symbol), range.lo, range.hi, exprs_.SymbolDivisor(symbol)});
        }
      }
    }
    return OkStatus();
  }

  Result<program::TensorDesc> Describe(ValueId value) {
    program::TensorDesc desc;
    desc.name = module_.values[value].name;
    desc.dtype = module_.values[value].type.dtype;
    for (Expr dim : module_.values[value].type.dims) {
      HY_ASSIGN(program::SizeExpr size, Convert(dim));
      desc.dims.push_back(std::move(size));
    }
    return desc;
  }

  Result<uint32_t> AddRange(StorageKind kind, uint32_t index, Expr size, std::string name) {
    program::BufferRange range;
    range.kind = kind;
    range.index = index;
    range.offset = program::SizeExpr::Constant(0);
    HY_ASSIGN(range.size, Convert(size));
    range.name = std::move(name);
    entry_.buffers.push_back(std::move(range));
    sizes_.push_back(size);
    return static_cast<uint32_t>(entry_.buffers.size() - 1);
  }

  Status DeclareInputsAndOutputs() {
    const graph::Graph& graph = module_.entry();
    for (size_t i = 0; i < graph.parameters.size(); ++i) {
      const ValueId value = graph.parameters[i];
      HY_ASSIGN(program::TensorDesc desc, Describe(value));
      entry_.inputs.push_back(desc);
      HY_ASSIGN(place_of_[value], AddRange(StorageKind::kInput, i, SizeOf(value), desc.name));
    }
    for (size_t i = 0; i < graph.results.size(); ++i) {
      const ValueId value = graph.results[i];
      HY_ASSIGN(program::TensorDesc desc, Describe(value));
      if (i < graph.result_names.size()) desc.name = graph.result_names[i];
      entry_.outputs.push_back(desc);
      HY_ASSIGN(const uint32_t range, AddRange(StorageKind::kOutput, i, SizeOf(value), desc.name));
      output_ranges_.push_back(range);
      // A value that a command computes is written into its first output directly.
      const graph::NodeId producer = module_.values[value].producer;
      if (producer != kNone && module_.nodes[producer].constant == kNone) {
        place_of_.try_emplace(value, range);
      }
    }
    return OkStatus();
  }

  // Dims that shape rules took as equal must be: a - b >= 0 and b - a >= 0.
  Status AddGuards() {
    for (const auto& [a, b] : module_.assumed_equal) {
      if (a == b) continue;
      const std::string text = fmt::format("{} == {}", exprs_.Format(a), exprs_.Format(b));
      for (Expr difference : {exprs_.Sub(a, b), exprs_.Sub(b, a)}) {
        HY_ASSIGN(program::SizeExpr size, Convert(difference));
        entry_.guards.push_back({std::move(size), text});
      }
    }
    return OkStatus();
  }

  // The range of a value that a command reads or writes; new values go to the arena.
  Result<uint32_t> PlaceOf(ValueId value) {
    if (const auto found = place_of_.find(value); found != place_of_.end()) return found->second;
    const graph::NodeId producer = module_.values[value].producer;
    if (producer != kNone && module_.nodes[producer].constant != kNone) {
      return ConstantRange(module_.nodes[producer].constant, "", {});
    }
    HY_ASSIGN(const uint32_t range,
              AddRange(StorageKind::kArena, 0, SizeOf(value), module_.values[value].name));
    place_of_[value] = range;
    return range;
  }

  // `packed`: empty for the constant as it is, otherwise what makes the bytes.
  Result<uint32_t> ConstantRange(graph::ConstantId id, const std::string& packing,
                                 const std::vector<uint8_t>* packed) {
    const graph::Constant& constant = module_.constants[id];
    const auto key = std::make_tuple(constant.content_hash, packing);
    if (const auto found = constants_.find(key); found != constants_.end()) return found->second;
    program::Constant entry;
    entry.name = packing.empty() ? constant.name : fmt::format("{} ({})", constant.name, packing);
    entry.size_bytes = packed ? packed->size() : constant.bytes->size_bytes();
    entry.offset = (program_.data.size() + kAlignment - 1) / kAlignment * kAlignment;
    program_.data.resize(entry.offset + entry.size_bytes);
    const std::span<uint8_t> target =
        std::span(program_.data).subspan(entry.offset, entry.size_bytes);
    if (packed) {
      std::copy(packed->begin(), packed->end(), target.begin());
    } else {
      HY_TRY_CONTEXT(constant.bytes->Read(0, target), "reading constant '{}'", constant.name);
    }
    entry.hash = HashBytes(target);
    program_.constants.push_back(entry);
    HY_ASSIGN(const uint32_t range, AddRange(StorageKind::kConstant, program_.constants.size() - 1,
                                             exprs_.Const(entry.size_bytes), entry.name));
    constants_[key] = range;
    return range;
  }

  Command& AddCommand(CommandKind kind, std::string label) {
    Command& command = entry_.blocks[0].commands.emplace_back();
    command.kind = kind;
    command.label = std::move(label);
    for (program::SizeExpr& extent : command.grid) extent = program::SizeExpr::Constant(1);
    access_.emplace_back();
    return command;
  }

  void Bind(Command& command, uint32_t range, bool reads, bool writes) {
    command.bindings.push_back(range);
    access_.back().push_back({range, reads, writes});
  }

  Status AddInterpreted(const Segment& segment) {
    const graph::Node& node = module_.nodes[segment.interpreted_node];
    Command& command =
        AddCommand(CommandKind::kInterpret, fmt::format("interpret {}", node.op->name));
    state_.Record("node", node.name, "in the interpreter");
    HY_ASSIGN(command.interpret_text, graph::PrintNodeModule(module_, segment.interpreted_node));
    for (ValueId operand : node.operands) {
      if (operand == kNone) continue;
      HY_ASSIGN(const uint32_t range, PlaceOf(operand));
      Bind(command, range, true, false);
      HY_ASSIGN(program::TensorDesc desc, Describe(operand));
      command.interpret_tensors.push_back(std::move(desc));
      ++command.interpret_operand_count;
    }
    for (ValueId result : node.results) {
      HY_ASSIGN(const uint32_t range, PlaceOf(result));
      Bind(command, range, false, true);
      HY_ASSIGN(program::TensorDesc desc, Describe(result));
      command.interpret_tensors.push_back(std::move(desc));
    }
    return OkStatus();
  }

  Status AddSegment(size_t segment_index) {
    const Segment& segment = state_.segments[segment_index];
    const loop::Function& function = segment.function;
    std::vector<uint32_t> ranges(function.buffers.size(), kNone);  // loop buffer -> range
    const auto range_of = [&](loop::BufferId id) -> Result<uint32_t> {
      if (ranges[id] != kNone) return ranges[id];
      const loop::Buffer& buffer = function.buffers[id];
      Result<uint32_t> range = Internal("Buffer '{}' is local to a kernel.", buffer.name);
      switch (buffer.role) {
        case loop::BufferRole::kInput:
        case loop::BufferRole::kOutput:
          range = PlaceOf(buffer.value);
          break;
        case loop::BufferRole::kConstant:
          range = ConstantRange(buffer.constant, "", nullptr);
          break;
        case loop::BufferRole::kTemp:
          range =
              AddRange(StorageKind::kArena, 0, SizeOf(buffer.dtype, buffer.elements), buffer.name);
          break;
        case loop::BufferRole::kLocal:
          break;
      }
      if (range.ok()) ranges[id] = *range;
      return range;
    };
    for (size_t i = 0; i < segment.kernels.size(); ++i) {
      const schedule::ScheduledKernel& scheduled = segment.kernels[i];
      const loop::Kernel& loop_kernel = function.kernels[i];
      for (const std::string& node : loop_kernel.nodes) {
        state_.Record("node", node, fmt::format("in dispatch '{}'", loop_kernel.name));
      }
      std::vector<uint32_t> workspaces;
      for (const schedule::Workspace& workspace : scheduled.workspaces) {
        HY_ASSIGN(const uint32_t range, AddRange(StorageKind::kArena, 0, workspace.bytes,
                                                 fmt::format("workspace of {}", loop_kernel.name)));
        workspaces.push_back(range);
      }
      std::vector<uint32_t> packed;
      for (const schedule::PackedConstant& constant : scheduled.constants) {
        HY_ASSIGN(const uint32_t range, PackedRange(function, constant));
        packed.push_back(range);
      }
      for (const schedule::Dispatch& dispatch : scheduled.dispatches) {
        const kernel::Kernel& code = scheduled.kernels[dispatch.kernel];
        const Place place =
            segment.images[i]
                ? Place{InternImage(segment.device, scheduled, segment.images[i]), dispatch.kernel}
                : InternKernel(segment.device, code);
        Command& command = AddCommand(CommandKind::kDispatch, loop_kernel.name);
        command.executable = place.executable;
        command.entry = place.entry;
        for (size_t b = 0; b < dispatch.bindings.size(); ++b) {
          const schedule::Binding& binding = dispatch.bindings[b];
          uint32_t range = kNone;
          switch (binding.kind) {
            case schedule::Binding::Kind::kBuffer: {
              HY_ASSIGN(range, range_of(binding.index));
              break;
            }
            case schedule::Binding::Kind::kWorkspace:
              range = workspaces[binding.index];
              break;
            case schedule::Binding::Kind::kConstant:
              range = packed[binding.index];
              break;
          }
          const kernel::Access access = code.buffers[b].access;
          Bind(entry_.blocks[0].commands.back(), range, access != kernel::Access::kWrite,
               access != kernel::Access::kRead);
        }
        for (Expr scalar : dispatch.scalars) {
          HY_ASSIGN(program::SizeExpr size, Convert(scalar));
          entry_.blocks[0].commands.back().scalars.push_back(std::move(size));
        }
        for (int axis = 0; axis < 3; ++axis) {
          HY_ASSIGN(entry_.blocks[0].commands.back().grid[axis], Convert(dispatch.grid[axis]));
        }
      }
    }
    return OkStatus();
  }

  Result<uint32_t> PackedRange(const loop::Function& function,
                               const schedule::PackedConstant& wanted) {
    const loop::Buffer& buffer = function.buffers[wanted.buffer];
    const graph::Constant& constant = module_.constants[buffer.constant];
    const auto key = std::make_tuple(constant.content_hash, wanted.packing);
    if (const auto found = constants_.find(key); found != constants_.end()) return found->second;
    std::vector<uint8_t> copy;
    std::span<const uint8_t> source = constant.bytes->InMemory();
    if (source.empty()) {
      copy.resize(constant.bytes->size_bytes());
      HY_TRY_CONTEXT(constant.bytes->Read(0, copy), "reading constant '{}'", constant.name);
      source = copy;
    }
    Result<std::vector<uint8_t>> packed = schedule::PackConstant(wanted.packing, source);
    HY_TRY_CONTEXT(packed, "packing constant '{}'", constant.name);
    return ConstantRange(buffer.constant, wanted.packing, &*packed);
  }

  static program::KernelEntry DescribeKernel(const kernel::Kernel& code) {
    program::KernelEntry entry;
    entry.name = code.name;
    entry.binding_count = static_cast<uint32_t>(std::count_if(
        code.buffers.begin(), code.buffers.end(),
        [](const kernel::Buffer& b) { return b.space == kernel::MemorySpace::kGlobal; }));
    entry.scalar_count = static_cast<uint32_t>(code.scalars.size());
    for (const kernel::ReportSite& site : code.sites) {
      entry.sites.push_back(fmt::format("node '{}': {}", site.node, site.what));
    }
    return entry;
  }

  uint32_t AddExecutable(uint32_t device) {
    program_.executables.emplace_back();
    program_.executables.back().device = device;
    program_.executables.back().format = ImageFormat(program_.devices[device].target.kind);
    state_.executables.emplace_back();
    return static_cast<uint32_t>(program_.executables.size() - 1);
  }

  struct Place {
    uint32_t executable, entry;
  };

  // Where the code of a scheduled kernel's kernels is; kernels of equal text share one entry, so
  // that the layers of a transformer compile once.
  Place InternKernel(uint32_t device, const kernel::Kernel& code) {
    const auto [found, is_new] = kernels_.try_emplace({device, CanonicalText(code, true)});
    if (is_new) {
      const auto [shared, is_first] = executable_of_device_.try_emplace(device, 0);
      if (is_first) shared->second = AddExecutable(device);
      const uint32_t executable = shared->second;
      std::vector<kernel::Kernel>& kernels = state_.executables[executable].kernels;
      found->second = {executable, static_cast<uint32_t>(kernels.size())};
      kernels.push_back(code);
      kernels.back().name = fmt::format("{}_{}", code.name, kernels.size() - 1);
      program_.executables[executable].entries.push_back(DescribeKernel(kernels.back()));
    }
    return found->second;
  }

  // The executable of an image that a race made; its entries stand in the order of the kernels.
  uint32_t InternImage(uint32_t device, const schedule::ScheduledKernel& scheduled,
                       const std::shared_ptr<const std::vector<uint8_t>>& image) {
    std::string text;
    for (const kernel::Kernel& code : scheduled.kernels) text += CanonicalText(code, true);
    const auto [found, is_new] = images_.try_emplace({image.get(), text}, 0);
    if (is_new) {
      found->second = AddExecutable(device);
      program_.executables.back().code = *image;
      std::vector<program::KernelEntry>& entries = program_.executables.back().entries;
      for (const kernel::Kernel& code : scheduled.kernels) {
        entries.push_back(DescribeKernel(code));
        entries.back().name = RacedKernelName(entries.size() - 1);
      }
    }
    return found->second;
  }

  // Results that no command wrote in place: parameters, constants, and a value that is a result
  // twice.
  Status CopyRemainingResults() {
    const graph::Graph& graph = module_.entry();
    for (size_t i = 0; i < graph.results.size(); ++i) {
      HY_ASSIGN(const uint32_t source, PlaceOf(graph.results[i]));
      if (source == output_ranges_[i]) continue;
      Command& command = AddCommand(CommandKind::kCopy, "copy to " + entry_.outputs[i].name);
      Bind(command, source, true, false);
      Bind(command, output_ranges_[i], false, true);
    }
    return OkStatus();
  }

  Status PlaceArena() {
    std::vector<plan::SymbolicRange> live;
    std::vector<uint32_t> owners;
    std::map<uint32_t, size_t> index_of;
    for (size_t step = 0; step < access_.size(); ++step) {
      for (const Use& use : access_[step]) {
        if (entry_.buffers[use.range].kind != StorageKind::kArena) continue;
        const auto [found, is_new] = index_of.try_emplace(use.range, live.size());
        if (is_new) {
          live.push_back({sizes_[use.range], static_cast<int64_t>(step), 0});
          owners.push_back(use.range);
        }
        live[found->second].last = static_cast<int64_t>(step);
      }
    }
    HY_ASSIGN(const plan::ArenaPlan plan, plan::PlanArena(exprs_, live, kAlignment));
    for (size_t i = 0; i < owners.size(); ++i) {
      HY_ASSIGN(entry_.buffers[owners[i]].offset, Convert(plan.offsets[i]));
    }
    // Ranges that no command touches (a value without a reader) take no space.
    for (size_t i = 0; i < entry_.buffers.size(); ++i) {
      if (entry_.buffers[i].kind == StorageKind::kArena &&
          !index_of.count(static_cast<uint32_t>(i))) {
        entry_.buffers[i].size = program::SizeExpr::Constant(0);
      }
    }
    program::Arena arena;
    HY_ASSIGN(arena.size_bytes, Convert(plan.arena_bytes));
    entry_.arenas.push_back(std::move(arena));
    state_.Record(
        "memory", "activations",
        fmt::format("The arena holds {} bytes for {} values; the lower bound is {} bytes.",
                    exprs_.Format(plan.arena_bytes), owners.size(),
                    exprs_.Format(plan.lower_bound_bytes)));
    state_.Record("memory", "constants",
                  fmt::format("{} constants take {} bytes.", program_.constants.size(),
                              program_.data.size()));
    return OkStatus();
  }

  // Commands wait for the earlier ones that they conflict with. Arena ranges conflict when they may
  // overlap in bytes: equal ranges, or ranges that the plan put on shared memory.
  void OrderCommands() {
    const auto overlap = [&](uint32_t a, uint32_t b) {
      if (a == b) return true;
      const program::BufferRange& x = entry_.buffers[a];
      const program::BufferRange& y = entry_.buffers[b];
      if (x.kind != StorageKind::kArena || y.kind != StorageKind::kArena) return false;
      const auto x0 = x.offset.AsConstant(), y0 = y.offset.AsConstant();
      const auto xs = x.size.AsConstant(), ys = y.size.AsConstant();
      if (!x0 || !y0 || !xs || !ys) return true;  // symbolic: assume the worst
      return *x0 < *y0 + *ys && *y0 < *x0 + *xs;
    };
    std::vector<Command>& commands = entry_.blocks[0].commands;
    for (size_t i = 0; i < commands.size(); ++i) {
      std::set<uint32_t> covered;  // already waited for through another one
      for (size_t j = i; j-- > 0;) {
        if (covered.count(static_cast<uint32_t>(j))) continue;
        bool conflicts = false;
        for (const Use& use : access_[i]) {
          for (const Use& earlier : access_[j]) {
            conflicts =
                conflicts || ((use.writes || earlier.writes) && overlap(use.range, earlier.range));
          }
        }
        if (!conflicts) continue;
        commands[i].after.push_back(static_cast<uint32_t>(j));
        std::vector<uint32_t> stack{static_cast<uint32_t>(j)};
        while (!stack.empty()) {
          const uint32_t top = stack.back();
          stack.pop_back();
          for (uint32_t before : commands[top].after) {
            if (covered.insert(before).second) stack.push_back(before);
          }
        }
      }
      std::sort(commands[i].after.begin(), commands[i].after.end());
    }
  }

  struct Use {
    uint32_t range;
    bool reads, writes;
  };

  CompileState& state_;
  graph::Module& module_;
  ExprArena& exprs_;
  program::Program& program_;
  program::Entry entry_;
  std::vector<Expr> symbols_;
  std::vector<Expr> sizes_;               // bytes per range of entry_.buffers
  std::vector<std::vector<Use>> access_;  // per command
  std::vector<uint32_t> output_ranges_;
  std::map<ValueId, uint32_t> place_of_;
  std::map<std::tuple<uint64_t, std::string>, uint32_t> constants_;
  std::map<uint32_t, uint32_t> executable_of_device_;
  std::map<std::pair<uint32_t, std::string>, Place> kernels_;
  std::map<std::pair<const void*, std::string>, uint32_t> images_;
};

}  // namespace

Status AssembleProgram(CompileState& state) { return Assembler(state).Run(); }

}  // namespace halyard::pipeline
