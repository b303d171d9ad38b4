// SPDX-License-Identifier: Apache-2.0
// Ops that change a shape, join or repeat tensors.
#include <algorithm>
#include <numeric>

#include "base/excerpt.h"
#include "base/quantity.h"

#include "compiler/import/onnx_context.h"

namespace halyard::onnx {
namespace {

// The dim that -1 stands for: the operand's elements over the product of the other dims. Equal
// factors are cancelled one by one before anything is divided.
Expr InferredDim(NodeContext& c, std::vector<Expr> from, std::vector<Expr> others) {
  for (auto it = others.begin(); it != others.end();) {
    const auto same = std::find(from.begin(), from.end(), *it);
    if (same == from.end()) {
      ++it;
      continue;
    }
    from.erase(same);
    it = others.erase(it);
  }
  const auto product = [&](const std::vector<Expr>& dims) {
    Expr all = c.Const(1);
    for (const Expr dim : dims) all = c.exprs().Mul(all, dim);
    return all;
  };
  const Expr below = product(others);
  if (c.exprs().IsConst(below, 1)) return product(from);
  if (c.exprs().IsConst(below, 0)) return c.Const(0);
  return c.exprs().FloorDiv(product(from), below);
}

std::vector<V> ImportReshape(NodeContext& c) {
  const V x = c.In(0);
  std::vector<Expr> shape = c.ExprsOf(1, "shape");
  const bool allow_zero = c.Int("allowzero", 0) != 0;
  if (!c.ok()) return {};
  const std::vector<Expr> from = c.Dims(x);
  std::optional<size_t> inferred;
  for (size_t i = 0; i < shape.size(); ++i) {
    const std::optional<int64_t> value = c.exprs().AsConst(shape[i]);
    if (!value.has_value()) continue;
    if (*value == 0 && !allow_zero) {
      if (i >= from.size()) {
        c.Fail(InvalidArgument("Shape element {} is 0, which copies a dim; the input has {}.", i,
                               Counted(from.size(), "dimension")));
        return {};
      }
      shape[i] = from[i];
    } else if (*value == -1) {
      if (inferred.has_value()) {
        c.Fail(InvalidArgument("Shape elements {} and {} are both -1; one may be.", *inferred, i));
        return {};
      }
      inferred = i;
    } else if (*value < 0) {
      c.Fail(InvalidArgument("Shape element {} is {}; it must be at least -1.", i, *value));
      return {};
    }
  }
  if (inferred.has_value()) {
    std::vector<Expr> others = shape;
    others.erase(others.begin() + static_cast<int64_t>(*inferred));
    shape[*inferred] = InferredDim(c, from, others);
  }
  return {c.ReshapeTo(x, shape)};
}

std::vector<V> ImportFlatten(NodeContext& c) {
  const V x = c.In(0);
  int64_t axis = c.Int("axis", 1);
  const int64_t rank = c.Rank(x);
  if (axis != rank) axis = c.Axis(axis, rank);
  if (!c.ok()) return {};
  Expr before = c.Const(1);
  Expr after = c.Const(1);
  const std::vector<Expr> dims = c.Dims(x);
  for (int64_t i = 0; i < rank; ++i) {
    Expr& part = i < axis ? before : after;
    part = c.exprs().Mul(part, dims[static_cast<size_t>(i)]);
  }
  return {c.ReshapeTo(x, {before, after})};
}

std::vector<V> ImportSqueeze(NodeContext& c) {
  const V x = c.In(0);
  std::optional<std::vector<int64_t>> axes = c.IntsFrom("axes", 1);
  if (!c.ok()) return {};
  if (!axes.has_value()) {
    axes.emplace();
    const std::vector<Expr> dims = c.Dims(x);
    for (size_t i = 0; i < dims.size(); ++i) {
      if (!c.exprs().AsConst(dims[i]).has_value()) {
        c.Fail(Unimplemented("Without axes every dim must be a number; dim {} is {}.", i,
                             c.exprs().Format(dims[i])));
        return {};
      }
      if (c.exprs().IsConst(dims[i], 1)) axes->push_back(static_cast<int64_t>(i));
    }
  }
  return {c.Squeeze(x, *axes)};
}

std::vector<V> ImportUnsqueeze(NodeContext& c) {
  const std::optional<std::vector<int64_t>> axes = c.IntsFrom("axes", 1);
  if (c.ok() && !axes.has_value())
    c.Fail(InvalidArgument("Neither attribute nor input 'axes' is given."));
  if (!c.ok()) return {};
  return {c.Unsqueeze(c.In(0), *axes)};
}

std::vector<V> ImportTranspose(NodeContext& c) {
  const V x = c.In(0);
  std::vector<int64_t> perm = c.Ints("perm");
  const auto rank = static_cast<size_t>(c.Rank(x));
  if (!c.HasAttribute("perm")) {
    for (size_t i = rank; i-- > 0;) perm.push_back(static_cast<int64_t>(i));
  }
  if (!c.ok()) return {};
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  bool is_permutation = sorted.size() == rank;
  for (size_t i = 0; i < sorted.size(); ++i) is_permutation &= sorted[i] == static_cast<int64_t>(i);
  if (!is_permutation) {
    c.Fail(InvalidArgument("Attribute 'perm' is [{}]; it must permute 0 to {}.", Excerpt(perm),
                           static_cast<int64_t>(rank) - 1));
    return {};
  }
  return {c.Transpose(x, perm)};
}

std::vector<V> ImportConcat(NodeContext& c) {
  std::vector<V> parts;
  for (size_t i = 0; i < c.input_count(); ++i) parts.push_back(c.In(i));
  if (!c.ok()) return {};
  return {c.Concat(parts, c.Axis(c.Int("axis", 1), c.Rank(parts[0])))};
}

std::vector<V> ImportSplit(NodeContext& c) {
  const V x = c.In(0);
  const int64_t axis = c.Axis(c.Int("axis", 0), c.Rank(x));
  if (!c.ok()) return {};
  const Expr dim = c.Dims(x)[static_cast<size_t>(axis)];
  const auto outputs = static_cast<int64_t>(c.node.output.size());
  std::vector<Expr> sizes;
  bool is_whole = false;  // the parts are all of the axis, whatever its size
  if (c.HasAttribute("split")) {
    const std::vector<int64_t> split = c.Ints("split");
    sizes = c.Consts(split);
  } else if (c.Has(1)) {
    sizes = c.ExprsOf(1, "split");
  } else {
    const int64_t parts = c.Int("num_outputs", outputs);
    if (parts != outputs || parts < 1) {
      c.Fail(InvalidArgument("Attribute 'num_outputs' is {}; the node has {}.", parts,
                             Counted(outputs, "output")));
      return {};
    }
    // Only where their number is an attribute may the last part be smaller.
    const bool are_equal = !c.HasAttribute("num_outputs");
    const int64_t total = c.exprs().AsConst(dim).value_or(0);
    if (are_equal && total % parts != 0) {
      c.Fail(InvalidArgument("Dim {} of axis {} has no {} equal parts.", total, axis, parts));
      return {};
    }
    if (are_equal) {
      sizes.assign(static_cast<size_t>(parts), c.exprs().FloorDiv(dim, c.Const(parts)));
    } else {
      is_whole = true;
      const Expr size = c.exprs().CeilDiv(dim, c.Const(parts));
      for (int64_t i = 0; i < parts; ++i) {
        const Expr rest = c.exprs().Sub(dim, c.exprs().Mul(c.Const(i), size));
        sizes.push_back(i == 0 ? size : c.exprs().Max(c.Const(0), c.exprs().Min(size, rest)));
      }
    }
  }
  if (!c.ok()) return {};
  if (static_cast<int64_t>(sizes.size()) != outputs) {
    c.Fail(InvalidArgument("Input 'split' has {}; the node has {}.",
                           Counted(sizes.size(), "element"), Counted(outputs, "output")));
    return {};
  }
  Expr sum = c.Const(0);
  for (const Expr size : sizes) {
    if (c.exprs().AsConst(size).value_or(0) < 0) {
      c.Fail(
          InvalidArgument("Input 'split' holds {}; sizes are at least 0.", c.exprs().Format(size)));
      return {};
    }
    sum = c.exprs().Add(sum, size);
  }
  if (c.exprs().AsConst(sum).has_value() && c.exprs().AsConst(dim).has_value() && sum != dim) {
    c.Fail(InvalidArgument("The parts have {} elements along axis {}; the input has {}.",
                           c.exprs().Format(sum), axis, c.exprs().Format(dim)));
    return {};
  }
  // Nothing may be left over: the reshape takes the axis as large as its parts.
  std::vector<Expr> whole = c.Dims(x);
  if (!is_whole && !c.exprs().KnownEqual(sum, dim)) whole[static_cast<size_t>(axis)] = sum;
  const V parts = c.ReshapeTo(x, whole);
  std::vector<V> out;
  Expr start = c.Const(0);
  for (const Expr size : sizes) {
    out.push_back(c.SliceAxis(parts, axis, start, size));
    start = c.exprs().Add(start, size);
  }
  return out;
}

std::vector<V> ImportExpand(NodeContext& c) {
  const V x = c.In(0);
  const std::vector<Expr> shape = c.ExprsOf(1, "shape");
  if (!c.ok()) return {};
  // Where two sizes are open, they are taken as equal: the reshape records it, and with it that
  // neither is a 1 that the other repeats.
  std::vector<Expr> own = c.Dims(x);
  for (size_t i = 0; i < std::min(own.size(), shape.size()); ++i) {
    Expr& dim = own[own.size() - 1 - i];
    const Expr wanted = shape[shape.size() - 1 - i];
    const bool is_open = !c.exprs().AsConst(dim) || !c.exprs().AsConst(wanted);
    if (is_open && !c.exprs().IsConst(dim, 1) && !c.exprs().IsConst(wanted, 1)) dim = wanted;
  }
  const Result<std::vector<Expr>> dims = c.b.BroadcastShape(own, shape);
  if (!dims.ok()) {
    c.Fail(dims.status());
    return {};
  }
  return {c.BroadcastTo(c.ReshapeTo(x, own), *dims)};
}

std::vector<V> ImportTile(NodeContext& c) {
  const V x = c.In(0);
  const std::vector<Expr> repeats = c.ExprsOf(1, "repeats");
  if (!c.ok()) return {};
  const std::vector<Expr> dims = c.Dims(x);
  if (repeats.size() != dims.size()) {
    c.Fail(InvalidArgument("Input 'repeats' has {}; the input has {}.",
                           Counted(repeats.size(), "element"), Counted(dims.size(), "dimension")));
    return {};
  }
  // Each axis with repeats becomes [1, d], is broadcast to [r, d] and merged to r * d.
  std::vector<Expr> split;
  std::vector<Expr> wide;
  std::vector<Expr> merged;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (c.exprs().AsConst(repeats[i]).value_or(0) < 0) {
      c.Fail(InvalidArgument("Input 'repeats' holds {}; it must be at least 0.",
                             c.exprs().Format(repeats[i])));
      return {};
    }
    if (!c.exprs().IsConst(repeats[i], 1)) {
      split.push_back(c.Const(1));
      wide.push_back(repeats[i]);
    }
    split.push_back(dims[i]);
    wide.push_back(dims[i]);
    merged.push_back(c.exprs().Mul(repeats[i], dims[i]));
  }
  if (merged == dims) return {x};
  return {c.ReshapeTo(c.BroadcastTo(c.ReshapeTo(x, split), wide), merged)};
}

int64_t BlockSize(NodeContext& c) {
  constexpr int64_t kMost = int64_t{1} << 16;  // its square is far from 2^63
  const int64_t block = c.Int("blocksize", 0);
  if (block > kMost) {
    c.Fail(OutOfRange("Attribute 'blocksize' is {}; the limit is {}.", block, kMost));
  }
  return block;
}

// x[n, c, h, w] with blocks of channels moved into space, or back.
std::vector<V> ImportDepthToSpace(NodeContext& c) {
  const V x = c.In(0);
  const int64_t block = BlockSize(c);
  const std::string mode = c.String("mode", "DCR");
  if (!c.ok()) return {};
  const std::vector<Expr> d = c.Dims(x);
  if (d.size() != 4 || block < 1) {
    c.Fail(InvalidArgument("The input has {} and blocksize is {}; they must be 4 and at least 1.",
                           Counted(d.size(), "dimension"), block));
    return {};
  }
  ExprArena& e = c.exprs();
  const Expr k = c.Const(block);
  if (e.AsConst(d[1]).value_or(0) % (block * block) != 0) {
    c.Fail(InvalidArgument("The {} channels are not a multiple of blocksize squared, {}.",
                           e.Format(d[1]), block * block));
    return {};
  }
  const Expr depth = e.FloorDiv(d[1], c.Const(block * block));
  V y;
  if (mode == "DCR") {
    y = c.Transpose(c.ReshapeTo(x, {d[0], k, k, depth, d[2], d[3]}), {0, 3, 4, 1, 5, 2});
  } else if (mode == "CRD") {
    y = c.Transpose(c.ReshapeTo(x, {d[0], depth, k, k, d[2], d[3]}), {0, 1, 4, 2, 5, 3});
  } else {
    c.Fail(InvalidArgument("Attribute 'mode' is '{}'; it must be DCR or CRD.", mode));
    return {};
  }
  return {c.ReshapeTo(y, {d[0], depth, e.Mul(d[2], k), e.Mul(d[3], k)})};
}

std::vector<V> ImportSpaceToDepth(NodeContext& c) {
  const V x = c.In(0);
  const int64_t block = BlockSize(c);
  const std::vector<Expr> d = c.Dims(x);
  if (!c.ok()) return {};
  if (d.size() != 4 || block < 1) {
    c.Fail(InvalidArgument("The input has {} and blocksize is {}; they must be 4 and at least 1.",
                           Counted(d.size(), "dimension"), block));
    return {};
  }
  ExprArena& e = c.exprs();
  const Expr k = c.Const(block);
  const Expr h = e.FloorDiv(d[2], k);
  const Expr w = e.FloorDiv(d[3], k);
  const std::string mode = c.String("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") {
    c.Fail(InvalidArgument("Attribute 'mode' is '{}'; it must be DCR or CRD.", mode));
  }
  const V split = c.ReshapeTo(x, {d[0], d[1], h, k, w, k});
  const V y = mode == "DCR" ? c.Transpose(split, {0, 3, 5, 1, 2, 4})
                            : c.Transpose(split, {0, 1, 3, 5, 2, 4});
  return {c.ReshapeTo(y, {d[0], e.Mul(d[1], c.Const(block * block)), h, w})};
}

// Inference: the input itself, and a mask of ones.
std::vector<V> ImportDropout(NodeContext& c) {
  const V x = c.In(0);
  if (c.Has(2)) {
    const std::optional<Tensor> training = c.Known(c.In(2));
    if (!training.has_value() || graph::LoadInt(*training, 0) != 0) {
      // A ratio of 0 drops nothing.
      const std::optional<Tensor> ratio = c.Has(1) ? c.Known(c.In(1)) : std::nullopt;
      if (!ratio.has_value() || ratio->elements() != 1 || graph::LoadFloat(*ratio, 0) != 0) {
        c.Fail(Unimplemented(
            "Input 'training_mode' may be true; only inference and a ratio of 0 are supported."));
        return {};
      }
    }
  }
  std::vector<V> out = {x};
  if (c.WantsOutput(1)) {
    const DType dtype = c.opset < 10 ? c.DTypeOf(x) : DType::kBool;
    out.push_back(c.BroadcastTo(c.Number(dtype, 1), c.Dims(x)));
  }
  return out;
}

constexpr ImportRow kShapeRows[] = {
    {"Concat", 4, 0, 1, -1, 1, "axis", ImportConcat},
    {"DepthToSpace", 1, 0, 1, 1, 1, "blocksize mode", ImportDepthToSpace},
    {"Dropout", 7, 0, 1, 3, 2, "ratio seed is_test", ImportDropout, "inference only"},
    {"Expand", 8, 0, 2, 2, 1, "", ImportExpand, "shape known before the run"},
    {"Flatten", 1, 0, 1, 1, 1, "axis", ImportFlatten},
    {"Reshape", 5, 0, 2, 2, 1, "allowzero", ImportReshape, "shape known before the run"},
    {"SpaceToDepth", 1, 0, 1, 1, 1, "blocksize mode", ImportSpaceToDepth},
    {"Split", 2, 0, 1, 2, -1, "axis num_outputs split", ImportSplit},
    {"Squeeze", 1, 0, 1, 2, 1, "axes", ImportSqueeze, "axes known before the run"},
    {"Tile", 6, 0, 2, 2, 1, "", ImportTile, "repeats known before the run"},
    {"Transpose", 1, 0, 1, 1, 1, "perm", ImportTranspose},
    {"Unsqueeze", 1, 0, 1, 2, 1, "axes", ImportUnsqueeze, "axes known before the run"},
};

}  // namespace

std::span<const ImportRow> ShapeRows() { return kShapeRows; }

}  // namespace halyard::onnx
