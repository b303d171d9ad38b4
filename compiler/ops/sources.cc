// SPDX-License-Identifier: Apache-2.0
// Ops that make tensors from nothing but attributes, shapes and a seed.
#include <algorithm>

#include "base/quantity.h"
#include "compiler/graph/builder.h"
#include "compiler/ops/elements.h"
#include "compiler/ops/families.h"
#include "compiler/ops/reference.h"
#include "compiler/ops/shape_rules.h"

namespace halyard::graph {
namespace {

Result<std::vector<Value>> InferConstant(const InferContext& context) {
  if (context.node.constant >= context.module.constants.size()) {
    return InvalidArgument("A constant node names constant {}; the module has {}",
                           context.node.constant, context.module.constants.size());
  }
  const Constant& constant = context.module.constants[context.node.constant];
  ExprArena& exprs = context.module.exprs;
  std::vector<Expr> dims;
  for (const int64_t dim : constant.dims) dims.push_back(exprs.Const(dim));
  std::vector<Value> results = OneResult(constant.dtype, std::move(dims));
  const bool holds_sizes = constant.dtype == DType::kBool ||
                           (IsInteger(constant.dtype) && constant.dtype != DType::kU64);
  const std::optional<int64_t> count = FewElements(exprs, results[0].type.dims);
  if (!holds_sizes || !count) return results;
  const Result<Tensor> tensor = ReadConstant(constant);
  // Data that is elsewhere makes no types wrong; anything else that fails does.
  if (!tensor.ok() && tensor.status().code() == StatusCode::kNotFound) return results;
  HY_TRY(tensor);
  std::vector<Expr> elements;
  for (int64_t i = 0; i < *count; ++i) elements.push_back(exprs.Const(LoadInt(*tensor, i)));
  results[0].elements = std::move(elements);
  return results;
}

Result<std::vector<Tensor>> EvaluateConstant(const EvalContext& context) {
  HY_ASSIGN(Tensor tensor, ReadConstant(context.module.constants[context.node.constant]));
  return OneTensor(std::move(tensor));
}

Result<std::vector<Value>> InferSymbolic(const InferContext& context) {
  HY_ASSIGN(const std::vector<Expr> values, GetExprs(context.node, "values"));
  HY_ASSIGN(const std::vector<int64_t> shape, GetInts(context.node, "shape"));
  HY_ASSIGN(const DType dtype, GetDType(context.node, "dtype"));
  if (dtype != DType::kI32 && dtype != DType::kI64) {
    return InvalidArgument("symbolic makes i32 or i64, not {}", FormatDType(dtype));
  }
  HY_ASSIGN(const int64_t count, CountElements(shape));
  if (count != static_cast<int64_t>(values.size())) {
    return InvalidArgument("symbolic has {} for {}", Counted(values.size(), "value"),
                           Counted(count, "element"));
  }
  std::vector<Expr> dims;
  for (const int64_t dim : shape) dims.push_back(context.module.exprs.Const(dim));
  std::vector<Value> results = OneResult(dtype, std::move(dims));
  if (count <= kMaxElements) results[0].elements = values;
  return results;
}

Result<std::vector<Tensor>> EvaluateSymbolic(const EvalContext& context) {
  HY_ASSIGN(Tensor result, MakeResult(context));
  HY_ASSIGN(const std::vector<int64_t> values, EvaluateExprs(context, "values"));
  for (size_t i = 0; i < values.size(); ++i) StoreInt(result, static_cast<int64_t>(i), values[i]);
  return OneTensor(std::move(result));
}

Result<std::vector<Value>> InferShapeOf(const InferContext& context) {
  const std::vector<Expr>& dims = context.operand(0).type.dims;
  std::vector<Value> results =
      OneResult(DType::kI64, {context.module.exprs.Const(static_cast<int64_t>(dims.size()))});
  if (dims.size() <= static_cast<size_t>(kMaxElements)) results[0].elements = dims;
  return results;
}

Result<std::vector<Tensor>> EvaluateShapeOf(const EvalContext& context) {
  HY_ASSIGN(Tensor result, MakeResult(context));
  const std::vector<int64_t>& dims = context.operands[0].dims;
  for (size_t i = 0; i < dims.size(); ++i) StoreInt(result, static_cast<int64_t>(i), dims[i]);
  return OneTensor(std::move(result));
}

Result<std::vector<Value>> InferIota(const InferContext& context) {
  HY_ASSIGN(const std::vector<Expr> shape, GetExprs(context.node, "shape"));
  HY_ASSIGN(const DType dtype, GetDType(context.node, "dtype"));
  HY_ASSIGN(const size_t axis, AxisOf(context, "axis", shape.size()));
  if (dtype == DType::kBool) return InvalidArgument("iota makes numbers, not bool");
  std::vector<Value> results = OneResult(dtype, shape);
  const std::optional<int64_t> count = FewElements(context.module.exprs, shape);
  if (count && axis == 0 && shape.size() == 1 && IsInteger(dtype) && dtype != DType::kU64) {
    results[0].elements.emplace();
    for (int64_t i = 0; i < *count; ++i) {
      results[0].elements->push_back(context.module.exprs.Const(WrapTo(dtype, i)));
    }
  }
  return results;
}

Result<std::vector<Tensor>> EvaluateIota(const EvalContext& context) {
  HY_ASSIGN(Tensor result, MakeResult(context));
  HY_ASSIGN(const int64_t axis, GetInt(context.node, "axis"));
  int64_t at = 0;
  HY_TRY(ForEachIndex(result.dims, [&](const std::vector<int64_t>& index) {
    const int64_t value = index[static_cast<size_t>(axis)];
    if (IsFloat(result.dtype)) {
      StoreFloat(result, at++, static_cast<double>(value));
    } else {
      StoreInt(result, at++, value);
    }
    return OkStatus();
  }));
  return OneTensor(std::move(result));
}

Result<std::vector<Value>> InferRandomBits(const InferContext& context) {
  HY_ASSIGN(std::vector<Expr> shape, GetExprs(context.node, "shape"));
  HY_TRY(RequireDType(context, 0, context.operand(0).type.dtype == DType::kU64, "a u64 seed"));
  HY_TRY(RequireRank(context, 0, 0, 0));
  return OneResult(DType::kU32, std::move(shape));
}

// Philox4x32 with 10 rounds (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011).
void Philox(uint32_t (&counter)[4], uint64_t seed) {
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xd2511f53} * counter[0];
    const uint64_t second = uint64_t{0xcd9e8d57} * counter[2];
    const uint32_t next[4] = {
        static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(second),
        static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
    std::copy(next, next + 4, counter);
    key[0] += 0x9e3779b9;
    key[1] += 0xbb67ae85;
  }
}

Result<std::vector<Tensor>> EvaluateRandomBits(const EvalContext& context) {
  HY_ASSIGN(Tensor result, MakeResult(context));
  const auto seed = static_cast<uint64_t>(LoadInt(context.operands[0], 0));
  const auto stream = static_cast<uint64_t>(IntOr(context.node, "stream", 0));
  for (int64_t i = 0; i < result.elements(); ++i) {
    const auto block = static_cast<uint64_t>(i / 4);
    uint32_t words[4] = {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                         static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
    Philox(words, seed);
    StoreInt(result, i, words[i % 4]);
  }
  return OneTensor(std::move(result));
}

constexpr AttributeDef kSymbolicAttributes[] = {
    {"values", AttributeKind::kExprs, true, "The elements, row-major."},
    {"shape", AttributeKind::kInts, true,
     "The dims of the result; their product is the number of values."},
    {"dtype", AttributeKind::kDType, true, "i32 or i64."},
};

constexpr AttributeDef kIotaAttributes[] = {
    {"shape", AttributeKind::kExprs, true, "The dims of the result."},
    {"axis", AttributeKind::kInt, true, "The axis whose index is the value."},
    {"dtype", AttributeKind::kDType, true, "Any integer or float type."},
};

constexpr AttributeDef kRandomAttributes[] = {
    {"shape", AttributeKind::kExprs, true, "The dims of the result."},
    {"stream", AttributeKind::kInt, false,
     "Tells apart the random ops that share a seed: the upper 64 bits of the "
     "counter. Default 0."},
};

constexpr OpCase kSymbolicCases[] = {
    {"", "values = [3, 4], shape = [2], dtype = i64", "i64[2]{3, 4}"},
};

constexpr OpCase kShapeOfCases[] = {
    {"f32[2, 3]{0, 0, 0, 0, 0, 0}", "", "i64[2]{2, 3}"},
    {"f32[]{1}", "", "i64[0]{}"},
};

constexpr OpCase kIotaCases[] = {
    {"", "shape = [3], axis = 0, dtype = i64", "i64[3]{0, 1, 2}"},
    {"", "shape = [2, 3], axis = 1, dtype = i32", "i32[2, 3]{0, 1, 2, 0, 1, 2}"},
    {"", "shape = [3], axis = 0, dtype = f32", "f32[3]{0, 1, 2}"},
};

constexpr OpCase kRandomBitsCases[] = {
    {"u64[]{0}", "shape = [4]", "u32[4]{1713891541, 3781805453, 3159862348, 2600524760}"},
};

constexpr OpDef kSourceOps[] = {
    {
        .name = "constant",
        .doc = "The value of a stored constant. The node names it; there are no "
               "operands and attributes.",
        .traits = 0,
        .min_operands = 0,
        .max_operands = 0,
        .infer = InferConstant,
        .evaluate = EvaluateConstant,
    },
    {
        .name = "symbolic",
        .doc = "Integers computed from the symbols of the module, such as a dim or a "
               "product of dims. What remains of shape arithmetic after its "
               "propagation.",
        .traits = 0,
        .min_operands = 0,
        .max_operands = 0,
        .attributes = kSymbolicAttributes,
        .infer = InferSymbolic,
        .evaluate = EvaluateSymbolic,
        .cases = kSymbolicCases,
    },
    {
        .name = "shape_of",
        .doc = "The dims of the operand, i64[rank].",
        .traits = kHostOnly,
        .min_operands = 1,
        .max_operands = 1,
        .infer = InferShapeOf,
        .evaluate = EvaluateShapeOf,
        .cases = kShapeOfCases,
    },
    {
        .name = "iota",
        .doc = "Each element is its index along the axis. Range and one-hot are made "
               "from it.",
        .traits = 0,
        .min_operands = 0,
        .max_operands = 0,
        .attributes = kIotaAttributes,
        .infer = InferIota,
        .evaluate = EvaluateIota,
        .cases = kIotaCases,
    },
    {
        .name = "random_bits",
        .doc = "u32 bits of Philox4x32-10. Operand: the seed, u64[] (the key, low word "
               "first). Element i is word i % 4 of the block with counter i / 4 (lower "
               "64 bits) and `stream` (upper 64 bits). Uniform and normal numbers are "
               "arithmetic on top.",
        .traits = 0,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kRandomAttributes,
        .infer = InferRandomBits,
        .evaluate = EvaluateRandomBits,
        .cases = kRandomBitsCases,
    },
};

}  // namespace

std::span<const OpDef> SourceOps() { return kSourceOps; }

}  // namespace halyard::graph
