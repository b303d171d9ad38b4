// SPDX-License-Identifier: Apache-2.0
// Random numbers as arithmetic on random bits. They depend on the attribute `seed` and the node,
// and are the same in every run.
#include <bit>
#include <cmath>
#include <numbers>

#include "compiler/import/onnx_context.h"
#include "compiler/import/onnx_tensor.h"

namespace halyard::onnx {
namespace {

// Numbers of f32 in [0, 1), 24 bits each. `which` tells apart those of one node.
V Uniform(NodeContext& c, const std::vector<Expr>& dims, int64_t which) {
  if (!c.ok()) return {&c, kNone};
  const auto seed = std::bit_cast<uint32_t>(static_cast<float>(c.Float("seed", 0)));
  const int64_t words[] = {static_cast<int64_t>(seed)};
  const V key = c.Take(c.b.ConstantOf(graph::TensorOfInts(DType::kU64, {}, words)));
  const V bits = c.Op("random_bits", {key}, {{"shape", dims}, {"stream", which}});
  const V high = c.Binary("shr", bits, c.Integer(DType::kU32, 8));
  return c.Cast(high, DType::kF32) * 0x1p-24;
}

// Like no other node's: nodes only become more.
int64_t Stream(NodeContext& c) { return 2 * static_cast<int64_t>(c.b.module().nodes.size()); }

std::vector<V> ImportRandom(NodeContext& c) {
  const std::string& op = c.node.op_type;
  const bool is_like = op.ends_with("Like");
  DType dtype = DType::kF32;
  std::vector<Expr> dims;
  if (is_like) {
    const V x = c.In(0);
    if (!c.ok()) return {};
    dtype = c.DTypeOf(x);
    dims = c.Dims(x);
  } else {
    const std::vector<int64_t> shape = c.Ints("shape");
    for (const int64_t dim : shape) {
      if (dim < 0) c.Fail(InvalidArgument("Attribute 'shape' holds {}; dims are at least 0.", dim));
    }
    dims = c.Consts(shape);
  }
  if (c.HasAttribute("dtype")) {
    const Result<DType> given = DTypeOf(c.Int("dtype", 0));
    if (!given.ok()) c.Fail(given.status());
    if (given.ok()) dtype = *given;
  }
  if (c.ok() && !IsFloat(dtype)) {
    c.Fail(InvalidArgument("The result is {}; random numbers are floats.", FormatDType(dtype)));
  }
  if (!c.ok()) return {};
  const int64_t stream = Stream(c);
  const V first = Uniform(c, dims, stream);
  if (op.starts_with("RandomUniform")) {
    const double low = c.Float("low", 0);
    return {c.Cast(first * (c.Float("high", 1) - low) + low, dtype)};
  }
  // Box and Muller; the logarithm is of a number above 0.
  const V radius = c.Unary("sqrt", -2.0 * c.Unary("log", 1.0 - first));
  const V wave = c.Unary("cos", Uniform(c, dims, stream + 1) * (2 * std::numbers::pi));
  return {c.Cast(radius * wave * c.Float("scale", 1) + c.Float("mean", 0), dtype)};
}

std::vector<V> ImportBernoulli(NodeContext& c) {
  const V x = c.In(0);
  DType dtype = c.DTypeOf(x);
  if (c.HasAttribute("dtype")) {
    const Result<DType> given = DTypeOf(c.Int("dtype", 0));
    if (!given.ok()) c.Fail(given.status());
    if (given.ok()) dtype = *given;
  }
  const V hit = c.Binary("lt", Uniform(c, c.Dims(x), Stream(c)), c.Cast(x, DType::kF32));
  return {c.Cast(hit, dtype)};
}

constexpr std::string_view kSame = "the same numbers in every run, other ones than ONNX Runtime's";

constexpr ImportRow kRandomRows[] = {
    {"Bernoulli", 15, 0, 1, 1, 1, "dtype seed", ImportBernoulli, kSame},
    {"RandomNormal", 1, 0, 0, 0, 1, "dtype mean scale seed shape", ImportRandom, kSame},
    {"RandomNormalLike", 1, 0, 1, 1, 1, "dtype mean scale seed", ImportRandom, kSame},
    {"RandomUniform", 1, 0, 0, 0, 1, "dtype high low seed shape", ImportRandom, kSame},
    {"RandomUniformLike", 1, 0, 1, 1, 1, "dtype high low seed", ImportRandom, kSame},
};

}  // namespace

std::span<const ImportRow> RandomRows() { return kRandomRows; }

}  // namespace halyard::onnx
