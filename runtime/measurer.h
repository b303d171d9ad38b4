// SPDX-License-Identifier: Apache-2.0
// HalMeasurer: times candidate schedules on real devices, interleaved, for the compiler, and finds
// the times of clusters that earlier races and runs took. A time is what a candidate's dispatches
// take by the device's clock in a recording among others, without the launch of a submission
// (runtime/launch_time.h); of a device without a clock it is the host's, from the call that submits
// to the end of the wait.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "compiler/abi.h"
#include "hal/device.h"
#include "runtime/cache.h"
#include "runtime/device_turn.h"

namespace halyard::runtime {

// One thread at a time; several of one device share its turn and time their candidates one after
// the other. Devices stand in the order of CompileRequest::devices.
class HalMeasurer : public Measurer, public place::Timings {
 public:
  // `cache` may be null: then winners are remembered for this object's life only. `should_stop` may
  // be empty; asked between rounds, on the thread that measures: a race that it stops is ABORTED.
  // `turns`: of the devices, in their order; empty: of this object's own.
  HalMeasurer(std::vector<Ref<hal::Device>> devices, std::shared_ptr<Cache> cache,
              std::function<bool()> should_stop = {},
              std::vector<std::shared_ptr<DeviceTurn>> turns = {});

  Result<std::vector<double>> Measure(uint32_t device,
                                      std::span<const Candidate> candidates) override;
  Result<std::vector<GpuLibraryCall>> ProposeLibraryCalls(uint32_t device,
                                                          const GpuLibraryCall& wanted,
                                                          size_t most) override;
  Result<std::string> DescribeLibrary(uint32_t device, GpuLibraryKind kind) override;
  std::optional<std::string> FindChoice(uint32_t device, uint64_t key) override;
  void StoreChoice(uint32_t device, uint64_t key, std::string_view record, double seconds) override;

  std::optional<place::Timing> FindTime(uint32_t device, uint64_t key) override;

  // Seconds spent in Measure so far, and candidates timed.
  double seconds() const { return seconds_; }
  size_t candidate_count() const { return candidate_count_; }
  // Whether a race found no memory, which may be there the next time.
  bool has_run_short() const { return has_run_short_; }

 private:
  std::vector<Ref<hal::Device>> devices_;
  std::vector<uint64_t> identities_;
  std::vector<std::shared_ptr<DeviceTurn>> turns_;  // of the devices
  std::shared_ptr<Cache> cache_;
  std::function<bool()> should_stop_;
  std::map<std::pair<uint64_t, uint64_t>, std::string> choices_;
  double seconds_ = 0;
  size_t candidate_count_ = 0;
  bool has_run_short_ = false;
};

}  // namespace halyard::runtime
