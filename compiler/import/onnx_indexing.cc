// SPDX-License-Identifier: Apache-2.0
// Gathers, scatters and what finds indices.
#include <algorithm>

#include "base/quantity.h"

#include "compiler/import/onnx_context.h"

namespace halyard::onnx {
namespace {

V Indices(NodeContext& c, size_t input) {
  const V indices = c.In(input);
  const DType dtype = c.DTypeOf(indices);
  if (c.ok() && dtype != DType::kI64 && dtype != DType::kI32) {
    return c.Fail(
        InvalidArgument("The indices are {}; they must be int32 or int64.", FormatDType(dtype)));
  }
  return indices;
}

std::vector<V> ImportGather(NodeContext& c) {
  const V x = c.In(0);
  const V indices = Indices(c, 1);
  const int64_t axis = c.Axis(c.Int("axis", 0), c.Rank(x));
  return {c.Op(c.node.op_type == "Gather" ? "gather" : "gather_elements", {x, indices},
               {{"axis", axis}})};
}

std::vector<V> ImportGatherNd(NodeContext& c) {
  const V x = c.In(0);
  const V indices = Indices(c, 1);
  return {c.Op("gather_nd", {x, indices}, {{"batch_dims", c.Int("batch_dims", 0)}})};
}

std::vector<V> ImportScatterElements(NodeContext& c) {
  const V x = c.In(0);
  const V indices = Indices(c, 1);
  const int64_t axis = c.Axis(c.Int("axis", 0), c.Rank(x));
  return {c.Op("scatter_elements", {x, indices, c.In(2)},
               {{"axis", axis}, {"reduction", c.String("reduction", "none")}})};
}

std::vector<V> ImportScatterNd(NodeContext& c) {
  const V x = c.In(0);
  const V indices = Indices(c, 1);
  return {
      c.Op("scatter_nd", {x, indices, c.In(2)}, {{"reduction", c.String("reduction", "none")}})};
}

// One update slice per batch at positions that follow from write indices: data[b, ..., w_b + s,
// ...].
std::vector<V> ImportTensorScatter(NodeContext& c) {
  const V x = c.In(0);
  const V update = c.In(1);
  const int64_t axis = c.Axis(c.Int("axis", -2), c.Rank(x));
  const std::string mode = c.String("mode", "linear");
  if (!c.ok()) return {};
  if (axis == 0 || c.Rank(update) != c.Rank(x)) {
    c.Fail(InvalidArgument("The update has {} and axis is {}; they must be {} and not 0.",
                           Counted(c.Rank(update), "dimension"), axis, c.Rank(x)));
    return {};
  }
  if (mode != "linear" && mode != "circular") {
    c.Fail(InvalidArgument("Attribute 'mode' is '{}'; it must be linear or circular.", mode));
    return {};
  }
  const Expr size = c.Dims(x)[static_cast<size_t>(axis)];
  const Expr written = c.Dims(update)[static_cast<size_t>(axis)];
  V at = c.Iota(DType::kI64, c.Dims(update), axis);
  if (c.Has(2)) {
    std::vector<Expr> dims(static_cast<size_t>(c.Rank(x)), c.Const(1));
    dims[0] = c.Dims(update)[0];
    // In a circle any place is a start; in a line the update must end within.
    const Expr last = c.exprs().Sub(size, written);
    const Expr past = mode == "circular" ? size : c.exprs().Add(last, c.Const(1));
    at = at + c.ReshapeTo(c.CheckIndex(c.In(2), past, "entry of 'write_indices'"), dims);
  }
  if (mode == "circular") at = c.Binary("rem", at, c.Symbolic({size}, {}));
  return {c.Op("scatter_elements", {x, at, update},
               {{"axis", axis}, {"reduction", std::string("none")}})};
}

// The rows of indices, one for each axis, of what is not 0 in a tensor that is known.
V KnownNonZero(NodeContext& c, const Tensor& x) {
  std::vector<int64_t> found;  // flat
  for (int64_t i = 0; i < x.elements(); ++i) {
    const bool is_set = IsFloat(x.dtype) ? graph::LoadFloat(x, i) != 0 : graph::LoadInt(x, i) != 0;
    if (is_set) found.push_back(i);
  }
  std::vector<int64_t> rows;
  int64_t inner = x.elements();
  for (const int64_t dim : x.dims) {
    inner = dim == 0 ? 0 : inner / dim;
    for (const int64_t at : found) rows.push_back(at / inner % dim);
  }
  const auto count = static_cast<int64_t>(found.size());
  return c.ReshapeTo(c.Ints64(rows),
                     {c.Const(static_cast<int64_t>(x.dims.size())), c.Const(count)});
}

V NonZero(NodeContext& c, V x) {
  if (!c.ok()) return {&c, kNone};
  if (const std::optional<Tensor> known = c.Known(x)) return KnownNonZero(c, *known);
  const std::string& name = c.node.output.empty() ? c.node.name : c.node.output[0];
  std::string symbol = "count_";
  for (const char letter : name)
    symbol += std::isalnum(static_cast<unsigned char>(letter)) ? letter : '_';
  // One symbol per node: node counts make it unlike any other.
  symbol += "_" + std::to_string(c.b.module().nodes.size());
  return c.Op("nonzero", {x}, {{"count", std::vector<Expr>{c.exprs().Dim(symbol)}}});
}

std::vector<V> ImportNonZero(NodeContext& c) {
  const V x = c.In(0);
  // ONNX gives a scalar one row of indices.
  return {NonZero(c, c.Rank(x) == 0 ? c.ReshapeTo(x, {c.Const(1)}) : x)};
}

std::vector<V> ImportCompress(NodeContext& c) {
  V x = c.In(0);
  V condition = c.In(1);
  if (!c.ok()) return {};
  int64_t axis = 0;
  if (c.HasAttribute("axis")) {
    axis = c.Axis(c.Int("axis", 0), c.Rank(x));
  } else {
    x = c.ReshapeTo(x, {graph::ElementCount(c.exprs(), c.TypeOf(x))});
  }
  const V found = NonZero(c, condition);
  if (!c.ok()) return {};
  return {c.Op("gather", {x, c.ReshapeTo(found, {c.Dims(found)[1]})}, {{"axis", axis}})};
}

// The distinct elements of x as one row, their first places, where each element's is, and how often
// it occurs. Equal elements stand together once sorted.
std::vector<V> ImportUnique(NodeContext& c) {
  V x = c.In(0);
  if (!c.ok()) return {};
  if (c.HasAttribute("axis") && c.Rank(x) != 1) {
    c.Fail(
        Unimplemented("Attribute 'axis' is given for {}; only elements can be unique, not slices.",
                      Counted(c.Rank(x), "dimension")));
    return {};
  }
  const Expr size = graph::ElementCount(c.exprs(), c.TypeOf(x));
  x = c.ReshapeTo(x, {size});
  const V operands[] = {x};
  const std::vector<V> sorted = c.Ops("sort", operands, {{"axis", int64_t{0}}});
  if (!c.ok()) return {};
  const V place = c.Iota(DType::kI64, {size}, 0);
  const V zero = c.Integer(DType::kI64, 0);
  const V one = c.Integer(DType::kI64, 1);
  const V before =
      c.Op("gather", {sorted[0], c.Binary("max", place - one, zero)}, {{"axis", int64_t{0}}});
  const V starts = c.Binary("or", c.Binary("ne", sorted[0], before), c.Binary("eq", place, zero));
  const V group = c.Op("cumsum", {c.Cast(starts, DType::kI64)}, {{"axis", int64_t{0}}}) - one;
  const V found = NonZero(c, starts);
  if (!c.ok()) return {};
  const Expr count = c.Dims(found)[1];
  const V firsts = c.ReshapeTo(found, {count});
  const auto take = [&](V from, V at) {
    return c.Op("gather", {from, at}, {{"axis", int64_t{0}}});
  };
  const auto put = [&](V into, V at, V values, const char* reduction) {
    return c.Op("scatter_elements", {into, at, values},
                {{"axis", int64_t{0}}, {"reduction", std::string(reduction)}});
  };
  const auto fill = [&](V value, Expr dim) { return c.BroadcastTo(value, {dim}); };
  V values = take(sorted[0], firsts);
  V indices = take(sorted[1], firsts);  // the sort is stable
  V inverse = put(fill(zero, size), sorted[1], group, "none");
  V counts = put(fill(zero, count), group, fill(one, size), "add");
  if (c.Int("sorted", 1) == 0) {
    // In the order of their first places.
    const V keys[] = {indices};
    const std::vector<V> order = c.Ops("sort", keys, {{"axis", int64_t{0}}});
    if (!c.ok()) return {};
    const V rank = put(fill(zero, count), order[1], c.Iota(DType::kI64, {count}, 0), "none");
    values = take(values, order[1]);
    indices = order[0];
    counts = take(counts, order[1]);
    inverse = take(rank, inverse);
  }
  return {values, indices, inverse, counts};
}

// Reverses the first sequence_lens[b] elements along the time axis, per batch.
std::vector<V> ImportReverseSequence(NodeContext& c) {
  const V x = c.In(0);
  const V lengths = c.In(1);
  const int64_t batch_axis = c.Int("batch_axis", 1);
  const int64_t time_axis = c.Int("time_axis", 0);
  if (!c.ok()) return {};
  if (c.Rank(x) < 2 || batch_axis + time_axis != 1 || batch_axis * time_axis != 0) {
    c.Fail(
        InvalidArgument("Batch axis {} and time axis {} must be 0 and 1 of at least 2 dimensions.",
                        batch_axis, time_axis));
    return {};
  }
  const std::vector<Expr> dims = c.Dims(x);
  const V time = c.Iota(DType::kI64, dims, time_axis);
  std::vector<Expr> per_batch(dims.size(), c.Const(1));
  per_batch[static_cast<size_t>(batch_axis)] = dims[static_cast<size_t>(batch_axis)];
  const Expr past = c.exprs().Add(dims[static_cast<size_t>(time_axis)], c.Const(1));
  const V length = c.ReshapeTo(c.CheckIndex(lengths, past, "entry of 'sequence_lens'"), per_batch);
  const V at = c.Select(c.Binary("lt", time, length), length - time - 1.0, time);
  return {c.Op("gather_elements", {x, at}, {{"axis", time_axis}})};
}

constexpr std::string_view kCounted =
    "of constants and shapes: how many are found decides a size, and sizes that only data decide "
    "are refused when compiled";

constexpr ImportRow kIndexingRows[] = {
    {"Compress", 9, 0, 2, 2, 1, "axis", ImportCompress, kCounted},
    {"Gather", 1, 0, 2, 2, 1, "axis", ImportGather},
    {"GatherElements", 11, 0, 2, 2, 1, "axis", ImportGather},
    {"GatherND", 11, 0, 2, 2, 1, "batch_dims", ImportGatherNd},
    {"NonZero", 9, 0, 1, 1, 1, "", ImportNonZero, kCounted},
    {"ReverseSequence", 10, 0, 2, 2, 1, "batch_axis time_axis", ImportReverseSequence},
    {"Scatter", 9, 10, 3, 3, 1, "axis", ImportScatterElements},
    {"ScatterElements", 11, 0, 3, 3, 1, "axis reduction", ImportScatterElements},
    {"ScatterND", 11, 0, 3, 3, 1, "reduction", ImportScatterNd},
    {"TensorScatter", 24, 0, 2, 3, 1, "axis mode", ImportTensorScatter},
    {"Unique", 11, 0, 1, 1, 4, "axis sorted", ImportUnique, "elements, not slices along an axis"},
};

}  // namespace

std::span<const ImportRow> IndexingRows() { return kIndexingRows; }

}  // namespace halyard::onnx
