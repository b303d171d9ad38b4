// SPDX-License-Identifier: Apache-2.0
// Code generation for every kind of device: what the pipeline sees of the code generators.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compiler/kernel/kernel_ir.h"
#include "compiler/target/target.h"

namespace halyard {

// The image that the driver of the target's kind loads, with one entry per kernel under its name,
// in order. The module must be verified and its transcendentals expanded. May be called from
// several threads at once. The failures are those of the code generator.
Result<std::vector<uint8_t>> EmitImage(const kernel::Module& module, const Target& target);

// Its format, as hal::ExecutableSource::format names it.
std::string_view ImageFormat(TargetKind kind);

}  // namespace halyard
