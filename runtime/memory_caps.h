// SPDX-License-Identifier: Apache-2.0
// Limits on what one program takes of a device, all of its plan together: the caps of the caller,
// obeyed or refused, never passed; and what the device has, to which placement keeps by default.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "compiler/abi.h"
#include "runtime/loaded_program.h"

namespace halyard::runtime {

// What the device has for programs and their inputs and outputs, as it says itself: its memory or
// a lower limit of the process. 0: it is the host's memory, or the device does not say.
int64_t OwnMemoryBytes(const hal::Device& device);
// What placement may take of that: a sixteenth, at most 1 GiB, is left to the driver, to code and
// to what allocation rounds up.
int64_t PlacedMemoryBytes(const hal::Device& device);

// Judges programs for `devices` that are not loaded yet, against caps by device and what the
// devices have. Page-locked memory counts for caps only: it is the host's. Empty, where nothing
// limits any of the devices.
using MemoryJudge = decltype(CompileRequest::judge_memory);
MemoryJudge MakeMemoryJudge(std::vector<Ref<hal::Device>> devices,
                            std::map<std::string, int64_t> caps);

// Against the caps that the program carries. OUT_OF_MEMORY names the device, what it needs, the cap
// and the shortfall. `symbols`: all of the program's, by name.
Status CheckMemoryCaps(const LoadedProgram& program, const std::map<std::string, int64_t>& symbols);
// The same with the least sizes that the program takes: what fails here runs with no others.
Status CheckLeastMemory(const LoadedProgram& program);

}  // namespace halyard::runtime
