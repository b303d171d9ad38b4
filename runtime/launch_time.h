// SPDX-License-Identifier: Apache-2.0
// LaunchTime: what a device's clock says of dispatches, without the launch. A dispatch takes what
// it adds to a recording that holds others as well, since that is how programs run them: a
// submission of its own costs some microseconds more by the device's clock, as much as small
// kernels take.
#pragma once

#include "hal/device.h"

namespace halyard::runtime {

// One thread at a time.
class LaunchTime {
 public:
  explicit LaunchTime(Ref<hal::Device> device) : device_(std::move(device)) {}

  // Seconds that `dispatches` (at least 1) dispatches add to a recording, when hal::CommandTime
  // said `seconds` of a submission of nothing but them, each behind the one before. What is taken
  // off was measured with empty kernels: what a submission of one, or of many, takes beyond what
  // each more adds to a long recording. At least that addition remains. The first call runs them,
  // which takes a tenth of a second. Where the device's clock has no launches in it, or empty
  // kernels fail, nothing is taken off. Of two or three short kernels too little is: a device may
  // launch them one by one, and how much of that stands behind the first one's work is not known.
  double Without(double seconds, int dispatches);
  // What is taken off.
  double Of(int dispatches);
  // Keeps the device busy for some microseconds, so that what is submitted right behind has reached
  // it when its turn comes: the host's part of a launch, which depends on what the host did before,
  // is not in its time then. Queue 0; nothing has to wait for it. Nothing where Without takes
  // nothing off.
  Status Lead();
  // As Without for one dispatch that was submitted behind Lead.
  double WithoutLed(double seconds);

 private:
  // By the device's clock, of a submission of that many empty kernels: the least, or of those
  // behind a lead the median.
  Result<double> MeasureEmpty(int dispatches, double warm_seconds = 0, bool is_led = false);
  Result<Ref<hal::CommandBuffer>> RecordEmpty(int dispatches);
  Status Prepare();
  Status PrepareOnce();
  Result<double> RunOnce(hal::CommandBuffer& commands, bool is_led);

  Ref<hal::Device> device_;
  bool is_prepared_ = false;
  Ref<hal::Executable> empty_;  // null: nothing is taken off
  Ref<hal::Semaphore> semaphore_;
  uint64_t value_ = 0;
  double step_seconds_ = 0;  // that one more empty kernel adds
  double one_launch_seconds_ = 0;
  double led_launch_seconds_ = 0;
  Ref<hal::CommandBuffer> lead_;
  double many_launch_seconds_ = 0;  // of recordings that a device submits as one
};

}  // namespace halyard::runtime
