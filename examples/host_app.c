/* SPDX-License-Identifier: Apache-2.0 */
/* A C program that runs a model: it lists the devices, compiles the model (or finds it in the cache), prints
 * where everything runs, and runs it once. Inputs are all ones; a size that is not fixed is taken as small as
 * the model allows.
 *
 *   cc host_app.c $(pkg-config --cflags --libs halyard) -o host_app && ./host_app model.onnx
 *
 * Installed where the system does not look, PREFIX/lib: also -Wl,-rpath,PREFIX/lib. */
#include <halyard.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TENSORS 64

static int Fail(const char* doing) {
  const hy_string why = hy_last_error();
  fprintf(stderr, "%s: %.*s\n", doing, (int)why.size, why.data);
  return EXIT_FAILURE;
}

static hy_result Print(void* context, const void* data, size_t size_bytes) {
  return fwrite(data, 1, size_bytes, (FILE*)context) == size_bytes ? HY_OK : HY_UNAVAILABLE;
}

static size_t ElementBytes(hy_dtype dtype) {
  switch (dtype) {
    case HY_DTYPE_BOOL: case HY_DTYPE_I8: case HY_DTYPE_U8: return 1;
    case HY_DTYPE_I16: case HY_DTYPE_U16: case HY_DTYPE_F16: case HY_DTYPE_BF16: return 2;
    case HY_DTYPE_I64: case HY_DTYPE_U64: case HY_DTYPE_F64: return 8;
    default: return 4;
  }
}

/* The value of an open size: the smallest that the program takes, and at least 1. */
static int64_t SizeOf(const hy_symbol_info* symbols, size_t count, hy_string name) {
  for (size_t i = 0; i < count; ++i) {
    if (symbols[i].name.size != name.size || memcmp(symbols[i].name.data, name.data, name.size)) continue;
    const int64_t least = symbols[i].min > 1 ? symbols[i].min : 1;
    return (least + symbols[i].multiple_of - 1) / symbols[i].multiple_of * symbols[i].multiple_of;
  }
  return 1;
}

/* Fills `tensor` with the shape of `info` and ones of its type. */
static int MakeInput(const hy_tensor_info* info, const hy_symbol_info* symbols, size_t symbol_count,
                     hy_tensor* tensor) {
  const char* dim = info->shape.data; /* "n, 3, 224, 224" */
  const char* end = info->shape.data + info->shape.size;
  size_t elements = 1;
  tensor->dtype = info->dtype;
  tensor->rank = info->rank;
  for (uint32_t d = 0; d < info->rank; ++d) {
    const char* stop = dim;
    while (stop < end && *stop != ',') ++stop;
    const hy_string name = {dim, (size_t)(stop - dim)};
    tensor->dims[d] = info->dims[d] >= 0 ? info->dims[d] : SizeOf(symbols, symbol_count, name);
    elements *= (size_t)tensor->dims[d];
    dim = stop + 2 < end ? stop + 2 : end;
  }
  tensor->size_bytes = elements * ElementBytes(info->dtype);
  tensor->data = calloc(1, tensor->size_bytes + 1);
  if (tensor->data == NULL) return 0;
  const float one = 1.0f;
  for (size_t i = 0; i < elements; ++i) {
    if (info->dtype == HY_DTYPE_F32) memcpy((float*)tensor->data + i, &one, sizeof(one));
    else ((unsigned char*)tensor->data)[i * ElementBytes(info->dtype)] = 1;
  }
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s MODEL.onnx\n", argv[0]);
    return EXIT_FAILURE;
  }
  hy_instance_t* instance = NULL;
  hy_program_t* program = NULL;
  hy_session_t* session = NULL;
  if (hy_instance_create(NULL, &instance) != HY_OK) return Fail("instance");

  hy_device_info devices[16];
  for (size_t i = 0; i < 16; ++i) devices[i] = (hy_device_info)HY_DEVICE_INFO_INIT;
  size_t device_count = 16;
  if (hy_enumerate_devices(instance, devices, &device_count) != HY_OK) return Fail("devices");
  for (size_t i = 0; i < device_count; ++i) {
    printf("device %.*s: %.*s\n", (int)devices[i].path.size, devices[i].path.data,
           (int)devices[i].name.size, devices[i].name.data);
  }

  hy_compile_desc desc = HY_COMPILE_DESC_INIT;
  desc.onnx_path.data = argv[1];
  desc.onnx_path.size = strlen(argv[1]);
  if (hy_program_compile(instance, &desc, &program) != HY_OK) return Fail(argv[1]);
  if (hy_program_report(program, HY_REPORT_PLACEMENT, HY_FORMAT_TEXT, Print, stdout) != HY_OK) {
    return Fail("report");
  }

  hy_tensor_info inputs[MAX_TENSORS];
  hy_symbol_info symbols[MAX_TENSORS];
  hy_tensor in[MAX_TENSORS], out[MAX_TENSORS];
  for (size_t i = 0; i < MAX_TENSORS; ++i) {
    inputs[i] = (hy_tensor_info)HY_TENSOR_INFO_INIT;
    symbols[i] = (hy_symbol_info)HY_SYMBOL_INFO_INIT;
    in[i] = out[i] = (hy_tensor)HY_TENSOR_INIT;
  }
  size_t input_count = MAX_TENSORS, symbol_count = MAX_TENSORS, output_count = 0;
  if (hy_program_io(program, HY_IO_INPUT, inputs, &input_count) != HY_OK) return Fail("inputs");
  if (hy_program_io(program, HY_IO_OUTPUT, NULL, &output_count) != HY_OK) return Fail("outputs");
  if (hy_program_symbols(program, symbols, &symbol_count) != HY_OK) return Fail("symbols");
  if (output_count > MAX_TENSORS) return EXIT_FAILURE;
  for (size_t i = 0; i < input_count; ++i) {
    if (!MakeInput(&inputs[i], symbols, symbol_count, &in[i])) return EXIT_FAILURE;
  }

  if (hy_session_create(program, NULL, &session) != HY_OK) return Fail("session");
  if (hy_session_run(session, in, input_count, out, output_count) != HY_OK) return Fail("run");
  for (size_t i = 0; i < output_count; ++i) {
    printf("output %zu: %zu bytes", i, out[i].size_bytes);
    if (out[i].dtype == HY_DTYPE_F32 && out[i].size_bytes >= sizeof(float)) {
      printf(", first element %g", (double)*(const float*)out[i].data);
    }
    printf("\n");
  }
  for (size_t i = 0; i < input_count; ++i) free(in[i].data);
  hy_session_release(session);
  hy_program_release(program);
  hy_instance_release(instance);
  return EXIT_SUCCESS;
}
