// SPDX-License-Identifier: Apache-2.0
// Lowering of reductions along axes and over windows.
#include <limits>

#include "compiler/loop/index_map.h"
#include "compiler/loop/lower_ops.h"
#include "compiler/ops/op_def.h"

namespace halyard::loop {

using kernel::Opcode;

namespace {

// The value that never wins a maximum.
ValueId Lowest(KernelBuilder& b, DType dtype) {
  if (IsFloat(dtype)) return b.Float(dtype, -std::numeric_limits<double>::infinity());
  if (!IsSigned(dtype)) return b.Int(dtype, 0);
  return b.Int(dtype, -(int64_t{1} << (BitWidth(dtype) - 2)) * 2);
}

}  // namespace

Status LowerReduce(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  std::string_view op = node.op->name;
  ReduceKind kind = op == "reduce_sum"    ? ReduceKind::kSum
                    : op == "reduce_prod" ? ReduceKind::kProd
                    : op == "reduce_max"  ? ReduceKind::kMax
                    : op == "reduce_min"  ? ReduceKind::kMin
                    : op == "reduce_any"  ? ReduceKind::kAny
                                          : ReduceKind::kAll;
  HY_ASSIGN(std::vector<int64_t> axes, graph::GetInts(node, "axes"));
  bool keeps = IntOr(node, "keep_dims", 0) != 0;
  const std::vector<Expr> dims = lowering.TypeOf(node.operands[0]).dims;
  std::vector<bool> is_reduced(dims.size());
  std::vector<Expr> extents;
  for (int64_t axis : axes) {
    is_reduced[static_cast<size_t>(axis)] = true;
    extents.push_back(dims[static_cast<size_t>(axis)]);
  }
  Lowering::Definition d;
  d.form = axes.empty() ? Lowering::Form::kView : Lowering::Form::kReduction;
  d.emit = [&lowering, &node, kind, keeps, extents,
            is_reduced](std::span<const Expr> index) -> Result<ValueId> {
    return lowering.Reduce(kind, extents, [&](std::span<const Expr> reduced) {
      std::vector<Expr> at;
      size_t outer = 0, inner = 0;
      for (bool is_inner : is_reduced) {
        if (is_inner) {
          at.push_back(reduced[inner++]);
          if (keeps) ++outer;
        } else {
          at.push_back(index[outer++]);
        }
      }
      return lowering.At(node.operands[0], at);
    });
  };
  return lowering.Define(node.results[0], node, std::move(d));
}

Status LowerArgReduce(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  HY_ASSIGN(int64_t axis, graph::GetInt(node, "axis"));
  auto a = static_cast<size_t>(axis);
  bool keeps = IntOr(node, "keep_dims", 0) != 0;
  const bool takes_last = IntOr(node, "select_last", 0) != 0;
  ReduceKind kind = node.op->name == "argmax" ? ReduceKind::kArgMax : ReduceKind::kArgMin;
  Lowering::Definition d;
  d.form = Lowering::Form::kReduction;
  d.emit = [&lowering, &node, a, keeps, kind,
            takes_last](std::span<const Expr> index) -> Result<ValueId> {
    std::vector<Expr> at(index.begin(), index.end());
    if (keeps) at.erase(at.begin() + static_cast<ptrdiff_t>(a));
    // Always a loop: an arg reduction of one element still has to yield its index.
    Expr extent = lowering.TypeOf(node.operands[0]).dims[a];
    // The last of equal values is the first one from behind.
    ExprArena& e = lowering.exprs();
    const Expr end = e.Sub(extent, e.Const(1));
    HY_ASSIGN(const ValueId found, lowering.ReduceArg(kind, extent, [&](Expr variable) {
      std::vector<Expr> x = at;
      x.insert(x.begin() + static_cast<ptrdiff_t>(a), takes_last ? e.Sub(end, variable) : variable);
      return lowering.At(node.operands[0], x);
    }));
    if (!takes_last) return found;
    KernelBuilder& b = lowering.builder();
    return b.Scalar(Opcode::kSub, {b.Index(end, b.TypeOf(found)), found});
  };
  return lowering.Define(node.results[0], node, std::move(d));
}

Status LowerCumsum(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  HY_ASSIGN(const int64_t axis, graph::GetInt(node, "axis"));
  const auto a = static_cast<ptrdiff_t>(axis);
  const bool is_exclusive = IntOr(node, "exclusive", 0) != 0;
  const bool is_reversed = IntOr(node, "reverse", 0) != 0;
  const std::vector<Expr> dims = lowering.TypeOf(node.operands[0]).dims;
  const DType dtype = lowering.TypeOf(node.results[0]).dtype;
  std::vector<Expr> rows = dims;
  rows.erase(rows.begin() + a);
  return lowering.DefineRows(
      node, rows, [&](std::span<const Expr> row, std::span<const BufferId> out) -> Status {
        KernelBuilder& b = lowering.builder();
        ExprArena& e = lowering.exprs();
        const Expr extent = dims[static_cast<size_t>(axis)];
        const ValueId zero = b.Constant(ComputeType(dtype), 0);
        const auto step = [&](Expr variable,
                              std::span<const ValueId> sum) -> Result<std::vector<ValueId>> {
          std::vector<Expr> at(row.begin(), row.end());
          at.insert(at.begin() + a,
                    is_reversed ? e.Sub(e.Sub(extent, e.Const(1)), variable) : variable);
          HY_ASSIGN(const ValueId x, lowering.At(node.operands[0], at));
          const ValueId next = b.Scalar(Opcode::kAdd, {sum[0], x});
          b.Store(out[0], FlatIndex(e, dims, at), b.Convert(is_exclusive ? sum[0] : next, dtype));
          return std::vector<ValueId>{next};
        };
        return lowering.SequentialLoop("s", extent, {&zero, 1}, step).status();
      });
}

Status LowerPool(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  bool is_max = node.op->name == "max_pool";
  bool counts_padding = IntOr(node, "count_include_pad", 0) != 0;
  HY_ASSIGN(std::vector<int64_t> window, graph::GetInts(node, "window"));
  HY_ASSIGN(std::vector<int64_t> strides, graph::GetInts(node, "strides"));
  HY_ASSIGN(std::vector<int64_t> pads, graph::GetInts(node, "pads_low"));
  HY_ASSIGN(std::vector<int64_t> dilations, graph::GetInts(node, "dilations"));
  const std::vector<Expr> dims = lowering.TypeOf(node.operands[0]).dims;
  // The window reads each element several times.
  HY_TRY(lowering.RealiseForTemplate(node.operands[0]));
  Lowering::Definition d;
  d.form = Lowering::Form::kReduction;
  d.emit = [&lowering, &node, is_max, counts_padding, window, strides, pads, dilations,
            dims](std::span<const Expr> index) -> Result<ValueId> {
    KernelBuilder& b = lowering.builder();
    ExprArena& e = lowering.exprs();
    DType type = ComputeType(lowering.TypeOf(node.results[0]).dtype);
    std::vector<Expr> extents;
    for (int64_t w : window) extents.push_back(e.Const(w));
    auto start = [&](size_t i) {
      return e.Sub(e.Mul(index[i + 2], e.Const(strides[i])), e.Const(pads[i]));
    };
    auto body = [&](std::span<const Expr> tap) -> Result<ValueId> {
      std::vector<Expr> at{index[0], index[1]};
      ValueId mask = kNone;
      for (size_t i = 0; i < window.size(); ++i) {
        Expr x = e.Add(start(i), e.Mul(tap[i], e.Const(dilations[i])));
        if (!e.KnownLessOrEqual(e.Const(0), x)) {
          mask = b.And(mask, b.Scalar(Opcode::kLe, {b.Int(DType::kI64, 0), b.Index(x)}));
        }
        mask = b.And(mask, b.IndexLess(x, dims[i + 2]));
        at.push_back(x);
      }
      if (mask == kNone) return lowering.At(node.operands[0], at);
      HY_ASSIGN(ValueId x, lowering.AtMasked(node.operands[0], at, mask));
      return b.Scalar(Opcode::kSelect, {mask, x, is_max ? Lowest(b, type) : b.Float(type, 0)});
    };
    HY_ASSIGN(ValueId result,
              lowering.Reduce(is_max ? ReduceKind::kMax : ReduceKind::kSum, extents, body));
    if (is_max) return result;
    // Elements of the window inside the operand, per axis: taps t with 0 <= start + t*dilation <
    // dim.
    Expr count = e.Const(1);
    for (size_t i = 0; i < window.size(); ++i) {
      Expr inside = e.Const(window[i]);
      if (!counts_padding) {
        Expr dilation = e.Const(dilations[i]);
        Expr first = e.Max(e.Const(0), e.CeilDiv(e.Sub(e.Const(0), start(i)), dilation));
        Expr last = e.Min(e.Const(window[i]), e.CeilDiv(e.Sub(dims[i + 2], start(i)), dilation));
        inside = e.Sub(last, first);
      }
      count = e.Mul(count, inside);
    }
    ValueId divisor = b.Convert(b.Index(count), type);
    if (std::optional<int64_t> known = e.AsConst(count))
      divisor = b.Float(type, static_cast<double>(*known));
    return b.Scalar(Opcode::kDiv, {result, divisor});
  };
  return lowering.Define(node.results[0], node, std::move(d));
}

}  // namespace halyard::loop
