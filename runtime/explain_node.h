// SPDX-License-Identifier: Apache-2.0
// Answers about one node of the model that a program was made of: what became of it, and why it
// does not run on a device. They come from the program's report (report.h).
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "runtime/report.h"

namespace halyard::runtime {

// `name`: of a node, of a value that one makes, of a dispatch, or an op such as "Conv" in any case
// of letters; NOT_FOUND has the nearest names. `device`: a path such as "cuda:0"; empty: what
// became of the node, otherwise why it does not run there, each answer with a code that tools can
// rely on. Text or JSON: an object, or an array of them where the name means several nodes. Any
// thread.
Result<std::string> ExplainNode(const LoadedProgram& program, std::string_view name,
                                std::string_view device, ReportFormat format);

}  // namespace halyard::runtime
