// SPDX-License-Identifier: Apache-2.0
// Ops with regions. A region sees only its parameters.
#include <algorithm>

#include "base/quantity.h"
#include "compiler/ops/families.h"
#include "compiler/ops/reference.h"
#include "compiler/ops/shape_rules.h"

namespace halyard::graph {
namespace {

// Iterations that the reference runs at most; a loop whose condition never fails must end too.
constexpr int64_t kMostTrips = int64_t{1} << 24;

bool SameType(const InferContext& context, const TensorType& a, const TensorType& b,
              std::string_view detail = {}) {
  bool is_same = a.dtype == b.dtype && a.dims.size() == b.dims.size();
  for (size_t i = 0; is_same && i < a.dims.size(); ++i) {
    is_same = AssumeEqual(context, a.dims[i], b.dims[i], detail);
  }
  return is_same;
}

// The region's value `actual` must have the type `expected`.
Status RequireRegionType(const InferContext& context, uint32_t region, std::string_view what,
                         ValueId actual, const TensorType& expected) {
  const Value& value = context.module.values[actual];
  if (SameType(context, value.type, expected)) return OkStatus();
  return InvalidArgument("{} '%{}' of region '{}' is {}; {} needs {}", what, value.name,
                         context.module.graphs[region].name,
                         FormatType(context.module.exprs, value.type), context.node.op->name,
                         FormatType(context.module.exprs, expected));
}

Status RequireScalar(const InferContext& context, size_t i, DType dtype) {
  HY_TRY(RequireRank(context, i, 0, 0));
  return RequireDType(context, i, context.operand(i).type.dtype == dtype,
                      fmt::format("{} here", FormatDType(dtype)));
}

Status RequirePresent(const InferContext& context, size_t first) {
  for (size_t i = first; i < context.node.operands.size(); ++i) {
    if (!context.has(i))
      return InvalidArgument("{} needs its operand {}", context.node.op->name, i);
  }
  return OkStatus();
}

Result<std::vector<Value>> InferIf(const InferContext& context) {
  if (context.node.regions.size() != 2) {
    return InvalidArgument("if has 2 regions, not {}", context.node.regions.size());
  }
  HY_TRY(RequirePresent(context, 0));
  HY_TRY(RequireScalar(context, 0, DType::kBool));
  const Module& module = context.module;
  for (const uint32_t region : context.node.regions) {
    const Graph& graph = module.graphs[region];
    if (graph.parameters.size() + 1 != context.node.operands.size()) {
      return InvalidArgument("Region '{}' has {}; if passes {}", graph.name,
                             Counted(graph.parameters.size(), "parameter"),
                             context.node.operands.size() - 1);
    }
    for (size_t i = 0; i < graph.parameters.size(); ++i) {
      HY_TRY(RequireRegionType(context, region, "Parameter", graph.parameters[i],
                               context.operand(i + 1).type));
    }
  }
  const Graph& first = module.graphs[context.node.regions[0]];
  const Graph& second = module.graphs[context.node.regions[1]];
  if (first.results.size() != second.results.size()) {
    return InvalidArgument("The regions of if have {} and {}", first.results.size(),
                           Counted(second.results.size(), "result"));
  }
  std::vector<Value> results(first.results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    results[i].type = module.values[first.results[i]].type;
    const TensorType& other = module.values[second.results[i]].type;
    if (!SameType(context, results[i].type, other, "its branches give results alike")) {
      return InvalidArgument("Result {} of the first branch is {} and of the second {}", i,
                             FormatType(module.exprs, results[i].type),
                             FormatType(module.exprs, other));
    }
  }
  return results;
}

Result<std::vector<Tensor>> EvaluateIf(const EvalContext& context) {
  const size_t chosen = LoadInt(context.operands[0], 0) != 0 ? 0 : 1;
  return context.run_region(context.node.regions[chosen], context.operands.subspan(1));
}

Result<std::vector<Value>> InferLoop(const InferContext& context) {
  Module& module = context.module;
  const Node& node = context.node;
  HY_ASSIGN(const int64_t carried_value, GetInt(node, "carried"));
  if (node.regions.size() != 1) {
    return InvalidArgument("loop has 1 region, not {}", node.regions.size());
  }
  HY_TRY(RequirePresent(context, 2));
  if (!context.has(0) && !context.has(1)) {
    return InvalidArgument("loop has neither a trip count nor a condition");
  }
  if (context.has(0)) HY_TRY(RequireScalar(context, 0, DType::kI64));
  if (context.has(1)) HY_TRY(RequireScalar(context, 1, DType::kBool));
  const size_t passed = node.operands.size() - 2;
  if (carried_value < 0 || static_cast<size_t>(carried_value) > passed) {
    return InvalidArgument("loop carries {} of {}", carried_value, Counted(passed, "operand"));
  }
  const auto carried = static_cast<size_t>(carried_value);
  const uint32_t region = node.regions[0];
  const Graph& body = module.graphs[region];
  if (body.parameters.size() != passed + 1 || body.results.size() < carried + 1) {
    return InvalidArgument("Region '{}' has {} and {}; loop needs {} and {} or more", body.name,
                           Counted(body.parameters.size(), "parameter"),
                           Counted(body.results.size(), "result"), passed + 1, carried + 1);
  }
  HY_TRY(RequireRegionType(context, region, "Parameter", body.parameters[0],
                           TensorType{DType::kI64, {}}));
  for (size_t i = 0; i < passed; ++i) {
    HY_TRY(RequireRegionType(context, region, "Parameter", body.parameters[i + 1],
                             context.operand(i + 2).type));
  }
  HY_TRY(
      RequireRegionType(context, region, "Result", body.results[0], TensorType{DType::kBool, {}}));
  std::vector<Value> results(body.results.size() - 1);
  for (size_t i = 0; i < carried; ++i) {
    results[i].type = context.operand(i + 2).type;
    HY_TRY(RequireRegionType(context, region, "Result", body.results[i + 1], results[i].type));
  }
  if (results.size() == carried) return results;
  const Result<std::vector<Expr>> trips = GetExprs(node, "trips");
  if (!trips.ok() || trips->size() != 1) {
    return InvalidArgument("loop stacks {} and needs one expression 'trips'",
                           Counted(results.size() - carried, "result"));
  }
  for (size_t i = carried; i < results.size(); ++i) {
    results[i].type = module.values[body.results[i + 1]].type;
    results[i].type.dims.insert(results[i].type.dims.begin(), (*trips)[0]);
  }
  return results;
}

Result<std::vector<Tensor>> EvaluateLoop(const EvalContext& context) {
  HY_ASSIGN(const int64_t carried_value, GetInt(context.node, "carried"));
  const auto carried = static_cast<size_t>(carried_value);
  const int64_t most = Has(context, 0) ? LoadInt(context.operands[0], 0) : INT64_MAX;
  bool goes_on = !Has(context, 1) || LoadInt(context.operands[1], 0) != 0;
  std::vector<Tensor> arguments(context.operands.begin() + 1, context.operands.end());
  const size_t result_count = context.result_dtypes.size();
  std::vector<std::vector<uint8_t>> stacks(result_count - carried);
  std::vector<std::vector<int64_t>> stacked_dims(stacks.size());
  int64_t trip = 0;
  for (; goes_on && trip < most; ++trip) {
    if (trip == kMostTrips) {
      return OutOfRange("The loop runs for more than {} (node '{}').",
                        Counted(kMostTrips, "iteration"), context.node.name);
    }
    arguments[0] = TensorOfInts(DType::kI64, {}, {&trip, 1});
    HY_ASSIGN(std::vector<Tensor> results, context.run_region(context.node.regions[0], arguments));
    goes_on = LoadInt(results[0], 0) != 0;
    for (size_t i = 0; i < carried; ++i) arguments[i + 1] = std::move(results[i + 1]);
    for (size_t i = 0; i < stacks.size(); ++i) {
      const Tensor& slice = results[carried + 1 + i];
      if (BitWidth(slice.dtype) < 8) {
        return Unimplemented("loop stacks no values of {} (node '{}').", FormatDType(slice.dtype),
                             context.node.name);
      }
      if (trip > 0 && slice.dims != stacked_dims[i]) {
        return InvalidArgument("The stacked result {} of loop changes its shape (node '{}').", i,
                               context.node.name);
      }
      stacked_dims[i] = slice.dims;
      stacks[i].insert(stacks[i].end(), slice.bytes.begin(), slice.bytes.end());
    }
  }
  std::vector<Tensor> results;
  for (size_t i = 0; i < carried; ++i) results.push_back(std::move(arguments[i + 1]));
  for (size_t i = 0; i < stacks.size(); ++i) {
    // Without an iteration the inner dims are those of the type.
    std::vector<int64_t> dims = context.result_dims[carried + i];
    if (trip > 0) std::copy(stacked_dims[i].begin(), stacked_dims[i].end(), dims.begin() + 1);
    dims[0] = trip;
    HY_ASSIGN(Tensor stacked, MakeResultOf(context, dims, carried + i));
    if (trip > 0) stacked.bytes = std::move(stacks[i]);
    results.push_back(std::move(stacked));
  }
  return results;
}

constexpr AttributeDef kLoopAttributes[] = {
    {"carried", AttributeKind::kInt, true,
     "How many operands are carried from one iteration to the next."},
    {"trips", AttributeKind::kExprs, false,
     "One expression: the iterations that run, the first dim of the stacked "
     "results; a dim symbol of its own where only the run can tell. Needed "
     "where there are stacked results."},
};

constexpr OpDef kControlOps[] = {
    {
        .name = "if",
        .doc = "Operands: condition bool[], then the arguments. Regions: then, else; "
               "both take the arguments and give results of equal types.",
        .traits = kHasRegions,
        .min_operands = 1,
        .max_operands = -1,
        .infer = InferIf,
        .evaluate = EvaluateIf,
    },
    {
        .name = "loop",
        .doc = "Operands: trip count i64[] (absent: unbounded), initial condition "
               "bool[] (absent: true), `carried` values, then invariants. One region: "
               "parameters (iteration i64[], carried..., invariants...), results "
               "(condition bool[], carried..., stacked...). Runs while the condition "
               "holds and the count is not reached. Results: the last carried values, "
               "then each stacked value of every iteration along a new first axis. "
               "ONNX Scan is a loop that gathers its inputs.",
        .traits = kHasRegions,
        .min_operands = 2,
        .max_operands = -1,
        .attributes = kLoopAttributes,
        .infer = InferLoop,
        .evaluate = EvaluateLoop,
    },
};

}  // namespace

std::span<const OpDef> ControlOps() { return kControlOps; }

}  // namespace halyard::graph
