// SPDX-License-Identifier: Apache-2.0
// Reads the text form of Graph IR (printer.h describes it). Every node goes through the builder, so
// what is read is well-formed; types in the text are checked against shape inference.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/ops/op_def.h"

namespace halyard::graph {

// Finds the bytes of a constant that the text names by hash. Without a resolver, such constants get
// bytes whose reading fails with NOT_FOUND, which is enough for passes that do not look at data.
using ConstantResolver = std::function<Result<std::shared_ptr<const ByteSource>>(
    uint64_t hash, DType dtype, const std::vector<int64_t>& dims)>;

// What errors name: line and column, or, for a graph built by calls, the node, input or output.
enum class TextOrigin : uint8_t { kWritten, kRecorded };

// INVALID_ARGUMENT for anything ill-formed.
Result<Module> ParseModule(std::string_view text, const ConstantResolver& resolver = {},
                           TextOrigin origin = TextOrigin::kWritten);
// The attributes of one node of `op`, as in "axis = 0, keep_dims = 1" (without braces).
Result<Attributes> ParseAttributes(Module& module, const OpDef& op, std::string_view text);

}  // namespace halyard::graph
