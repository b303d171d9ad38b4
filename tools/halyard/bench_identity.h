// SPDX-License-Identifier: Apache-2.0
// What a row of `halyard bench` measured: the model by its content, and where its work lies.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "tools/halyard/command.h"
#include "tools/halyard/tensor_io.h"

namespace halyard::tools {

using Json = nlohmann::ordered_json;

// The version of the default operator set that an ONNX file imports; nothing where the bytes are no
// such file.
std::optional<int64_t> OpsetOf(std::string_view onnx);

// file_hash (of the file that is named, without external data), opset, cache_key (which the
// library's cache of compiled programs has it under), inputs, outputs: name, dtype and dims of each
// as it ran. Without a file, as of an op, the first two are missing; of a program file the key.
Json IdentityJson(const std::string& path, const hy::Program& program,
                  const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs);

// Which devices the program has, which of them work, and how much fell back.
struct RowPlacement {
  std::vector<std::string> devices, working;
  int fallbacks = 0;
  Json json;  // devices with their counts of commands, transfers, fallbacks with their reasons
};
RowPlacement PlacementOf(const hy::Program& program);

// Of a program that was not loaded from a program file: it came from the cache and was not
// compiled.
bool IsFromCache(const hy::Program& program);
// "loaded", "loaded from the cache" or "compiled".
const char* HowOpened(const Model& model);

// What loading the program took ("load"), and of that its code and its constants ("load_code",
// "load_weights"), in seconds, from its report of phases; empty: not told.
Json LoadPhases(const hy::Program& program);

}  // namespace halyard::tools
