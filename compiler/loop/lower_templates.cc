// SPDX-License-Identifier: Apache-2.0
// Lowering of matrix products, convolutions and attention to contractions: plain nests whose loops
// get roles.
#include <limits>

#include "compiler/loop/index_map.h"
#include "compiler/loop/lower_ops.h"
#include "compiler/ops/op_def.h"

namespace halyard::loop {

using kernel::Opcode;

namespace {

// sum over k of a(k) * b(k) in the kernel under construction, tagged as a contraction. The roles
// name the outer loops by result axis; axes of size 1 have no loop. Without a k loop there is
// nothing to tag.
Result<ValueId> Contract(Lowering& lowering, std::span<const Expr> k_extents,
                         std::span<const size_t> batch, std::span<const size_t> m,
                         std::span<const size_t> n, const Lowering::ReduceBody& a,
                         const Lowering::ReduceBody& b) {
  TemplateRoles roles;
  HY_ASSIGN(
      ValueId sum,
      lowering.Reduce(
          ReduceKind::kSum, k_extents,
          [&](std::span<const Expr> k) -> Result<ValueId> {
            HY_ASSIGN(roles.product_a, a(k));
            HY_ASSIGN(roles.product_b, b(k));
            return lowering.builder().Scalar(Opcode::kMul, {roles.product_a, roles.product_b});
          },
          &roles.k));
  roles.accumulator = sum;
  auto name = [&](std::span<const size_t> axes, std::vector<Expr>& symbols) {
    for (size_t axis : axes) {
      if (lowering.outer_loops()[axis].valid()) symbols.push_back(lowering.outer_loops()[axis]);
    }
  };
  name(batch, roles.batch);
  name(m, roles.m);
  name(n, roles.n);
  if (!roles.k.empty()) {
    lowering.builder().kernel().template_kind = TemplateKind::kContraction;
    lowering.builder().kernel().roles = std::move(roles);
  }
  return sum;
}

std::vector<size_t> Axes(size_t begin, size_t end) {
  std::vector<size_t> axes;
  for (size_t i = begin; i < end; ++i) axes.push_back(i);
  return axes;
}

}  // namespace

Status LowerMatmul(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  bool transpose_a = IntOr(node, "transpose_a", 0) != 0;
  bool transpose_b = IntOr(node, "transpose_b", 0) != 0;
  for (graph::ValueId v : node.operands) HY_TRY(lowering.RealiseForTemplate(v));
  size_t rank_a = lowering.TypeOf(node.operands[0]).dims.size();
  size_t rank_b = lowering.TypeOf(node.operands[1]).dims.size();
  Expr k = lowering.TypeOf(node.operands[0]).dims[transpose_a ? rank_a - 2 : rank_a - 1];
  Lowering::Definition d;
  d.form = Lowering::Form::kReduction;
  d.emit = [&lowering, &node, transpose_a, transpose_b, rank_a, rank_b,
            k](std::span<const Expr> index) -> Result<ValueId> {
    size_t rank = index.size();
    Expr i = index[rank - 2], j = index[rank - 1];
    auto read = [&](graph::ValueId v, size_t operand_rank, bool transpose, Expr row, Expr column) {
      std::vector<Expr> at;
      // An operand of rank 2 serves all batches.
      if (operand_rank == rank) at.assign(index.begin(), index.end() - 2);
      at.push_back(transpose ? column : row);
      at.push_back(transpose ? row : column);
      return lowering.At(v, at);
    };
    // Batches that only a has are more rows; that only b has, more columns.
    std::vector<size_t> batch, m, n;
    for (size_t axis = 0; axis + 2 < rank; ++axis) {
      (rank_a == rank && rank_b == rank ? batch : rank_a == rank ? m : n).push_back(axis);
    }
    m.push_back(rank - 2);
    n.push_back(rank - 1);
    return Contract(
        lowering, {&k, 1}, batch, m, n,
        [&](std::span<const Expr> l) {
          return read(node.operands[0], rank_a, transpose_a, i, l[0]);
        },
        [&](std::span<const Expr> l) {
          return read(node.operands[1], rank_b, transpose_b, l[0], j);
        });
  };
  return lowering.Define(node.results[0], node, std::move(d));
}

Status LowerConv(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  HY_ASSIGN(std::vector<int64_t> strides, graph::GetInts(node, "strides"));
  HY_ASSIGN(std::vector<int64_t> pads, graph::GetInts(node, "pads_low"));
  HY_ASSIGN(std::vector<int64_t> dilations, graph::GetInts(node, "dilations"));
  int64_t groups = IntOr(node, "groups", 1);
  for (graph::ValueId v : node.operands) HY_TRY(lowering.RealiseForTemplate(v));
  ExprArena& e = lowering.exprs();
  const std::vector<Expr> x_dims = lowering.TypeOf(node.operands[0]).dims;
  const std::vector<Expr> w_dims = lowering.TypeOf(node.operands[1]).dims;
  const std::vector<Expr> out = lowering.TypeOf(node.results[0]).dims;
  std::vector<Expr> k(w_dims.begin() + 1, w_dims.end());  // input channels of a group, window
  Expr m_per_group = e.FloorDiv(out[1], e.Const(groups));
  const std::vector<uint32_t>& layout =
      lowering.module().values[lowering.SourceOf(node.operands[0])].layout;
  bool channels_innermost = !layout.empty() && layout.back() == 1;
  bool is_depthwise = groups > 1 && e.IsConst(k[0], 1) && e.IsConst(m_per_group, 1);

  // Element [n, g, m, o...] of the result, the channels split by group.
  auto element = [&lowering, &node, strides, pads, dilations, x_dims, k, groups, is_depthwise,
                  channels_innermost, m_per_group](std::span<const Expr> index) -> Result<ValueId> {
    ExprArena& e = lowering.exprs();
    KernelBuilder& b = lowering.builder();
    Expr channel = e.Add(e.Mul(index[1], m_per_group), index[2]);
    auto read_w = [&](std::span<const Expr> tap) {
      std::vector<Expr> at{channel};
      at.insert(at.end(), tap.begin(), tap.end());
      return lowering.At(node.operands[1], at);
    };
    auto read_x = [&](std::span<const Expr> tap) -> Result<ValueId> {
      std::vector<Expr> at{index[0], e.Add(e.Mul(index[1], k[0]), tap[0])};
      ValueId mask = kNone;
      for (size_t i = 0; i < strides.size(); ++i) {
        Expr x = e.Add(e.Mul(index[i + 3], e.Const(strides[i])),
                       e.Mul(tap[i + 1], e.Const(dilations[i])));
        x = e.Sub(x, e.Const(pads[i]));
        if (!e.KnownLessOrEqual(e.Const(0), x)) {
          mask = b.And(mask, b.Scalar(Opcode::kLe, {b.Int(DType::kI64, 0), b.Index(x)}));
        }
        mask = b.And(mask, b.IndexLess(x, x_dims[i + 2]));
        at.push_back(x);
      }
      if (mask == kNone) return lowering.At(node.operands[0], at);
      HY_ASSIGN(ValueId value, lowering.AtMasked(node.operands[0], at, mask));
      // A masked load gives 0 where the operand is a buffer; a computed operand needs the select.
      if (lowering.IsRealised(node.operands[0])) return value;
      return b.Scalar(Opcode::kSelect, {mask, value, b.Float(b.TypeOf(value), 0)});
    };
    if (is_depthwise) {
      return lowering.Reduce(ReduceKind::kSum, k,
                             [&](std::span<const Expr> tap) -> Result<ValueId> {
                               HY_ASSIGN(ValueId x, read_x(tap));
                               HY_ASSIGN(ValueId w, read_w(tap));
                               return b.Scalar(Opcode::kMul, {x, w});
                             });
    }
    std::vector<size_t> batch, n{0};
    if (groups > 1) batch.push_back(1);
    for (size_t axis : Axes(3, index.size())) n.push_back(axis);
    size_t m = 2;
    if (!channels_innermost) return Contract(lowering, k, batch, {&m, 1}, n, read_w, read_x);
    // The sum walks the operand as it is stored: the window, then its channels.
    std::vector<Expr> stored(k.begin() + 1, k.end());
    stored.push_back(k[0]);
    auto by_axis = [](std::span<const Expr> tap) {
      std::vector<Expr> at{tap.back()};
      at.insert(at.end(), tap.begin(), tap.end() - 1);
      return at;
    };
    return Contract(
        lowering, stored, batch, {&m, 1}, n,
        [&](std::span<const Expr> tap) { return read_w(by_axis(tap)); },
        [&](std::span<const Expr> tap) { return read_x(by_axis(tap)); });
  };
  std::vector<Expr> split = out;
  split[1] = m_per_group;
  split.insert(split.begin() + 1, e.Const(groups));
  if (groups == 1 || is_depthwise) {
    // The group axis or the channel axis has size 1 in `split`: the result's own loops serve.
    Lowering::Definition d;
    d.form = Lowering::Form::kReduction;
    d.emit = [&lowering, element, groups](std::span<const Expr> index) -> Result<ValueId> {
      std::vector<Expr> at(index.begin(), index.end());
      at.insert(at.begin() + (groups == 1 ? 1 : 2), lowering.exprs().Const(0));
      lowering.InsertOuterLoop(groups == 1 ? 1 : 2);
      return element(at);
    };
    return lowering.Define(node.results[0], node, std::move(d));
  }
  return lowering.DefineInto(node.results[0], node, split, element);
}

// One kernel, so that the scores of a query never leave it: per query row the scores with scale and
// mask, exp(score - max) and its sum, the weighted values divided by the sum.
Status LowerAttention(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  HY_ASSIGN(double scale, graph::GetFloat(node, "scale"));
  const bool is_causal = IntOr(node, "causal", 0) != 0;
  const bool nan_to_zero = IntOr(node, "nan_to_zero", 0) != 0;
  const bool hidden_to_zero = IntOr(node, "hidden_to_zero", 0) != 0;
  for (size_t i = 0; i < 3; ++i) HY_TRY(lowering.RealiseForTemplate(node.operands[i]));
  ExprArena& e = lowering.exprs();
  const std::vector<Expr> q = lowering.TypeOf(node.operands[0]).dims;
  const std::vector<Expr> k = lowering.TypeOf(node.operands[1]).dims;
  const std::vector<Expr> v = lowering.TypeOf(node.operands[2]).dims;
  const Expr repeat = e.FloorDiv(q[1], k[1]);  // query heads per key head
  const Expr t = k[2];
  const DType type = ComputeType(lowering.TypeOf(node.operands[0]).dtype);
  const std::string name = node.name.empty() ? "attention" : node.name;
  const std::vector<Expr> row_dims{q[0], q[1], q[2]};
  const std::vector<Expr> score_dims{q[0], q[1], q[2], t};
  const std::vector<Expr> out_dims{q[0], q[1], q[2], v[3]};
  const BufferId scores = lowering.Temporary(name + "_scores", type, score_dims);
  const BufferId weights = lowering.Temporary(name + "_weights", type, score_dims);

  return lowering.DefineRows(
      node, row_dims, [&](std::span<const Expr> row, std::span<const BufferId> out) -> Status {
        KernelBuilder& b = lowering.builder();
        const Expr head = e.FloorDiv(row[1], repeat);
        const auto at = [&](Expr column) {
          const Expr index[] = {row[0], row[1], row[2], column};
          return FlatIndex(e, score_dims, index);
        };
        TemplateRoles& roles = b.kernel().roles;
        b.kernel().template_kind = TemplateKind::kAttention;
        for (size_t axis = 0; axis < 3; ++axis) {
          if (!lowering.outer_loops()[axis].valid()) continue;
          (axis < 2 ? roles.batch : roles.m).push_back(lowering.outer_loops()[axis]);
        }

        HY_TRY(lowering.ParallelLoop("j", t, [&](Expr j) -> Status {
          HY_ASSIGN(ValueId score,
                    lowering.Reduce(ReduceKind::kSum, {&q[3], 1},
                                    [&](std::span<const Expr> d) -> Result<ValueId> {
                                      const Expr at_q[] = {row[0], row[1], row[2], d[0]};
                                      const Expr at_k[] = {row[0], head, j, d[0]};
                                      HY_ASSIGN(ValueId x, lowering.At(node.operands[0], at_q));
                                      HY_ASSIGN(ValueId y, lowering.At(node.operands[1], at_k));
                                      return b.Scalar(Opcode::kMul, {x, y});
                                    }));
          score = b.Scalar(Opcode::kMul, {score, b.Float(type, scale)});
          const ValueId hidden = b.Float(type, -std::numeric_limits<double>::infinity());
          if (node.operands.size() > 3 && node.operands[3] != graph::kNone) {
            const graph::TensorType& mask_type = lowering.TypeOf(node.operands[3]);
            const Expr index[] = {row[0], row[1], row[2], j};
            std::vector<Expr> at_mask;
            for (size_t axis = 0; axis < 4; ++axis) {
              at_mask.push_back(e.IsConst(mask_type.dims[axis], 1) ? e.Const(0) : index[axis]);
            }
            HY_ASSIGN(ValueId mask, lowering.At(node.operands[3], at_mask));
            score = mask_type.dtype == DType::kBool
                        ? b.Scalar(Opcode::kSelect, {mask, score, hidden})
                        : b.Scalar(Opcode::kAdd, {score, b.Convert(mask, type)});
          }
          if (is_causal) {
            const Expr end = e.Add(e.Add(row[2], e.Sub(t, q[2])), e.Const(1));
            const ValueId sees = b.IndexLess(j, end);
            if (sees != kNone) score = b.Scalar(Opcode::kSelect, {sees, score, hidden});
          }
          b.Store(scores, at(j), score);
          return OkStatus();
        }));
        const ValueId max =
            b.Reduce(ReduceKind::kMax, "r", t, [&](Expr r) { return b.Load(scores, at(r)); });
        const ValueId sum = b.Reduce(ReduceKind::kSum, "r", t, [&](Expr r) {
          const ValueId shifted = b.Scalar(Opcode::kSub, {b.Load(scores, at(r)), max});
          const ValueId weight = b.Scalar(Opcode::kExp, {shifted});
          b.Store(weights, at(r), weight);
          return weight;
        });
        ValueId is_hidden = kNone;
        if (hidden_to_zero) {
          const ValueId least = b.Float(type, -std::numeric_limits<double>::infinity());
          is_hidden = b.Scalar(Opcode::kEq, {max, least});
        }
        return lowering.ParallelLoop("e", v[3], [&](Expr column) -> Status {
          HY_ASSIGN(ValueId value,
                    lowering.Reduce(ReduceKind::kSum, {&t, 1},
                                    [&](std::span<const Expr> r) -> Result<ValueId> {
                                      const Expr at_v[] = {row[0], head, r[0], column};
                                      HY_ASSIGN(ValueId y, lowering.At(node.operands[2], at_v));
                                      return b.Scalar(Opcode::kMul, {b.Load(weights, at(r[0])), y});
                                    }));
          value = b.Scalar(Opcode::kDiv, {value, sum});
          if (nan_to_zero) {
            // Over no keys the sum is 0, not NaN.
            ValueId is_bad = b.Scalar(Opcode::kNe, {sum, sum});
            if (e.RangeOf(t).lo < 1) {
              const ValueId is_empty = b.Scalar(Opcode::kEq, {sum, b.Float(type, 0)});
              is_bad = b.Scalar(Opcode::kOr, {is_bad, is_empty});
            }
            value = b.Scalar(Opcode::kSelect, {is_bad, b.Float(type, 0), value});
          }
          if (is_hidden != kNone) {
            value = b.Scalar(Opcode::kSelect, {is_hidden, b.Float(type, 0), value});
          }
          const Expr index[] = {row[0], row[1], row[2], column};
          b.Store(out[0], FlatIndex(e, out_dims, index),
                  b.Convert(value, lowering.function().buffers[out[0]].dtype));
          return OkStatus();
        });
      });
}

}  // namespace halyard::loop
