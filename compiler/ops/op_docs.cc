// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/op_docs.h"

#include "compiler/ops/op_def.h"

namespace halyard::graph {
namespace {

std::string_view NameOf(AttributeKind kind) {
  switch (kind) {
    case AttributeKind::kInt: return "integer";
    case AttributeKind::kFloat: return "float";
    case AttributeKind::kString: return "string";
    case AttributeKind::kDType: return "dtype";
    case AttributeKind::kInts: return "integers";
    case AttributeKind::kFloats: return "floats";
    case AttributeKind::kExprs: return "expressions";
  }
  return "";
}

std::string OperandCount(const OpDef& op) {
  if (op.max_operands < 0) return fmt::format("{} or more", op.min_operands);
  if (op.min_operands == op.max_operands) return fmt::format("{}", op.min_operands);
  return fmt::format("{} to {}", op.min_operands, op.max_operands);
}

}  // namespace

std::string FormatOpDocs() {
  std::string out =
      "# Graph IR ops\n\n"
      "Made from the records in `compiler/ops`; do not edit. No op broadcasts implicitly. What holds for\n"
      "all ops (integer overflow and division, NaN, rounding) stands in `compiler/graph/graph.h`.\n";
  for (const OpDef* op : AllOps()) {
    out += fmt::format("\n## {}\n\n{} Operands: {}.\n", op->name, op->doc, OperandCount(*op));
    if (op->attributes.empty()) continue;
    out += "\n| attribute | kind | |\n|---|---|---|\n";
    for (const AttributeDef& attribute : op->attributes) {
      out += fmt::format("| `{}` | {}{} | {} |\n", attribute.name, NameOf(attribute.kind),
                         attribute.is_required ? "" : ", optional", attribute.doc);
    }
  }
  return out;
}

}  // namespace halyard::graph
