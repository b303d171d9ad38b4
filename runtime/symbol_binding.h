// SPDX-License-Identifier: Apache-2.0
// From the shapes of a call's inputs to the values of the program's symbols, and the sizes that
// follow.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/program/program.h"

namespace halyard::runtime {

// Type and shape of a tensor that a caller gives.
struct TensorShape {
  DType dtype = DType::kInvalid;
  std::span<const int64_t> dims;
};

// Fills `values` (as many as the program has symbols) from the dims that are bare symbols, then
// checks every other dim, and each symbol's range and divisor. INVALID_ARGUMENT names input,
// dimension, value and what is needed. Allocates nothing when it succeeds.
Status BindSymbols(const program::Program& program, const program::Entry& entry,
                   std::span<const TensorShape> inputs, std::span<int64_t> values);

// INVALID_ARGUMENT unless the symbol may have that value.
Status CheckSymbolValue(const program::Symbol& symbol, int64_t value);

// The first guard that does not hold; null when all do. Fails where a guard cannot be evaluated.
Result<const program::Guard*> FindFailingGuard(const program::Entry& entry,
                                               std::span<const int64_t> values);

// Bytes of the tensor under the symbols' values. OUT_OF_RANGE on a negative dim or an overflow.
Result<int64_t> TensorBytes(const program::TensorDesc& tensor, std::span<const int64_t> values);

// "n, 3, 224": the dims with the names of symbols; other expressions as the text form prints them.
std::string FormatDims(const program::Program& program, const program::TensorDesc& tensor);

}  // namespace halyard::runtime
