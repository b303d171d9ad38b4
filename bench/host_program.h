/* SPDX-License-Identifier: Apache-2.0 */
/* What the C programs of this folder share: they end at the first failure, and read one clock. */
#ifndef HALYARD_BENCH_HOST_PROGRAM_H
#define HALYARD_BENCH_HOST_PROGRAM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "halyard.h"

/* PROGRAM_NAME is defined before this header is included. */
static inline void Check(hy_result result, const char* what) {
  if (result == HY_OK) return;
  const hy_string error = hy_last_error();
  fprintf(stderr, "%s: %s: %.*s\n", PROGRAM_NAME, what, (int)error.size, error.data);
  exit(1);
}

static inline int64_t NowNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* For qsort of int64_t. */
static inline int CompareNs(const void* a, const void* b) {
  const int64_t x = *(const int64_t*)a, y = *(const int64_t*)b;
  return (x > y) - (x < y);
}

#endif
