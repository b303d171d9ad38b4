// SPDX-License-Identifier: Apache-2.0
// The document of all ops, made from their records. docs/ops.md holds its text; a test compares them.
#pragma once

#include <string>

namespace halyard::graph {

std::string FormatOpDocs();

}  // namespace halyard::graph
