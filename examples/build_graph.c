/* SPDX-License-Identifier: Apache-2.0 */
/* A C program that builds a graph instead of reading a file: y = relu(x * W + b) for any number of
 * rows. It compiles the graph, runs it on 2 and on 3 rows and prints the first row of each result.
 * docs/ops.md lists the ops.
 *
 *   cc build_graph.c $(pkg-config --cflags --libs halyard) -o build_graph && ./build_graph */
#include <halyard.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IN = 4, OUT = 3, MOST_ROWS = 3 };

static hy_string Text(const char* text) {
  const hy_string view = {text, strlen(text)};
  return view;
}

static void Check(hy_result result, const char* doing) {
  if (result == HY_OK) return;
  const hy_string why = hy_last_error();
  fprintf(stderr, "%s: %.*s\n", doing, (int)why.size, why.data);
  exit(EXIT_FAILURE);
}

static hy_value Constant(hy_graph_t* graph, const char* name, const int64_t* dims, size_t rank,
                         const float* data) {
  hy_value value = HY_VALUE_NONE;
  size_t elements = 1;
  for (size_t d = 0; d < rank; ++d) elements *= (size_t)dims[d];
  Check(hy_graph_constant(graph, Text(name), HY_DTYPE_F32, dims, rank, data,
                          elements * sizeof(float), NULL, NULL, &value),
        name);
  return value;
}

static hy_value Op(hy_graph_t* graph, const char* op, const char* name, hy_value a, hy_value b) {
  const hy_value operands[] = {a, b};
  hy_value value = HY_VALUE_NONE;
  Check(hy_graph_op(graph, Text(op), Text(name), operands, 2, NULL, 0, &value, 1), name);
  return value;
}

/* No op repeats an operand by itself: this is how a row or a scalar gets the shape of a matrix. */
static hy_value Spread(hy_graph_t* graph, const char* name, hy_value operand, const char* shape) {
  hy_graph_attribute attribute = HY_GRAPH_ATTRIBUTE_INIT;
  hy_value value = HY_VALUE_NONE;
  attribute.name = Text("shape");
  attribute.kind = HY_ATTRIBUTE_EXPRS;
  attribute.string_value = Text(shape);
  Check(hy_graph_op(graph, Text("broadcast"), Text(name), &operand, 1, &attribute, 1, &value, 1),
        name);
  return value;
}

int main(void) {
  static const float kWeights[IN * OUT] = {1, 0, -1, 0, 1, -1, 1, 1, 0, 0, 1, -1};
  static const float kBias[OUT] = {0.5F, 0, 1}, kZero = 0;
  const int64_t weight_dims[] = {IN, OUT}, bias_dims[] = {OUT};
  hy_instance_t* instance = NULL;
  hy_graph_t* graph = NULL;
  hy_program_t* program = NULL;
  hy_session_t* session = NULL;
  hy_value x = HY_VALUE_NONE;
  Check(hy_instance_create(NULL, &instance), "instance");

  Check(hy_graph_create(instance, &graph), "graph");
  Check(hy_graph_symbol(graph, Text("rows"), 1, 1024, 1), "rows");
  Check(hy_graph_input(graph, Text("x"), HY_DTYPE_F32, Text("rows, 4"), &x), "x");
  const hy_value product =
      Op(graph, "matmul", "dense", x, Constant(graph, "weights", weight_dims, 2, kWeights));
  const hy_value bias =
      Spread(graph, "bias_rows", Constant(graph, "bias", bias_dims, 1, kBias), "rows, 3");
  const hy_value zero = Spread(graph, "zeros", Constant(graph, "zero", NULL, 0, &kZero), "rows, 3");
  const hy_value relu = Op(graph, "max", "relu", Op(graph, "add", "biased", product, bias), zero);
  Check(hy_graph_output(graph, Text("y"), relu), "y");
  Check(hy_graph_verify(graph), "verify");

  hy_compile_desc desc = HY_COMPILE_DESC_INIT;
  desc.graph = graph;
  Check(hy_program_compile(instance, &desc, &program), "compile");
  hy_graph_release(graph);
  Check(hy_session_create(program, NULL, &session), "session");
  for (int64_t rows = 2; rows <= MOST_ROWS; ++rows) {
    float input[MOST_ROWS * IN];
    for (size_t i = 0; i < MOST_ROWS * IN; ++i) input[i] = (float)i;
    hy_tensor in = HY_TENSOR_INIT, out = HY_TENSOR_INIT; /* of `out` the session tells all */
    in.dtype = HY_DTYPE_F32;
    in.rank = 2;
    in.dims[0] = rows;
    in.dims[1] = IN;
    in.data = input;
    in.size_bytes = (size_t)rows * IN * sizeof(float);
    Check(hy_session_run(session, &in, 1, &out, 1), "run");
    const float* y = out.data;
    printf("y [%d, %d]: %g %g %g\n", (int)out.dims[0], (int)out.dims[1], (double)y[0], (double)y[1],
           (double)y[2]);
  }
  hy_session_release(session);
  hy_program_release(program);
  hy_instance_release(instance);
  return EXIT_SUCCESS;
}
