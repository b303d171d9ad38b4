// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/work.h"

#include "drivers/cuda/device.h"

namespace halyard::drivers::cuda {

void Work::MovePayloadTo(Work& other) {
  other.device = Ref<CudaDevice>::Share(device.get());
  other.event = Ref<Event>::Share(event.get());
  other.commands = std::move(commands);
  other.replay = std::exchange(replay, nullptr);
  other.bound = std::move(bound);
  other.bytes = std::exchange(bytes, {});
  other.time_start = std::move(time_start);
  other.time_end = std::move(time_end);
}

void Work::ReleasePayload() {
  if (replay) commands->ReleaseReplay(std::exchange(replay, nullptr));
  commands.reset();
  time.reset();
  time_start.reset();
  time_end.reset();
  bound.clear();
  slots.clear();
  if (bytes.host) device->context().ReleasePinned(std::exchange(bytes, {}));
  if (call.release) call.release(call.context);
  call = {};
}

void WorkList::Push(Work* work) {
  work->next = nullptr;
  if (last_) {
    last_->next = work;
  } else {
    first_ = work;
  }
  last_ = work;
  ++size_;
}

Work* WorkList::Pop() {
  Work* work = first_;
  if (!work) return nullptr;
  first_ = work->next;
  if (!first_) last_ = nullptr;
  --size_;
  return work;
}

}  // namespace halyard::drivers::cuda
