// SPDX-License-Identifier: Apache-2.0
// The table of all C functions.
#include "runtime/c_api/handles.h"

using namespace halyard;           // NOLINT: the C functions are the outermost layer
using namespace halyard::runtime;  // NOLINT

hy_result hy_get_api(hy_api* api) {
  return Guarded([&]() -> Status {
    const hy_api table = {sizeof(hy_api),
                          HY_STRUCT_API,
                          nullptr,
                          hy_version,
                          hy_result_name,
                          hy_last_error,
                          hy_instance_create,
                          hy_instance_release,
                          hy_enumerate_drivers,
                          hy_enumerate_devices,
                          hy_device_open,
                          hy_device_release,
                          hy_device_get_info,
                          hy_device_report,
                          hy_graph_create,
                          hy_graph_release,
                          hy_graph_symbol,
                          hy_graph_input,
                          hy_graph_constant,
                          hy_graph_op,
                          hy_graph_output,
                          hy_graph_verify,
                          hy_program_compile,
                          hy_program_load,
                          hy_program_check,
                          hy_program_save,
                          hy_program_release,
                          hy_program_io,
                          hy_program_symbols,
                          hy_program_memory,
                          hy_program_report,
                          hy_buffer_create,
                          hy_buffer_import,
                          hy_buffer_map,
                          hy_buffer_release,
                          hy_session_create,
                          hy_session_release,
                          hy_session_run,
                          hy_session_submit,
                          hy_event_wait,
                          hy_event_status,
                          hy_event_release,
                          hy_buffer_create_from,
                          hy_buffer_write,
                          hy_buffer_read,
                          hy_event_device_time,
                          hy_device_properties,
                          hy_device_matrix_shapes,
                          hy_link_get_info,
                          hy_devices_probe,
                          hy_event_command_times,
                          hy_graph_undo,
                          hy_program_explain_node};
    constexpr size_t kFirstSize =
        sizeof(uint32_t) * 2 + sizeof(void*) * 2;  // the head and hy_version
    HY_TRY(WriteStruct(table, HY_STRUCT_API, kFirstSize, "hy_api", api));
    if (api->struct_size > sizeof(hy_api)) {
      std::memset(reinterpret_cast<char*>(api) + sizeof(hy_api), 0,
                  api->struct_size - sizeof(hy_api));
    }
    return OkStatus();
  });
}
