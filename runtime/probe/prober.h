// SPDX-License-Identifier: Apache-2.0
// Prober: what the parts of a probe share: the report of one device that grows, the time that is
// left, and the wish to stop.
#pragma once

#include <algorithm>

#include "hal/device.h"
#include "runtime/probe/kernel_maker.h"
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

  // What the readings that follow are parts of, and about how many times Begins is asked of it.
  void Enter(ProbePart part, size_t readings);
  // The part that was entered is not asked for.
  void LeaveOut() { probe_.lacks |= part_; }
  KernelMaker& kernels() { return kernels_; }
  // For who times the device; not across a call of kernels().Make.
  DeviceTurn::Hold TakeTurn() { return DeviceTurn::Hold(*kernels_.turn()); }
  // How to sample while `turn` is held: after the clock is up, for `seconds` at most.
  SampleOptions Sampling(const DeviceTurn::Hold& turn, double seconds) const;
  // With no more time than is left.
  SampleOptions Limited(SampleOptions sampling) const;
  double SecondsLeft() const;
  // Whether to begin the reading `what`: not stopped, and the time lasts for the shortest reading
  // of the part up to now, and for `least_seconds`. Tells the progress. If not, the part is cut
  // short.
  bool Begins(std::string_view what, double least_seconds = 0);
  // Whether the time lasts for the shortest reading of the part up to now.
  bool LastsForOne() const { return SecondsLeft() >= std::max(shortest_, 0.0); }
  // A reading of the part is left out because its time is over.
  void LeaveOutLate();
  bool is_stopped() const { return is_stopped_; }
  // Whether Begins would say no.
  bool IsOver() const;
  void Add(Reading reading);
  // A reading that failed: DEVICE_LOST comes back; anything else is a note. The part lacks it,
  // unless the failure says that this device never can do it.
  Status Note(std::string_view what, const Status& status);
  // What ended the probe of this device.
  void End(const Status& status);
  int64_t ReadClock() const;
  double Now() const;  // in seconds

  DeviceProbe Finish();

 private:
  void CutShort(uint32_t parts);
  // Of the whole work of this device, by what parts take about.
  double ShareDone() const;
  void EndPart();

  const Ref<hal::Device> device_;
  const ProbeOptions& options_;
  const double share_begin_, share_end_;
  const double start_;
  DeviceProbe probe_;
  KernelMaker kernels_;
  ProbePart part_ = kLatencies;
  uint32_t entered_ = 0;
  size_t part_readings_ = 1, part_begun_ = 0;
  double part_start_;
  double reading_start_ = -1;  // of the reading that was begun last, in this part
  double shortest_ = -1;       // of those that ended in it
  double part_made_ = 0;       // of kernels().seconds(), before the part
  bool is_stopped_ = false;
  int64_t left_out_ = 0;
};

// What the kernels of parts are made of, for kernels().Begin; those parts make them by the same.
std::vector<KernelJob> ClassJobs(const Prober& prober);
std::vector<KernelJob> BandwidthJobs(const Prober& prober);
std::vector<KernelJob> ProductJobs(const Prober& prober);

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
