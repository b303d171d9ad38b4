// SPDX-License-Identifier: Apache-2.0
// Resize in its variants since opset 10, and Upsample before it.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/quantity.h"

#include "compiler/import/onnx_context.h"

namespace halyard::onnx {
namespace {

constexpr double kMaxSize = 1ll << 40;

// floor(dim * scale): in f32 as everybody computes it, where 5 times the f32 below 2.6 is 13; of a
// symbolic dim where the scale is a fraction with a small denominator, which is exact.
Expr ScaledDim(NodeContext& c, Expr dim, double scale) {
  if (!(scale > 0) || !(scale < kMaxSize)) {
    c.Fail(InvalidArgument("Input 'scales' holds {}; it must be above 0 and below 2^40.", scale));
    return dim;
  }
  if (const std::optional<int64_t> number = c.exprs().AsConst(dim)) {
    const double size = std::floor(static_cast<float>(*number) * static_cast<float>(scale));
    if (size > kMaxSize) c.Fail(OutOfRange("A dim becomes {}; the limit is {}.", size, kMaxSize));
    return c.Const(static_cast<int64_t>(std::min(size, kMaxSize)));
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

// What one resized axis is made from, for the forms that the op `resize` does not know.
struct ResizedAxis {
  int64_t from = 0;
  int64_t to = 0;
  double scale = 1;
  double roi_start = 0;
  double roi_end = 1;
};

struct Interpolation {
  std::string mode;
  std::string coordinates;
  std::string rounding;
  double cubic = -0.75;
  bool is_antialiased = false;
  bool excludes_outside = false;
};

// Where element `y` of the result lies in the operand.
double SourceOf(const std::string& coordinates, const ResizedAxis& axis, double y) {
  const auto from = static_cast<double>(axis.from);
  const auto to = static_cast<double>(axis.to);
  const double half_pixel = (y + 0.5) / axis.scale - 0.5;
  if (coordinates == "align_corners") return axis.to == 1 ? 0 : y * (from - 1) / (to - 1);
  if (coordinates == "asymmetric") return y / axis.scale;
  if (coordinates == "pytorch_half_pixel") return axis.to == 1 ? -0.5 : half_pixel;
  if (coordinates == "half_pixel_symmetric") {
    return from / 2 * (1 - to / (axis.scale * from)) + half_pixel;
  }
  if (coordinates == "tf_crop_and_resize") {
    const double extent = (axis.roi_end - axis.roi_start) * (from - 1);
    const double start = axis.roi_start * (from - 1);
    return axis.to == 1 ? start + extent / 2 : start + y * extent / (to - 1);
  }
  return half_pixel;
}

// The weights of the elements base + first, base + first + 1, ... for a place `ratio` in (0, 1]
// after base. With antialiasing the filter widens as the axis shrinks.
std::vector<double> FilterOf(const Interpolation& how, const ResizedAxis& axis, double ratio,
                             int64_t& first) {
  if (how.mode == "nearest") {
    first = 0;
    const bool takes_second = how.rounding == "floor"               ? ratio == 1
                              : how.rounding == "ceil"              ? true
                              : how.rounding == "round_prefer_ceil" ? ratio >= 0.5
                                                                    : ratio > 0.5;
    return {takes_second ? 0.0 : 1.0, takes_second ? 1.0 : 0.0};
  }
  const double scale = how.is_antialiased ? std::min(axis.scale, 1.0) : 1.0;
  const double reach = how.mode == "cubic" ? 2 : 1;
  first = static_cast<int64_t>(std::floor(-reach / scale)) + 1;
  std::vector<double> weights;
  double sum = 0;
  for (int64_t i = first; i < 2 - first; ++i) {
    const double x = std::abs((static_cast<double>(i) - ratio) * scale);
    const double a = how.cubic;
    double weight = std::max(0.0, 1 - x);
    if (how.mode == "cubic") {
      weight = x <= 1  ? ((a + 2) * x - (a + 3)) * x * x + 1
               : x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
                       : 0;
    }
    weights.push_back(weight);
    sum += weight;
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

// Resizing along an axis is a product with a matrix of weights. Where the place is outside of the
// operand, tf_crop_and_resize gives a value of its own.
V ResizeByMatrix(NodeContext& c, V x, int64_t at, const ResizedAxis& axis, const Interpolation& how,
                 double outside_value) {
  if (!c.ok()) return x;
  std::vector<double> matrix(static_cast<size_t>(axis.from * axis.to), 0.0);
  std::vector<double> outside(static_cast<size_t>(axis.to), 0.0);
  bool has_outside = false;
  for (int64_t y = 0; y < axis.to; ++y) {
    const double place = SourceOf(how.coordinates, axis, static_cast<double>(y));
    if (how.coordinates == "tf_crop_and_resize" &&
        !(place >= 0 && place <= static_cast<double>(axis.from - 1))) {
      outside[static_cast<size_t>(y)] = outside_value;
      has_outside = true;
      continue;
    }
    const double base = std::ceil(place) - 1;
    int64_t first = 0;
    std::vector<double> weights = FilterOf(how, axis, place - base, first);
    double sum = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      const int64_t index = static_cast<int64_t>(base) + first + static_cast<int64_t>(i);
      if (how.excludes_outside && (index < 0 || index >= axis.from)) weights[i] = 0;
      sum += weights[i];
    }
    for (size_t i = 0; i < weights.size(); ++i) {
      const int64_t index = std::clamp<int64_t>(
          static_cast<int64_t>(base) + first + static_cast<int64_t>(i), 0, axis.from - 1);
      matrix[static_cast<size_t>(index * axis.to + y)] += sum == 0 ? 0 : weights[i] / sum;
    }
  }
  const DType dtype = c.DTypeOf(x);
  const V weights =
      c.Take(c.b.ConstantOf(graph::TensorOfFloats(dtype, {axis.from, axis.to}, matrix)));
  // The axis goes last and all others become rows.
  std::vector<int64_t> perm(static_cast<size_t>(c.Rank(x)));
  std::iota(perm.begin(), perm.end(), int64_t{0});
  std::swap(perm[static_cast<size_t>(at)], perm.back());
  V moved = c.Transpose(x, perm);
  std::vector<Expr> dims = c.Dims(moved);
  if (!c.ok()) return x;
  Expr rows = c.Const(1);
  for (size_t i = 0; i + 1 < dims.size(); ++i) rows = c.exprs().Mul(rows, dims[i]);
  V y = c.Op("matmul", {c.ReshapeTo(moved, {rows, dims.back()}), weights});
  if (has_outside) {
    y = y + c.Take(c.b.ConstantOf(graph::TensorOfFloats(dtype, {axis.to}, outside)));
  }
  dims.back() = c.Const(axis.to);
  return c.Transpose(c.ReshapeTo(y, dims), perm);
}

// Resizes axis by axis. `scales` is empty where the sizes say all.
V ResizeByMatrices(NodeContext& c, V x, const std::vector<Expr>& sizes,
                   const std::vector<double>& scales, const std::vector<int64_t>& axes,
                   const Interpolation& how) {
  if (!c.ok()) return x;
  constexpr int64_t kMostWeights = int64_t{1} << 24;
  const DType dtype = c.DTypeOf(x);
  if (!IsFloat(dtype)) {
    return c.Fail(
        Unimplemented("The input is {}; with antialias or tf_crop_and_resize it must be of floats.",
                      FormatDType(dtype)));
  }
  std::vector<double> roi;
  if (how.coordinates == "tf_crop_and_resize") {
    roi = c.FloatsOf(1, "roi");
    if (c.ok() && roi.size() != 2 * axes.size()) {
      c.Fail(InvalidArgument("Input 'roi' has {}; {} need {}.", Counted(roi.size(), "element"),
                             Counted(axes.size(), "axis"), 2 * axes.size()));
    }
  }
  const double outside = c.Float("extrapolation_value", 0);
  V y = c.Cast(x, c.ComputeDType(x));
  for (size_t i = 0; i < axes.size() && c.ok(); ++i) {
    const auto at = static_cast<size_t>(axes[i]);
    const Expr dim = c.Dims(x)[at];
    ResizedAxis axis;
    if (!roi.empty()) {
      axis.roi_start = roi[i];
      axis.roi_end = roi[axes.size() + i];
    }
    const bool has_roi = axis.roi_start != 0 || axis.roi_end != 1;
    if (dim == sizes[at] && (scales.empty() || scales[at] == 1) && !has_roi) continue;
    const std::optional<int64_t> from = c.exprs().AsConst(dim);
    const std::optional<int64_t> to = c.exprs().AsConst(sizes[at]);
    if (!from || !to || *from < 1 || *to < 1 || *from > kMostWeights / *to) {
      return c.Fail(Unimplemented(
          "Axis {} goes from {} to {}; with antialias or tf_crop_and_resize both must be numbers "
          "above 0 with a product of at most {}.",
          at, c.exprs().Format(dim), c.exprs().Format(sizes[at]), kMostWeights));
    }
    axis.from = *from;
    axis.to = *to;
    axis.scale =
        scales.empty() ? static_cast<double>(*to) / static_cast<double>(*from) : scales[at];
    y = ResizeByMatrix(c, y, axes[i], axis, how, outside);
  }
  return c.Cast(y, dtype);
}

std::vector<V> ImportUpsample(NodeContext& c) {
  const V x = c.In(0);
  const std::vector<double> scales = c.opset < 9 ? c.Floats("scales") : c.FloatsOf(1, "scales");
  if (!c.ok()) return {};
  const std::vector<Expr> dims = c.Dims(x);
  if (scales.size() != dims.size()) {
    c.Fail(InvalidArgument("There are {} for {}.", Counted(scales.size(), "scale"),
                           Counted(dims.size(), "dimension")));
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
      c.Fail(InvalidArgument("There are {} for {}.", Counted(scales.size(), "scale"),
                             Counted(dims.size(), "dimension")));
      return {};
    }
    std::vector<Expr> sizes;
    for (size_t i = 0; i < dims.size(); ++i) sizes.push_back(ScaledDim(c, dims[i], scales[i]));
    return {Resize(c, x, sizes, scales, c.String("mode", "nearest"), "asymmetric", "floor")};
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
      c.Fail(InvalidArgument("There are {} for {}.", Counted(given.size(), "scale"),
                             Counted(axes.size(), "axis")));
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
      c.Fail(InvalidArgument("There are {} for {}.", Counted(given.size(), "size"),
                             Counted(axes.size(), "axis")));
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
        if (!(size >= 0 && size < kMaxSize)) {
          c.Fail(OutOfRange("A dim becomes {}; the limit is {}.", size, kMaxSize));
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
  Interpolation how;
  how.mode = c.String("mode", "nearest");
  how.coordinates = c.String("coordinate_transformation_mode", "half_pixel");
  how.rounding = c.String("nearest_mode", "round_prefer_floor");
  how.cubic = c.Float("cubic_coeff_a", -0.75);
  how.is_antialiased = c.Int("antialias", 0) != 0 && how.mode != "nearest";
  how.excludes_outside = c.Int("exclude_outside", 0) != 0;
  const bool is_known = how.mode == "nearest" || how.mode == "linear" || how.mode == "cubic";
  if (is_known && (how.is_antialiased || how.coordinates == "tf_crop_and_resize")) {
    return {ResizeByMatrices(c, x, sizes, scales, axes, how)};
  }
  return {Resize(c, x, sizes, std::move(scales), how.mode, how.coordinates, how.rounding)};
}

constexpr ImportRow kResizeRows[] = {
    {"Resize", 10, 0, 1, 4, 1,
     "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside "
     "extrapolation_value "
     "keep_aspect_ratio_policy mode nearest_mode",
     ImportResize,
     "scales, sizes and regions known before the run; with antialias or tf_crop_and_resize static "
     "axes"},
    {"Upsample", 7, 9, 1, 2, 1, "mode scales", ImportUpsample, "scales known before the run"},
};

}  // namespace

std::span<const ImportRow> ResizeRows() { return kResizeRows; }

}  // namespace halyard::onnx
