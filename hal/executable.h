// SPDX-License-Identifier: Apache-2.0
// Executable: kernels loaded for one device. A compiled graph is a program and lives above the HAL.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "hal/ref.h"

namespace halyard::hal {

class Device;

struct ExecutableEntry {
  std::string name;
  uint32_t binding_count = 0;
  uint32_t scalar_count = 0;
  // What the report sites of the kernel stand for, by ErrorRecord::site: "node 'g': index of
  // Gather".
  std::vector<std::string> sites;
};

// Borrowed until LoadExecutable returns.
struct ExecutableSource {
  std::string_view format;  // "cpu-image" (base/cpu_kernel_abi.h); "cuda-image", "spirv-image" (base/gpu_kernel_abi.h)
  std::span<const uint8_t> code;
  std::string_view name;  // for messages; may be empty
  // The entries that the caller wants, in the order in which dispatches will number them. Empty:
  // all that the code holds, in its order, without site names.
  std::span<const ExecutableEntry> entries;
};

// Immutable and thread-safe. Keeps its device alive; commands that name it keep it alive.
class Executable : public RefCounted {
 public:
  virtual Device* device() const = 0;
  virtual std::span<const ExecutableEntry> entries() const = 0;
  // What became of alternatives that the code offers, a sentence each: a library call that this
  // machine cannot make, so that our own kernel runs.
  virtual std::span<const std::string> notes() const { return {}; }
  // Index of the entry of that name. NOT_FOUND lists what there is.
  Result<uint32_t> FindEntry(std::string_view name) const;
};

}  // namespace halyard::hal
