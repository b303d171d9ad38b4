// SPDX-License-Identifier: Apache-2.0
// Resize in its variants since opset 10, and Upsample before it.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/import/onnx_context.h"

namespace halyard::onnx {
namespace {

constexpr double kMaxDim = 1ll << 40;

// floor(dim * scale) for a symbolic dim: exact when the scale is a fraction with a small
// denominator.
Expr ScaledDim(NodeContext& c, Expr dim, double scale) {
  if (!(scale > 0) || !(scale < kMaxDim)) {
    c.Fail(InvalidArgument("Input 'scales' holds {}; it must be above 0.", scale));
    return dim;
  }
  if (const std::optional<int64_t> number = c.exprs().AsConst(dim)) {
    const double size = std::floor(static_cast<double>(*number) * scale);
    if (size > kMaxDim) c.Fail(OutOfRange("A dim becomes {}; the limit is {}.", size, kMaxDim));
    return c.Const(static_cast<int64_t>(std::min(size, kMaxDim)));
  }
  for (int64_t denominator = 1; denominator <= 64; denominator *= 2) {
    const double numerator = scale * static_cast<double>(denominator);
    if (numerator != std::floor(numerator)) continue;
    return c.exprs().FloorDiv(c.exprs().Mul(dim, c.Const(static_cast<int64_t>(numerator))),
                              c.Const(denominator));
  }
  c.Fail(Unimplemented(
      "The symbolic dim {} cannot be scaled by {}; only multiples of 1/64 are supported.",
      c.exprs().Format(dim), scale));
  return dim;
}

V Resize(NodeContext& c, V x, const std::vector<Expr>& sizes, std::vector<double> scales,
         const std::string& mode, const std::string& coordinates, const std::string& rounding) {
  if (!c.ok()) return x;
  if (mode != "nearest" && mode != "linear" && mode != "cubic") {
    return c.Fail(
        InvalidArgument("Attribute 'mode' is '{}'; it must be nearest, linear or cubic.", mode));
  }
  const char* kinds[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                         "align_corners", "asymmetric"};
  if (std::find(std::begin(kinds), std::end(kinds), coordinates) == std::end(kinds)) {
    return c.Fail(Unimplemented(
        "Attribute 'coordinate_transformation_mode' is '{}'; it is not supported.", coordinates));
  }
  Attributes attributes = {{"sizes", sizes}, {"mode", mode}, {"coordinates", coordinates}};
  if (mode == "nearest") attributes["rounding"] = rounding;
  if (mode == "cubic") {
    attributes["cubic_coefficient"] = c.Float("cubic_coeff_a", -0.75);
    attributes["exclude_outside"] = int64_t{c.Int("exclude_outside", 0) != 0};
  }
  if (!scales.empty()) attributes["scales"] = std::move(scales);
  return c.Op("resize", {x}, std::move(attributes));
}

std::vector<V> ImportUpsample(NodeContext& c) {
  const V x = c.In(0);
  const std::vector<double> scales = c.opset < 9 ? c.Floats("scales") : c.FloatsOf(1, "scales");
  if (!c.ok()) return {};
  const std::vector<Expr> dims = c.Dims(x);
  if (scales.size() != dims.size()) {
    c.Fail(InvalidArgument("There are {} scales for {} dimensions.", scales.size(), dims.size()));
    return {};
  }
  std::vector<Expr> sizes;
  for (size_t i = 0; i < dims.size(); ++i) sizes.push_back(ScaledDim(c, dims[i], scales[i]));
  std::string mode = c.String("mode", "nearest");
  if (mode == "bilinear") mode = "linear";
  return {Resize(c, x, sizes, scales, mode, "asymmetric", "floor")};
}

std::vector<V> ImportResize(NodeContext& c) {
  const V x = c.In(0);
  if (!c.ok()) return {};
  if (c.opset < 11) {
    const std::vector<double> scales = c.FloatsOf(1, "scales");
    const std::vector<Expr> dims = c.Dims(x);
    if (!c.ok()) return {};
    if (scales.size() != dims.size()) {
      c.Fail(InvalidArgument("There are {} scales for {} dimensions.", scales.size(), dims.size()));
      return {};
    }
    std::vector<Expr> sizes;
    for (size_t i = 0; i < dims.size(); ++i) sizes.push_back(ScaledDim(c, dims[i], scales[i]));
    return {Resize(c, x, sizes, scales, c.String("mode", "nearest"), "asymmetric", "floor")};
  }
  if (c.Int("antialias", 0) != 0) {
    c.Fail(Unimplemented("Attribute 'antialias' is not supported."));
    return {};
  }
  if (c.Float("extrapolation_value", 0) != 0 &&
      c.String("coordinate_transformation_mode", "") == "tf_crop_and_resize") {
    c.Fail(Unimplemented("Attribute 'extrapolation_value' is not supported."));
    return {};
  }
  const std::vector<Expr> dims = c.Dims(x);
  std::vector<int64_t> axes(dims.size());
  std::iota(axes.begin(), axes.end(), int64_t{0});
  if (c.HasAttribute("axes")) {
    axes = c.Ints("axes");
    for (int64_t& axis : axes) axis = c.Axis(axis, c.Rank(x));
    if (!c.ok()) return {};
  }
  std::vector<Expr> sizes = dims;
  std::vector<double> scales(dims.size(), 1.0);
  bool has_scales = false;
  // An empty `scales` stands for an absent one in opset 11.
  const bool scales_given =
      c.Has(2) && !c.exprs().IsConst(graph::ElementCount(c.exprs(), c.TypeOf(c.In(2))), 0);
  if (scales_given) {
    const std::vector<double> given = c.FloatsOf(2, "scales");
    if (!c.ok()) return {};
    if (given.size() != axes.size()) {
      c.Fail(InvalidArgument("There are {} scales for {} axes.", given.size(), axes.size()));
      return {};
    }
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto axis = static_cast<size_t>(axes[i]);
      scales[axis] = given[i];
      sizes[axis] = ScaledDim(c, dims[axis], given[i]);
    }
    has_scales = true;
  } else {
    const std::vector<Expr> given = c.ExprsOf(3, "sizes");
    if (!c.ok()) return {};
    if (given.size() != axes.size()) {
      c.Fail(InvalidArgument("There are {} sizes for {} axes.", given.size(), axes.size()));
      return {};
    }
    const std::string policy = c.String("keep_aspect_ratio_policy", "stretch");
    if (policy == "stretch") {
      for (size_t i = 0; i < axes.size(); ++i) sizes[static_cast<size_t>(axes[i])] = given[i];
    } else if (policy == "not_larger" || policy == "not_smaller") {
      const std::vector<int64_t> from = c.ConstDims(x, "The input of an aspect ratio policy");
      const std::vector<int64_t> to = c.IntsOf(3, "sizes");
      double scale = policy == "not_larger" ? HUGE_VAL : 0;
      for (size_t i = 0; i < axes.size() && c.ok(); ++i) {
        const double s =
            static_cast<double>(to[i]) / static_cast<double>(from[static_cast<size_t>(axes[i])]);
        scale = policy == "not_larger" ? std::min(scale, s) : std::max(scale, s);
      }
      if (!c.ok()) return {};
      for (const int64_t axis : axes) {
        const auto at = static_cast<size_t>(axis);
        const double size = std::floor(scale * static_cast<double>(from[at]) + 0.5);
        if (!(size >= 0 && size < kMaxDim)) {
          c.Fail(OutOfRange("A dim becomes {}; the limit is {}.", size, kMaxDim));
          return {};
        }
        scales[at] = scale;
        sizes[at] = c.Const(static_cast<int64_t>(size));
      }
      has_scales = true;
    } else {
      c.Fail(InvalidArgument(
          "Attribute 'keep_aspect_ratio_policy' is '{}'; it must be stretch, not_larger or "
          "not_smaller.",
          policy));
      return {};
    }
  }
  if (!has_scales) scales.clear();
  return {Resize(c, x, sizes, std::move(scales), c.String("mode", "nearest"),
                 c.String("coordinate_transformation_mode", "half_pixel"),
                 c.String("nearest_mode", "round_prefer_floor"))};
}

constexpr ImportRow kRows[] = {
    {"Resize", 10, 0, 1, 4, 1,
     "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside "
     "extrapolation_value "
     "keep_aspect_ratio_policy mode nearest_mode",
     ImportResize, "scales and sizes known before the run; no antialias, no tf_crop_and_resize"},
    {"Upsample", 7, 9, 1, 2, 1, "mode scales", ImportUpsample, "scales known before the run"},
};

}  // namespace

std::span<const ImportRow> ResizeRows() { return kRows; }

}  // namespace halyard::onnx
