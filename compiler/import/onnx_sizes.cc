// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/onnx_sizes.h"

#include <cctype>

#include "compiler/graph/constants.h"

namespace halyard::onnx {

bool IsOpenSize(const DimensionProto& dim) {
  return !dim.dim_value.has_value() || *dim.dim_value < 0;
}

SizeNames::Name SizeNames::Add(const std::string& input, size_t axis, const DimensionProto& dim) {
  // Exporters write -1 for a dim without a name.
  const std::string raw = dim.dim_value.has_value() || dim.dim_param.empty()
                              ? fmt::format("{}_{}", input, axis)
                              : dim.dim_param;
  auto [entry, is_new] = symbols_.emplace(raw, "");
  if (is_new) {
    std::string name;
    for (const char c : raw) name.push_back(std::isalnum(static_cast<unsigned char>(c)) ? c : '_');
    if (std::isdigit(static_cast<unsigned char>(name[0]))) name.insert(0, "d");
    // Names that only differ in what was replaced stay apart.
    const std::string base = name;
    for (int suffix = 2; !names_.insert(name).second; ++suffix) {
      name = fmt::format("{}_{}", base, suffix);
    }
    entry->second = name;
  }
  return {raw, entry->second};
}

Result<SizeNames> SizeNamesOfFile(const std::string& path) {
  HY_ASSIGN(const auto source, graph::OpenFile(path));
  HY_ASSIGN(const ModelProto model, ReadModel(*source, Limits{}));
  SizeNames names;
  if (model.graph == nullptr) return names;
  std::set<std::string> initialised;  // also listed as inputs before IR version 4
  for (const TensorProto& tensor : model.graph->initializer) initialised.insert(tensor.name);
  for (const ValueInfoProto& input : model.graph->input) {
    if (initialised.count(input.name) != 0 || !input.type.has_value() ||
        !input.type->tensor_type.has_value() || !input.type->tensor_type->shape.has_value()) {
      continue;
    }
    const auto& dims = input.type->tensor_type->shape->dim;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      if (IsOpenSize(dims[axis])) names.Add(input.name, axis, dims[axis]);
    }
  }
  return names;
}

}  // namespace halyard::onnx
