// SPDX-License-Identifier: Apache-2.0
// The hash of compile options. It stands with the program format because both libraries need it.
#include "base/hash.h"
#include "compiler/abi.h"

namespace halyard {

uint64_t CompileOptions::Hash() const {
  std::string text =
      fmt::format("{}|{}|{}|{}|{}|{}", tune, fast_reductions, allow_fallback, vendor_libraries,
                  static_cast<int>(precision), static_cast<int>(io_precision));
  if (only_vendor_libraries) text += "|alone";
  if (most_raced > 0) text += fmt::format("|of {}", most_raced);
  for (const auto& [name, value] : symbol_values) {
    text += fmt::format("|{}:{}={}", name.size(), name, value);
  }
  return HashCombine(HashString(text), placement.Hash());
}

}  // namespace halyard
