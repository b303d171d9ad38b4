// SPDX-License-Identifier: Apache-2.0
// Binding of symbols to input shapes.
#include "runtime/symbol_binding.h"

#include "base/quantity.h"

namespace halyard::runtime {
namespace {

// The symbol that a dim is, if it is nothing else.
std::optional<size_t> AsSymbol(const program::SizeExpr& dim) {
  if (dim.tokens.size() == 1 && dim.tokens[0].op == program::ExprOp::kSymbol) {
    return static_cast<size_t>(dim.tokens[0].value);
  }
  return std::nullopt;
}

constexpr int64_t kUnbound = -1;  // no size is negative

}  // namespace

Status CheckSymbolValue(const program::Symbol& symbol, int64_t value) {
  if (value < symbol.min || value > symbol.max) {
    return InvalidArgument("Symbol '{}' is {}; the program takes {} to {}.", symbol.name, value,
                           symbol.min, symbol.max);
  }
  if (value % symbol.divisor != 0) {
    return InvalidArgument("Symbol '{}' is {}; the program takes multiples of {}.", symbol.name,
                           value, symbol.divisor);
  }
  return OkStatus();
}

Status BindSymbols(const program::Program& program, const program::Entry& entry,
                   std::span<const TensorShape> inputs, std::span<int64_t> values) {
  if (inputs.size() != entry.inputs.size()) {
    return InvalidArgument("The call gives {}; the program has {}.",
                           Counted(inputs.size(), "input"), entry.inputs.size());
  }
  for (int64_t& value : values) value = kUnbound;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const program::TensorDesc& wanted = entry.inputs[i];
    const TensorShape& given = inputs[i];
    if (given.dtype != wanted.dtype) {
      return InvalidArgument("Input '{}' has dtype {}; the program needs {}.", wanted.name,
                             FormatDType(given.dtype), FormatDType(wanted.dtype));
    }
    if (given.dims.size() != wanted.dims.size()) {
      return InvalidArgument("Input '{}' has {}; the program needs {}: [{}].", wanted.name,
                             Counted(given.dims.size(), "dimension"), wanted.dims.size(),
                             FormatDims(program, wanted));
    }
    for (size_t d = 0; d < given.dims.size(); ++d) {
      if (given.dims[d] < 0) {
        return InvalidArgument("Dimension {} of input '{}' is {}; the least is 0.", d, wanted.name,
                               given.dims[d]);
      }
      const auto symbol = AsSymbol(wanted.dims[d]);
      if (!symbol || values[*symbol] == given.dims[d]) continue;
      if (values[*symbol] != kUnbound) {
        return InvalidArgument("Dimension {} of input '{}' is {}; '{}' is {} already.", d,
                               wanted.name, given.dims[d], program.symbols[*symbol].name,
                               values[*symbol]);
      }
      values[*symbol] = given.dims[d];
      HY_TRY_CONTEXT(CheckSymbolValue(program.symbols[*symbol], given.dims[d]),
                     "binding dimension {} of input '{}'", d, wanted.name);
    }
  }
  for (size_t s = 0; s < values.size(); ++s) {
    if (values[s] == kUnbound) {
      return InvalidArgument(
          "Symbol '{}' is the size of no input; it must be fixed when compiling.",
          program.symbols[s].name);
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t d = 0; d < inputs[i].dims.size(); ++d) {
      const program::SizeExpr& wanted = entry.inputs[i].dims[d];
      if (AsSymbol(wanted)) continue;
      HY_ASSIGN(const int64_t value, wanted.Evaluate(values));
      if (value != inputs[i].dims[d]) {
        return InvalidArgument("Dimension {} of input '{}' is {}; the program needs {}.", d,
                               entry.inputs[i].name, inputs[i].dims[d], value);
      }
    }
  }
  return OkStatus();
}

Result<const program::Guard*> FindFailingGuard(const program::Entry& entry,
                                               std::span<const int64_t> values) {
  for (const program::Guard& guard : entry.guards) {
    HY_ASSIGN(const int64_t value, guard.expr.Evaluate(values));
    if (value < 0) return &guard;
  }
  return static_cast<const program::Guard*>(nullptr);
}

Result<int64_t> TensorBytes(const program::TensorDesc& tensor, std::span<const int64_t> values) {
  int64_t elements = 1;
  for (const program::SizeExpr& dim : tensor.dims) {
    HY_ASSIGN(const int64_t size, dim.Evaluate(values));
    if (size < 0)
      return OutOfRange("A dimension of '{}' is {}; the least is 0.", tensor.name, size);
    if (__builtin_mul_overflow(elements, size, &elements)) {
      return OutOfRange("The element count of '{}' does not fit 64 bits.", tensor.name);
    }
  }
  return StorageBytes(tensor.dtype, elements);
}

std::string FormatDims(const program::Program& program, const program::TensorDesc& tensor) {
  std::string text;
  for (const program::SizeExpr& dim : tensor.dims) {
    if (!text.empty()) text += ", ";
    const auto symbol = AsSymbol(dim);
    text += symbol ? program.symbols[*symbol].name : program::FormatExpr(program, dim);
  }
  return text;
}

}  // namespace halyard::runtime
