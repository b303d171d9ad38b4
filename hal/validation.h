// SPDX-License-Identifier: Apache-2.0
// The validation layer: a Device around any Device that checks every call against the contract in
// these headers and answers a violation with a sentence instead of undefined behaviour. It
// allocates and takes locks freely. Drivers already check single calls; this adds what needs memory
// of earlier ones.
//
// The commands of a submission run one after the other, each as a submission of its own: a failure
// or a fault names the one command, and those behind it do not run.
//
// On top of the drivers' checks it refuses:
// - recording into one command buffer from two threads at once;
// - a copy or fill whose target overlaps another command of the same stage, with the buffers that a
//   submission binds, because a barrier is missing;
// - a signal that does not exceed the semaphore's value, or two signals of one semaphore in one
// call;
// - work that waits for a point that only its own signal reaches;
// - waiting for queued work inside a host call;
// - objects that another device made, whatever their kind;
// - a negative timeout, duplicate or empty entry names.
#pragma once

#include "hal/device.h"
#include "hal/ref.h"

namespace halyard::hal {

// Buffers, executables and command buffers made by the wrapper work with the wrapper only.
Ref<Device> WrapInValidation(Ref<Device> device);

}  // namespace halyard::hal
