// SPDX-License-Identifier: Apache-2.0
// NonMaxSuppression as a loop that takes the best box that is left and drops those that overlap it.
// All batches and classes go in step; how many boxes are chosen is data.
#include <cmath>
#include <string>

#include "base/quantity.h"
#include "compiler/import/onnx_context.h"
#include "compiler/import/onnx_loop_body.h"

namespace halyard::onnx {
namespace {

struct Boxes {
  V low[2], high[2];  // [b, 1, n]
  V area;
};

Boxes ReadBoxes(NodeContext& c, V boxes, bool is_centred) {
  Boxes out;
  // Coordinates 0 and 1 are of one corner, 2 and 3 of the other; or the centre and the size.
  const auto column = [&](int64_t at) {
    return c.Unsqueeze(c.Squeeze(c.SliceAxis(boxes, 2, c.Const(at), c.Const(1)), {2}), {1});
  };
  for (int axis = 0; axis < 2; ++axis) {
    const V a = column(axis);
    const V b = column(axis + 2);
    out.low[axis] = is_centred ? a - b / 2.0 : c.Binary("min", a, b);
    out.high[axis] = is_centred ? a + b / 2.0 : c.Binary("max", a, b);
  }
  out.area = (out.high[0] - out.low[0]) * (out.high[1] - out.low[1]);
  return out;
}

std::vector<V> ImportNonMaxSuppression(NodeContext& c) {
  const V boxes = c.In(0);
  V scores = c.In(1);
  if (!c.ok()) return {};
  const std::vector<Expr> dims = c.Dims(scores);
  if (c.Rank(boxes) != 3 || dims.size() != 3 || !c.exprs().IsConst(c.Dims(boxes)[2], 4)) {
    c.Fail(
        InvalidArgument("Boxes are {} and scores {}; they must be [b, n, 4] and [b, classes, n].",
                        graph::FormatType(c.exprs(), c.TypeOf(boxes)),
                        graph::FormatType(c.exprs(), c.TypeOf(scores))));
    return {};
  }
  const int64_t centred = c.Int("center_point_box", 0);
  const auto scalar = [&](size_t input, double fallback, DType dtype) {
    return c.Has(input) ? c.Cast(c.ReshapeTo(c.In(input), {}), dtype) : c.Number(dtype, fallback);
  };
  const DType dtype = c.DTypeOf(scores);
  if (c.Has(4)) {
    const V passes = c.Binary("gt", scores, scalar(4, 0, dtype));
    scores = c.Select(passes, scores, c.Like(scores, -HUGE_VAL));
  }
  const Boxes given = ReadBoxes(c, boxes, centred != 0);
  const V most = c.Binary("min", scalar(2, 0, DType::kI64), c.Symbolic({dims[2]}, {}));
  const std::vector<V> operands = {most,          {&c, kNone},  scores,
                                   given.low[0],  given.low[1], given.high[0],
                                   given.high[1], given.area,   scalar(3, 0, c.DTypeOf(boxes))};
  if (!c.ok()) return {};
  LoopBody body(c, operands);
  const V left = body.Parameter("scores");
  const V low[] = {body.Parameter("low_0"), body.Parameter("low_1")};
  const V high[] = {body.Parameter("high_0"), body.Parameter("high_1")};
  const V area = body.Parameter("area");
  const V threshold = body.Parameter("threshold");
  const V best = c.Op("argmax", {left}, {{"axis", int64_t{2}}, {"keep_dims", int64_t{1}}});
  const V none = c.Like(left, -HUGE_VAL);
  const V is_found = c.Binary("gt", c.Reduce("reduce_max", left, {2}, true), none);
  // A value of the best box of each class, [b, classes, 1].
  const auto of_best = [&](V v) {
    return c.Op("gather_elements", {c.BroadcastTo(v, dims), best}, {{"axis", int64_t{2}}});
  };
  V shared = {&c, kNone};
  for (int axis = 0; axis < 2; ++axis) {
    const V length = c.Binary("min", high[axis], of_best(high[axis])) -
                     c.Binary("max", low[axis], of_best(low[axis]));
    const V positive = c.Binary("max", length, c.Like(length, 0));
    shared = shared.valid() ? shared * positive : positive;
  }
  const V all = area + of_best(area) - shared;
  // Compared without a division; where nothing is covered nothing overlaps.
  const V overlaps =
      c.Binary("and", c.Binary("gt", shared, threshold * all), c.Binary("gt", all, c.Like(all, 0)));
  const V is_best = c.Binary("eq", c.Iota(DType::kI64, dims, 2), best);
  const V drops = c.Binary("and", is_found, c.Binary("or", overlaps, is_best));
  const V rest = c.Select(drops, none, left);
  const V chosen = c.Squeeze(c.Select(is_found, best, c.Integer(DType::kI64, -1)), {2});
  const V goes_on = c.Reduce("reduce_any", c.Binary("gt", rest, none), {0, 1, 2}, false);
  const uint32_t region = body.Close({goes_on.id, rest.id, chosen.id});
  const Expr trips = c.FreshSymbol("trips");
  const std::vector<V> made = c.Ops(
      "loop", operands, {{"carried", int64_t{1}}, {"trips", std::vector<Expr>{trips}}}, {region});
  if (!c.ok()) return {};
  const V picks = c.Transpose(made[1], {1, 2, 0});  // [b, classes, trips], -1: none
  const V places = c.Op("nonzero", {c.Binary("ge", picks, c.Integer(DType::kI64, 0))},
                        {{"count", std::vector<Expr>{c.FreshSymbol("count")}}});
  if (!c.ok()) return {};
  const V rows = c.Transpose(places, {1, 0});
  const V parts[] = {
      c.SliceAxis(rows, 1, c.Const(0), c.Const(2)),
      c.Unsqueeze(c.Op("gather_nd", {picks, rows}, {{"batch_dims", int64_t{0}}}), {1})};
  return {c.Concat(parts, 1)};
}

constexpr ImportRow kDetectionRows[] = {
    {"NonMaxSuppression", 10, 0, 2, 5, 1, "center_point_box", ImportNonMaxSuppression,
     "interpreted, as a loop"},
};

}  // namespace

std::span<const ImportRow> DetectionRows() { return kDetectionRows; }

}  // namespace halyard::onnx
