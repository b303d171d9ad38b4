// SPDX-License-Identifier: Apache-2.0
// LeakSanitizer stops the threads of a process to look at them and crashes on those that NVRTC leaves behind, now
// and then; so this program, which compiles with NVRTC all the time, does not look for leaks.
#include "tests/sanitized.h"

#if HALYARD_SANITIZED
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }
#endif
