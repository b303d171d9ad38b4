// SPDX-License-Identifier: Apache-2.0
// What a row of `halyard bench` is called, wherever it is named: its model with the sizes and the
// precision that it ran in, so that no two rows of a grid, or of two reports, are mistaken for one.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace halyard::tools {

using Json = nlohmann::ordered_json;

// "resnet50.onnx batch=1 as-given"; sizes in the order of their names. Of a report of before rows
// had sizes: as much as it tells.
std::string ModelOfRow(const Json& row);
// "resnet50.onnx batch=1 as-given on cpu:0".
std::string NameOfRow(const Json& row);
// Equal for rows that measured the same: model, device, precision and the shapes of the inputs, by
// whatever options they came.
std::string KeyOfRow(const Json& row);

}  // namespace halyard::tools
