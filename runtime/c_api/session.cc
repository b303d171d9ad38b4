// SPDX-License-Identifier: Apache-2.0
// C functions of buffers, sessions and events.
#include <algorithm>

#include "base/quantity.h"
#include "runtime/c_api/handles.h"
#include "runtime/compile.h"

using namespace halyard;           // NOLINT: the C functions are the outermost layer
using namespace halyard::runtime;  // NOLINT

namespace {

constexpr size_t kSessionDescSize = 32;
constexpr size_t kTensorSize = 184;
constexpr size_t kBufferDescSize = 32;
constexpr size_t kCommandTimeSize = 120;
static_assert(sizeof(hy_session_desc) >= kSessionDescSize && sizeof(hy_tensor) >= kTensorSize &&
              sizeof(hy_buffer_desc) >= kBufferDescSize &&
              sizeof(hy_command_time) >= kCommandTimeSize);

// `what` is done to the range: "read of".
Result<hal::BufferRange> RangeOf(const hy_buffer& buffer, std::string_view what, size_t offset,
                                 size_t size_bytes) {
  const auto limited = [](size_t value) {
    return static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX));
  };
  const hal::BufferRange range{buffer.buffer.get(), limited(offset), limited(size_bytes)};
  HY_TRY(hal::CheckRange(fmt::format("The {} a buffer of '{}'", what, buffer.device->path()),
                         range.offset, range.size_bytes, range.buffer->size_bytes()));
  return range;
}

Result<CallTensor> ReadTensor(const hy_tensor* from, std::string_view what, size_t index,
                              bool is_input) {
  if (from->struct_size == sizeof(hy_tensor) && from->type == HY_STRUCT_TENSOR &&
      from->next == nullptr) {
    // The usual case, without a copy of the struct.
  } else {
    HY_TRY_CONTEXT(
        CheckStruct(from, HY_STRUCT_TENSOR, kTensorSize, sizeof(hy_tensor), true, "hy_tensor"),
        "reading {} {}", what, index);
  }
  CallTensor tensor;
  if (is_input) {
    if (from->rank > HY_MAX_RANK) {
      return InvalidArgument("{} {} has rank {}; at most {} is possible.", what, index, from->rank,
                             HY_MAX_RANK);
    }
    if (from->dtype < 0 || from->dtype >= kDTypeCount) {
      return InvalidArgument("{} {} has the unknown dtype {}; 1 to {} are dtypes.", what, index,
                             from->dtype, kDTypeCount - 1);
    }
    tensor.dtype = static_cast<DType>(from->dtype);
    tensor.dims = {from->dims, from->rank};
  }
  if (from->data != nullptr && from->buffer != nullptr) {
    return InvalidArgument("{} {} has both data and a buffer.", what, index);
  }
  tensor.data = from->data;
  tensor.size_bytes = static_cast<int64_t>(std::min<uint64_t>(from->size_bytes, INT64_MAX));
  if (from->buffer != nullptr) {
    tensor.buffer = from->buffer->buffer.get();
    tensor.buffer_offset = static_cast<int64_t>(std::min<uint64_t>(from->buffer_offset, INT64_MAX));
  }
  return tensor;
}

Status ReadCall(hy_session_t* session, const hy_tensor* inputs, size_t input_count,
                hy_tensor* outputs, size_t output_count) {
  if (input_count > 0) HY_REQUIRE(inputs);
  if (output_count > 0) HY_REQUIRE(outputs);
  // Before any element is read: what the caller counts need not be there.
  const program::Entry& entry = session->session->program().program().entries.front();
  if (input_count != entry.inputs.size()) {
    return InvalidArgument("The call gives {}; the program has {}.", Counted(input_count, "input"),
                           entry.inputs.size());
  }
  if (output_count != entry.outputs.size()) {
    return InvalidArgument("The call gives {}; the program has {}.",
                           Counted(output_count, "output"), entry.outputs.size());
  }
  session->inputs.clear();
  session->outputs.clear();
  for (size_t i = 0; i < input_count; ++i) {
    HY_ASSIGN(const CallTensor tensor, ReadTensor(ElementOf(inputs, i), "Input", i, true));
    session->inputs.push_back(tensor);
  }
  for (size_t i = 0; i < output_count; ++i) {
    HY_ASSIGN(const CallTensor tensor, ReadTensor(ElementOf(outputs, i), "Output", i, false));
    session->outputs.push_back(tensor);
  }
  session->results.resize(output_count);
  return OkStatus();
}

void WriteResults(const hy_session_t* session, hy_tensor* outputs) {
  for (size_t i = 0; i < session->results.size(); ++i) {
    const CallResult& result = session->results[i];
    hy_tensor* out = ElementOf(outputs, i);
    out->dtype = static_cast<hy_dtype>(result.dtype);
    out->rank = static_cast<uint32_t>(std::min<size_t>(result.dims.size(), HY_MAX_RANK));
    std::copy_n(result.dims.begin(), out->rank, out->dims);
    if (result.is_callers) continue;
    out->data = result.data;
    out->size_bytes = static_cast<size_t>(result.size_bytes);
  }
}

}  // namespace

hy_result hy_buffer_create(hy_device_t* device, size_t size_bytes, hy_buffer_t** out_buffer) {
  hy_buffer_desc desc = HY_BUFFER_DESC_INIT;
  desc.size_bytes = size_bytes;
  return hy_buffer_create_from(device, &desc, out_buffer);
}

hy_result hy_buffer_create_from(hy_device_t* device, const hy_buffer_desc* desc,
                                hy_buffer_t** out_buffer) {
  return Guarded([&]() -> Status {
    HY_REQUIRE(device);
    HY_REQUIRE(desc);
    HY_REQUIRE(out_buffer);
    hy_buffer_desc d = HY_BUFFER_DESC_INIT;
    HY_TRY(ReadStruct(desc, HY_STRUCT_BUFFER_DESC, kBufferDescSize, "hy_buffer_desc", d));
    if (d.memory < HY_MEMORY_HOST_VISIBLE || d.memory > HY_MEMORY_DEVICE) {
      return InvalidArgument("There is no kind of memory {}; {} and {} are kinds.", d.memory,
                             HY_MEMORY_HOST_VISIBLE, HY_MEMORY_DEVICE);
    }
    if (d.size_bytes > static_cast<size_t>(INT64_MAX)) {
      return OutOfMemory("A buffer of {} bytes on '{}' is impossible; at most {} are.",
                         d.size_bytes, device->device->path(), INT64_MAX);
    }
    const auto kind =
        d.memory == HY_MEMORY_DEVICE ? hal::MemoryKind::kDevice : hal::MemoryKind::kHostVisible;
    auto handle = std::make_unique<hy_buffer>();
    handle->device = device->device;
    HY_ASSIGN(handle->buffer,
              device->device->AllocateBuffer(kind, static_cast<int64_t>(d.size_bytes)));
    *out_buffer = handle.release();
    return OkStatus();
  });
}

hy_result hy_buffer_write(hy_buffer_t* buffer, size_t offset, const void* data, size_t size_bytes) {
  return Guarded([&]() -> Status {
    HY_REQUIRE(buffer);
    HY_ASSIGN(const hal::BufferRange range, RangeOf(*buffer, "write to", offset, size_bytes));
    if (size_bytes == 0) return OkStatus();
    HY_REQUIRE(data);
    return Upload(*buffer->device, {static_cast<const uint8_t*>(data), size_bytes}, range);
  });
}

hy_result hy_buffer_read(hy_buffer_t* buffer, size_t offset, void* data, size_t size_bytes) {
  return Guarded([&]() -> Status {
    HY_REQUIRE(buffer);
    HY_ASSIGN(const hal::BufferRange range, RangeOf(*buffer, "read of", offset, size_bytes));
    if (size_bytes == 0) return OkStatus();
    HY_REQUIRE(data);
    return Download(*buffer->device, range, {static_cast<uint8_t*>(data), size_bytes});
  });
}

hy_result hy_buffer_import(hy_device_t* device, void* data, size_t size_bytes,
                           void (*release)(void*), void* release_context,
                           hy_buffer_t** out_buffer) {
  return Guarded([&]() -> Status {
    HY_REQUIRE(device);
    HY_REQUIRE(data);
    HY_REQUIRE(out_buffer);
    if (size_bytes > static_cast<size_t>(INT64_MAX)) {
      return InvalidArgument("Host memory of {} bytes for '{}' is impossible; at most {} are.",
                             size_bytes, device->device->path(), INT64_MAX);
    }
    auto handle = std::make_unique<hy_buffer>();
    handle->device = device->device;
    hal::HostMemory memory;
    memory.address = data;
    memory.size_bytes = static_cast<int64_t>(size_bytes);
    if (release != nullptr)
      memory.release = [release, release_context] { release(release_context); };
    HY_ASSIGN(handle->buffer, device->device->ImportHostMemory(std::move(memory)));
    *out_buffer = handle.release();
    return OkStatus();
  });
}

hy_result hy_buffer_map(hy_buffer_t* buffer, void** out_data) {
  return Guarded([&]() -> Status {
    HY_REQUIRE(buffer);
    HY_REQUIRE(out_data);
    HY_ASSIGN(*out_data, buffer->buffer->Map(0, buffer->buffer->size_bytes()));
    return OkStatus();
  });
}

void hy_buffer_release(hy_buffer_t* buffer) { ReleaseHandle(buffer); }

hy_result hy_session_create(hy_program_t* program, const hy_session_desc* desc,
                            hy_session_t** out_session) {
  return Guarded([&]() -> Status {
    HY_REQUIRE(program);
    HY_REQUIRE(out_session);
    hy_session_desc d = HY_SESSION_DESC_INIT;
    if (desc != nullptr) {
      HY_TRY(ReadStruct(desc, HY_STRUCT_SESSION_DESC, kSessionDescSize, "hy_session_desc", d));
    }
    if (d.on_new_shapes < HY_NEW_SHAPES_GENERIC || d.on_new_shapes > HY_NEW_SHAPES_COMPILE_LATER) {
      return InvalidArgument("There is no policy {} for new shapes; {} to {} are policies.",
                             d.on_new_shapes, HY_NEW_SHAPES_GENERIC, HY_NEW_SHAPES_COMPILE_LATER);
    }
    if (d.time_runs > HY_TIME_COMMANDS) {
      return InvalidArgument("The session's time_runs is {}; it must be 0, 1 or 2.", d.time_runs);
    }
    if (d.memory_limit_bytes < 0) {
      return InvalidArgument(
          "The session's memory limit is {} bytes; the least is 0, which is none.",
          d.memory_limit_bytes);
    }
    SessionOptions options;
    options.on_new_shapes = static_cast<NewShapes>(d.on_new_shapes);
    if (d.memory_limit_bytes > 0) options.memory_limit_bytes = d.memory_limit_bytes;
    options.time_runs = d.time_runs != 0;
    options.time_commands = d.time_runs == HY_TIME_COMMANDS;
    options.interpreter = MakeInterpreter();
    auto handle = std::make_unique<hy_session>();
    handle->instance = program->instance;
    handle->session = Session::Create(program->program, std::move(options));
    *out_session = handle.release();
    return OkStatus();
  });
}

void hy_session_release(hy_session_t* session) {
  if (session == nullptr || IsForkedChild()) return;
  try {
    session->session->WaitIdle();
  } catch (...) {  // the run's outcome belongs to its event
  }
  ReleaseHandle(session);
}

hy_result hy_session_run(hy_session_t* session, const hy_tensor* inputs, size_t input_count,
                         hy_tensor* outputs, size_t output_count) {
  return Guarded([&]() -> Status {
    HY_REQUIRE(session);
    const ExclusiveUse use(session->is_busy);
    HY_TRY(use.status());
    HY_TRY(ReadCall(session, inputs, input_count, outputs, output_count));
    HY_TRY(session->session->Run(session->inputs, session->outputs, session->results));
    WriteResults(session, outputs);
    return OkStatus();
  });
}

hy_result hy_session_submit(hy_session_t* session, const hy_tensor* inputs, size_t input_count,
                            hy_tensor* outputs, size_t output_count, hy_event_t** out_event) {
  return Guarded([&]() -> Status {
    HY_REQUIRE(session);
    HY_REQUIRE(out_event);
    const ExclusiveUse use(session->is_busy);
    HY_TRY(use.status());
    HY_TRY(ReadCall(session, inputs, input_count, outputs, output_count));
    auto handle = std::make_unique<hy_event>();
    HY_ASSIGN(handle->event,
              session->session->Submit(session->inputs, session->outputs, session->results));
    WriteResults(session, outputs);
    *out_event = handle.release();
    return OkStatus();
  });
}

hy_result hy_event_wait(hy_event_t* event, int64_t timeout_ns) {
  return Guarded([&]() -> Status {
    HY_REQUIRE(event);
    if (timeout_ns < 0)
      return InvalidArgument("The timeout of the wait is {} ns; the least is 0.", timeout_ns);
    return event->event.Wait(timeout_ns);
  });
}

hy_result hy_event_status(hy_event_t* event) {
  return Guarded([&]() -> Status {
    HY_REQUIRE(event);
    return event->event.Wait(0);
  });
}

hy_result hy_event_device_time(hy_event_t* event, int64_t* out_ns) {
  return Guarded([&]() -> Status {
    HY_REQUIRE(event);
    HY_REQUIRE(out_ns);
    HY_ASSIGN(*out_ns, event->event.DeviceNanoseconds());
    return OkStatus();
  });
}

hy_result hy_event_command_times(hy_event_t* event, hy_command_time* times, size_t* count) {
  return Guarded([&]() -> Result<hy_result> {
    HY_REQUIRE(event);
    HY_REQUIRE(count);
    if (!event->event.profile) {
      return FailedPrecondition(
          "The commands of the run were not timed; its session must be created with time_runs = "
          "2.");
    }
    const std::vector<TimedCommand>& commands = event->event.profile->commands();
    return WriteArray(times, count, commands.size(), [&](size_t i, hy_command_time* time) {
      const TimedCommand& from = commands[i];
      hy_command_time out = HY_COMMAND_TIME_INIT;
      out.label = ToC(from.label);
      out.device = ToC(from.device);
      out.kind = static_cast<hy_timed_kind>(from.kind);
      out.queue = from.queue;
      out.start_ns = from.start_ns;
      out.submitted_ns = from.submitted_ns;
      out.end_ns = from.end_ns;
      out.device_ns = from.device_ns;
      out.bytes = from.bytes;
      out.flops = from.flops;
      out.live_bytes = from.live_bytes;
      out.product = static_cast<hy_dtype>(from.product);
      return WriteStruct(out, HY_STRUCT_COMMAND_TIME, kCommandTimeSize, "hy_command_time", time);
    });
  });
}

void hy_event_release(hy_event_t* event) { ReleaseHandle(event); }
