// SPDX-License-Identifier: Apache-2.0
// One-op graphs for `halyard bench --op`: a device can be judged without a model.
#pragma once

#include <string>
#include <vector>

#include "tools/halyard/command.h"

namespace halyard::tools {

struct OpCase {
  std::string op;             // one of KnownOps
  std::vector<int64_t> dims;  // as its form says
  hy_dtype dtype = HY_DTYPE_F32;
};

// "matmul, conv, ...".
std::string KnownOps();
// What a --shape of this op is, such as "ROWSxCOLUMNS". Throws CommandError for an op that is not
// known.
std::string ShapeFormOf(const std::string& op);
// `shape`: numbers joined by x, such as 4096x4096x4096. Throws CommandError that names the form.
OpCase ParseOpCase(const std::string& op, const std::string& shape, const std::string& dtype);
// "matmul 4096x4096x4096 bf16".
std::string NameOf(const OpCase& op);
// Every operand is an input, so that nothing is packed or folded beforehand; the rows that gather
// picks are constants. What is narrower than f32 computes sums, exponentials and statistics in f32.
hy::Graph MakeGraph(const hy::Instance& instance, const OpCase& op);

}  // namespace halyard::tools
