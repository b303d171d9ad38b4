// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM as loops over time. What does not depend on the state, the product of the
// inputs with their weights, is one product before the loop.
#include <algorithm>
#include <optional>

#include "base/excerpt.h"
#include "base/quantity.h"
#include "compiler/import/onnx_activation.h"
#include "compiler/import/onnx_context.h"
#include "compiler/import/onnx_loop_body.h"

namespace halyard::onnx {
namespace {

// Beyond it the graph would grow more than it gains.
constexpr int64_t kMostUnrolled = 64;

struct Activation {
  std::string name;  // in lower case
  double alpha = 0;
  double beta = 0;
};

// The functions with parameters, and what these are when not given.
struct ActivationDefaults {
  std::string_view name;
  int parameters;  // 1: alpha, 2: alpha and beta
  double alpha;
  double beta;
};
constexpr ActivationDefaults kActivations[] = {
    {"relu", 0, 0, 0},         {"tanh", 0, 0, 0},
    {"sigmoid", 0, 0, 0},      {"softsign", 0, 0, 0},
    {"softplus", 0, 0, 0},     {"affine", 2, 1, 0},
    {"leakyrelu", 1, 0.01, 0}, {"thresholdedrelu", 1, 1, 0},
    {"scaledtanh", 2, 1, 1},   {"hardsigmoid", 2, 0.2, 0.5},
    {"elu", 1, 1, 0},
};

V Apply(NodeContext& c, const Activation& f, V x) {
  if (!c.ok()) return x;
  const V zero = c.Like(x, 0);
  if (f.name == "relu") return c.Binary("max", x, zero);
  if (f.name == "tanh") return c.Unary("tanh", x);
  if (f.name == "sigmoid") return Sigmoid(x);
  if (f.name == "softsign") return x / (1.0 + c.Unary("abs", x));
  if (f.name == "softplus") return Softplus(x);
  if (f.name == "affine") return f.alpha * x + f.beta;
  if (f.name == "leakyrelu") return c.Select(c.Binary("lt", x, zero), f.alpha * x, x);
  if (f.name == "thresholdedrelu") {
    return c.Select(c.Binary("ge", x, c.Like(x, f.alpha)), x, zero);
  }
  if (f.name == "scaledtanh") return f.alpha * c.Unary("tanh", f.beta * x);
  if (f.name == "hardsigmoid") {
    return c.Binary("min", c.Binary("max", f.alpha * x + f.beta, zero), c.Like(x, 1));
  }
  return c.Select(c.Binary("lt", x, zero), f.alpha * (c.Unary("exp", x) - 1.0), x);  // elu
}

// `count` activations for each direction; alphas and betas are taken in order by those that use
// them.
std::vector<Activation> ReadActivations(NodeContext& c, std::vector<std::string> names,
                                        size_t count) {
  if (const AttributeProto* attribute = c.Find("activations")) names = attribute->strings;
  const std::vector<double> alphas = c.Floats("activation_alpha");
  const std::vector<double> betas = c.Floats("activation_beta");
  if (names.size() != count) {
    c.Fail(InvalidArgument("Attribute 'activations' has {}; {} are needed.",
                           Counted(names.size(), "element"), count));
  }
  std::vector<Activation> out;
  size_t alpha = 0;
  size_t beta = 0;
  for (std::string name : names) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    const auto* known = std::find_if(std::begin(kActivations), std::end(kActivations),
                                     [&](const ActivationDefaults& f) { return f.name == name; });
    if (known == std::end(kActivations)) {
      c.Fail(InvalidArgument("Attribute 'activations' holds '{}', which ONNX does not know.",
                             Printable(Excerpt(name))));
      return {};
    }
    Activation f = {name, known->alpha, known->beta};
    if (known->parameters > 0 && alpha < alphas.size()) f.alpha = alphas[alpha++];
    if (known->parameters > 1 && beta < betas.size()) f.beta = betas[beta++];
    out.push_back(std::move(f));
  }
  return out;
}

enum class Cell { kRnn, kGru, kLstm };

// One direction: what its loop reads. Invalid where the node has none.
struct Direction {
  Cell cell = Cell::kRnn;
  Expr steps, batch, hidden;
  V products;                 // [steps, batch, gates * hidden]: inputs times weights plus biases
  V recurrent;                // [gates * hidden, hidden]
  V late_bias;                // GRU with linear_before_reset: [hidden], added before the reset gate
  V peepholes;                // LSTM: [3 * hidden], for the gates i, o and f
  V lengths;                  // [batch] i32
  V first_state, first_cell;  // [batch, hidden]; zeros where the node has none
  bool has_first_state = false;
  bool has_first_cell = false;
  bool is_reversed = false;
  std::vector<Activation> activations;
};

// Reverses the first lengths[b] of the steps of x[steps, batch, rest].
V ReverseWithin(NodeContext& c, V x, V lengths) {
  if (!c.ok()) return x;
  const std::vector<Expr> dims = c.Dims(x);
  const V time = c.Iota(DType::kI64, {dims[0], c.Const(1), c.Const(1)}, 0);
  const V length = c.ReshapeTo(c.Cast(lengths, DType::kI64), {c.Const(1), dims[1], c.Const(1)});
  const V at = c.Select(c.Binary("lt", time, length), length - time - 1.0, time);
  return c.Op("gather_elements", {x, c.BroadcastTo(at, dims)}, {{"axis", int64_t{0}}});
}

V Reverse(NodeContext& c, V x) {
  if (!c.ok()) return x;
  const std::vector<Expr> dims = c.Dims(x);
  std::vector<Expr> starts(dims.size(), c.Const(0));
  std::vector<int64_t> steps(dims.size(), 1);
  starts[0] = c.exprs().Sub(dims[0], c.Const(1));
  steps[0] = -1;
  return c.Op("slice", {x}, {{"starts", starts}, {"sizes", dims}, {"steps", steps}});
}

struct State {
  V hidden;
  V cell;  // LSTM
};

// Whether a step is the first: known, or a bool in a loop.
struct IsFirst {
  bool is_known = false;
  V computed;
};

// One step. `x` is [batch, gates * hidden]; the other values are those of `d` inside the loop.
State Step(NodeContext& c, const Direction& d, V x, const State& before, const IsFirst& is_first) {
  if (!c.ok()) return before;
  const Expr h = d.hidden;
  const double clip = c.Float("clip", 0);
  const auto part = [&](V v, int64_t axis, int64_t first, int64_t count) {
    return c.SliceAxis(v, axis, c.exprs().Mul(h, c.Const(first)), c.exprs().Mul(h, c.Const(count)));
  };
  // A product with a state that does not exist yet is left out: with infinite weights it is NaN,
  // not 0.
  const auto plus = [&](V v, bool has_first, const auto& product) {
    if (has_first || !(is_first.is_known || is_first.computed.valid())) return v + product();
    if (is_first.is_known) return v;
    const V made = product();
    return v + c.Select(is_first.computed, c.Like(made, 0), made);
  };
  const auto plus_times = [&](V v, V state, V weights) {
    return plus(v, d.has_first_state, [&] {
      return c.Op("matmul", {state, weights}, {{"transpose_b", int64_t{1}}});
    });
  };
  const auto apply = [&](size_t f, V v) {
    if (clip > 0) v = c.Binary("min", c.Binary("max", v, c.Like(v, -clip)), c.Like(v, clip));
    return Apply(c, d.activations[f], v);
  };
  if (d.cell == Cell::kRnn) {
    return {apply(0, plus_times(x, before.hidden, d.recurrent)), before.cell};
  }
  if (d.cell == Cell::kGru) {
    const V gates = plus_times(part(x, 1, 0, 2), before.hidden, part(d.recurrent, 0, 0, 2));
    const V update = apply(0, part(gates, 1, 0, 1));
    const V reset = apply(0, part(gates, 1, 1, 1));
    const V weights = part(d.recurrent, 0, 2, 1);
    const V rest = part(x, 1, 2, 1);
    const V next = apply(1, d.late_bias.valid()
                                ? rest + reset * plus_times(d.late_bias, before.hidden, weights)
                                : plus_times(rest, reset * before.hidden, weights));
    return {(1.0 - update) * next + update * before.hidden, before.cell};
  }
  const V gates = plus_times(x, before.hidden, d.recurrent);
  const auto gate = [&](int64_t which) { return part(gates, 1, which, 1); };
  const auto peep = [&](V v, int64_t which, V state, bool has_first) {
    if (!d.peepholes.valid()) return v;
    return plus(v, has_first, [&] { return part(d.peepholes, 0, which, 1) * state; });
  };
  const V in = apply(0, peep(gate(0), 0, before.cell, d.has_first_cell));
  const V forget = c.Int("input_forget", 0) != 0
                       ? 1.0 - in
                       : apply(0, peep(gate(2), 2, before.cell, d.has_first_cell));
  const V cell = forget * before.cell + in * apply(1, gate(3));
  const V out = apply(0, peep(gate(1), 1, cell, true));
  return {out * Apply(c, d.activations[2], cell), cell};
}

// The loop over one direction: all states [steps, batch, hidden] where they are wanted, and the
// last.
struct Sequence {
  V all;
  State last;
};

struct Advanced {
  State after;
  V shown;  // what the step adds to all states
};

// The step with number `iteration`, a scalar, or `at` where that is known. Beyond its end a
// sequence keeps its state and gives zeros.
Advanced Advance(NodeContext& c, const Direction& d, V iteration, std::optional<int64_t> at, V x,
                 const State& before) {
  IsFirst is_first = {at == 0, {&c, kNone}};
  if (!at) is_first.computed = c.Binary("eq", iteration, c.Like(iteration, 0));
  Advanced out = {Step(c, d, x, before, is_first), {&c, kNone}};
  out.shown = out.after.hidden;
  if (!d.lengths.valid()) return out;
  const V runs = c.Unsqueeze(c.Binary("lt", c.Cast(iteration, DType::kI32), d.lengths), {1});
  out.shown = c.Select(runs, out.after.hidden, c.Like(out.after.hidden, 0));
  out.after.hidden = c.Select(runs, out.after.hidden, before.hidden);
  if (before.cell.valid()) out.after.cell = c.Select(runs, out.after.cell, before.cell);
  return out;
}

// Every step by itself, which compiles where a loop does not.
Sequence RunUnrolled(NodeContext& c, const Direction& d, int64_t steps, bool walks_back) {
  Sequence out = {{&c, kNone}, {d.first_state, d.first_cell}};
  std::vector<V> shown(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps && c.ok(); ++i) {
    const int64_t at = walks_back ? steps - 1 - i : i;
    const V x = c.Squeeze(c.SliceAxis(d.products, 0, c.Const(at), c.Const(1)), {0});
    const Advanced next = Advance(c, d, c.Integer(DType::kI32, i), i, x, out.last);
    out.last = next.after;
    shown[static_cast<size_t>(at)] = c.Unsqueeze(next.shown, {0});
  }
  if (c.ok()) out.all = c.Concat(shown, 0);
  return out;
}

Sequence RunLoop(NodeContext& c, const Direction& d, bool walks_back, bool wants_all) {
  const bool is_lstm = d.first_cell.valid();
  std::vector<V> operands = {c.Symbolic({d.steps}, {}), {&c, kNone}};
  for (const V v : {d.first_state, d.first_cell, d.products, d.recurrent, d.late_bias, d.peepholes,
                    d.lengths}) {
    if (v.valid()) operands.push_back(v);
  }
  if (!c.ok()) return {};
  LoopBody body(c, operands);
  const V iteration = body.iteration();
  Direction inner = d;
  State before = {body.Parameter("state"), {&c, kNone}};
  if (is_lstm) before.cell = body.Parameter("cell");
  inner.products = body.Parameter("products");
  inner.recurrent = body.Parameter("recurrent");
  if (d.late_bias.valid()) inner.late_bias = body.Parameter("bias");
  if (d.peepholes.valid()) inner.peepholes = body.Parameter("peepholes");
  if (d.lengths.valid()) inner.lengths = body.Parameter("lengths");
  const V at =
      walks_back ? c.Symbolic({c.exprs().Sub(d.steps, c.Const(1))}, {}) - iteration : iteration;
  const V x = c.Op("gather", {inner.products, at}, {{"axis", int64_t{0}}});
  const Advanced step = Advance(c, inner, iteration, std::nullopt, x, before);
  std::vector<ValueId> results = {c.Number(DType::kBool, 1).id, step.after.hidden.id};
  if (is_lstm) results.push_back(step.after.cell.id);
  if (wants_all) results.push_back(step.shown.id);
  const uint32_t region = body.Close(std::move(results));
  Attributes attributes = {{"carried", int64_t{is_lstm ? 2 : 1}}};
  if (wants_all) attributes["trips"] = std::vector<Expr>{d.steps};
  const std::vector<V> made = c.Ops("loop", operands, std::move(attributes), {region});
  if (!c.ok()) return {};
  Sequence out = {{&c, kNone}, {made[0], is_lstm ? made[1] : V{&c, kNone}}};
  if (wants_all) out.all = walks_back ? Reverse(c, made.back()) : made.back();
  return out;
}

Sequence RunDirection(NodeContext& c, Direction d, bool wants_all) {
  // A sequence that ends early is reversed within its length, before and after.
  const bool reverses_within = d.is_reversed && d.lengths.valid();
  const bool walks_back = d.is_reversed && !reverses_within;
  if (reverses_within) d.products = ReverseWithin(c, d.products, d.lengths);
  const int64_t steps = c.exprs().AsConst(d.steps).value_or(0);
  Sequence out = steps > 0 && steps <= kMostUnrolled ? RunUnrolled(c, d, steps, walks_back)
                                                     : RunLoop(c, d, walks_back, wants_all);
  if (reverses_within && wants_all) out.all = ReverseWithin(c, out.all, d.lengths);
  return out;
}

std::vector<V> ImportRecurrent(NodeContext& c) {
  const Cell cell = c.node.op_type == "LSTM"  ? Cell::kLstm
                    : c.node.op_type == "GRU" ? Cell::kGru
                                              : Cell::kRnn;
  const int64_t gates = cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1;
  V x = c.In(0);
  const V weights = c.In(1);
  const V recurrent = c.In(2);
  if (!c.ok()) return {};
  const std::string direction = c.String("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    c.Fail(InvalidArgument(
        "Attribute 'direction' is '{}'; it must be forward, reverse or bidirectional.", direction));
    return {};
  }
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  if (c.Rank(x) != 3 || c.Rank(weights) != 3 || c.Rank(recurrent) != 3) {
    c.Fail(InvalidArgument("Inputs X, W and R have {}, {} and {}; they need 3.", c.Rank(x),
                           c.Rank(weights), Counted(c.Rank(recurrent), "dimension")));
    return {};
  }
  ExprArena& e = c.exprs();
  const std::vector<Expr> dw = c.Dims(weights);
  const std::vector<Expr> dr = c.Dims(recurrent);
  const Expr hidden = dr[2];
  if (!e.IsConst(dw[0], directions) || !e.IsConst(dr[0], directions) ||
      e.Mul(hidden, c.Const(gates)) != dr[1] || dw[1] != dr[1]) {
    c.Fail(InvalidArgument("W is {} and R is {}; {} and {} of hidden size {} need [{}, {}, ...].",
                           graph::FormatType(e, c.TypeOf(weights)),
                           graph::FormatType(e, c.TypeOf(recurrent)),
                           Counted(directions, "direction"), Counted(gates, "gate"),
                           e.Format(hidden), directions, e.Format(e.Mul(hidden, c.Const(gates)))));
    return {};
  }
  if (const int64_t given = c.Int("hidden_size", 0);
      given != 0 && e.AsConst(hidden).value_or(given) != given) {
    c.Fail(InvalidArgument("Attribute 'hidden_size' is {}; R has {}.", given, e.Format(hidden)));
    return {};
  }
  const bool is_batch_first = c.Int("layout", 0) != 0;
  if (is_batch_first) x = c.Transpose(x, {1, 0, 2});
  const std::vector<Expr> dx = c.Dims(x);
  const Expr steps = dx[0];
  const Expr batch = dx[1];
  std::vector<std::string> names;
  for (int64_t i = 0; i < directions; ++i) {
    if (cell != Cell::kRnn) names.push_back("Sigmoid");
    names.push_back("Tanh");
    if (cell == Cell::kLstm) names.push_back("Tanh");
  }
  const size_t per_direction = names.size() / static_cast<size_t>(directions);
  const std::vector<Activation> activations = ReadActivations(c, names, names.size());
  const V none = {&c, kNone};
  const V lengths =
      c.Has(4) ? c.Cast(c.CheckIndex(c.In(4), e.Add(steps, c.Const(1)), "entry of 'sequence_lens'"),
                        DType::kI32)
               : none;
  const bool is_late = cell == Cell::kGru && c.Int("linear_before_reset", 0) != 0;
  // Entry `d` of a value with one for each direction.
  const auto one = [&](V v, int64_t d, int64_t axis) {
    return c.Squeeze(c.SliceAxis(v, axis, c.Const(d), c.Const(1)), {axis});
  };
  const auto first = [&](size_t input, int64_t d) {
    if (!c.Has(input)) return c.BroadcastTo(c.Like(x, 0), {batch, hidden});
    return one(c.In(input), d, is_batch_first ? 1 : 0);
  };
  const bool wants_all = c.WantsOutput(0);
  std::vector<V> all, last, last_cells;
  for (int64_t i = 0; i < directions && c.ok(); ++i) {
    Direction d;
    d.cell = cell;
    d.steps = steps;
    d.batch = batch;
    d.hidden = hidden;
    d.recurrent = one(recurrent, i, 0);
    d.late_bias = d.peepholes = none;
    d.lengths = lengths;
    d.first_state = first(5, i);
    d.has_first_state = c.Has(5);
    d.has_first_cell = c.Has(6);
    d.first_cell = cell == Cell::kLstm ? first(6, i) : none;
    d.is_reversed = direction == "reverse" || i == 1;
    d.activations.assign(activations.begin() + i * static_cast<int64_t>(per_direction),
                         activations.begin() + (i + 1) * static_cast<int64_t>(per_direction));
    if (cell == Cell::kLstm && c.Has(7)) d.peepholes = one(c.In(7), i, 0);
    const V rows = c.ReshapeTo(x, {e.Mul(steps, batch), dx[2]});
    V products = c.Op("matmul", {rows, one(weights, i, 0)}, {{"transpose_b", int64_t{1}}});
    if (c.Has(3)) {
      const V biases = one(c.In(3), i, 0);
      products = products + c.SliceAxis(biases, 0, c.Const(0), dr[1]);
      V second = c.SliceAxis(biases, 0, dr[1], dr[1]);
      if (is_late) {
        const Expr two = e.Mul(hidden, c.Const(2));
        d.late_bias = c.SliceAxis(second, 0, two, hidden);
        const V parts[] = {c.SliceAxis(second, 0, c.Const(0), two),
                           c.BroadcastTo(c.Like(second, 0), {hidden})};
        second = c.Concat(parts, 0);
      }
      products = products + second;
    } else if (is_late) {
      d.late_bias = c.BroadcastTo(c.Like(x, 0), {hidden});
    }
    d.products = c.ReshapeTo(products, {steps, batch, dr[1]});
    const Sequence sequence = RunDirection(c, std::move(d), wants_all);
    if (!c.ok()) return {};
    if (wants_all) all.push_back(c.Unsqueeze(sequence.all, {1}));
    last.push_back(c.Unsqueeze(sequence.last.hidden, {0}));
    if (cell == Cell::kLstm) last_cells.push_back(c.Unsqueeze(sequence.last.cell, {0}));
  }
  if (!c.ok()) return {};
  // [steps, directions, batch, hidden] and [directions, batch, hidden].
  V y = wants_all ? c.Concat(all, 1) : none;
  V y_last = c.Concat(last, 0);
  V y_cell = cell == Cell::kLstm ? c.Concat(last_cells, 0) : none;
  if (is_batch_first) {
    if (wants_all) y = c.Transpose(y, {2, 0, 1, 3});
    y_last = c.Transpose(y_last, {1, 0, 2});
    if (cell == Cell::kLstm) y_cell = c.Transpose(y_cell, {1, 0, 2});
  }
  return {y, y_last, y_cell};
}

constexpr std::string_view kSteps =
    "compiled for 1 to 64 steps known before the run, otherwise interpreted";

constexpr ImportRow kRecurrentRows[] = {
    {"GRU", 7, 0, 3, 6, 2,
     "activation_alpha activation_beta activations clip direction hidden_size layout "
     "linear_before_reset",
     ImportRecurrent, kSteps},
    {"LSTM", 7, 0, 3, 8, 3,
     "activation_alpha activation_beta activations clip direction hidden_size input_forget layout",
     ImportRecurrent, kSteps},
    {"RNN", 7, 0, 3, 6, 2,
     "activation_alpha activation_beta activations clip direction hidden_size layout",
     ImportRecurrent, kSteps},
};

}  // namespace

std::span<const ImportRow> RecurrentRows() { return kRecurrentRows; }

}  // namespace halyard::onnx
