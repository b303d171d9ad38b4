// SPDX-License-Identifier: Apache-2.0
// Matrix products: MatMul, Gemm, Einsum and the integer forms.
#include <algorithm>
#include <map>

#include "base/quantity.h"

#include "compiler/import/onnx_context.h"

namespace halyard::onnx {
namespace {

// NumPy's matmul: vectors become matrices, batch dims broadcast.
V MatMul(NodeContext& c, V a, V b) {
  if (!c.ok()) return {&c, kNone};
  const int64_t rank_a = c.Rank(a);
  const int64_t rank_b = c.Rank(b);
  if (rank_a == 0 || rank_b == 0) {
    return c.Fail(InvalidArgument("The inputs have {} and {}; they need at least 1.", rank_a,
                                  Counted(rank_b, "dimension")));
  }
  if (rank_a == 1) a = c.Unsqueeze(a, {0});
  if (rank_b == 1) b = c.Unsqueeze(b, {1});
  std::vector<Expr> da = c.Dims(a);
  std::vector<Expr> db = c.Dims(b);
  if (da.size() > 2 && db.size() > 2) {
    const std::vector<Expr> batch_a(da.begin(), da.end() - 2);
    const std::vector<Expr> batch_b(db.begin(), db.end() - 2);
    if (batch_a != batch_b) {
      const Result<std::vector<Expr>> batch = c.b.BroadcastShape(batch_a, batch_b);
      if (!batch.ok()) return c.Fail(batch.status());
      const auto widen = [&](V v, const std::vector<Expr>& dims) {
        std::vector<Expr> to = *batch;
        to.insert(to.end(), dims.end() - 2, dims.end());
        return c.BroadcastTo(v, to);
      };
      a = widen(a, da);
      b = widen(b, db);
    }
  }
  V y = c.Op("matmul", {a, b});
  if (!c.ok()) return y;
  if (rank_b == 1) y = c.Squeeze(y, {c.Rank(y) - 1});
  if (rank_a == 1) y = c.Squeeze(y, {c.Rank(y) - (rank_b == 1 ? 1 : 2)});
  return y;
}

std::vector<V> ImportMatMul(NodeContext& c) { return {MatMul(c, c.In(0), c.In(1))}; }

std::vector<V> ImportGemm(NodeContext& c) {
  const V a = c.In(0);
  const V b = c.In(1);
  if (!c.ok()) return {};
  if (c.Rank(a) != 2 || c.Rank(b) != 2) {
    c.Fail(InvalidArgument("Inputs A and B have {} and {}; Gemm needs 2.", c.Rank(a),
                           Counted(c.Rank(b), "dimension")));
    return {};
  }
  const double alpha = c.Float("alpha", 1);
  const double beta = c.Float("beta", 1);
  V y = c.Op("matmul", {a, b},
             {{"transpose_a", int64_t{c.Int("transA", 0) != 0}},
              {"transpose_b", int64_t{c.Int("transB", 0) != 0}}});
  if (alpha != 1) y = alpha * y;
  if (c.Has(2) && beta != 0) {
    V bias = c.In(2);
    if (beta != 1) bias = beta * bias;
    // The bias is broadcast to the product, never the other way.
    y = y + c.BroadcastTo(bias, c.Dims(y));
  }
  return {y};
}

// Einsum works on labels: one letter per axis; the axes of an ellipsis get numbers from -1
// downwards, counted from the right.
using Labels = std::vector<int>;

struct Term {
  V value;
  Labels labels;
};

bool Contains(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

bool ParseLabels(NodeContext& c, std::string_view text, int64_t rank, Labels& out) {
  const size_t dots = text.find("...");
  const auto letters =
      static_cast<int64_t>(dots == std::string_view::npos ? text.size() : text.size() - 3);
  if (rank >= 0 && (letters > rank || (dots == std::string_view::npos && letters != rank))) {
    c.Fail(InvalidArgument("Term '{}' of the equation does not fit {}.", text,
                           Counted(rank, "dimension")));
    return false;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    if (i == dots) {
      for (int64_t k = rank - letters; k > 0; --k) out.push_back(static_cast<int>(-k));
      i += 2;
      continue;
    }
    if (!std::isalpha(static_cast<unsigned char>(text[i]))) {
      c.Fail(InvalidArgument("Term '{}' of the equation has a character that is no letter.", text));
      return false;
    }
    out.push_back(text[i]);
  }
  return true;
}

// Keeps the diagonal of repeated labels and sums labels that nobody else reads.
Term Simplify(NodeContext& c, Term term, const Labels& needed) {
  for (size_t i = 0; i < term.labels.size() && c.ok(); ++i) {
    for (size_t j = i + 1; j < term.labels.size() && c.ok();) {
      if (term.labels[i] != term.labels[j]) {
        ++j;
        continue;
      }
      const auto dims = c.Dims(term.value);
      const V hit = c.Binary("eq", c.Iota(DType::kI64, dims, static_cast<int64_t>(i)),
                             c.Iota(DType::kI64, dims, static_cast<int64_t>(j)));
      term.value = c.Select(hit, term.value, c.Like(term.value, 0));
      term.value = c.Reduce("reduce_sum", term.value, {static_cast<int64_t>(j)}, false);
      term.labels.erase(term.labels.begin() + static_cast<int64_t>(j));
      // A label has one size: the reshape takes the two as equal.
      std::vector<Expr> kept = c.Dims(term.value);
      if (c.ok()) kept[i] = dims[j];
      term.value = c.ReshapeTo(term.value, kept);
    }
  }
  std::vector<int64_t> summed;
  Labels kept;
  for (size_t i = 0; i < term.labels.size(); ++i) {
    if (Contains(needed, term.labels[i])) {
      kept.push_back(term.labels[i]);
    } else {
      summed.push_back(static_cast<int64_t>(i));
    }
  }
  if (!summed.empty() && c.ok()) term.value = c.Reduce("reduce_sum", term.value, summed, false);
  term.labels = kept;
  return term;
}

V Arrange(NodeContext& c, const Term& term, const Labels& order) {
  std::vector<int64_t> perm;
  for (const int label : order) {
    perm.push_back(std::find(term.labels.begin(), term.labels.end(), label) - term.labels.begin());
  }
  return c.Transpose(term.value, perm);
}

// Multiplies two terms and sums what `needed` does not name: one matmul [batch, a, k] x [batch, k,
// b].
Term Multiply(NodeContext& c, Term a, Term b, const Labels& needed) {
  if (!c.ok()) return a;
  std::map<int, Expr> size;
  // An ellipsis axis of size 1 broadcasts: it leaves the term that has it.
  const auto drop_ones = [&](Term& term, const Term& other) {
    std::vector<int64_t> ones;
    Labels kept;
    for (size_t i = 0; i < term.labels.size(); ++i) {
      const auto at = std::find(other.labels.begin(), other.labels.end(), term.labels[i]);
      const bool is_one = c.exprs().IsConst(c.Dims(term.value)[i], 1) && at != other.labels.end();
      if (is_one && !c.exprs().IsConst(
                        c.Dims(other.value)[static_cast<size_t>(at - other.labels.begin())], 1)) {
        ones.push_back(static_cast<int64_t>(i));
      } else {
        kept.push_back(term.labels[i]);
      }
    }
    if (!ones.empty()) term.value = c.Squeeze(term.value, ones);
    term.labels = kept;
  };
  drop_ones(a, b);
  drop_ones(b, a);
  if (!c.ok()) return a;
  Labels batch;
  Labels contracted;
  Labels free_a;
  Labels free_b;
  for (size_t i = 0; i < a.labels.size(); ++i) {
    const int label = a.labels[i];
    size[label] = c.Dims(a.value)[i];
    if (!Contains(b.labels, label)) {
      free_a.push_back(label);
    } else if (Contains(needed, label)) {
      batch.push_back(label);
    } else {
      contracted.push_back(label);
    }
  }
  for (size_t i = 0; i < b.labels.size(); ++i) {
    const int label = b.labels[i];
    const Expr dim = c.Dims(b.value)[i];
    if (!Contains(a.labels, label)) {
      free_b.push_back(label);
      size[label] = dim;
    } else if (c.exprs().AsConst(dim).has_value() && c.exprs().AsConst(size[label]).has_value() &&
               dim != size[label]) {
      c.Fail(InvalidArgument("A label of the equation has sizes {} and {}.",
                             c.exprs().Format(size[label]), c.exprs().Format(dim)));
      return a;
    }
  }
  const auto product = [&](const Labels& labels) {
    Expr all = c.Const(1);
    for (const int label : labels) all = c.exprs().Mul(all, size[label]);
    return all;
  };
  const auto join = [](const Labels& x, const Labels& y, const Labels& z) {
    Labels all = x;
    all.insert(all.end(), y.begin(), y.end());
    all.insert(all.end(), z.begin(), z.end());
    return all;
  };
  const Labels out_labels = join(batch, free_a, free_b);
  std::vector<Expr> out_dims;
  for (const int label : out_labels) out_dims.push_back(size[label]);
  const Expr n = product(batch);
  if (contracted.empty()) {
    // An outer product is elementwise.
    V left = c.ReshapeTo(Arrange(c, a, join(batch, free_a, {})), {n, product(free_a), c.Const(1)});
    V right = c.ReshapeTo(Arrange(c, b, join(batch, free_b, {})), {n, c.Const(1), product(free_b)});
    return {c.ReshapeTo(left * right, out_dims), out_labels};
  }
  const Expr k = product(contracted);
  V left = c.ReshapeTo(Arrange(c, a, join(batch, free_a, contracted)), {n, product(free_a), k});
  V right = c.ReshapeTo(Arrange(c, b, join(batch, contracted, free_b)), {n, k, product(free_b)});
  return {c.ReshapeTo(c.Op("matmul", {left, right}), out_dims), out_labels};
}

std::vector<V> ImportEinsum(NodeContext& c) {
  std::string equation = c.String("equation", "");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  const size_t arrow = equation.find("->");
  const std::string inputs = equation.substr(0, arrow);
  std::vector<Term> terms;
  size_t start = 0;
  for (size_t i = 0; i < c.input_count() && c.ok(); ++i) {
    if (start > inputs.size()) break;
    const size_t end = std::min(inputs.find(',', start), inputs.size());
    Term term = {c.In(i), {}};
    if (!c.ok() ||
        !ParseLabels(c, inputs.substr(start, end - start), c.Rank(term.value), term.labels)) {
      return {};
    }
    terms.push_back(std::move(term));
    start = end + 1;
  }
  if (!c.ok()) return {};
  if (terms.size() != c.input_count() || start <= inputs.size() || terms.empty()) {
    c.Fail(InvalidArgument("Equation '{}' does not have one term for each of the {}.", equation,
                           Counted(c.input_count(), "input")));
    return {};
  }
  std::map<int, int> uses;
  int ellipsis = 0;
  for (const Term& term : terms) {
    for (const int label : term.labels) {
      ++uses[label];
      ellipsis = std::max(ellipsis, -label);
    }
  }
  Labels output;
  if (arrow == std::string::npos) {
    // Implicit: the ellipsis, then the letters that occur once, in order.
    for (int k = ellipsis; k > 0; --k) output.push_back(-k);
    for (const auto& [label, count] : uses) {
      if (label > 0 && count == 1) output.push_back(label);
    }
  } else {
    const std::string text = equation.substr(arrow + 2);
    const bool has_dots = text.find("...") != std::string::npos;
    const auto letters = static_cast<int64_t>(text.size()) - (has_dots ? 3 : 0);
    if (!ParseLabels(c, text, letters + (has_dots ? ellipsis : 0), output)) return {};
  }
  for (size_t i = 0; i < output.size(); ++i) {
    if (uses.count(output[i]) == 0 || std::count(output.begin(), output.end(), output[i]) != 1) {
      c.Fail(InvalidArgument(
          "Equation '{}' has an output label that no input has, or has it twice.", equation));
      return {};
    }
  }
  const auto needed_after = [&](size_t next) {
    Labels needed = output;
    for (size_t i = next; i < terms.size(); ++i) {
      needed.insert(needed.end(), terms[i].labels.begin(), terms[i].labels.end());
    }
    return needed;
  };
  Term result = Simplify(c, terms[0], needed_after(1));
  for (size_t i = 1; i < terms.size() && c.ok(); ++i) {
    Labels needed = needed_after(i + 1);
    needed.insert(needed.end(), result.labels.begin(), result.labels.end());
    const Term next = Simplify(c, terms[i], needed);
    result = Multiply(c, result, next, needed_after(i + 1));
  }
  if (!c.ok()) return {};
  return {Arrange(c, result, output)};
}

// Elimination with the greatest element of the column as pivot. Each round leaves a matrix that has
// a row and a column less.
std::vector<V> ImportDet(NodeContext& c) {
  V x = c.In(0);
  if (!c.ok()) return {};
  const std::vector<Expr> dims = c.Dims(x);
  constexpr int64_t kMost = 64;
  const int64_t n = dims.empty() ? -1 : c.exprs().AsConst(dims.back()).value_or(-1);
  if (dims.size() < 2 || dims.back() != dims[dims.size() - 2]) {
    c.Fail(InvalidArgument("The input is {}; its last two dims must be equal.",
                           graph::FormatType(c.exprs(), c.TypeOf(x))));
    return {};
  }
  if (n < 1 || n > kMost) {
    c.Fail(Unimplemented("The matrices have {} rows; 1 to {} are supported.",
                         c.exprs().Format(dims.back()), kMost));
    return {};
  }
  Expr batch = c.Const(1);
  const std::vector<Expr> out(dims.begin(), dims.end() - 2);
  for (const Expr dim : out) batch = c.exprs().Mul(batch, dim);
  const DType wide = c.ComputeDType(x);
  V rest = c.ReshapeTo(c.Cast(x, wide), {batch, c.Const(n), c.Const(n)});
  V product = {&c, kNone};
  for (int64_t size = n; size > 0 && c.ok(); --size) {
    const Expr one = c.Const(1);
    const Expr below = c.Const(size - 1);
    if (size > 1) {
      // Row `from` and row 0 change places.
      const V column = c.Unary("abs", c.SliceAxis(rest, 2, c.Const(0), one));
      const V from = c.Op("argmax", {column}, {{"axis", int64_t{1}}, {"keep_dims", int64_t{1}}});
      const std::vector<Expr> shape = {batch, c.Const(size), c.Const(size)};
      const V row = c.Iota(DType::kI64, shape, 1);
      const V zero = c.Integer(DType::kI64, 0);
      const V at =
          c.Select(c.Binary("eq", row, zero), from, c.Select(c.Binary("eq", row, from), zero, row));
      rest = c.Op("gather_elements", {rest, at}, {{"axis", int64_t{1}}});
      const V sign = c.Select(c.Binary("eq", from, zero), c.Number(wide, 1), c.Number(wide, -1));
      product = product.valid() ? product * sign : sign;
    }
    const V top = c.SliceAxis(rest, 1, c.Const(0), one);
    const V pivot = c.SliceAxis(top, 2, c.Const(0), one);
    product = product.valid() ? product * pivot : pivot;
    if (size == 1) break;
    // Of a pivot of 0 nothing matters any more: the product is 0.
    const V divisor = c.Select(c.Binary("eq", pivot, c.Like(pivot, 0)), c.Like(pivot, 1), pivot);
    const V under = c.SliceAxis(rest, 1, one, below);
    const V factor = c.SliceAxis(under, 2, c.Const(0), one) / divisor;
    rest = c.SliceAxis(under, 2, one, below) - factor * c.SliceAxis(top, 2, one, below);
  }
  return {c.ReshapeTo(c.Cast(product, c.DTypeOf(x)), out)};
}

// Integers minus their zero point, in i32. A zero point per row of A or column of B.
V Centred(NodeContext& c, V x, V zero_point, bool per_row) {
  x = c.Cast(x, DType::kI32);
  if (!zero_point.valid()) return x;
  zero_point = c.Cast(zero_point, DType::kI32);
  if (per_row && c.Rank(zero_point) == 1) zero_point = c.Unsqueeze(zero_point, {1});
  return x - zero_point;
}

std::vector<V> ImportMatMulInteger(NodeContext& c) {
  const V none = {&c, kNone};
  const V a = Centred(c, c.In(0), c.Has(2) ? c.In(2) : none, c.Rank(c.In(0)) > 1);
  const V b = Centred(c, c.In(1), c.Has(3) ? c.In(3) : none, false);
  return {MatMul(c, a, b)};
}

std::vector<V> ImportQLinearMatMul(NodeContext& c) {
  const V a = Centred(c, c.In(0), c.In(2), true);
  const V b = Centred(c, c.In(3), c.In(5), false);
  V a_scale = c.Cast(c.In(1), DType::kF32);
  if (c.ok() && c.Rank(a_scale) == 1) a_scale = c.Unsqueeze(a_scale, {1});
  const V scale = a_scale * c.Cast(c.In(4), DType::kF32) / c.Cast(c.In(6), DType::kF32);
  const V y = c.Unary("round_even", c.Cast(MatMul(c, a, b), DType::kF32) * scale);
  const V zero_point = c.In(7);
  return {c.Cast(y + c.Cast(zero_point, DType::kF32), c.DTypeOf(zero_point))};
}

constexpr ImportRow kMatmulRows[] = {
    {"Det", 11, 0, 1, 1, 1, "", ImportDet, "at most 64 rows"},
    {"Einsum", 12, 0, 1, -1, 1, "equation", ImportEinsum},
    {"Gemm", 7, 0, 2, 3, 1, "alpha beta transA transB", ImportGemm},
    {"MatMul", 1, 0, 2, 2, 1, "", ImportMatMul},
    {"MatMulInteger", 10, 0, 2, 4, 1, "", ImportMatMulInteger},
    {"QLinearMatMul", 10, 0, 8, 8, 1, "", ImportQLinearMatMul},
};

}  // namespace

std::span<const ImportRow> MatmulRows() { return kMatmulRows; }

}  // namespace halyard::onnx
