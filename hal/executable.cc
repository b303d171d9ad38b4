// SPDX-License-Identifier: Apache-2.0
// What all executables share: looking an entry up by name.
#include "hal/executable.h"

namespace halyard::hal {

Result<uint32_t> Executable::FindEntry(std::string_view name) const {
  std::span<const ExecutableEntry> all = entries();
  std::string known;
  for (uint32_t i = 0; i < all.size(); ++i) {
    if (all[i].name == name) return i;
    known += known.empty() ? "" : ", ";
    known += all[i].name;
  }
  return NotFound("The executable has no entry '{}'; it has: {}.", name, known);
}

}  // namespace halyard::hal
