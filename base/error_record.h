// SPDX-License-Identifier: Apache-2.0
// ErrorRecord: how running kernels report data-dependent failures. One record belongs to one submission;
// its address is an argument of every kernel, on every target. Layout is fixed: generated code writes it.
#pragma once

#include <cstdint>

namespace halyard {

enum class KernelErrorReason : uint32_t {
  kNone = 0,
  kIndexOutOfRange = 1,      // value: the index; limit: the extent
  kIntegerDivideByZero = 2,  // value: the dividend; limit: 0
  kOutputBoundExceeded = 3,  // value: elements produced; limit: elements that fit
  kTripCountExceeded = 4,    // value: iterations asked for; limit: iterations allowed
};

// First writer wins: a kernel sets `state` from 0 to 1 with a compare-exchange and only then writes the
// rest. The host reads it after the submission's signal, so it needs no further ordering.
struct ErrorRecord {
  uint32_t state;     // 0: no failure; 1: the fields below are set
  uint32_t dispatch;  // index of the dispatch within its submission
  uint32_t reason;    // KernelErrorReason
  uint32_t site;      // index into the kernel's table of report sites; names the graph node
  int64_t value;
  int64_t limit;
};
static_assert(sizeof(ErrorRecord) == 32);

}  // namespace halyard
