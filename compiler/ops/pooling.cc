// SPDX-License-Identifier: Apache-2.0
// Windowed reductions over [n, c, spatial...].
#include <cmath>
#include <limits>

#include "compiler/ops/families.h"
#include "compiler/ops/reference.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/ops/windows.h"

namespace halyard::graph {
namespace {

Result<std::vector<Value>> InferPool(const InferContext& context) {
  const TensorType& type = context.operand(0).type;
  HY_TRY(RequireRank(context, 0, 3, 8));
  const bool is_mean = context.node.op->name == "avg_pool";
  HY_TRY(RequireDType(context, 0, IsFloat(type.dtype) || (!is_mean && IsInteger(type.dtype)),
                      is_mean ? "floats" : "integers and floats"));
  if (is_mean) HY_TRY(RequireFlag(context, "count_include_pad"));
  const size_t spatial = type.dims.size() - 2;
  HY_ASSIGN(const std::vector<int64_t> window, IntsPerAxis(context, "window", spatial, 1));
  HY_ASSIGN(const WindowAttributes windows, WindowsOf(context, spatial, false));
  std::vector<Expr> dims = {type.dims[0], type.dims[1]};
  for (size_t i = 0; i < spatial; ++i) {
    HY_ASSIGN(const Expr count, WindowCount(context, type.dims[i + 2],
                                            context.module.exprs.Const(window[i]), windows, i));
    dims.push_back(count);
  }
  return OneResult(type.dtype, std::move(dims));
}

// Calls body(flat position) for every element of the operand inside the window of result index
// `to`.
template <typename Body>
Status ForEachInWindow(const Tensor& x, const std::vector<int64_t>& window,
                       const WindowAttributes& windows, const std::vector<int64_t>& to,
                       Body&& body) {
  const std::vector<int64_t> strides = RowMajorStrides(x.dims);
  return ForEachIndex(window, [&](const std::vector<int64_t>& k) {
    int64_t at = to[0] * strides[0] + to[1] * strides[1];
    for (size_t i = 0; i < k.size(); ++i) {
      const int64_t position =
          to[i + 2] * windows.strides[i] + k[i] * windows.dilations[i] - windows.pads_low[i];
      if (position < 0 || position >= x.dims[i + 2]) return OkStatus();
      at += position * strides[i + 2];
    }
    body(at);
    return OkStatus();
  });
}

Result<std::vector<Tensor>> EvaluateMaxPool(const EvalContext& context) {
  const Tensor& x = context.operands[0];
  HY_ASSIGN(Tensor result, MakeResult(context));
  HY_ASSIGN(const WindowAttributes windows, WindowsOf(context.node));
  HY_ASSIGN(const std::vector<int64_t> window, GetInts(context.node, "window"));
  int64_t to_at = 0;
  HY_TRY(ForEachIndex(result.dims, [&](const std::vector<int64_t>& to) {
    int64_t best = -1;
    Status status = ForEachInWindow(x, window, windows, to, [&](int64_t at) {
      bool wins = best < 0;
      if (!wins && IsFloat(x.dtype)) {
        wins = std::isnan(LoadFloat(x, at)) || LoadFloat(x, at) > LoadFloat(x, best);
      } else if (!wins && x.dtype == DType::kU64) {
        wins = static_cast<uint64_t>(LoadInt(x, at)) > static_cast<uint64_t>(LoadInt(x, best));
      } else if (!wins) {
        wins = LoadInt(x, at) > LoadInt(x, best);
      }
      if (wins) best = at;
    });
    if (best >= 0) {
      CopyElement(x, best, result, to_at);
    } else if (IsFloat(x.dtype)) {  // a window of padding only
      StoreFloat(result, to_at, -std::numeric_limits<double>::infinity());
    } else {
      StoreInt(result, to_at, IsSigned(x.dtype) ? INT64_MIN >> (64 - BitWidth(x.dtype)) : 0);
    }
    ++to_at;
    return status;
  }));
  return OneTensor(std::move(result));
}

Result<std::vector<Tensor>> EvaluateAvgPool(const EvalContext& context) {
  const Tensor& x = context.operands[0];
  HY_ASSIGN(Tensor result, MakeResult(context));
  HY_ASSIGN(const WindowAttributes windows, WindowsOf(context.node));
  HY_ASSIGN(const std::vector<int64_t> window, GetInts(context.node, "window"));
  const bool counts_all = IntOr(context.node, "count_include_pad", 0) != 0;
  int64_t to_at = 0;
  HY_TRY(ForEachIndex(result.dims, [&](const std::vector<int64_t>& to) {
    double sum = 0;
    int64_t inside = 0;
    Status status = ForEachInWindow(x, window, windows, to, [&](int64_t at) {
      sum += LoadFloat(x, at);
      ++inside;
    });
    int64_t whole = 1;
    for (const int64_t size : window) whole *= size;
    StoreFloat(result, to_at++, sum / static_cast<double>(counts_all ? whole : inside));
    return status;
  }));
  return OneTensor(std::move(result));
}

constexpr AttributeDef kMaxPoolAttributes[] = {
    {"window", AttributeKind::kInts, true, "Per spatial axis, at least 1."},
    {"strides", AttributeKind::kInts, true, "Per spatial axis, at least 1."},
    {"pads_low", AttributeKind::kInts, true, "Elements before, per spatial axis."},
    {"pads_high", AttributeKind::kInts, true, "Elements after, per spatial axis."},
    {"dilations", AttributeKind::kInts, true, "Per spatial axis, at least 1."},
};

constexpr AttributeDef kAvgPoolAttributes[] = {
    {"window", AttributeKind::kInts, true, "Per spatial axis, at least 1."},
    {"strides", AttributeKind::kInts, true, "Per spatial axis, at least 1."},
    {"pads_low", AttributeKind::kInts, true, "Elements before, per spatial axis."},
    {"pads_high", AttributeKind::kInts, true, "Elements after, per spatial axis."},
    {"dilations", AttributeKind::kInts, true, "Per spatial axis, at least 1."},
    {"count_include_pad", AttributeKind::kInt, false,
     "1 divides by the whole window, 0 by the elements inside the operand. "
     "Default 0."},
};

constexpr OpCase kMaxPoolCases[] = {
    {"f32[1, 1, 4]{1, 3, 2, nan}",
     "window = [2], strides = [1], pads_low = [0], pads_high = [0], dilations = [1]",
     "f32[1, 1, 3]{3, 3, nan}"},
    {"f32[1, 1, 3]{-1, -2, -3}",
     "window = [2], strides = [2], pads_low = [1], pads_high = [0], dilations = [1]",
     "f32[1, 1, 2]{-1, -2}"},
    {"i8[1, 1, 2, 2]{1, 2, 3, -4}",
     "window = [2, 2], strides = [1, 1], pads_low = [0, 0], pads_high = [0, 0], dilations = [1, 1]",
     "i8[1, 1, 1, 1]{3}"},
};

constexpr OpCase kAvgPoolCases[] = {
    {"f32[1, 1, 4]{1, 3, 5, 7}",
     "window = [2], strides = [2], pads_low = [0], pads_high = [0], dilations = [1]",
     "f32[1, 1, 2]{2, 6}"},
    {"f32[1, 1, 2]{2, 4}",
     "window = [2], strides = [2], pads_low = [1], pads_high = [1], dilations = [1]",
     "f32[1, 1, 2]{2, 4}"},
    {"f32[1, 1, 2]{2, 4}",
     "window = [2], strides = [2], pads_low = [1], pads_high = [1], dilations = [1], "
     "count_include_pad = 1",
     "f32[1, 1, 2]{1, 2}"},
};

constexpr OpDef kPoolingOps[] = {
    {
        .name = "max_pool",
        .doc = "Greatest element of each window; padding never wins; NaN wins. Result "
               "dims as in conv. Rounding up is more high padding. Floats and "
               "integers.",
        .traits = kTemplate,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kMaxPoolAttributes,
        .infer = InferPool,
        .evaluate = EvaluateMaxPool,
        .cases = kMaxPoolCases,
    },
    {
        .name = "avg_pool",
        .doc = "Mean of each window. Result dims as in conv. Floats.",
        .traits = kTemplate,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kAvgPoolAttributes,
        .infer = InferPool,
        .evaluate = EvaluateAvgPool,
        .cases = kAvgPoolCases,
    },
};

}  // namespace

std::span<const OpDef> PoolingOps() { return kPoolingOps; }

}  // namespace halyard::graph
