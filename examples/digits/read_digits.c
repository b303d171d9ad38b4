/* SPDX-License-Identifier: Apache-2.0 */
/* Reads handwritten digits with the model beside it and shows what Halyard did: devices, placement,
 * fusion, memory and time. What ./demo runs; the smaller program to copy from is ../host_app.c.
 *
 * usage: read_digits FOLDER, the folder with digits.onnx and the .npy files; --help has the exit
 * statuses. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "halyard.h"

enum { SIDE = 8, PIXELS = SIDE * SIDE, CLASSES = 10, SHOWN_PER_ROW = 4, RUNS = 201 };

static const char kUsage[] = "usage: read_digits FOLDER\n";
static const char kHelp[] =
    "Reads handwritten digits with FOLDER/digits.onnx and shows the devices, the placement, the\n"
    "fusion groups, the time of each phase and the memory. FOLDER also holds the .npy files of\n"
    "images, labels and held-out digits: examples/digits of the repository is one.\n"
    "Exit status: 0 done; 1 wrong usage; 2 a file is bad; 3 Halyard failed; 4 fewer digits were\n"
    "read than the model is known to read.\n";

/* The accuracy that train.py states, in digits of the 360 held out. */
enum { KNOWN_RIGHT = 359 };

static int Check(hy_result result, const char* what) {
  if (result == HY_OK) return 1;
  const hy_string reason = hy_last_error();
  fprintf(stderr, "%s failed: %.*s\n", what, (int)reason.size, reason.data);
  return 0;
}

static double NowMs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* --- .npy files: enough for "<f4", "|u1" and "<i8"
 * -------------------------------------------- */

typedef struct Array {
  size_t count; /* elements */
  void* data;   /* malloc'ed */
} Array;

static int ReadArray(const char* folder, const char* name, const char* dtype, Array* out) {
  char path[4096];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  FILE* file = fopen(path, "rb");
  unsigned char start[10];
  char header[1024] = {0};
  const char* shape = NULL;
  size_t length = 0;
  if (file && fread(start, 1, 10, file) == 10 && memcmp(start, "\x93NUMPY\x01", 7) == 0) {
    length = start[8] + 256u * start[9];
    if (length < sizeof(header) && fread(header, 1, length, file) == length &&
        strstr(header, "'fortran_order': False") && strstr(header, dtype)) {
      shape = strstr(header, "'shape': (");
    }
  }
  out->count = 1;
  for (const char* at = shape ? shape + 10 : ""; *at && *at != ')'; ++at) {
    char* end;
    const long dim = strtol(at, &end, 10);
    if (dim > 0 && out->count < 1u << 24) out->count *= (size_t)dim;
    at = end > at ? end - 1 : at;
  }
  const size_t element = dtype[2] == '1' ? 1 : dtype[2] == '4' ? 4 : 8;
  out->data = shape ? malloc(out->count * element) : NULL;
  const int ok = out->data && fread(out->data, element, out->count, file) == out->count;
  if (file) fclose(file);
  if (!ok) fprintf(stderr, "%s is not a .npy file of %s.\n", path, dtype);
  return ok;
}

/* --- What is printed
 * ------------------------------------------------------------------------------ */

static hy_result Write(void* to, const void* data, size_t size_bytes) {
  return fwrite(data, 1, size_bytes, (FILE*)to) == size_bytes ? HY_OK : HY_UNAVAILABLE;
}

/* A report begins with its name. */
static int PrintReport(hy_program_t* program, hy_report_kind kind) {
  printf("\n");
  return Check(hy_program_report(program, kind, HY_FORMAT_TEXT, Write, stdout), "A report");
}

static int PrintDevices(hy_instance_t* instance) {
  hy_driver_info drivers[16];
  hy_device_info devices[16];
  size_t driver_count = 16, device_count = 16;
  for (int i = 0; i < 16; ++i) {
    drivers[i] = (hy_driver_info)HY_DRIVER_INFO_INIT;
    devices[i] = (hy_device_info)HY_DEVICE_INFO_INIT;
  }
  if (!Check(hy_enumerate_drivers(instance, drivers, &driver_count), "Listing drivers") ||
      !Check(hy_enumerate_devices(instance, devices, &device_count), "Listing devices")) {
    return 0;
  }
  printf("devices\n");
  for (size_t i = 0; i < device_count; ++i) {
    hy_device_t* device;
    hy_device_info info = HY_DEVICE_INFO_INIT;
    if (!Check(hy_device_open(instance, devices[i].path, &device), "Opening a device")) return 0;
    const int ok = Check(hy_device_get_info(device, &info), "Asking a device");
    printf("  %-8.*s %.*s", (int)info.path.size, info.path.data, (int)info.name.size,
           info.name.data);
    /* -1 is unknown. */
    if (info.unit_count >= 0) printf(", %lld cores", (long long)info.unit_count);
    if (info.worker_count >= 0) printf(", %lld tasks at once", (long long)info.worker_count);
    if (info.memory_bytes >= 0) printf(", %.1f GiB", (double)info.memory_bytes / (1 << 30));
    printf("\n");
    hy_device_release(device);
    if (!ok) return 0;
  }
  for (size_t i = 0; i < driver_count; ++i) {
    if (drivers[i].status == HY_OK) continue;
    printf("  %-8.*s not here: %.*s\n", (int)drivers[i].name.size, drivers[i].name.data,
           (int)drivers[i].reason.size, drivers[i].reason.data);
  }
  return 1;
}

/* The class with the highest score, and its share among all by softmax. */
static int Winner(const float* scores, double* share) {
  int best = 0;
  double sum = 0;
  for (int c = 1; c < CLASSES; ++c) best = scores[c] > scores[best] ? c : best;
  for (int c = 0; c < CLASSES; ++c) sum += exp((double)scores[c] - scores[best]);
  *share = 1 / sum;
  return best;
}

static void PrintDigits(const float* images, const int64_t* labels, const float* scores,
                        size_t count) {
  static const char* const kShades[] = {"  ", "░░", "▒▒", "▓▓", "██"};
  printf("\ndigits, with what was read and the model's confidence\n");
  for (size_t first = 0; first < count; first += SHOWN_PER_ROW) {
    const size_t end = first + SHOWN_PER_ROW < count ? first + SHOWN_PER_ROW : count;
    printf("\n");
    for (int y = 0; y < SIDE; ++y) {
      for (size_t i = first; i < end; ++i) {
        for (int x = 0; x < SIDE; ++x) {
          const float shade = images[i * PIXELS + y * SIDE + x] * 4.0f + 0.5f;
          fputs(kShades[shade >= 0.0f && shade < 5.0f ? (int)shade : 0], stdout);
        }
        fputs(i + 1 < end ? "   " : "\n", stdout);
      }
    }
    for (size_t i = first; i < end; ++i) {
      double share;
      const int digit = Winner(scores + i * CLASSES, &share);
      printf("  %d  %5.1f%% %-7s%s", digit, 100 * share, digit == labels[i] ? "" : "WRONG",
             i + 1 < end ? "  " : "\n");
    }
  }
}

/* --- Running
 * -------------------------------------------------------------------------------------- */

/* Runs the model on images f32[count,1,8,8]; scores f32[count,10] is written. */
static int Run(hy_session_t* session, float* images, size_t count, float* scores) {
  hy_tensor input = HY_TENSOR_INIT, output = HY_TENSOR_INIT;
  input.dtype = HY_DTYPE_F32;
  input.rank = 4;
  input.dims[0] = (int64_t)count;
  input.dims[1] = 1;
  input.dims[2] = input.dims[3] = SIDE;
  input.data = images;
  input.size_bytes = count * PIXELS * sizeof(float);
  output.data = scores;
  output.size_bytes = count * CLASSES * sizeof(float);
  return Check(hy_session_run(session, &input, 1, &output, 1), "Running");
}

static int CompareDoubles(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* Reads the digits shown and those held out; 0 done, otherwise the exit status. */
static int ReadDigits(hy_session_t* session, const char* folder, double* first_run_ms) {
  Array shown, shown_labels, heldout, heldout_labels;
  if (!ReadArray(folder, "images.npy", "<f4", &shown) ||
      !ReadArray(folder, "labels.npy", "<i8", &shown_labels) ||
      !ReadArray(folder, "heldout_images.npy", "|u1", &heldout) ||
      !ReadArray(folder, "heldout_labels.npy", "<i8", &heldout_labels)) {
    return 2;
  }
  const size_t count = shown_labels.count, many = heldout_labels.count;
  if (shown.count != count * PIXELS || heldout.count != many * PIXELS) {
    fprintf(stderr, "The images and labels in %s differ in number.\n", folder);
    return 2;
  }
  float* images = malloc(heldout.count * sizeof(float));
  float* scores = malloc((many > count ? many : count) * CLASSES * sizeof(float));
  double times_ms[RUNS];
  if (!images || !scores) return 3;
  for (int run = 0; run < RUNS; ++run) {
    const double start = NowMs();
    if (!Run(session, shown.data, count, scores)) return 3;
    times_ms[run] = NowMs() - start;
  }
  *first_run_ms = times_ms[0];
  PrintDigits(shown.data, shown_labels.data, scores, count);
  qsort(times_ms, RUNS, sizeof(double), CompareDoubles);

  for (size_t i = 0; i < heldout.count; ++i) images[i] = ((uint8_t*)heldout.data)[i] / 16.0f;
  const double start = NowMs();
  if (!Run(session, images, many, scores)) return 3;
  const double many_ms = NowMs() - start;
  size_t right = 0;
  for (size_t i = 0; i < many; ++i) {
    double share;
    right += Winner(scores + i * CLASSES, &share) == ((int64_t*)heldout_labels.data)[i];
  }
  printf("\nRead %zu of %zu digits that the model was not trained on (%.1f%%) in %.2f ms.\n", right,
         many, 100.0 * (double)right / (double)many, many_ms);
  printf("Reading %zu digits takes %.3f ms (median of %d; the first took %.3f ms).\n", count,
         times_ms[RUNS / 2], RUNS, *first_run_ms);
  free(shown.data);
  free(shown_labels.data);
  free(heldout.data);
  free(heldout_labels.data);
  free(images);
  free(scores);
  return right < KNOWN_RIGHT ? 4 : 0;
}

int main(int argc, char** argv) {
  if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
    printf("%s%s", kUsage, kHelp);
    return 0;
  }
  if (argc != 2 || argv[1][0] == '-') {
    fprintf(stderr, "%s", kUsage);
    return 1;
  }
  char path[4096];
  snprintf(path, sizeof(path), "%s/digits.onnx", argv[1]);
  hy_instance_t* instance = NULL;
  hy_program_t* program = NULL;
  hy_session_t* session = NULL;
  hy_compile_desc desc = HY_COMPILE_DESC_INIT;
  desc.onnx_path = (hy_string){path, strlen(path)};
  int status = 3;
  const double start = NowMs();
  if (Check(hy_instance_create(NULL, &instance), "Opening Halyard") && PrintDevices(instance) &&
      Check(hy_program_compile(instance, &desc, &program), "Compiling") &&
      Check(hy_session_create(program, NULL, &session), "Making a session")) {
    const double ready_ms = NowMs() - start;
    double first_run_ms = 0;
    status = ReadDigits(session, argv[1], &first_run_ms);
    if (status != 2 &&
        (!PrintReport(program, HY_REPORT_PLACEMENT) || !PrintReport(program, HY_REPORT_FUSION) ||
         !PrintReport(program, HY_REPORT_PHASES) || !PrintReport(program, HY_REPORT_MEMORY))) {
      status = 3;
    }
    printf("\nReady after %.1f ms, first digits after %.1f ms.\n", ready_ms,
           ready_ms + first_run_ms);
    printf("docs/explain.md says how to read the placement and the fusion groups.\n");
  }
  hy_session_release(session);
  hy_program_release(program);
  hy_instance_release(instance);
  return status;
}
