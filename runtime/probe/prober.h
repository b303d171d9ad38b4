// SPDX-License-Identifier: Apache-2.0
// Prober: what the parts of a probe share: the report of one device that grows, the time that is
// left, and the wish to stop.
#pragma once

#include <chrono>

#include "hal/device.h"
#include "runtime/probe/probe.h"
#include "runtime/probe/sampler.h"

namespace halyard::runtime {

class Prober {
 public:
  Prober(Ref<hal::Device> device, const ProbeOptions& options, double share_begin,
         double share_end);

  hal::Device& device() const { return *device_; }
  const Ref<hal::Device>& device_ref() const { return device_; }
  const ProbeOptions& options() const { return options_; }
  // The host works on its memory in place: nothing is copied to it.
  bool is_host() const;
  bool is_gpu() const;  // one whose clock sleeps, not a processor that plays one
  int64_t available_bytes() const;

  // What the readings that follow are parts of.
  void Enter(ProbePart part) {
    part_ = part;
    entered_ |= part;
  }
  // The part that was entered is not asked for.
  void LeaveOut() { probe_.lacks |= part_; }
  // Whether to begin the reading `what`: neither stopped nor out of time. Tells the progress. If
  // not, the part is cut short.
  bool Begins(std::string_view what);
  bool is_stopped() const { return is_stopped_; }
  void Add(Reading reading);
  // A reading that failed: DEVICE_LOST comes back; anything else is a note. The part lacks it,
  // unless the failure says that this device never can do it.
  Status Note(std::string_view what, const Status& status);
  // What ended the probe of this device.
  void End(const Status& status);
  int64_t ReadClock() const;

  DeviceProbe Finish();

 private:
  void CutShort(uint32_t parts);

  const Ref<hal::Device> device_;
  const ProbeOptions& options_;
  const double share_begin_, share_end_;
  const std::chrono::steady_clock::time_point start_;
  DeviceProbe probe_;
  ProbePart part_ = kLatencies;
  uint32_t entered_ = 0;
  bool is_stopped_ = false;
  int64_t left_out_ = 0;
};

// The parts. Each adds readings and notes; only a lost device fails.
Status ProbeCopies(Prober& prober);
Status ProbeLatencies(Prober& prober);
Status ProbeFirstTouch(Prober& prober);
Status ProbeBandwidth(Prober& prober);
Status ProbeClasses(Prober& prober);
Status ProbeProducts(Prober& prober);
// Of the host: what the interpreter takes for ops of each class.
Status ProbeInterpreter(Prober& prober);
// Programs whose kernels alternate between the prober's device and another one, against the same
// program on the first.
Status ProbeCrossing(Prober& prober, const Ref<hal::Device>& other);
// Copies from the prober's device to another one with memory of its own.
Status ProbeLink(Prober& prober, hal::Device& target);

}  // namespace halyard::runtime
