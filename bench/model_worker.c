/* SPDX-License-Identifier: Apache-2.0 */
/* model_worker: keeps one model loaded through halyard.h and times runs when told to. It is one
 * side of bench/compare_models.py: it sleeps on stdin while a rival runs.
 *
 *   model_worker MODEL.onnx [--device PATH] [--no-tune] [--symbol NAME=VALUE]...
 *
 * Prints "ready SECONDS" (compile or cache hit), then for each line "run N" one line of N latencies
 * in nanoseconds, and for each line "probe" the GB/s that one core reads from its L1 cache. Inputs
 * are random, made once. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "halyard.h"

#define MOST_TENSORS 16
#define MOST_SYMBOLS 8

static void Check(hy_result result, const char* what) {
  if (result == HY_OK) return;
  const hy_string error = hy_last_error();
  fprintf(stderr, "model_worker: %s: %.*s\n", what, (int)error.size, error.data);
  exit(1);
}

static int64_t NowNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static uint64_t NextRandom(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* Floats uniform in [-1, 1]; integers in [0, 2): valid as token, mask and type ids alike. */
static void FillRandom(hy_tensor* tensor, size_t elements) {
  uint64_t state = 42;
  for (size_t i = 0; i < elements; ++i) {
    const uint64_t bits = NextRandom(&state);
    switch (tensor->dtype) {
      case HY_DTYPE_F32:
        ((float*)tensor->data)[i] = (float)(bits >> 40) / 8388608.0f - 1.0f;
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

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(
        stderr,
        "usage: model_worker MODEL.onnx [--device PATH] [--no-tune] [--symbol NAME=VALUE]...\n");
    return 1;
  }
  hy_string device_path = HY_STRING("cpu:0");
  hy_symbol_value symbols[MOST_SYMBOLS];
  size_t symbol_count = 0;
  uint32_t disable_tuning = 0;
  for (int i = 2; i < argc; ++i) {
    if (strcmp(argv[i], "--no-tune") == 0) {
      disable_tuning = 1;
    } else if (strcmp(argv[i], "--device") == 0 && i + 1 < argc) {
      device_path = (hy_string){argv[i + 1], strlen(argv[i + 1])};
      ++i;
    } else if (strcmp(argv[i], "--symbol") == 0 && i + 1 < argc && symbol_count < MOST_SYMBOLS) {
      char* equals = strchr(argv[++i], '=');
      if (equals == NULL) return 1;
      symbols[symbol_count].name = (hy_string){argv[i], (size_t)(equals - argv[i])};
      symbols[symbol_count++].value = strtoll(equals + 1, NULL, 10);
    }
  }

  const int64_t start = NowNs();
  hy_instance_t* instance = NULL;
  hy_device_t* device = NULL;
  hy_program_t* program = NULL;
  hy_session_t* session = NULL;
  Check(hy_instance_create(NULL, &instance), "instance");
  Check(hy_device_open(instance, device_path, &device), "device");
  hy_compile_desc desc = HY_COMPILE_DESC_INIT;
  desc.onnx_path = (hy_string){argv[1], strlen(argv[1])};
  desc.devices = &device;
  desc.device_count = 1;
  desc.symbols = symbols;
  desc.symbol_count = symbol_count;
  desc.disable_tuning = disable_tuning;
  Check(hy_program_compile(instance, &desc, &program), "compile");
  Check(hy_session_create(program, NULL, &session), "session");

  hy_tensor_info infos[MOST_TENSORS];
  hy_tensor inputs[MOST_TENSORS], outputs[MOST_TENSORS];
  for (int i = 0; i < MOST_TENSORS; ++i) {
    infos[i] = (hy_tensor_info)HY_TENSOR_INFO_INIT;
    inputs[i] = outputs[i] = (hy_tensor)HY_TENSOR_INIT;
  }
  size_t input_count = MOST_TENSORS, output_count = MOST_TENSORS;
  Check(hy_program_io(program, HY_IO_OUTPUT, infos, &output_count), "outputs");
  Check(hy_program_io(program, HY_IO_INPUT, infos, &input_count), "inputs");
  for (size_t i = 0; i < input_count; ++i) {
    hy_tensor* tensor = &inputs[i];
    size_t elements = 1;
    tensor->dtype = infos[i].dtype;
    tensor->rank = infos[i].rank;
    for (uint32_t d = 0; d < tensor->rank; ++d) {
      tensor->dims[d] = infos[i].dims[d] < 0 ? 1 : infos[i].dims[d];
      elements *= (size_t)tensor->dims[d];
    }
    tensor->size_bytes = elements * (tensor->dtype == HY_DTYPE_I64    ? 8
                                     : tensor->dtype == HY_DTYPE_BOOL ? 1
                                                                      : 4);
    if (posix_memalign(&tensor->data, 64, tensor->size_bytes + 1) != 0) return 1;
    FillRandom(tensor, elements);
  }
  for (int i = 0; i < 2; ++i) {
    Check(hy_session_run(session, inputs, input_count, outputs, output_count), "run");
  }
  printf("ready %.3f\n", (double)(NowNs() - start) / 1e9);
  fflush(stdout);

  char line[64];
  while (fgets(line, sizeof line, stdin) != NULL) {
    if (strncmp(line, "probe", 5) == 0) {
      printf("%.1f\n", ProbeL1());
      fflush(stdout);
      continue;
    }
    const long runs = strncmp(line, "run ", 4) == 0 ? strtol(line + 4, NULL, 10) : 0;
    if (runs <= 0) break;
    for (long i = 0; i < runs; ++i) {
      const int64_t before = NowNs();
      Check(hy_session_run(session, inputs, input_count, outputs, output_count), "run");
      printf(i + 1 < runs ? "%" PRId64 " " : "%" PRId64 "\n", NowNs() - before);
    }
    fflush(stdout);
  }
  for (size_t i = 0; i < input_count; ++i) free(inputs[i].data);
  hy_session_release(session);
  hy_program_release(program);
  hy_device_release(device);
  hy_instance_release(instance);
  return 0;
}
