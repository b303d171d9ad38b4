// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch_time.h"

#include <algorithm>

#include "runtime/probe/sampler.h"

namespace halyard::runtime {
namespace {

// A driver may put few commands onto its queue one by one, each with a launch of its own, and more
// as one recording.
constexpr int kMany = 4;
constexpr int kChain = 64;  // of the recordings whose difference is what one more adds
constexpr double kWarmSeconds = 0.1;

}  // namespace

double LaunchTime::Without(double seconds, int dispatches) {
  const double launch = Of(dispatches);
  return std::max(seconds - launch, std::min(seconds, dispatches * step_seconds_));
}

double LaunchTime::Of(int dispatches) {
  if (!is_prepared_) {
    is_prepared_ = true;
    // Whoever times commands learns of a lost device from the next of them.
    if (!Prepare().ok()) empty_.reset();
  }
  if (!empty_) return 0;
  return dispatches < kMany ? one_launch_seconds_ : many_launch_seconds_;
}

void LaunchTime::Refresh() {
  Of(1);
  if (!empty_) return;
  const Result<double> alone = MeasureEmpty(1);
  if (!alone.ok()) return;
  one_launch_seconds_ = std::min(one_launch_seconds_, std::max(0.0, *alone - step_seconds_));
}

Status LaunchTime::Prepare() {
  HY_ASSIGN(const std::vector<uint8_t> image, device_->EmptyKernel());
  hal::ExecutableSource source;
  source.format = device_->capabilities().executable_formats.front();
  source.code = image;
  source.name = "empty";
  HY_ASSIGN(empty_, device_->LoadExecutable(source));
  HY_ASSIGN(semaphore_, device_->CreateSemaphore(0));
  HY_ASSIGN(const double twice, MeasureEmpty(2 * kChain, kWarmSeconds));
  HY_ASSIGN(const double once, MeasureEmpty(kChain));
  step_seconds_ = std::max(0.0, (twice - once) / kChain);
  many_launch_seconds_ = std::max(0.0, once - kChain * step_seconds_);
  HY_ASSIGN(const double alone, MeasureEmpty(1));
  one_launch_seconds_ = std::max(0.0, alone - step_seconds_);
  return OkStatus();
}

Result<double> LaunchTime::MeasureEmpty(int dispatches, double warm_seconds) {
  HY_ASSIGN(const Ref<hal::CommandBuffer> commands, device_->CreateCommandBuffer());
  hal::DispatchCommand command;
  command.executable = empty_.get();
  for (int64_t& extent : command.grid) extent = 1;
  command.label = "empty";
  for (int d = 0; d < dispatches; ++d) {
    HY_TRY(commands->Dispatch(command));
    HY_TRY(commands->Barrier());
  }
  HY_TRY(commands->Finish());
  SampleOptions options;
  options.min_count = 20;
  options.max_count = 50;
  options.seconds = 2e-3;
  options.warm_seconds = warm_seconds;
  HY_ASSIGN(const Spread spread, Sample([&] { return RunOnce(*commands); }, options));
  return spread.best;
}

Result<double> LaunchTime::RunOnce(hal::CommandBuffer& commands) {
  const hal::SemaphorePoint wait{semaphore_.get(), value_}, signal{semaphore_.get(), value_ + 1};
  const auto time = MakeRef<hal::CommandTime>();
  hal::SubmitInfo info;
  info.ordering.waits = {&wait, 1};
  info.ordering.signals = {&signal, 1};
  info.ordering.caller_waits = true;
  info.commands = &commands;
  info.time = time.get();
  HY_TRY(device_->Submit(0, info));
  ++value_;
  HY_TRY(device_->Wait({&signal, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout));
  if (time->nanoseconds() < 0) return Unimplemented("The device does not time commands.");
  return static_cast<double>(time->nanoseconds()) * 1e-9;
}

}  // namespace halyard::runtime
