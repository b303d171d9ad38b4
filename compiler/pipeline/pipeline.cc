// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/pipeline.h"

#include <algorithm>
#include <optional>

#include "base/near_names.h"
#include "compiler/graph/parser.h"
#include "compiler/graph/verifier.h"
#include "compiler/import/onnx_import.h"
#include "compiler/loop/lowering.h"
#include "compiler/loop/verify.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/graph_choose_layouts.h"
#include "compiler/passes/graph_passes.h"
#include "compiler/passes/loop_fuse.h"
#include "compiler/passes/loop_in_place.h"
#include "compiler/passes/loop_split_reductions.h"
#include "compiler/pipeline/assemble.h"
#include "compiler/pipeline/clone_views.h"
#include "compiler/pipeline/expand_math.h"
#include "compiler/pipeline/fit_memory.h"
#include "compiler/pipeline/fused_clusters.h"
#include "compiler/pipeline/fusion_records.h"
#include "compiler/pipeline/place_clusters.h"
#include "compiler/pipeline/schedule_kernels.h"
#include "compiler/pipeline/segment.h"

namespace halyard::pipeline {
namespace {

// Sizes for cost models and races where a dim is a symbol: one item per batch, a short sequence, or
// the nearest that the model's own demands on its sizes allow.
constexpr int64_t kBatchHint = 1;
constexpr int64_t kDimHint = 128;
constexpr int kGpuLanes = 8;  // 16 bytes of 16-bit floats

// Doubles the hints of symbols until `larger` is at least `least`, where they decide it.
void RaiseHints(graph::Module& module, Expr larger, int64_t least) {
  for (const Expr symbol : module.exprs.SymbolsOf(larger)) {
    const int64_t before = module.exprs.HintOf(symbol), most = module.exprs.RangeOf(symbol).hi;
    for (int64_t hint = before; module.exprs.HintOf(larger) < least && hint < most;) {
      hint = std::min(most, std::max<int64_t>(1, hint) * 2);
      module.exprs.SetHint(symbol, hint);
    }
    if (module.exprs.HintOf(larger) >= least) return;
    module.exprs.SetHint(symbol, before);
  }
}

void SetHints(graph::Module& module) {
  ExprArena& exprs = module.exprs;
  for (graph::ValueId parameter : module.entry().parameters) {
    const std::vector<Expr>& dims = module.values[parameter].type.dims;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      if (exprs.KindOf(dims[axis]) != ExprKind::kSymbol) continue;
      const ExprRange range = exprs.RangeOf(dims[axis]);
      const int64_t divisor = exprs.SymbolDivisor(dims[axis]);
      const int64_t hint = std::clamp(axis == 0 ? kBatchHint : kDimHint, range.lo, range.hi);
      exprs.SetHint(dims[axis], (hint + divisor - 1) / divisor * divisor);
    }
  }
  for (const auto& [a, b, why] : module.assumed_equal) {
    for (const auto& [symbol, other] : {std::pair(a, b), std::pair(b, a)}) {
      if (exprs.KindOf(symbol) != ExprKind::kSymbol) continue;
      const ExprRange range = exprs.RangeOf(symbol);
      exprs.SetHint(symbol, std::clamp(exprs.HintOf(other), range.lo, range.hi));
    }
  }
  for (const auto& [a, b, why] : module.assumed_at_most) RaiseHints(module, b, exprs.HintOf(a));
}

// Narrows the ranges of named sizes of a graph's inputs to one value each.
Status FixSymbols(graph::Module& module, const std::map<std::string, int64_t>& values) {
  if (values.empty()) return OkStatus();
  std::map<std::string, Expr> symbols;
  for (const graph::ValueId parameter : module.entry().parameters) {
    for (const Expr dim : module.values[parameter].type.dims) {
      for (const Expr symbol : module.exprs.SymbolsOf(dim)) {
        symbols.emplace(module.exprs.SymbolName(symbol), symbol);
      }
    }
  }
  for (const auto& [name, value] : values) {
    const auto found = symbols.find(name);
    if (found == symbols.end()) {
      std::vector<std::string> known;
      for (const auto& [symbol, expr] : symbols) known.push_back(symbol);
      return InvalidArgument(
          "Symbol '{}' is fixed to {}; no input of the graph has a size of that name, they have "
          "{}.",
          name, value, NamesLike(name, known));
    }
    const ExprRange range = module.exprs.RangeOf(found->second);
    const int64_t divisor = module.exprs.SymbolDivisor(found->second);
    if (value < range.lo || value > range.hi || value % divisor != 0) {
      return OutOfRange(
          "Symbol '{}' is fixed to {}; it must lie in [{}, {}] and be a multiple of {}.", name,
          value, range.lo, range.hi, divisor);
    }
    module.exprs.Constrain(found->second, {value, value}, 1);
  }
  return OkStatus();
}

// What `halyard explain` finds a node by besides its name: its op, and the values that it makes.
void RecordSource(CompileState& state, const std::string& node, std::string text,
                  const std::vector<std::string>& outputs) {
  for (const std::string& output : outputs) {
    if (!output.empty()) text += '\n' + output;
  }
  state.Record("source", node, std::move(text));
}

// The same of a constant: its type, and the nodes that read it.
void RecordWeight(CompileState& state, const graph::Node& node) {
  const graph::ValueId value = node.results[0];
  std::string text = graph::FormatType(state.module.exprs, state.module.values[value].type);
  for (const graph::Node& reader : state.module.nodes) {
    const auto& operands = reader.operands;
    if (std::find(operands.begin(), operands.end(), value) == operands.end()) continue;
    if (!reader.name.empty()) text += '\n' + reader.name;
  }
  state.Record("weight", state.module.values[value].name, std::move(text));
}

Status ReadModel(CompileState& state) {
  const CompileRequest& request = *state.request;
  if (!request.graph_text.empty()) {
    const auto resolve =
        [&](uint64_t hash, DType,
            const std::vector<int64_t>&) -> Result<std::shared_ptr<const graph::ByteSource>> {
      const auto found = request.graph_constants.find(fmt::format("{:016x}", hash));
      if (found != request.graph_constants.end()) return found->second;
      return NotFound("The graph names a constant of hash {:016x} whose bytes were not given.",
                      hash);
    };
    HY_ASSIGN(state.module,
              graph::ParseModule(request.graph_text, resolve, graph::TextOrigin::kRecorded));
    for (const graph::Node& node : state.module.nodes) {
      if (node.constant != graph::kNone) RecordWeight(state, node);
      if (node.name.empty() || node.constant != graph::kNone) continue;
      std::vector<std::string> outputs;
      for (const graph::ValueId value : node.results) {
        outputs.push_back(state.module.values[value].name);
      }
      RecordSource(state, node.name, std::string(node.op->name), outputs);
    }
    return FixSymbols(state.module, request.options.symbol_values);
  }
  onnx::ImportOptions options;
  options.external_data_folder = request.external_data_folder;
  options.symbol_values = request.options.symbol_values;
  onnx::ImportReport report;
  if (!request.path.empty()) {
    HY_ASSIGN(state.module, onnx::ImportOnnxFile(request.path, options, &report));
  } else {
    HY_ASSIGN(state.module, onnx::ImportOnnxBytes(request.onnx_bytes, options, &report));
  }
  state.op_types = std::move(report.op_types);
  for (const std::string& warning : report.warnings) state.Record("import", "model", warning);
  for (const onnx::SourceNode& node : report.sources) {
    RecordSource(state, node.name, node.op, node.outputs);
  }
  for (const auto& [name, weight] : report.weights) {
    state.Record("weight", name,
                 fmt::format("{}{}{}", weight.type, weight.readers.empty() ? "" : "\n",
                             fmt::join(weight.readers, "\n")));
  }
  return OkStatus();
}

Status Import(CompileState& state) {
  HY_TRY(ReadModel(state));
  SetHints(state.module);
  return OkStatus();
}

Status VerifyGraph(CompileState& state) { return graph::VerifyModule(state.module); }

// The graph passes share one shape: a function on the module.
template <Status (*kPass)(graph::Module&)>
Status OnModule(CompileState& state) {
  return kPass(state.module);
}

// The pattern wants a clean graph and can leave a double transpose.
Status FuseAttention(CompileState& state) {
  HY_TRY(graph::RemoveDead(state.module));
  std::vector<graph::FusedAttention> records;
  HY_TRY(graph::FuseAttentionAndTell(state.module, &records));
  for (const graph::FusedAttention& record : records) {
    for (const std::string& part : record.parts) state.part_of[part] = record.node;
  }
  HY_TRY(graph::Canonicalize(state.module));
  return graph::MergeCommon(state.module);
}

// What reads a product decides, so what nothing needs must be gone. One product runs on one device.
Status MergeMatmuls(CompileState& state) {
  std::vector<graph::MergedMatmul> merged;
  HY_TRY(graph::RemoveDead(state.module));
  HY_TRY(graph::MergeMatmulsAndTell(state.module, WishesOf(state), &merged));
  for (const graph::MergedMatmul& one : merged) {
    state.Record("fusion", one.nodes[0],
                 fmt::format("The products '{}' of one value are one with {} columns.",
                             fmt::join(one.nodes, "', '"), one.columns));
    std::vector<std::string>& parts = state.merged_products[one.nodes[0]];
    parts.insert(parts.end(), one.nodes.begin() + 1, one.nodes.end());
    parts.insert(parts.end(), one.sums.begin(), one.sums.end());
  }
  return OkStatus();
}

Status NarrowFloats(CompileState& state) {
  if (state.request == nullptr || state.request->options.precision != Precision::kF16) {
    return OkStatus();
  }
  return graph::NarrowFloats(state.module);
}

Status NarrowIo(CompileState& state) {
  if (state.request == nullptr || state.request->options.io_precision != Precision::kF16) {
    return OkStatus();
  }
  return graph::NarrowIo(state.module);
}

Status Layout(CompileState& state) {
  for (Segment& segment : state.segments) {
    const Target& target = state.program.devices[segment.device].target;
    if (segment.is_interpreted) continue;
    std::vector<graph::LayoutRecord> records;
    const bool is_cpu = target.kind == TargetKind::kCpu;
    const int lanes = is_cpu ? std::max(1, target.vector_bytes / 4) : kGpuLanes;
    HY_TRY(graph::ChooseLayouts(state.module, segment.graph, lanes, /*packs_weights=*/is_cpu,
                                &records));
    for (graph::LayoutRecord& record : records) {
      state.Record("layout", std::move(record.node), std::move(record.text));
    }
  }
  return OkStatus();
}

Status Lower(CompileState& state) {
  for (Segment& segment : state.segments) {
    if (segment.is_interpreted) continue;
    HY_ASSIGN(segment.function, loop::LowerGraph(state.module, segment.graph, {}));
    HY_TRY(loop::VerifyFunction(segment.function));
  }
  return OkStatus();
}

Status Fuse(CompileState& state) {
  for (Segment& segment : state.segments) {
    if (segment.is_interpreted) continue;
    const FusionStory story(segment.function);
    std::vector<loop::FusionRecord> records;
    HY_TRY(loop::FuseKernels(segment.function, {}, &records));
    HY_TRY(loop::VerifyFunction(segment.function));
    for (program::Record& record : story.Tell(records))
      state.Record(record.kind, std::move(record.subject), std::move(record.text));
  }
  return PredictKernels(state);
}

Status SplitReductions(CompileState& state) {
  for (Segment& segment : state.segments) {
    const Target& target = state.program.devices[segment.device].target;
    if (segment.is_interpreted || target.kind != TargetKind::kCpu || target.worker_count < 2)
      continue;
    std::vector<loop::SplitRecord> records;
    HY_TRY(loop::SplitReductions(segment.function, {}, &records));
    HY_TRY(loop::VerifyFunction(segment.function));
    for (const loop::SplitRecord& record : records) {
      state.Record("fusion", record.kernel,
                   fmt::format("Its reduction is cut into {} parts.", record.parts));
    }
  }
  return OkStatus();
}

Status WriteInPlace(CompileState& state) {
  for (Segment& segment : state.segments) {
    if (segment.is_interpreted) continue;
    std::vector<loop::InPlaceRecord> records;
    loop::WriteInPlace(segment.function, &records);
    HY_TRY(loop::VerifyFunction(segment.function));
    for (const loop::InPlaceRecord& record : records) {
      state.Record(
          "memory", record.value,
          fmt::format("Kernel '{}' writes it in place of '{}'.", record.kernel, record.place));
    }
  }
  return OkStatus();
}

// A program that its devices have no memory for is none.
Status Assemble(CompileState& state) {
  HY_TRY(AssembleProgram(state));
  return CheckMemory(state);
}

// The whole compiler, in order. Every fact is given by exactly one pass or by the last of a group.
constexpr Pass kPasses[] = {
    {"import", "reads the model into Graph IR", Import, 0, kImported, Level::kGraph, Level::kGraph},
    {"verify", "rejects an ill-formed graph", VerifyGraph, kImported, kShaped, Level::kGraph,
     Level::kGraph},
    {"propagate-shapes", "replaces shape arithmetic by expressions",
     OnModule<graph::PropagateShapeValues>, kShaped, 0, Level::kGraph, Level::kGraph},
    {"fold-constants", "evaluates nodes whose operands are constants",
     OnModule<graph::FoldConstants>, kShaped, 0, Level::kGraph, Level::kGraph, true},
    {"canonicalize", "removes what changes nothing", OnModule<graph::Canonicalize>, kShaped, 0,
     Level::kGraph, Level::kGraph, true},
    {"merge-common", "merges equal nodes", OnModule<graph::MergeCommon>, kShaped, 0, Level::kGraph,
     Level::kGraph, true},
    {"fold-affine", "folds per-channel scale and shift into convolution weights",
     OnModule<graph::FoldAffine>, kShaped, 0, Level::kGraph, Level::kGraph, true},
    {"fuse-attention", "finds softmax(Q K^T) V and simplifies what it leaves", FuseAttention,
     kShaped, 0, Level::kGraph, Level::kGraph, true},
    {"merge-matmuls", "merges products of one value with constant matrices", MergeMatmuls, kShaped,
     0, Level::kGraph, Level::kGraph, true},
    {"narrow-floats", "computes in f16 what the options allow", NarrowFloats, kShaped, 0,
     Level::kGraph, Level::kGraph, true},
    {"narrow-io", "makes f32 inputs and outputs f16 where the options ask", NarrowIo, kShaped, 0,
     Level::kGraph, Level::kGraph},
    {"hoist-constants", "gives regions their weights as operands", OnModule<graph::HoistConstants>,
     kShaped, 0, Level::kGraph, Level::kGraph},
    {"remove-dead", "drops nodes that no result needs", OnModule<graph::RemoveDead>, kShaped,
     kSimplified, Level::kGraph, Level::kGraph},
    {"clone-views", "gives every reader of a constant its own view of it", CloneViews, kSimplified,
     0, Level::kGraph, Level::kGraph, true},
    {"cluster", "predicts what will fuse", ClusterNodes, kSimplified, kClustered, Level::kGraph,
     Level::kGraph},
    {"place", "chooses a device for every cluster", PlaceClusters, kClustered, kPlaced,
     Level::kGraph, Level::kGraph},
    {"segment", "cuts the graph where the device changes", CutSegments, kPlaced, kSegmented,
     Level::kGraph, Level::kGraph},
    {"layout", "chooses how values inside a segment are stored", Layout, kSegmented, 0,
     Level::kGraph, Level::kGraph, true},
    {"lower", "writes every segment as scalar loop nests", Lower, kSegmented, kLowered,
     Level::kGraph, Level::kLoop},
    {"fuse", "merges loop nests", Fuse, kLowered, kFused, Level::kLoop, Level::kLoop, true},
    {"split-reductions", "cuts long reductions of few rows into parts", SplitReductions, kLowered,
     0, Level::kLoop, Level::kLoop, true},
    {"in-place", "writes values where the ones they replace stood", WriteInPlace, kLowered, 0,
     Level::kLoop, Level::kLoop, true},
    {"schedule", "tiles, vectorises and distributes every loop nest", ScheduleKernels, kLowered,
     kScheduled, Level::kLoop, Level::kKernel, false, 150, 10},
    {"expand-math", "writes transcendentals as arithmetic", ExpandMath, kScheduled, 0,
     Level::kKernel, Level::kKernel},
    {"assemble", "packs constants, plans memory and orders the commands", Assemble, kScheduled,
     kAssembled, Level::kKernel, Level::kProgram},
    {"codegen", "compiles the kernels", GenerateCode, kAssembled, kCompiled, Level::kProgram,
     Level::kProgram, false, 10, 60},
};

// The first pass that runs before what it needs, or -1.
constexpr int FirstUnmet() {
  uint32_t facts = 0;
  int index = 0;
  for (const Pass& pass : kPasses) {
    if ((pass.needs & ~facts) != 0) return index;
    facts |= pass.gives;
    ++index;
  }
  return -1;
}
static_assert(FirstUnmet() == -1, "a pass runs before what it needs");

}  // namespace

std::span<const Pass> Passes() { return kPasses; }

Status ImportAndVerify(const CompileRequest& request) {
  CompileState state;
  state.request = &request;
  HY_TRY(Import(state));
  return VerifyGraph(state);
}

Result<CompileResult> Compile(const CompileRequest& request) {
  HY_ASSIGN(const RunOptions options, RunOptionsFromEnvironment());
  CompileResult result;
  CompileState state;
  Progress progress(request.progress);
  std::optional<MemoryAttempt> attempt = MemoryAttempt();
  double lost_seconds = 0;
  for (uint32_t attempts = 1; attempt; ++attempts) {
    state = {};
    state.request = &request;
    state.progress = &progress;
    state.program.devices = request.devices;
    state.program.model_name = request.path;
    state.memory_attempt = *attempt;
    result.phases.clear();
    const Status status = RunPasses(state, options, "", &result.phases);
    attempt = status.ok() ? std::nullopt : NextAttempt(state, status, attempts);
    if (!attempt) HY_TRY(status);
    for (const PhaseTime& phase : result.phases) lost_seconds += attempt ? phase.seconds : 0;
  }
  if (lost_seconds > 0) result.phases.push_back({"plans that took too much memory", lost_seconds});
  if (!options.stop_after.empty() && options.stop_after != kPasses[std::size(kPasses) - 1].name) {
    return Cancelled("Compilation stopped after pass '{}', as HALYARD_STOP_AFTER asks.",
                     options.stop_after);
  }
  result.program = std::move(state.program);
  return result;
}

}  // namespace halyard::pipeline
