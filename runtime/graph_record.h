// SPDX-License-Identifier: Apache-2.0
// GraphRecord: a graph as the C API receives it, node by node, before the compiler library sees it.
// It checks names and value numbers; ops and types are the compiler's business.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "compiler/graph/graph.h"

namespace halyard::runtime {

// Not thread-safe.
class GraphRecord {
 public:
  using Value = uint32_t;
  struct Expressions {
    std::string text;  // "n, 2*n"
  };
  using Attribute = std::variant<int64_t, double, std::string, DType, std::vector<int64_t>,
                                 std::vector<double>, Expressions>;

  Status AddSymbol(std::string_view name, int64_t min, int64_t max, int64_t multiple_of);
  Result<Value> AddInput(std::string_view name, DType dtype, std::string_view dims);
  Result<Value> AddConstant(std::string_view name, DType dtype, std::vector<int64_t> dims,
                            std::shared_ptr<const graph::ByteSource> bytes);
  Result<std::vector<Value>> AddOp(std::string_view op, std::string_view name,
                                   std::vector<Value> operands,
                                   std::vector<std::pair<std::string, Attribute>> attributes,
                                   size_t result_count);
  Status AddOutput(std::string_view name, Value value);
  // Takes back what the last of these calls that succeeded added. FAILED_PRECONDITION when there is
  // nothing; a call that failed added nothing.
  Status Undo();

  // Graph IR text. Constants stand in it as "#hash"; their bytes are in constants() under those 16
  // digits. INVALID_ARGUMENT when there is no output.
  Result<std::string> ToText() const;
  const std::map<std::string, std::shared_ptr<const graph::ByteSource>>& constants() const {
    return constant_bytes_;
  }

 private:
  struct Symbol {
    std::string name;
    int64_t min, max, multiple_of;
  };
  struct Input {
    std::string name;
    DType dtype;
    std::string dims;
    Value value;
  };
  struct Node {
    std::string op, name;
    std::vector<Value> operands, results;
    std::vector<std::pair<std::string, Attribute>> attributes;
    std::string constant;  // of constant nodes: the digits of the hash
    DType dtype = DType::kInvalid;
    std::vector<int64_t> dims;
  };
  enum class Kind : uint8_t { kSymbol, kInput, kNode, kOutput };

  Status CheckNewNames(std::span<const std::string> names) const;
  Value NewValue(std::string name);
  // The sizes of a comma-separated list, each an expression over declared symbols.
  Status CheckSizes(std::string_view text, bool are_dims) const;

  std::vector<Kind> history_;  // of what was added
  std::vector<Symbol> symbols_;
  std::vector<Input> inputs_;
  std::vector<Node> nodes_;
  std::vector<std::pair<std::string, Value>> outputs_;
  std::vector<std::string> value_names_;
  std::set<std::string, std::less<>> names_;
  std::map<std::string, std::shared_ptr<const graph::ByteSource>> constant_bytes_;
};

// Bytes that the host owns until `release` is called, or a copy of them.
std::shared_ptr<const graph::ByteSource> MakeByteSource(const void* data, size_t size_bytes,
                                                        void (*release)(void*), void* context);

}  // namespace halyard::runtime
