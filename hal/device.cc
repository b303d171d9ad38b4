// SPDX-License-Identifier: Apache-2.0
// Names of the enumerations that hal/device.h declares.
#include "hal/device.h"

namespace halyard::hal {

std::string_view FormatLinkKind(LinkKind kind) {
  switch (kind) {
    case LinkKind::kNone:
      return "none";
    case LinkKind::kSameMemory:
      return "same-memory";
    case LinkKind::kHostStaged:
      return "host-staged";
    case LinkKind::kPcie:
      return "pcie";
    case LinkKind::kNvlink:
      return "nvlink";
  }
  return "unknown";
}

}  // namespace halyard::hal
