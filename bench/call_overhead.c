/* SPDX-License-Identifier: Apache-2.0 */
/* call_overhead: what one hy_session_run costs when the model is a single small Add, through
 * halyard.h, with inputs and outputs in host memory.
 *
 *   call_overhead [RUNS]
 *
 * HALYARD_COMPILER_LIBRARY names the compiler library (build/release/lib/libhalyard_compiler.so).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PROGRAM_NAME "call_overhead"
#include "host_program.h"

#define ELEMENTS 16

/* A view of a C string. */
static hy_string Text(const char* text) { return (hy_string){text, strlen(text)}; }

int main(int argc, char** argv) {
  const long runs = argc > 1 ? strtol(argv[1], NULL, 10) : 200000;
  int64_t* times = malloc(sizeof(int64_t) * (size_t)(runs > 0 ? runs : 1));
  if (runs <= 0 || times == NULL) return 1;
  hy_instance_t* instance = NULL;
  hy_device_t* device = NULL;
  hy_graph_t* graph = NULL;
  hy_program_t* program = NULL;
  hy_session_t* session = NULL;
  hy_value values[2], sum;
  Check(hy_instance_create(NULL, &instance), "instance");
  Check(hy_device_open(instance, Text("cpu:0"), &device), "device");
  Check(hy_graph_create(instance, &graph), "graph");
  Check(hy_graph_input(graph, Text("a"), HY_DTYPE_F32, Text("16"), &values[0]), "input");
  Check(hy_graph_input(graph, Text("b"), HY_DTYPE_F32, Text("16"), &values[1]), "input");
  Check(hy_graph_op(graph, Text("add"), Text("sum"), values, 2, NULL, 0, &sum, 1), "op");
  Check(hy_graph_output(graph, Text("c"), sum), "output");
  hy_compile_desc desc = HY_COMPILE_DESC_INIT;
  desc.graph = graph;
  desc.devices = &device;
  desc.device_count = 1;
  Check(hy_program_compile(instance, &desc, &program), "compile");
  Check(hy_session_create(program, NULL, &session), "session");

  float data[3][ELEMENTS];
  hy_tensor tensors[3];
  for (int t = 0; t < 3; ++t) {
    tensors[t] = (hy_tensor)HY_TENSOR_INIT;
    tensors[t].dtype = HY_DTYPE_F32;
    tensors[t].rank = 1;
    tensors[t].dims[0] = ELEMENTS;
    tensors[t].data = data[t];
    tensors[t].size_bytes = sizeof data[t];
    for (int i = 0; i < ELEMENTS; ++i) data[t][i] = (float)(i + t);
  }
  for (long i = -1000; i < runs; ++i) {
    const int64_t start = NowNs();
    Check(hy_session_run(session, tensors, 2, &tensors[2], 1), "run");
    if (i >= 0) times[i] = NowNs() - start;
  }
  if (data[2][3] != data[0][3] + data[1][3]) {
    fprintf(stderr, "call_overhead: the sum is wrong.\n");
    return 1;
  }
  qsort(times, (size_t)runs, sizeof *times, CompareNs);
  printf(
      "%ld runs of one Add of %d floats: best %.2f us, median %.2f us, 99th percentile %.2f us\n",
      runs, ELEMENTS, (double)times[0] / 1e3, (double)times[runs / 2] / 1e3,
      (double)times[runs / 100 * 99] / 1e3);
  hy_session_release(session);
  hy_program_release(program);
  hy_graph_release(graph);
  hy_device_release(device);
  hy_instance_release(instance);
  free(times);
  return 0;
}
