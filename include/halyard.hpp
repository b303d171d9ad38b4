// SPDX-License-Identifier: Apache-2.0
// halyard.hpp: C++17 over halyard.h. Owning handles that release themselves, and failures as
// hy::Error. It adds no function of its own to the library: everything here is inline over the C
// API, whose comments state owner, threads and failures.
#pragma once

#include <halyard.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hy {

inline std::string ToString(hy_string text) {
  return std::string(text.data ? text.data : "", text.size);
}
inline hy_string View(std::string_view text) { return {text.data(), text.size()}; }

// A failed call: its code and the sentence that explains it.
class Error : public std::runtime_error {
 public:
  Error(hy_result code, const std::string& message) : std::runtime_error(message), code_(code) {}
  hy_result code() const { return code_; }

 private:
  hy_result code_;
};

inline void Check(hy_result result) {
  if (result != HY_OK) throw Error(result, ToString(hy_last_error()));
}

// Owns one reference of a handle. One that is empty, as after a move or made by the default
// constructor of all but Instance, is an error of every call: hy::Error with HY_INVALID_ARGUMENT.
template <typename T, void (*kRelease)(T*)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T* raw) : raw_(raw) {}
  T* get() const { return raw_.get(); }
  T* release() { return raw_.release(); }
  explicit operator bool() const { return raw_ != nullptr; }

 private:
  struct Deleter {
    void operator()(T* raw) const { kRelease(raw); }
  };
  std::unique_ptr<T, Deleter> raw_;
};

// Calls that fill arrays of info structs: counts, then fills.
template <typename Info, typename Call>
std::vector<Info> Enumerate(const Info& initial, Call&& call) {
  size_t count = 0;
  Check(call(nullptr, &count));
  std::vector<Info> infos(count, initial);
  if (count > 0) Check(call(infos.data(), &count));
  infos.resize(count);
  return infos;
}

// What a writer callback receives, as one string.
template <typename Call>
std::string Collect(Call&& call) {
  std::string text;
  const hy_writer append = [](void* context, const void* data, size_t size) -> hy_result {
    static_cast<std::string*>(context)->append(static_cast<const char*>(data), size);
    return HY_OK;
  };
  Check(call(append, &text));
  return text;
}

class Device : public Handle<hy_device_t, hy_device_release> {
 public:
  using Handle::Handle;
  hy_device_info info() const {
    hy_device_info info = HY_DEVICE_INFO_INIT;
    Check(hy_device_get_info(get(), &info));
    return info;
  }
  hy_device_memory memory() const {
    hy_device_memory memory = HY_DEVICE_MEMORY_INIT;
    hy_device_info info = HY_DEVICE_INFO_INIT;
    info.next = &memory;
    Check(hy_device_get_info(get(), &info));
    return memory;
  }
  std::string Report(hy_report_format format) const {
    return Collect([&](hy_writer w, void* c) { return hy_device_report(get(), format, w, c); });
  }
  // Texts live until the next call on this thread.
  std::vector<hy_property> Properties(std::string_view prefix = {}) const {
    const hy_property initial = HY_PROPERTY_INIT;
    return Enumerate(initial, [&](hy_property* p, size_t* n) {
      return hy_device_properties(get(), View(prefix), p, n);
    });
  }
  std::vector<hy_matrix_shape> MatrixShapes() const {
    const hy_matrix_shape initial = HY_MATRIX_SHAPE_INIT;
    return Enumerate(initial, [&](hy_matrix_shape* s, size_t* n) {
      return hy_device_matrix_shapes(get(), s, n);
    });
  }
  hy_link_info LinkTo(const Device& other) const {
    hy_link_info info = HY_LINK_INFO_INIT;
    Check(hy_link_get_info(get(), other.get(), &info));
    return info;
  }
};

class Instance : public Handle<hy_instance_t, hy_instance_release> {
 public:
  using Handle::Handle;
  // With the defaults of hy_instance_create. Instance(nullptr) is empty.
  Instance() : Instance(Create()) {}
  explicit Instance(const hy_instance_desc& desc) : Instance(Create(&desc)) {}
  static Instance Create(const hy_instance_desc* desc = nullptr) {
    hy_instance_t* raw = nullptr;
    Check(hy_instance_create(desc, &raw));
    return Instance(raw);
  }
  std::vector<hy_driver_info> Drivers() const {
    const hy_driver_info initial = HY_DRIVER_INFO_INIT;
    return Enumerate(
        initial, [&](hy_driver_info* i, size_t* n) { return hy_enumerate_drivers(get(), i, n); });
  }
  std::vector<hy_device_info> Devices() const {
    const hy_device_info initial = HY_DEVICE_INFO_INIT;
    return Enumerate(
        initial, [&](hy_device_info* i, size_t* n) { return hy_enumerate_devices(get(), i, n); });
  }
  Device Open(std::string_view path) const {
    hy_device_t* raw = nullptr;
    Check(hy_device_open(get(), View(path), &raw));
    return Device(raw);
  }
  std::string Probe(const std::vector<Device>& devices, const hy_probe_desc& desc,
                    hy_report_format format) const {
    std::vector<hy_device_t*> raw;
    for (const Device& device : devices) raw.push_back(device.get());
    return Collect([&](hy_writer w, void* c) {
      return hy_devices_probe(get(), raw.data(), raw.size(), &desc, format, w, c);
    });
  }
};

class Program : public Handle<hy_program_t, hy_program_release> {
 public:
  using Handle::Handle;
  static Program Compile(const Instance& instance, const hy_compile_desc& desc) {
    hy_program_t* raw = nullptr;
    Check(hy_program_compile(instance.get(), &desc, &raw));
    return Program(raw);
  }
  static Program Load(const Instance& instance, const hy_program_load_desc& desc) {
    hy_program_t* raw = nullptr;
    Check(hy_program_load(instance.get(), &desc, &raw));
    return Program(raw);
  }
  void Save(std::string_view path) const { Check(hy_program_save(get(), View(path))); }
  std::vector<hy_tensor_info> Io(hy_io_kind kind) const {
    const hy_tensor_info initial = HY_TENSOR_INFO_INIT;
    return Enumerate(
        initial, [&](hy_tensor_info* i, size_t* n) { return hy_program_io(get(), kind, i, n); });
  }
  std::vector<hy_symbol_info> Symbols() const {
    const hy_symbol_info initial = HY_SYMBOL_INFO_INIT;
    return Enumerate(initial,
                     [&](hy_symbol_info* i, size_t* n) { return hy_program_symbols(get(), i, n); });
  }
  std::vector<hy_memory_info> Memory(const std::vector<hy_symbol_value>& symbols) const {
    const hy_memory_info initial = HY_MEMORY_INFO_INIT;
    return Enumerate(initial, [&](hy_memory_info* i, size_t* n) {
      return hy_program_memory(get(), symbols.data(), symbols.size(), i, n);
    });
  }
  std::string Report(hy_report_kind kind, hy_report_format format) const {
    return Collect(
        [&](hy_writer w, void* c) { return hy_program_report(get(), kind, format, w, c); });
  }
  // `device` empty: what became of the node; otherwise why it does not run there.
  std::string ExplainNode(std::string_view name, std::string_view device,
                          hy_report_format format) const {
    return Collect([&](hy_writer w, void* c) {
      return hy_program_explain_node(get(), View(name), View(device), format, w, c);
    });
  }
};

class Buffer : public Handle<hy_buffer_t, hy_buffer_release> {
 public:
  using Handle::Handle;
  static Buffer Create(const Device& device, size_t size_bytes) {
    hy_buffer_t* raw = nullptr;
    Check(hy_buffer_create(device.get(), size_bytes, &raw));
    return Buffer(raw);
  }
  static Buffer Create(const Device& device, size_t size_bytes, hy_memory memory) {
    hy_buffer_desc desc = HY_BUFFER_DESC_INIT;
    desc.size_bytes = size_bytes;
    desc.memory = memory;
    hy_buffer_t* raw = nullptr;
    Check(hy_buffer_create_from(device.get(), &desc, &raw));
    return Buffer(raw);
  }
  void Write(const void* data, size_t size_bytes, size_t offset = 0) const {
    Check(hy_buffer_write(get(), offset, data, size_bytes));
  }
  void Read(void* data, size_t size_bytes, size_t offset = 0) const {
    Check(hy_buffer_read(get(), offset, data, size_bytes));
  }
  void* Map() const {
    void* data = nullptr;
    Check(hy_buffer_map(get(), &data));
    return data;
  }
};

class Event : public Handle<hy_event_t, hy_event_release> {
 public:
  using Handle::Handle;
  // False when the time is over; throws when the work failed.
  bool Wait(int64_t timeout_ns = HY_WAIT_FOREVER) const {
    const hy_result result = hy_event_wait(get(), timeout_ns);
    if (result == HY_DEADLINE_EXCEEDED) return false;
    Check(result);
    return true;
  }
  // Of a run that is done, of a session with time_runs.
  int64_t DeviceTimeNs() const {
    int64_t time_ns = 0;
    Check(hy_event_device_time(get(), &time_ns));
    return time_ns;
  }
  // Of a session with HY_TIME_COMMANDS; the texts live as long as the event.
  std::vector<hy_command_time> CommandTimes() const {
    const hy_command_time initial = HY_COMMAND_TIME_INIT;
    return Enumerate(initial, [&](hy_command_time* t, size_t* n) {
      return hy_event_command_times(get(), t, n);
    });
  }
};

class Session : public Handle<hy_session_t, hy_session_release> {
 public:
  using Handle::Handle;
  static Session Create(const Program& program, const hy_session_desc* desc = nullptr) {
    hy_session_t* raw = nullptr;
    Check(hy_session_create(program.get(), desc, &raw));
    return Session(raw);
  }
  // An output without data gets memory of the session, until its next run, to which it may be given
  // as it is.
  void Run(const std::vector<hy_tensor>& inputs, std::vector<hy_tensor>& outputs) const {
    Check(hy_session_run(get(), inputs.data(), inputs.size(), outputs.data(), outputs.size()));
  }
  Event Submit(const std::vector<hy_tensor>& inputs, std::vector<hy_tensor>& outputs) const {
    hy_event_t* raw = nullptr;
    Check(hy_session_submit(get(), inputs.data(), inputs.size(), outputs.data(), outputs.size(),
                            &raw));
    return Event(raw);
  }
};

class Graph : public Handle<hy_graph_t, hy_graph_release> {
 public:
  using Handle::Handle;
  static Graph Create(const Instance& instance) {
    hy_graph_t* raw = nullptr;
    Check(hy_graph_create(instance.get(), &raw));
    return Graph(raw);
  }
  void Symbol(std::string_view name, int64_t min, int64_t max, int64_t multiple_of = 1) const {
    Check(hy_graph_symbol(get(), View(name), min, max, multiple_of));
  }
  hy_value Input(std::string_view name, hy_dtype dtype, std::string_view dims) const {
    hy_value value = HY_VALUE_NONE;
    Check(hy_graph_input(get(), View(name), dtype, View(dims), &value));
    return value;
  }
  hy_value Constant(std::string_view name, hy_dtype dtype, const std::vector<int64_t>& dims,
                    const void* data, size_t size_bytes) const {
    hy_value value = HY_VALUE_NONE;
    Check(hy_graph_constant(get(), View(name), dtype, dims.data(), dims.size(), data, size_bytes,
                            nullptr, nullptr, &value));
    return value;
  }
  hy_value Op(std::string_view op, const std::vector<hy_value>& operands,
              const std::vector<hy_graph_attribute>& attributes = {},
              std::string_view name = {}) const {
    hy_value value = HY_VALUE_NONE;
    Check(hy_graph_op(get(), View(op), View(name), operands.data(), operands.size(),
                      attributes.data(), attributes.size(), &value, 1));
    return value;
  }
  void Output(std::string_view name, hy_value value) const {
    Check(hy_graph_output(get(), View(name), value));
  }
  void Undo() const { Check(hy_graph_undo(get())); }
  void Verify() const { Check(hy_graph_verify(get())); }
};

}  // namespace hy
