/* SPDX-License-Identifier: Apache-2.0 */
/* A host program built against the header of 0.1.0, in the folder beside it, and run with the library of
 * today: every part of the interface once, with the structs and numbers of then.
 *
 * usage: oldest_host FOLDER, with the stand-in for the compiler library */
#include <halyard.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if HY_VERSION != 1000
#error "This is not the header of 0.1.0."
#endif

static void Require(int holds, int line) {
  if (holds) return;
  const hy_string why = hy_last_error();
  fprintf(stderr, "line %d: %.*s\n", line, (int)why.size, why.data);
  exit(EXIT_FAILURE);
}
#define REQUIRE(condition) Require((condition), __LINE__)
#define REQUIRE_OK(call) Require((call) == HY_OK, __LINE__)

static hy_string View(const char* text) {
  const hy_string view = {text, strlen(text)};
  return view;
}
static int IsText(hy_string text, const char* wanted) {
  return text.size == strlen(wanted) && memcmp(text.data, wanted, text.size) == 0;
}
static hy_result Count(void* context, const void* data, size_t size_bytes) {
  (void)data;
  *(size_t*)context += size_bytes;
  return HY_OK;
}
static void Log(void* context, hy_log_level level, hy_string message) {
  (void)context;
  (void)level;
  (void)message;
}
static void AddOne(void* context) { ++*(int*)context; }

static void UseDevices(hy_instance_t* instance) {
  hy_driver_info drivers[16];
  for (size_t i = 0; i < 16; ++i) drivers[i] = (hy_driver_info)HY_DRIVER_INFO_INIT;
  size_t count = 16;
  REQUIRE_OK(hy_enumerate_drivers(instance, drivers, &count));
  int has_cpu = 0;
  for (size_t i = 0; i < count; ++i) {
    if (IsText(drivers[i].name, "cpu")) has_cpu = drivers[i].status == HY_OK && drivers[i].device_count > 0;
  }
  REQUIRE(has_cpu);
  hy_device_info devices[16];
  for (size_t i = 0; i < 16; ++i) devices[i] = (hy_device_info)HY_DEVICE_INFO_INIT;
  count = 16;
  REQUIRE_OK(hy_enumerate_devices(instance, devices, &count));
  REQUIRE(count > 0);
  hy_device_t* device = NULL;
  REQUIRE_OK(hy_device_open(instance, View("cpu:0"), &device));
  hy_device_info info = HY_DEVICE_INFO_INIT;
  REQUIRE_OK(hy_device_get_info(device, &info));
  REQUIRE(info.kind == HY_DEVICE_KIND_CPU && info.buffer_alignment > 0 && IsText(info.path, "cpu:0"));
  size_t written = 0;
  REQUIRE_OK(hy_device_report(device, HY_FORMAT_TEXT, Count, &written));
  REQUIRE(written > 0);
  hy_buffer_t* buffer = NULL;
  void* mapped = NULL;
  REQUIRE_OK(hy_buffer_create(device, 256, &buffer));
  REQUIRE_OK(hy_buffer_map(buffer, &mapped));
  memset(mapped, 1, 256);
  hy_buffer_t* imported = NULL;
  int released = 0;
  REQUIRE_OK(hy_buffer_import(device, mapped, 64, AddOne, &released, &imported));
  hy_buffer_release(imported);
  REQUIRE(released == 1);
  hy_buffer_release(buffer);
  hy_device_release(device);
}

static void UseGraphs(hy_instance_t* instance) {
  hy_graph_t* graph = NULL;
  REQUIRE_OK(hy_graph_create(instance, &graph));
  REQUIRE_OK(hy_graph_symbol(graph, View("n"), 1, 64, 1));
  hy_value x = HY_VALUE_NONE, w = HY_VALUE_NONE, y = HY_VALUE_NONE;
  REQUIRE_OK(hy_graph_input(graph, View("x"), HY_DTYPE_F32, View("n, 2"), &x));
  const int64_t dims[1] = {2};
  const float weights[2] = {1, 2};
  REQUIRE_OK(hy_graph_constant(graph, View("w"), HY_DTYPE_F32, dims, 1, weights, sizeof(weights), NULL, NULL, &w));
  hy_graph_attribute axis = HY_GRAPH_ATTRIBUTE_INIT;
  axis.name = View("axis");
  axis.kind = HY_ATTRIBUTE_INT;
  axis.int_value = 1;
  const hy_value operands[2] = {x, w};
  REQUIRE_OK(hy_graph_op(graph, View("add"), View("sum"), operands, 2, &axis, 1, &y, 1));
  REQUIRE_OK(hy_graph_output(graph, View("y"), y));
  REQUIRE_OK(hy_graph_verify(graph));
  hy_graph_release(graph);
}

static hy_program_t* UsePrograms(hy_instance_t* instance, const char* folder) {
  const char model[] = "copy";
  hy_compile_desc desc = HY_COMPILE_DESC_INIT;
  desc.onnx_data = model;
  desc.onnx_size_bytes = sizeof(model) - 1;
  desc.disable_tuning = 1;
  desc.disable_cache = 1;
  hy_program_t* compiled = NULL;
  REQUIRE_OK(hy_program_compile(instance, &desc, &compiled));
  char path[4096];
  REQUIRE(snprintf(path, sizeof(path), "%s/oldest_host.hyp", folder) < (int)sizeof(path));
  REQUIRE_OK(hy_program_save(compiled, View(path)));
  hy_program_release(compiled);
  hy_program_load_desc load = HY_PROGRAM_LOAD_DESC_INIT;
  load.path = View(path);
  load.verify_data = 1;
  hy_program_t* program = NULL;
  REQUIRE_OK(hy_program_check(instance, &load));
  REQUIRE_OK(hy_program_load(instance, &load, &program));
  hy_tensor_info input = HY_TENSOR_INFO_INIT;
  size_t count = 1;
  REQUIRE_OK(hy_program_io(program, HY_IO_INPUT, &input, &count));
  REQUIRE(count == 1 && IsText(input.name, "x") && input.dtype == HY_DTYPE_F32 && input.rank == 1);
  REQUIRE(input.dims[0] == -1 && IsText(input.shape, "n"));
  hy_symbol_info symbol = HY_SYMBOL_INFO_INIT;
  REQUIRE_OK(hy_program_symbols(program, &symbol, &count));
  REQUIRE(count == 1 && IsText(symbol.name, "n") && symbol.min == 0 && symbol.multiple_of == 1);
  const hy_symbol_value value = {View("n"), 10};
  hy_memory_info memory = HY_MEMORY_INFO_INIT;
  REQUIRE_OK(hy_program_memory(program, &value, 1, &memory, &count));
  REQUIRE(count == 1 && memory.activation_bytes == 40 && memory.io_bytes == 80);
  size_t written = 0;
  REQUIRE_OK(hy_program_report(program, HY_REPORT_ALL, HY_FORMAT_JSON, Count, &written));
  REQUIRE(written > 0);
  return program;
}

static void UseSessions(hy_program_t* program) {
  hy_session_desc desc = HY_SESSION_DESC_INIT;
  desc.on_new_shapes = HY_NEW_SHAPES_GENERIC;
  desc.memory_limit_bytes = 1 << 20;
  hy_session_t* session = NULL;
  REQUIRE_OK(hy_session_create(program, &desc, &session));
  float x[3] = {1, 2, 3}, y[3] = {0, 0, 0};
  hy_tensor in = HY_TENSOR_INIT, out = HY_TENSOR_INIT;
  in.dtype = HY_DTYPE_F32;
  in.rank = 1;
  in.dims[0] = 3;
  in.data = x;
  in.size_bytes = sizeof(x);
  out.data = y;
  out.size_bytes = sizeof(y);
  REQUIRE_OK(hy_session_run(session, &in, 1, &out, 1));
  REQUIRE(memcmp(x, y, sizeof(x)) == 0 && out.rank == 1 && out.dims[0] == 3);
  out = (hy_tensor)HY_TENSOR_INIT;
  hy_event_t* event = NULL;
  REQUIRE_OK(hy_session_submit(session, &in, 1, &out, 1, &event));
  REQUIRE_OK(hy_event_wait(event, HY_WAIT_FOREVER));
  REQUIRE_OK(hy_event_status(event));
  REQUIRE(out.size_bytes == sizeof(x) && memcmp(x, out.data, sizeof(x)) == 0);
  hy_event_release(event);
  in.dtype = HY_DTYPE_I64;
  REQUIRE(hy_session_run(session, &in, 1, &out, 1) == HY_INVALID_ARGUMENT);
  REQUIRE(hy_last_error().size > 0);
  hy_session_release(session);
}

int main(int argc, char** argv) {
  if (argc != 2) return EXIT_FAILURE;
  REQUIRE(hy_version() >= HY_VERSION);
  REQUIRE(IsText(hy_result_name(HY_DEVICE_LOST), "DEVICE_LOST"));
  hy_api api;
  memset(&api, 0, sizeof(api));
  api.struct_size = sizeof(api);
  api.type = HY_STRUCT_API;
  REQUIRE_OK(hy_get_api(&api));
  REQUIRE(api.version() == hy_version() && api.session_run != NULL && api.event_release != NULL);
  hy_instance_desc desc = HY_INSTANCE_DESC_INIT;
  desc.log = Log;
  desc.log_level = HY_LOG_DEBUG;
  desc.on_missing_device = HY_POLICY_FALLBACK;
  desc.cache_folder = View("off");
  hy_instance_t* instance = NULL;
  REQUIRE_OK(api.instance_create(&desc, &instance));
  UseDevices(instance);
  UseGraphs(instance);
  hy_program_t* program = UsePrograms(instance, argv[1]);
  UseSessions(program);
  hy_program_release(program);
  hy_instance_release(instance);
  return EXIT_SUCCESS;
}
