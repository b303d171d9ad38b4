// SPDX-License-Identifier: Apache-2.0
// Attention and the rotation of embeddings by position. Attention is the op of that name where that
// op says all of it, and matrix products around a softmax where the node caps or gives out scores.
#include <cmath>

#include "base/quantity.h"
#include "compiler/import/onnx_context.h"
#include "compiler/import/onnx_tensor.h"

namespace halyard::onnx {
namespace {

// [b, s, heads * d] as [b, heads, s, d].
V SplitHeads(NodeContext& c, V x, std::string_view attribute) {
  const int64_t heads = c.Int(attribute, 0);
  if (!c.ok()) return x;
  const std::vector<Expr> dims = c.Dims(x);
  if (heads < 1 || !c.exprs().KnownMultipleOf(dims[2], heads)) {
    return c.Fail(InvalidArgument("Attribute '{}' is {}; it must divide the hidden size {}.",
                                  attribute, heads, c.exprs().Format(dims[2])));
  }
  const Expr width = c.exprs().FloorDiv(dims[2], c.Const(heads));
  return c.Transpose(c.ReshapeTo(x, {dims[0], dims[1], c.Const(heads), width}), {0, 2, 1, 3});
}

// [b, heads, s, d] as [b, s, heads * d].
V MergeHeads(NodeContext& c, V x) {
  if (!c.ok()) return x;
  const std::vector<Expr> dims = c.Dims(x);
  return c.ReshapeTo(c.Transpose(x, {0, 2, 1, 3}),
                     {dims[0], dims[2], c.exprs().Mul(dims[1], dims[3])});
}

// With leading axes of size 1 up to rank 4.
V ToRank4(NodeContext& c, V x) {
  std::vector<Expr> dims = c.Dims(x);
  while (dims.size() < 4) dims.insert(dims.begin(), c.Const(1));
  return c.ReshapeTo(x, dims);
}

// What decides which query sees which key: `allowed` is bool, `bias` is added to the scores. Each
// may be absent; both broadcast to the scores.
struct Mask {
  V allowed;
  V bias;
};

void Restrict(NodeContext& c, Mask& mask, V allowed) {
  mask.allowed = mask.allowed.valid() ? c.Binary("and", mask.allowed, allowed) : allowed;
}

// The node's mask, with the keys beyond its end hidden.
void AddMaskInput(NodeContext& c, V given, DType dtype, Expr keys, Mask& mask) {
  if (!c.ok()) return;
  const bool is_bool = c.DTypeOf(given) == DType::kBool;
  if ((!is_bool && c.DTypeOf(given) != dtype) || c.Rank(given) < 1 || c.Rank(given) > 4) {
    c.Fail(InvalidArgument("Input 'attn_mask' is {}; it must be bool or {} with 1 to 4 dimensions.",
                           graph::FormatType(c.exprs(), c.TypeOf(given)), FormatDType(dtype)));
    return;
  }
  given = ToRank4(c, given);
  const std::optional<int64_t> has = c.exprs().AsConst(c.Dims(given)[3]);
  const std::optional<int64_t> needs = c.exprs().AsConst(keys);
  if (has && needs && *has != 1 && *has < *needs) {
    const std::vector<Expr> none(4, c.Const(0));
    std::vector<Expr> high = none;
    high[3] = c.Const(*needs - *has);
    given = c.Op("pad", {given, is_bool ? c.Number(DType::kBool, 0) : c.Like(given, -HUGE_VAL)},
                 {{"low", none}, {"high", high}, {"mode", std::string("constant")}});
  }
  (is_bool ? mask.allowed : mask.bias) = given;
}

// How far key j is behind query i, as [1 or b, 1, s, t]; `offset` counts the keys before the first
// query and is a scalar or [b, 1, 1, 1].
V Distance(NodeContext& c, Expr queries, Expr keys, V offset) {
  const std::vector<Expr> dims = {c.Const(1), c.Const(1), queries, keys};
  return c.Iota(DType::kI64, dims, 2) + offset - c.Iota(DType::kI64, dims, 3);
}

struct Scores {
  V raw;     // scale * q k^T
  V capped;  // within +-softcap
  V masked;
  V probabilities;
  V result;
};

// The products one by one. Heads that share keys are rows of one product.
Scores AttendInSteps(NodeContext& c, V q, V k, V v, const Mask& mask, double scale, double softcap,
                     DType softmax_dtype) {
  Scores out;
  if (!c.ok()) return out;
  const std::vector<Expr> dq = c.Dims(q);
  const std::vector<Expr> dk = c.Dims(k);
  ExprArena& e = c.exprs();
  const Expr rows = e.FloorDiv(e.Mul(dq[1], dq[2]), dk[1]);
  const double root = std::sqrt(scale);
  out.raw =
      c.ReshapeTo(c.Op("matmul", {c.ReshapeTo(q * root, {dq[0], dk[1], rows, dq[3]}), k * root},
                       {{"transpose_b", int64_t{1}}}),
                  {dq[0], dq[1], dq[2], dk[2]});
  out.capped = softcap > 0 ? c.Unary("tanh", out.raw / softcap) * softcap : out.raw;
  out.masked = mask.bias.valid() ? out.capped + mask.bias : out.capped;
  if (mask.allowed.valid()) {
    out.masked = c.Select(mask.allowed, out.masked, c.Like(out.masked, -HUGE_VAL));
  }
  const V x = c.Cast(out.masked, softmax_dtype);
  const V top = c.Reduce("reduce_max", x, {3}, true);
  // A query that sees no key gives zeros.
  const V exps = c.Unary(
      "exp", x - c.Select(c.Binary("eq", top, c.Like(top, -HUGE_VAL)), c.Like(top, 0), top));
  const V sum = c.Reduce("reduce_sum", exps, {3}, true);
  const V divisor = c.Select(c.Binary("eq", sum, c.Like(sum, 0)), c.Like(sum, 1), sum);
  out.probabilities = c.Cast(exps / divisor, c.DTypeOf(q));
  const V grouped = c.ReshapeTo(out.probabilities, {dq[0], dk[1], rows, dk[2]});
  if (!c.ok()) return out;
  out.result = c.ReshapeTo(c.Op("matmul", {grouped, v}), {dq[0], dq[1], dq[2], c.Dims(v)[3]});
  return out;
}

std::vector<V> ImportAttention(NodeContext& c) {
  V q = c.In(0);
  V k = c.In(1);
  V v = c.In(2);
  if (!c.ok()) return {};
  const int64_t rank = c.Rank(q);
  if ((rank != 3 && rank != 4) || c.Rank(k) != rank || c.Rank(v) != rank) {
    c.Fail(InvalidArgument("Q, K and V have {}, {} and {}; they need 3 or 4 alike.", rank,
                           c.Rank(k), Counted(c.Rank(v), "dimension")));
    return {};
  }
  if (rank == 3) {
    q = SplitHeads(c, q, "q_num_heads");
    k = SplitHeads(c, k, "kv_num_heads");
    v = SplitHeads(c, v, "kv_num_heads");
  }
  if (!c.ok()) return {};
  const std::vector<Expr> dq = c.Dims(q);
  const Expr new_keys = c.Dims(k)[2];
  Expr past = c.Const(0);
  if (c.Has(4) != c.Has(5) || (c.Has(4) && c.Has(6))) {
    c.Fail(InvalidArgument(
        "Inputs 'past_key' and 'past_value' go together, and not with 'nonpad_kv_seqlen'."));
    return {};
  }
  if (c.Has(4)) {
    const V keys[] = {c.In(4), k};
    const V values[] = {c.In(5), v};
    if (c.Rank(keys[0]) != 4 || c.Rank(values[0]) != 4) {
      c.Fail(InvalidArgument("Inputs 'past_key' and 'past_value' have {} and {}; they need 4.",
                             c.Rank(keys[0]), Counted(c.Rank(values[0]), "dimension")));
      return {};
    }
    past = c.Dims(keys[0])[2];
    k = c.Concat(keys, 2);
    v = c.Concat(values, 2);
  }
  if (!c.ok()) return {};
  const Expr keys = c.Dims(k)[2];
  double scale = c.Float("scale", 0);
  if (!c.HasAttribute("scale")) {
    const std::optional<int64_t> depth = c.exprs().AsConst(dq[3]);
    if (!depth.has_value() || *depth < 1) {
      c.Fail(Unimplemented("Without 'scale' the head size must be a number above 0; it is {}.",
                           c.exprs().Format(dq[3])));
      return {};
    }
    scale = 1 / std::sqrt(static_cast<double>(*depth));
  }
  Mask mask = {{&c, kNone}, {&c, kNone}};
  if (c.Has(3)) AddMaskInput(c, c.In(3), c.DTypeOf(q), keys, mask);
  // The keys before the first query.
  V offset = c.Symbolic({past}, {});
  if (c.Has(6)) {
    const V lengths =
        c.ReshapeTo(c.CheckIndex(c.Cast(c.In(6), DType::kI64), c.exprs().Add(keys, c.Const(1)),
                                 "entry of 'nonpad_kv_seqlen'"),
                    {dq[0], c.Const(1), c.Const(1), c.Const(1)});
    const std::vector<Expr> row = {c.Const(1), c.Const(1), c.Const(1), keys};
    Restrict(c, mask, c.Binary("lt", c.Iota(DType::kI64, row, 3), lengths));
    offset = lengths - c.Symbolic({dq[2]}, {});
  }
  const bool is_causal = c.Int("is_causal", 0) != 0;
  // The op's own causal mask counts from the last key.
  const bool fits_op = !c.Has(6) && new_keys == dq[2];
  const int64_t left = c.Int("left_window_size", -1);
  const int64_t right = c.Int("right_window_size", -1);
  const double softcap = c.Float("softcap", 0);
  DType softmax_dtype = c.DTypeOf(q);
  if (c.Int("softmax_precision", 0) != 0) {
    const Result<DType> given = DTypeOf(c.Int("softmax_precision", 0));
    if (!given.ok() || !IsFloat(*given)) {
      c.Fail(InvalidArgument("Attribute 'softmax_precision' is {}; it must be a float type.",
                             c.Int("softmax_precision", 0)));
      return {};
    }
    softmax_dtype = *given;
  }
  // The op's softmax is in f32 or wider.
  const bool in_steps = softcap > 0 || c.WantsOutput(3) ||
                        (softmax_dtype != c.DTypeOf(q) && softmax_dtype != DType::kF32);
  if ((is_causal && (in_steps || !fits_op)) || left >= 0 || right >= 0) {
    const V distance = Distance(c, dq[2], keys, offset);
    if (is_causal) Restrict(c, mask, c.Binary("ge", distance, c.Integer(DType::kI64, 0)));
    if (left >= 0) Restrict(c, mask, c.Binary("le", distance, c.Integer(DType::kI64, left)));
    if (right >= 0) Restrict(c, mask, c.Binary("ge", distance, c.Integer(DType::kI64, -right)));
  }
  V y;
  V scores = {&c, kNone};
  if (in_steps) {
    const Scores steps = AttendInSteps(c, q, k, v, mask, scale, softcap, softmax_dtype);
    const V shown[] = {steps.raw, steps.capped, steps.masked, steps.probabilities};
    const int64_t mode = c.Int("qk_matmul_output_mode", 0);
    if (mode < 0 || mode > 3) {
      c.Fail(
          InvalidArgument("Attribute 'qk_matmul_output_mode' is {}; it must lie in [0, 3].", mode));
      return {};
    }
    y = steps.result;
    scores = shown[mode];
  } else {
    V one = mask.allowed.valid() ? mask.allowed : mask.bias;
    if (mask.allowed.valid() && mask.bias.valid()) {
      one = c.Select(mask.allowed, mask.bias, c.Like(mask.bias, -HUGE_VAL));
    }
    // Every query sees the first key unless one of these hides it; there NaN stays what it is.
    const bool may_see_none = c.Has(3) || c.Has(6) || left >= 0 || right >= 0;
    const Attributes attributes = {{"scale", scale},
                                   {"causal", int64_t{is_causal && fits_op}},
                                   {"hidden_to_zero", int64_t{may_see_none}}};
    y = one.valid() ? c.Op("attention", {q, k, v, one}, attributes)
                    : c.Op("attention", {q, k, v}, attributes);
  }
  return {rank == 3 ? MergeHeads(c, y) : y, k, v, scores};
}

// Every second element of the last axis.
V EverySecond(NodeContext& c, V x, int64_t start, Expr size) {
  if (!c.ok()) return x;
  std::vector<Expr> sizes = c.Dims(x);
  std::vector<Expr> starts(sizes.size(), c.Const(0));
  std::vector<int64_t> steps(sizes.size(), 1);
  sizes.back() = size;
  starts.back() = c.Const(start);
  steps.back() = 2;
  return c.Op("slice", {x}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
}

std::vector<V> ImportRotaryEmbedding(NodeContext& c) {
  V x = c.In(0);
  V cosines = c.In(1);
  V sines = c.In(2);
  if (!c.ok()) return {};
  const int64_t rank = c.Rank(x);
  if (rank != 3 && rank != 4) {
    c.Fail(InvalidArgument("Input 'X' has {}; it must have 3 or 4.", Counted(rank, "dimension")));
    return {};
  }
  if (rank == 3) x = SplitHeads(c, x, "num_heads");
  if (c.Has(3)) {
    V places = c.In(3);
    if (c.Rank(cosines) > 0) {
      places = c.CheckIndex(places, c.Dims(cosines)[0], "entry of 'position_ids'");
    }
    cosines = c.Op("gather", {cosines, places}, {{"axis", int64_t{0}}});
    sines = c.Op("gather", {sines, places}, {{"axis", int64_t{0}}});
  }
  if (!c.ok()) return {};
  const std::vector<Expr> dims = c.Dims(x);
  ExprArena& e = c.exprs();
  const int64_t given = c.Int("rotary_embedding_dim", 0);
  const Expr turned = given == 0 ? dims[3] : c.Const(given);
  if (given < 0 || !e.KnownMultipleOf(turned, 2) || c.Rank(cosines) != 3 || c.Rank(sines) != 3 ||
      (e.AsConst(dims[3]).has_value() && given > *e.AsConst(dims[3]))) {
    c.Fail(InvalidArgument(
        "The rotated size {} of {} must be even and the caches have 3 dimensions; they have {} "
        "and {}.",
        e.Format(turned), e.Format(dims[3]), c.Rank(cosines), c.Rank(sines)));
    return {};
  }
  const Expr half = e.FloorDiv(turned, c.Const(2));
  // The caches are [b, s, half]; every head turns alike.
  cosines = c.Unsqueeze(cosines, {1});
  sines = c.Unsqueeze(sines, {1});
  const bool is_interleaved = c.Int("interleaved", 0) != 0;
  const V part = c.SliceAxis(x, 3, c.Const(0), turned);
  const V a =
      is_interleaved ? EverySecond(c, part, 0, half) : c.SliceAxis(part, 3, c.Const(0), half);
  const V b = is_interleaved ? EverySecond(c, part, 1, half) : c.SliceAxis(part, 3, half, half);
  const V real = cosines * a - sines * b;
  const V imaginary = sines * a + cosines * b;
  if (!c.ok()) return {};
  V y;
  if (is_interleaved) {
    const V pair[] = {c.Unsqueeze(real, {4}), c.Unsqueeze(imaginary, {4})};
    y = c.ReshapeTo(c.Concat(pair, 4), {dims[0], dims[1], dims[2], turned});
  } else {
    const V pair[] = {real, imaginary};
    y = c.Concat(pair, 3);
  }
  if (turned != dims[3]) {
    const V parts[] = {y, c.SliceAxis(x, 3, turned, e.Sub(dims[3], turned))};
    y = c.Concat(parts, 3);
  }
  return {rank == 3 ? MergeHeads(c, y) : y};
}

// [b, t, heads * d] or [b, t, heads] as [b, heads, t, d or 1] in f32; of beta also [b, t, 1].
V PerHead(NodeContext& c, size_t input, int64_t heads, std::string_view name) {
  V x = c.In(input);
  if (!c.ok()) return x;
  if (c.Rank(x) != 3 || !c.exprs().AsConst(c.Dims(x)[2]).has_value()) {
    return c.Fail(InvalidArgument("Input '{}' is {}; it needs 3 dims, the last one a number.", name,
                                  graph::FormatType(c.exprs(), c.TypeOf(x))));
  }
  const std::vector<Expr> dims = c.Dims(x);
  const int64_t width = *c.exprs().AsConst(dims[2]);
  if (width != 1 && width % heads != 0) {
    return c.Fail(InvalidArgument("The last dim of input '{}' is {}; it must be a multiple of {}.",
                                  name, width, Counted(heads, "head")));
  }
  const int64_t count = width == 1 ? 1 : heads;
  x = c.ReshapeTo(x, {dims[0], dims[1], c.Const(count), c.Const(width / count)});
  return c.Transpose(c.Cast(x, DType::kF32), {0, 2, 1, 3});
}

// A state [b, heads, d_k, d_v] that each step forgets a part of, corrects and writes to, and that
// the queries read. The steps stand one after the other.
std::vector<V> ImportLinearAttention(NodeContext& c) {
  const int64_t q_heads = c.Int("q_num_heads", 0);
  const int64_t heads = c.Int("kv_num_heads", 0);
  const std::string rule = c.String("update_rule", "gated_delta");
  if (!c.ok()) return {};
  constexpr int64_t kMostSteps = 64;
  const bool is_gated = rule == "gated" || rule == "gated_delta";
  const bool is_delta = rule == "delta" || rule == "gated_delta";
  if ((!is_gated && !is_delta && rule != "linear") || is_gated != c.Has(4) ||
      is_delta != c.Has(5)) {
    c.Fail(InvalidArgument(
        "Attribute 'update_rule' is '{}'; it must be linear, gated, delta or gated_delta, with "
        "input 'decay' where it is gated and 'beta' where it is delta.",
        Printable(rule)));
    return {};
  }
  if (heads < 1 || q_heads < 1 || q_heads % heads != 0) {
    c.Fail(InvalidArgument(
        "Attribute 'q_num_heads' is {}; it must be a multiple of 'kv_num_heads', {}.", q_heads,
        heads));
    return {};
  }
  const V q = PerHead(c, 0, q_heads, "query");
  const V k = PerHead(c, 1, heads, "key");
  const V v = PerHead(c, 2, heads, "value");
  const V decay = is_gated ? PerHead(c, 4, heads, "decay") : V{&c, kNone};
  const V beta = is_delta ? PerHead(c, 5, heads, "beta") : V{&c, kNone};
  if (!c.ok()) return {};
  const std::vector<Expr> dq = c.Dims(q);
  const std::optional<int64_t> steps = c.exprs().AsConst(dq[2]);
  if (!steps || *steps < 1 || *steps > kMostSteps) {
    c.Fail(Unimplemented("The sequence has {} steps; a number from 1 to {} is supported.",
                         c.exprs().Format(dq[2]), kMostSteps));
    return {};
  }
  const Expr depth = c.Dims(k)[3];
  const Expr width = c.Dims(v)[3];
  double scale = c.Float("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(*c.exprs().AsConst(dq[3])));
  const DType state_dtype = c.DTypeOf(c.Has(3) ? c.In(3) : c.In(0));
  V state = c.Has(3)
                ? c.Cast(c.In(3), DType::kF32)
                : c.BroadcastTo(c.Number(DType::kF32, 0), {dq[0], c.Const(heads), depth, width});
  const Expr group = c.Const(q_heads / heads);
  std::vector<V> outputs;
  for (int64_t i = 0; i < *steps && c.ok(); ++i) {
    const auto at = [&](V x) { return c.SliceAxis(x, 2, c.Const(i), c.Const(1)); };
    const V key = c.Transpose(at(k), {0, 1, 3, 2});  // [b, heads, d_k, 1]
    if (is_gated) state = state * c.Transpose(c.Unary("exp", at(decay)), {0, 1, 3, 2});
    V value = at(v);  // [b, heads, 1, d_v]
    if (is_delta) value = at(beta) * (value - c.Op("matmul", {at(k), state}));
    state = state + key * value;
    // Query heads that share a state are rows of one product.
    const V query = c.ReshapeTo(at(q), {dq[0], c.Const(heads), group, dq[3]});
    outputs.push_back(
        c.ReshapeTo(c.Op("matmul", {query, state}), {dq[0], c.Const(1), c.Const(q_heads), width}));
  }
  if (!c.ok()) return {};
  const V y = c.ReshapeTo(c.Concat(outputs, 1) * scale,
                          {dq[0], dq[2], c.exprs().Mul(c.Const(q_heads), width)});
  return {c.Cast(y, c.DTypeOf(c.In(0))), c.Cast(state, state_dtype)};
}

constexpr ImportRow kAttentionRows[] = {
    {"Attention", 23, 0, 3, 7, 4,
     "is_causal kv_num_heads left_window_size q_num_heads qk_matmul_output_mode right_window_size "
     "scale softcap softmax_precision",
     ImportAttention},
    {"LinearAttention", 27, 0, 3, 6, 2, "chunk_size kv_num_heads q_num_heads scale update_rule",
     ImportLinearAttention, "1 to 64 steps known before the run"},
    {"RotaryEmbedding", 23, 0, 3, 4, 1, "interleaved num_heads rotary_embedding_dim",
     ImportRotaryEmbedding},
};

}  // namespace

std::span<const ImportRow> AttentionRows() { return kAttentionRows; }

}  // namespace halyard::onnx
