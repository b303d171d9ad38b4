// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/gpu/library_matmul.h"

#include <algorithm>
#include <functional>

#include "base/gpu_kernel_abi.h"
#include "compiler/passes/loop_clone.h"
#include "compiler/schedule/common/contraction_problem.h"
#include "compiler/schedule/gpu/contraction.h"
#include "compiler/schedule/gpu/library_epilogue.h"
#include "compiler/schedule/gpu/loops.h"

namespace halyard::schedule {

using loop::Op;
using loop::OpKind;

namespace {

// Below this the library's product takes as long as its launch, and streams of ours are better.
constexpr int64_t kLeastSide = 32;
constexpr double kLeastProducts = 1 << 24;

bool IsLibraryType(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

class Planner {
 public:
  Planner(const loop::Function& function, const loop::Kernel& kernel, const Problem& problem,
          const Target& target, std::string* why)
      : function_(function),
        kernel_(kernel),
        exprs_(*function.exprs),
        problem_(problem),
        interprets_((target.gpu.features & static_cast<uint64_t>(GpuFeature::kKernelIr)) != 0),
        why_(why) {}

  std::optional<LibraryPlan> Plan() {
    if (!Sizes() || !Operands()) return std::nullopt;
    if (Fold()) return plan_;
    if (!Cut()) return std::nullopt;
    return plan_;
  }

  // The sides that run along D's contiguous direction and across it.
  const Side& inner() const { return is_swapped_ ? problem_.n : problem_.m; }
  const Side& outer() const { return is_swapped_ ? problem_.m : problem_.n; }

 private:
  bool No(std::string why) {
    if (why_ != nullptr) *why_ = std::move(why);
    return false;
  }

  bool Sizes() {
    if (kernel_.ordered_reductions) return No("its sums have a fixed order");
    if (problem_.dtype != DType::kF32) return No("its sums are not in f32");
    const auto m = exprs_.AsConst(problem_.m.extent), n = exprs_.AsConst(problem_.n.extent);
    const auto k = exprs_.AsConst(problem_.k.extent), batch = exprs_.AsConst(problem_.batch.extent);
    if (!m || !n || !k || !batch) return No("its sizes are not fixed");
    if (std::min({*m, *n, *k, *batch}) < 1) return No("it is empty");
    if (std::max({*m, *n, *k, *batch}) > INT32_MAX) return No("it is too large");
    const double products = static_cast<double>(*m) * static_cast<double>(*n) *
                            static_cast<double>(*k) * static_cast<double>(*batch);
    if (!interprets_ && (std::min(*m, *n) < kLeastSide || products < kLeastProducts)) {
      return No("it is too small");
    }
    const auto is_one = [&](const std::optional<Expr>& e) { return e && exprs_.IsConst(*e, 1); };
    is_swapped_ = is_one(problem_.out_stride_n);
    if (!is_swapped_ && !is_one(problem_.out_stride_m)) {
      return No("its result is contiguous along no side");
    }
    plan_.call.matmul.m = is_swapped_ ? *n : *m;
    plan_.call.matmul.n = is_swapped_ ? *m : *n;
    plan_.call.matmul.k = *k;
    plan_.call.matmul.batch = *batch;
    return true;
  }

  // `index` over the flat symbols as an offset and strides along two sides and the batch; false
  // where it is not that.
  bool ReadPlace(Expr index, const Side& rows, const Side& cols, GpuLibraryOperand* out) {
    index = FlatIndex(exprs_, problem_, index);
    const auto stride = [&](const Side& side) -> std::optional<int64_t> {
      const std::optional<Expr> along = exprs_.StrideOf(index, side.flat);
      return along ? exprs_.AsConst(*along) : std::nullopt;
    };
    const auto row = stride(rows), col = stride(cols), batch = stride(problem_.batch);
    if (!row || !col || !batch || *row < 0 || *col < 0 || *batch < 0) return false;
    std::vector<std::pair<Expr, Expr>> zeros;
    for (const Side* side : {&problem_.batch, &problem_.m, &problem_.n, &problem_.k}) {
      zeros.emplace_back(side->flat, exprs_.Const(0));
    }
    const auto offset = exprs_.AsConst(exprs_.Substitute(index, zeros));
    if (!offset || *offset < 0) return false;
    out->offset = *offset;
    out->row_stride = *row;
    out->col_stride = *col;
    out->batch_stride = *batch;
    return true;
  }

  bool ReadFactor(const Factor& factor, const Side& rows, const Side& cols,
                  GpuLibraryOperand* out) {
    if (factor.load == loop::kNone) return No("an operand is computed on the way");
    const Op& load = kernel_.ops[factor.load];
    const DType dtype = function_.buffers[load.buffer].dtype;
    if (!IsLibraryType(dtype)) return No("an operand has a type that the library does not take");
    if (plan_.call.matmul.input_dtype == 0)
      plan_.call.matmul.input_dtype = static_cast<uint32_t>(dtype);
    if (plan_.call.matmul.input_dtype != static_cast<uint32_t>(dtype)) {
      return No("its operands have two types");
    }
    if (!ReadPlace(load.index, rows, cols, out)) return No("an operand is no matrix in memory");
    out->binding = load.buffer;
    const int64_t row_count = *exprs_.AsConst(rows.extent),
                  col_count = *exprs_.AsConst(cols.extent);
    // Rows that overlap are the windows of a convolution.
    if (!(out->row_stride == 1 && out->col_stride >= row_count) &&
        !(out->col_stride == 1 && out->row_stride >= col_count)) {
      return No("an operand is no matrix in memory");
    }
    return true;
  }

  bool Operands() {
    const Factor& a = is_swapped_ ? problem_.b : problem_.a;
    const Factor& b = is_swapped_ ? problem_.a : problem_.b;
    return ReadFactor(a, inner(), problem_.k, &plan_.call.matmul.a) &&
           ReadFactor(b, problem_.k, outer(), &plan_.call.matmul.b);
  }

  const Op* OnlyStore() const {
    const Op* store = nullptr;
    for (const loop::OpId id : problem_.epilogue) {
      if (kernel_.ops[id].kind != OpKind::kStore) continue;
      if (store != nullptr) return nullptr;
      store = &kernel_.ops[id];
    }
    return store;
  }

  // A matrix of D's shape with D's direction of memory.
  bool ReadResultPlace(const Op& access, GpuLibraryOperand* out) {
    if (!ReadPlace(access.index, inner(), outer(), out)) return false;
    if (out->row_stride != 1 || out->col_stride < plan_.call.matmul.m) return false;
    out->binding = access.buffer;
    return true;
  }

  // The whole epilogue is one that the library has.
  bool Fold() {
    const Op* store = OnlyStore();
    if (store == nullptr || store->operands.size() != 1) return false;
    const DType output = function_.buffers[store->buffer].dtype;
    const auto input = static_cast<DType>(plan_.call.matmul.input_dtype);
    if (output != input && output != DType::kF32) return false;
    GpuLibraryMatmul matmul = plan_.call.matmul;
    if (!ReadResultPlace(*store, &matmul.d)) return false;
    const auto epilogue = ReadLibraryEpilogue(kernel_, problem_.accumulator, store->operands[0]);
    if (!epilogue) return false;
    matmul.output_dtype = static_cast<uint32_t>(output);
    matmul.activation = epilogue->activation;
    // The library's tanh is good for 16 bits.
    if (matmul.activation == GpuLibraryActivation::kGeluTanh && output == DType::kF32) return false;
    for (const loop::OpId id : epilogue->addends) {
      const Op& load = kernel_.ops[id];
      const loop::Buffer& buffer = function_.buffers[load.buffer];
      GpuLibraryOperand place;
      if (!ReadPlace(load.index, inner(), outer(), &place)) return false;
      place.binding = load.buffer;
      if (place.col_stride == 0) {
        const bool widens = output == DType::kF32 && buffer.dtype == input &&
                            buffer.role == loop::BufferRole::kConstant;
        if (matmul.bias.binding != kNoLibraryBinding || matmul.batch != 1 ||
            place.row_stride != 1 || (buffer.dtype != output && !widens)) {
          return false;
        }
        matmul.bias = place;
        continue;
      }
      if (matmul.c.binding != kNoLibraryBinding || buffer.dtype != output ||
          !ReadResultPlace(load, &matmul.c)) {
        return false;
      }
      // In place, element by element, or elsewhere.
      if (matmul.c.binding == matmul.d.binding && !(matmul.c == matmul.d)) return false;
    }
    for (const GpuLibraryOperand* read : {&matmul.a, &matmul.b, &matmul.bias}) {
      if (read->binding == matmul.d.binding) return false;
    }
    plan_.call.matmul = matmul;
    return true;
  }

  // The product alone, into memory that a kernel of ours reads for the rest.
  bool Cut() {
    GpuLibraryMatmul& matmul = plan_.call.matmul;
    plan_.is_cut = true;
    plan_.between = DType::kF32;
    // Where the first thing is to round the sum to the operands' type, that is what passes.
    int uses = 0;
    DType rounded = DType::kF32;
    for (const loop::OpId id : problem_.epilogue) {
      const Op& op = kernel_.ops[id];
      for (const loop::ValueId operand : op.operands) {
        if (operand != problem_.accumulator) continue;
        ++uses;
        if (op.kind == OpKind::kScalar && op.opcode == kernel::Opcode::kConvert) rounded = op.dtype;
      }
    }
    if (uses == 1 && static_cast<uint32_t>(rounded) == matmul.input_dtype) plan_.between = rounded;
    matmul.output_dtype = static_cast<uint32_t>(plan_.between);
    matmul.d.row_stride = 1;
    matmul.d.col_stride = matmul.m;
    matmul.d.batch_stride = matmul.m * matmul.n;
    // Through the result's own place where that fits: half the memory.
    const Op* store = OnlyStore();
    if (store == nullptr || store->operands.size() != 1 ||
        function_.buffers[store->buffer].dtype != plan_.between) {
      return true;
    }
    for (const Op& op : kernel_.ops) {
      if (op.kind == OpKind::kLoad && op.buffer == store->buffer) return true;
    }
    GpuLibraryOperand place;
    if (ReadResultPlace(*store, &place)) matmul.d = place;
    return true;
  }

  const loop::Function& function_;
  const loop::Kernel& kernel_;
  ExprArena& exprs_;
  const Problem& problem_;
  const bool interprets_;
  std::string* why_;
  LibraryPlan plan_;
  bool is_swapped_ = false;  // D is contiguous along the problem's n
};

// The kernel that stands in. Tiles of fragments are larger than those of workitems, so that a tile
// tells of which it is.
Result<ScheduledKernel> BuildStandIn(const loop::Function& function, uint32_t kernel,
                                     const ScheduleRecord& record, const Target& target) {
  ScheduleRecord own = record;
  own.library = {};
  own.kind = ScheduleKind::kGpuMatrix;
  auto built = BuildGpuContraction(function, kernel, own, target);
  if (built.ok()) return built;
  own.kind = ScheduleKind::kGpuTile;
  return BuildGpuContraction(function, kernel, own, target);
}

// A parameter behind the others, before the kernel's allocations.
uint32_t AddParameter(kernel::Kernel& kernel, std::string_view name, DType dtype,
                      kernel::Access access) {
  const auto first =
      std::find_if(kernel.buffers.begin(), kernel.buffers.end(),
                   [](const kernel::Buffer& b) { return b.space != kernel::MemorySpace::kGlobal; });
  const auto at = static_cast<uint32_t>(first - kernel.buffers.begin());
  kernel::Buffer added;
  added.name = name;
  added.dtype = dtype;
  added.access = access;
  kernel.buffers.insert(first, added);
  for (kernel::Op& op : kernel.ops) {
    if (op.buffer != kernel::kNone && op.buffer >= at) ++op.buffer;
  }
  return at;
}

// One of the two kernels that a cut makes, in a function of its own whose last buffer is what the
// two pass to each other.
class Part {
 public:
  Part(const loop::Function& function, const loop::Kernel& source, const Problem& problem,
       const LibraryPlan& plan, const Side& inner, const Side& outer)
      : source_(source), problem_(problem), plan_(plan), inner_(inner), outer_(outer) {
    made_.exprs = function.exprs;
    made_.buffers = function.buffers;
    between_ = plan.call.matmul.d.binding;
    if (between_ == kNoLibraryBinding) {
      between_ = loop::AddBuffer(
          made_, "sums", plan.between, loop::BufferRole::kTemp,
          function.exprs->Const(plan.call.matmul.m * plan.call.matmul.n * plan.call.matmul.batch));
    }
  }

  loop::Function Product() { return Make(true); }
  loop::Function Rest() { return Make(false); }

 private:
  loop::Function Make(bool is_product) {
    loop::KernelBuilder builder(made_, source_.name + (is_product ? "_product" : "_rest"));
    loop::KernelCloner cloner(source_, builder);
    builder.kernel().nodes = source_.nodes;
    Walk(0, is_product, builder, cloner);
    if (is_product) {
      loop::Kernel& kernel = builder.kernel();
      kernel.template_kind = loop::TemplateKind::kContraction;
      kernel.roles.product_a = cloner.values.at(problem_.a.value);
      kernel.roles.product_b = cloner.values.at(problem_.b.value);
      kernel.roles.accumulator = cloner.values.at(problem_.accumulator);
    }
    made_.kernels.push_back(builder.Finish());
    return std::move(made_);
  }

  void Walk(loop::BlockId block, bool is_product, loop::KernelBuilder& builder,
            loop::KernelCloner& cloner) {
    for (const loop::OpId id : source_.blocks[block].ops) {
      const Op& op = source_.ops[id];
      if (op.kind == OpKind::kLoop && op.loop == loop::LoopKind::kParallel) {
        cloner.OpenLoop(op);
        Walk(op.body, is_product, builder, cloner);
        cloner.CloseLoop(op);
      } else if (op.kind == OpKind::kLoop && is_product) {
        cloner.One(id);
        builder.Store(between_, Place(builder, cloner),
                      builder.Convert(cloner.values.at(problem_.accumulator), plan_.between));
      } else if (op.kind == OpKind::kLoop) {
        cloner.values[problem_.accumulator] = builder.Load(between_, Place(builder, cloner));
      } else if (!is_product) {
        cloner.One(id);
      }
    }
  }

  // Where the sum of this iteration lies.
  Expr Place(loop::KernelBuilder& builder, loop::KernelCloner& cloner) {
    ExprArena& exprs = builder.exprs();
    const auto flat = [&](const Side& side) {
      Expr at = exprs.Const(0);
      for (const auto& [symbol, extent] : side.digits) {
        at = exprs.Add(exprs.Mul(at, extent), cloner.Rename(symbol));
      }
      return at;
    };
    const GpuLibraryOperand& d = plan_.call.matmul.d;
    Expr at = exprs.Add(exprs.Const(d.offset), flat(inner_));
    at = exprs.Add(at, exprs.Mul(flat(outer_), exprs.Const(d.col_stride)));
    return exprs.Add(at, exprs.Mul(flat(problem_.batch), exprs.Const(d.batch_stride)));
  }

  loop::Function made_;
  const loop::Kernel& source_;
  const Problem& problem_;
  const LibraryPlan& plan_;
  const Side &inner_, &outer_;
  loop::BufferId between_ = loop::kNone;
};

// Adds what `part` does behind what `whole` does; buffers from `first_own` on are the workspaces
// from `first_workspace` on.
void Append(ScheduledKernel part, uint32_t first_own, uint32_t first_workspace,
            ScheduledKernel* whole) {
  const auto kernels = static_cast<uint32_t>(whole->kernels.size());
  const auto workspaces = static_cast<uint32_t>(whole->workspaces.size());
  for (Dispatch& dispatch : part.dispatches) {
    dispatch.kernel += kernels;
    for (Binding& binding : dispatch.bindings) {
      if (binding.kind == Binding::Kind::kWorkspace) binding.index += workspaces;
      if (binding.kind == Binding::Kind::kBuffer && binding.index >= first_own) {
        binding = {Binding::Kind::kWorkspace, binding.index - first_own + first_workspace};
      }
    }
    whole->dispatches.push_back(std::move(dispatch));
  }
  std::move(part.kernels.begin(), part.kernels.end(), std::back_inserter(whole->kernels));
  std::move(part.workspaces.begin(), part.workspaces.end(), std::back_inserter(whole->workspaces));
}

}  // namespace

std::optional<LibraryPlan> PlanLibraryMatmul(const loop::Function& function, uint32_t kernel,
                                             const Target& target, std::string* why) {
  const loop::Kernel& source = function.kernels[kernel];
  const std::optional<Problem> problem = ReadContraction(function, source, why);
  if (!problem) return std::nullopt;
  return Planner(function, source, *problem, target, why).Plan();
}

std::vector<ScheduleRecord> LibrarySchedules(std::span<const ScheduleRecord> records,
                                             std::span<const GpuLibraryCall> proposals) {
  std::vector<ScheduleRecord> made;
  const auto own = std::find_if(records.begin(), records.end(), [&](const ScheduleRecord& r) {
    return (r.kind == ScheduleKind::kGpuMatrix || r.kind == ScheduleKind::kGpuTile) &&
           r.tile.split == 1;
  });
  if (own == records.end()) return made;
  for (const GpuLibraryCall& proposal : proposals) {
    made.push_back(*own);
    made.back().kind = ScheduleKind::kGpuLibrary;
    made.back().library = proposal.choice;
  }
  return made;
}

Result<ScheduledKernel> BuildLibraryMatmul(const loop::Function& function, uint32_t kernel,
                                           const ScheduleRecord& record, const Target& target) {
  const loop::Kernel& source = function.kernels[kernel];
  const auto bad = [&](std::string_view why) {
    return InvalidArgument("Schedule '{}' does not fit kernel '{}': {}.", FormatSchedule(record),
                           source.name, why);
  };
  if (target.kind != TargetKind::kCuda) return bad("only CUDA devices have such a library");
  std::string why;
  const std::optional<Problem> problem = ReadContraction(function, source, &why);
  if (!problem) return bad(why);
  Planner planner(function, source, *problem, target, &why);
  const std::optional<LibraryPlan> plan = planner.Plan();
  if (!plan) return bad(why);
  GpuLibraryCall call = plan->call;
  GpuLibraryMatmul& matmul = call.matmul;
  call.choice = record.library;
  ScheduledKernel scheduled;
  scheduled.record = record;
  const auto buffers = static_cast<uint32_t>(function.buffers.size());
  uint32_t result = matmul.d.binding;  // of the function
  if (!plan->is_cut) {
    HY_ASSIGN(ScheduledKernel product, BuildStandIn(function, kernel, record, target));
    Append(std::move(product), buffers, 0, &scheduled);
  } else {
    const loop::Function product =
        Part(function, source, *problem, *plan, planner.inner(), planner.outer()).Product();
    HY_ASSIGN(ScheduledKernel first, BuildStandIn(product, 0, record, target));
    if (result == kNoLibraryBinding) {
      result = buffers;
      const int64_t bytes = matmul.m * matmul.n * matmul.batch * (BitWidth(plan->between) / 8);
      scheduled.workspaces.push_back({function.exprs->Const(bytes), false});
    }
    // Its own workspaces would stand before that one.
    if (!first.workspaces.empty()) return bad("the kernel that stands in has a workspace");
    Append(std::move(first), buffers, 0, &scheduled);
  }
  if (scheduled.kernels.size() != 1 || scheduled.dispatches.size() != 1 ||
      !scheduled.dispatches[0].scalars.empty()) {
    return bad("the kernel that stands in is not one dispatch of fixed sizes");
  }

  // The record's bindings are those of the dispatch.
  kernel::Kernel& code = scheduled.kernels[0];
  std::vector<Binding>& bindings = scheduled.dispatches[0].bindings;
  const auto place = [&](Binding wanted, GpuLibraryOperand* operand) {
    const auto found = std::find(bindings.begin(), bindings.end(), wanted);
    operand->binding = static_cast<uint32_t>(found - bindings.begin());
    return found != bindings.end();
  };
  const auto place_buffer = [&](GpuLibraryOperand* operand) {
    if (operand->binding == kNoLibraryBinding) return true;
    return place({Binding::Kind::kBuffer, operand->binding}, operand);
  };
  const auto add = [&](Binding binding, std::string_view name, DType dtype, kernel::Access access) {
    bindings.push_back(binding);
    return AddParameter(code, name, dtype, access);
  };
  if (bindings.size() != static_cast<size_t>(std::count_if(
                             code.buffers.begin(), code.buffers.end(), [](const kernel::Buffer& b) {
                               return b.space == kernel::MemorySpace::kGlobal;
                             }))) {
    return bad("the kernel that stands in has other parameters than its dispatch");
  }
  bool is_placed = place_buffer(&matmul.a) && place_buffer(&matmul.b) && place_buffer(&matmul.c);
  is_placed &= result == buffers ? place({Binding::Kind::kWorkspace, 0}, &matmul.d)
                                 : place_buffer(&matmul.d);
  if (matmul.bias.binding != kNoLibraryBinding) {
    const loop::BufferId id = matmul.bias.binding;
    const loop::Buffer& bias = function.buffers[id];
    if (static_cast<uint32_t>(bias.dtype) == matmul.output_dtype) {
      is_placed &= place_buffer(&matmul.bias);
    } else {
      const auto elements = function.exprs->AsConst(bias.elements);
      if (!elements) return bad("its bias has no fixed size");
      scheduled.constants.push_back(
          {id, fmt::format("f32 from {}", FormatDType(bias.dtype)), *elements * 4});
      matmul.bias.binding =
          add({Binding::Kind::kConstant, 0}, "library_bias", DType::kF32, kernel::Access::kRead);
    }
  }
  if (!is_placed) return bad("the kernel that stands in lacks an operand");
  if (call.choice.workspace_bytes > 0) {
    const auto index = static_cast<uint32_t>(scheduled.workspaces.size());
    scheduled.workspaces.push_back(
        {function.exprs->Const(call.choice.workspace_bytes + kLibraryWorkspaceSlack), false});
    call.workspace_binding = add({Binding::Kind::kWorkspace, index}, "library_workspace",
                                 DType::kI32, kernel::Access::kReadWrite);
  }
  scheduled.library_calls[0] = call;

  if (plan->is_cut) {
    const loop::Function rest =
        Part(function, source, *problem, *plan, planner.inner(), planner.outer()).Rest();
    HY_ASSIGN(const std::vector<ScheduleRecord> loops, EnumerateGpuLoops(rest, 0, target));
    HY_ASSIGN(ScheduledKernel last, BuildGpuLoops(rest, 0, loops[0], target));
    if (!last.constants.empty()) return bad("its epilogue packs constants");
    Append(std::move(last), buffers, 0, &scheduled);
  }
  return scheduled;
}

}  // namespace halyard::schedule
