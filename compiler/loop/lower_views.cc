// SPDX-License-Identifier: Apache-2.0
// Lowering of views and of reads at indices that are data: rewritten indices, masks and checked
// symbols.
#include <algorithm>

#include "compiler/loop/index_map.h"
#include "compiler/loop/lower_ops.h"
#include "compiler/ops/op_def.h"

namespace halyard::loop {

using kernel::Opcode;

namespace {

Lowering::Definition View(Lowering& lowering, const graph::Node& node,
                          std::function<std::vector<Expr>(std::span<const Expr>)> map) {
  Lowering::Definition d;
  d.form = Lowering::Form::kView;
  d.ops = 0;
  d.emit = [&lowering, &node, map = std::move(map)](std::span<const Expr> index) {
    return lowering.At(node.operands[0], map(index));
  };
  return d;
}

}  // namespace

Status LowerBroadcast(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  const std::vector<Expr> from = lowering.TypeOf(node.operands[0]).dims;
  const std::vector<Expr> to = lowering.TypeOf(node.results[0]).dims;
  size_t lead = to.size() - from.size();
  bool repeats = false;
  for (size_t i = 0; i < to.size(); ++i) {
    repeats |= i < lead ? !lowering.exprs().IsConst(to[i], 1) : from[i - lead] != to[i];
  }
  Lowering::Definition d =
      View(lowering, node, [&lowering, from, lead](std::span<const Expr> index) {
        std::vector<Expr> at;
        for (size_t i = 0; i < from.size(); ++i) {
          at.push_back(lowering.exprs().IsConst(from[i], 1) ? from[i] : index[i + lead]);
          if (lowering.exprs().IsConst(from[i], 1)) at.back() = lowering.exprs().Const(0);
        }
        return at;
      });
  if (repeats) d.form = Lowering::Form::kExpand;
  return lowering.Define(node.results[0], node, std::move(d));
}

Status LowerReshape(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  const std::vector<Expr> from = lowering.TypeOf(node.results[0]).dims;
  const std::vector<Expr> to = lowering.TypeOf(node.operands[0]).dims;
  return lowering.Define(node.results[0], node,
                         View(lowering, node, [&lowering, from, to](std::span<const Expr> index) {
                           return ReshapeIndex(lowering.exprs(), from, index, to);
                         }));
}

Status LowerTranspose(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  HY_ASSIGN(std::vector<int64_t> perm, graph::GetInts(node, "perm"));
  return lowering.Define(node.results[0], node,
                         View(lowering, node, [perm](std::span<const Expr> index) {
                           std::vector<Expr> at(index.size());
                           for (size_t i = 0; i < index.size(); ++i)
                             at[static_cast<size_t>(perm[i])] = index[i];
                           return at;
                         }));
}

Status LowerSlice(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  HY_ASSIGN(std::vector<Expr> starts, graph::GetExprs(node, "starts"));
  HY_ASSIGN(std::vector<int64_t> steps, graph::GetInts(node, "steps"));
  return lowering.Define(
      node.results[0], node,
      View(lowering, node, [&lowering, starts, steps](std::span<const Expr> index) {
        ExprArena& e = lowering.exprs();
        std::vector<Expr> at;
        for (size_t i = 0; i < index.size(); ++i) {
          at.push_back(e.Add(starts[i], e.Mul(index[i], e.Const(steps[i]))));
        }
        return at;
      }));
}

Status LowerPad(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  HY_ASSIGN(std::vector<Expr> low, graph::GetExprs(node, "low"));
  std::string mode = StringOr(node, "mode", "constant");
  const std::vector<Expr> dims = lowering.TypeOf(node.operands[0]).dims;
  ExprArena& e = lowering.exprs();
  if (mode != "constant") {
    return lowering.Define(
        node.results[0], node,
        View(lowering, node, [&e, low, dims, mode](std::span<const Expr> index) {
          std::vector<Expr> at;
          Expr zero = e.Const(0), one = e.Const(1);
          for (size_t i = 0; i < index.size(); ++i) {
            Expr x = e.Sub(index[i], low[i]);
            Expr last = e.Sub(dims[i], one);
            if (mode == "edge") {
              x = e.Min(e.Max(x, zero), last);
            } else if (mode == "reflect") {
              x = e.Max(x, e.Sub(zero, x));                            // |x|
              x = e.Sub(last, e.Max(e.Sub(x, last), e.Sub(last, x)));  // last - |x - last|
            } else {
              x = e.Mod(x, dims[i]);
            }
            at.push_back(x);
          }
          return at;
        }));
  }
  Lowering::Definition d;
  d.form = Lowering::Form::kView;
  d.ops = 2;
  d.emit = [&lowering, &node, low, dims](std::span<const Expr> index) -> Result<ValueId> {
    KernelBuilder& b = lowering.builder();
    ExprArena& e = lowering.exprs();
    std::vector<Expr> at;
    ValueId mask = kNone;
    for (size_t i = 0; i < index.size(); ++i) {
      at.push_back(e.Sub(index[i], low[i]));
      if (!e.KnownLessOrEqual(e.Const(0), at[i])) {
        mask = b.And(mask, b.Scalar(Opcode::kLe, {b.Int(DType::kI64, 0), b.Index(at[i])}));
      }
      mask = b.And(mask, b.IndexLess(at[i], dims[i]));
    }
    if (mask == kNone) return lowering.At(node.operands[0], at);
    DType type = ComputeType(lowering.TypeOf(node.results[0]).dtype);
    HY_ASSIGN(ValueId x, lowering.AtMasked(node.operands[0], at, mask));
    ValueId filler = b.Constant(type, 0);
    if (node.operands.size() > 1 && node.operands[1] != graph::kNone) {
      std::vector<Expr> none(lowering.TypeOf(node.operands[1]).dims.size(), e.Const(0));
      HY_ASSIGN(filler, lowering.At(node.operands[1], none));
    }
    return b.Scalar(Opcode::kSelect, {mask, x, filler});
  };
  return lowering.Define(node.results[0], node, std::move(d));
}

namespace {

// What stands at [begin, end) of the axis along which a concat joins.
struct Piece {
  Expr begin, end;
  // The element at an index within the piece; `mask` as in AtMasked, or kNone.
  std::function<Result<ValueId>(std::span<const Expr> index, ValueId mask)> read;
};

// Beyond it a kernel takes more than linear time to compile.
constexpr size_t kMostPieces = 128;

// From the last piece to the first: select(i < end of piece, piece, what follows).
Result<ValueId> SelectPiece(Lowering& lowering, DType dtype, std::span<const Piece> all,
                            size_t axis, std::span<const Expr> index) {
  KernelBuilder& b = lowering.builder();
  ExprArena& e = lowering.exprs();
  std::vector<const Piece*> pieces;
  for (const Piece& piece : all) {
    const bool is_outside =
        e.KnownLess(index[axis], piece.begin) || e.KnownLessOrEqual(piece.end, index[axis]);
    if (!is_outside) pieces.push_back(&piece);
  }
  ValueId result = kNone;
  for (size_t i = pieces.size(); i-- > 0;) {
    std::vector<Expr> at(index.begin(), index.end());
    at[axis] = e.Sub(index[axis], pieces[i]->begin);
    const ValueId is_before =
        i + 1 == pieces.size() ? kNone : b.IndexLess(index[axis], pieces[i]->end);
    ValueId mask = is_before;
    if (i > 0) {
      mask = b.And(mask, b.Scalar(Opcode::kLe, {b.Index(pieces[i]->begin), b.Index(index[axis])}));
    }
    HY_ASSIGN(const ValueId piece, pieces[i]->read(at, mask));
    result = is_before == kNone ? piece : b.Scalar(Opcode::kSelect, {is_before, piece, result});
  }
  return result == kNone ? b.Constant(ComputeType(dtype), 0) : result;
}

// Joins each kMostPieces pieces into one of a temporary, by a kernel of its own.
Status JoinInGroups(Lowering& lowering, const graph::Node& node, size_t axis,
                    std::vector<Piece>& pieces) {
  ExprArena& e = lowering.exprs();
  const graph::TensorType type = lowering.TypeOf(node.results[0]);
  const std::string name =
      node.name.empty() ? lowering.module().values[node.results[0]].name : node.name;
  std::vector<Piece> joined;
  for (size_t first = 0; first < pieces.size(); first += kMostPieces) {
    const Expr begin = pieces[first].begin;
    const size_t end = std::min(pieces.size(), first + kMostPieces);
    std::vector<Piece> group(pieces.begin() + static_cast<ptrdiff_t>(first),
                             pieces.begin() + static_cast<ptrdiff_t>(end));
    for (Piece& piece : group) {
      piece.begin = e.Sub(piece.begin, begin);
      piece.end = e.Sub(piece.end, begin);
    }
    std::vector<Expr> dims = type.dims;
    dims[axis] = group.back().end;
    const BufferId buffer = lowering.Temporary(name + "_part", type.dtype, dims);
    HY_TRY(lowering.EmitNest(name + "_part", dims, [&](std::span<const Expr> index) -> Status {
      lowering.AddNode(node);
      HY_ASSIGN(const ValueId value, SelectPiece(lowering, type.dtype, group, axis, index));
      lowering.builder().Store(buffer, FlatIndex(e, dims, index),
                               lowering.builder().Convert(value, type.dtype));
      return OkStatus();
    }));
    const auto read = [&lowering, buffer, dims, dtype = type.dtype](
                          std::span<const Expr> index, ValueId mask) -> Result<ValueId> {
      KernelBuilder& b = lowering.builder();
      const ValueId other = mask == kNone ? kNone : b.Constant(dtype, 0);
      const ValueId value = b.Load(buffer, FlatIndex(lowering.exprs(), dims, index), mask, other);
      return b.Convert(value, ComputeType(dtype));
    };
    joined.push_back({begin, pieces[end - 1].end, read});
  }
  pieces = std::move(joined);
  return OkStatus();
}

}  // namespace

Status LowerConcat(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  HY_ASSIGN(const int64_t axis, graph::GetInt(node, "axis"));
  const auto a = static_cast<size_t>(axis);
  const DType dtype = lowering.TypeOf(node.results[0]).dtype;
  std::vector<Piece> pieces;
  Expr begin = lowering.exprs().Const(0);
  for (const graph::ValueId v : node.operands) {
    const Expr end = lowering.exprs().Add(begin, lowering.TypeOf(v).dims[a]);
    pieces.push_back({begin, end, [&lowering, v](std::span<const Expr> index, ValueId mask) {
                        return mask == kNone ? lowering.At(v, index)
                                             : lowering.AtMasked(v, index, mask);
                      }});
    begin = end;
  }
  if (pieces.size() > kMostPieces) {
    while (pieces.size() > kMostPieces) HY_TRY(JoinInGroups(lowering, node, a, pieces));
    const std::vector<Expr> dims = lowering.TypeOf(node.results[0]).dims;
    return lowering.DefineInto(node.results[0], node, dims, [&](std::span<const Expr> index) {
      return SelectPiece(lowering, dtype, pieces, a, index);
    });
  }
  Lowering::Definition d;
  d.form = pieces.size() == 1 ? Lowering::Form::kView : Lowering::Form::kPointwise;
  d.ops = 2 * (static_cast<int>(pieces.size()) - 1);
  d.emit = [&lowering, dtype, a, pieces](std::span<const Expr> index) {
    return SelectPiece(lowering, dtype, pieces, a, index);
  };
  return lowering.Define(node.results[0], node, std::move(d));
}

Status LowerGather(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  HY_ASSIGN(int64_t axis, graph::GetInt(node, "axis"));
  auto a = static_cast<size_t>(axis);
  size_t rank = lowering.TypeOf(node.operands[1]).dims.size();
  HY_TRY(lowering.RealiseForTemplate(node.operands[0]));
  Lowering::Definition d;
  d.emit = [&lowering, &node, a, rank](std::span<const Expr> index) -> Result<ValueId> {
    HY_ASSIGN(ValueId at, lowering.At(node.operands[1], index.subspan(a, rank)));
    HY_ASSIGN(Expr row, lowering.Indirect(at, lowering.TypeOf(node.operands[0]).dims[a], node));
    std::vector<Expr> x(index.begin(), index.begin() + static_cast<ptrdiff_t>(a));
    x.push_back(row);
    x.insert(x.end(), index.begin() + static_cast<ptrdiff_t>(a + rank), index.end());
    return lowering.At(node.operands[0], x);
  };
  return lowering.Define(node.results[0], node, std::move(d));
}

Status LowerGatherElements(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  HY_ASSIGN(int64_t axis, graph::GetInt(node, "axis"));
  auto a = static_cast<size_t>(axis);
  HY_TRY(lowering.RealiseForTemplate(node.operands[0]));
  Lowering::Definition d;
  d.emit = [&lowering, &node, a](std::span<const Expr> index) -> Result<ValueId> {
    HY_ASSIGN(ValueId at, lowering.At(node.operands[1], index));
    std::vector<Expr> x(index.begin(), index.end());
    HY_ASSIGN(x[a], lowering.Indirect(at, lowering.TypeOf(node.operands[0]).dims[a], node));
    return lowering.At(node.operands[0], x);
  };
  return lowering.Define(node.results[0], node, std::move(d));
}

Status LowerGatherNd(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  auto batch = static_cast<size_t>(IntOr(node, "batch_dims", 0));
  const std::vector<Expr> indices = lowering.TypeOf(node.operands[1]).dims;
  std::optional<int64_t> count = lowering.exprs().AsConst(indices.back());
  if (!count)
    return Unimplemented("gather_nd needs a constant number of coordinates (node '{}').",
                         node.name);
  HY_TRY(lowering.RealiseForTemplate(node.operands[0]));
  Lowering::Definition d;
  d.emit = [&lowering, &node, batch, count,
            lead = indices.size() - 1](std::span<const Expr> index) -> Result<ValueId> {
    ExprArena& e = lowering.exprs();
    std::vector<Expr> x(index.begin(), index.begin() + static_cast<ptrdiff_t>(batch));
    std::vector<Expr> at(index.begin(), index.begin() + static_cast<ptrdiff_t>(lead));
    at.push_back(e.Const(0));
    for (int64_t k = 0; k < *count; ++k) {
      at.back() = e.Const(k);
      HY_ASSIGN(ValueId coordinate, lowering.At(node.operands[1], at));
      Expr extent = lowering.TypeOf(node.operands[0]).dims[batch + static_cast<size_t>(k)];
      HY_ASSIGN(Expr symbol, lowering.Indirect(coordinate, extent, node));
      x.push_back(symbol);
    }
    x.insert(x.end(), index.begin() + static_cast<ptrdiff_t>(lead), index.end());
    return lowering.At(node.operands[0], x);
  };
  return lowering.Define(node.results[0], node, std::move(d));
}

Status LowerCheckIndex(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  HY_ASSIGN(std::vector<Expr> size, graph::GetExprs(node, "size"));
  Lowering::Definition d;
  d.ops = 3;
  d.emit = [&lowering, &node, size = size[0], what = StringOr(node, "what", "index")](
               std::span<const Expr> index) -> Result<ValueId> {
    KernelBuilder& b = lowering.builder();
    HY_ASSIGN(ValueId x, lowering.At(node.operands[0], index));
    // Readers see the symbol, which stays in range where the element does not.
    HY_ASSIGN(Expr checked, lowering.Indirect(x, size, node, what, false));
    return b.Convert(b.Index(checked), lowering.TypeOf(node.results[0]).dtype);
  };
  return lowering.Define(node.results[0], node, std::move(d));
}

}  // namespace halyard::loop
