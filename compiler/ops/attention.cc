// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention.
#include <cmath>
#include <limits>

#include "compiler/ops/families.h"
#include "compiler/ops/reference.h"
#include "compiler/ops/shape_rules.h"

namespace halyard::graph {
namespace {

Result<std::vector<Value>> InferAttention(const InferContext& context) {
  for (size_t i = 0; i < 3; ++i) {
    HY_TRY(RequireRank(context, i, 4, 4));
    HY_TRY(RequireDType(context, i, IsFloat(context.operand(i).type.dtype), "floats"));
    HY_TRY(RequireSameDType(context, 0, i));
  }
  HY_TRY(RequireFlag(context, "causal"));
  HY_TRY(RequireFlag(context, "nan_to_zero"));
  HY_TRY(RequireFlag(context, "hidden_to_zero"));
  ExprArena& exprs = context.module.exprs;
  const std::vector<Expr>& q = context.operand(0).type.dims;
  const std::vector<Expr>& k = context.operand(1).type.dims;
  const std::vector<Expr>& v = context.operand(2).type.dims;
  const bool keys_fit = AssumeEqual(context, q[0], k[0]) && AssumeEqual(context, q[3], k[3]);
  const bool values_fit = AssumeEqual(context, k[0], v[0]) && AssumeEqual(context, k[1], v[1]) &&
                          AssumeEqual(context, k[2], v[2]);
  if (!keys_fit || !values_fit) {
    return InvalidArgument("{}, {} and {} do not suit each other", DescribeOperand(context, 0),
                           DescribeOperand(context, 1), DescribeOperand(context, 2));
  }
  const std::optional<int64_t> heads = exprs.AsConst(q[1]);
  const std::optional<int64_t> groups = exprs.AsConst(k[1]);
  const bool heads_fit =
      heads && groups ? *groups > 0 && *heads % *groups == 0 : AssumeEqual(context, q[1], k[1]);
  if (!heads_fit) {
    return InvalidArgument("The heads of {} are no multiple of those of {}",
                           DescribeOperand(context, 0), DescribeOperand(context, 1));
  }
  if (context.has(3)) {
    HY_TRY(RequireRank(context, 3, 4, 4));
    const TensorType& mask = context.operand(3).type;
    HY_TRY(RequireDType(context, 3,
                        mask.dtype == DType::kBool || mask.dtype == context.operand(0).type.dtype,
                        "bool or the dtype of q here"));
    const Expr scores[4] = {q[0], q[1], q[2], k[2]};
    for (size_t i = 0; i < 4; ++i) {
      if (exprs.IsConst(mask.dims[i], 1)) continue;
      if (!AssumeEqual(context, mask.dims[i], scores[i])) {
        return InvalidArgument("{} does not broadcast to the scores [{}, {}, {}, {}]",
                               DescribeOperand(context, 3), exprs.Format(scores[0]),
                               exprs.Format(scores[1]), exprs.Format(scores[2]),
                               exprs.Format(scores[3]));
      }
    }
  }
  return OneResult(context.operand(0).type.dtype, {q[0], q[1], q[2], v[3]});
}

Result<std::vector<Tensor>> EvaluateAttention(const EvalContext& context) {
  const Tensor& q = context.operands[0];
  const Tensor& k = context.operands[1];
  const Tensor& v = context.operands[2];
  HY_ASSIGN(Tensor result, MakeResult(context));
  HY_ASSIGN(const double scale, GetFloat(context.node, "scale"));
  const bool is_causal = IntOr(context.node, "causal", 0) != 0;
  const bool nan_to_zero = IntOr(context.node, "nan_to_zero", 0) != 0;
  const bool hidden_to_zero = IntOr(context.node, "hidden_to_zero", 0) != 0;
  const bool has_mask = Has(context, 3);
  std::vector<int64_t> mask_strides(4, 0);
  if (has_mask) {
    mask_strides = RowMajorStrides(context.operands[3].dims);
    for (size_t i = 0; i < 4; ++i) {
      if (context.operands[3].dims[i] == 1) mask_strides[i] = 0;
    }
  }
  const int64_t heads = q.dims[1], queries = q.dims[2], depth = q.dims[3];
  const int64_t groups = k.dims[1], keys = k.dims[2], width = v.dims[3];
  const std::vector<int64_t> rows = {q.dims[0], heads, queries};
  std::vector<double> scores(static_cast<size_t>(keys));
  int64_t row = 0;
  HY_TRY(ForEachIndex(rows, [&](const std::vector<int64_t>& at) {
    const int64_t kv_row = (at[0] * groups + at[1] / (heads / groups)) * keys;
    double greatest = -std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < keys; ++j) {
      double score = 0;
      for (int64_t d = 0; d < depth; ++d) {
        score += LoadFloat(q, row * depth + d) * LoadFloat(k, (kv_row + j) * depth + d);
      }
      score *= scale;
      bool is_hidden = is_causal && j > at[2] + (keys - queries);
      if (has_mask) {
        const int64_t mask_at = FlatIndex({at[0], at[1], at[2], j}, mask_strides);
        if (context.operands[3].dtype == DType::kBool) {
          is_hidden |= LoadInt(context.operands[3], mask_at) == 0;
        } else {
          score += LoadFloat(context.operands[3], mask_at);
        }
      }
      if (is_hidden) score = -std::numeric_limits<double>::infinity();
      scores[static_cast<size_t>(j)] = score;
      greatest = std::isnan(score) || score > greatest ? score : greatest;
    }
    double sum = 0;
    for (double& score : scores) {
      score = std::exp(score - greatest);
      sum += score;
    }
    const bool is_zero = (hidden_to_zero && greatest == -std::numeric_limits<double>::infinity()) ||
                         (nan_to_zero && (keys == 0 || std::isnan(sum)));
    for (int64_t e = 0; e < width; ++e) {
      double value = 0;
      for (int64_t j = 0; j < keys; ++j) {
        value += scores[static_cast<size_t>(j)] / sum * LoadFloat(v, (kv_row + j) * width + e);
      }
      if (keys == 0) value = std::numeric_limits<double>::quiet_NaN();
      if (is_zero) value = 0;
      StoreFloat(result, row * width + e, value);
    }
    ++row;
    return OkStatus();
  }));
  return OneTensor(std::move(result));
}

constexpr AttributeDef kAttentionAttributes[] = {
    {"scale", AttributeKind::kFloat, true, "Multiplies the scores."},
    {"causal", AttributeKind::kInt, false, "1: query i sees keys up to i + (t - s). Default 0."},
    {"nan_to_zero", AttributeKind::kInt, false,
     "1: a query whose softmax is NaN, as where it sees no key, gives 0. Default 0."},
    {"hidden_to_zero", AttributeKind::kInt, false,
     "1: a query whose scores are all -infinity, as where it sees no key, gives 0; NaN stays NaN. "
     "Default 0."},
};

constexpr OpCase kAttentionCases[] = {
    {"f32[1, 1, 1, 2]{1, 0}; f32[1, 1, 2, 2]{0, 0, 0, 0}; f32[1, 1, 2, 1]{2, 4}", "scale = 1.0",
     "f32[1, 1, 1, 1]{3}"},
    {"f32[1, 2, 1, 1]{1, 1}; f32[1, 1, 2, 1]{0, 0}; f32[1, 1, 2, 1]{2, 4}; bool[1, 2, 1, 2]{true, "
     "false, false, true}",
     "scale = 1.0", "f32[1, 2, 1, 1]{2, 4}"},
    {"f32[1, 1, 2, 1]{0, 0}; f32[1, 1, 2, 1]{0, 0}; f32[1, 1, 2, 1]{2, 4}",
     "scale = 1.0, causal = 1", "f32[1, 1, 2, 1]{2, 3}"},
    {"f64[1, 1, 1, 1]{1}; f64[1, 1, 2, 1]{0, 0.6931471805599453}; f64[1, 1, 2, 1]{0, 3}",
     "scale = 1.0", "f64[1, 1, 1, 1]{2}"},
    {"f32[1, 1, 2, 1]{0, 0}; f32[1, 1, 2, 1]{0, 0}; f32[1, 1, 2, 1]{2, 4}; bool[1, 1, 2, "
     "2]{false, false, true, true}",
     "scale = 1.0, nan_to_zero = 1", "f32[1, 1, 2, 1]{0, 3}"},
    {"f32[1, 1, 3, 1]{0, nan, 0}; f32[1, 1, 2, 1]{0, 0}; f32[1, 1, 2, 1]{2, 4}; bool[1, 1, 3, "
     "2]{false, false, true, false, true, true}",
     "scale = 1.0, hidden_to_zero = 1", "f32[1, 1, 3, 1]{0, nan, 3}"},
};

constexpr OpDef kAttentionOps[] = {
    {
        .name = "attention",
        .doc = "Operands: q[b, h, s, d], k[b, g, t, d], v[b, g, t, e], and optionally "
               "mask (bool: false hides; or the dtype of q: added to the scaled "
               "scores), each dim of which is that of [b, h, s, t] or 1. h is a "
               "multiple of g; query head i uses key head i / (h / g). Result [b, h, "
               "s, e] = softmax(scale * q k^T + mask) v. A query that sees no key "
               "gives NaN unless nan_to_zero or hidden_to_zero. Softmax and sums of f16 and bf16 "
               "are in f32. Floats.",
        .traits = kTemplate,
        .min_operands = 3,
        .max_operands = 4,
        .attributes = kAttentionAttributes,
        .infer = InferAttention,
        .evaluate = EvaluateAttention,
        .cases = kAttentionCases,
    },
};

}  // namespace

std::span<const OpDef> AttentionOps() { return kAttentionOps; }

}  // namespace halyard::graph
