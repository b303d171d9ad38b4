// SPDX-License-Identifier: Apache-2.0
// The parts of Graph IR that are not data: counts, the text of types, and typed access to
// attributes.
#include "compiler/graph/graph.h"

#include "compiler/graph/text_scanner.h"

namespace halyard::graph {
namespace {

template <typename T>
Result<T> GetAttribute(const Node& node, std::string_view name, std::string_view kind) {
  const auto found = node.attributes.find(name);
  if (found == node.attributes.end()) {
    return InvalidArgument("Node '{}' has no attribute '{}'.", node.name, name);
  }
  const T* value = std::get_if<T>(&found->second);
  if (value == nullptr) {
    return InvalidArgument("Attribute '{}' of node '{}' is not {}.", name, node.name, kind);
  }
  return *value;
}

}  // namespace

Expr ElementCount(ExprArena& exprs, const TensorType& type) {
  Expr count = exprs.Const(1);
  for (const Expr dim : type.dims) count = exprs.Mul(count, dim);
  return count;
}

std::string FormatType(const ExprArena& exprs, const TensorType& type) {
  std::string out(FormatDType(type.dtype));
  out += "[";
  for (size_t i = 0; i < type.dims.size(); ++i) {
    if (i > 0) out += ", ";
    out += type.dims[i].valid() ? exprs.Format(type.dims[i]) : "?";
  }
  return out + "]";
}

Result<TensorType> ParseType(ExprArena& exprs, std::string_view text) {
  TextScanner scanner(text);
  TensorType type;
  HY_ASSIGN(const std::string dtype, scanner.Word());
  HY_ASSIGN(type.dtype, ParseDType(dtype));
  HY_TRY(scanner.Expect("["));
  while (!scanner.TryConsume("]")) {
    if (!type.dims.empty()) HY_TRY(scanner.Expect(","));
    HY_ASSIGN(const std::string dim_text, scanner.Balanced(",]"));
    HY_ASSIGN(const Expr dim, exprs.Parse(dim_text));
    type.dims.push_back(dim);
  }
  if (!scanner.AtEnd()) return scanner.Error("the type ends before this text");
  return type;
}

Result<int64_t> GetInt(const Node& node, std::string_view name) {
  return GetAttribute<int64_t>(node, name, "an integer");
}
Result<std::vector<int64_t>> GetInts(const Node& node, std::string_view name) {
  return GetAttribute<std::vector<int64_t>>(node, name, "a list of integers");
}
Result<std::vector<Expr>> GetExprs(const Node& node, std::string_view name) {
  return GetAttribute<std::vector<Expr>>(node, name, "a list of expressions");
}
Result<double> GetFloat(const Node& node, std::string_view name) {
  return GetAttribute<double>(node, name, "a float");
}
Result<std::string> GetString(const Node& node, std::string_view name) {
  return GetAttribute<std::string>(node, name, "a string");
}
Result<DType> GetDType(const Node& node, std::string_view name) {
  return GetAttribute<DType>(node, name, "a dtype");
}

}  // namespace halyard::graph
