// SPDX-License-Identifier: Apache-2.0
// The Kernel IR interpreter: runs all workgroups of a grid one after the other on concrete buffers.
// It is the oracle for every emitter; slow and obvious. The workitems of a workgroup go through the
// ops together, each branch with those that take it, so a kernel runs alike whatever its workgroup
// and subgroup sizes. It finds what is undefined in compiled code, whether or not it would show:
// races are found from which workitem touched an element since the last barrier, not from timing.
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

struct InterpreterOptions {
  int64_t max_ops = int64_t{1} << 32;  // executed ops of one call, counted for each workitem
  int32_t subgroup_size = 32;          // where the kernel relies on none; of a CPU kernel: 1
};

// The kernel must be verified. One argument per global buffer, one value per scalar. A kernel's
// report goes to `error` (not null, dispatch index 0), first writer wins, and is no failure of this
// call. Failures name the op, buffer, index and workitems.
// OUT_OF_RANGE: an access out of bounds.
// FAILED_PRECONDITION: an uninitialised read; an index that is no multiple of its align; a loop
// step below 1; a barrier that not all workitems reach; a subgroup or fragment op that a part of
// the subgroup reaches, whose lane does not exist or whose operands differ where they must be
// equal; an access to the target of a pending async copy; a data race between workitems or, in
// global memory, between workgroups. Buffers that overlap are not related to each other.
// DEADLINE_EXCEEDED: more than max_ops.
Status Interpret(const Kernel& kernel, std::span<const BufferArgument> buffers,
                 std::span<const int64_t> scalars, const int64_t (&grid)[3], ErrorRecord* error,
                 InterpreterOptions options = {});

}  // namespace halyard::kernel
