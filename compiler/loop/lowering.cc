// SPDX-License-Identifier: Apache-2.0
// The engine of lowering: what is live, what is realised, and emission with memoisation. What each
// op means is in lower_*.cc.
#include "compiler/loop/lowering.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "compiler/graph/tensor.h"
#include "compiler/loop/index_map.h"
#include "compiler/loop/lower_ops.h"
#include "compiler/ops/op_def.h"

namespace halyard::loop {

namespace {

// Names that kernels, executables and reports share.
std::string Identifier(std::string_view name) {
  std::string out;
  for (char c : name) {
    bool is_word =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    out += is_word ? c : '_';
  }
  if (out.size() > 60) out.resize(60);
  return out.empty() || (out[0] >= '0' && out[0] <= '9') ? "k_" + out : out;
}

std::string Unique(std::map<std::string, int>& names, std::string name) {
  auto [it, inserted] = names.try_emplace(name, 1);
  if (inserted) return name;
  while (true) {
    std::string numbered = fmt::format("{}_{}", name, ++it->second);
    if (names.try_emplace(numbered, 1).second) return numbered;
  }
}

// Kernel IR has no numbers of less than 8 bits and no floats of less than 16.
bool IsLoopDType(DType dtype) { return BitWidth(dtype) >= (IsFloat(dtype) ? 16 : 8); }

}  // namespace

DType ComputeType(DType dtype) {
  return IsFloat(dtype) && BitWidth(dtype) < 32 ? DType::kF32 : dtype;
}

Status CanLower(const graph::Module& module, const graph::Node& node) {
  if (FindLowering(node.op->name) == nullptr && node.op->name != "constant") {
    return Unimplemented("The op '{}' has no lowering (node '{}').", node.op->name, node.name);
  }
  for (const std::vector<graph::ValueId>* values : {&node.operands, &node.results}) {
    for (const graph::ValueId v : *values) {
      if (v == graph::kNone || IsLoopDType(module.values[v].type.dtype)) continue;
      return Unimplemented("The dtype {} has no lowering (node '{}').",
                           FormatDType(module.values[v].type.dtype), node.name);
    }
  }
  return CheckLowering(module, node);
}

Lowering::Lowering(graph::Module& module, uint32_t graph_index, const LowerOptions& options)
    : module_(module), graph_(module.graphs[graph_index]), options_(options) {
  function_.exprs = &module.exprs;
}

std::string Lowering::UniqueBufferName(std::string_view name) {
  return Unique(buffer_names_, std::string(name));
}

Status Lowering::Prepare() {
  states_.resize(module_.values.size());
  outputs_.resize(module_.values.size());
  // Live values, from the results backwards.
  for (graph::ValueId v : graph_.results) {
    ++states_[v].users;
    states_[v].is_result = true;
  }
  for (size_t i = graph_.nodes.size(); i-- > 0;) {
    const graph::Node& node = module_.nodes[graph_.nodes[i]];
    bool is_live = false;
    for (graph::ValueId v : node.results) is_live |= states_[v].users > 0;
    if (node.is_dead || !is_live) continue;
    for (graph::ValueId v : node.operands) {
      if (v != graph::kNone) ++states_[v].users;
    }
  }
  auto add = [&](graph::ValueId v, BufferRole role) {
    const graph::Value& value = module_.values[v];
    BufferId id = AddBuffer(function_, UniqueBufferName(value.name), value.type.dtype, role,
                            ProductOf(exprs(), value.type.dims));
    function_.buffers[id].value = v;
    return id;
  };
  for (graph::ValueId v : graph_.parameters) {
    states_[v].buffer = add(v, BufferRole::kInput);
    states_[v].is_defined = true;
  }
  for (graph::ValueId v : graph_.results) {
    if (!IsLoopDType(TypeOf(v).dtype)) {
      return Unimplemented("The dtype {} of value '{}' has no lowering.",
                           FormatDType(TypeOf(v).dtype), module_.values[v].name);
    }
    outputs_[v].push_back(add(v, BufferRole::kOutput));
  }
  return OkStatus();
}

Result<Function> Lowering::Run() {
  HY_TRY(Prepare());
  for (graph::NodeId id : graph_.nodes) {
    const graph::Node& node = module_.nodes[id];
    bool is_live = false;
    for (graph::ValueId v : node.results) is_live |= states_[v].users > 0;
    if (node.is_dead || !is_live) continue;
    HY_TRY(LowerNode(id));
  }
  HY_TRY(CopyResults());
  return std::move(function_);
}

Status Lowering::LowerNode(graph::NodeId id) {
  const graph::Node& node = module_.nodes[id];
  for (graph::ValueId v : node.results) states_[v].node = id;
  if (node.op->name == "constant") return DefineConstant(node);
  HY_TRY(CanLower(module_, node));
  HY_TRY_CONTEXT(FindLowering(node.op->name)(*this, module_, node), "lowering node '{}'",
                 node.name);
  for (graph::ValueId v : node.results) {
    if (states_[v].users > 0 && !states_[v].is_defined) {
      return Internal("The lowering of '{}' left result '{}' undefined.", node.op->name,
                      module_.values[v].name);
    }
  }
  return OkStatus();
}

Status Lowering::DefineConstant(const graph::Node& node) {
  graph::ValueId v = node.results[0];
  const graph::Constant& constant = module_.constants[node.constant];
  State& state = states_[v];
  state.is_defined = true;
  int64_t elements = 1;
  for (int64_t d : constant.dims) elements = d == 0 ? 0 : elements;
  for (int64_t d : constant.dims) elements = elements == 1 && d != 1 ? d : elements;
  if (elements == 1 && constant.bytes != nullptr && IsLoopDType(constant.dtype)) {
    graph::Tensor tensor{constant.dtype, constant.dims,
                         std::vector<uint8_t>(static_cast<size_t>(BitWidth(constant.dtype)) / 8)};
    HY_TRY(constant.bytes->Read(0, tensor.bytes));
    state.immediate = IsFloat(constant.dtype) ? std::bit_cast<int64_t>(graph::LoadFloat(tensor, 0))
                                              : graph::LoadInt(tensor, 0);
    return OkStatus();
  }
  if (!IsLoopDType(constant.dtype)) {
    return Unimplemented("The dtype {} of constant '{}' has no lowering.",
                         FormatDType(constant.dtype), constant.name);
  }
  // Several nodes may name one constant.
  for (BufferId b = 0; b < function_.buffers.size(); ++b) {
    if (function_.buffers[b].constant == node.constant) {
      state.buffer = b;
      return OkStatus();
    }
  }
  state.buffer = AddBuffer(
      function_, UniqueBufferName(constant.name.empty() ? module_.values[v].name : constant.name),
      constant.dtype, BufferRole::kConstant, ProductOf(exprs(), TypeOf(v).dims));
  function_.buffers[state.buffer].constant = node.constant;
  function_.buffers[state.buffer].value = v;
  return OkStatus();
}

Status Lowering::Define(graph::ValueId result, const graph::Node& node, Definition definition) {
  State& state = states_[result];
  if (state.users == 0) return OkStatus();
  state.is_defined = true;
  Form form = definition.form;
  state.definition = std::move(definition);
  state.ops = state.definition.ops;
  state.is_costly = state.definition.is_costly;
  std::vector<graph::ValueId> seen;
  for (graph::ValueId v : node.operands) {
    if (v == graph::kNone || std::find(seen.begin(), seen.end(), v) != seen.end()) continue;
    seen.push_back(v);
    const State& operand = states_[v];
    if (operand.buffer != kNone) {
      state.reads += 1;
    } else {
      state.reads += operand.reads;
      state.ops += operand.ops;
      state.is_costly |= operand.is_costly;
    }
  }
  if (form == Form::kReduction) return Realise(result);
  if (form == Form::kExpand) {
    // Repeating a computation per repeated element is worse than a small buffer, which fusion makes
    // free.
    graph::ValueId base = BaseOf(node.operands[0]);
    if (states_[base].ops > 0 && states_[base].reads > 0) HY_TRY(Realise(base));
    state.reads = 0;
    state.ops = 0;
    state.is_costly = false;
    return state.is_result ? Realise(result) : OkStatus();
  }
  bool is_reused = state.users > 1;
  bool is_too_big =
      state.reads > options_.accumulated_reads || state.ops > options_.accumulated_ops;
  bool is_too_costly_twice = state.reads > options_.reads_on_reuse ||
                             state.ops > options_.ops_on_reuse ||
                             (state.is_costly && state.reads > 0);
  if (form == Form::kView) {
    const bool extends = is_reused && ExtendsTemplate(BaseOf(node.operands[0]));
    if ((is_reused && is_too_costly_twice) || is_too_big || extends) {
      graph::ValueId base = BaseOf(node.operands[0]);
      if (states_[base].ops > 0) {
        HY_TRY(Realise(base));
        state.reads = 1;
        state.ops = 0;
        state.is_costly = false;
      } else {
        return Realise(result);
      }
    }
    return state.is_result ? Realise(result) : OkStatus();
  }
  if (state.is_result || is_too_big || (is_reused && ExtendsTemplate(result)) ||
      (is_reused && is_too_costly_twice)) {
    return Realise(result);
  }
  return OkStatus();
}

// What several users compute from a template's result is computed once, in the template's epilogue.
bool Lowering::ExtendsTemplate(graph::ValueId value) const {
  if (states_[value].buffer != kNone || states_[value].node == graph::kNone) return false;
  for (graph::ValueId v : module_.nodes[states_[value].node].operands) {
    if (v == graph::kNone) continue;
    const BufferId buffer = states_[BaseOf(v)].buffer;
    for (const Kernel& kernel : function_.kernels) {
      if (buffer == kNone || kernel.template_kind == TemplateKind::kNone) continue;
      for (const Op& op : kernel.ops) {
        if (op.kind == OpKind::kStore && op.buffer == buffer) return true;
      }
    }
  }
  return false;
}

graph::ValueId Lowering::BaseOf(graph::ValueId value) const {
  while (states_[value].buffer == kNone && states_[value].node != graph::kNone) {
    Form form = states_[value].definition.form;
    const graph::Node& node = module_.nodes[states_[value].node];
    bool is_view = form == Form::kView || form == Form::kExpand;
    if (!is_view || node.operands.size() != 1) break;
    value = node.operands[0];
  }
  return value;
}

Status Lowering::RealiseForTemplate(graph::ValueId value) {
  const State& state = states_[value];
  if (state.buffer != kNone || state.immediate) return OkStatus();
  graph::ValueId base = BaseOf(value);
  // What another template's epilogue does for free is no prologue.
  const bool is_epilogue = states_[base].ops > 0 && ExtendsTemplate(base);
  if (state.reads <= options_.prologue_reads && state.ops <= options_.prologue_ops &&
      !state.is_costly && !is_epilogue) {
    return OkStatus();
  }
  // A view in another storage order is a copy that was asked for.
  const bool is_copy = module_.values[value].layout != module_.values[base].layout;
  return Realise(states_[base].buffer == kNone && !is_copy ? base : value);
}

BufferId Lowering::Temporary(std::string_view name, DType dtype, std::span<const Expr> dims) {
  return AddBuffer(function_, UniqueBufferName(name), dtype, BufferRole::kTemp,
                   ProductOf(exprs(), dims));
}

Status Lowering::EmitKernel(std::string_view name, const std::function<Status()>& body) {
  HY_CHECK(builder_ == nullptr, "kernel '{}' starts inside another", name);
  builder_ = std::make_unique<KernelBuilder>(function_, Unique(kernel_names_, Identifier(name)));
  memo_.assign(1, {});
  indirects_.assign(1, {});
  mask_ = kNone;
  Status status = body();
  if (status.ok()) function_.kernels.push_back(builder_->Finish());
  builder_ = nullptr;
  return status;
}

Status Lowering::EmitNest(std::string_view name, std::span<const Expr> dims,
                          const std::function<Status(std::span<const Expr>)>& body,
                          std::span<const uint32_t> order) {
  return EmitKernel(name, [&]() -> Status {
    std::vector<Expr> index(dims.size());
    outer_loops_.assign(dims.size(), Expr{});
    for (size_t i = 0; i < dims.size(); ++i) {
      size_t axis = order.empty() ? i : order[i];
      bool is_one = exprs().IsConst(dims[axis], 1);
      if (!is_one) outer_loops_[axis] = builder().BeginLoop(LoopKind::kParallel, "i", dims[axis]);
      index[axis] = is_one ? exprs().Const(0) : outer_loops_[axis];
    }
    HY_TRY(body(index));
    while (builder().depth() > 0) builder().EndLoop();
    return OkStatus();
  });
}

Expr Lowering::StorageIndex(graph::ValueId value, std::span<const Expr> index) {
  const std::vector<Expr>& dims = TypeOf(value).dims;
  const std::vector<uint32_t>& layout = module_.values[value].layout;
  if (layout.empty()) return FlatIndex(exprs(), dims, index);
  std::vector<Expr> stored_dims, stored_index;
  for (uint32_t axis : layout) {
    stored_dims.push_back(dims[axis]);
    stored_index.push_back(index[axis]);
  }
  return FlatIndex(exprs(), stored_dims, stored_index);
}

BufferId Lowering::BufferFor(graph::ValueId value) {
  if (!outputs_[value].empty()) return outputs_[value][0];
  BufferId buffer = Temporary(module_.values[value].name, TypeOf(value).dtype, TypeOf(value).dims);
  function_.buffers[buffer].value = value;
  return buffer;
}

Status Lowering::Realise(graph::ValueId value) {
  const State& state = states_[value];
  if (state.buffer != kNone) return OkStatus();
  const graph::TensorType type = TypeOf(value);
  BufferId buffer = BufferFor(value);
  std::string name = state.node != graph::kNone ? module_.nodes[state.node].name : "";
  if (name.empty()) name = module_.values[value].name;
  const auto store = [&](std::span<const Expr> index) -> Status {
    HY_ASSIGN(ValueId element, At(value, index));
    builder().Store(buffer, StorageIndex(value, index), builder().Convert(element, type.dtype));
    return OkStatus();
  };
  HY_TRY(EmitNest(name, type.dims, store, module_.values[value].layout));
  states_[value].buffer = buffer;
  return OkStatus();
}

Status Lowering::DefineInto(graph::ValueId result, const graph::Node& node,
                            std::span<const Expr> dims, const Emit& element) {
  DType dtype = TypeOf(result).dtype;
  BufferId buffer = BufferFor(result);
  HY_TRY(EmitNest(node.name.empty() ? module_.values[result].name : node.name, dims,
                  [&](std::span<const Expr> index) -> Status {
                    AddNode(node);
                    HY_ASSIGN(ValueId value, element(index));
                    Expr at = FlatIndex(exprs(), dims, index);
                    if (!module_.values[result].layout.empty()) {
                      const std::vector<Expr>& own = TypeOf(result).dims;
                      at = StorageIndex(result, ReshapeIndex(exprs(), dims, index, own));
                    }
                    builder().Store(buffer, at, builder().Convert(value, dtype));
                    return OkStatus();
                  }));
  states_[result].is_defined = true;
  states_[result].buffer = buffer;
  return OkStatus();
}

std::vector<BufferId> Lowering::BuffersOf(const graph::Node& node) {
  std::vector<BufferId> buffers;
  for (graph::ValueId v : node.results) buffers.push_back(BufferFor(v));
  return buffers;
}

Status Lowering::DefineKernel(const graph::Node& node,
                              const std::function<Status(std::span<const BufferId>)>& body) {
  const std::vector<BufferId> buffers = BuffersOf(node);
  const graph::Value& first = module_.values[node.results[0]];
  HY_TRY(EmitKernel(node.name.empty() ? first.name : node.name, [&]() -> Status {
    AddNode(node);
    return body(buffers);
  }));
  for (size_t i = 0; i < buffers.size(); ++i) {
    states_[node.results[i]].is_defined = true;
    states_[node.results[i]].buffer = buffers[i];
  }
  return OkStatus();
}

Status Lowering::DefineRows(const graph::Node& node, std::span<const Expr> rows,
                            const RowBody& body) {
  return DefineKernel(node, [&](std::span<const BufferId> buffers) -> Status {
    outer_loops_.clear();
    std::vector<Expr> row;
    int opened = 0;
    for (Expr extent : rows) {
      const bool has_loop = !exprs().IsConst(extent, 1);
      const Expr loop = has_loop ? builder().BeginLoop(LoopKind::kParallel, "i", extent) : Expr{};
      outer_loops_.push_back(loop);
      row.push_back(has_loop ? loop : exprs().Const(0));
      opened += has_loop;
    }
    HY_TRY(body(row, buffers));
    while (opened-- > 0) builder().EndLoop();
    return OkStatus();
  });
}

void Lowering::OpenScope() {
  memo_.emplace_back();
  indirects_.emplace_back();
}

void Lowering::CloseScope() {
  memo_.pop_back();
  indirects_.pop_back();
}

Status Lowering::ParallelLoop(std::string_view name, Expr extent,
                              const std::function<Status(Expr)>& body) {
  const bool has_loop = !exprs().IsConst(extent, 1);
  const Expr variable =
      has_loop ? builder().BeginLoop(LoopKind::kParallel, name, extent) : exprs().Const(0);
  OpenScope();
  HY_TRY(body(variable));
  CloseScope();
  if (has_loop) builder().EndLoop();
  return OkStatus();
}

Status Lowering::ParallelNest(std::string_view name, std::span<const Expr> extents,
                              const std::function<Status(std::span<const Expr>)>& body) {
  std::vector<Expr> index;
  const std::function<Status()> descend = [&]() -> Status {
    if (index.size() == extents.size()) return body(index);
    return ParallelLoop(name, extents[index.size()], [&](Expr variable) -> Status {
      index.push_back(variable);
      HY_TRY(descend());
      index.pop_back();
      return OkStatus();
    });
  };
  return descend();
}

Result<std::vector<ValueId>> Lowering::SequentialLoop(std::string_view name, Expr extent,
                                                      std::span<const ValueId> initial,
                                                      const SequentialBody& body) {
  const Expr variable = builder().BeginLoop(LoopKind::kSequential, name, extent, {}, initial);
  const std::vector<ValueId> values(builder().LoopParameters().begin(),
                                    builder().LoopParameters().end());
  OpenScope();
  HY_ASSIGN(const std::vector<ValueId> next, body(variable, values));
  CloseScope();
  return builder().EndLoop(next);
}

void Lowering::AddNode(const graph::Node& node) {
  std::vector<std::string>& nodes = builder().kernel().nodes;
  if (!node.name.empty() && std::find(nodes.begin(), nodes.end(), node.name) == nodes.end()) {
    nodes.push_back(node.name);
  }
}

Result<ValueId> Lowering::LoadAt(BufferId buffer, graph::ValueId value,
                                 std::span<const Expr> index) {
  DType dtype = function_.buffers[buffer].dtype;
  ValueId other = kNone;
  if (mask_ != kNone) other = builder().Constant(dtype, 0);
  ValueId loaded = builder().Load(buffer, StorageIndex(value, index), mask_, other);
  return builder().Convert(loaded, ComputeType(dtype));
}

Result<ValueId> Lowering::At(graph::ValueId value, std::span<const Expr> index) {
  std::vector<uint32_t> ids;
  for (Expr e : index) ids.push_back(e.id);
  MemoKey key{value, mask_, std::move(ids)};
  for (auto scope = memo_.rbegin(); scope != memo_.rend(); ++scope) {
    if (auto it = scope->find(key); it != scope->end()) return it->second;
  }
  const State& state = states_[value];
  DType dtype = TypeOf(value).dtype;
  ValueId result = kNone;
  if (state.buffer != kNone) {
    HY_ASSIGN(result, LoadAt(state.buffer, value, index));
  } else if (state.immediate) {
    result = builder().Constant(ComputeType(dtype), *state.immediate);
  } else {
    if (!state.is_defined)
      return Internal("The value '{}' is used before it is lowered.", module_.values[value].name);
    AddNode(module_.nodes[state.node]);
    HY_ASSIGN(result, state.definition.emit(index));
  }
  memo_.back().emplace(std::move(key), result);
  return result;
}

Result<ValueId> Lowering::AtMasked(graph::ValueId value, std::span<const Expr> index,
                                   ValueId mask) {
  ValueId outer = mask_;
  mask_ = builder().And(outer, mask);
  Result<ValueId> result = At(value, index);
  mask_ = outer;
  return result;
}

Result<Expr> Lowering::Indirect(ValueId value, Expr extent, const graph::Node& node) {
  return Indirect(value, extent, node, fmt::format("index of {}", node.op->name), true);
}

Result<Expr> Lowering::Indirect(ValueId value, Expr extent, const graph::Node& node,
                                std::string_view what, bool wraps) {
  if (mask_ != kNone)
    value = builder().Scalar(kernel::Opcode::kSelect,
                             {mask_, value, builder().Int(builder().TypeOf(value), 0)});
  for (const auto& scope : indirects_) {
    if (auto it = scope.find({value, extent.id, wraps}); it != scope.end()) return it->second;
  }
  Expr symbol = builder().Indirect(value, extent, node.name, what, "x", wraps);
  indirects_.back().emplace(std::make_tuple(value, extent.id, wraps), symbol);
  return symbol;
}

Result<ValueId> Lowering::Reduce(ReduceKind kind, std::span<const Expr> extents,
                                 const ReduceBody& body, std::vector<Expr>* variables) {
  std::vector<Expr> index;
  int opened = 0;
  for (Expr extent : extents) {
    if (exprs().IsConst(extent, 1)) {
      index.push_back(exprs().Const(0));
      continue;
    }
    index.push_back(builder().BeginLoop(LoopKind::kReduce, "r", extent, {&kind, 1}));
    if (variables != nullptr) variables->push_back(index.back());
    ++opened;
  }
  memo_.emplace_back();
  indirects_.emplace_back();
  Result<ValueId> value = body(index);
  memo_.pop_back();
  indirects_.pop_back();
  if (!value.ok()) return value;
  ValueId result = *value;
  for (int i = 0; i < opened; ++i) result = builder().EndLoop({&result, 1})[0];
  return result;
}

Result<ValueId> Lowering::ReduceArg(ReduceKind kind, Expr extent,
                                    const std::function<Result<ValueId>(Expr)>& body) {
  Expr variable = builder().BeginLoop(LoopKind::kReduce, "r", extent, {&kind, 1});
  memo_.emplace_back();
  indirects_.emplace_back();
  Result<ValueId> value = body(variable);
  memo_.pop_back();
  indirects_.pop_back();
  if (!value.ok()) return value;
  ValueId yields[] = {*value, builder().Index(variable)};
  return builder().EndLoop(yields)[0];
}

Status Lowering::CopyResults() {
  for (graph::ValueId v : graph_.results) {
    // A parameter, a constant, or the second result of one value.
    for (size_t i = 0; i < outputs_[v].size(); ++i) {
      BufferId target = outputs_[v][i];
      if (states_[v].buffer == target) continue;
      const graph::TensorType type = TypeOf(v);
      HY_TRY(EmitKernel("copy_" + module_.values[v].name, [&]() -> Status {
        Expr count = ProductOf(exprs(), type.dims);
        Expr flat[] = {builder().BeginLoop(LoopKind::kParallel, "i", count)};
        std::vector<Expr> index = ReshapeIndex(exprs(), {&count, 1}, flat, type.dims);
        HY_ASSIGN(ValueId element, At(v, index));
        builder().Store(target, flat[0], builder().Convert(element, type.dtype));
        builder().EndLoop();
        return OkStatus();
      }));
    }
    outputs_[v].clear();
  }
  return OkStatus();
}

Result<Function> LowerGraph(graph::Module& module, uint32_t graph_index,
                            const LowerOptions& options) {
  if (graph_index >= module.graphs.size()) {
    return InvalidArgument("The module has {} graphs; there is no graph {}.", module.graphs.size(),
                           graph_index);
  }
  return Lowering(module, graph_index, options).Run();
}

}  // namespace halyard::loop
