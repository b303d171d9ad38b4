// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/launch.h"

#include "base/check.h"
#include "drivers/cuda/device.h"
#include "drivers/cuda/transfer.h"

namespace halyard::drivers::cuda {
namespace {

bool AreWaitsSettled(const Work& work) {
  for (const Work::Wait& wait : work.waits) {
    if (wait.promise && !wait.promise->is_settled.load(std::memory_order_acquire)) return false;
  }
  return true;
}

// Whether a work that this one waits for never reached its stream: it has failed, and what it
// waited for itself may still run.
bool HasFailedWait(const Work& work) {
  for (const Work::Wait& wait : work.waits) {
    if (wait.promise && !wait.promise->stream) return true;
  }
  return false;
}

Status EnqueueWaits(const Work& work, Context& context, CUstream stream, bool* out_enqueued) {
  for (const Work::Wait& wait : work.waits) {
    if (!wait.promise || wait.promise->stream == stream) continue;
    *out_enqueued = true;
    HY_TRY(context.Check(context.api().cuStreamWaitEvent(stream, wait.promise->handle(), 0),
                         "cuStreamWaitEvent", "a submission"));
  }
  return OkStatus();
}

Result<Ref<Event>> EnqueueTime(Context& context, CUstream stream, bool* out_enqueued) {
  HY_ASSIGN(auto event, context.AcquireEvent(true));
  *out_enqueued = true;
  HY_TRY(context.Check(context.api().cuEventRecord(event->handle(), stream), "cuEventRecord",
                       "measuring a submission"));
  return event;
}

Status EnqueueCommands(Work& work, Context& context, CUstream stream, bool* out_enqueued) {
  if (!work.time) return work.replay->Launch(work.slots, stream, out_enqueued);
  HY_ASSIGN(work.time_start, EnqueueTime(context, stream, out_enqueued));
  HY_TRY(work.replay->Launch(work.slots, stream, out_enqueued));
  HY_ASSIGN(work.time_end, EnqueueTime(context, stream, out_enqueued));
  return OkStatus();
}

Status EnqueuePayload(Work& work, Context& context, CUstream stream, bool* out_enqueued) {
  if (work.kind == WorkKind::kNothing) return OkStatus();
  if (work.kind == WorkKind::kCommands) {
    return EnqueueCommands(work, context, stream, out_enqueued);
  }
  *out_enqueued = true;
  const Work::Bound& target = work.bound.back();
  switch (work.kind) {
    case WorkKind::kCopy:
      return EnqueueCopy(context, stream, work.bound[0].address, target.address, target.size_bytes);
    case WorkKind::kUpdate:
      return EnqueueCopy(context, stream, work.bytes.device, target.address, target.size_bytes);
    case WorkKind::kFill: {
      const FillPattern parts = SplitPattern(work.pattern, work.pattern_bytes);
      HY_TRY(EnqueueFill(context, stream, target.address, target.size_bytes, parts.low,
                         parts.element_bytes, parts.is_split));
      if (!parts.is_split) return OkStatus();
      return EnqueueFill(context, stream, target.address + 4, target.size_bytes, parts.high, 4,
                         true);
    }
    default:
      break;
  }
  HY_UNREACHABLE("work of kind {}", static_cast<int>(work.kind));
}

}  // namespace

Scheduler::Launched LaunchWork(Work& work, CUstream stream) {
  if (!AreWaitsSettled(work)) return Scheduler::Launched::kLater;
  if (HasFailedWait(work)) return Scheduler::Launched::kSkipped;
  Context& context = work.device->context();
  bool is_enqueued = false;
  bool is_later = false;
  auto enqueue = [&]() -> Status {
    if (work.kind == WorkKind::kCommands) {
      HY_ASSIGN(work.replay, work.commands->AcquireReplay(work.slots));
      is_later = !work.replay;
      if (is_later) return OkStatus();
    }
    HY_TRY(EnqueueWaits(work, context, stream, &is_enqueued));
    return EnqueuePayload(work, context, stream, &is_enqueued);
  };
  Context::Current current(context);
  Status status = current.status();
  if (status.ok()) status = CatchAll(enqueue);
  if (status.ok() && is_later) return Scheduler::Launched::kLater;
  if (!status.ok()) {
    work.SetFailure(work.commands
                        ? status.WithContext(fmt::format("launching {}", work.commands->Describe()))
                        : status);
    if (!is_enqueued) {
      if (work.replay) work.commands->ReleaseReplay(std::exchange(work.replay, nullptr));
      return Scheduler::Launched::kNothing;
    }
  }
  // Also behind work that broke off: what it began must end before its buffers go.
  status = context.Check(context.api().cuEventRecord(work.event->handle(), stream), "cuEventRecord",
                         "a submission");
  if (!status.ok()) {
    work.SetFailure(status);
    context.api().cuStreamSynchronize(stream);
    if (work.replay) work.commands->ReleaseReplay(std::exchange(work.replay, nullptr));
    return Scheduler::Launched::kNothing;
  }
  work.event->stream = stream;
  return Scheduler::Launched::kInFlight;
}

}  // namespace halyard::drivers::cuda
