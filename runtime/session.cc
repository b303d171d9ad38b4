// SPDX-License-Identifier: Apache-2.0
// Binding and submission of runs.
#include "runtime/session.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace halyard::runtime {
namespace {

constexpr size_t kMaxRecordings = 16;  // sets of symbol values that stay recorded

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

Status BusyFailure() {
  return Busy("Another thread is using the session; a session serves one thread at a time.");
}

}  // namespace

Status RunEvent::Wait(int64_t timeout_ns) const {
  const hal::SemaphorePoint point{semaphore.get(), value};
  return device->Wait({&point, 1}, hal::WaitMode::kAll, timeout_ns);
}

std::shared_ptr<Session> Session::Create(std::shared_ptr<LoadedProgram> program,
                                         SessionOptions options) {
  return std::shared_ptr<Session>(new Session(std::move(program), std::move(options)));
}

Session::Session(std::shared_ptr<LoadedProgram> program, SessionOptions options)
    : program_(std::move(program)), options_(std::move(options)) {
  symbols_.resize(program_->program().symbols.size());
}

Session::~Session() { WaitIdle(); }

void Session::WaitIdle() {
  if (!in_flight_) return;
  // The outcome belongs to the event of that run.
  if (!last_.Wait(hal::kInfiniteTimeout).ok()) Forget();
  in_flight_ = false;
  last_ = {};
}

void Session::Abandon() {
  const Recording& recording = *current_;
  const auto wait = [&](hal::Semaphore* semaphore, uint64_t value) {
    const hal::SemaphorePoint point{semaphore, value};
    // The failure that is being reported came first; this only waits for what was queued before it.
    recording.program->device(0)
        ->Wait({&point, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout)
        .Ignore();
  };
  for (uint32_t i = 0; i < queued_steps_; ++i) wait(step_semaphores_[i].get(), serial_);
  if (transfer_semaphore_) wait(transfer_semaphore_.get(), transfer_value_);
  Forget();
}

void Session::Forget() {
  step_semaphores_.clear();
  step_semaphore_devices_.clear();
  transfer_semaphore_.reset();
  transfer_value_ = 0;
}

// Recordings --------------------------------------------------------------------------------------

Result<std::shared_ptr<LoadedProgram>> Session::FindVariant() {
  if (symbols_.empty() || options_.on_new_shapes == NewShapes::kGeneric) {
    return std::shared_ptr<LoadedProgram>();
  }
  Variants::Sizes sizes;
  const std::vector<program::Symbol>& symbols = program_->program().symbols;
  for (size_t i = 0; i < symbols.size(); ++i) sizes[symbols[i].name] = symbols_[i];
  VariantMode mode = VariantMode::kFind;
  if (options_.on_new_shapes == NewShapes::kCompile) mode = VariantMode::kCompile;
  if (options_.on_new_shapes == NewShapes::kCompileLater) mode = VariantMode::kCompileLater;
  return program_->variants().Get(sizes, mode);
}

// Forgets recordings of the program for any sizes when a compile has ended since they were made:
// one of them may have a variant now.
void Session::DropMeanwhile() {
  const uint64_t count = program_->variants().background_count();
  if (count == seen_background_count_) return;
  seen_background_count_ = count;
  std::erase_if(recordings_, [&](const auto& recording) { return recording->program == program_; });
}

Result<std::shared_ptr<const Recording>> Session::FindRecording(
    std::span<const CallTensor> inputs) {
  const program::Program& program = program_->program();
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
    HY_ASSIGN(const auto recording, Record(variant, *entry, values));
    auto renamed = std::make_shared<Recording>(*recording);
    renamed->symbols = symbols_;  // found again by the generic program's values
    made = std::move(renamed);
  } else {
    HY_ASSIGN(const program::Entry* entry, SelectEntry(program, symbols_));
    HY_ASSIGN(made, Record(program_, *entry, symbols_));
  }
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
    return InvalidArgument("Input '{}' has {} bytes; its shape needs {}.", name, tensor.size_bytes,
                           storage.size_bytes);
  }
  hal::BufferRange& binding = bindings_[index];
  if (tensor.buffer != nullptr) {
    HY_TRY(hal::CheckRange(name, tensor.buffer_offset, storage.size_bytes,
                           tensor.buffer->size_bytes()));
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
  HY_ASSIGN(const auto imported, Import(device, port, tensor.data, storage.size_bytes, true));
  if (imported) {
    binding = {imported.get(), 0, storage.size_bytes};
    return OkStatus();
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
  const bool is_given = tensor.buffer != nullptr || tensor.data != nullptr;
  if (is_given && tensor.size_bytes < storage.size_bytes) {
    return InvalidArgument("The memory of output '{}' has {} bytes; it needs {}.", name,
                           tensor.size_bytes, storage.size_bytes);
  }
  hal::BufferRange& binding = bindings_[recording.inputs.size() + index];
  if (tensor.buffer != nullptr) {
    HY_TRY(hal::CheckRange(name, tensor.buffer_offset, storage.size_bytes,
                           tensor.buffer->size_bytes()));
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
  if (tensor.data != nullptr) {
    HY_ASSIGN(const auto imported, Import(device, port, tensor.data, storage.size_bytes, false));
    if (imported) {
      binding = {imported.get(), 0, storage.size_bytes};
      result.data = tensor.data;
      return OkStatus();
    }
  }
  HY_TRY(EnsurePort(port, storage, recording, false));
  binding = {port.buffer.get(), 0, storage.size_bytes};
  result.data = port.mapped;
  if (tensor.data != nullptr) {
    result.data = tensor.data;
    copy_outs_.push_back({port.mapped, static_cast<uint8_t*>(tensor.data), storage.size_bytes});
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

// Submission --------------------------------------------------------------------------------------

Result<hal::Semaphore*> Session::StepSemaphore(uint32_t index, const Recording& recording) {
  const uint32_t device = index < recording.steps.size() ? recording.steps[index].device : 0;
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

Status Session::SubmitStep(uint32_t index, bool caller_waits) {
  const Recording& recording = *current_;
  const Recording::Step& step = recording.steps[index];
  hal::Device& device = *recording.program->device(step.device);
  wait_points_.clear();
  for (const uint32_t before : step.waits) {
    wait_points_.push_back({step_semaphores_[before].get(), serial_});
  }
  if (step.waits.empty() && transfer_value_ > 0) {
    wait_points_.push_back({transfer_semaphore_.get(), transfer_value_});
  }
  HY_ASSIGN(hal::Semaphore * semaphore, StepSemaphore(index, recording));
  const hal::SemaphorePoint signal{semaphore, serial_};
  hal::Ordering ordering;
  ordering.waits = wait_points_;
  ordering.signals = {&signal, 1};
  ordering.caller_waits = caller_waits;
  if (step.interpret != nullptr) {
    InterpretCall& call = interpret_calls_[index];
    call = {this, &recording, index};
    hal::HostCall host_call;
    host_call.context = &call;
    host_call.function = [](void* context) -> Status {
      const auto* self = static_cast<InterpretCall*>(context);
      return CatchAll([&] { return self->session->RunInterpreted(*self); });
    };
    return device.QueueHostCall(step.queue, ordering, host_call);
  }
  hal::SubmitInfo info;
  info.ordering = ordering;
  info.commands = step.commands.get();
  info.bindings = bindings_;
  return device.Submit(step.queue, info);
}

Status Session::SubmitSteps(bool caller_waits) {
  const Recording& recording = *current_;
  interpret_calls_.resize(recording.steps.size());
  for (uint32_t i = 0; i < recording.steps.size(); ++i) {
    HY_TRY(SubmitStep(i, caller_waits));
    queued_steps_ = i + 1;
  }
  // The end of the run: the one step, or a join of the last ones, then the downloads.
  hal::Device& device = *recording.program->device(0);
  wait_points_.clear();
  for (const uint32_t last : recording.last_steps) {
    wait_points_.push_back({step_semaphores_[last].get(), serial_});
  }
  hal::SemaphorePoint end;
  if (wait_points_.size() == 1) {
    end = wait_points_[0];
  } else {
    const auto join = static_cast<uint32_t>(recording.steps.size());
    HY_ASSIGN(hal::Semaphore * semaphore, StepSemaphore(join, recording));
    end = {semaphore, serial_};
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
    ordering.caller_waits = caller_waits;
    HY_TRY(owner.QueueCopy(0, ordering, binding, {port.staging.get(), 0, binding.size_bytes}));
    ++transfer_value_;
  }
  if (!caller_waits && !copy_outs_.empty()) {
    const auto copy = static_cast<uint32_t>(recording.steps.size()) + 1;
    HY_ASSIGN(hal::Semaphore * semaphore, StepSemaphore(copy, recording));
    const hal::SemaphorePoint wait = end;
    end = {semaphore, serial_};
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
  last_.device = recording.program->device(0);
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
  for (size_t i = 0; i < outputs.size(); ++i) HY_TRY(BindOutput(i, outputs[i], results[i]));
  for (size_t i = 0; i < inputs.size(); ++i) HY_TRY(BindInput(i, inputs[i]));
  return OkStatus();
}

Status Session::Start(std::span<const CallTensor> inputs, std::span<const CallTensor> outputs,
                      std::span<CallResult> results, bool caller_waits) {
  WaitIdle();
  HY_ASSIGN(current_, FindRecording(inputs));
  const Recording& recording = *current_;
  if (outputs.size() != recording.outputs.size() || results.size() != outputs.size()) {
    return InvalidArgument("The call gives {} outputs; the program has {}.", outputs.size(),
                           recording.outputs.size());
  }
  ++serial_;
  queued_steps_ = 0;
  Status status;
  try {
    status = Bind(inputs, outputs, results);
    if (status.ok()) status = SubmitSteps(caller_waits);
  } catch (...) {
    Abandon();  // what is queued names this session
    throw;
  }
  if (!status.ok()) Abandon();
  return status;
}

Status Session::Run(std::span<const CallTensor> inputs, std::span<const CallTensor> outputs,
                    std::span<CallResult> results) {
  const BusyGuard guard(is_busy_);
  if (!guard.owns()) return BusyFailure();
  return poison_.Run("session", AfterBadAlloc::kUsable, [&]() -> Status {
    HY_TRY(Start(inputs, outputs, results, true));
    const hal::SemaphorePoint end{last_.semaphore.get(), last_.value};
    Status status = last_.device->Wait({&end, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout);
    in_flight_ = false;
    if (!status.ok()) {
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
    HY_TRY(Start(inputs, outputs, results, false));
    HY_TRY(last_.device->Flush());
    RunEvent event = last_;
    event.keep_alive = shared_from_this();
    return event;
  });
}

// Interpreted ops ---------------------------------------------------------------------------------

Result<uint8_t*> Session::HostAddress(const hal::CommandRange& range) {
  hal::Buffer* buffer = range.buffer;
  int64_t offset = range.offset;
  if (buffer == nullptr) {
    buffer = bindings_[range.slot].buffer;
    offset += bindings_[range.slot].offset;
  }
  return buffer->Map(offset, range.size_bytes);
}

Status Session::RunInterpreted(const InterpretCall& call) {
  const Recording::Step& step = call.recording->steps[call.step];
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
  return options_.interpreter(request).WithContext(fmt::format("interpreting '{}'", command.label));
}

}  // namespace halyard::runtime
