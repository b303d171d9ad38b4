// SPDX-License-Identifier: Apache-2.0
#include "hal/validation.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <vector>

#include "base/check.h"
#include "hal/command_checks.h"

namespace halyard::hal {
namespace {

// This thread runs a host call of some validated device.
thread_local bool t_is_in_host_call = false;

class ValidationDevice;

class ValidationBuffer final : public Buffer {
 public:
  ValidationBuffer(Ref<ValidationDevice> device, Ref<Buffer> inner);
  ~ValidationBuffer() override;
  Device* device() const override;
  MemoryKind kind() const override { return inner_->kind(); }
  int64_t size_bytes() const override { return inner_->size_bytes(); }
  Result<uint8_t*> Map(int64_t offset, int64_t size_bytes) override {
    return inner_->Map(offset, size_bytes);
  }
  Status FlushMapped(int64_t offset, int64_t size_bytes) override {
    return inner_->FlushMapped(offset, size_bytes);
  }
  Status InvalidateMapped(int64_t offset, int64_t size_bytes) override {
    return inner_->InvalidateMapped(offset, size_bytes);
  }
  Buffer* inner() const { return inner_.get(); }

 private:
  Ref<ValidationDevice> device_;
  Ref<Buffer> inner_;
};

class ValidationExecutable final : public Executable {
 public:
  ValidationExecutable(Ref<ValidationDevice> device, Ref<Executable> inner);
  ~ValidationExecutable() override;
  Device* device() const override;
  std::span<const ExecutableEntry> entries() const override { return inner_->entries(); }
  std::span<const std::string> notes() const override { return inner_->notes(); }
  Executable* inner() const { return inner_.get(); }

 private:
  Ref<ValidationDevice> device_;
  Ref<Executable> inner_;
};

// A command as far as hazards are concerned: what it surely writes and what it touches otherwise.
struct Footprint {
  std::string name;
  size_t stage = 0;
  std::vector<CommandRange> written;
  std::vector<CommandRange> touched;  // read, or read and written by a kernel
};

class ValidationCommandBuffer final : public CommandBuffer {
 public:
  ValidationCommandBuffer(Ref<ValidationDevice> device, Ref<CommandBuffer> inner);
  ~ValidationCommandBuffer() override;

  Device* device() const override;
  Status Dispatch(const DispatchCommand& command) override;
  Status Copy(const CommandRange& source, const CommandRange& target) override;
  Status Fill(const CommandRange& target, uint64_t pattern, uint32_t pattern_bytes) override;
  Status Barrier() override;
  Status Finish() override;
  bool is_finished() const override { return inner_->is_finished(); }
  uint32_t slot_count() const override { return inner_->slot_count(); }
  uint32_t dispatch_count() const override { return inner_->dispatch_count(); }

  CommandBuffer* inner() const { return inner_.get(); }
  // Each command in a finished recording of its own, in order.
  std::span<const Ref<CommandBuffer>> steps() const { return steps_; }
  // Hazards within stages once slots stand for `bindings` (the wrapper's buffers).
  Status CheckHazards(std::span<const BufferRange> bindings) const;

 private:
  // Guards against two threads recording at once.
  class Recording {
   public:
    explicit Recording(std::atomic<bool>* flag) : flag_(flag), is_alone_(!flag->exchange(true)) {}
    ~Recording() {
      if (is_alone_) flag_->store(false);
    }
    Status status() const {
      if (is_alone_) return OkStatus();
      return FailedPrecondition("Two threads record into one command buffer at once.");
    }

   private:
    std::atomic<bool>* flag_;
    bool is_alone_;
  };
  Result<CommandRange> Unwrap(const CommandRange& range) const;
  // Makes a recording of one command; `record` records it there.
  template <typename Record>
  Status AddStep(const Record& record);
  // Keeps `range`'s buffer, so that hazards can be looked up at submissions.
  CommandRange Keep(const CommandRange& range);

  Ref<ValidationDevice> device_;
  Ref<CommandBuffer> inner_;
  std::atomic<bool> is_recording_{false};
  size_t stage_ = 0;
  std::vector<Footprint> footprints_;
  std::vector<Ref<CommandBuffer>> steps_;
  std::vector<Ref<Buffer>> kept_;
};

class ValidationDevice final : public Device {
 public:
  explicit ValidationDevice(Ref<Device> inner) : inner_(std::move(inner)) {}

  std::string_view path() const override { return inner_->path(); }
  const Capabilities& capabilities() const override { return inner_->capabilities(); }
  uint32_t queue_count() const override { return inner_->queue_count(); }
  int64_t buffer_alignment() const override { return inner_->buffer_alignment(); }
  Status health() const override { return inner_->health(); }
  DeviceState ReadState() const override { return inner_->ReadState(); }
  MemoryStatistics memory_statistics() const override { return inner_->memory_statistics(); }
  Status Flush() override { return inner_->Flush(); }

  Result<Ref<Buffer>> AllocateBuffer(MemoryKind kind, int64_t size_bytes) override {
    HY_ASSIGN(Ref<Buffer> buffer, inner_->AllocateBuffer(kind, size_bytes));
    return Wrap(std::move(buffer));
  }
  Result<Ref<Buffer>> ImportHostMemory(HostMemory memory) override {
    HY_ASSIGN(Ref<Buffer> buffer, inner_->ImportHostMemory(std::move(memory)));
    return Wrap(std::move(buffer));
  }
  Result<Ref<Semaphore>> CreateSemaphore(uint64_t initial_value) override {
    return inner_->CreateSemaphore(initial_value);
  }
  Result<Ref<Executable>> LoadExecutable(const ExecutableSource& source) override;
  Result<Ref<CommandBuffer>> CreateCommandBuffer() override {
    HY_ASSIGN(Ref<CommandBuffer> commands, inner_->CreateCommandBuffer());
    return Ref<CommandBuffer>(
        MakeRef<ValidationCommandBuffer>(Ref<ValidationDevice>::Share(this), std::move(commands)));
  }

  Status Submit(uint32_t queue, const SubmitInfo& info) override;
  Result<Ref<CommandBuffer>> CreateInnerCommandBuffer() { return inner_->CreateCommandBuffer(); }
  Status QueueCopy(uint32_t queue, const Ordering& ordering, const BufferRange& source,
                   const BufferRange& target) override;
  Status QueueFill(uint32_t queue, const Ordering& ordering, const BufferRange& target,
                   uint64_t pattern, uint32_t pattern_bytes) override;
  Status QueueUpdate(uint32_t queue, const Ordering& ordering, std::span<const uint8_t> source,
                     const BufferRange& target) override;
  Status QueueHostCall(uint32_t queue, const Ordering& ordering, const HostCall& call) override;
  Status Wait(std::span<const SemaphorePoint> points, WaitMode mode, int64_t timeout_ns,
              size_t* out_index) override;
  Result<std::string> DescribeCompiler() override { return inner_->DescribeCompiler(); }
  Result<std::string> DescribeLibrary(GpuLibraryKind kind) override {
    return inner_->DescribeLibrary(kind);
  }
  Result<std::vector<GpuLibraryCall>> ProposeLibraryCalls(const GpuLibraryCall& wanted,
                                                          size_t most) override {
    return inner_->ProposeLibraryCalls(wanted, most);
  }
  Result<std::vector<uint8_t>> EmptyKernel() const override { return inner_->EmptyKernel(); }
  Result<LinkInfo> LinkTo(const Device& other) const override {
    const auto* wrapper = dynamic_cast<const ValidationDevice*>(&other);
    return inner_->LinkTo(wrapper ? *wrapper->inner_ : other);
  }

 private:
  // `info` names the inner device's objects; `steps` stand for its commands.
  Status SubmitOneByOne(uint32_t queue, const SubmitInfo& info,
                        std::span<const Ref<CommandBuffer>> steps);
  Result<Ref<Buffer>> Wrap(Ref<Buffer> buffer) {
    return Ref<Buffer>(
        MakeRef<ValidationBuffer>(Ref<ValidationDevice>::Share(this), std::move(buffer)));
  }
  Ref<Device> inner_;
};

ValidationBuffer::ValidationBuffer(Ref<ValidationDevice> device, Ref<Buffer> inner)
    : device_(std::move(device)), inner_(std::move(inner)) {}
ValidationBuffer::~ValidationBuffer() = default;
Device* ValidationBuffer::device() const { return device_.get(); }

ValidationExecutable::ValidationExecutable(Ref<ValidationDevice> device, Ref<Executable> inner)
    : device_(std::move(device)), inner_(std::move(inner)) {}
ValidationExecutable::~ValidationExecutable() = default;
Device* ValidationExecutable::device() const { return device_.get(); }

// Null stays null: the driver's own check names what is missing.
Result<Buffer*> UnwrapBuffer(Buffer* buffer) {
  if (!buffer) return static_cast<Buffer*>(nullptr);
  auto* wrapper = dynamic_cast<ValidationBuffer*>(buffer);
  if (!wrapper)
    return InvalidArgument("A buffer of {} bytes was not made by a validated device.",
                           buffer->size_bytes());
  return wrapper->inner();
}

Result<BufferRange> UnwrapRange(const BufferRange& range) {
  HY_ASSIGN(Buffer * buffer, UnwrapBuffer(range.buffer));
  return BufferRange{buffer, range.offset, range.size_bytes};
}

Status ValidateOrdering(const Ordering& ordering) {
  HY_TRY(CheckOrdering(ordering));
  std::set<const Semaphore*> signalled;
  for (const SemaphorePoint& signal : ordering.signals) {
    if (!signalled.insert(signal.semaphore).second) {
      return InvalidArgument("One call signals the same semaphore twice, the second time with {}.",
                             signal.value);
    }
    uint64_t present = signal.semaphore->value();
    if (signal.value <= present && signal.semaphore->status().ok()) {
      return InvalidArgument(
          "A signal of {} was queued for a semaphore at {}; its value only grows.", signal.value,
          present);
    }
    for (const SemaphorePoint& wait : ordering.waits) {
      if (wait.semaphore == signal.semaphore && wait.value >= signal.value &&
          wait.value > present) {
        return InvalidArgument("Work waits for {} of a semaphore that it signals with {} itself.",
                               wait.value, signal.value);
      }
    }
  }
  return OkStatus();
}

ValidationCommandBuffer::ValidationCommandBuffer(Ref<ValidationDevice> device,
                                                 Ref<CommandBuffer> inner)
    : device_(std::move(device)), inner_(std::move(inner)) {}
ValidationCommandBuffer::~ValidationCommandBuffer() = default;

Device* ValidationCommandBuffer::device() const { return device_.get(); }

Result<CommandRange> ValidationCommandBuffer::Unwrap(const CommandRange& range) const {
  CommandRange inner = range;
  if (range.buffer && range.buffer->device() != device_.get()) {
    return InvalidArgument("A command names a buffer of '{}'; it is recorded for '{}'.",
                           range.buffer->device()->path(), device_->path());
  }
  HY_ASSIGN(inner.buffer, UnwrapBuffer(range.buffer));
  return inner;
}

template <typename Record>
Status ValidationCommandBuffer::AddStep(const Record& record) {
  HY_ASSIGN(Ref<CommandBuffer> step, device_->CreateInnerCommandBuffer());
  HY_TRY(record(*step));
  HY_TRY(step->Finish());
  steps_.push_back(std::move(step));
  return OkStatus();
}

CommandRange ValidationCommandBuffer::Keep(const CommandRange& range) {
  if (range.buffer) kept_.push_back(Ref<Buffer>::Share(range.buffer));
  return range;
}

Status ValidationCommandBuffer::Dispatch(const DispatchCommand& command) {
  Recording recording(&is_recording_);
  HY_TRY(recording.status());
  DispatchCommand inner = command;
  if (command.executable) {
    auto* executable = dynamic_cast<ValidationExecutable*>(command.executable);
    if (!executable || executable->device() != device_.get()) {
      return InvalidArgument("Dispatch '{}' names an executable that '{}' did not load.",
                             command.label, device_->path());
    }
    inner.executable = executable->inner();
  }
  std::vector<CommandRange> bindings;
  for (const CommandRange& range : command.bindings) {
    HY_ASSIGN(CommandRange unwrapped, Unwrap(range));
    bindings.push_back(unwrapped);
  }
  inner.bindings = bindings;
  HY_TRY(inner_->Dispatch(inner));
  HY_TRY(AddStep([&](CommandBuffer& step) { return step.Dispatch(inner); }));
  Footprint footprint{fmt::format("dispatch '{}'", command.label), stage_, {}, {}};
  for (const CommandRange& range : command.bindings) footprint.touched.push_back(Keep(range));
  footprints_.push_back(std::move(footprint));
  return OkStatus();
}

Status ValidationCommandBuffer::Copy(const CommandRange& source, const CommandRange& target) {
  Recording recording(&is_recording_);
  HY_TRY(recording.status());
  HY_ASSIGN(CommandRange inner_source, Unwrap(source));
  HY_ASSIGN(CommandRange inner_target, Unwrap(target));
  HY_TRY(inner_->Copy(inner_source, inner_target));
  HY_TRY(AddStep([&](CommandBuffer& step) { return step.Copy(inner_source, inner_target); }));
  footprints_.push_back({"a copy", stage_, {Keep(target)}, {Keep(source)}});
  return OkStatus();
}

Status ValidationCommandBuffer::Fill(const CommandRange& target, uint64_t pattern,
                                     uint32_t pattern_bytes) {
  Recording recording(&is_recording_);
  HY_TRY(recording.status());
  HY_ASSIGN(CommandRange inner_target, Unwrap(target));
  HY_TRY(inner_->Fill(inner_target, pattern, pattern_bytes));
  HY_TRY(AddStep(
      [&](CommandBuffer& step) { return step.Fill(inner_target, pattern, pattern_bytes); }));
  footprints_.push_back({"a fill", stage_, {Keep(target)}, {}});
  return OkStatus();
}

Status ValidationCommandBuffer::Barrier() {
  Recording recording(&is_recording_);
  HY_TRY(recording.status());
  HY_TRY(inner_->Barrier());
  ++stage_;
  return OkStatus();
}

Status ValidationCommandBuffer::Finish() {
  Recording recording(&is_recording_);
  HY_TRY(recording.status());
  return inner_->Finish();
}

Status ValidationCommandBuffer::CheckHazards(std::span<const BufferRange> bindings) const {
  auto resolve = [&](const CommandRange& range) {
    if (range.buffer) return BufferRange{range.buffer, range.offset, range.size_bytes};
    const BufferRange& bound = bindings[range.slot];
    return BufferRange{bound.buffer, bound.offset + range.offset, range.size_bytes};
  };
  auto overlap = [&](const CommandRange& a_range, const CommandRange& b_range) {
    BufferRange a = resolve(a_range), b = resolve(b_range);
    return a.buffer == b.buffer && a.size_bytes > 0 && b.size_bytes > 0 &&
           a.offset < b.offset + b.size_bytes && b.offset < a.offset + a.size_bytes;
  };
  for (size_t i = 0; i < footprints_.size(); ++i) {
    const Footprint& a = footprints_[i];
    for (const CommandRange& written : a.written) {
      for (const CommandRange& own : a.touched) {
        if (!overlap(written, own)) continue;
        return InvalidArgument("{} overlaps itself with the buffers of this submission.", a.name);
      }
    }
    for (size_t j = i + 1; j < footprints_.size() && footprints_[j].stage == a.stage; ++j) {
      const Footprint& b = footprints_[j];
      auto collide = [&](const std::vector<CommandRange>& x, const std::vector<CommandRange>& y) {
        return std::any_of(x.begin(), x.end(), [&](const CommandRange& r) {
          return std::any_of(y.begin(), y.end(),
                             [&](const CommandRange& s) { return overlap(r, s); });
        });
      };
      if (collide(a.written, b.written) || collide(a.written, b.touched) ||
          collide(a.touched, b.written)) {
        return InvalidArgument(
            "Commands {} ({}) and {} ({}) touch the same bytes; a barrier must stand "
            "between them.",
            i, a.name, j, b.name);
      }
    }
  }
  return OkStatus();
}

Result<Ref<Executable>> ValidationDevice::LoadExecutable(const ExecutableSource& source) {
  std::set<std::string_view> names;
  for (const ExecutableEntry& entry : source.entries) {
    if (entry.name.empty())
      return InvalidArgument("Executable '{}' is asked for an entry without a name.", source.name);
    if (!names.insert(entry.name).second) {
      return InvalidArgument("Executable '{}' is asked for entry '{}' twice.", source.name,
                             entry.name);
    }
  }
  HY_ASSIGN(Ref<Executable> executable, inner_->LoadExecutable(source));
  return Ref<Executable>(
      MakeRef<ValidationExecutable>(Ref<ValidationDevice>::Share(this), std::move(executable)));
}

Status ValidationDevice::Submit(uint32_t queue, const SubmitInfo& info) {
  HY_TRY(ValidateOrdering(info.ordering));
  SubmitInfo inner = info;
  std::vector<BufferRange> bindings;
  for (size_t i = 0; i < info.bindings.size(); ++i) {
    Result<BufferRange> range = UnwrapRange(info.bindings[i]);
    HY_TRY_CONTEXT(range, "binding slot {}", i);
    bindings.push_back(*range);
  }
  inner.bindings = bindings;
  if (!info.commands) {
    if (!bindings.empty()) {
      return InvalidArgument("A submission without commands binds {} slots.", bindings.size());
    }
    return inner_->Submit(queue, inner);
  }
  auto* commands = dynamic_cast<ValidationCommandBuffer*>(info.commands);
  if (!commands || commands->device() != this) {
    return InvalidArgument("The command buffer was not made by '{}'.", path());
  }
  inner.commands = commands->inner();
  if (commands->is_finished() && info.bindings.size() >= commands->slot_count()) {
    HY_TRY(commands->CheckHazards(info.bindings));
    if (commands->steps().size() > 1) return SubmitOneByOne(queue, inner, commands->steps());
  }
  return inner_->Submit(queue, inner);
}

Status ValidationDevice::SubmitOneByOne(uint32_t queue, const SubmitInfo& info,
                                        std::span<const Ref<CommandBuffer>> steps) {
  // Step i waits for i + 1 and signals i + 2. The host signals 1 when all are queued; when one is
  // refused, the earlier ones fail before they start, and the caller's signals are untouched, as if
  // nothing had been queued.
  HY_ASSIGN(const Ref<Semaphore> chain, inner_->CreateSemaphore(0));
  std::vector<SemaphorePoint> first_waits(info.ordering.waits.begin(), info.ordering.waits.end());
  first_waits.push_back({chain.get(), 1});
  for (size_t i = 0; i < steps.size(); ++i) {
    const SemaphorePoint before{chain.get(), i + 1}, after{chain.get(), i + 2};
    SubmitInfo step = info;
    step.commands = steps[i].get();
    if (i == 0) {
      step.ordering.waits = first_waits;
    } else {
      step.ordering.waits = {&before, 1};
    }
    if (i + 1 < steps.size()) step.ordering.signals = {&after, 1};
    if (Status status = inner_->Submit(queue, step); !status.ok()) {
      chain->Fail(status);
      return status;
    }
  }
  return chain->Signal(1);
}

Status ValidationDevice::QueueCopy(uint32_t queue, const Ordering& ordering,
                                   const BufferRange& source, const BufferRange& target) {
  HY_TRY(ValidateOrdering(ordering));
  HY_ASSIGN(BufferRange inner_source, UnwrapRange(source));
  HY_ASSIGN(BufferRange inner_target, UnwrapRange(target));
  return inner_->QueueCopy(queue, ordering, inner_source, inner_target);
}

Status ValidationDevice::QueueFill(uint32_t queue, const Ordering& ordering,
                                   const BufferRange& target, uint64_t pattern,
                                   uint32_t pattern_bytes) {
  HY_TRY(ValidateOrdering(ordering));
  HY_ASSIGN(BufferRange inner_target, UnwrapRange(target));
  return inner_->QueueFill(queue, ordering, inner_target, pattern, pattern_bytes);
}

Status ValidationDevice::QueueUpdate(uint32_t queue, const Ordering& ordering,
                                     std::span<const uint8_t> source, const BufferRange& target) {
  HY_TRY(ValidateOrdering(ordering));
  HY_ASSIGN(BufferRange inner_target, UnwrapRange(target));
  return inner_->QueueUpdate(queue, ordering, source, inner_target);
}

Status ValidationDevice::QueueHostCall(uint32_t queue, const Ordering& ordering,
                                       const HostCall& call) {
  HY_TRY(ValidateOrdering(ordering));
  if (!call.function) return inner_->QueueHostCall(queue, ordering, call);
  auto* guarded = new HostCall(call);
  HostCall inner;
  inner.context = guarded;
  inner.function = [](void* context) {
    const auto* outer = static_cast<const HostCall*>(context);
    t_is_in_host_call = true;
    Status status = CatchAll([&] { return outer->function(outer->context); });
    t_is_in_host_call = false;
    return status;
  };
  inner.release = [](void* context) {
    std::unique_ptr<HostCall> outer(static_cast<HostCall*>(context));
    if (outer->release) outer->release(outer->context);
  };
  Status status = inner_->QueueHostCall(queue, ordering, inner);
  if (!status.ok()) delete guarded;
  return status;
}

Status ValidationDevice::Wait(std::span<const SemaphorePoint> points, WaitMode mode,
                              int64_t timeout_ns, size_t* out_index) {
  if (timeout_ns < 0)
    return InvalidArgument("A timeout is {} ns; it must be 0 or more.", timeout_ns);
  if (t_is_in_host_call && timeout_ns > 0) {
    return FailedPrecondition("A host call waits for queued work, which may be queued behind it.");
  }
  return inner_->Wait(points, mode, timeout_ns, out_index);
}

}  // namespace

Ref<Device> WrapInValidation(Ref<Device> device) {
  return MakeRef<ValidationDevice>(std::move(device));
}

}  // namespace halyard::hal
