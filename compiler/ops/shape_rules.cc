// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/shape_rules.h"

#include <algorithm>

#include "base/excerpt.h"
#include "base/quantity.h"

namespace halyard::graph {

std::string DescribeOperand(const InferContext& context, size_t i) {
  const Value& value = context.operand(i);
  return fmt::format("Operand {} '%{}' ({}{})", i, value.name, FormatDType(value.type.dtype),
                     FormatDims(context.module.exprs, value.type.dims));
}

std::string FormatDims(const ExprArena& exprs, const std::vector<Expr>& dims) {
  return fmt::format("[{}]", ExcerptOf(dims.size(), [&](size_t i) {
                       return dims[i].valid() ? exprs.Format(dims[i]) : std::string("?");
                     }));
}

int64_t IntOr(const Node& node, std::string_view name, int64_t otherwise) {
  const Result<int64_t> value = GetInt(node, name);
  return value.ok() ? *value : otherwise;
}

double FloatOr(const Node& node, std::string_view name, double otherwise) {
  const Result<double> value = GetFloat(node, name);
  return value.ok() ? *value : otherwise;
}

std::string StringOr(const Node& node, std::string_view name, std::string_view otherwise) {
  const Result<std::string> value = GetString(node, name);
  return value.ok() ? *value : std::string(otherwise);
}

namespace {

bool Record(const InferContext& context, std::vector<Assumption>& known, Expr a, Expr b,
            std::string_view detail) {
  if (std::any_of(known.begin(), known.end(),
                  [&](const Assumption& one) { return one.a == a && one.b == b; })) {
    return true;
  }
  std::string why(context.node.op->name);
  if (!context.node.name.empty()) why += fmt::format(", node '{}'", context.node.name);
  if (!detail.empty()) why += fmt::format(": {}", detail);
  known.push_back({a, b, std::move(why)});
  return true;
}

}  // namespace

bool AssumeEqual(const InferContext& context, Expr a, Expr b, std::string_view detail) {
  ExprArena& exprs = context.module.exprs;
  if (exprs.KnownEqual(a, b)) return true;
  if (exprs.AsConst(a) && exprs.AsConst(b)) return false;
  if (exprs.KnownLess(a, b) || exprs.KnownLess(b, a)) return false;
  if (b < a) std::swap(a, b);
  return Record(context, context.module.assumed_equal, a, b, detail);
}

bool AssumeAtMost(const InferContext& context, Expr a, Expr b, std::string_view detail) {
  if (context.module.exprs.KnownLessOrEqual(a, b)) return true;
  if (context.module.exprs.KnownLess(b, a)) return false;
  return Record(context, context.module.assumed_at_most, a, b, detail);
}

Expr MoreKnown(const ExprArena& exprs, Expr a, Expr b) { return exprs.AsConst(b) ? b : a; }

std::vector<Value> OneResult(TensorType type) {
  std::vector<Value> results(1);
  results[0].type = std::move(type);
  return results;
}

std::vector<Value> OneResult(DType dtype, std::vector<Expr> dims) {
  return OneResult(TensorType{dtype, std::move(dims)});
}

Result<std::vector<Expr>> CommonShape(const InferContext& context, size_t first) {
  std::vector<Expr> dims = context.operand(first).type.dims;
  for (size_t i = first + 1; i < context.node.operands.size(); ++i) {
    const std::vector<Expr>& other = context.operand(i).type.dims;
    bool is_same = dims.size() == other.size();
    for (size_t d = 0; is_same && d < dims.size(); ++d) {
      is_same = AssumeEqual(context, dims[d], other[d]);
      dims[d] = MoreKnown(context.module.exprs, dims[d], other[d]);
    }
    if (!is_same) {
      return InvalidArgument("{} and {} differ in shape; {} needs equal shapes",
                             DescribeOperand(context, first), DescribeOperand(context, i),
                             context.node.op->name);
    }
  }
  return dims;
}

Status RequireRank(const InferContext& context, size_t i, size_t least, size_t most) {
  const size_t rank = context.operand(i).type.dims.size();
  if (rank >= least && rank <= most) return OkStatus();
  const std::string wanted = most == SIZE_MAX ? fmt::format("{} or more", least)
                             : least == most  ? fmt::format("{}", least)
                                              : fmt::format("{} to {}", least, most);
  return InvalidArgument("{} has {}; {} needs {}", DescribeOperand(context, i),
                         Counted(rank, "dimension"), context.node.op->name, wanted);
}

Status RequireDType(const InferContext& context, size_t i, bool is_allowed,
                    std::string_view allowed) {
  if (is_allowed) return OkStatus();
  return InvalidArgument("{} has a dtype that {} does not take; it takes {}",
                         DescribeOperand(context, i), context.node.op->name, allowed);
}

Status RequireSameDType(const InferContext& context, size_t i, size_t j) {
  if (context.operand(i).type.dtype == context.operand(j).type.dtype) return OkStatus();
  return InvalidArgument("{} and {} differ in dtype; {} needs one dtype",
                         DescribeOperand(context, i), DescribeOperand(context, j),
                         context.node.op->name);
}

Status RequireIndexDType(const InferContext& context, size_t i) {
  const DType dtype = context.operand(i).type.dtype;
  return RequireDType(context, i, dtype == DType::kI32 || dtype == DType::kI64, "i32 and i64 here");
}

Result<size_t> AxisOf(const InferContext& context, std::string_view name, size_t rank) {
  HY_ASSIGN(const int64_t axis, GetInt(context.node, name));
  if (axis < 0 || static_cast<size_t>(axis) >= rank) {
    return InvalidArgument("Attribute '{}' of {} is {}; it lies in [0, {})", name,
                           context.node.op->name, axis, rank);
  }
  return static_cast<size_t>(axis);
}

Result<std::vector<int64_t>> IntsPerAxis(const InferContext& context, std::string_view name,
                                         size_t count, int64_t least) {
  HY_ASSIGN(std::vector<int64_t> values, GetInts(context.node, name));
  if (values.size() != count) {
    return InvalidArgument("Attribute '{}' of {} has {}; {} are needed", name,
                           context.node.op->name, Counted(values.size(), "entry"), count);
  }
  // Far above any real stride or padding, far below what sums of a few of them could overflow.
  constexpr int64_t kMost = int64_t{1} << 40;
  for (const int64_t value : values) {
    if (value < least || value > kMost) {
      return InvalidArgument("Attribute '{}' of {} holds {}; the values lie in [{}, 2^40]", name,
                             context.node.op->name, value, least);
    }
  }
  return values;
}

Status RequireFlag(const InferContext& context, std::string_view name) {
  const int64_t value = IntOr(context.node, name, 0);
  if (value == 0 || value == 1) return OkStatus();
  return InvalidArgument("Attribute '{}' of {} is {}; it is 0 or 1", name, context.node.op->name,
                         value);
}

Status RequireOneOf(const InferContext& context, std::string_view name,
                    std::initializer_list<std::string_view> allowed) {
  const Result<std::string> value = GetString(context.node, name);
  if (!value.ok()) return OkStatus();
  for (const std::string_view one : allowed) {
    if (one == *value) return OkStatus();
  }
  return InvalidArgument("Attribute '{}' of {} is '{}'; it is one of {}", name,
                         context.node.op->name, Excerpt(*value), fmt::join(allowed, ", "));
}

}  // namespace halyard::graph
