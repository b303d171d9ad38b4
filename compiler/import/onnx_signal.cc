// SPDX-License-Identifier: Apache-2.0
// Windows and discrete Fourier transforms. A transform is a product with a matrix of cosines and
// sines, so its length is limited.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/quantity.h"
#include "compiler/import/onnx_context.h"
#include "compiler/import/onnx_tensor.h"

namespace halyard::onnx {
namespace {

constexpr int64_t kMostPoints = 4096;  // a matrix of 64 MiB in f32

// The cosines (or sines) of 2 pi j k / n for j below `rows` and k below `columns`, times
// `factor(j)`.
template <typename Factor>
V Waves(NodeContext& c, DType dtype, int64_t rows, int64_t columns, int64_t n, bool is_sine,
        const Factor& factor) {
  if (!c.ok()) return {&c, kNone};
  std::vector<double> values;
  values.reserve(static_cast<size_t>(rows * columns));
  for (int64_t j = 0; j < rows; ++j) {
    for (int64_t k = 0; k < columns; ++k) {
      const double angle =
          2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
      values.push_back((is_sine ? std::sin(angle) : std::cos(angle)) * factor(j));
    }
  }
  return c.Take(c.b.ConstantOf(graph::TensorOfFloats(dtype, {rows, columns}, values)));
}

// The transform of x[..., n, 1 or 2] along the last axis but one.
V Transform(NodeContext& c, V x, int64_t n, bool is_inverse, bool is_onesided) {
  if (!c.ok()) return x;
  const std::vector<Expr> dims = c.Dims(x);
  const auto rank = static_cast<int64_t>(dims.size());
  const int64_t parts = c.exprs().AsConst(dims.back()).value_or(0);
  const bool is_real_result = is_inverse && is_onesided;
  if (parts != 1 && parts != 2) {
    return c.Fail(InvalidArgument("The last dim is {}; it must be 1 (real) or 2 (complex).",
                                  c.exprs().Format(dims.back())));
  }
  if (n < 1 || n > kMostPoints) {
    return c.Fail(
        Unimplemented("The transform has {} points; 1 to {} are supported.", n, kMostPoints));
  }
  if (is_onesided && !is_inverse && parts == 2) {
    return c.Fail(
        InvalidArgument("A one-sided transform needs a real input; this one is complex."));
  }
  const int64_t half = n / 2 + 1;
  const int64_t rows = is_real_result ? half : n;
  const int64_t columns = is_onesided && !is_inverse ? half : n;
  const DType dtype = c.DTypeOf(x);
  const DType wide = c.ComputeDType(x);
  // As many points as the matrix has rows: zeros behind, or the first ones.
  const std::optional<int64_t> given = c.exprs().AsConst(dims[dims.size() - 2]);
  if (!given.has_value()) {
    return c.Fail(Unimplemented("The transformed dim is {}; it must be a number.",
                                c.exprs().Format(dims[dims.size() - 2])));
  }
  x = c.Cast(x, wide);
  if (*given > rows) {
    x = c.SliceAxis(x, rank - 2, c.Const(0), c.Const(rows));
  } else if (*given < rows) {
    const std::vector<Expr> none(dims.size(), c.Const(0));
    std::vector<Expr> high = none;
    high[dims.size() - 2] = c.Const(rows - *given);
    x = c.Op("pad", {x}, {{"low", none}, {"high", high}, {"mode", std::string("constant")}});
  }
  std::vector<Expr> flat = {c.Const(1), c.Const(rows)};
  for (size_t i = 0; i + 2 < dims.size(); ++i) flat[0] = c.exprs().Mul(flat[0], dims[i]);
  const auto part = [&](int64_t which) {
    return c.ReshapeTo(c.SliceAxis(x, rank - 1, c.Const(which), c.Const(1)), flat);
  };
  // A one-sided spectrum stands for its mirror image too.
  const auto factor = [&](int64_t j) {
    const double scale = is_inverse ? 1.0 / static_cast<double>(n) : 1.0;
    return is_real_result && j != 0 && 2 * j != n ? 2 * scale : scale;
  };
  const V cosines = Waves(c, wide, rows, columns, n, false, factor);
  const V sines = Waves(c, wide, rows, columns, n, true, factor);
  const auto times = [&](V v, V waves) { return c.Op("matmul", {v, waves}); };
  // e^-ia = cos a - i sin a; the inverse turns the other way.
  const double sign = is_inverse ? -1 : 1;
  const V real = part(0);
  V out_real = times(real, cosines);
  V out_imaginary = -sign * times(real, sines);
  if (parts == 2) {
    const V imaginary = part(1);
    out_real = out_real + sign * times(imaginary, sines);
    out_imaginary = out_imaginary + times(imaginary, cosines);
  }
  std::vector<Expr> out = dims;
  out[out.size() - 2] = c.Const(columns);
  out.back() = c.Const(1);
  out_real = c.ReshapeTo(c.Cast(out_real, dtype), out);
  if (is_real_result) return out_real;
  const V both[] = {out_real, c.ReshapeTo(c.Cast(out_imaginary, dtype), out)};
  return c.Concat(both, rank - 1);
}

int64_t OneNumber(NodeContext& c, size_t input, std::string_view what) {
  const std::vector<int64_t> values = c.IntsOf(input, what);
  if (!c.ok()) return 0;
  if (values.size() != 1) {
    c.Fail(InvalidArgument("Input '{}' has {}; it must have 1.", what,
                           Counted(values.size(), "element")));
    return 0;
  }
  return values[0];
}

std::vector<V> ImportDft(NodeContext& c) {
  V x = c.In(0);
  const bool is_inverse = c.Int("inverse", 0) != 0;
  const bool is_onesided = c.Int("onesided", 0) != 0;
  int64_t axis = c.opset < 20 ? c.Int("axis", 1) : c.Has(2) ? OneNumber(c, 2, "axis") : -2;
  axis = c.Axis(axis, c.Rank(x));
  if (!c.ok()) return {};
  const int64_t rank = c.Rank(x);
  if (axis == rank - 1) {
    c.Fail(InvalidArgument("Axis {} is the last one, which holds the parts of a complex number.",
                           axis));
    return {};
  }
  const Expr dim = c.Dims(x)[static_cast<size_t>(axis)];
  int64_t n = 0;
  if (c.Has(1)) {
    n = OneNumber(c, 1, "dft_length");
  } else if (const std::optional<int64_t> points = c.exprs().AsConst(dim)) {
    n = is_inverse && is_onesided ? 2 * (*points - 1) : *points;
  } else {
    c.Fail(Unimplemented("The transformed dim is {}; it must be a number.", c.exprs().Format(dim)));
  }
  if (!c.ok()) return {};
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), int64_t{0});
  std::swap(perm[static_cast<size_t>(axis)], perm[static_cast<size_t>(rank) - 2]);
  x = c.Transpose(x, perm);
  return {c.Transpose(Transform(c, x, n, is_inverse, is_onesided), perm)};
}

std::vector<V> ImportStft(NodeContext& c) {
  const V signal = c.In(0);
  const int64_t step = OneNumber(c, 1, "frame_step");
  if (!c.ok()) return {};
  int64_t length = c.Has(3) ? OneNumber(c, 3, "frame_length") : 0;
  if (!c.Has(3) && c.Has(2)) {
    const std::vector<int64_t> dims = c.ConstDims(c.In(2), "Input 'window'");
    length = dims.size() == 1 ? dims[0] : 0;
  }
  if (!c.ok()) return {};
  if (step < 1 || length < 1 || c.Rank(signal) != 3) {
    c.Fail(
        InvalidArgument("The signal has {}, frame step {} and frame length {}; they need 3 and at "
                        "least 1.",
                        Counted(c.Rank(signal), "dimension"), step, length));
    return {};
  }
  ExprArena& e = c.exprs();
  const std::vector<Expr> dims = c.Dims(signal);
  if (e.AsConst(dims[1]).value_or(length) < length) {
    c.Fail(
        InvalidArgument("The signal has {} samples; a frame has {}.", e.Format(dims[1]), length));
    return {};
  }
  const Expr frames = e.Add(e.FloorDiv(e.Sub(dims[1], c.Const(length)), c.Const(step)), c.Const(1));
  const std::vector<Expr> shape = {frames, c.Const(length)};
  const V at =
      c.Iota(DType::kI64, shape, 0) * static_cast<double>(step) + c.Iota(DType::kI64, shape, 1);
  V x = c.Op("gather", {signal, at}, {{"axis", int64_t{1}}});
  if (c.Has(2)) x = x * c.ReshapeTo(c.In(2), {c.Const(length), c.Const(1)});
  return {Transform(c, x, length, false, c.Int("onesided", 1) != 0)};
}

std::vector<V> ImportWindow(NodeContext& c) {
  const std::vector<Expr> size = c.ExprsOf(0, "size");
  const Result<DType> dtype = DTypeOf(c.Int("output_datatype", 1));
  if (!dtype.ok()) c.Fail(dtype.status());
  if (!c.ok()) return {};
  if (size.size() != 1 || c.exprs().AsConst(size[0]).value_or(0) < 0) {
    c.Fail(InvalidArgument("Input 'size' must be one number of at least 0."));
    return {};
  }
  const DType wide = *dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const Expr period = c.Int("periodic", 1) != 0
                          ? size[0]
                          : c.exprs().Max(c.exprs().Sub(size[0], c.Const(1)), c.Const(1));
  const V angle =
      c.Iota(wide, {size[0]}, 0) * (2 * std::numbers::pi) / c.Cast(c.Symbolic({period}, {}), wide);
  const auto wave = [&](double times) { return c.Unary("cos", angle * times); };
  V y;
  if (c.node.op_type == "HannWindow") {
    y = 0.5 - 0.5 * wave(1);
  } else if (c.node.op_type == "HammingWindow") {
    y = 25.0 / 46 - 21.0 / 46 * wave(1);
  } else {
    y = 0.42 - 0.5 * wave(1) + 0.08 * wave(2);
  }
  return {c.Cast(y, *dtype)};
}

constexpr ImportRow kSignalRows[] = {
    {"BlackmanWindow", 17, 0, 1, 1, 1, "output_datatype periodic", ImportWindow,
     "size known before the run"},
    {"DFT", 17, 0, 1, 3, 1, "axis inverse onesided", ImportDft,
     "length and axis known before the run; at most 4096 points"},
    {"HammingWindow", 17, 0, 1, 1, 1, "output_datatype periodic", ImportWindow,
     "size known before the run"},
    {"HannWindow", 17, 0, 1, 1, 1, "output_datatype periodic", ImportWindow,
     "size known before the run"},
    {"STFT", 17, 0, 2, 4, 1, "onesided", ImportStft,
     "step and length known before the run; at most 4096 points"},
};

}  // namespace

std::span<const ImportRow> SignalRows() { return kSignalRows; }

}  // namespace halyard::onnx
