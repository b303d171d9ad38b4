// SPDX-License-Identifier: Apache-2.0
// RandomProgram: valid programs with every kind of field filled from a seed, for round trips,
// mutations and fuzzing. They are well formed, not runnable: the code is noise.
#pragma once

#include <cstdint>

#include "compiler/program/program.h"

namespace halyard::program {

Program RandomProgram(uint32_t seed);

}  // namespace halyard::program
