// SPDX-License-Identifier: Apache-2.0
// Matrix products.
#include "base/quantity.h"
#include "compiler/ops/families.h"
#include "compiler/ops/reference.h"
#include "compiler/ops/shape_rules.h"

namespace halyard::graph {
namespace {

Result<std::vector<Value>> InferMatmul(const InferContext& context) {
  HY_TRY(RequireDType(context, 0, context.operand(0).type.dtype != DType::kBool,
                      "integers and floats"));
  HY_TRY(RequireSameDType(context, 0, 1));
  HY_TRY(RequireRank(context, 0, 2));
  HY_TRY(RequireRank(context, 1, 2));
  HY_TRY(RequireFlag(context, "transpose_a"));
  HY_TRY(RequireFlag(context, "transpose_b"));
  const std::vector<Expr>& a = context.operand(0).type.dims;
  const std::vector<Expr>& b = context.operand(1).type.dims;
  const size_t transpose_a = IntOr(context.node, "transpose_a", 0) != 0 ? 1 : 0;
  const size_t transpose_b = IntOr(context.node, "transpose_b", 0) != 0 ? 1 : 0;
  if (!AssumeEqual(context, a[a.size() - 1 - transpose_a], b[b.size() - 2 + transpose_b])) {
    return InvalidArgument("{} and {} do not agree in the summed dimension",
                           DescribeOperand(context, 0), DescribeOperand(context, 1));
  }
  std::vector<Expr> dims((a.size() >= b.size() ? a : b));
  dims.resize(dims.size() - 2);
  if (a.size() > 2 && b.size() > 2) {
    bool fits = a.size() == b.size();
    for (size_t i = 0; fits && i < dims.size(); ++i) {
      fits = AssumeEqual(context, a[i], b[i]);
      dims[i] = MoreKnown(context.module.exprs, a[i], b[i]);
    }
    if (!fits) {
      return InvalidArgument("{} and {} differ in their batch dimensions",
                             DescribeOperand(context, 0), DescribeOperand(context, 1));
    }
  }
  dims.push_back(a[a.size() - 2 + transpose_a]);
  dims.push_back(b[b.size() - 1 - transpose_b]);
  return OneResult(context.operand(0).type.dtype, std::move(dims));
}

Result<std::vector<Tensor>> EvaluateMatmul(const EvalContext& context) {
  const Tensor& a = context.operands[0];
  const Tensor& b = context.operands[1];
  HY_ASSIGN(Tensor result, MakeResult(context));
  const bool transpose_a = IntOr(context.node, "transpose_a", 0) != 0;
  const bool transpose_b = IntOr(context.node, "transpose_b", 0) != 0;
  const int64_t m = result.dims[result.dims.size() - 2];
  const int64_t n = result.dims[result.dims.size() - 1];
  const int64_t k = a.dims[a.dims.size() - (transpose_a ? 2 : 1)];
  if (k != b.dims[b.dims.size() - (transpose_b ? 1 : 2)]) {
    return InvalidArgument("matmul sums over {} and {} (node '{}').", k,
                           Counted(b.dims[b.dims.size() - (transpose_b ? 1 : 2)], "element"),
                           context.node.name);
  }
  const int64_t batches = m * n == 0 ? 0 : result.elements() / (m * n);
  for (int64_t batch = 0; batch < batches; ++batch) {
    const int64_t a_start = a.dims.size() > 2 ? batch * m * k : 0;
    const int64_t b_start = b.dims.size() > 2 ? batch * n * k : 0;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double real = 0;
        uint64_t whole = 0;
        for (int64_t l = 0; l < k; ++l) {
          const int64_t a_at = a_start + (transpose_a ? l * m + i : i * k + l);
          const int64_t b_at = b_start + (transpose_b ? j * k + l : l * n + j);
          if (IsFloat(a.dtype)) {
            real += LoadFloat(a, a_at) * LoadFloat(b, b_at);
          } else {
            whole +=
                static_cast<uint64_t>(LoadInt(a, a_at)) * static_cast<uint64_t>(LoadInt(b, b_at));
          }
        }
        const int64_t to = (batch * m + i) * n + j;
        if (IsFloat(a.dtype)) {
          StoreFloat(result, to, real);
        } else {
          StoreInt(result, to, static_cast<int64_t>(whole));
        }
      }
    }
  }
  return OneTensor(std::move(result));
}

constexpr AttributeDef kMatmulAttributes[] = {
    {"transpose_a", AttributeKind::kInt, false, "1: a is [..., k, m]. Default 0."},
    {"transpose_b", AttributeKind::kInt, false, "1: b is [..., n, k]. Default 0."},
};

constexpr OpCase kMatmulCases[] = {
    {"f32[2, 2]{1, 2, 3, 4}; f32[2, 2]{5, 6, 7, 8}", "", "f32[2, 2]{19, 22, 43, 50}"},
    {"f32[2, 2]{1, 2, 3, 4}; f32[2, 2]{5, 6, 7, 8}", "transpose_b = 1",
     "f32[2, 2]{17, 23, 39, 53}"},
    {"f32[2, 2]{1, 2, 3, 4}; f32[2, 2]{5, 6, 7, 8}", "transpose_a = 1",
     "f32[2, 2]{26, 30, 38, 44}"},
    {"i32[2, 1, 2]{1, 2, 3, 4}; i32[2, 1]{10, 1}", "", "i32[2, 1, 1]{12, 34}"},
    {"f32[1, 0]{}; f32[0, 2]{}", "", "f32[1, 2]{0, 0}"},
};

constexpr OpDef kMatmulOps[] = {
    {
        .name = "matmul",
        .doc = "result[..., i, j] = sum over l of a[..., i, l] * b[..., l, j]. Rank at "
               "least 2; the batch dims are equal, or one operand has rank 2 and "
               "serves all batches. Floats and integers of one dtype (integers wrap; "
               "f16 and bf16 accumulate in f32).",
        .traits = kTemplate,
        .min_operands = 2,
        .max_operands = 2,
        .attributes = kMatmulAttributes,
        .infer = InferMatmul,
        .evaluate = EvaluateMatmul,
        .cases = kMatmulCases,
    },
};

}  // namespace

std::span<const OpDef> MatmulOps() { return kMatmulOps; }

}  // namespace halyard::graph
