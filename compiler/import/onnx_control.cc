// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan. A body becomes a graph that sees only its parameters, so what it reads from
// outside is passed to it. An If whose condition is known is replaced by its branch.
#include <algorithm>

#include "base/quantity.h"

#include "compiler/import/onnx_context.h"

namespace halyard::onnx {
namespace {

// The values of captured names, which exist: CapturedNames found them.
void AppendCaptured(NodeContext& c, const std::vector<std::string>& names,
                    std::vector<V>& operands) {
  for (const std::string& name : names) operands.push_back({&c, c.scope.values.at(name)});
}

std::vector<V> ImportIf(NodeContext& c) {
  const V condition = c.In(0);
  const GraphProto* then_branch = c.Body("then_branch");
  const GraphProto* else_branch = c.Body("else_branch");
  if (!c.ok()) return {};
  if (c.DTypeOf(condition) != DType::kBool) {
    c.Fail(
        InvalidArgument("Input 'cond' is {}; it must be bool.", FormatDType(c.DTypeOf(condition))));
    return {};
  }
  for (const GraphProto* body : {then_branch, else_branch}) {
    if (body->output.size() != c.node.output.size()) {
      c.Fail(InvalidArgument("A branch has {}; the node has {}.",
                             Counted(body->output.size(), "output"), c.node.output.size()));
      return {};
    }
  }
  if (const std::optional<Tensor> known = c.Known(condition);
      known.has_value() && known->elements() == 1) {
    auto results = InlineBody(c, graph::LoadInt(*known, 0) != 0 ? *then_branch : *else_branch);
    if (!results.ok()) {
      c.Fail(results.status());
      return {};
    }
    return *std::move(results);
  }
  const GraphProto* bodies[] = {then_branch, else_branch};
  const std::vector<std::string> captured = CapturedNames(c, bodies);
  std::vector<uint32_t> regions;
  for (const GraphProto* body : bodies) {
    const Result<uint32_t> region = ImportBody(c, *body, {}, captured);
    if (!region.ok()) {
      c.Fail(region.status());
      return {};
    }
    regions.push_back(*region);
  }
  std::vector<V> operands = {c.ReshapeTo(condition, {})};
  AppendCaptured(c, captured, operands);
  return c.Ops("if", operands, {}, std::move(regions));
}

// The first result of a loop's region, whether it goes on, where that is a constant.
std::optional<bool> GoesOn(NodeContext& c, uint32_t region) {
  const graph::Module& module = c.b.module();
  const std::optional<Tensor> tensor = c.Known({&c, module.graphs[region].results[0]});
  if (!tensor || tensor->elements() != 1) return std::nullopt;
  return graph::LoadInt(*tensor, 0) != 0;
}

// How often a loop runs, where that is known before the run; invalid elsewhere. `trips` and
// `condition` as ONNX has them, invalid where they are absent.
Expr KnownTrips(NodeContext& c, V trips, V condition, uint32_t region) {
  ExprArena& e = c.exprs();
  Expr most;
  if (trips.valid()) {
    if (const auto known = c.KnownExprs(trips); known.has_value() && known->size() == 1) {
      const Expr count = (*known)[0];
      most = e.RangeOf(count).lo >= 0 ? count : e.Max(count, c.Const(0));
    }
  }
  std::optional<bool> starts = true;
  if (condition.valid()) {
    const std::optional<Tensor> known = c.Known(condition);
    starts = known.has_value() ? std::optional(graph::LoadInt(*known, 0) != 0) : std::nullopt;
  }
  if (starts == false || (most.valid() && e.IsConst(most, 0))) return c.Const(0);
  const std::optional<bool> goes_on = GoesOn(c, region);
  if (!starts || !goes_on) return {};
  if (*goes_on) return most;
  if (!trips.valid()) return c.Const(1);
  return most.valid() ? e.Min(most, c.Const(1)) : Expr{};
}

std::vector<V> ImportLoop(NodeContext& c) {
  const GraphProto* body = c.Body("body");
  if (!c.ok()) return {};
  const size_t carried = c.input_count() < 2 ? 0 : c.input_count() - 2;
  if (body->input.size() != carried + 2 || body->output.size() < carried + 1 ||
      body->output.size() - 1 < c.node.output.size()) {
    c.Fail(InvalidArgument("The body has {} and {}; {} carried values and {} node outputs need {}.",
                           Counted(body->input.size(), "input"),
                           Counted(body->output.size(), "output"), carried, c.node.output.size(),
                           Counted(carried + 2, "input")));
    return {};
  }
  const V none = {&c, kNone};
  V trips = c.Has(0) ? c.ReshapeTo(c.In(0), {}) : none;
  V condition = c.Has(1) ? c.ReshapeTo(c.In(1), {}) : none;
  std::vector<V> operands = {trips, condition};
  std::vector<BodyParameter> parameters = {{body->input[0].name, {DType::kI64, {}}}};
  for (size_t i = 0; i < carried; ++i) {
    const V value = c.In(i + 2);
    if (!c.ok()) return {};
    operands.push_back(value);
    parameters.push_back({body->input[i + 2].name, c.TypeOf(value)});
  }
  const std::vector<std::string> captured = CapturedNames(c, std::span(&body, 1));
  BodyOptions options;
  options.true_name = body->input[1].name;
  const Result<uint32_t> region = ImportBody(c, *body, parameters, captured, options);
  if (!region.ok()) {
    c.Fail(region.status());
    return {};
  }
  AppendCaptured(c, captured, operands);
  Attributes attributes = {{"carried", static_cast<int64_t>(carried)}};
  if (body->output.size() > carried + 1) {
    const Expr count = KnownTrips(c, trips, condition, *region);
    attributes["trips"] = std::vector<Expr>{count.valid() ? count : c.FreshSymbol("trips")};
  }
  return c.Ops("loop", operands, std::move(attributes), {*region});
}

std::vector<int64_t> PerItem(NodeContext& c, std::string_view name, size_t count) {
  std::vector<int64_t> values = c.Ints(name, std::vector<int64_t>(count, 0));
  if (c.ok() && values.size() != count) {
    c.Fail(InvalidArgument("Attribute '{}' has {}; {} are needed.", name,
                           Counted(values.size(), "element"), count));
  }
  values.resize(count);
  return values;
}

std::vector<V> ImportScan(NodeContext& c) {
  const GraphProto* body = c.Body("body");
  const int64_t scanned = c.Int("num_scan_inputs", 0);
  if (!c.ok()) return {};
  const auto inputs = static_cast<int64_t>(c.input_count());
  const int64_t states = inputs - scanned;
  const int64_t stacked = static_cast<int64_t>(body->output.size()) - states;
  if (scanned < 1 || states < 0 || stacked < 0 ||
      static_cast<int64_t>(body->input.size()) != inputs ||
      c.node.output.size() > body->output.size()) {
    c.Fail(InvalidArgument("{} of which {} are scanned do not fit a body with {} and {}.",
                           Counted(inputs, "input"), scanned, Counted(body->input.size(), "input"),
                           Counted(body->output.size(), "output")));
    return {};
  }
  const std::vector<int64_t> in_axes = PerItem(c, "scan_input_axes", static_cast<size_t>(scanned));
  const std::vector<int64_t> in_backwards =
      PerItem(c, "scan_input_directions", static_cast<size_t>(scanned));
  const std::vector<int64_t> out_axes =
      PerItem(c, "scan_output_axes", static_cast<size_t>(stacked));
  const std::vector<int64_t> out_backwards =
      PerItem(c, "scan_output_directions", static_cast<size_t>(stacked));
  std::vector<V> carried;
  std::vector<V> sequences;
  std::vector<BodyParameter> parameters = {{"", {DType::kI64, {}}}};
  Expr length;
  for (int64_t i = 0; i < inputs && c.ok(); ++i) {
    const V value = c.In(static_cast<size_t>(i));
    if (!c.ok()) return {};
    BodyParameter parameter = {body->input[static_cast<size_t>(i)].name, c.TypeOf(value)};
    if (i < states) {
      carried.push_back(value);
    } else {
      const auto k = static_cast<size_t>(i - states);
      parameter.slice_axis = c.Axis(in_axes[k], c.Rank(value));
      parameter.is_reversed = in_backwards[k] != 0;
      if (!c.ok()) return {};
      if (!length.valid()) length = c.Dims(value)[static_cast<size_t>(parameter.slice_axis)];
      sequences.push_back(value);
    }
    parameters.push_back(std::move(parameter));
  }
  if (!c.ok()) return {};
  const std::vector<std::string> captured = CapturedNames(c, std::span(&body, 1));
  BodyOptions options;
  options.adds_condition = true;
  const Result<uint32_t> region = ImportBody(c, *body, parameters, captured, options);
  if (!region.ok()) {
    c.Fail(region.status());
    return {};
  }
  std::vector<V> operands = {c.Symbolic({length}, {}), {&c, kNone}};
  operands.insert(operands.end(), carried.begin(), carried.end());
  operands.insert(operands.end(), sequences.begin(), sequences.end());
  AppendCaptured(c, captured, operands);
  Attributes attributes = {{"carried", states}};
  if (stacked > 0) attributes["trips"] = std::vector<Expr>{length};
  std::vector<V> results = c.Ops("loop", operands, std::move(attributes), {*region});
  for (size_t k = 0; k < static_cast<size_t>(stacked) && c.ok(); ++k) {
    V& y = results[static_cast<size_t>(states) + k];
    const int64_t rank = c.Rank(y);
    const int64_t axis = c.Axis(out_axes[k], rank);
    if (out_backwards[k] != 0) {
      std::vector<Expr> starts(static_cast<size_t>(rank), c.Const(0));
      std::vector<int64_t> steps(static_cast<size_t>(rank), 1);
      starts[0] = c.exprs().Sub(length, c.Const(1));
      steps[0] = -1;
      y = c.Op("slice", {y}, {{"starts", starts}, {"sizes", c.Dims(y)}, {"steps", steps}});
    }
    std::vector<int64_t> perm;
    for (int64_t i = 1; i < rank; ++i) perm.push_back(i);
    perm.insert(perm.begin() + axis, 0);
    y = c.Transpose(y, perm);
  }
  return results;
}

constexpr ImportRow kControlRows[] = {
    {"If", 1, 0, 1, 1, -1, "else_branch then_branch", ImportIf},
    {"Loop", 1, 0, 2, -1, -1, "body", ImportLoop, "carried values keep their shapes"},
    {"Scan", 9, 0, 1, -1, -1,
     "body num_scan_inputs scan_input_axes scan_input_directions scan_output_axes "
     "scan_output_directions",
     ImportScan},
};

}  // namespace

std::span<const ImportRow> ControlRows() { return kControlRows; }

}  // namespace halyard::onnx
