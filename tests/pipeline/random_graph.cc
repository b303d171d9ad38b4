// SPDX-License-Identifier: Apache-2.0
// MakeRandomGraph: nodes are added one by one to a pool of values.
#include "tests/pipeline/random_graph.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "base/check.h"
#include "compiler/graph/builder.h"

namespace halyard::graph {
namespace {

using Dims = std::vector<int64_t>;

constexpr int64_t kMostElements = 1 << 14;
constexpr int64_t kMostOfSymbol = 40;

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {
    AddGraph(graph_.module, "main");
    builder_.emplace(graph_.module);
    if (Coin(3)) {
      // Loops have names too.
      constexpr const char* kNames[] = {"n", "i", "r", "i1", "k"};
      graph_.symbol = builder_->exprs().Dim(kNames[seed % std::size(kNames)]);
      builder_->exprs().Constrain(graph_.symbol, {1, kMostOfSymbol});
      sample_ = 1 + Up(kMostOfSymbol);
    }
  }

  RandomGraph Run() {
    for (int i = 1 + Up(3); i > 0; --i) {
      std::vector<Expr> dims = Exprs(RandomDims(Up(5)));
      if (graph_.symbol.valid() && !dims.empty() && (i == 1 || Coin())) {
        dims[static_cast<size_t>(Up(Coin() ? 1 : dims.size()))] = graph_.symbol;
      }
      AddInput(dims);
    }
    const int nodes = 6 + Up(15);
    for (int i = 0; i < nodes; ++i) {
      builder_->SetNodeName("node" + std::to_string(i));
      AddStep();
    }
    Finish();
    return std::move(graph_);
  }

 private:
  // A value with what it may be used for.
  struct Entry {
    ValueId id = kNone;
    bool is_exact = false;  // no arithmetic has touched it
    bool is_used = false;
  };

  int Up(size_t limit) { return static_cast<int>(random_() % limit); }
  bool Coin(int in = 2) { return Up(static_cast<size_t>(in)) == 0; }

  const std::vector<Expr>& ShapeOf(ValueId id) { return builder_->type_of(id).dims; }
  // The dims at one value of the symbol, for limits.
  Dims DimsOf(ValueId id) {
    Dims dims;
    for (const Expr dim : ShapeOf(id)) {
      dims.push_back(*builder_->exprs().Evaluate(dim, [&](Expr) { return sample_; }));
    }
    return dims;
  }
  bool IsFixed(Expr dim) { return builder_->exprs().AsConst(dim).has_value(); }
  bool IsFixed(const std::vector<Expr>& dims) {
    return std::all_of(dims.begin(), dims.end(), [&](Expr dim) { return IsFixed(dim); });
  }
  std::vector<Expr> Exprs(const Dims& dims) {
    std::vector<Expr> exprs;
    for (const int64_t dim : dims) exprs.push_back(builder_->exprs().Const(dim));
    return exprs;
  }
  static int64_t Count(const Dims& dims) {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    return count;
  }
  Dims RandomDims(int rank) {
    static constexpr int64_t kSizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33, 64, 100};
    Dims dims;
    for (int i = 0; i < rank; ++i) {
      int64_t dim = kSizes[Up(std::size(kSizes))];
      if (Count(dims) * dim > kMostElements / 4) dim = 1 + Up(2);
      dims.push_back(dim);
    }
    return dims;
  }
  std::vector<int64_t> SomeAxes(size_t rank) {
    std::vector<int64_t> axes;
    for (size_t i = 0; i < rank; ++i) {
      if (Coin()) axes.push_back(static_cast<int64_t>(i));
    }
    return axes;
  }

  ValueId One(std::string_view op, std::vector<ValueId> operands, Attributes attributes = {}) {
    Result<ValueId> made = builder_->AddOne(op, std::move(operands), std::move(attributes));
    HY_CHECK(made.ok());
    return *made;
  }
  void Keep(ValueId id, bool is_exact = false) { pool_.push_back({id, is_exact, false}); }

  Tensor RandomTensor(const Dims& dims) {
    std::vector<double> values(static_cast<size_t>(Count(dims)));
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (double& value : values) value = uniform(random_);
    return TensorOfFloats(DType::kF32, dims, values);
  }
  ValueId AddInput(const std::vector<Expr>& dims) {
    const ValueId id =
        *builder_->AddParameter("x" + std::to_string(inputs_++), {DType::kF32, dims});
    Keep(id, true);
    return id;
  }
  // A weight: a constant, or one more input.
  ValueId Weight(const std::vector<Expr>& dims) {
    if (Coin(3) || !IsFixed(dims)) return AddInput(dims);
    Dims fixed;
    for (const Expr dim : dims) fixed.push_back(*builder_->exprs().AsConst(dim));
    return *builder_->ConstantOf(RandomTensor(fixed));
  }

  // A random value of the pool; of late ones more often, so that chains grow.
  Entry& Any() {
    const size_t count = pool_.size();
    Entry& entry =
        pool_[Coin() ? count - 1 - random_() % std::min<size_t>(count, 3) : random_() % count];
    entry.is_used = true;
    return entry;
  }
  Entry* AnyOfRank(size_t least) {
    for (int tries = 0; tries < 8; ++tries) {
      Entry& entry = Any();
      if (builder_->type_of(entry.id).dims.size() >= least) return &entry;
    }
    return nullptr;
  }
  // A value that broadcasts to `dims`: one of the pool, or a new weight with some dims of 1.
  ValueId Partner(const std::vector<Expr>& dims) {
    const Expr one = builder_->exprs().Const(1);
    for (int tries = 0; tries < 6; ++tries) {
      const Entry& entry = pool_[random_() % pool_.size()];
      const std::vector<Expr>& other = ShapeOf(entry.id);
      bool fits = other.size() <= dims.size();
      for (size_t i = 0; fits && i < other.size(); ++i) {
        fits = other[i] == dims[dims.size() - other.size() + i] || other[i] == one;
      }
      if (fits) return entry.id;
    }
    std::vector<Expr> own(dims.end() - Up(dims.size() + 1), dims.end());
    for (Expr& dim : own) dim = Coin(3) ? one : dim;
    return Weight(own);
  }
  ValueId Bounded(ValueId id) { return One("tanh", {id}); }

  void AddStep() {
    switch (Up(16)) {
      case 0:
      case 1:
        return AddUnary();
      case 2:
      case 3:
      case 4:
        return AddBinary();
      case 5:
      case 6:
        return AddReduction();
      case 7:
        return AddTranspose();
      case 8:
        return AddReshape();
      case 9:
        return AddSlice();
      case 10:
        return AddConcatOrPad();
      case 11:
        return AddGather();
      case 12:
        return AddSelect();
      case 13:
        return AddSoftmax();
      case 14:
        return AddMatmul();
      default:
        return AddWindow();
    }
  }

  void AddUnary() {
    static constexpr const char* kSmooth[] = {"neg", "abs", "tanh", "erf", "sin", "cos", "atan"};
    static constexpr const char* kJumping[] = {"floor", "ceil", "round_even", "trunc"};
    const Entry entry = Any();
    if (entry.is_exact && Coin(4)) return Keep(One(kJumping[Up(4)], {entry.id}), true);
    if (Coin(4)) return Keep(One("exp", {One("neg", {One("abs", {entry.id})})}));
    Keep(One(kSmooth[Up(std::size(kSmooth))], {entry.id}));
  }

  void AddBinary() {
    static constexpr const char* kOps[] = {"add", "sub", "mul", "min", "max"};
    const ValueId a = Any().id;
    ValueId b = Partner(std::vector<Expr>(ShapeOf(a))), left = a;
    if (Coin()) std::swap(left, b);
    const int op = Up(std::size(kOps));
    const ValueId made = *builder_->Binary(kOps[op], left, b);
    Keep(op < 3 ? Bounded(made) : made);
  }

  void AddReduction() {
    static constexpr const char* kOps[] = {"reduce_sum", "reduce_max", "reduce_min", "reduce_sum"};
    const Entry entry = Any();
    const Dims dims = DimsOf(entry.id);
    const std::vector<int64_t> axes = SomeAxes(dims.size());
    int64_t reduced = 1;
    for (const int64_t axis : axes) reduced *= dims[static_cast<size_t>(axis)];
    if (entry.is_exact && !dims.empty() && Coin(6)) {
      const int64_t axis = Up(dims.size());
      const ValueId index = One(Coin() ? "argmax" : "argmin", {entry.id}, {{"axis", axis}});
      return Keep(One("tanh", {One("cast", {index}, {{"dtype", DType::kF32}})}));
    }
    const int64_t keep = Up(2);
    const int op = Up(std::size(kOps));
    ValueId made = One(kOps[op], {entry.id}, {{"axes", axes}, {"keep_dims", keep}});
    if (std::string_view(kOps[op]) == "reduce_sum") {
      const double scale = 1.0 / static_cast<double>(std::max<int64_t>(reduced, 1));
      made = *builder_->Binary("mul", made, *builder_->ScalarFloat(DType::kF32, scale));
      if (!IsFixed(ShapeOf(entry.id))) made = Bounded(made);
    }
    Keep(made);
    // Norms give back what the reduction took away.
    if (keep == 1 && Coin()) Keep(*builder_->Binary("sub", entry.id, made));
  }

  void AddTranspose() {
    const Entry entry = Any();
    std::vector<int64_t> perm(builder_->type_of(entry.id).dims.size());
    for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
    std::shuffle(perm.begin(), perm.end(), random_);
    Keep(*builder_->TransposeTo(entry.id, perm), entry.is_exact);
  }

  void AddReshape() {
    const Entry entry = Any();
    int64_t left = 1;
    std::vector<Expr> dims, others;
    for (const Expr dim : ShapeOf(entry.id)) {
      if (IsFixed(dim)) {
        left *= *builder_->exprs().AsConst(dim);
      } else {
        others.push_back(dim);
      }
    }
    for (int i = Up(4); i > 0; --i) {
      std::vector<int64_t> divisors;
      for (int64_t d = 1; d <= left; ++d) {
        if (left % d == 0) divisors.push_back(d);
      }
      const int64_t dim = divisors[static_cast<size_t>(Up(divisors.size()))];
      dims.push_back(builder_->exprs().Const(dim));
      left /= dim;
    }
    others.push_back(builder_->exprs().Const(left));
    for (const Expr dim : others) dims.insert(dims.begin() + Up(dims.size() + 1), dim);
    if (dims.size() > 6) return;
    Keep(*builder_->ReshapeTo(entry.id, dims), entry.is_exact);
  }

  void AddSlice() {
    const Entry entry = Any();
    ExprArena& exprs = builder_->exprs();
    std::vector<Expr> starts, sizes;
    std::vector<int64_t> steps;
    for (const Expr dim : std::vector<Expr>(ShapeOf(entry.id))) {
      const bool is_backwards = Coin(4);
      if (!IsFixed(dim)) {
        starts.push_back(is_backwards ? exprs.Sub(dim, exprs.Const(1)) : exprs.Const(0));
        sizes.push_back(dim);
        steps.push_back(is_backwards ? -1 : 1);
        continue;
      }
      const int64_t whole = *exprs.AsConst(dim);
      const int64_t step = Coin(3) ? 1 + Up(3) : 1;
      const int64_t size = 1 + Up(static_cast<size_t>((whole - 1) / step + 1));
      const int64_t start = Up(static_cast<size_t>(whole - (size - 1) * step));
      starts.push_back(exprs.Const(is_backwards ? start + (size - 1) * step : start));
      sizes.push_back(exprs.Const(size));
      steps.push_back(is_backwards ? -step : step);
    }
    Keep(One("slice", {entry.id}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}}),
         entry.is_exact);
  }

  void AddConcatOrPad() {
    Entry* found = AnyOfRank(1);
    if (found == nullptr) return;
    const Entry entry = *found;
    const Dims dims = DimsOf(entry.id);
    const auto axis = static_cast<size_t>(Up(dims.size()));
    if (Coin()) {
      if (Count(dims) > kMostElements / 4) return;
      std::vector<Expr> other = ShapeOf(entry.id);
      other[axis] = builder_->exprs().Const(1 + Up(5));
      std::vector<ValueId> parts = {entry.id, Weight(other)};
      if (Coin(3)) parts.push_back(entry.id);
      std::shuffle(parts.begin(), parts.end(), random_);
      return Keep(One("concat", parts, {{"axis", static_cast<int64_t>(axis)}}), entry.is_exact);
    }
    Dims low(dims.size(), 0), high(dims.size(), 0);
    low[axis] = Up(4);
    high[axis] = Up(4);
    static constexpr const char* kModes[] = {"constant", "edge", "wrap", "reflect"};
    int mode = Up(4);
    // A reflection needs pads below the dim; a wrap, at most the dim.
    const bool is_fixed = IsFixed(ShapeOf(entry.id)[axis]);
    if (mode > 1 && (!is_fixed || std::max(low[axis], high[axis]) >= dims[axis])) mode = Up(2);
    Keep(One("pad", {entry.id},
             {{"low", Exprs(low)}, {"high", Exprs(high)}, {"mode", std::string(kModes[mode])}}),
         entry.is_exact);
  }

  void AddGather() {
    Entry* found = AnyOfRank(1);
    if (found == nullptr) return;
    const Entry entry = *found;
    const Dims dims = DimsOf(entry.id);
    const int64_t axis = Up(dims.size());
    const int64_t dim = dims[static_cast<size_t>(axis)];
    if (!IsFixed(ShapeOf(entry.id)[static_cast<size_t>(axis)])) return;
    Dims shape;
    for (int i = Up(3); i > 0; --i) shape.push_back(1 + Up(6));
    if (Count(dims) / dim * Count(shape) > kMostElements) return;
    std::vector<int64_t> indices(static_cast<size_t>(Count(shape)));
    for (int64_t& index : indices) index = Up(static_cast<size_t>(dim));
    const ValueId which = *builder_->ConstantOf(TensorOfInts(DType::kI64, shape, indices));
    Keep(One("gather", {entry.id, which}, {{"axis", axis}}), entry.is_exact);
  }

  void AddSelect() {
    static constexpr const char* kCompare[] = {"lt", "ge", "eq", "ne"};
    const Entry entry = Any();
    const std::vector<Expr> dims = ShapeOf(entry.id);
    // Where an exact value is above a number that none of them equals.
    ValueId exact = kNone;
    for (const Entry& other : pool_) {
      if (other.is_exact && ShapeOf(other.id) == dims) exact = other.id;
    }
    if (exact == kNone) exact = AddInput(dims);
    const ValueId limit = *builder_->Splat(DType::kF32, 0.1, dims);
    const ValueId condition = *builder_->Binary(kCompare[Up(4)], exact, limit);
    const ValueId other = *builder_->BroadcastTo(Partner(dims), dims);
    Keep(*builder_->Select(condition, entry.id, other));
  }

  void AddSoftmax() {
    Entry* found = AnyOfRank(1);
    if (found == nullptr) return;
    const ValueId x = found->id;
    const std::vector<int64_t> axes = {Up(DimsOf(x).size())};
    const Attributes along = {{"axes", axes}, {"keep_dims", int64_t{1}}};
    const ValueId shifted = *builder_->Binary("sub", x, One("reduce_max", {x}, along));
    const ValueId power = One("exp", {shifted});
    Keep(*builder_->Binary("div", power, One("reduce_sum", {power}, along)));
  }

  void AddMatmul() {
    Entry* found = AnyOfRank(2);
    if (found == nullptr) return;
    const ValueId a = found->id;
    const Dims dims = DimsOf(a);
    const int64_t transpose_a = Up(2), transpose_b = Up(2);
    const int64_t k = dims[dims.size() - (transpose_a == 1 ? 2 : 1)];
    const int64_t rows = Count(dims) / k;
    const int64_t rows_of_one = dims[dims.size() - (transpose_a == 1 ? 1 : 2)];
    static constexpr int64_t kColumns[] = {1, 2, 5, 8, 16, 19, 33, 64};
    const int64_t n = kColumns[Up(8)];
    if (rows * n > kMostElements || k * n > kMostElements) return;
    const std::vector<Expr> shape = ShapeOf(a);
    std::vector<Expr> weight;
    if (Coin(3) && Count(dims) / rows_of_one * n <= kMostElements) {
      weight.assign(shape.begin(), shape.end() - 2);
    }
    const Expr columns = builder_->exprs().Const(n);
    const Expr depth = shape[shape.size() - (transpose_a == 1 ? 2 : 1)];
    weight.push_back(transpose_b == 1 ? columns : depth);
    weight.push_back(transpose_b == 1 ? depth : columns);
    ValueId made = One("matmul", {a, Weight(weight)},
                       {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
    if (Coin()) made = *builder_->Binary("add", made, Weight({columns}));
    Keep(Bounded(made));
  }

  void AddWindow() {
    Entry* found = AnyOfRank(3);
    if (found == nullptr) return;
    const ValueId x = found->id;
    const Dims dims = DimsOf(x);
    const std::vector<Expr> shape = ShapeOf(x);
    if (!IsFixed(std::vector<Expr>(shape.begin() + 1, shape.end()))) return;
    Dims window, strides, low, high, dilations;
    int64_t results = dims[0], taps = 1;
    for (size_t i = 2; i < dims.size(); ++i) {
      const int64_t size = 1 + Up(3), dilation = Coin(4) ? 2 : 1;
      const int64_t reach = dilation * (size - 1) + 1;
      const int64_t pad = Up(static_cast<size_t>(size));
      const int64_t needed = std::max<int64_t>(0, reach - dims[i] - pad);
      window.push_back(size);
      strides.push_back(1 + Up(2));
      low.push_back(pad);
      high.push_back(needed + Up(2));
      dilations.push_back(dilation);
      results *= dims[i] + low.back() + high.back();
      taps *= size;
    }
    Attributes attributes = {
        {"strides", strides}, {"pads_low", low}, {"pads_high", high}, {"dilations", dilations}};
    const int kind = Up(4);
    if (results * dims[1] > kMostElements) return;
    if (kind == 0) {
      attributes["window"] = window;
      attributes["count_include_pad"] = int64_t{1};
      return Keep(One("avg_pool", {x}, attributes));
    }
    const bool is_depthwise = kind == 1;
    const int64_t channels = is_depthwise ? dims[1] : 1 + Up(9);
    if (results * channels > kMostElements || results * channels * dims[1] * taps > (1 << 22))
      return;
    Dims weight = {channels, is_depthwise ? 1 : dims[1]};
    weight.insert(weight.end(), window.begin(), window.end());
    attributes["groups"] = is_depthwise ? dims[1] : int64_t{1};
    Keep(Bounded(One("conv", {x, Weight(Exprs(weight))}, attributes)));
  }

  // Every value that no node reads is a result, and now and then another one.
  void Finish() {
    std::vector<ValueId> results;
    for (const Entry& entry : pool_) {
      const bool is_parameter = graph_.module.values[entry.id].producer == kNone;
      if (!is_parameter && (!entry.is_used || Coin(6))) results.push_back(entry.id);
    }
    if (results.empty()) results.push_back(Bounded(pool_.back().id));
    HY_CHECK(builder_->SetResults(results).ok());
  }

  std::mt19937 random_;
  RandomGraph graph_;
  std::optional<Builder> builder_;
  int64_t sample_ = 1;
  int inputs_ = 0;
  std::vector<Entry> pool_;
};

}  // namespace

RandomGraph MakeRandomGraph(uint32_t seed) { return Generator(seed).Run(); }

std::vector<Tensor> RandomInputs(const RandomGraph& graph, int64_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.module.entry().parameters) {
    const Value& value = graph.module.values[id];
    std::vector<int64_t> dims;
    int64_t count = 1;
    for (const Expr dim : value.type.dims) {
      dims.push_back(*graph.module.exprs.Evaluate(dim, [&](Expr) { return size; }));
      count *= dims.back();
    }
    std::vector<double> values(static_cast<size_t>(count));
    for (double& number : values) number = uniform(random);
    inputs.push_back(TensorOfFloats(value.type.dtype, dims, values));
  }
  return inputs;
}

}  // namespace halyard::graph
