// SPDX-License-Identifier: Apache-2.0
// Streamed constants: weights that a device does not keep. They stand in page-locked memory of the
// host; every run brings them, into the copy lane of the device, before the block that reads them.
#pragma once

#include <vector>

#include "compiler/program/program.h"

namespace halyard::program {

// Per constant, whether a transfer of its own device reads it: that is what makes it streamed. No
// other command may name it (Verify).
std::vector<bool> StreamedConstants(const Program& program);

}  // namespace halyard::program
