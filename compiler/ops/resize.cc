// SPDX-License-Identifier: Apache-2.0
// Resampling of grids.
#include <algorithm>
#include <cmath>

#include "base/quantity.h"
#include "compiler/ops/families.h"
#include "compiler/ops/reference.h"
#include "compiler/ops/shape_rules.h"

namespace halyard::graph {
namespace {

Result<std::vector<Value>> InferResize(const InferContext& context) {
  const TensorType& type = context.operand(0).type;
  HY_TRY(RequireOneOf(context, "mode", {"nearest", "linear", "cubic"}));
  HY_TRY(RequireOneOf(
      context, "coordinates",
      {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"}));
  HY_TRY(RequireOneOf(context, "rounding",
                      {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}));
  HY_TRY(RequireFlag(context, "exclude_outside"));
  HY_ASSIGN(const std::vector<Expr> sizes, GetExprs(context.node, "sizes"));
  if (sizes.size() != type.dims.size()) {
    return InvalidArgument("{} has {}; resize has {}", DescribeOperand(context, 0),
                           Counted(type.dims.size(), "dimension"), Counted(sizes.size(), "size"));
  }
  const auto scales = context.node.attributes.find("scales");
  if (scales != context.node.attributes.end()) {
    const auto& values = std::get<std::vector<double>>(scales->second);
    if (values.size() != sizes.size()) {
      return InvalidArgument("resize has {} for {}", Counted(values.size(), "scale"),
                             Counted(sizes.size(), "dimension"));
    }
    for (const double scale : values) {
      if (!(scale > 0) || std::isinf(scale)) {
        return InvalidArgument("A scale of resize is {}; it is a finite number above 0", scale);
      }
    }
  }
  HY_ASSIGN(const std::string mode, GetString(context.node, "mode"));
  HY_TRY(RequireDType(context, 0, mode == "nearest" || IsFloat(type.dtype),
                      "floats in modes linear and cubic"));
  return OneResult(type.dtype, sizes);
}

// One operand index that a result index reads along an axis, and its share.
struct Sample {
  int64_t index;
  double weight;
};

struct AxisRule {
  std::string mode, coordinates, rounding;
  double cubic_coefficient;
  bool excludes_outside;
};

double SourceCoordinate(const AxisRule& rule, int64_t to, int64_t in, int64_t out, double scale) {
  const auto x = static_cast<double>(to);
  if (rule.coordinates == "asymmetric") return x / scale;
  if (rule.coordinates == "align_corners") {
    return out > 1 ? x * static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  }
  if (rule.coordinates == "pytorch_half_pixel" && out <= 1) return 0;
  double offset = 0;
  if (rule.coordinates == "half_pixel_symmetric") {
    const double exact = scale * static_cast<double>(in);
    offset = static_cast<double>(in) / 2 * (1 - static_cast<double>(out) / exact);
  }
  return offset + (x + 0.5) / scale - 0.5;
}

double RoundCoordinate(const std::string& rounding, double x) {
  if (rounding == "floor") return std::floor(x);
  if (rounding == "ceil") return std::ceil(x);
  if (rounding == "round_prefer_ceil") return std::floor(x + 0.5);
  return std::ceil(x - 0.5);
}

double CubicWeight(double a, double distance) {
  const double x = std::fabs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

std::vector<Sample> SamplesOf(const AxisRule& rule, int64_t to, int64_t in, int64_t out,
                              double scale) {
  const auto clamp = [in](double index) {
    return static_cast<int64_t>(std::clamp(index, 0.0, static_cast<double>(in - 1)));
  };
  if (in == out && scale == 1) return {{to, 1}};
  const double x = SourceCoordinate(rule, to, in, out, scale);
  if (rule.mode == "nearest") return {{clamp(RoundCoordinate(rule.rounding, x)), 1}};
  const double base = std::floor(x);
  if (rule.mode == "linear") {
    return {{clamp(base), 1 - (x - base)}, {clamp(base + 1), x - base}};
  }
  std::vector<Sample> samples;
  double total = 0;
  for (int offset = -1; offset <= 2; ++offset) {
    const double at = base + offset;
    double weight = CubicWeight(rule.cubic_coefficient, x - at);
    if (rule.excludes_outside && (at < 0 || at > static_cast<double>(in - 1))) weight = 0;
    samples.push_back({clamp(at), weight});
    total += weight;
  }
  if (rule.excludes_outside) {
    for (Sample& sample : samples) sample.weight /= total;
  }
  return samples;
}

Result<std::vector<Tensor>> EvaluateResize(const EvalContext& context) {
  const Tensor& x = context.operands[0];
  HY_ASSIGN(const std::vector<int64_t> sizes, EvaluateExprs(context, "sizes"));
  HY_ASSIGN(Tensor result, MakeResultOf(context, sizes));
  if (x.elements() == 0 && result.elements() > 0) {
    return OutOfRange("resize makes {} from none (node '{}').",
                      Counted(result.elements(), "element"), context.node.name);
  }
  const AxisRule rule{StringOr(context.node, "mode", "nearest"),
                      StringOr(context.node, "coordinates", "half_pixel"),
                      StringOr(context.node, "rounding", "round_prefer_floor"),
                      FloatOr(context.node, "cubic_coefficient", -0.75),
                      IntOr(context.node, "exclude_outside", 0) != 0};
  const size_t rank = sizes.size();
  std::vector<std::vector<std::vector<Sample>>> samples(rank);  // [axis][result index]
  for (size_t axis = 0; axis < rank; ++axis) {
    double scale = static_cast<double>(sizes[axis]) / static_cast<double>(x.dims[axis]);
    const auto scales = context.node.attributes.find("scales");
    if (scales != context.node.attributes.end()) {
      scale = std::get<std::vector<double>>(scales->second)[axis];
    }
    for (int64_t to = 0; to < sizes[axis]; ++to) {
      samples[axis].push_back(SamplesOf(rule, to, x.dims[axis], sizes[axis], scale));
    }
  }
  const std::vector<int64_t> strides = RowMajorStrides(x.dims);
  int64_t to_at = 0;
  HY_TRY(ForEachIndex(sizes, [&](const std::vector<int64_t>& to) {
    std::vector<int64_t> choices;
    for (size_t axis = 0; axis < rank; ++axis) {
      choices.push_back(static_cast<int64_t>(samples[axis][static_cast<size_t>(to[axis])].size()));
    }
    double sum = 0;
    int64_t last = 0;
    Status status = ForEachIndex(choices, [&](const std::vector<int64_t>& choice) {
      double weight = 1;
      last = 0;
      for (size_t axis = 0; axis < rank; ++axis) {
        const Sample& sample =
            samples[axis][static_cast<size_t>(to[axis])][static_cast<size_t>(choice[axis])];
        weight *= sample.weight;
        last += sample.index * strides[axis];
      }
      // A sample without weight does not spread its NaN or infinity.
      if (rule.mode != "nearest" && weight != 0) sum += weight * LoadFloat(x, last);
      return OkStatus();
    });
    if (rule.mode == "nearest") {
      CopyElement(x, last, result, to_at);
    } else {
      StoreFloat(result, to_at, sum);
    }
    ++to_at;
    return status;
  }));
  return OneTensor(std::move(result));
}

constexpr AttributeDef kResizeAttributes[] = {
    {"sizes", AttributeKind::kExprs, true, "The dims of the result, for all axes."},
    {"mode", AttributeKind::kString, true, "\"nearest\", \"linear\" or \"cubic\"."},
    {"coordinates", AttributeKind::kString, false,
     "\"half_pixel\" (the default), \"half_pixel_symmetric\", "
     "\"pytorch_half_pixel\", \"align_corners\" or \"asymmetric\"."},
    {"rounding", AttributeKind::kString, false,
     "Of nearest: \"round_prefer_floor\" (the default), \"round_prefer_ceil\", "
     "\"floor\" or \"ceil\"."},
    {"cubic_coefficient", AttributeKind::kFloat, false, "Default -0.75."},
    {"exclude_outside", AttributeKind::kInt, false,
     "1 gives weight 0 to samples outside (cubic). Default 0."},
    {"scales", AttributeKind::kFloats, false,
     "The scale per axis used for coordinates; default: result dim / operand "
     "dim."},
};

constexpr OpCase kResizeCases[] = {
    {"f32[1, 1, 2, 2]{1, 2, 3, 4}", "sizes = [1, 1, 4, 4], mode = \"linear\"",
     "f32[1, 1, 4, 4]{1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, "
     "4}"},
    {"i32[1, 1, 2]{1, 2}",
     "sizes = [1, 1, 4], mode = \"nearest\", coordinates = \"asymmetric\", rounding = \"floor\"",
     "i32[1, 1, 4]{1, 1, 2, 2}"},
    {"f32[4]{1, 2, 3, 4}", "sizes = [7], mode = \"linear\", coordinates = \"align_corners\"",
     "f32[7]{1, 1.5, 2, 2.5, 3, 3.5, 4}"},
    {"f32[2]{0, 1}", "sizes = [4], mode = \"cubic\"",
     "f32[4]{-0.10546875, 0.2265625, 0.7734375, 1.1054688}"},
};

constexpr OpDef kResizeOps[] = {
    {
        .name = "resize",
        .doc = "Interpolates along each axis whose size changes, with the coordinate "
               "rules of ONNX Resize; samples outside repeat the edge. Floats; nearest "
               "takes every dtype.",
        .traits = kTemplate,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kResizeAttributes,
        .infer = InferResize,
        .evaluate = EvaluateResize,
        .cases = kResizeCases,
    },
};

}  // namespace

std::span<const OpDef> ResizeOps() { return kResizeOps; }

}  // namespace halyard::graph
