// SPDX-License-Identifier: Apache-2.0
// NodeContext: access to a node's inputs and attributes, and arithmetic that latches the first
// failure.
#include "compiler/import/onnx_context.h"

#include <algorithm>
#include <cmath>

#include "base/quantity.h"

namespace halyard::onnx {
namespace {

// Values that import needs to know are small; a larger constant is left to the folding pass.
constexpr int64_t kMaxKnownElements = 1 << 16;
constexpr int kMaxKnownDepth = 64;

std::optional<Tensor> Evaluate(graph::Module& module, ValueId id, int depth) {
  const graph::Value& value = module.values[id];
  int64_t count = 1;
  std::vector<int64_t> dims;
  for (const Expr dim : value.type.dims) {
    const std::optional<int64_t> size = module.exprs.AsConst(dim);
    if (!size.has_value() || *size < 0) return std::nullopt;
    if (*size != 0 && count > kMaxKnownElements / *size) return std::nullopt;
    count *= *size;
    dims.push_back(*size);
  }
  if (value.elements.has_value()) {
    std::vector<int64_t> numbers;
    for (const Expr element : *value.elements) {
      const std::optional<int64_t> number = module.exprs.AsConst(element);
      if (!number.has_value()) return std::nullopt;
      numbers.push_back(*number);
    }
    return graph::TensorOfInts(value.type.dtype, dims, numbers);
  }
  if (value.producer == kNone || depth == 0) return std::nullopt;
  const graph::Node& node = module.nodes[value.producer];
  if (node.constant != kNone) {
    auto tensor = graph::ReadConstant(module.constants[node.constant]);
    if (!tensor.ok()) return std::nullopt;
    return *std::move(tensor);
  }
  if (!node.regions.empty() || node.op->evaluate == nullptr || node.results.size() != 1 ||
      node.op->name == "random_bits") {
    return std::nullopt;
  }
  std::vector<Tensor> operands;
  for (const ValueId operand : node.operands) {
    if (operand == kNone) {
      operands.emplace_back();
      continue;
    }
    auto known = Evaluate(module, operand, depth - 1);
    if (!known.has_value()) return std::nullopt;
    operands.push_back(*std::move(known));
  }
  const DType dtypes[] = {value.type.dtype};
  const std::vector<int64_t> result_dims[] = {dims};
  const graph::EvalContext context = {
      module, node, operands, dtypes, result_dims, [](Expr) { return std::optional<int64_t>(); },
      {}};
  auto results = node.op->evaluate(context);
  if (!results.ok() || results->size() != 1) return std::nullopt;
  return std::move((*results)[0]);
}

}  // namespace

V NodeContext::Fail(Status failure) {
  if (status.ok()) status = std::move(failure);
  return {this, kNone};
}

V NodeContext::Take(Result<ValueId> result) {
  if (!result.ok()) return Fail(result.status());
  return {this, *result};
}

V NodeContext::In(size_t i) {
  if (!ok()) return {this, kNone};
  if (!Has(i)) return Fail(InvalidArgument("Input {} is missing.", i));
  return {this, inputs_[i]};
}

const AttributeProto* NodeContext::Find(std::string_view name) const {
  for (const AttributeProto& attribute : node.attribute) {
    if (attribute.name != name) continue;
    if (attribute.ref_attr_name.empty()) return &attribute;
    if (scope.function_attributes == nullptr) return nullptr;
    const auto found = scope.function_attributes->find(attribute.ref_attr_name);
    return found == scope.function_attributes->end() ? nullptr : found->second;
  }
  return nullptr;
}

namespace {

Status WrongKind(std::string_view name, const AttributeProto& attribute, int64_t wanted) {
  return InvalidArgument("Attribute '{}' is {}; it must be {}.", name,
                         FormatAttributeType(attribute.type), FormatAttributeType(wanted));
}

// Old files leave `type` out; then the field that is set decides.
bool IsKind(const AttributeProto& attribute, int64_t wanted) {
  return attribute.type == wanted || attribute.type == kAttrUndefined;
}

}  // namespace

int64_t NodeContext::Int(std::string_view name, int64_t fallback) {
  const AttributeProto* attribute = Find(name);
  if (attribute == nullptr || !ok()) return fallback;
  if (!IsKind(*attribute, kAttrInt)) {
    Fail(WrongKind(name, *attribute, kAttrInt));
    return fallback;
  }
  return attribute->i.value_or(0);
}

double NodeContext::Float(std::string_view name, double fallback) {
  const AttributeProto* attribute = Find(name);
  if (attribute == nullptr || !ok()) return fallback;
  if (!IsKind(*attribute, kAttrFloat)) {
    Fail(WrongKind(name, *attribute, kAttrFloat));
    return fallback;
  }
  return attribute->f.value_or(0);
}

std::string NodeContext::String(std::string_view name, std::string_view fallback) {
  const AttributeProto* attribute = Find(name);
  if (attribute == nullptr || !ok()) return std::string(fallback);
  if (!IsKind(*attribute, kAttrString)) {
    Fail(WrongKind(name, *attribute, kAttrString));
    return std::string(fallback);
  }
  constexpr size_t kMost = 4096;  // messages show it
  if (attribute->s && attribute->s->size() > kMost) {
    Fail(OutOfRange("Attribute '{}' is a text of {}; the limit is {}.", name,
                    Counted(attribute->s->size(), "byte"), kMost));
    return std::string(fallback);
  }
  return attribute->s.value_or("");
}

std::vector<int64_t> NodeContext::Ints(std::string_view name, std::vector<int64_t> fallback) {
  const AttributeProto* attribute = Find(name);
  if (attribute == nullptr || !ok()) return fallback;
  if (!IsKind(*attribute, kAttrInts)) {
    Fail(WrongKind(name, *attribute, kAttrInts));
    return fallback;
  }
  return attribute->ints;
}

std::vector<int64_t> NodeContext::PerAxis(std::string_view name, size_t count, int64_t fallback,
                                          int64_t least, int64_t most) {
  std::vector<int64_t> values = Ints(name, std::vector<int64_t>(count, fallback));
  if (ok() && values.size() != count) {
    Fail(InvalidArgument("Attribute '{}' has {}; {} are needed.", name,
                         Counted(values.size(), "element"), count));
  }
  for (const int64_t value : values) {
    if (value < least || value > most) {
      Fail(OutOfRange("Attribute '{}' holds {}; it must lie in [{}, {}].", name, value, least,
                      most));
    }
  }
  values.resize(count, fallback);
  return values;
}

std::vector<double> NodeContext::Floats(std::string_view name, std::vector<double> fallback) {
  const AttributeProto* attribute = Find(name);
  if (attribute == nullptr || !ok()) return fallback;
  if (!IsKind(*attribute, kAttrFloats)) {
    Fail(WrongKind(name, *attribute, kAttrFloats));
    return fallback;
  }
  return std::vector<double>(attribute->floats.begin(), attribute->floats.end());
}

const GraphProto* NodeContext::Body(std::string_view name) {
  const AttributeProto* attribute = Find(name);
  if (!ok()) return nullptr;
  if (attribute == nullptr) {
    Fail(InvalidArgument("Attribute '{}' is missing.", name));
    return nullptr;
  }
  if (!IsKind(*attribute, kAttrGraph) || attribute->g == nullptr) {
    Fail(WrongKind(name, *attribute, kAttrGraph));
    return nullptr;
  }
  return attribute->g.get();
}

int64_t NodeContext::Axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    Fail(InvalidArgument("Axis {} is outside [{}, {}).", axis, -rank, rank));
    return 0;
  }
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> NodeContext::Axes(std::vector<int64_t> axes, int64_t rank) {
  for (int64_t& axis : axes) axis = Axis(axis, rank);
  std::sort(axes.begin(), axes.end());
  const auto repeated = std::adjacent_find(axes.begin(), axes.end());
  if (ok() && repeated != axes.end()) {
    Fail(InvalidArgument("Axis {} is given more than once.", *repeated));
  }
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return ok() ? axes : std::vector<int64_t>();
}

std::vector<int64_t> NodeContext::ConstDims(V v, std::string_view what) {
  std::vector<int64_t> out;
  for (const Expr dim : Dims(v)) {
    const std::optional<int64_t> value = exprs().AsConst(dim);
    if (!value.has_value()) {
      Fail(Unimplemented("{} has the symbolic dim {}; a number is needed.", what,
                         exprs().Format(dim)));
    }
    out.push_back(value.value_or(1));
  }
  return out;
}

std::vector<Expr> NodeContext::Consts(std::span<const int64_t> values) {
  std::vector<Expr> out;
  for (const int64_t value : values) out.push_back(Const(value));
  return out;
}

std::optional<Tensor> NodeContext::Known(V v) {
  if (!ok() || !v.valid()) return std::nullopt;
  return Evaluate(b.module(), v.id, kMaxKnownDepth);
}

std::optional<std::vector<Expr>> NodeContext::KnownExprs(V v) {
  if (!ok() || !v.valid()) return std::nullopt;
  if (b.module().values[v.id].elements.has_value()) return b.module().values[v.id].elements;
  if (!IsInteger(DTypeOf(v))) return std::nullopt;
  const std::optional<Tensor> tensor = Known(v);
  if (!tensor.has_value()) return std::nullopt;
  std::vector<Expr> out;
  for (int64_t i = 0; i < tensor->elements(); ++i) out.push_back(Const(graph::LoadInt(*tensor, i)));
  return out;
}

std::vector<Expr> NodeContext::ExprsOf(size_t input, std::string_view what) {
  const V v = In(input);
  if (!ok()) return {};
  if (Rank(v) > 1) {
    Fail(
        InvalidArgument("Input '{}' has {}; it must have 1.", what, Counted(Rank(v), "dimension")));
    return {};
  }
  if (!IsInteger(DTypeOf(v))) {
    Fail(InvalidArgument("Input '{}' is {}; it must be an integer tensor.", what,
                         FormatDType(DTypeOf(v))));
    return {};
  }
  auto exprs = KnownExprs(v);
  if (!exprs.has_value()) {
    Fail(Unimplemented(
        "Input '{}' is computed from data; it must be known from constants and shapes.", what));
    return {};
  }
  return *std::move(exprs);
}

std::vector<int64_t> NodeContext::IntsOf(size_t input, std::string_view what) {
  std::vector<int64_t> out;
  for (const Expr expr : ExprsOf(input, what)) {
    const std::optional<int64_t> value = exprs().AsConst(expr);
    if (!value.has_value()) {
      Fail(Unimplemented("Input '{}' holds {}, which depends on symbols; a number is needed.", what,
                         exprs().Format(expr)));
      return {};
    }
    out.push_back(*value);
  }
  return out;
}

std::vector<double> NodeContext::FloatsOf(size_t input, std::string_view what) {
  const V v = In(input);
  if (!ok()) return {};
  const std::optional<Tensor> tensor = Known(v);
  if (!tensor.has_value()) {
    Fail(Unimplemented(
        "Input '{}' is computed from data; it must be known from constants and shapes.", what));
    return {};
  }
  std::vector<double> out;
  for (int64_t i = 0; i < tensor->elements(); ++i) out.push_back(graph::LoadFloat(*tensor, i));
  return out;
}

std::optional<std::vector<int64_t>> NodeContext::IntsFrom(std::string_view attribute,
                                                          size_t input) {
  if (HasAttribute(attribute)) return Ints(attribute);
  if (Has(input)) return IntsOf(input, attribute);
  return std::nullopt;
}

V NodeContext::Op(std::string_view op, std::initializer_list<V> operands, Attributes attributes) {
  if (!ok()) return {this, kNone};
  std::vector<ValueId> ids;
  for (const V v : operands) ids.push_back(v.id);
  return Take(b.AddOne(op, std::move(ids), std::move(attributes)));
}

std::vector<V> NodeContext::Ops(std::string_view op, std::span<const V> operands,
                                Attributes attributes, std::vector<uint32_t> regions) {
  if (!ok()) return {};
  std::vector<ValueId> ids;
  for (const V v : operands) ids.push_back(v.id);
  auto results = b.Add(op, std::move(ids), std::move(attributes), std::move(regions));
  if (!results.ok()) {
    Fail(results.status());
    return {};
  }
  std::vector<V> out;
  for (const ValueId id : *results) out.push_back({this, id});
  return out;
}

V NodeContext::Unary(std::string_view op, V x) {
  return ok() ? Take(b.Unary(op, x.id)) : V{this, kNone};
}

V NodeContext::Binary(std::string_view op, V x, V y) {
  return ok() ? Take(b.Binary(op, x.id, y.id)) : V{this, kNone};
}

V NodeContext::Select(V condition, V x, V y) {
  return ok() ? Take(b.Select(condition.id, x.id, y.id)) : V{this, kNone};
}

V NodeContext::Cast(V x, DType dtype) {
  return ok() ? Take(b.CastTo(x.id, dtype)) : V{this, kNone};
}

V NodeContext::Number(DType dtype, double value) {
  if (!ok()) return {this, kNone};
  if (dtype == DType::kBool || IsInteger(dtype)) {
    return Take(b.ScalarInt(dtype, static_cast<int64_t>(value)));
  }
  return Take(b.ScalarFloat(dtype, value));
}

V NodeContext::Integer(DType dtype, int64_t value) {
  return ok() ? Take(b.ScalarInt(dtype, value)) : V{this, kNone};
}

V NodeContext::BroadcastTo(V x, const std::vector<Expr>& dims) {
  return ok() ? Take(b.BroadcastTo(x.id, dims)) : V{this, kNone};
}

V NodeContext::ReshapeTo(V x, const std::vector<Expr>& dims) {
  return ok() ? Take(b.ReshapeTo(x.id, dims)) : V{this, kNone};
}

V NodeContext::Transpose(V x, const std::vector<int64_t>& perm) {
  return ok() ? Take(b.TransposeTo(x.id, perm)) : V{this, kNone};
}

V NodeContext::Reduce(std::string_view op, V x, const std::vector<int64_t>& axes, bool keep_dims) {
  return Op(op, {x}, {{"axes", axes}, {"keep_dims", int64_t{keep_dims}}});
}

V NodeContext::Mean(V x, const std::vector<int64_t>& axes, bool keep_dims) {
  if (!ok()) return {this, kNone};
  Expr count = Const(1);
  for (const int64_t axis : axes) count = exprs().Mul(count, Dims(x)[static_cast<size_t>(axis)]);
  const V sum = Reduce("reduce_sum", x, axes, keep_dims);
  if (const std::optional<int64_t> number = exprs().AsConst(count)) {
    return IsInteger(DTypeOf(x)) ? sum / Integer(DTypeOf(x), *number)
                                 : sum / static_cast<double>(*number);
  }
  return sum / Cast(Symbolic({count}, {}), DTypeOf(x));
}

V NodeContext::SliceAxis(V x, int64_t axis, Expr start, Expr size) {
  if (!ok()) return {this, kNone};
  std::vector<Expr> sizes = Dims(x);
  std::vector<Expr> starts(sizes.size(), Const(0));
  const auto at = static_cast<size_t>(axis);
  if (start == starts[at] && size == sizes[at]) return x;
  starts[at] = start;
  sizes[at] = size;
  return Op(
      "slice", {x},
      {{"starts", starts}, {"sizes", sizes}, {"steps", std::vector<int64_t>(sizes.size(), 1)}});
}

V NodeContext::Concat(std::span<const V> parts, int64_t axis) {
  if (parts.size() == 1) return parts[0];
  const std::vector<V> results = Ops("concat", parts, {{"axis", axis}});
  return results.empty() ? V{this, kNone} : results[0];
}

V NodeContext::Unsqueeze(V x, const std::vector<int64_t>& axes) {
  if (!ok()) return {this, kNone};
  const int64_t rank = Rank(x) + static_cast<int64_t>(axes.size());
  const std::vector<int64_t> sorted = Axes(axes, rank);
  if (!ok()) return {this, kNone};
  std::vector<Expr> dims = Dims(x);
  for (const int64_t axis : sorted) dims.insert(dims.begin() + axis, Const(1));
  return ReshapeTo(x, dims);
}

V NodeContext::Squeeze(V x, const std::vector<int64_t>& axes) {
  if (!ok()) return {this, kNone};
  std::vector<Expr> dims = Dims(x);
  const std::vector<int64_t> sorted = Axes(axes, Rank(x));
  if (!ok()) return {this, kNone};
  for (size_t i = sorted.size(); i-- > 0;) {
    const Expr dim = dims[static_cast<size_t>(sorted[i])];
    if (exprs().AsConst(dim).value_or(1) != 1) {
      return Fail(InvalidArgument("Axis {} has size {}; only axes of size 1 can be removed.",
                                  sorted[i], exprs().Format(dim)));
    }
    dims.erase(dims.begin() + sorted[i]);
  }
  return ReshapeTo(x, dims);
}

V NodeContext::CheckIndex(V x, Expr size, std::string_view what) {
  if (!ok()) return x;
  return Op("check_index", {x}, {{"size", std::vector<Expr>{size}}, {"what", std::string(what)}});
}

V NodeContext::Iota(DType dtype, const std::vector<Expr>& dims, int64_t axis) {
  return Op("iota", {}, {{"shape", dims}, {"axis", axis}, {"dtype", dtype}});
}

Expr NodeContext::FreshSymbol(std::string_view kind) {
  return exprs().Dim(fmt::format("{}_{}", kind, b.module().nodes.size()));
}

V NodeContext::Ints64(std::span<const int64_t> values) {
  if (!ok()) return {this, kNone};
  return Take(b.ConstantOf(
      graph::TensorOfInts(DType::kI64, {static_cast<int64_t>(values.size())}, values)));
}

V NodeContext::Symbolic(const std::vector<Expr>& values, const std::vector<int64_t>& dims) {
  if (!ok()) return {this, kNone};
  return Op("symbolic", {}, {{"values", values}, {"shape", dims}, {"dtype", DType::kI64}});
}

DType NodeContext::ComputeDType(V x) const {
  const DType dtype = DTypeOf(x);
  return IsFloat(dtype) && BitWidth(dtype) < 32 ? DType::kF32 : dtype;
}

V operator+(V a, V b) { return a.c->Binary("add", a, b); }
V operator-(V a, V b) { return a.c->Binary("sub", a, b); }
V operator*(V a, V b) { return a.c->Binary("mul", a, b); }
V operator/(V a, V b) { return a.c->Binary("div", a, b); }
V operator+(V a, double b) { return a + a.c->Like(a, b); }
V operator-(V a, double b) { return a - a.c->Like(a, b); }
V operator*(V a, double b) { return a * a.c->Like(a, b); }
V operator/(V a, double b) { return a / a.c->Like(a, b); }
V operator+(double a, V b) { return b.c->Like(b, a) + b; }
V operator-(double a, V b) { return b.c->Like(b, a) - b; }
V operator*(double a, V b) { return b.c->Like(b, a) * b; }
V operator/(double a, V b) { return b.c->Like(b, a) / b; }
V operator-(V a) { return a.c->Unary("neg", a); }

}  // namespace halyard::onnx
