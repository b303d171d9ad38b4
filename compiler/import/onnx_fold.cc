// SPDX-License-Identifier: Apache-2.0
// Ops that put windows or maxima back into an image: Col2Im and MaxUnpool.
#include <algorithm>

#include "base/excerpt.h"
#include "base/quantity.h"
#include "compiler/import/onnx_context.h"

namespace halyard::onnx {
namespace {

constexpr int64_t kMostWindow = int64_t{1} << 12;
constexpr int64_t kMostDim = int64_t{1} << 31;

// Sums windows back to where they were taken from: a transposed convolution whose weights are 1 at
// the place of each row of x[n, c * window, blocks].
std::vector<V> ImportCol2Im(NodeContext& c) {
  const V x = c.In(0);
  const std::vector<int64_t> image = c.IntsOf(1, "image_shape");
  const std::vector<int64_t> window = c.IntsOf(2, "block_shape");
  if (!c.ok()) return {};
  const size_t n = image.size();
  const std::vector<int64_t> strides = c.PerAxis("strides", n, 1, 1, kMostDim);
  const std::vector<int64_t> dilations = c.PerAxis("dilations", n, 1, 1, kMostDim);
  const std::vector<int64_t> pads = c.PerAxis("pads", 2 * n, 0, 0, kMostDim);
  const std::vector<int64_t> dims = c.ConstDims(x, "The input");
  if (!c.ok()) return {};
  int64_t places = 1;
  for (const int64_t size : window) {
    if (size < 1 || size > kMostWindow || places > kMostWindow / size) {
      c.Fail(OutOfRange("Input 'block_shape' holds [{}]; the product must lie in [1, {}].",
                        Excerpt(window), kMostWindow));
      return {};
    }
    places *= size;
  }
  if (dims.size() != 3 || n < 1 || window.size() != n || dims[1] % places != 0) {
    c.Fail(InvalidArgument(
        "The input has {}, image_shape {} and block_shape {}; they need 3, n and n, and a multiple "
        "of {} channels.",
        Counted(dims.size(), "dimension"), Counted(n, "element"), window.size(), places));
    return {};
  }
  std::vector<Expr> split = c.Consts(dims);
  split.pop_back();
  std::vector<int64_t> low, high, extra;
  int64_t blocks = 1;
  for (size_t i = 0; i < n; ++i) {
    const int64_t reach = dilations[i] * (window[i] - 1) + 1;
    if (image[i] < 0 || image[i] > kMostDim || image[i] + pads[i] + pads[n + i] < reach) {
      c.Fail(InvalidArgument("Image size {} with pads {} and {} does not hold a window of {}.",
                             image[i], pads[i], pads[n + i], reach));
      return {};
    }
    const int64_t span = image[i] + pads[i] + pads[n + i] - reach;
    const int64_t count = span / strides[i] + 1;
    split.push_back(c.Const(count));
    blocks = blocks > kMostDim / count ? kMostDim : blocks * count;
    low.push_back(pads[i]);
    high.push_back(pads[n + i]);
    extra.push_back(span % strides[i]);
  }
  if (blocks != dims[2]) {
    c.Fail(
        InvalidArgument("The input has {}; the image has {}.", Counted(dims[2], "block"), blocks));
    return {};
  }
  // Row j of the window's places, for every channel anew.
  const V row = c.Iota(DType::kI64, {c.Const(places), c.Const(places)}, 0);
  const V column = c.Iota(DType::kI64, {c.Const(places), c.Const(places)}, 1);
  const V one_hot = c.Cast(c.Binary("eq", row, column), c.DTypeOf(x));
  const int64_t channels = dims[1] / places;
  std::vector<Expr> weight_dims = {c.Const(dims[1]), c.Const(1)};
  for (const int64_t size : window) weight_dims.push_back(c.Const(size));
  const V weights = c.ReshapeTo(
      c.BroadcastTo(one_hot, {c.Const(channels), c.Const(places), c.Const(places)}), weight_dims);
  return {c.Op("conv_transpose", {c.ReshapeTo(x, split), weights},
               {{"strides", strides},
                {"dilations", dilations},
                {"pads_low", low},
                {"pads_high", high},
                {"output_padding", extra},
                {"groups", channels}})};
}

// Puts values at flat indices of a tensor of zeros.
std::vector<V> ImportMaxUnpool(NodeContext& c) {
  const V x = c.In(0);
  const V indices = c.In(1);
  if (!c.ok()) return {};
  const std::vector<Expr> dims = c.Dims(x);
  const size_t n = dims.size() < 3 ? 0 : dims.size() - 2;
  if (n == 0 || c.Dims(indices).size() != dims.size()) {
    c.Fail(InvalidArgument("The input has {} and the indices {}; they need at least 3 alike.",
                           Counted(dims.size(), "dimension"), c.Rank(indices)));
    return {};
  }
  const std::vector<int64_t> window = c.PerAxis("kernel_shape", n, 1, 1, kMostDim);
  const std::vector<int64_t> strides = c.PerAxis("strides", n, 1, 1, kMostDim);
  const std::vector<int64_t> pads = c.PerAxis("pads", 2 * n, 0, 0, kMostDim);
  if (!c.ok()) return {};
  ExprArena& e = c.exprs();
  std::vector<Expr> out = {dims[0], dims[1]};
  for (size_t i = 0; i < n; ++i) {
    const Expr steps = e.Mul(e.Sub(dims[i + 2], c.Const(1)), c.Const(strides[i]));
    out.push_back(e.Add(steps, c.Const(window[i] - pads[i] - pads[n + i])));
  }
  Expr count = c.Const(1);
  for (const Expr dim : out) count = e.Mul(count, dim);
  const Expr given = graph::ElementCount(e, c.TypeOf(x));
  const V zeros = c.BroadcastTo(c.Like(x, 0), {count});
  const V places = c.CheckIndex(c.ReshapeTo(indices, {given}), count, "index");
  V y = c.Op("scatter_elements", {zeros, places, c.ReshapeTo(x, {given})},
             {{"axis", int64_t{0}}, {"reduction", std::string("none")}});
  y = c.ReshapeTo(y, out);
  if (!c.Has(2)) return {y};
  // A larger shape adds zeros behind.
  const std::vector<Expr> wanted = c.ExprsOf(2, "output_shape");
  if (!c.ok()) return {};
  if (wanted.size() != out.size()) {
    c.Fail(InvalidArgument("Input 'output_shape' has {}; the input has {}.",
                           Counted(wanted.size(), "element"), Counted(out.size(), "dimension")));
    return {};
  }
  std::vector<Expr> high;
  for (size_t i = 0; i < out.size(); ++i) {
    high.push_back(e.Sub(wanted[i], out[i]));
    if (e.AsConst(high[i]).value_or(0) < 0) {
      c.Fail(InvalidArgument("Input 'output_shape' holds {}; at least {} is needed.",
                             e.Format(wanted[i]), e.Format(out[i])));
      return {};
    }
  }
  return {c.Op("pad", {y},
               {{"low", std::vector<Expr>(out.size(), c.Const(0))},
                {"high", high},
                {"mode", std::string("constant")}})};
}

constexpr ImportRow kFoldRows[] = {
    {"Col2Im", 18, 0, 3, 3, 1, "dilations pads strides", ImportCol2Im,
     "static shapes; shapes known before the run; an infinity gives NaN over its whole window"},
    {"MaxUnpool", 9, 0, 2, 3, 1, "kernel_shape pads strides", ImportMaxUnpool,
     "shape known before the run"},
};

}  // namespace

std::span<const ImportRow> FoldRows() { return kFoldRows; }

}  // namespace halyard::onnx
