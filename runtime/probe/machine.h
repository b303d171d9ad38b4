// SPDX-License-Identifier: Apache-2.0
// The machine of placement (compiler/place/machine.h) from probe reports.
#pragma once

#include "compiler/place/machine.h"
#include "compiler/program/program.h"
#include "runtime/probe/reading.h"

namespace halyard::runtime {

// `defaults` with measured numbers wherever the report has a device of equal name and identity:
// costs of dispatching and waiting, rates of products, bandwidth of levels, links to the host and
// between measured devices. Of what a probe lacks nothing is taken: a part that was cut short holds
// the easier sizes only. Everything else stays. The result verifies when `defaults` does.
place::Machine MeasuredMachine(const place::Machine& defaults, const ProbeReport& report);

// What placement knows of the devices of a request: defaults, and stored probes where there are
// some. `notes` gets a sentence when the store is damaged, and for a probe that lacks a part.
// `cache_folder` empty: defaults alone. `opened_as`: the path of each device with its options,
// which a note names; empty: without them.
place::Machine StoredMachine(std::span<const program::Device> devices,
                             const std::string& cache_folder, std::vector<std::string>* notes,
                             std::span<const std::string> opened_as = {});

}  // namespace halyard::runtime
