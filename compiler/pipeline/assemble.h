// SPDX-License-Identifier: Apache-2.0
// Assembly: writes scheduled segments as one program entry. Packs constants, gives every value a
// place (input, output, constant or a range of an arena) and orders the commands. The last pass
// before code generation fills in the executables.
#pragma once

#include "base/status.h"
#include "compiler/pipeline/state.h"

namespace halyard::pipeline {

// Reads, packs and stores every constant that a command binds; equal (content, packing) pairs once.
// Fills program.constants and program.data.
// Fills program.symbols, entries[0] and the kernel tables of program.executables (code stays
// empty). Records the planned memory.
Status AssembleProgram(CompileState& state);

// Compiles the kernels of every executable for its target. Identical kernels were merged by
// assembly.
Status GenerateCode(CompileState& state);

}  // namespace halyard::pipeline
