// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/assemble.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/hash.h"
#include "base/quantity.h"
#include "compiler/codegen/codegen.h"
#include "compiler/graph/printer.h"
#include "compiler/loop/kernel_work.h"
#include "compiler/ops/op_def.h"
#include "compiler/pipeline/canonical_kernel.h"
#include "compiler/pipeline/filled_work.h"
#include "compiler/pipeline/node_fates.h"
#include "compiler/pipeline/predictions.h"
#include "compiler/plan/block_order.h"
#include "compiler/plan/entry_memory.h"
#include "compiler/plan/size_convert.h"
#include "compiler/program/work.h"
#include "compiler/schedule/gpu/loop_limit.h"

namespace halyard::pipeline {
namespace {

using graph::kNone;
using graph::ValueId;
using program::Command;
using program::CommandKind;
using program::StorageKind;

constexpr int64_t kAlignment = 64;  // of constants and arena ranges, in bytes
constexpr uint32_t kCopyQueue = 1;  // so that transfers and kernels of a device overlap

// Builds entry 0 of the program. One instance per compilation.
class Assembler {
 public:
  explicit Assembler(CompileState& state)
      : state_(state), module_(state.module), exprs_(state.module.exprs), program_(state.program) {}

  Status Run() {
    HY_TRY(DeclareSymbols());
    entry_.name = module_.entry().name.empty() ? "main" : module_.entry().name;
    FindHomes();
    HY_TRY(DeclareInputsAndOutputs());
    HY_TRY(AddGuards());
    for (size_t i = 0; i < state_.segments.size(); ++i) {
      Segment& segment = state_.segments[i];
      HY_TRY(OpenBlock(segment.device, OperandsOf(segment)));
      if (segment.is_interpreted) {
        HY_TRY(AddInterpreted(segment));
      } else {
        HY_TRY(AddSegment(i));
      }
      for (const ValueId value : ResultsOf(segment)) block_of_[value] = block_;
    }
    HY_TRY(CopyRemainingResults());
    if (entry_.blocks.empty()) NewBlock(spare_, 0);
    RecordHomes(state_);
    RecordPredictions(state_);
    const size_t dominated = plan::RemoveDominatedWaits(entry_.blocks);
    RecordQueues(dominated);
    HY_TRY(PlaceArenas());
    program_.entries.push_back(std::move(entry_));
    DropLastResort();
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
  // Homes ----------------------------------------------------------------------------------------

  const std::vector<ValueId>& OperandsOf(const Segment& segment) const {
    return segment.is_interpreted ? module_.nodes[segment.interpreted_node].operands
                                  : module_.graphs[segment.graph].parameters;
  }
  const std::vector<ValueId>& ResultsOf(const Segment& segment) const {
    return segment.is_interpreted ? module_.nodes[segment.interpreted_node].results
                                  : module_.graphs[segment.graph].results;
  }
  bool IsConstant(ValueId value) const {
    const graph::NodeId producer = module_.values[value].producer;
    return producer != kNone && module_.nodes[producer].constant != kNone;
  }

  // The device in whose memory each value appears first. An input is where it is used; one that
  // several devices use is on the host's, or else on the first of them.
  void FindHomes() {
    for (uint32_t d = 0; d < program_.devices.size() && !has_host_; ++d) {
      if (!program_.devices[d].is_host) continue;
      host_ = d;
      has_host_ = true;
    }
    if (!has_host_ && !state_.segments.empty()) host_ = state_.segments[0].device;
    spare_ = host_;
    if (has_host_ && IsLastResort(host_) && !state_.segments.empty() &&
        std::none_of(state_.segments.begin(), state_.segments.end(),
                     [this](const Segment& segment) { return segment.device == host_; })) {
      spare_ = state_.segments[0].device;
    }
    is_single_ = state_.streamed.empty();
    std::map<ValueId, std::set<uint32_t>> users;
    std::map<ValueId, uint32_t> first_user;
    for (const Segment& segment : state_.segments) {
      is_single_ = is_single_ && segment.device == state_.segments[0].device;
      for (const ValueId value : ResultsOf(segment)) home_[value] = segment.device;
      for (const ValueId value : OperandsOf(segment)) {
        if (value == kNone) continue;
        users[value].insert(segment.device);
        first_user.try_emplace(value, segment.device);
      }
    }
    for (const ValueId parameter : module_.entry().parameters) {
      const auto found = users.find(parameter);
      if (found == users.end()) {
        home_[parameter] = spare_;
      } else if (found->second.size() == 1 || !has_host_) {
        home_[parameter] = first_user[parameter];
      } else {
        home_[parameter] = host_;
      }
    }
  }

  uint32_t HomeOf(ValueId value) const {
    const auto found = home_.find(value);
    return found == home_.end() ? spare_ : found->second;
  }

  // Blocks ---------------------------------------------------------------------------------------

  void NewBlock(uint32_t device, uint32_t queue) {
    block_ = static_cast<uint32_t>(entry_.blocks.size());
    program::Block& block = entry_.blocks.emplace_back();
    block.device = device;
    block.queue = queue;
    uses_.emplace_back();
  }

  // The block that commands of `device` go to, after the transfers that bring it `operands`. One
  // block serves a program on one device; otherwise every segment has one, so that others wait for
  // no more than they need.
  Status OpenBlock(uint32_t device, const std::vector<ValueId>& operands) {
    if (is_single_ && !entry_.blocks.empty() && entry_.blocks[block_].device == device) {
      return OkStatus();
    }
    // What comes from one block, or of the inputs of one device, comes together.
    std::map<std::pair<uint32_t, uint32_t>, std::vector<ValueId>> missing;
    std::vector<uint32_t> waits;
    for (const ValueId value : operands) {
      if (value == kNone || IsConstant(value) || HomeOf(value) == device) continue;
      if (const auto found = brought_by_.find({value, device}); found != brought_by_.end()) {
        waits.push_back(found->second);
        continue;
      }
      const auto made = block_of_.find(value);
      missing[{made == block_of_.end() ? kNone : made->second, HomeOf(value)}].push_back(value);
    }
    for (const auto& [source, values] : missing) {
      NewBlock(device, kCopyQueue);
      if (source.first != kNone) entry_.blocks[block_].waits.push_back(source.first);
      for (const ValueId value : values) HY_TRY(AddTransfer(value, device));
      waits.push_back(block_);
    }
    NewBlock(device, 0);
    // The blocks of a device follow each other: its values then share one order.
    if (const auto last = last_block_.find(device); last != last_block_.end()) {
      waits.push_back(last->second);
    }
    last_block_[device] = block_;
    entry_.blocks[block_].waits = std::move(waits);
    return OkStatus();
  }

  // Once for a value and a device, however many segments read it there.
  Status AddTransfer(ValueId value, uint32_t device) {
    HY_ASSIGN(const uint32_t source, PlaceOf(value, HomeOf(value)));
    HY_ASSIGN(const uint32_t target, AddRange(StorageKind::kArena, ArenaOf(device, true),
                                              SizeOf(value), module_.values[value].name));
    place_of_[{value, device}] = target;
    brought_by_[{value, device}] = block_;
    const std::string& from = program_.devices[HomeOf(value)].name;
    const std::string& to = program_.devices[device].name;
    Command& command = AddCommand(CommandKind::kTransfer, fmt::format("{} to {}", from, to));
    Bind(command, source, true, false);
    Bind(command, target, false, true);
    state_.Record(
        "transfer", module_.values[value].name,
        fmt::format("{} bytes go from '{}' to '{}'.", exprs_.Format(SizeOf(value)), from, to));
    return OkStatus();
  }

  uint32_t ArenaOf(uint32_t device, bool holds_transfers) {
    const auto [found, is_new] =
        arenas_.try_emplace({device, holds_transfers}, static_cast<uint32_t>(entry_.arenas.size()));
    if (is_new) {
      entry_.arenas.push_back({device, program::SizeExpr::Constant(0), holds_transfers});
    }
    return found->second;
  }

  void RecordQueues(size_t dominated) {
    if (is_single_) return;
    size_t waits = 0, transfers = 0;
    for (const program::Block& block : entry_.blocks) {
      waits += block.waits.size();
      for (const Command& command : block.commands) {
        transfers += command.kind == CommandKind::kTransfer;
      }
    }
    state_.Record(
        "queues", entry_.name,
        fmt::format("{} with {} and {}; {} implied by others.",
                    Counted(entry_.blocks.size(), "block"), Counted(transfers, "transfer"),
                    Counted(waits, "wait"),
                    Counted(dominated, "further wait") + (dominated == 1 ? " was" : " were")));
  }

  Result<program::SizeExpr> Convert(Expr expr) {
    HY_TRY(CheckKnown(expr));
    return plan::ConvertSize(exprs_, expr, symbols_);
  }

  // A size that the data decides is known only once the node has run: memory is planned before.
  Status CheckKnown(Expr expr) {
    for (const Expr symbol : exprs_.SymbolsOf(expr)) {
      if (std::find(symbols_.begin(), symbols_.end(), symbol) != symbols_.end()) continue;
      const auto has_symbol = [&](ValueId value) {
        if (value == kNone) return false;
        const auto& dims = module_.values[value].type.dims;
        return std::any_of(dims.begin(), dims.end(), [&](Expr dim) {
          const auto symbols = exprs_.SymbolsOf(dim);
          return std::find(symbols.begin(), symbols.end(), symbol) != symbols.end();
        });
      };
      for (const graph::Node& node : module_.nodes) {
        if (std::none_of(node.results.begin(), node.results.end(), has_symbol) ||
            std::any_of(node.operands.begin(), node.operands.end(), has_symbol)) {
          continue;
        }
        std::string_view op = node.op->name;
        for (const program::Record& record : program_.records) {
          if (record.kind != "source" || record.subject != node.name) continue;
          op = std::string_view(record.text).substr(0, record.text.find('\n'));  // in ONNX's word
        }
        return Unimplemented(
            "Node '{}' (op '{}') has a result whose size '{}' depends on the data; sizes must "
            "follow from the shapes of the inputs.",
            node.name, op, exprs_.SymbolName(symbol));
      }
    }
    return OkStatus();
  }

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
      desc.device = HomeOf(value);
      entry_.inputs.push_back(desc);
      HY_ASSIGN(const uint32_t range, AddRange(StorageKind::kInput, i, SizeOf(value), desc.name));
      place_of_[{value, desc.device}] = range;
    }
    for (size_t i = 0; i < graph.results.size(); ++i) {
      const ValueId value = graph.results[i];
      HY_ASSIGN(program::TensorDesc desc, Describe(value));
      if (i < graph.result_names.size()) desc.name = graph.result_names[i];
      desc.device = HomeOf(value);
      entry_.outputs.push_back(desc);
      HY_ASSIGN(const uint32_t range, AddRange(StorageKind::kOutput, i, SizeOf(value), desc.name));
      output_ranges_.push_back(range);
      // A value that a command computes is written into its first output directly.
      if (module_.values[value].producer != kNone && !IsConstant(value)) {
        place_of_.try_emplace({value, desc.device}, range);
      }
    }
    return OkStatus();
  }

  // What shape rules assumed must hold: of equal dims a - b >= 0 and b - a >= 0.
  Status AddGuards() {
    for (const auto& [a, b, why] : module_.assumed_equal) {
      if (a == b) continue;
      const std::string text =
          fmt::format("{} == {} ({})", exprs_.Format(a), exprs_.Format(b), why);
      for (Expr difference : {exprs_.Sub(a, b), exprs_.Sub(b, a)}) {
        HY_ASSIGN(program::SizeExpr size, Convert(difference));
        entry_.guards.push_back({std::move(size), text});
      }
    }
    for (const auto& [a, b, why] : module_.assumed_at_most) {
      HY_ASSIGN(program::SizeExpr size, Convert(exprs_.Sub(b, a)));
      entry_.guards.push_back(
          {std::move(size), fmt::format("{} <= {} ({})", exprs_.Format(a), exprs_.Format(b), why)});
    }
    return OkStatus();
  }

  // Where symbols decide whether a kernel's loops are longer than its device runs.
  Status GuardLoops(const schedule::ScheduledKernel& scheduled, const std::string& kernel,
                    uint32_t device) {
    const Target& target = program_.devices[device].target;
    const std::optional<Expr> left = schedule::LoopGuard(exprs_, scheduled, target);
    if (!left || !loop_guards_.insert({device, left->id}).second) return OkStatus();
    HY_ASSIGN(program::SizeExpr size, Convert(*left));
    entry_.guards.push_back(
        {std::move(size),
         fmt::format("{} >= 0 (loop iterations of '{}' that '{}' has left)", exprs_.Format(*left),
                     kernel, program_.devices[device].name)});
    return OkStatus();
  }

  // The range of a value that a command of `device` reads or writes; new values go to its arena.
  Result<uint32_t> PlaceOf(ValueId value, uint32_t device) {
    if (const auto found = place_of_.find({value, device}); found != place_of_.end()) {
      return found->second;
    }
    if (IsConstant(value)) {
      return ConstantRange(module_.nodes[module_.values[value].producer].constant, "", {}, device);
    }
    HY_ASSIGN(const uint32_t range, AddRange(StorageKind::kArena, ArenaOf(device, false),
                                             SizeOf(value), module_.values[value].name));
    place_of_[{value, device}] = range;
    return range;
  }

  // `packed`: empty for the constant as it is, otherwise what makes the bytes. Devices that use a
  // constant in one packing share its bytes in the program.
  Result<uint32_t> ConstantRange(graph::ConstantId id, const std::string& packing,
                                 const std::vector<uint8_t>* packed, uint32_t device) {
    const graph::Constant& constant = module_.constants[id];
    const auto key = std::make_tuple(id, packing, device);
    if (const auto found = constants_.find(key); found != constants_.end()) return found->second;
    program::Constant entry;
    if (const auto shared = constant_bytes_.find({id, packing}); shared != constant_bytes_.end()) {
      entry = program_.constants[shared->second];
      entry.device = device;
    } else {
      entry.name = packing.empty() ? constant.name : fmt::format("{} ({})", constant.name, packing);
      entry.device = device;
      entry.size_bytes = packed ? packed->size() : constant.bytes->size_bytes();
      // One without bytes takes no place: the data end where the last byte does.
      if (entry.size_bytes != 0) {
        entry.offset = (program_.data.size() + kAlignment - 1) / kAlignment * kAlignment;
        program_.data.resize(entry.offset + entry.size_bytes);
      }
      const std::span<uint8_t> target =
          std::span(program_.data).subspan(entry.offset, entry.size_bytes);
      if (packed) {
        std::copy(packed->begin(), packed->end(), target.begin());
      } else {
        HY_TRY_CONTEXT(constant.bytes->Read(0, target), "reading constant '{}'", constant.name);
      }
      entry.hash = HashBytes(target);
      constant_bytes_[{id, packing}] = static_cast<uint32_t>(program_.constants.size());
    }
    program_.constants.push_back(entry);
    HY_ASSIGN(const uint32_t range, AddRange(StorageKind::kConstant, program_.constants.size() - 1,
                                             exprs_.Const(entry.size_bytes), entry.name));
    constants_[key] = range;
    return range;
  }

  Command& AddCommand(CommandKind kind, std::string label) {
    Command& command = entry_.blocks[block_].commands.emplace_back();
    command.kind = kind;
    command.label = std::move(label);
    for (program::SizeExpr& extent : command.grid) extent = program::SizeExpr::Constant(1);
    uses_[block_].emplace_back();
    return command;
  }

  void Bind(Command& command, uint32_t range, bool reads, bool writes) {
    command.bindings.push_back(range);
    uses_[block_].back().push_back({range, reads, writes});
  }

  Status AddInterpreted(const Segment& segment) {
    const graph::Node& node = module_.nodes[segment.interpreted_node];
    Command& command =
        AddCommand(CommandKind::kInterpret, fmt::format("interpret {}", node.op->name));
    HY_ASSIGN(command.interpret_text, graph::PrintNodeModule(module_, segment.interpreted_node));
    for (ValueId operand : node.operands) {
      if (operand == kNone) continue;
      HY_ASSIGN(const uint32_t range, PlaceOf(operand, segment.device));
      Bind(command, range, true, false);
      HY_ASSIGN(program::TensorDesc desc, Describe(operand));
      command.interpret_tensors.push_back(std::move(desc));
      ++command.interpret_operand_count;
    }
    for (ValueId result : node.results) {
      HY_ASSIGN(const uint32_t range, PlaceOf(result, segment.device));
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
          range = PlaceOf(buffer.value, segment.device);
          break;
        case loop::BufferRole::kConstant:
          range = ConstantRange(buffer.constant, "", nullptr, segment.device);
          break;
        case loop::BufferRole::kTemp:
          range = AddRange(StorageKind::kArena, ArenaOf(segment.device, false),
                           SizeOf(buffer.dtype, buffer.elements), buffer.name);
          break;
        case loop::BufferRole::kLocal:
          break;
      }
      if (range.ok()) ranges[id] = *range;
      return range;
    };
    const uint32_t first_block = block_;
    const size_t first_command = entry_.blocks[block_].commands.size();
    std::vector<uint32_t> zeros;  // workspaces that start so
    for (size_t i = 0; i < segment.kernels.size(); ++i) {
      const schedule::ScheduledKernel& scheduled = segment.kernels[i];
      const loop::Kernel& loop_kernel = function.kernels[i];
      RecordWork(segment, static_cast<uint32_t>(i));
      HY_TRY(GuardLoops(scheduled, loop_kernel.name, segment.device));
      std::vector<uint32_t> workspaces;
      for (const schedule::Workspace& workspace : scheduled.workspaces) {
        HY_ASSIGN(const uint32_t range,
                  AddRange(StorageKind::kArena, ArenaOf(segment.device, false), workspace.bytes,
                           fmt::format("workspace of {}", loop_kernel.name)));
        workspaces.push_back(range);
        if (workspace.is_zero) zeros.push_back(range);
      }
      std::vector<uint32_t> packed, streamed;
      for (const schedule::PackedConstant& constant : scheduled.constants) {
        HY_ASSIGN(const uint32_t range, PackedRange(function, constant, segment.device));
        packed.push_back(range);
        if (IsStreamed(function.buffers[constant.buffer].constant, segment.device)) {
          streamed.push_back(range);
        }
      }
      for (const schedule::Dispatch& dispatch : scheduled.dispatches) {
        for (const schedule::Binding& binding : dispatch.bindings) {
          if (binding.kind != schedule::Binding::Kind::kBuffer) continue;
          const loop::Buffer& buffer = function.buffers[binding.index];
          if (buffer.role != loop::BufferRole::kConstant ||
              !IsStreamed(buffer.constant, segment.device)) {
            continue;
          }
          HY_ASSIGN(const uint32_t range, range_of(binding.index));
          streamed.push_back(range);
        }
      }
      if (!streamed.empty()) HY_TRY(BringWeights(streamed, segment.device));
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
          if (const auto brought = brought_weights_.find(range); brought != brought_weights_.end())
            range = brought->second;
          const kernel::Access access = code.buffers[b].access;
          Bind(entry_.blocks[block_].commands.back(), range, access != kernel::Access::kWrite,
               access != kernel::Access::kRead);
        }
        for (Expr scalar : dispatch.scalars) {
          HY_ASSIGN(program::SizeExpr size, Convert(scalar));
          entry_.blocks[block_].commands.back().scalars.push_back(std::move(size));
        }
        for (int axis = 0; axis < 3; ++axis) {
          HY_ASSIGN(entry_.blocks[block_].commands.back().grid[axis], Convert(dispatch.grid[axis]));
        }
      }
    }
    return zeros.empty() ? OkStatus() : Clear(zeros, first_block, first_command, segment.device);
  }

  bool IsStreamed(graph::ConstantId constant, uint32_t device) const {
    return state_.streamed.count({constant, device}) > 0;
  }

  // Before a kernel is added that reads these constants, which its device streams: transfers of
  // those that are not there. What arrives together is a lot; a lot's transfers wait until the
  // device is done with the lot before the last one, whose memory they take. Where there is memory
  // for one large lot only, it waits for the last one, and so does the next.
  Status BringWeights(const std::vector<uint32_t>& sources, uint32_t device) {
    std::set<uint32_t> missing;
    int64_t bytes = 0;
    for (const uint32_t source : sources) {
      if (brought_weights_.count(source) || !missing.insert(source).second) continue;
      bytes += program_.constants[entry_.buffers[source].index].size_bytes;
    }
    if (missing.empty()) return OkStatus();
    StreamLot& lot = lots_[device];
    // Of a single lot's memory, two lots that are small enough still share it.
    const int64_t most = state_.stream_lot_bytes[device] * state_.stream_lots / 2;
    if (lot.bytes == 0 || lot.bytes + bytes > most) {
      std::erase_if(brought_weights_, [&](const auto& brought) {
        return program_.constants[entry_.buffers[brought.first].index].device == device;
      });
      const bool has_last = lot.bytes > 0;
      const uint32_t last_end = last_block_[device];
      NewBlock(device, kCopyQueue);
      if (has_last && state_.stream_lots == 1 && std::max(lot.bytes, bytes) > most) {
        entry_.blocks[block_].waits.push_back(last_end);
      } else if (lot.has_end_before) {
        entry_.blocks[block_].waits.push_back(lot.end_before);
      }
      lot = {block_, 0, has_last, last_end};
      NewBlock(device, 0);
      entry_.blocks[block_].waits = {lot.block, last_end};
      last_block_[device] = block_;
    }
    lot.bytes += bytes;
    const uint32_t kernels = std::exchange(block_, lot.block);
    for (const uint32_t source : missing) {
      HY_ASSIGN(const uint32_t target, AddRange(StorageKind::kArena, ArenaOf(device, true),
                                                sizes_[source], entry_.buffers[source].name));
      Command& command = AddCommand(CommandKind::kTransfer,
                                    fmt::format("weights to {}", program_.devices[device].name));
      Bind(command, source, true, false);
      Bind(command, target, false, true);
      brought_weights_[source] = target;
    }
    block_ = kernels;
    return OkStatus();
  }

  // In the sizes of the model.
  void RecordWork(const Segment& segment, uint32_t kernel) {
    const loop::Function& function = segment.function;
    loop::KernelCounts counts = loop::CountKernel(function, kernel);
    if (counts.flops.valid()) {
      const Expr filled =
          FilledFlops(state_.module, state_.module.graphs[segment.graph], function.kernels[kernel]);
      counts.flops = exprs_.Sub(counts.flops, filled);
    }
    program::KernelWork work;
    work.product = counts.product;
    // A size that is data has no expression: it is not known.
    const auto convert = [this](Expr expr) -> std::optional<program::SizeExpr> {
      if (!expr.valid()) return std::nullopt;
      Result<program::SizeExpr> size = Convert(expr);
      if (!size.ok()) return std::nullopt;
      return std::move(size).value();
    };
    work.flops = convert(counts.flops);
    work.read_bytes = convert(counts.read_bytes);
    work.written_bytes = convert(counts.written_bytes);
    state_.Record(program::kWorkRecord, function.kernels[kernel].name, program::FormatWork(work));
  }

  // Lays these ranges side by side in one, which a command of `block` before `first` fills with
  // zeros.
  Status Clear(const std::vector<uint32_t>& ranges, uint32_t block, size_t first, uint32_t device) {
    const Expr unit = exprs_.Const(kAlignment);
    const auto at = static_cast<uint32_t>(entry_.buffers.size());
    Expr bytes = exprs_.Const(0);
    for (const uint32_t range : ranges) {
      range_parts_.push_back({range, at, bytes});
      bytes = exprs_.Add(bytes, exprs_.Mul(exprs_.CeilDiv(sizes_[range], unit), unit));
    }
    HY_ASSIGN(const uint32_t whole,
              AddRange(StorageKind::kArena, ArenaOf(device, false), bytes, "counters"));
    const uint32_t last = std::exchange(block_, block);
    Command& fill = AddCommand(CommandKind::kFill, "clear counters");
    fill.fill_bytes = 4;
    Bind(fill, whole, false, true);
    const auto to_front = [first](auto& list) {
      std::rotate(list.begin() + static_cast<ptrdiff_t>(first), list.end() - 1, list.end());
    };
    to_front(entry_.blocks[block_].commands);
    to_front(uses_[block_]);
    block_ = last;
    return OkStatus();
  }

  Result<uint32_t> PackedRange(const loop::Function& function,
                               const schedule::PackedConstant& wanted, uint32_t device) {
    const loop::Buffer& buffer = function.buffers[wanted.buffer];
    const graph::Constant& constant = module_.constants[buffer.constant];
    if (constant_bytes_.count({buffer.constant, wanted.packing})) {
      return ConstantRange(buffer.constant, wanted.packing, nullptr, device);
    }
    std::vector<uint8_t> copy;
    std::span<const uint8_t> source = constant.bytes->InMemory();
    if (source.empty()) {
      copy.resize(constant.bytes->size_bytes());
      HY_TRY_CONTEXT(constant.bytes->Read(0, copy), "reading constant '{}'", constant.name);
      source = copy;
    }
    Result<std::vector<uint8_t>> packed = schedule::PackConstant(wanted.packing, source);
    HY_TRY_CONTEXT(packed, "packing constant '{}'", constant.name);
    return ConstantRange(buffer.constant, wanted.packing, &*packed, device);
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
  // twice. Each is copied on the device where it is.
  Status CopyRemainingResults() {
    const graph::Graph& graph = module_.entry();
    std::map<uint32_t, std::vector<std::pair<uint32_t, uint32_t>>> copies, brought;  // by device
    for (size_t i = 0; i < graph.results.size(); ++i) {
      const ValueId value = graph.results[i];
      const uint32_t device = entry_.outputs[i].device;
      HY_ASSIGN(const uint32_t source, PlaceOf(value, device));
      if (source == output_ranges_[i]) continue;
      // A weight that the device streams comes from the host, as it does for kernels.
      const bool is_streamed =
          IsConstant(value) &&
          IsStreamed(module_.nodes[module_.values[value].producer].constant, device);
      (is_streamed ? brought : copies)[device].push_back({source, i});
    }
    for (const auto& [device, list] : brought) {
      NewBlock(device, kCopyQueue);
      for (const auto& [source, output] : list) {
        Command& command =
            AddCommand(CommandKind::kTransfer, "weights to " + entry_.outputs[output].name);
        Bind(command, source, true, false);
        Bind(command, output_ranges_[output], false, true);
      }
    }
    for (const auto& [device, list] : copies) {
      HY_TRY(OpenBlock(device, {}));
      for (const auto& [source, output] : list) {
        Command& command = AddCommand(CommandKind::kCopy, "copy to " + entry_.outputs[output].name);
        Bind(command, source, true, false);
        Bind(command, output_ranges_[output], false, true);
      }
    }
    return OkStatus();
  }

  // A device of last resort that got nothing is not part of the program.
  void DropLastResort() {
    while (program_.devices.size() > 1 && IsUnused(program_.devices.size() - 1) &&
           IsLastResort(static_cast<uint32_t>(program_.devices.size() - 1))) {
      program_.devices.pop_back();
    }
  }
  bool IsLastResort(uint32_t device) const {
    if (state_.request == nullptr) return false;
    const std::vector<std::string>& names = state_.request->options.placement.last_resort;
    return std::find(names.begin(), names.end(), program_.devices[device].name) != names.end();
  }
  bool IsUnused(size_t device) const {
    const auto is_there = [device](const auto& item) { return item.device == device; };
    const auto none = [&](const auto& list) {
      return std::none_of(list.begin(), list.end(), is_there);
    };
    const program::Entry& entry = program_.entries.back();
    return none(entry.inputs) && none(entry.outputs) && none(entry.arenas) && none(entry.blocks) &&
           none(program_.constants) && none(program_.executables);
  }

  Status PlaceArenas() {
    if (entry_.arenas.empty()) ArenaOf(entry_.blocks[0].device, false);
    HY_ASSIGN(const auto summaries, plan::PlaceEntryMemory(exprs_, symbols_, sizes_, uses_,
                                                           kAlignment, &entry_, range_parts_));
    for (size_t i = 0; i < summaries.size(); ++i) {
      const plan::ArenaSummary& summary = summaries[i];
      const program::Arena& arena = entry_.arenas[i];
      std::string subject = arena.holds_transfers ? "transfers" : "activations";
      if (!is_single_) subject += " on " + program_.devices[arena.device].name;
      state_.Record(
          "memory", std::move(subject),
          fmt::format("The arena holds {} bytes for {}; the lower bound is {} bytes.",
                      exprs_.Format(summary.arena_bytes), Counted(summary.range_count, "value"),
                      exprs_.Format(summary.lower_bound_bytes)));
    }
    for (uint32_t d = 0; d < program_.devices.size(); ++d) {
      uint64_t count = 0, bytes = 0;
      for (const program::Constant& constant : program_.constants) {
        if (constant.device != d) continue;
        ++count;
        bytes += constant.size_bytes;
      }
      if (program_.devices.size() > 1 && count == 0) continue;
      std::string subject = "constants";
      if (program_.devices.size() > 1) subject += " on " + program_.devices[d].name;
      state_.Record("memory", std::move(subject),
                    fmt::format("{} {} {}.", Counted(count, "constant"),
                                count == 1 ? "takes" : "take", Counted(bytes, "byte")));
    }
    return OkStatus();
  }

  CompileState& state_;
  graph::Module& module_;
  ExprArena& exprs_;
  program::Program& program_;
  program::Entry entry_;
  std::vector<Expr> symbols_;
  std::vector<Expr> sizes_;                           // bytes per range of entry_.buffers
  std::vector<std::vector<plan::CommandUses>> uses_;  // per block, per command
  std::vector<plan::RangePart> range_parts_;
  std::vector<uint32_t> output_ranges_;
  bool is_single_ = true;  // all segments are on one device
  bool has_host_ = false;
  uint32_t spare_ = 0;  // where constants that are results go, and inputs that nothing reads
  uint32_t host_ = 0;   // the device that works in the host's memory; without one, any
  uint32_t block_ = 0;  // that commands go to
  std::map<ValueId, uint32_t> home_;                             // device
  std::map<ValueId, uint32_t> block_of_;                         // that makes it
  std::map<uint32_t, uint32_t> last_block_;                      // of each device, transfers apart
  std::map<std::pair<ValueId, uint32_t>, uint32_t> brought_by_;  // value and device -> block
  // Streamed weights that arrive together: the block of their transfers, and the last block that
  // read the lot before.
  struct StreamLot {
    uint32_t block = 0;
    int64_t bytes = 0;
    bool has_end_before = false;
    uint32_t end_before = 0;
  };
  std::map<uint32_t, StreamLot> lots_;            // by device
  std::map<uint32_t, uint32_t> brought_weights_;  // range of a constant -> of its present copy
  std::map<std::pair<uint32_t, bool>, uint32_t> arenas_;       // device and lane -> arena
  std::map<std::pair<ValueId, uint32_t>, uint32_t> place_of_;  // value and device -> range
  // Not by hash, which two may share: the module holds equal constants once.
  std::map<std::tuple<graph::ConstantId, std::string, uint32_t>, uint32_t> constants_;  // -> range
  std::map<std::pair<graph::ConstantId, std::string>, uint32_t> constant_bytes_;  // -> the first
  std::set<std::pair<uint32_t, uint32_t>> loop_guards_;  // device, and the expression's id
  std::map<uint32_t, uint32_t> executable_of_device_;
  std::map<std::pair<uint32_t, std::string>, Place> kernels_;
  std::map<std::pair<const void*, std::string>, uint32_t> images_;
};

}  // namespace

Status AssembleProgram(CompileState& state) { return Assembler(state).Run(); }

}  // namespace halyard::pipeline
