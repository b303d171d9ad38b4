// SPDX-License-Identifier: Apache-2.0
// The Kernel IR interpreter: runs all workgroups of a grid one after the other on concrete buffers.
// It is the oracle for every emitter; slow and obvious. It finds what is undefined in compiled
// code: accesses out of bounds, reads of elements that were never written, and loops without end.
#pragma once

#include <cstdint>
#include <span>

#include "base/error_record.h"
#include "compiler/kernel/kernel_ir.h"

namespace halyard::kernel {

// A buffer parameter. `data` holds `elements` packed elements of the parameter's dtype and stays
// the caller's. With `initialised` false, an element may be read only after the kernel wrote it.
struct BufferArgument {
  void* data = nullptr;
  int64_t elements = 0;
  bool initialised = true;
};

struct InterpreterLimits {
  int64_t max_ops = int64_t{1} << 32;  // executed ops of one call
};

// The kernel must be verified. One argument per global buffer, one value per scalar. A kernel's
// report goes to `error` (not null, dispatch index 0), first writer wins, and is no failure of this
// call. OUT_OF_RANGE, naming the buffer, index and extent: an access out of bounds.
// FAILED_PRECONDITION: an uninitialised read, or a loop step below 1. DEADLINE_EXCEEDED: more than
// max_ops. UNIMPLEMENTED: workgroups of more than one workitem, and ops that no CPU kernel has.
Status Interpret(const Kernel& kernel, std::span<const BufferArgument> buffers,
                 std::span<const int64_t> scalars, const int64_t (&grid)[3], ErrorRecord* error,
                 InterpreterLimits limits = {});

}  // namespace halyard::kernel
