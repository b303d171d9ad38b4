/* SPDX-License-Identifier: Apache-2.0 */
/* model_worker: keeps one model loaded through halyard.h and times runs when told to. It is one
 * side of bench/compare_models.py and of bench/compare: it sleeps on stdin while a rival runs.
 *
 *   model_worker MODEL.onnx [--device PATH] [--no-tune] [--no-vendor-libs] [--precision fp16]
 *                [--io-precision fp16] [--symbol NAME=VALUE]... [--inputs FOLDER] [--on-device]
 *
 * Prints "ready SECONDS" (compile or cache hit) and answers each line with one:
 *
 *   run N
 *     N latencies in nanoseconds. Of hy_session_run with tensors in host memory; with --on-device,
 *     of runs queued one behind another with tensors in device memory, each by the device's clock.
 *   warm MS
 *     As many runs as fit, and their number.
 *   write FOLDER
 *     output_I.bin: the outputs of the last run, row-major; "written".
 *   probe
 *     GB/s that one core reads from its L1 cache.
 *
 * Inputs are those of FOLDER (input_I.bin, row-major), or random; made once. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PROGRAM_NAME "model_worker"
#include "host_program.h"

#define MOST_TENSORS 16
#define MOST_SYMBOLS 8
#define MOST_RUNS 4096

static uint64_t NextRandom(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* Floats uniform in [-1, 1], of f16 those from 0.5 on; integers in [0, 2): valid as token, mask and
 * type ids alike. */
static void FillRandom(hy_tensor* tensor, size_t elements) {
  uint64_t state = 42;
  for (size_t i = 0; i < elements; ++i) {
    const uint64_t bits = NextRandom(&state);
    switch (tensor->dtype) {
      case HY_DTYPE_F32:
        ((float*)tensor->data)[i] = (float)(bits >> 40) / 8388608.0f - 1.0f;
        break;
      case HY_DTYPE_F16: /* a sign, and a magnitude in [0.5, 1) */
        ((uint16_t*)tensor->data)[i] = (uint16_t)(0x3800 | (bits & 0x83ff));
        break;
      case HY_DTYPE_I64:
        ((int64_t*)tensor->data)[i] = (int64_t)(bits & 1);
        break;
      case HY_DTYPE_I32:
        ((int32_t*)tensor->data)[i] = (int32_t)(bits & 1);
        break;
      case HY_DTYPE_BOOL:
        ((uint8_t*)tensor->data)[i] = (uint8_t)(bits & 1);
        break;
      default:
        fprintf(stderr, "model_worker: no random data for dtype %d\n", tensor->dtype);
        exit(1);
    }
  }
}

typedef uint32_t Wide __attribute__((vector_size(64)));

/* Reads 16 KB `repeats` times, in four sums so that no addition waits for another. */
__attribute__((target_clones("avx512f", "avx2", "default"))) static uint32_t ReadL1(
    const Wide* data, int repeats) {
  Wide sums[4] = {{0}, {0}, {0}, {0}};
  for (int r = 0; r < repeats; ++r) {
    for (int i = 0; i < 256; i += 4) {
      sums[0] += data[i];
      sums[1] += data[i + 1];
      sums[2] += data[i + 2];
      sums[3] += data[i + 3];
    }
    /* The next round reads again. */
    __asm__ volatile("" ::: "memory");
  }
  const Wide sum = sums[0] + sums[1] + sums[2] + sums[3];
  uint32_t total = 0;
  for (int lane = 0; lane < 16; ++lane) total += sum[lane];
  return total;
}

/* The median of nine samples of some 50 us. */
static double ProbeL1(void) {
  enum { kRepeats = 1000, kSamples = 9 };
  static Wide data[256];
  static volatile uint32_t sink;
  double rates[kSamples];
  for (int i = 0; i < kSamples; ++i) {
    const int64_t start = NowNs();
    sink = ReadL1(data, kRepeats);
    double rate = (double)sizeof data * kRepeats / (double)(NowNs() - start);
    for (int j = 0; j < i; ++j) {
      if (rates[j] <= rate) continue;
      const double larger = rates[j];
      rates[j] = rate;
      rate = larger;
    }
    rates[i] = rate;
  }
  (void)sink;
  return rates[kSamples / 2];
}

static size_t ElementBytes(hy_dtype dtype) {
  switch (dtype) {
    case HY_DTYPE_BOOL:
      return 1;
    case HY_DTYPE_F16:
      return 2;
    case HY_DTYPE_I64:
      return 8;
    default:
      return 4;
  }
}

/* Reads or writes a whole file of exactly `size` bytes. */
static void MoveFile(const char* folder, const char* kind, size_t index, int is_write, void* data,
                     size_t size) {
  char path[4096];
  const int length = snprintf(path, sizeof path, "%s/%s_%zu.bin", folder, kind, index);
  if (length < 0 || (size_t)length >= sizeof path) {
    fprintf(stderr, "model_worker: the folder's name is too long.\n");
    exit(1);
  }
  FILE* file = fopen(path, is_write ? "wb" : "rb");
  if (file == NULL ||
      (is_write ? fwrite(data, 1, size, file) : fread(data, 1, size, file)) != size ||
      (!is_write && fgetc(file) != EOF) || fclose(file) != 0) {
    fprintf(stderr, "model_worker: '%s' cannot be %s with exactly %zu bytes.\n", path,
            is_write ? "written" : "read", size);
    exit(1);
  }
}

/* What the command line asks for. */
typedef struct Options {
  const char* model;
  const char* device;
  const char* inputs; /* NULL: random */
  int on_device;
  uint32_t disable_tuning;
  hy_vendor_libraries vendor_libraries;
  hy_precision precision, io_precision;
  hy_symbol_value symbols[MOST_SYMBOLS];
  size_t symbol_count;
} Options;

typedef struct Worker {
  Options options;
  hy_instance_t* instance;
  hy_device_t* device;
  hy_program_t* program;
  hy_session_t* session;
  hy_tensor inputs[MOST_TENSORS], outputs[MOST_TENSORS];
  size_t input_count, output_count;
  hy_event_t* events[MOST_RUNS];
} Worker;

static int ParsePrecision(const char* word, hy_precision* out) {
  *out = strcmp(word, "fp16") == 0 ? HY_PRECISION_F16 : HY_PRECISION_AS_GIVEN;
  return *out == HY_PRECISION_F16 || strcmp(word, "fp32") == 0;
}

static int ParseOptions(int argc, char** argv, Options* options) {
  if (argc < 2) return 0;
  options->model = argv[1];
  options->device = "cpu:0";
  for (int i = 2; i < argc; ++i) {
    const char* value = i + 1 < argc ? argv[i + 1] : NULL;
    if (strcmp(argv[i], "--no-tune") == 0) {
      options->disable_tuning = 1;
      continue;
    }
    if (strcmp(argv[i], "--no-vendor-libs") == 0) {
      options->vendor_libraries = HY_VENDOR_LIBRARIES_OFF;
      continue;
    }
    if (strcmp(argv[i], "--vendor-libs") == 0) {
      options->vendor_libraries = HY_VENDOR_LIBRARIES_RACE;
      continue;
    }
    if (strcmp(argv[i], "--on-device") == 0) {
      options->on_device = 1;
      continue;
    }
    if (value == NULL) return 0;
    if (strcmp(argv[i], "--device") == 0) {
      options->device = value;
    } else if (strcmp(argv[i], "--inputs") == 0) {
      options->inputs = value;
    } else if (strcmp(argv[i], "--precision") == 0) {
      if (!ParsePrecision(value, &options->precision)) return 0;
    } else if (strcmp(argv[i], "--io-precision") == 0) {
      if (!ParsePrecision(value, &options->io_precision)) return 0;
    } else if (strcmp(argv[i], "--symbol") == 0 && options->symbol_count < MOST_SYMBOLS) {
      const char* equals = strchr(value, '=');
      if (equals == NULL) return 0;
      hy_symbol_value* symbol = &options->symbols[options->symbol_count++];
      symbol->name = (hy_string){value, (size_t)(equals - value)};
      symbol->value = strtoll(equals + 1, NULL, 10);
    } else {
      return 0;
    }
    ++i;
  }
  return 1;
}

static void Open(Worker* worker) {
  const Options* options = &worker->options;
  Check(hy_instance_create(NULL, &worker->instance), "instance");
  Check(hy_device_open(worker->instance, (hy_string){options->device, strlen(options->device)},
                       &worker->device),
        "device");
  hy_compile_desc desc = HY_COMPILE_DESC_INIT;
  desc.onnx_path = (hy_string){options->model, strlen(options->model)};
  desc.devices = &worker->device;
  desc.device_count = 1;
  desc.symbols = options->symbols;
  desc.symbol_count = options->symbol_count;
  desc.disable_tuning = options->disable_tuning;
  desc.precision = options->precision;
  desc.io_precision = options->io_precision;
  desc.vendor_libraries = options->vendor_libraries;
  Check(hy_program_compile(worker->instance, &desc, &worker->program), "compile");
  hy_session_desc session = HY_SESSION_DESC_INIT;
  session.time_runs = (uint32_t)options->on_device;
  Check(hy_session_create(worker->program, &session, &worker->session), "session");
}

/* Gives `tensor` the type of `info` and returns its size; open sizes are 1. */
static size_t Describe(const hy_tensor_info* info, hy_tensor* tensor, size_t* out_elements) {
  *tensor = (hy_tensor)HY_TENSOR_INIT;
  *out_elements = 1;
  tensor->dtype = info->dtype;
  tensor->rank = info->rank;
  for (uint32_t d = 0; d < tensor->rank; ++d) {
    tensor->dims[d] = info->dims[d] < 0 ? 1 : info->dims[d];
    *out_elements *= (size_t)tensor->dims[d];
  }
  return *out_elements * ElementBytes(tensor->dtype);
}

static void MoveToDevice(const Worker* worker, hy_tensor* tensor, size_t size_bytes) {
  hy_buffer_desc desc = HY_BUFFER_DESC_INIT;
  desc.size_bytes = size_bytes;
  desc.memory = HY_MEMORY_DEVICE;
  Check(hy_buffer_create_from(worker->device, &desc, &tensor->buffer), "buffer");
  if (tensor->data != NULL)
    Check(hy_buffer_write(tensor->buffer, 0, tensor->data, size_bytes), "write");
  free(tensor->data);
  tensor->data = NULL;
}

static void MakeTensors(Worker* worker) {
  hy_tensor_info infos[MOST_TENSORS];
  size_t elements;
  for (int i = 0; i < MOST_TENSORS; ++i) infos[i] = (hy_tensor_info)HY_TENSOR_INFO_INIT;
  worker->output_count = worker->input_count = MOST_TENSORS;
  Check(hy_program_io(worker->program, HY_IO_OUTPUT, infos, &worker->output_count), "outputs");
  for (size_t i = 0; i < worker->output_count; ++i) {
    hy_tensor* tensor = &worker->outputs[i];
    const size_t size_bytes = Describe(&infos[i], tensor, &elements);
    if (!worker->options.on_device) continue;
    tensor->size_bytes = size_bytes;
    MoveToDevice(worker, tensor, size_bytes);
  }
  Check(hy_program_io(worker->program, HY_IO_INPUT, infos, &worker->input_count), "inputs");
  for (size_t i = 0; i < worker->input_count; ++i) {
    hy_tensor* tensor = &worker->inputs[i];
    tensor->size_bytes = Describe(&infos[i], tensor, &elements);
    if (posix_memalign(&tensor->data, 64, tensor->size_bytes + 1) != 0) exit(1);
    if (worker->options.inputs != NULL) {
      MoveFile(worker->options.inputs, "input", i, 0, tensor->data, tensor->size_bytes);
    } else {
      FillRandom(tensor, elements);
    }
    if (worker->options.on_device) MoveToDevice(worker, tensor, tensor->size_bytes);
  }
}

/* One latency for each of `count` runs. */
static void Run(Worker* worker, int64_t* latencies, long count) {
  const int on_device = worker->options.on_device;
  for (long i = 0; i < count; ++i) {
    const int64_t before = NowNs();
    if (on_device) {
      Check(hy_session_submit(worker->session, worker->inputs, worker->input_count, worker->outputs,
                              worker->output_count, &worker->events[i]),
            "submit");
    } else {
      Check(hy_session_run(worker->session, worker->inputs, worker->input_count, worker->outputs,
                           worker->output_count),
            "run");
      latencies[i] = NowNs() - before;
    }
  }
  for (long i = 0; on_device && i < count; ++i) {
    Check(hy_event_wait(worker->events[i], HY_WAIT_FOREVER), "wait");
    Check(hy_event_device_time(worker->events[i], &latencies[i]), "device time");
    hy_event_release(worker->events[i]);
  }
}

static void WriteOutputs(const Worker* worker, const char* folder) {
  for (size_t i = 0; i < worker->output_count; ++i) {
    const hy_tensor* tensor = &worker->outputs[i];
    void* data = tensor->data;
    if (tensor->buffer != NULL) {
      data = malloc(tensor->size_bytes + 1);
      if (data == NULL) exit(1);
      Check(hy_buffer_read(tensor->buffer, 0, data, tensor->size_bytes), "read");
    }
    MoveFile(folder, "output", i, 1, data, tensor->size_bytes);
    if (tensor->buffer != NULL) free(data);
  }
}

int main(int argc, char** argv) {
  static Worker worker;
  static int64_t latencies[MOST_RUNS];
  static char line[4096];
  if (!ParseOptions(argc, argv, &worker.options)) {
    fprintf(
        stderr,
        "usage: model_worker MODEL.onnx [--device PATH] [--no-tune] [--no-vendor-libs] "
        "[--precision "
        "fp16|fp32] "
        "[--io-precision fp16|fp32] [--symbol NAME=VALUE]... [--inputs FOLDER] [--on-device]\n");
    return 1;
  }
  const int64_t start = NowNs();
  Open(&worker);
  MakeTensors(&worker);
  Run(&worker, latencies, 2);
  printf("ready %.3f\n", (double)(NowNs() - start) / 1e9);
  fflush(stdout);

  while (fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    const long number = strtol(line + strcspn(line, " "), NULL, 10);
    if (strcmp(line, "probe") == 0) {
      printf("%.1f\n", ProbeL1());
    } else if (strncmp(line, "write ", 6) == 0) {
      WriteOutputs(&worker, line + 6);
      printf("written\n");
    } else if (strncmp(line, "warm ", 5) == 0) {
      long runs = 0;
      for (const int64_t end = NowNs() + number * 1000000; NowNs() < end; runs += 16)
        Run(&worker, latencies, 16);
      printf("%ld\n", runs);
    } else if (strncmp(line, "run ", 4) == 0 && number > 0 && number <= MOST_RUNS) {
      Run(&worker, latencies, number);
      for (long i = 0; i < number; ++i)
        printf(i + 1 < number ? "%" PRId64 " " : "%" PRId64 "\n", latencies[i]);
    } else {
      break;
    }
    fflush(stdout);
  }
  for (size_t i = 0; i < worker.input_count; ++i) {
    free(worker.inputs[i].data);
    hy_buffer_release(worker.inputs[i].buffer);
  }
  for (size_t i = 0; i < worker.output_count; ++i) hy_buffer_release(worker.outputs[i].buffer);
  hy_session_release(worker.session);
  hy_program_release(worker.program);
  hy_device_release(worker.device);
  hy_instance_release(worker.instance);
  return 0;
}
