// SPDX-License-Identifier: Apache-2.0
// The names of the sizes that a model leaves open: those of its file and what the importer makes of
// them, either of which fixes one.
#pragma once

#include <set>
#include <string>
#include <unordered_map>

#include "base/status.h"
#include "compiler/import/onnx_proto.h"

namespace halyard::onnx {

// The largest size of a dimension that a model states; one that it leaves open: kLargestSymbol.
inline constexpr int64_t kMostSize = int64_t{1} << 40;

class SizeNames {
 public:
  struct Name {
    std::string raw;     // of the file, "INPUT_AXIS" where it has none
    std::string symbol;  // of the module; the same for equal raw names
  };
  // `dim`, which is no number, of an input.
  Name Add(const std::string& input, size_t axis, const DimensionProto& dim);
  bool Has(const std::string& name) const {
    return symbols_.count(name) != 0 || names_.count(name) != 0;
  }
  // Of the module.
  const std::set<std::string>& symbols() const { return names_; }

 private:
  std::unordered_map<std::string, std::string> symbols_;  // by raw name
  std::set<std::string> names_;
};

bool IsOpenSize(const DimensionProto& dim);

// Of the inputs of the model in a file; its weights are not read.
Result<SizeNames> SizeNamesOfFile(const std::string& path);

}  // namespace halyard::onnx
