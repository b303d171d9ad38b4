// SPDX-License-Identifier: Apache-2.0
// Lowering of resize and of transposed convolution: result elements that gather what the definition
// spreads.
#include <cmath>

#include "compiler/graph/builder.h"
#include "compiler/graph/tensor.h"
#include "compiler/loop/index_map.h"
#include "compiler/loop/lower_ops.h"
#include "compiler/ops/op_def.h"

namespace halyard::loop {

using kernel::Opcode;

namespace {

// f64 arithmetic on values of the kernel under construction, in the order in which the reference
// computes, so that coordinates are the same bits.
class Coordinates {
 public:
  Coordinates(Lowering& lowering, const graph::Node& node) : lowering_(lowering), node_(node) {}

  struct Sample {
    Expr index;
    ValueId weight = kNone;  // f64; kNone: 1
  };

  // What the result index `to` reads along an axis.
  Result<std::vector<Sample>> SamplesOf(size_t axis, Expr to) {
    const Expr in = lowering_.TypeOf(node_.operands[0]).dims[axis];
    const Expr out = lowering_.TypeOf(node_.results[0]).dims[axis];
    const auto scales = node_.attributes.find("scales");
    const bool is_scaled = scales != node_.attributes.end();
    if (in == out && (!is_scaled || std::get<std::vector<double>>(scales->second)[axis] == 1)) {
      return std::vector<Sample>{{to, kNone}};
    }
    const ValueId size_in = Number(in), size_out = Number(out);
    const ValueId scale = is_scaled ? F(std::get<std::vector<double>>(scales->second)[axis])
                                    : Op(Opcode::kDiv, size_out, size_in);
    const ValueId x = Source(to, in, out, size_in, size_out, scale);
    const std::string mode = StringOr(node_, "mode", "nearest");
    const ValueId last = Op(Opcode::kSub, size_in, F(1));
    if (mode == "nearest") {
      HY_ASSIGN(const Expr at, Clamped(Rounded(x), last, in));
      return std::vector<Sample>{{at, kNone}};
    }
    const ValueId base = b().Scalar(Opcode::kFloor, {x});
    const ValueId fraction = Op(Opcode::kSub, x, base);
    if (mode == "linear") {
      HY_ASSIGN(const Expr low, Clamped(base, last, in));
      HY_ASSIGN(const Expr high, Clamped(Op(Opcode::kAdd, base, F(1)), last, in));
      return std::vector<Sample>{{low, Op(Opcode::kSub, F(1), fraction)}, {high, fraction}};
    }
    const bool excludes = IntOr(node_, "exclude_outside", 0) != 0;
    std::vector<Sample> samples;
    ValueId total = F(0);
    for (int offset = -1; offset <= 2; ++offset) {
      const ValueId at = Op(Opcode::kAdd, base, F(offset));
      ValueId weight = CubicWeight(Op(Opcode::kSub, x, at));
      if (excludes) {
        const ValueId is_outside =
            Op(Opcode::kOr, Op(Opcode::kLt, at, F(0)), Op(Opcode::kGt, at, last));
        weight = b().Scalar(Opcode::kSelect, {is_outside, F(0), weight});
      }
      HY_ASSIGN(const Expr index, Clamped(at, last, in));
      samples.push_back({index, weight});
      total = Op(Opcode::kAdd, total, weight);
    }
    if (excludes) {
      for (Sample& sample : samples) sample.weight = Op(Opcode::kDiv, sample.weight, total);
    }
    return samples;
  }

  ValueId Op(Opcode opcode, ValueId x, ValueId y) { return b().Scalar(opcode, {x, y}); }
  ValueId F(double value) { return b().Float(DType::kF64, value); }

 private:
  KernelBuilder& b() { return lowering_.builder(); }

  ValueId Number(Expr expr) {
    if (const std::optional<int64_t> known = lowering_.exprs().AsConst(expr)) {
      return F(static_cast<double>(*known));
    }
    return b().Convert(b().Index(expr), DType::kF64);
  }

  ValueId Source(Expr to, Expr in, Expr out, ValueId size_in, ValueId size_out, ValueId scale) {
    const std::string rule = StringOr(node_, "coordinates", "half_pixel");
    const ValueId x = Number(to);
    // `value`, or 0 where the result has at most one element.
    const auto unless_single = [&](ValueId value) {
      if (lowering_.exprs().KnownLess(lowering_.exprs().Const(1), out)) return value;
      return b().Scalar(Opcode::kSelect, {Op(Opcode::kGt, size_out, F(1)), value, F(0)});
    };
    if (rule == "asymmetric") return Op(Opcode::kDiv, x, scale);
    if (rule == "align_corners") {
      const Expr one = lowering_.exprs().Const(1);
      const ValueId steps_in = Number(lowering_.exprs().Sub(in, one));
      const ValueId steps_out = Number(lowering_.exprs().Sub(out, one));
      return unless_single(Op(Opcode::kDiv, Op(Opcode::kMul, x, steps_in), steps_out));
    }
    ValueId offset = F(0);
    if (rule == "half_pixel_symmetric") {
      const ValueId exact = Op(Opcode::kMul, scale, size_in);
      const ValueId share = Op(Opcode::kSub, F(1), Op(Opcode::kDiv, size_out, exact));
      offset = Op(Opcode::kMul, Op(Opcode::kDiv, size_in, F(2)), share);
    }
    const ValueId centre = Op(Opcode::kDiv, Op(Opcode::kAdd, x, F(0.5)), scale);
    const ValueId source = Op(Opcode::kSub, Op(Opcode::kAdd, offset, centre), F(0.5));
    return rule == "pytorch_half_pixel" ? unless_single(source) : source;
  }

  ValueId Rounded(ValueId x) {
    const std::string rule = StringOr(node_, "rounding", "round_prefer_floor");
    if (rule == "floor") return b().Scalar(Opcode::kFloor, {x});
    if (rule == "ceil") return b().Scalar(Opcode::kCeil, {x});
    if (rule == "round_prefer_ceil") {
      return b().Scalar(Opcode::kFloor, {Op(Opcode::kAdd, x, F(0.5))});
    }
    return b().Scalar(Opcode::kCeil, {Op(Opcode::kSub, x, F(0.5))});
  }

  Result<Expr> Clamped(ValueId at, ValueId last, Expr extent) {
    at = Op(Opcode::kMin, Op(Opcode::kMax, at, F(0)), last);
    return lowering_.Indirect(b().Convert(at, DType::kI64), extent, node_);
  }

  ValueId CubicWeight(ValueId distance) {
    const auto found = node_.attributes.find("cubic_coefficient");
    const double a = found == node_.attributes.end() ? -0.75 : std::get<double>(found->second);
    const ValueId x = b().Scalar(Opcode::kAbs, {distance});
    // ((a + 2) x - (a + 3)) x x + 1 up to 1, ((a x - 5 a) x + 8 a) x - 4 a up to 2.
    ValueId near = Op(Opcode::kSub, Op(Opcode::kMul, F(a + 2), x), F(a + 3));
    near = Op(Opcode::kAdd, Op(Opcode::kMul, Op(Opcode::kMul, near, x), x), F(1));
    ValueId far = Op(Opcode::kSub, Op(Opcode::kMul, F(a), x), F(5 * a));
    far = Op(Opcode::kAdd, Op(Opcode::kMul, far, x), F(8 * a));
    far = Op(Opcode::kSub, Op(Opcode::kMul, far, x), F(4 * a));
    far = b().Scalar(Opcode::kSelect, {Op(Opcode::kLt, x, F(2)), far, F(0)});
    return b().Scalar(Opcode::kSelect, {Op(Opcode::kLe, x, F(1)), near, far});
  }

  Lowering& lowering_;
  const graph::Node& node_;
};

// Whether a constant holds an infinity or NaN; false of what is computed in the run, and of bytes
// that are not here.
bool HasInfinities(const graph::Module& module, graph::ValueId value) {
  const graph::NodeId producer = module.values[value].producer;
  if (producer == graph::kNone || module.nodes[producer].op->name != "constant") return false;
  const graph::Constant& constant = module.constants[module.nodes[producer].constant];
  if (constant.bytes == nullptr) return false;
  const Result<graph::Tensor> tensor = graph::ReadConstant(constant);
  if (!tensor.ok()) return false;
  for (int64_t i = 0; i < tensor->elements(); ++i) {
    if (!std::isfinite(graph::LoadFloat(*tensor, i))) return true;
  }
  return false;
}

}  // namespace

Status LowerResize(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  HY_TRY(lowering.RealiseForTemplate(node.operands[0]));
  Lowering::Definition d;
  d.form = Lowering::Form::kReduction;
  d.emit = [&lowering, &node](std::span<const Expr> index) -> Result<ValueId> {
    KernelBuilder& b = lowering.builder();
    Coordinates coordinates(lowering, node);
    std::vector<std::vector<Coordinates::Sample>> samples;
    for (size_t axis = 0; axis < index.size(); ++axis) {
      HY_ASSIGN(std::vector<Coordinates::Sample> along, coordinates.SamplesOf(axis, index[axis]));
      samples.push_back(std::move(along));
    }
    const DType type = ComputeType(lowering.TypeOf(node.results[0]).dtype);
    ValueId sum = kNone;
    std::vector<Expr> at;
    // All combinations of the samples of the axes.
    const std::function<Status(ValueId)> descend = [&](ValueId weight) -> Status {
      if (at.size() < samples.size()) {
        for (const Coordinates::Sample& sample : samples[at.size()]) {
          const ValueId both = weight == kNone ? sample.weight
                               : sample.weight == kNone
                                   ? weight
                                   : coordinates.Op(Opcode::kMul, weight, sample.weight);
          at.push_back(sample.index);
          HY_TRY(descend(both));
          at.pop_back();
        }
        return OkStatus();
      }
      HY_ASSIGN(ValueId x, lowering.At(node.operands[0], at));
      if (weight != kNone) {
        // A sample without weight does not spread its NaN or infinity.
        const ValueId counts = coordinates.Op(Opcode::kNe, weight, coordinates.F(0));
        x = b.Scalar(Opcode::kMul, {b.Convert(weight, type), x});
        x = b.Scalar(Opcode::kSelect, {counts, x, b.Float(type, 0)});
      }
      sum = sum == kNone ? x : b.Scalar(Opcode::kAdd, {sum, x});
      return OkStatus();
    };
    HY_TRY(descend(kNone));
    return sum;
  };
  return lowering.Define(node.results[0], node, std::move(d));
}

// result[n, g, m, o...] = sum over c and taps k of x[n, g, c, i...] * w[g, c, m, k...], where
// o = i * stride + k * dilation - pad has a solution i.
Status LowerConvTranspose(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  HY_ASSIGN(const std::vector<int64_t> strides, graph::GetInts(node, "strides"));
  HY_ASSIGN(const std::vector<int64_t> pads, graph::GetInts(node, "pads_low"));
  HY_ASSIGN(const std::vector<int64_t> dilations, graph::GetInts(node, "dilations"));
  const int64_t groups = IntOr(node, "groups", 1);
  for (graph::ValueId v : node.operands) HY_TRY(lowering.RealiseForTemplate(v));
  ExprArena& e = lowering.exprs();
  const std::vector<Expr> x_dims = lowering.TypeOf(node.operands[0]).dims;
  const std::vector<Expr> w_dims = lowering.TypeOf(node.operands[1]).dims;
  const std::vector<Expr> out = lowering.TypeOf(node.results[0]).dims;
  const Expr channels = e.FloorDiv(x_dims[1], e.Const(groups));  // of a group
  std::vector<Expr> extents{channels};
  extents.insert(extents.end(), w_dims.begin() + 2, w_dims.end());
  // Element [n, g, m, o...].
  // A tap that reads nothing adds nothing, also where its weight is infinite: the product with the
  // 0 that is read for it would be NaN. A product that is selected is no contraction, so only
  // weights that are known to need it pay for it.
  const bool selects = HasInfinities(lowering.module(), node.operands[1]);
  const auto element = [&lowering, &node, strides, pads, dilations, x_dims, channels, extents,
                        selects](std::span<const Expr> index) -> Result<ValueId> {
    ExprArena& e = lowering.exprs();
    KernelBuilder& b = lowering.builder();
    return lowering.Reduce(ReduceKind::kSum, extents,
                           [&](std::span<const Expr> tap) -> Result<ValueId> {
                             const Expr channel = e.Add(e.Mul(index[1], channels), tap[0]);
                             std::vector<Expr> at{index[0], channel}, at_w{channel, index[2]};
                             ValueId mask = kNone;
                             const ValueId zero = b.Int(DType::kI64, 0);
                             for (size_t i = 0; i < strides.size(); ++i) {
                               at_w.push_back(tap[i + 1]);
                               const Expr spread = e.Sub(e.Add(index[i + 3], e.Const(pads[i])),
                                                         e.Mul(tap[i + 1], e.Const(dilations[i])));
                               const Expr from = e.FloorDiv(spread, e.Const(strides[i]));
                               const Expr rest = e.Mod(spread, e.Const(strides[i]));
                               if (!e.IsConst(rest, 0)) {
                                 mask = b.And(mask, b.Scalar(Opcode::kEq, {b.Index(rest), zero}));
                               }
                               if (!e.KnownLessOrEqual(e.Const(0), from)) {
                                 mask = b.And(mask, b.Scalar(Opcode::kLe, {zero, b.Index(from)}));
                               }
                               mask = b.And(mask, b.IndexLess(from, x_dims[i + 2]));
                               at.push_back(from);
                             }
                             HY_ASSIGN(const ValueId w, lowering.At(node.operands[1], at_w));
                             if (mask == kNone) {
                               HY_ASSIGN(const ValueId x, lowering.At(node.operands[0], at));
                               return b.Scalar(Opcode::kMul, {x, w});
                             }
                             HY_ASSIGN(ValueId x, lowering.AtMasked(node.operands[0], at, mask));
                             if (!lowering.IsRealised(node.operands[0])) {
                               x = b.Scalar(Opcode::kSelect, {mask, x, b.Float(b.TypeOf(x), 0)});
                             }
                             const ValueId product = b.Scalar(Opcode::kMul, {x, w});
                             if (!selects || mask == kNone) return product;
                             const ValueId none = b.Float(b.TypeOf(product), 0);
                             return b.Scalar(Opcode::kSelect, {mask, product, none});
                           });
  };
  std::vector<Expr> split = out;
  split[1] = w_dims[1];
  split.insert(split.begin() + 1, e.Const(groups));
  return lowering.DefineInto(node.results[0], node, split, element);
}

}  // namespace halyard::loop
