// SPDX-License-Identifier: Apache-2.0
// Probes: what the devices of a machine really reach. Copies between memories, bandwidth of each
// level of the hierarchy, matrix products, and what dispatching and waiting cost; through the HAL
// alone, with kernels that Halyard's own compiler makes. A few seconds per device.
//
// A GPU's clock sleeps, and returns over tenths of a second of work: each kernel runs for a while
// before it is timed, and the clock that it was timed at stands in the reading.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "hal/device.h"
#include "runtime/cache.h"
#include "runtime/probe/reading.h"

namespace halyard::runtime {

struct ProbeOptions {
  // What would not end by then, by what was seen before, does not begin and is left out, with a
  // note; compiling ends.
  double seconds_per_device = 10;
  bool with_kernels = true;  // false: copies and latencies that need no compiler
  bool tune = true;          // race the schedules of matrix products
  // Little of everything that placement cannot do without: no first touch of memory, page-locked
  // copies up to 1 MiB, schedules by the model; neither bandwidth nor products.
  bool is_short = false;
  bool stored_only = false;      // of ProbeOrLoad: measures nothing
  std::shared_ptr<Cache> cache;  // of their winners; may be null
  // The host's device, to which crossings are measured; null: that of the list, or none.
  Ref<hal::Device> home;
  // Called before each reading; may be empty. `done` of the whole, from 0 to 1.
  std::function<void(std::string_view what, double done)> progress;
  // Asked before each reading; true ends probing with what there is.
  std::function<bool()> should_stop;
  std::function<double()> now;  // in seconds; empty: the steady clock
};

// Measures every device, and copies between those that have memory of their own. A reading that
// fails is a note; a lost device or failing allocation of small buffers ends that device's part,
// with a note. What each part lacks then, or when the time was over, stands in it. Blocks; one
// thread at a time. The report has snapshot 0.
Result<ProbeReport> Probe(std::span<const Ref<hal::Device>> devices, const ProbeOptions& options);

}  // namespace halyard::runtime
