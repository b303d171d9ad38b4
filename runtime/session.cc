// SPDX-License-Identifier: Apache-2.0
// Binding and submission of runs.
#include "runtime/session.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/check.h"
#include "base/quantity.h"
#include "runtime/memory_caps.h"

namespace halyard::runtime {
namespace {

constexpr size_t kMaxRecordings = 16;  // sets of symbol values that stay recorded

// A run ends every step semaphore at its serial number times this: the copies of one step have
// values of their own in between.
constexpr uint64_t kValuesPerRun = uint64_t{1} << 20;

class BusyGuard {
 public:
  explicit BusyGuard(std::atomic<bool>& flag) : flag_(flag) {
    owns_ = !flag_.exchange(true, std::memory_order_acquire);
  }
  ~BusyGuard() {
    if (owns_) flag_.store(false, std::memory_order_release);
  }
  bool owns() const { return owns_; }

 private:
  std::atomic<bool>& flag_;
  bool owns_;
};

StepSize StepSizeOf(const SessionOptions& options) {
  return options.time_commands ? StepSize::kOneCommand : StepSize::kMany;
}

bool IsDispatch(const Recording::Step& step) {
  return step.command != nullptr && step.command->kind == program::CommandKind::kDispatch;
}

Status BusyFailure() {
  return Busy("Another thread is using the session; a session serves one thread at a time.");
}

}  // namespace

Status RunEvent::Wait(int64_t timeout_ns) const {
  const hal::SemaphorePoint point{semaphore.get(), value};
  return device->Wait({&point, 1}, hal::WaitMode::kAll, timeout_ns);
}

Result<int64_t> RunEvent::DeviceNanoseconds() const {
  if (!times) {
    return FailedPrecondition(
        "The run was not measured; its session must be created with time_runs = 1.");
  }
  HY_TRY(Wait(0));
  int64_t sum = 0;
  for (const Ref<hal::CommandTime>& time : *times) {
    if (!time) continue;
    if (time->nanoseconds() < 0) {
      return Unimplemented("The device '{}' has no clock for its commands.", device->path());
    }
    sum += time->nanoseconds();
  }
  return sum;
}

std::shared_ptr<Session> Session::Create(std::shared_ptr<LoadedProgram> program,
                                         SessionOptions options) {
  return std::shared_ptr<Session>(new Session(std::move(program), std::move(options)));
}

Session::Session(std::shared_ptr<LoadedProgram> program, SessionOptions options)
    : program_(std::move(program)), active_(program_), options_(std::move(options)) {
  symbols_.resize(program_->program().symbols.size());
}

Session::~Session() {
  WaitIdle();
  run_times_.Store();
}

void Session::WaitIdle() {
  if (!in_flight_) return;
  // The outcome belongs to the event of that run.
  if (const Status status = last_.Wait(hal::kInfiniteTimeout); !status.ok()) {
    ReplaceIfLost(status);
    Forget();
  }
  in_flight_ = false;
  last_ = {};
}

void Session::Abandon() {
  const Recording& recording = *current_;
  const auto wait = [&](uint32_t device, hal::Semaphore* semaphore, uint64_t value) {
    const hal::SemaphorePoint point{semaphore, value};
    // The failure that is being reported came first; this only waits for what was queued before it.
    // On the device that does it: its step may have been left to who waits.
    recording.program->device(device)
        ->Wait({&point, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout)
        .Ignore();
  };
  for (uint32_t i = 0; i < queued_steps_; ++i) {
    wait(recording.steps[i].device, step_semaphores_[i].get(), serial_ * kValuesPerRun);
  }
  if (transfer_semaphore_) {
    wait(recording.waiting_device(), transfer_semaphore_.get(), transfer_value_);
  }
  Forget();
}

void Session::Forget() {
  step_semaphores_.clear();
  step_semaphore_devices_.clear();
  transfer_semaphore_.reset();
  transfer_value_ = 0;
}

// Recordings --------------------------------------------------------------------------------------

void Session::ReplaceIfLost(const Status& status) {
  has_lost_device_ = has_lost_device_ || status.code() == StatusCode::kDeviceLost;
}

// After a lost device: the program that its own program became, if there is one.
Status Session::Replace() {
  if (!has_lost_device_) return OkStatus();
  HY_ASSIGN(auto replacement, active_->Replacement());
  if (!replacement) return OkStatus();
  active_ = std::move(replacement);
  has_lost_device_ = false;
  recordings_.clear();
  current_.reset();
  launches_.clear();
  for (Port& port : output_ports_) RetireOutput(port);
  for (auto* ports : {&input_ports_, &output_ports_, &arena_ports_, &staging_ports_}) {
    ports->clear();
  }
  bindings_.clear();
  device_bindings_.clear();
  symbols_.assign(active_->program().symbols.size(), 0);
  Forget();
  return OkStatus();
}

Result<std::shared_ptr<LoadedProgram>> Session::FindVariant() {
  if (symbols_.empty() || options_.on_new_shapes == NewShapes::kGeneric) {
    return std::shared_ptr<LoadedProgram>();
  }
  Variants::Sizes sizes;
  const std::vector<program::Symbol>& symbols = active_->program().symbols;
  for (size_t i = 0; i < symbols.size(); ++i) sizes[symbols[i].name] = symbols_[i];
  VariantMode mode = VariantMode::kFind;
  if (options_.on_new_shapes == NewShapes::kCompile) mode = VariantMode::kCompile;
  if (options_.on_new_shapes == NewShapes::kCompileLater) mode = VariantMode::kCompileLater;
  return active_->variants().Get(sizes, mode);
}

// Forgets recordings of the program for any sizes when a compile has ended since they were made:
// one of them may have a variant now.
void Session::DropMeanwhile() {
  const uint64_t count = active_->variants().background_count();
  if (count == seen_background_count_) return;
  seen_background_count_ = count;
  std::erase_if(recordings_, [&](const auto& recording) { return recording->program == active_; });
}

Result<std::shared_ptr<const Recording>> Session::FindRecording(
    std::span<const CallTensor> inputs) {
  const program::Program& program = active_->program();
  if (program.entries.empty()) return InvalidArgument("The program has no entry.");
  shapes_.clear();
  for (const CallTensor& input : inputs) shapes_.push_back({input.dtype, input.dims});
  HY_TRY(BindSymbols(program, program.entries.front(), shapes_, symbols_));
  if (options_.on_new_shapes == NewShapes::kCompileLater) DropMeanwhile();
  for (size_t i = 0; i < recordings_.size(); ++i) {
    if (recordings_[i]->symbols != symbols_) continue;
    std::rotate(recordings_.begin(), recordings_.begin() + static_cast<ptrdiff_t>(i),
                recordings_.begin() + static_cast<ptrdiff_t>(i) + 1);
    return recordings_.front();
  }
  std::shared_ptr<const Recording> made;
  HY_ASSIGN(const auto variant, FindVariant());
  if (variant != nullptr) {
    // The variant has no symbols left but those that it does not use.
    std::vector<int64_t> values(variant->program().symbols.size());
    HY_TRY(BindSymbols(variant->program(), variant->program().entries.front(), shapes_, values));
    HY_ASSIGN(const program::Entry* entry, SelectEntry(variant->program(), values));
    HY_ASSIGN(const auto recording, Record(variant, *entry, values, StepSizeOf(options_)));
    auto renamed = std::make_shared<Recording>(*recording);
    renamed->symbols = symbols_;  // found again by the generic program's values
    made = std::move(renamed);
  } else {
    HY_ASSIGN(const program::Entry* entry, SelectEntry(program, symbols_));
    HY_ASSIGN(made, Record(active_, *entry, symbols_, StepSizeOf(options_)));
  }
  const LoadedProgram& runs = *made->program;
  const std::vector<int64_t> sizes = SymbolsOf(runs);
  std::map<std::string, int64_t> values;
  for (size_t i = 0; i < sizes.size(); ++i) values[runs.program().symbols[i].name] = sizes[i];
  HY_TRY(CheckMemoryCaps(runs, values));
  if (recordings_.size() == kMaxRecordings) recordings_.pop_back();
  recordings_.insert(recordings_.begin(), made);
  return made;
}

// Memory ------------------------------------------------------------------------------------------

Status Session::EnsurePort(Port& port, const Recording::Storage& storage,
                           const Recording& recording, bool is_arena) {
  if (port.buffer && port.capacity >= storage.size_bytes) return OkStatus();
  hal::Device& device = *recording.program->device(storage.device);
  const bool shares = SharesHostMemory(device);
  const int64_t size = std::max<int64_t>(storage.size_bytes, 1);
  port = {};
  const bool is_device_memory = is_arena || !shares;
  HY_ASSIGN(port.buffer,
            device.AllocateBuffer(
                is_device_memory ? hal::MemoryKind::kDevice : hal::MemoryKind::kHostVisible, size));
  if (!is_arena) {
    if (!shares) {
      HY_ASSIGN(port.staging, device.AllocateBuffer(hal::MemoryKind::kStaging, size));
    }
    HY_ASSIGN(port.mapped, (shares ? port.buffer : port.staging)->Map(0, size));
  }
  port.capacity = storage.size_bytes;
  return OkStatus();
}

void Session::RetireOutput(Port& port) {
  if (port.mapped == nullptr) return;
  retired_outputs_.push_back(
      {port.staging ? port.staging : port.buffer, port.mapped, port.capacity});
}

Status Session::EnsureOutput(Port& port, const Recording::Storage& storage,
                             const Recording& recording) {
  if (port.mapped == nullptr || port.capacity >= storage.size_bytes) {
    return EnsurePort(port, storage, recording, false);
  }
  Recording::Storage wide = storage;
  wide.size_bytes = std::max(storage.size_bytes, 2 * port.capacity);
  RetireOutput(port);
  const Status status = EnsurePort(port, wide, recording, false);
  if (status.code() != StatusCode::kOutOfMemory) return status;
  return EnsurePort(port, storage, recording, false);
}

bool Session::IsOwnOutput(const void* data) const {
  const auto has = [&](const auto& memory) {
    return memory.mapped != nullptr && data >= memory.mapped &&
           data < memory.mapped + std::max<int64_t>(memory.capacity, 1);
  };
  return data != nullptr && (std::any_of(output_ports_.begin(), output_ports_.end(), has) ||
                             std::any_of(retired_outputs_.begin(), retired_outputs_.end(), has));
}

// The caller's memory as a buffer, kept while the caller brings the same again. Null when the
// device cannot use it in place.
Result<Ref<hal::Buffer>> Session::Import(hal::Device& device, Port& port, void* data,
                                         int64_t size_bytes, bool is_read_only) {
  if (!SharesHostMemory(device) || size_bytes == 0 ||
      reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(device.buffer_alignment()) != 0) {
    return Ref<hal::Buffer>();
  }
  if (port.imported && port.imported_data == data && port.imported_bytes == size_bytes) {
    return port.imported;
  }
  port.imported.reset();
  hal::HostMemory memory;
  memory.address = data;
  memory.size_bytes = size_bytes;
  memory.is_read_only = is_read_only;
  auto imported = device.ImportHostMemory(std::move(memory));
  if (!imported.ok()) {
    if (imported.status().code() == StatusCode::kIncompatible) return Ref<hal::Buffer>();
    return imported.status();
  }
  port.imported = std::move(imported).value();
  port.imported_data = data;
  port.imported_bytes = size_bytes;
  return port.imported;
}

Status Session::BindInput(size_t index, const CallTensor& tensor) {
  const Recording& recording = *current_;
  const Recording::Storage& storage = recording.inputs[index];
  const std::string& name = recording.entry->inputs[index].name;
  hal::Device& device = *recording.program->device(storage.device);
  if (tensor.size_bytes < storage.size_bytes) {
    return InvalidArgument("Input '{}' has {}; its shape needs {}.", name,
                           Counted(tensor.size_bytes, "byte"), storage.size_bytes);
  }
  hal::BufferRange& binding = bindings_[index];
  if (tensor.buffer != nullptr) {
    HY_TRY(hal::CheckRange(fmt::format("Input '{}'", name), tensor.buffer_offset,
                           storage.size_bytes, tensor.buffer->size_bytes()));
    if (tensor.buffer_offset % device.buffer_alignment() != 0) {
      return InvalidArgument(
          "Input '{}' starts at byte {} of its buffer; a multiple of {} is needed.", name,
          tensor.buffer_offset, device.buffer_alignment());
    }
    if (tensor.buffer->device() != &device) {
      return InvalidArgument("Input '{}' is in a buffer of '{}'; the program runs it on '{}'.",
                             name, tensor.buffer->device()->path(), device.path());
    }
    binding = {tensor.buffer, tensor.buffer_offset, storage.size_bytes};
    return OkStatus();
  }
  if (tensor.data == nullptr && storage.size_bytes > 0) {
    return InvalidArgument("Input '{}' has neither data nor a buffer.", name);
  }
  Port& port = input_ports_[index];
  // An output of the run before is copied: this run writes there.
  if (!IsOwnOutput(tensor.data)) {
    HY_ASSIGN(const auto imported, Import(device, port, tensor.data, storage.size_bytes, true));
    if (imported) {
      binding = {imported.get(), 0, storage.size_bytes};
      return OkStatus();
    }
  }
  HY_TRY(EnsurePort(port, storage, recording, false));
  binding = {port.buffer.get(), 0, storage.size_bytes};
  if (storage.size_bytes == 0) return OkStatus();
  std::memcpy(port.mapped, tensor.data, static_cast<size_t>(storage.size_bytes));
  if (!port.staging) return port.buffer->FlushMapped(0, storage.size_bytes);
  HY_TRY(port.staging->FlushMapped(0, storage.size_bytes));
  if (!transfer_semaphore_) {
    HY_ASSIGN(transfer_semaphore_, device.CreateSemaphore(0));
    transfer_value_ = 0;
  }
  // One after the other, so that the first steps wait for one point.
  const hal::SemaphorePoint wait{transfer_semaphore_.get(), transfer_value_};
  const hal::SemaphorePoint signal{transfer_semaphore_.get(), transfer_value_ + 1};
  hal::Ordering ordering;
  ordering.waits = {&wait, 1};
  ordering.signals = {&signal, 1};
  HY_TRY(device.QueueCopy(0, ordering, {port.staging.get(), 0, storage.size_bytes}, binding));
  ++transfer_value_;
  return OkStatus();
}

Status Session::BindOutput(size_t index, const CallTensor& tensor, CallResult& result) {
  const Recording& recording = *current_;
  const Recording::Storage& storage = recording.outputs[index];
  const std::string& name = recording.entry->outputs[index].name;
  hal::Device& device = *recording.program->device(storage.device);
  result.dtype = recording.entry->outputs[index].dtype;
  result.dims = recording.output_dims[index];
  result.size_bytes = storage.size_bytes;
  result.data = nullptr;
  // What an earlier run gave is not the caller's.
  void* const data = IsOwnOutput(tensor.data) ? nullptr : tensor.data;
  const bool is_given = tensor.buffer != nullptr || data != nullptr;
  result.is_callers = is_given;
  if (is_given && tensor.size_bytes < storage.size_bytes) {
    return InvalidArgument("The memory of output '{}' has {}; it needs {}.", name,
                           Counted(tensor.size_bytes, "byte"), storage.size_bytes);
  }
  hal::BufferRange& binding = bindings_[recording.inputs.size() + index];
  if (tensor.buffer != nullptr) {
    HY_TRY(hal::CheckRange(fmt::format("Output '{}'", name), tensor.buffer_offset,
                           storage.size_bytes, tensor.buffer->size_bytes()));
    if (tensor.buffer_offset % device.buffer_alignment() != 0 ||
        tensor.buffer->device() != &device) {
      return InvalidArgument(
          "The buffer of output '{}' is not of '{}' or starts at byte {}, which is no "
          "multiple of {}.",
          name, device.path(), tensor.buffer_offset, device.buffer_alignment());
    }
    binding = {tensor.buffer, tensor.buffer_offset, storage.size_bytes};
    return OkStatus();
  }
  Port& port = output_ports_[index];
  if (data != nullptr) {
    HY_ASSIGN(const auto imported, Import(device, port, data, storage.size_bytes, false));
    if (imported) {
      binding = {imported.get(), 0, storage.size_bytes};
      result.data = data;
      return OkStatus();
    }
  }
  HY_TRY(EnsureOutput(port, storage, recording));
  binding = {port.buffer.get(), 0, storage.size_bytes};
  result.data = port.mapped;
  if (data != nullptr) {
    result.data = data;
    copy_outs_.push_back({port.mapped, static_cast<uint8_t*>(data), storage.size_bytes});
  }
  return OkStatus();
}

Status Session::BindArenas() {
  const Recording& recording = *current_;
  int64_t total = 0;
  for (const Recording::Storage& arena : recording.arenas) {
    if (__builtin_add_overflow(total, arena.size_bytes, &total)) {
      return OutOfMemory("The activations of the program do not fit 64 bits.");
    }
  }
  if (total > options_.memory_limit_bytes) {
    return OutOfMemory("The activations need {} bytes; the session's limit is {}, {} too few.",
                       total, options_.memory_limit_bytes, total - options_.memory_limit_bytes);
  }
  arena_ports_.resize(std::max(arena_ports_.size(), recording.arenas.size()));
  const size_t first = recording.inputs.size() + recording.outputs.size();
  for (size_t i = 0; i < recording.arenas.size(); ++i) {
    Port& port = arena_ports_[i];
    const Recording::Storage& arena = recording.arenas[i];
    if (port.buffer && port.buffer->device() != recording.program->device(arena.device).get())
      port = {};
    HY_TRY_CONTEXT(EnsurePort(port, arena, recording, true), "allocating {} bytes of activations",
                   arena.size_bytes);
    bindings_[first + i] = {port.buffer.get(), 0, arena.size_bytes};
  }
  return OkStatus();
}

Status Session::BindStaging() {
  const Recording& recording = *current_;
  staging_ports_.resize(std::max(staging_ports_.size(), recording.staging.size()));
  const size_t first = recording.inputs.size() + recording.outputs.size() + recording.arenas.size();
  for (size_t i = 0; i < recording.staging.size(); ++i) {
    Port& port = staging_ports_[i];
    const Recording::Storage& staging = recording.staging[i];
    hal::Device& device = *recording.program->device(staging.device);
    if (!port.buffer || port.buffer->device() != &device || port.capacity < staging.size_bytes) {
      port = {};
      auto buffer = device.AllocateBuffer(hal::MemoryKind::kStaging, staging.size_bytes);
      HY_TRY_CONTEXT(buffer, "allocating {} bytes for transfers", staging.size_bytes);
      port.buffer = std::move(buffer).value();
      port.capacity = staging.size_bytes;
    }
    bindings_[first + i] = {port.buffer.get(), 0, staging.size_bytes};
  }
  return OkStatus();
}

void Session::SplitBindings() {
  const Recording& recording = *current_;
  device_bindings_.resize(recording.program->devices().size());
  for (auto& bindings : device_bindings_) bindings.assign(bindings_.size(), {});
  size_t slot = 0;
  for (const auto* list : {&recording.inputs, &recording.outputs, &recording.arenas}) {
    for (const Recording::Storage& storage : *list) {
      device_bindings_[storage.device][slot] = bindings_[slot];
      ++slot;
    }
  }
}

// Submission --------------------------------------------------------------------------------------

Result<hal::Semaphore*> Session::StepSemaphore(uint32_t index, const Recording& recording) {
  const uint32_t device =
      index < recording.steps.size() ? recording.steps[index].device : recording.waiting_device();
  if (step_semaphores_.size() <= index) {
    step_semaphores_.resize(index + 1);
    step_semaphore_devices_.resize(index + 1, UINT32_MAX);
  }
  if (!step_semaphores_[index] || step_semaphore_devices_[index] != device) {
    HY_ASSIGN(step_semaphores_[index], recording.program->device(device)->CreateSemaphore(0));
    step_semaphore_devices_[index] = device;
  }
  return step_semaphores_[index].get();
}

Status Session::SubmitCopies(const Recording::Step& step, hal::Ordering ordering) {
  const Recording& recording = *current_;
  hal::Device& device = *recording.program->device(step.device);
  const hal::SemaphorePoint last = ordering.signals[0];
  hal::SemaphorePoint before;
  for (size_t i = 0; i < step.copies.size(); ++i) {
    const hal::SemaphorePoint done{last.semaphore, last.value - (step.copies.size() - 1 - i)};
    if (i > 0) ordering.waits = {&before, 1};
    ordering.signals = {&done, 1};
    HY_TRY(device.QueueCopy(step.queue, ordering, Resolve(step.copies[i].source),
                            Resolve(step.copies[i].target)));
    before = done;
  }
  return OkStatus();
}

Status Session::SubmitStep(uint32_t index, bool caller_waits) {
  const Recording& recording = *current_;
  const Recording::Step& step = recording.steps[index];
  hal::Device& device = *recording.program->device(step.device);
  wait_points_.clear();
  for (const uint32_t before : step.waits) {
    wait_points_.push_back({step_semaphores_[before].get(), serial_ * kValuesPerRun});
  }
  if (is_behind_) wait_points_.push_back({last_.semaphore.get(), last_.value});
  if (step.waits.empty() && transfer_value_ > 0) {
    wait_points_.push_back({transfer_semaphore_.get(), transfer_value_});
  }
  HY_ASSIGN(hal::Semaphore * semaphore, StepSemaphore(index, recording));
  const hal::SemaphorePoint signal{semaphore, serial_ * kValuesPerRun};
  hal::Ordering ordering;
  ordering.waits = wait_points_;
  ordering.signals = {&signal, 1};
  // Nobody waits for the other devices of the program, but for what the caller does first.
  ordering.caller_waits = caller_waits && (step.device == recording.waiting_device() ||
                                           index < recording.first_host_steps);
  if (step.interpret != nullptr || step.host_copies) {
    HostStep& call = host_steps_[index];
    call = {this, &recording, index};
    hal::HostCall host_call;
    host_call.context = &call;
    host_call.function = [](void* context) -> Status {
      const auto* self = static_cast<HostStep*>(context);
      return CatchAll([&] { return self->session->RunHostStep(*self); });
    };
    return device.QueueHostCall(step.queue, ordering, host_call);
  }
  if (!step.copies.empty()) return SubmitCopies(step, ordering);
  hal::SubmitInfo info;
  info.ordering = ordering;
  info.commands = step.commands.get();
  if (info.commands != nullptr) info.bindings = device_bindings_[step.device];
  if (profile_ && info.commands != nullptr && IsDispatch(step)) HY_TRY(LaunchOf(step).Lead());
  if (times_ != nullptr && info.commands != nullptr) {
    (*times_)[index] = MakeRef<hal::CommandTime>();
    info.time = (*times_)[index].get();
  }
  return device.Submit(step.queue, info);
}

Status Session::SubmitSteps(bool caller_waits) {
  const Recording& recording = *current_;
  host_steps_.resize(recording.steps.size());
  std::shared_ptr<std::vector<Ref<hal::CommandTime>>> times;
  if (options_.time_runs || profile_) {
    times = std::make_shared<std::vector<Ref<hal::CommandTime>>>(recording.steps.size());
  }
  times_ = times.get();
  for (uint32_t i = 0; i < recording.steps.size(); ++i) {
    const int64_t start_ns = profile_ ? profile_->NowNs() : 0;
    HY_TRY(SubmitStep(i, caller_waits));
    queued_steps_ = i + 1;
    if (profile_) HY_TRY(TimeStep(i, start_ns));
  }
  // The end of the run: the one step, or a join of the last ones, then the downloads.
  hal::Device& device = *recording.program->device(recording.waiting_device());
  wait_points_.clear();
  for (const uint32_t last : recording.last_steps) {
    wait_points_.push_back({step_semaphores_[last].get(), serial_ * kValuesPerRun});
  }
  hal::SemaphorePoint end;
  if (wait_points_.size() == 1) {
    end = wait_points_[0];
  } else {
    const auto join = static_cast<uint32_t>(recording.steps.size());
    HY_ASSIGN(hal::Semaphore * semaphore, StepSemaphore(join, recording));
    end = {semaphore, serial_ * kValuesPerRun};
    hal::SubmitInfo info;
    info.ordering.waits = wait_points_;
    info.ordering.signals = {&end, 1};
    info.ordering.caller_waits = caller_waits;
    HY_TRY(device.Submit(0, info));
  }
  for (size_t i = 0; i < recording.outputs.size(); ++i) {
    const Port& port = output_ports_[i];
    const hal::BufferRange& binding = bindings_[recording.inputs.size() + i];
    if (!port.staging || binding.buffer != port.buffer.get() || binding.size_bytes == 0) continue;
    hal::Device& owner = *recording.program->device(recording.outputs[i].device);
    if (!transfer_semaphore_) {
      HY_ASSIGN(transfer_semaphore_, owner.CreateSemaphore(0));
      transfer_value_ = 0;
    }
    const hal::SemaphorePoint wait = end;
    end = {transfer_semaphore_.get(), transfer_value_ + 1};
    hal::Ordering ordering;
    ordering.waits = {&wait, 1};
    ordering.signals = {&end, 1};
    ordering.caller_waits = caller_waits && &owner == &device;
    const int64_t start_ns = profile_ ? profile_->NowNs() : 0;
    HY_TRY(owner.QueueCopy(0, ordering, binding, {port.staging.get(), 0, binding.size_bytes}));
    ++transfer_value_;
    if (!profile_) continue;
    const int64_t submitted_ns = profile_->NowNs();
    HY_TRY(WaitFor(owner, end));
    profile_->AddTensor(TimedKind::kOutput, recording.entry->outputs[i].name, owner,
                        binding.size_bytes, start_ns, submitted_ns);
  }
  if (!caller_waits && !copy_outs_.empty()) {
    const auto copy = static_cast<uint32_t>(recording.steps.size()) + 1;
    HY_ASSIGN(hal::Semaphore * semaphore, StepSemaphore(copy, recording));
    const hal::SemaphorePoint wait = end;
    end = {semaphore, serial_ * kValuesPerRun};
    hal::Ordering ordering;
    ordering.waits = {&wait, 1};
    ordering.signals = {&end, 1};
    hal::HostCall call;
    call.context = this;
    call.function = [](void* context) -> Status {
      static_cast<Session*>(context)->CopyOutputs();
      return OkStatus();
    };
    HY_TRY(device.QueueHostCall(0, ordering, call));
  }
  last_.times = std::move(times);
  last_.profile = profile_;
  last_.device = recording.program->device(recording.waiting_device());
  last_.semaphore = Ref<hal::Semaphore>::Share(end.semaphore);
  last_.value = end.value;
  in_flight_ = true;
  return OkStatus();
}

void Session::CopyOutputs() {
  for (const CopyOut& copy : copy_outs_) {
    if (copy.size_bytes > 0) std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.size_bytes));
  }
}

Status Session::Bind(std::span<const CallTensor> inputs, std::span<const CallTensor> outputs,
                     std::span<CallResult> results) {
  bindings_.resize(current_->slot_count());
  copy_outs_.clear();
  input_ports_.resize(inputs.size());
  output_ports_.resize(outputs.size());
  HY_TRY(BindArenas());
  HY_TRY(BindStaging());
  for (size_t i = 0; i < outputs.size(); ++i) HY_TRY(BindOutput(i, outputs[i], results[i]));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t start_ns = profile_ ? profile_->NowNs() : 0;
    HY_TRY(BindInput(i, inputs[i]));
    if (profile_) HY_TRY(TimeInput(i, start_ns));
  }
  SplitBindings();
  return OkStatus();
}

bool Session::RunsOnDeviceAlone(const Recording& recording, std::span<const CallTensor> inputs,
                                std::span<const CallTensor> outputs) {
  const auto is_in_buffer = [](const CallTensor& tensor) { return tensor.buffer != nullptr; };
  return recording.steps.size() == 1 && recording.steps[0].commands &&
         std::all_of(inputs.begin(), inputs.end(), is_in_buffer) &&
         std::all_of(outputs.begin(), outputs.end(), is_in_buffer);
}

Status Session::Start(std::span<const CallTensor> inputs, std::span<const CallTensor> outputs,
                      std::span<CallResult> results, bool caller_waits) {
  if (in_flight_ && (!is_alone_ || !last_.semaphore->status().ok())) WaitIdle();
  if (has_lost_device_) {
    WaitIdle();
    HY_TRY(Replace());
  }
  HY_ASSIGN(auto found, FindRecording(inputs));
  const bool is_alone = RunsOnDeviceAlone(*found, inputs, outputs);
  // A failed semaphore is not used again.
  if (in_flight_ && !(is_alone && found == current_ && last_.semaphore->status().ok())) WaitIdle();
  is_behind_ = in_flight_;
  is_alone_ = is_alone;
  current_ = std::move(found);
  const Recording& recording = *current_;
  if (outputs.size() != recording.outputs.size() || results.size() != outputs.size()) {
    return InvalidArgument("The call gives {}; the program has {}.",
                           Counted(outputs.size(), "output"), recording.outputs.size());
  }
  ++serial_;
  queued_steps_ = 0;
  profile_.reset();
  if (options_.time_commands) {
    // Known before the run starts, which it would lengthen.
    std::set<uint32_t> devices;
    for (const Recording::Step& step : recording.steps) {
      if (devices.insert(step.device).second) LaunchOf(step).Of(1);
    }
    profile_ = std::make_shared<RunProfile>(recording, SymbolsOf(*recording.program));
  }
  Status status;
  try {
    status = Bind(inputs, outputs, results);
    if (status.ok()) status = SubmitSteps(caller_waits);
  } catch (...) {
    Abandon();  // what is queued names this session
    throw;
  }
  if (!status.ok()) {
    ReplaceIfLost(status);
    Abandon();
  }
  return status;
}

Status Session::Run(std::span<const CallTensor> inputs, std::span<const CallTensor> outputs,
                    std::span<CallResult> results) {
  const BusyGuard guard(is_busy_);
  if (!guard.owns()) return BusyFailure();
  return poison_.Run("session", AfterBadAlloc::kUsable, [&]() -> Status {
    HY_TRY(Start(inputs, outputs, results, true));
    if (const uint32_t count = current_->first_host_steps; count > 0) {
      // How that ended is known from the end of the run.
      WaitFor(*current_->program->device(current_->steps[0].device),
              {step_semaphores_[count - 1].get(), serial_ * kValuesPerRun})
          .Ignore();
    }
    const hal::SemaphorePoint end{last_.semaphore.get(), last_.value};
    Status status = last_.device->Wait({&end, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout);
    in_flight_ = false;
    if (!status.ok()) {
      ReplaceIfLost(status);
      Forget();
      return status.WithContext(fmt::format("running '{}'", program_->program().model_name));
    }
    CopyOutputs();
    return OkStatus();
  });
}

Result<RunEvent> Session::Submit(std::span<const CallTensor> inputs,
                                 std::span<const CallTensor> outputs,
                                 std::span<CallResult> results) {
  const BusyGuard guard(is_busy_);
  if (!guard.owns()) return BusyFailure();
  return poison_.Run("session", AfterBadAlloc::kUsable, [&]() -> Result<RunEvent> {
    HY_TRY(Start(inputs, outputs, results, options_.time_commands));
    HY_TRY(options_.time_commands ? FinishTimedRun() : last_.device->Flush());
    RunEvent event = last_;
    event.keep_alive = shared_from_this();
    return event;
  });
}

// Timing of commands ------------------------------------------------------------------------------

std::vector<int64_t> Session::SymbolsOf(const LoadedProgram& program) const {
  if (&program == active_.get()) return symbols_;
  // A variant: its symbols are some of those of the program for any sizes, by name.
  std::vector<int64_t> values;
  const std::vector<program::Symbol>& all = active_->program().symbols;
  for (const program::Symbol& symbol : program.program().symbols) {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const auto& other) { return other.name == symbol.name; });
    values.push_back(found == all.end() ? 0 : symbols_[static_cast<size_t>(found - all.begin())]);
  }
  return values;
}

Status Session::WaitFor(hal::Device& device, hal::SemaphorePoint point) {
  return device.Wait({&point, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout);
}

Status Session::TimeInput(size_t index, int64_t start_ns) {
  const Port& port = input_ports_[index];
  const hal::BufferRange& binding = bindings_[index];
  const bool is_copied = port.buffer && binding.buffer == port.buffer.get();
  if (!is_copied || binding.size_bytes == 0) return OkStatus();
  hal::Device& device = *current_->program->device(current_->inputs[index].device);
  const int64_t submitted_ns = profile_->NowNs();
  if (port.staging) HY_TRY(WaitFor(device, {transfer_semaphore_.get(), transfer_value_}));
  profile_->AddTensor(TimedKind::kInput, current_->entry->inputs[index].name, device,
                      binding.size_bytes, start_ns, submitted_ns);
  return OkStatus();
}

LaunchTime& Session::LaunchOf(const Recording::Step& step) {
  const Ref<hal::Device>& device = current_->program->device(step.device);
  return launches_.try_emplace(device.get(), device).first->second;
}

Status Session::TimeStep(uint32_t index, int64_t start_ns) {
  const int64_t submitted_ns = profile_->NowNs();
  hal::Device& device = *current_->program->device(current_->steps[index].device);
  HY_TRY(WaitFor(device, {step_semaphores_[index].get(), serial_ * kValuesPerRun}));
  const Recording::Step& step = current_->steps[index];
  const hal::CommandTime* time = (*times_)[index].get();
  int64_t device_ns = time != nullptr ? time->nanoseconds() : -1;
  if (device_ns > 0 && IsDispatch(step)) {
    device_ns =
        std::llround(LaunchOf(step).WithoutLed(static_cast<double>(device_ns) * 1e-9) * 1e9);
  }
  profile_->AddStep(*current_, index, start_ns, submitted_ns, device_ns);
  return OkStatus();
}

Status Session::FinishTimedRun() {
  const Status status = last_.Wait(hal::kInfiniteTimeout);
  in_flight_ = false;
  if (!status.ok()) {
    ReplaceIfLost(status);
    Forget();
    return status;
  }
  const int64_t start_ns = profile_->NowNs();
  CopyOutputs();
  int64_t bytes = 0;
  for (const CopyOut& copy : copy_outs_) bytes += copy.size_bytes;
  if (bytes > 0) {
    profile_->AddTensor(TimedKind::kOutput, "outputs", *last_.device, bytes, start_ns,
                        profile_->NowNs());
  }
  run_times_.Add(current_->program, *profile_);
  return OkStatus();
}

// Steps on the host -------------------------------------------------------------------------------

hal::BufferRange Session::Resolve(const hal::CommandRange& range) const {
  if (range.buffer != nullptr) return {range.buffer, range.offset, range.size_bytes};
  const hal::BufferRange& bound = bindings_[range.slot];
  return {bound.buffer, bound.offset + range.offset, range.size_bytes};
}

Result<uint8_t*> Session::HostAddress(const hal::CommandRange& range) {
  const hal::BufferRange at = Resolve(range);
  return at.buffer->Map(at.offset, at.size_bytes);
}

Status Session::RunHostStep(const HostStep& call) {
  const Recording::Step& step = call.recording->steps[call.step];
  return step.host_copies ? RunHostCopies(step) : RunInterpreted(*call.recording, step);
}

Status Session::RunHostCopies(const Recording::Step& step) {
  for (const Recording::Copy& copy : step.copies) {
    const hal::BufferRange from = Resolve(copy.source), to = Resolve(copy.target);
    HY_TRY(from.buffer->InvalidateMapped(from.offset, from.size_bytes));
    HY_ASSIGN(const uint8_t* source, from.buffer->Map(from.offset, from.size_bytes));
    HY_ASSIGN(uint8_t * target, to.buffer->Map(to.offset, to.size_bytes));
    std::memcpy(target, source, static_cast<size_t>(from.size_bytes));
    HY_TRY(to.buffer->FlushMapped(to.offset, to.size_bytes));
  }
  return OkStatus();
}

Status Session::RunInterpreted(const Recording& recording, const Recording::Step& step) {
  const program::Command& command = *step.interpret;
  if (!options_.interpreter) {
    return Unavailable(
        "'{}' runs in the interpreter, which the compiler library holds; it is not there.",
        command.label);
  }
  InterpretRequest request;
  request.text = command.interpret_text;
  for (size_t i = 0; i < step.interpret_ranges.size(); ++i) {
    const hal::CommandRange& range = step.interpret_ranges[i];
    const auto size = static_cast<size_t>(range.size_bytes);
    uint8_t* address = nullptr;
    if (size > 0) {
      HY_ASSIGN(address, HostAddress(range));
    }
    if (i < command.interpret_operand_count) {
      request.operands.emplace_back(address, size);
      request.operand_dims.push_back(step.interpret_dims[i]);
    } else {
      request.results.emplace_back(address, size);
    }
  }
  const std::vector<program::Symbol>& symbols = recording.program->program().symbols;
  for (size_t i = 0; i < symbols.size(); ++i) {
    request.symbols.emplace_back(symbols[i].name, recording.symbols[i]);
  }
  return options_.interpreter(request).WithContext(fmt::format("interpreting '{}'", command.label));
}

}  // namespace halyard::runtime
