// SPDX-License-Identifier: Apache-2.0
// TransferPath: how bytes get from the memory of one device to that of another one. Where both
// drivers work in the host's memory, or one does, the host copies; directly between devices only
// where a probe has moved bytes and found them whole; everywhere else through page-locked memory of
// both devices.
#pragma once

#include "base/status.h"
#include "hal/device.h"

namespace halyard::runtime {

struct TransferPath {
  bool is_direct = false;   // the target's queue copies from the source's memory
  bool stages_out = false;  // the source's queue copies to its staging memory first
  bool stages_in = false;   // the target's queue copies from its staging memory last
};

// Whether the device works on the host's memory in place.
bool SharesHostMemory(const hal::Device& device);

// Asks the drivers, and probes what they promise. Moves some bytes; takes milliseconds. A probe
// that fails is no failure: the path is a staged one.
TransferPath FindTransferPath(hal::Device& from, hal::Device& to);

// Starts of staging ranges are multiples of this.
inline constexpr int64_t kStagingAlignment = 64;
// Bytes that a transfer takes of a staging buffer.
constexpr int64_t StagingBytes(int64_t size_bytes) {
  return (size_bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
}

}  // namespace halyard::runtime
