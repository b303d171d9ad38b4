// SPDX-License-Identifier: Apache-2.0
// Buffer: bytes that a device can use. It has no element type and no shape; tensors live above the
// HAL.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "hal/ref.h"

namespace halyard::hal {

class Device;

enum class MemoryKind : uint8_t {
  kDevice,       // fastest for the device; the host may be unable to map it
  kHostVisible,  // the device reads and writes it in place and the host can map it
  kStaging,      // the host can map it; meant as one end of copies
};
std::string_view FormatMemoryKind(MemoryKind kind);

// Contents are undefined after allocation. Keeps its device alive. The address is a multiple of
// Device::buffer_alignment().
class Buffer : public RefCounted {
 public:
  virtual Device* device() const = 0;
  virtual MemoryKind kind() const = 0;
  virtual int64_t size_bytes() const = 0;

  // The host address of `offset`; stays valid while the buffer lives, and may be asked for any
  // number of times. The caller orders its accesses against the device by semaphores. OUT_OF_RANGE
  // when the range is not inside the buffer; INCOMPATIBLE when the host cannot address it.
  virtual Result<uint8_t*> Map(int64_t offset, int64_t size_bytes) = 0;
  // Makes host writes to a mapped range visible to the device, and device writes visible to the
  // host. Calls that a coherent device answers with OK and no work.
  virtual Status FlushMapped(int64_t offset, int64_t size_bytes) = 0;
  virtual Status InvalidateMapped(int64_t offset, int64_t size_bytes) = 0;
};

// A range of a buffer; borrowed by the call that takes it.
struct BufferRange {
  Buffer* buffer = nullptr;
  int64_t offset = 0;
  int64_t size_bytes = 0;
};

// OUT_OF_RANGE, naming both, unless [offset, offset + size_bytes) lies in [0, limit).
Status CheckRange(std::string_view what, int64_t offset, int64_t size_bytes, int64_t limit);

}  // namespace halyard::hal
