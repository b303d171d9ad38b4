// SPDX-License-Identifier: Apache-2.0
// Activation functions as arithmetic.
#include "compiler/import/onnx_activation.h"

#include "compiler/import/onnx_context.h"

namespace halyard::onnx {

V Sigmoid(V x) { return 1.0 / (1.0 + x.c->Unary("exp", -x)); }

// max(x, 0) + log(1 + e^-|x|)
V Softplus(V x) {
  NodeContext& c = *x.c;
  const V positive = c.Binary("max", x, c.Like(x, 0));
  return positive + c.Unary("log", 1.0 + c.Unary("exp", -c.Unary("abs", x)));
}

namespace {

V Clamp01(V x) {
  NodeContext& c = *x.c;
  return c.Binary("min", c.Binary("max", x, c.Like(x, 0)), c.Like(x, 1));
}

// below(x) where x < 0, x elsewhere.
V WhereNegative(V x, V below) {
  NodeContext& c = *x.c;
  return c.Select(c.Binary("lt", x, c.Like(x, 0)), below, x);
}

std::vector<V> ImportRelu(NodeContext& c) {
  const V x = c.In(0);
  return {c.Binary("max", x, c.Like(x, 0))};
}

std::vector<V> ImportLeakyRelu(NodeContext& c) {
  const V x = c.In(0);
  return {WhereNegative(x, c.Float("alpha", 0.01f) * x)};
}

std::vector<V> ImportPRelu(NodeContext& c) {
  const V x = c.In(0);
  return {WhereNegative(x, c.In(1) * x)};
}

std::vector<V> ImportElu(NodeContext& c) {
  const V x = c.In(0);
  return {WhereNegative(x, c.Float("alpha", 1) * (c.Unary("exp", x) - 1.0))};
}

std::vector<V> ImportSelu(NodeContext& c) {
  const V x = c.In(0);
  const double alpha = c.Float("alpha", 1.67326319217681884765625);
  const double gamma = c.Float("gamma", 1.05070102214813232421875);
  return {gamma * WhereNegative(x, alpha * c.Unary("exp", x) - alpha)};
}

std::vector<V> ImportCelu(NodeContext& c) {
  const V x = c.In(0);
  const double alpha = c.Float("alpha", 1);
  return {WhereNegative(x, alpha * (c.Unary("exp", x / alpha) - 1.0))};
}

std::vector<V> ImportThresholdedRelu(NodeContext& c) {
  const V x = c.In(0);
  return {c.Select(c.Binary("gt", x, c.Like(x, c.Float("alpha", 1))), x, c.Like(x, 0))};
}

std::vector<V> ImportShrink(NodeContext& c) {
  const V x = c.In(0);
  const double bias = c.Float("bias", 0);
  const double limit = c.Float("lambd", 0.5);
  return {c.Select(c.Binary("lt", x, c.Like(x, -limit)), x + bias,
                   c.Select(c.Binary("gt", x, c.Like(x, limit)), x - bias, c.Like(x, 0)))};
}

std::vector<V> ImportSigmoid(NodeContext& c) { return {Sigmoid(c.In(0))}; }

std::vector<V> ImportHardSigmoid(NodeContext& c) {
  const V x = c.In(0);
  const double alpha = c.Float("alpha", 0.2f);
  return {Clamp01(alpha * x + c.Float("beta", 0.5))};
}

std::vector<V> ImportHardSwish(NodeContext& c) {
  const V x = c.In(0);
  return {x * Clamp01((1.0 / 6) * x + 0.5)};
}

std::vector<V> ImportSwish(NodeContext& c) {
  const V x = c.In(0);
  const double alpha = c.Float("alpha", 1);
  return {x * Sigmoid(alpha == 1 ? x : alpha * x)};
}

// The gate and what it lets through.
std::vector<V> ImportSwiGlu(NodeContext& c) {
  const V gate = c.In(0);
  const double alpha = c.Float("alpha", 1);
  return {gate * Sigmoid(alpha == 1 ? gate : alpha * gate) * c.In(1)};
}

std::vector<V> ImportQuickGelu(NodeContext& c) {
  const V x = c.In(0);
  return {x * Sigmoid(c.Float("alpha", 1.702f) * x)};
}

std::vector<V> ImportSoftplus(NodeContext& c) { return {Softplus(c.In(0))}; }

std::vector<V> ImportSoftsign(NodeContext& c) {
  const V x = c.In(0);
  return {x / (1.0 + c.Unary("abs", x))};
}

// x * tanh(log(1 + e^x)) as a ratio of powers of e^-|x|, which keeps its digits where the logarithm
// is of a number near 1.
std::vector<V> ImportMish(NodeContext& c) {
  const V x = c.In(0);
  const V rises = c.Binary("ge", x, c.Like(x, 0));
  const V n = c.Unary("exp", -c.Unary("abs", x));
  const V above = c.Select(rises, 1.0 + 2.0 * n, n * (2.0 + n));
  return {x * (above / (above + 2.0 * c.Select(rises, n * n, c.Like(x, 1))))};
}

V GeluErf(V x) { return 0.5 * x * (1.0 + x.c->Unary("erf", x * 0.70710678118654752440)); }
V GeluTanh(V x) {
  const V inner = 0.79788456080286535588 * (x + 0.044715 * (x * x * x));
  return 0.5 * x * (1.0 + x.c->Unary("tanh", inner));
}

std::vector<V> ImportGelu(NodeContext& c) {
  const std::string approximate = c.String("approximate", "none");
  if (approximate == "tanh") return {GeluTanh(c.In(0))};
  if (approximate != "none") {
    c.Fail(
        InvalidArgument("Attribute 'approximate' is '{}'; it must be none or tanh.", approximate));
  }
  return {GeluErf(c.In(0))};
}

std::vector<V> ImportMicrosoftGelu(NodeContext& c) { return {GeluErf(c.In(0))}; }
std::vector<V> ImportBiasGelu(NodeContext& c) { return {GeluErf(c.In(0) + c.In(1))}; }
std::vector<V> ImportFastGelu(NodeContext& c) {
  const V x = c.In(0);
  return {GeluTanh(c.Has(1) ? x + c.In(1) : x)};
}

constexpr ImportRow kActivationRows[] = {
    {"Celu", 12, 0, 1, 1, 1, "alpha", ImportCelu},
    {"Elu", 6, 0, 1, 1, 1, "alpha", ImportElu},
    {"Gelu", 20, 0, 1, 1, 1, "approximate", ImportGelu},
    {"HardSigmoid", 6, 0, 1, 1, 1, "alpha beta", ImportHardSigmoid},
    {"HardSwish", 14, 0, 1, 1, 1, "", ImportHardSwish},
    {"LeakyRelu", 6, 0, 1, 1, 1, "alpha", ImportLeakyRelu},
    {"Mish", 18, 0, 1, 1, 1, "", ImportMish},
    {"PRelu", 7, 0, 2, 2, 1, "", ImportPRelu},
    {"Relu", 6, 0, 1, 1, 1, "", ImportRelu},
    {"Selu", 6, 0, 1, 1, 1, "alpha gamma", ImportSelu},
    {"Shrink", 9, 0, 1, 1, 1, "bias lambd", ImportShrink},
    {"Sigmoid", 6, 0, 1, 1, 1, "", ImportSigmoid},
    {"Softplus", 1, 0, 1, 1, 1, "", ImportSoftplus},
    {"Softsign", 1, 0, 1, 1, 1, "", ImportSoftsign},
    {"SwiGLU", 28, 0, 2, 2, 1, "alpha", ImportSwiGlu},
    {"Swish", 24, 0, 1, 1, 1, "alpha", ImportSwish},
    {"ThresholdedRelu", 10, 0, 1, 1, 1, "alpha", ImportThresholdedRelu},
};

constexpr ImportRow kMicrosoftRows[] = {
    {"BiasGelu", 1, 0, 2, 2, 1, "", ImportBiasGelu},
    {"FastGelu", 1, 0, 1, 2, 1, "", ImportFastGelu},
    {"Gelu", 1, 0, 1, 1, 1, "", ImportMicrosoftGelu},
    {"QuickGelu", 1, 0, 1, 1, 1, "alpha", ImportQuickGelu},
};

}  // namespace

std::span<const ImportRow> ActivationRows() { return kActivationRows; }
std::span<const ImportRow> MicrosoftRows() { return kMicrosoftRows; }

}  // namespace halyard::onnx
