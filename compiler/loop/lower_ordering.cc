// SPDX-License-Identifier: Apache-2.0
// Lowering of ops that write where data says: scatters, and sort and topk by counting ranks.
#include "compiler/loop/index_map.h"
#include "compiler/loop/lower_ops.h"
#include "compiler/ops/op_def.h"

namespace halyard::loop {

using kernel::Opcode;

namespace {

// A copy of x, on which `update` then works in the order of the updates.
Status DefineScatter(Lowering& lowering, const graph::Node& node,
                     const std::function<Status(BufferId out)>& update) {
  const std::vector<Expr> dims = lowering.TypeOf(node.results[0]).dims;
  for (graph::ValueId v : node.operands) HY_TRY(lowering.RealiseForTemplate(v));
  return lowering.DefineKernel(node, [&](std::span<const BufferId> out) -> Status {
    HY_TRY(lowering.ParallelNest("i", dims, [&](std::span<const Expr> index) -> Status {
      HY_ASSIGN(const ValueId x, lowering.At(node.operands[0], index));
      KernelBuilder& b = lowering.builder();
      b.Store(out[0], FlatIndex(lowering.exprs(), dims, index),
              b.Convert(x, lowering.TypeOf(node.results[0]).dtype));
      return OkStatus();
    }));
    return update(out[0]);
  });
}

// Sequential loops over `extents`, in row-major order.
Status InOrder(Lowering& lowering, std::span<const Expr> extents,
               const std::function<Status(std::span<const Expr>)>& body) {
  std::vector<Expr> index;
  const std::function<Status()> descend = [&]() -> Status {
    if (index.size() == extents.size()) return body(index);
    return lowering
        .SequentialLoop(
            "u", extents[index.size()], {},
            [&](Expr variable, std::span<const ValueId>) -> Result<std::vector<ValueId>> {
              index.push_back(variable);
              HY_TRY(descend());
              index.pop_back();
              return std::vector<ValueId>{};
            })
        .status();
  };
  return descend();
}

// out[at] = out[at] (reduction) update, in the order in which the loops come here.
void CombineAt(Lowering& lowering, const graph::Node& node, BufferId out, Expr at, ValueId update) {
  KernelBuilder& b = lowering.builder();
  const std::string reduction = StringOr(node, "reduction", "none");
  const DType dtype = lowering.TypeOf(node.results[0]).dtype;
  if (reduction != "none") {
    const Opcode opcode = reduction == "add"   ? Opcode::kAdd
                          : reduction == "mul" ? Opcode::kMul
                          : reduction == "min" ? Opcode::kMin
                                               : Opcode::kMax;
    const ValueId old = b.Convert(b.Load(out, at), ComputeType(dtype));
    update = b.Scalar(opcode, {old, update});
  }
  b.Scatter(out, at, b.Convert(update, dtype), ReduceKind::kNone);
}

}  // namespace

Status LowerScatterElements(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  HY_ASSIGN(const int64_t axis, graph::GetInt(node, "axis"));
  const auto a = static_cast<size_t>(axis);
  const std::vector<Expr> dims = lowering.TypeOf(node.results[0]).dims;
  const std::vector<Expr> updates = lowering.TypeOf(node.operands[1]).dims;
  return DefineScatter(lowering, node, [&](BufferId out) -> Status {
    return InOrder(lowering, updates, [&](std::span<const Expr> index) -> Status {
      HY_ASSIGN(const ValueId to, lowering.At(node.operands[1], index));
      HY_ASSIGN(const ValueId update, lowering.At(node.operands[2], index));
      std::vector<Expr> at(index.begin(), index.end());
      HY_ASSIGN(at[a], lowering.Indirect(to, dims[a], node));
      CombineAt(lowering, node, out, FlatIndex(lowering.exprs(), dims, at), update);
      return OkStatus();
    });
  });
}

Status LowerScatterNd(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  const std::vector<Expr> dims = lowering.TypeOf(node.results[0]).dims;
  const std::vector<Expr> indices = lowering.TypeOf(node.operands[1]).dims;
  const std::optional<int64_t> count = lowering.exprs().AsConst(indices.back());
  if (!count) {
    return Unimplemented("scatter_nd needs a constant number of coordinates (node '{}').",
                         node.name);
  }
  const std::span<const Expr> slices(indices.data(), indices.size() - 1);
  const std::span<const Expr> slice = std::span(dims).subspan(static_cast<size_t>(*count));
  return DefineScatter(lowering, node, [&](BufferId out) -> Status {
    return InOrder(lowering, slices, [&](std::span<const Expr> index) -> Status {
      std::vector<Expr> at(index.begin(), index.end()), to;
      at.push_back({});
      for (int64_t i = 0; i < *count; ++i) {
        at.back() = lowering.exprs().Const(i);
        HY_ASSIGN(const ValueId coordinate, lowering.At(node.operands[1], at));
        HY_ASSIGN(const Expr symbol,
                  lowering.Indirect(coordinate, dims[static_cast<size_t>(i)], node));
        to.push_back(symbol);
      }
      return lowering.ParallelNest("i", slice, [&](std::span<const Expr> inner) -> Status {
        std::vector<Expr> from(index.begin(), index.end()), target = to;
        from.insert(from.end(), inner.begin(), inner.end());
        target.insert(target.end(), inner.begin(), inner.end());
        HY_ASSIGN(const ValueId update, lowering.At(node.operands[2], from));
        CombineAt(lowering, node, out, FlatIndex(lowering.exprs(), dims, target), update);
        return OkStatus();
      });
    });
  });
}

// Element i goes to the place that as many elements come before: the smaller ones (the greater ones
// in descending order, NaN being the greatest), and the equal ones with a smaller index.
Status LowerOrder(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  HY_ASSIGN(const int64_t axis, graph::GetInt(node, "axis"));
  const auto a = static_cast<size_t>(axis);
  const bool is_sort = node.op->name == "sort";
  const bool is_descending =
      is_sort ? IntOr(node, "descending", 0) != 0 : IntOr(node, "largest", 1) != 0;
  const std::vector<Expr> dims = lowering.TypeOf(node.operands[0]).dims;
  const std::vector<Expr> out_dims = lowering.TypeOf(node.results[0]).dims;
  const DType dtype = lowering.TypeOf(node.results[0]).dtype;
  HY_TRY(lowering.RealiseForTemplate(node.operands[0]));
  ExprArena& e = lowering.exprs();
  std::vector<Expr> rows = dims;
  rows.erase(rows.begin() + static_cast<ptrdiff_t>(a));
  const auto along = [&](std::span<const Expr> row, Expr i) {
    std::vector<Expr> at(row.begin(), row.end());
    at.insert(at.begin() + static_cast<ptrdiff_t>(a), i);
    return at;
  };
  return lowering.DefineRows(
      node, rows, [&](std::span<const Expr> row, std::span<const BufferId> out) -> Status {
        return lowering.ParallelLoop("i", dims[a], [&](Expr i) -> Status {
          KernelBuilder& b = lowering.builder();
          HY_ASSIGN(const ValueId x, lowering.At(node.operands[0], along(row, i)));
          const auto is_before = [&](ValueId left, ValueId right) {
            if (is_descending) std::swap(left, right);
            ValueId before = b.Scalar(Opcode::kLt, {left, right});
            if (!IsFloat(dtype)) return before;
            const ValueId is_last = b.Scalar(Opcode::kNe, {right, right});
            const ValueId is_number = b.Scalar(Opcode::kEq, {left, left});
            return b.Scalar(Opcode::kOr, {before, b.Scalar(Opcode::kAnd, {is_last, is_number})});
          };
          const Expr extent[] = {dims[a]};
          HY_ASSIGN(
              const ValueId rank,
              lowering.Reduce(
                  ReduceKind::kSum, extent, [&](std::span<const Expr> j) -> Result<ValueId> {
                    HY_ASSIGN(const ValueId y, lowering.At(node.operands[0], along(row, j[0])));
                    const ValueId is_earlier = b.Scalar(Opcode::kLt, {b.Index(j[0]), b.Index(i)});
                    const ValueId is_not_after = b.Scalar(Opcode::kNot, {is_before(x, y)});
                    const ValueId ties = b.Scalar(Opcode::kAnd, {is_not_after, is_earlier});
                    return b.Convert(b.Scalar(Opcode::kOr, {is_before(y, x), ties}), DType::kI64);
                  }));
          // What is beyond the first k goes nowhere; place 0 stands for it.
          const Expr kept = out_dims[a];
          ValueId mask = kNone, place = rank;
          if (!is_sort) {
            mask = b.Scalar(Opcode::kLt, {rank, b.Index(kept)});
            place = b.Scalar(Opcode::kSelect, {mask, rank, b.Int(DType::kI64, 0)});
          }
          HY_ASSIGN(const Expr to, lowering.Indirect(place, e.Max(kept, e.Const(1)), node));
          const Expr at = FlatIndex(e, out_dims, along(row, to));
          b.Scatter(out[0], at, b.Convert(x, dtype), ReduceKind::kNone, mask);
          b.Scatter(out[1], at, b.Index(i), ReduceKind::kNone, mask);
          return OkStatus();
        });
      });
}

}  // namespace halyard::loop
