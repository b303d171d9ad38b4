// SPDX-License-Identifier: Apache-2.0
// A short probe at the first use: before a program is placed over several devices, those that
// nobody measured are measured for HALYARD_FIRST_PROBE_MS together, and that is stored like any
// probe. It lacks bandwidth and products, so that `halyard devices --probe` still measures them
// whole.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hal/device.h"
#include "runtime/cache.h"

namespace halyard::runtime {

struct FirstProbeJob {
  std::vector<Ref<hal::Device>> devices;  // that a program may be placed over, without last resorts
  std::string cache_folder;               // where probes are stored
  std::shared_ptr<Cache> cache;           // of schedules
  std::function<bool()> should_stop;      // may be empty
};

// What was measured, as a sentence; empty: nothing was, because there are fewer than two devices,
// because all have a probe, because the store cannot be read (a damaged one is for the user to
// see), or because the time is 0. It names what the time did not last for. An operation that has
// begun is ended, so it may take longer by one run of a kernel that nobody has seen before.
// Never fails: what is not measured is a default. Blocks; of several threads one after the other.
std::string ProbeAtFirstUse(const FirstProbeJob& job);

}  // namespace halyard::runtime
