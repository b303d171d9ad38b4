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
// A host submits a kernel and what times it in less, while a GPU runs so many empty ones at most.
constexpr double kLeadSeconds = 20e-6;
constexpr int kLongestLead = 64;
constexpr double kWarmSeconds = 0.1;

}  // namespace

double LaunchTime::Without(double seconds, int dispatches) {
  const double launch = Of(dispatches);
  return std::max(seconds - launch, std::min(seconds, dispatches * step_seconds_));
}

double LaunchTime::WithoutLed(double seconds) {
  if (!PrepareOnce().ok() || !empty_) return seconds;
  return std::max(seconds - led_launch_seconds_, std::min(seconds, step_seconds_));
}

double LaunchTime::Of(int dispatches) {
  if (!PrepareOnce().ok() || !empty_) return 0;
  return dispatches < kMany ? one_launch_seconds_ : many_launch_seconds_;
}

Status LaunchTime::Lead() {
  HY_TRY(PrepareOnce());
  if (!empty_) return OkStatus();
  hal::SubmitInfo info;
  info.commands = lead_.get();
  return device_->Submit(0, info);
}

Status LaunchTime::PrepareOnce() {
  if (is_prepared_) return OkStatus();
  is_prepared_ = true;
  // Whoever times commands learns of a lost device from the next of them.
  if (!Prepare().ok()) empty_.reset();
  return OkStatus();
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
  const double lead = kLeadSeconds / std::max(step_seconds_, 1e-9);
  HY_ASSIGN(lead_, RecordEmpty(static_cast<int>(std::clamp(lead, 1.0, double{kLongestLead}))));
  HY_ASSIGN(const double led, MeasureEmpty(1, 0, true));
  led_launch_seconds_ = std::max(0.0, led - step_seconds_);
  return OkStatus();
}

Result<Ref<hal::CommandBuffer>> LaunchTime::RecordEmpty(int dispatches) {
  HY_ASSIGN(Ref<hal::CommandBuffer> commands, device_->CreateCommandBuffer());
  hal::DispatchCommand command;
  command.executable = empty_.get();
  for (int64_t& extent : command.grid) extent = 1;
  command.label = "empty";
  for (int d = 0; d < dispatches; ++d) {
    HY_TRY(commands->Dispatch(command));
    HY_TRY(commands->Barrier());
  }
  HY_TRY(commands->Finish());
  return commands;
}

Result<double> LaunchTime::MeasureEmpty(int dispatches, double warm_seconds, bool is_led) {
  HY_ASSIGN(const Ref<hal::CommandBuffer> commands, RecordEmpty(dispatches));
  SampleOptions options;
  options.min_count = 20;
  options.max_count = 50;
  options.seconds = 2e-3;
  options.warm_seconds = warm_seconds;
  HY_ASSIGN(const Spread spread, Sample([&] { return RunOnce(*commands, is_led); }, options));
  return is_led ? spread.median : spread.best;
}

Result<double> LaunchTime::RunOnce(hal::CommandBuffer& commands, bool is_led) {
  if (is_led) HY_TRY(Lead());
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
