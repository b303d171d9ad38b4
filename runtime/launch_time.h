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
  // Measures the launch of one anew, in less than a millisecond. The least that was ever seen
  // counts: a host that is slow for a moment launches later, and what is taken off too much is gone
  // from the kernel.
  void Refresh();

 private:
  // By the device's clock, of a submission of that many empty kernels: the least.
  Result<double> MeasureEmpty(int dispatches, double warm_seconds = 0);
  Status Prepare();
  Result<double> RunOnce(hal::CommandBuffer& commands);

  Ref<hal::Device> device_;
  bool is_prepared_ = false;
  Ref<hal::Executable> empty_;  // null: nothing is taken off
  Ref<hal::Semaphore> semaphore_;
  uint64_t value_ = 0;
  double step_seconds_ = 0;  // that one more empty kernel adds
  double one_launch_seconds_ = 0;
  double many_launch_seconds_ = 0;  // of recordings that a device submits as one
};

}  // namespace halyard::runtime
