// SPDX-License-Identifier: Apache-2.0
// What all buffers share: names and the range check that every driver uses.
#include "hal/buffer.h"

namespace halyard::hal {

std::string_view FormatMemoryKind(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kDevice:
      return "device";
    case MemoryKind::kHostVisible:
      return "host-visible";
    case MemoryKind::kStaging:
      return "staging";
  }
  return "unknown";
}

Status CheckRange(std::string_view what, int64_t offset, int64_t size_bytes, int64_t limit) {
  if (offset < 0 || size_bytes < 0 || offset > limit || size_bytes > limit - offset) {
    return OutOfRange("{} covers {} bytes from offset {}; only {} bytes are there.", what,
                      size_bytes, offset, limit);
  }
  return OkStatus();
}

}  // namespace halyard::hal
