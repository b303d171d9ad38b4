// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/gpu/library_call.h"

#include <algorithm>

#include "compiler/passes/loop_clone.h"
#include "compiler/schedule/common/contraction_problem.h"
#include "compiler/schedule/gpu/contraction.h"
#include "compiler/schedule/gpu/library_convolution.h"
#include "compiler/schedule/gpu/library_matmul.h"
#include "compiler/schedule/gpu/loops.h"

namespace halyard::schedule {

using loop::Op;
using loop::OpKind;

namespace {

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
  // `result`: the buffer through which the sums pass; kNoLibraryBinding: a workspace.
  Part(const loop::Function& function, const loop::Kernel& source, const Problem& problem,
       const LibraryPlan& plan, uint32_t result)
      : source_(source), problem_(problem), plan_(plan), between_(result) {
    made_.exprs = function.exprs;
    made_.buffers = function.buffers;
    if (between_ == kNoLibraryBinding) {
      between_ = loop::AddBuffer(made_, "sums", plan.between, loop::BufferRole::kTemp,
                                 function.exprs->Const(plan.elements));
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
        builder.Store(between_, cloner.Rename(plan_.place),
                      builder.Convert(cloner.values.at(problem_.accumulator), plan_.between));
      } else if (op.kind == OpKind::kLoop) {
        cloner.values[problem_.accumulator] = builder.Load(between_, cloner.Rename(plan_.place));
      } else if (!is_product) {
        cloner.One(id);
      }
    }
  }

  loop::Function made_;
  const loop::Kernel& source_;
  const Problem& problem_;
  const LibraryPlan& plan_;
  loop::BufferId between_;
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

// As a product where it is one.
std::optional<LibraryPlan> Plan(const loop::Function& function, const loop::Kernel& kernel,
                                const Problem& problem, const Target& target, std::string* why) {
  auto plan = PlanLibraryMatmul(function, kernel, problem, target, why);
  if (plan) return plan;
  std::string why_no_convolution;
  plan = PlanLibraryConvolution(function, kernel, problem, target, &why_no_convolution);
  if (!plan && why != nullptr) *why += "; as a convolution, " + why_no_convolution;
  return plan;
}

// The numbers of the bindings in a call, to be changed.
struct CallBindings {
  std::vector<uint32_t*> operands;  // that the kernel has too
  uint32_t* result = nullptr;
  uint32_t* bias = nullptr;
  uint32_t bias_dtype = 0;
};

CallBindings BindingsOf(GpuLibraryCall& call) {
  if (call.kind == GpuLibraryKind::kConvolution) {
    GpuLibraryConvolution& c = call.convolution;
    return {
        {&c.x.binding, &c.w.binding, &c.z.binding}, &c.y.binding, &c.bias.binding, c.output_dtype};
  }
  GpuLibraryMatmul& m = call.matmul;
  return {
      {&m.a.binding, &m.b.binding, &m.c.binding}, &m.d.binding, &m.bias.binding, m.output_dtype};
}

}  // namespace

uint32_t ResultBinding(GpuLibraryCall call) { return *BindingsOf(call).result; }

std::optional<LibraryPlan> PlanLibraryCall(const loop::Function& function, uint32_t kernel,
                                           const Target& target, std::string* why) {
  const loop::Kernel& source = function.kernels[kernel];
  const std::optional<Problem> problem = ReadContraction(function, source, why);
  if (!problem) return std::nullopt;
  return Plan(function, source, *problem, target, why);
}

std::vector<ScheduleRecord> LibrarySchedules(std::span<const ScheduleRecord> records,
                                             std::span<const GpuLibraryCall> proposals) {
  std::vector<ScheduleRecord> made;
  const auto find = [&](bool may_split) {
    return std::find_if(records.begin(), records.end(), [&](const ScheduleRecord& r) {
      return (r.kind == ScheduleKind::kGpuMatrix || r.kind == ScheduleKind::kGpuTile) &&
             (may_split || r.tile.split == 1);
    });
  };
  auto own = find(false);
  if (own == records.end()) own = find(true);
  if (own == records.end()) return made;
  for (const GpuLibraryCall& proposal : proposals) {
    made.push_back(*own);
    made.back().kind = ScheduleKind::kGpuLibrary;
    made.back().tile.split = 1;
    made.back().joins = false;
    made.back().library = proposal.choice;
  }
  return made;
}

Result<ScheduledKernel> BuildLibraryCall(const loop::Function& function, uint32_t kernel,
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
  const std::optional<LibraryPlan> plan = Plan(function, source, *problem, target, &why);
  if (!plan) return bad(why);
  GpuLibraryCall call = plan->call;
  call.choice = record.library;
  const CallBindings numbers = BindingsOf(call);
  ScheduledKernel scheduled;
  scheduled.record = record;
  const auto buffers = static_cast<uint32_t>(function.buffers.size());
  uint32_t result = *numbers.result;  // of the function
  if (!plan->is_cut) {
    HY_ASSIGN(ScheduledKernel product, BuildStandIn(function, kernel, record, target));
    Append(std::move(product), buffers, 0, &scheduled);
  } else {
    const loop::Function product = Part(function, source, *problem, *plan, result).Product();
    HY_ASSIGN(ScheduledKernel first, BuildStandIn(product, 0, record, target));
    if (result == kNoLibraryBinding) {
      result = buffers;
      const int64_t bytes = plan->elements * (BitWidth(plan->between) / 8);
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
  const auto place = [&](Binding wanted, uint32_t* number) {
    const auto found = std::find(bindings.begin(), bindings.end(), wanted);
    *number = static_cast<uint32_t>(found - bindings.begin());
    return found != bindings.end();
  };
  const auto place_buffer = [&](uint32_t* number) {
    return *number == kNoLibraryBinding || place({Binding::Kind::kBuffer, *number}, number);
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
  bool is_placed = result == buffers ? place({Binding::Kind::kWorkspace, 0}, numbers.result)
                                     : place_buffer(numbers.result);
  for (uint32_t* operand : numbers.operands) is_placed &= place_buffer(operand);
  if (*numbers.bias != kNoLibraryBinding) {
    const loop::BufferId id = *numbers.bias;
    const loop::Buffer& bias = function.buffers[id];
    if (static_cast<uint32_t>(bias.dtype) == numbers.bias_dtype) {
      is_placed &= place_buffer(numbers.bias);
    } else {
      const auto elements = function.exprs->AsConst(bias.elements);
      if (!elements) return bad("its bias has no fixed size");
      scheduled.constants.push_back(
          {id, fmt::format("f32 from {}", FormatDType(bias.dtype)), *elements * 4});
      *numbers.bias =
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
    const uint32_t through = result == buffers ? kNoLibraryBinding : result;
    const loop::Function rest = Part(function, source, *problem, *plan, through).Rest();
    HY_ASSIGN(const std::vector<ScheduleRecord> loops, EnumerateGpuLoops(rest, 0, target));
    HY_ASSIGN(ScheduledKernel last, BuildGpuLoops(rest, 0, loops[0], target));
    if (!last.constants.empty()) return bad("its epilogue packs constants");
    Append(std::move(last), buffers, 0, &scheduled);
  }
  return scheduled;
}

}  // namespace halyard::schedule
