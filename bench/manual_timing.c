/* SPDX-License-Identifier: Apache-2.0 */
/* manual_timing: what a model takes by the host's clock around groups of runs, with nothing of
 * `halyard bench` between it and halyard.h; bench/agreement.sh sets both side by side.
 *
 *   manual_timing DEVICE PROGRAM SECONDS
 *
 * Prints two lines, each the median over groups of ten runs of a group's time by its runs, in
 * nanoseconds: "host N": one run after the other, inputs and outputs in the host's memory;
 * "device N": runs queued one behind the other, inputs and outputs in the device's memory. Each is
 * measured for SECONDS after a warm-up of a tenth of that. PROGRAM is what `halyard compile` wrote
 * for one device, so that both sides run the same kernels; sizes that it leaves open are 1. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PROGRAM_NAME "manual_timing"
#include "host_program.h"

enum { kMost = 64, kGroup = 10, kMostGroups = 100000 };

typedef struct Work {
  hy_device_t* device;
  hy_program_t* program;
  hy_session_t* session;
  hy_tensor inputs[kMost], outputs[kMost];
  size_t input_count, output_count;
  int on_device;
} Work;

/* Gives the tensor the type of `info` and data: floats in [0, 1), integers 0 and 1. */
static void Make(const hy_tensor_info* info, hy_tensor* tensor) {
  size_t elements = 1, width = 4;
  *tensor = (hy_tensor)HY_TENSOR_INIT;
  tensor->dtype = info->dtype;
  tensor->rank = info->rank;
  for (uint32_t d = 0; d < info->rank; ++d) {
    tensor->dims[d] = info->dims[d] < 0 ? 1 : info->dims[d];
    elements *= (size_t)tensor->dims[d];
  }
  if (info->dtype == HY_DTYPE_I64) width = 8;
  if (info->dtype == HY_DTYPE_F16) width = 2;
  if (info->dtype == HY_DTYPE_BOOL) width = 1;
  tensor->size_bytes = elements * width;
  tensor->data = calloc(elements + 1, width);
  if (tensor->data == NULL) exit(1);
  for (size_t i = 0; i < elements; ++i) {
    if (info->dtype == HY_DTYPE_F32) ((float*)tensor->data)[i] = (float)rand() / (float)RAND_MAX;
    if (info->dtype == HY_DTYPE_I64) ((int64_t*)tensor->data)[i] = rand() & 1;
    if (info->dtype == HY_DTYPE_I32) ((int32_t*)tensor->data)[i] = rand() & 1;
    if (info->dtype == HY_DTYPE_BOOL) ((uint8_t*)tensor->data)[i] = (uint8_t)(rand() & 1);
  }
}

static void MoveToDevice(const Work* work, hy_tensor* tensor) {
  hy_buffer_desc desc = HY_BUFFER_DESC_INIT;
  desc.size_bytes = tensor->size_bytes;
  desc.memory = HY_MEMORY_DEVICE;
  Check(hy_buffer_create_from(work->device, &desc, &tensor->buffer), "buffer");
  Check(hy_buffer_write(tensor->buffer, 0, tensor->data, tensor->size_bytes), "write");
  free(tensor->data);
  tensor->data = NULL;
}

static void RunGroup(Work* work) {
  hy_event_t* last = NULL;
  for (int i = 0; i < kGroup; ++i) {
    if (work->on_device) {
      hy_event_release(last);
      Check(hy_session_submit(work->session, work->inputs, work->input_count, work->outputs,
                              work->output_count, &last),
            "submit");
      continue;
    }
    /* The session's memory takes the outputs, as it does where nobody asks for another. */
    for (size_t o = 0; o < work->output_count; ++o) work->outputs[o] = (hy_tensor)HY_TENSOR_INIT;
    Check(hy_session_run(work->session, work->inputs, work->input_count, work->outputs,
                         work->output_count),
          "run");
  }
  if (last == NULL) return;
  Check(hy_event_wait(last, HY_WAIT_FOREVER), "wait");
  hy_event_release(last);
}

static int64_t MedianNs(Work* work, double seconds) {
  static int64_t times[kMostGroups];
  size_t count = 0;
  for (const int64_t end = NowNs() + (int64_t)(seconds * 1e8); NowNs() < end;) RunGroup(work);
  for (const int64_t end = NowNs() + (int64_t)(seconds * 1e9);
       count < 3 || (NowNs() < end && count < kMostGroups); ++count) {
    const int64_t start = NowNs();
    RunGroup(work);
    times[count] = (NowNs() - start) / kGroup;
  }
  qsort(times, count, sizeof times[0], CompareNs);
  return times[count / 2];
}

int main(int argc, char** argv) {
  static Work work;
  static hy_tensor_info infos[kMost];
  hy_instance_t* instance = NULL;
  const double seconds = argc == 4 ? strtod(argv[3], NULL) : 0;
  if (seconds <= 0) {
    fprintf(stderr, "usage: manual_timing DEVICE PROGRAM SECONDS\n");
    return 1;
  }
  Check(hy_instance_create(NULL, &instance), "instance");
  Check(hy_device_open(instance, (hy_string){argv[1], strlen(argv[1])}, &work.device), "device");
  hy_program_load_desc desc = HY_PROGRAM_LOAD_DESC_INIT;
  desc.path = (hy_string){argv[2], strlen(argv[2])};
  desc.devices = &work.device;
  desc.device_count = 1;
  Check(hy_program_load(instance, &desc, &work.program), "load");
  Check(hy_session_create(work.program, NULL, &work.session), "session");

  for (size_t i = 0; i < kMost; ++i) infos[i] = (hy_tensor_info)HY_TENSOR_INFO_INIT;
  work.input_count = work.output_count = kMost;
  Check(hy_program_io(work.program, HY_IO_INPUT, infos, &work.input_count), "inputs");
  for (size_t i = 0; i < work.input_count; ++i) Make(&infos[i], &work.inputs[i]);
  for (size_t i = 0; i < kMost; ++i) infos[i] = (hy_tensor_info)HY_TENSOR_INFO_INIT;
  Check(hy_program_io(work.program, HY_IO_OUTPUT, infos, &work.output_count), "outputs");
  printf("host %" PRId64 "\n", MedianNs(&work, seconds));

  work.on_device = 1;
  for (size_t i = 0; i < work.input_count; ++i) MoveToDevice(&work, &work.inputs[i]);
  for (size_t i = 0; i < work.output_count; ++i) {
    Make(&infos[i], &work.outputs[i]);
    MoveToDevice(&work, &work.outputs[i]);
  }
  printf("device %" PRId64 "\n", MedianNs(&work, seconds));

  for (size_t i = 0; i < work.input_count; ++i) hy_buffer_release(work.inputs[i].buffer);
  for (size_t i = 0; i < work.output_count; ++i) hy_buffer_release(work.outputs[i].buffer);
  hy_session_release(work.session);
  hy_program_release(work.program);
  hy_device_release(work.device);
  hy_instance_release(instance);
  return 0;
}
