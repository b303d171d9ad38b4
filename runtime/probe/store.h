// SPDX-License-Identifier: Apache-2.0
// Probe results in the cache folder: one file with the last report of each device and identity
// (hardware, driver, workers, and what options make of it): one that is opened with other options
// is another device.
#pragma once

#include <string>

#include "runtime/probe/probe.h"

namespace halyard::runtime {

inline constexpr const char* kProbeFileName = "probes.json";

// What is stored; a report without devices and snapshot 0 when there is none. DATA_LOSS when the
// file is damaged or not ours; FAILED_PRECONDITION as Cache::Open.
Result<ProbeReport> LoadProbes(const std::string& cache_folder);
// Puts the devices of `report` in place of stored ones with their path and identity (of one path
// the last 8 stay) and counts the snapshot up, past that of a damaged file too. One that lacks a
// part which the stored one has is not put there, and gets a sentence in `notes` (may be null).
// Returns what is stored now. UNAVAILABLE when the disk refuses.
Result<ProbeReport> StoreProbes(const std::string& cache_folder, const ProbeReport& report,
                                std::vector<std::string>* notes = nullptr);

// The probes of `devices`, from the store where identities match and nothing is lacking of what the
// options ask for, and probing the others, which are then stored. `again`: probes all.
// With stored_only nothing is measured, and the report lacks what the store does not have.
// `cache_folder` empty: stores nothing. `notes` gets a sentence for what is wrong with the store;
// it never fails the probe.
Result<ProbeReport> ProbeOrLoad(std::span<const Ref<hal::Device>> devices, ProbeOptions options,
                                const std::string& cache_folder, bool again,
                                std::vector<std::string>* notes);

}  // namespace halyard::runtime
