// SPDX-License-Identifier: Apache-2.0
// The validator of SPIR-V, for Vulkan 1.2.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace halyard::testing {

// What it says of a module, and the module's text; empty when it is valid. Debian's release knows
// no cooperative matrices (HasCooperativeMatrices): module_checker.h is for those.
std::string ValidateSpirv(std::span<const uint8_t> module);
bool HasCooperativeMatrices(std::span<const uint8_t> module);

// Each kernel of a GPU image of SPIR-V through the one or the other: the name of the first that is
// not valid and what is wrong; empty when all are. Adds to `matrix_modules` (may be null) how many
// have cooperative matrices.
std::string ValidateGpuImage(std::span<const uint8_t> code, size_t* matrix_modules = nullptr);

}  // namespace halyard::testing
