// SPDX-License-Identifier: Apache-2.0
// Losses over classes, as reductions of what the targets gather.
#include "base/quantity.h"
#include "compiler/import/onnx_context.h"

namespace halyard::onnx {
namespace {

// The loss of log-probabilities x[n, classes, rest...] for targets [n, rest...], from input 2 the
// weight of each class.
V NegativeLogLikelihood(NodeContext& c, V x) {
  V target = c.In(1);
  const std::string reduction = c.String("reduction", "mean");
  if (!c.ok()) return x;
  if (c.Rank(x) < 2 || c.Rank(target) != c.Rank(x) - 1) {
    return c.Fail(
        InvalidArgument("The input has {} and the target {}; they need at least 2 and one "
                        "less.",
                        Counted(c.Rank(x), "dimension"), c.Rank(target)));
  }
  if (reduction != "mean" && reduction != "sum" && reduction != "none") {
    return c.Fail(
        InvalidArgument("Attribute 'reduction' is '{}'; it must be mean, sum or none.", reduction));
  }
  target = c.Cast(target, DType::kI64);
  V weight = {&c, kNone};  // of each target
  V ignored = {&c, kNone};
  if (c.HasAttribute("ignore_index")) {
    ignored = c.Binary("eq", target, c.Integer(DType::kI64, c.Int("ignore_index", 0)));
    target = c.Select(ignored, c.Like(target, 0), target);
  }
  if (!c.ok()) return x;
  target = c.CheckIndex(target, c.Dims(x)[1], "target");
  if (c.Has(2)) {
    weight = c.Op("gather", {c.In(2), target}, {{"axis", int64_t{0}}});
  } else if (ignored.valid()) {
    weight = c.BroadcastTo(c.Like(x, 1), c.Dims(target));
  }
  if (ignored.valid()) weight = c.Select(ignored, c.Like(weight, 0), weight);
  V loss = -c.Squeeze(
      c.Op("gather_elements", {x, c.Unsqueeze(target, {1})}, {{"axis", int64_t{1}}}), {1});
  // A target for each row of x: no axis has more, says gather_elements, and together none has less.
  std::vector<Expr> rows = c.Dims(x);
  if (!c.ok()) return loss;
  rows.erase(rows.begin() + 1);
  loss = c.ReshapeTo(loss, rows);
  // Not a product with the weight 0, which would keep infinities.
  if (weight.valid()) loss = loss * weight;
  if (ignored.valid()) loss = c.Select(ignored, c.Like(loss, 0), loss);
  if (reduction == "none") return loss;
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < c.Rank(target); ++i) axes.push_back(i);
  if (reduction == "sum") return c.Reduce("reduce_sum", loss, axes, false);
  if (!weight.valid()) return c.Mean(loss, axes, false);
  return c.Reduce("reduce_sum", loss, axes, false) / c.Reduce("reduce_sum", weight, axes, false);
}

std::vector<V> ImportNegativeLogLikelihoodLoss(NodeContext& c) {
  return {NegativeLogLikelihood(c, c.In(0))};
}

std::vector<V> ImportSoftmaxCrossEntropyLoss(NodeContext& c) {
  const V x = c.In(0);
  if (!c.ok()) return {};
  if (c.Rank(x) < 2) {
    c.Fail(InvalidArgument("The input has {}; it must have at least 2.",
                           Counted(c.Rank(x), "dimension")));
    return {};
  }
  const V shifted = x - c.Reduce("reduce_max", x, {1}, true);
  const V log_probabilities =
      shifted - c.Unary("log", c.Reduce("reduce_sum", c.Unary("exp", shifted), {1}, true));
  return {NegativeLogLikelihood(c, log_probabilities), log_probabilities};
}

constexpr ImportRow kLossRows[] = {
    {"NegativeLogLikelihoodLoss", 12, 0, 2, 3, 1, "ignore_index reduction",
     ImportNegativeLogLikelihoodLoss},
    {"SoftmaxCrossEntropyLoss", 12, 0, 2, 3, 2, "ignore_index reduction",
     ImportSoftmaxCrossEntropyLoss},
};

}  // namespace

std::span<const ImportRow> LossRows() { return kLossRows; }

}  // namespace halyard::onnx
