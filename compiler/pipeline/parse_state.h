// SPDX-License-Identifier: Apache-2.0
// Reads the text of any level back into a CompileState: what hy-opt and the golden tests start
// from.
#pragma once

#include <string_view>

#include "base/status.h"
#include "compiler/pipeline/state.h"

namespace halyard::pipeline {

// The first line says the level ("// level: loop"), as FormatState writes it. `target` becomes the
// only device. Constants of a graph have no bytes: passes that read them fail with NOT_FOUND. A
// loop or kernel text becomes one segment; a loop text must hold one function. INVALID_ARGUMENT
// with a line number where the text is wrong.
Status ParseState(std::string_view text, const Target& target, CompileState* state);

}  // namespace halyard::pipeline
