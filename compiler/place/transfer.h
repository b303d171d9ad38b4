// SPDX-License-Identifier: Apache-2.0
// TransferModel: what it costs to bring bytes from one device to another: the cheapest way over the
// machine's links, and the synchronisation of the two queues.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/place/machine.h"

namespace halyard::place {

// Bytes per second of a link for a transfer of that size; `is_callers`: from the caller's memory.
double BandwidthAt(const Link& link, int64_t bytes, bool is_callers = false);

struct TransferCost {
  double sync_seconds = 0;  // the destination's queue learns that the source's is done
  double copy_seconds = 0;  // the links are busy; infinite where no way leads there
  double sigma_seconds = 0;
  bool is_crossing_measured = false;  // sync_seconds is what a probe of such programs found
  Source source = Source::kMeasured;  // the least trusted of the numbers used
  PathKind path = PathKind::kNative;  // of the slowest hop
  std::vector<uint32_t> engines;      // busy during the copy
  double seconds() const { return sync_seconds + copy_seconds; }
};

// Borrows the machine, which must outlive it. Thread-compatible.
class TransferModel {
 public:
  explicit TransferModel(const Machine& machine);
  // `from`, `to`: devices, or kNone for the home memory. The same device costs nothing.
  // `is_pinned`: what comes from the home memory lies in page-locked memory, as streamed weights
  // do.
  TransferCost Estimate(uint32_t from, uint32_t to, int64_t bytes, bool is_pinned = false) const;
  // The first device that works in the home memory; kNone: none does.
  uint32_t home_device() const { return home_device_; }

 private:
  uint32_t MemoryOf(uint32_t device) const;

  const Machine& machine_;
  uint32_t home_device_ = kNone;
};

}  // namespace halyard::place
