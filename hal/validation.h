// SPDX-License-Identifier: Apache-2.0
// The validation layer: a Device around any Device that checks every call against the contract in
// these headers and answers a violation with a precise INVALID_ARGUMENT or FAILED_PRECONDITION
// instead of undefined behaviour. Not needed for safety against model files; those never reach the
// HAL unchecked.
#pragma once

#include "hal/device.h"
#include "hal/ref.h"

namespace halyard::hal {

// Objects made by the wrapper work with the wrapper only. Calls go through to `device`.
Ref<Device> WrapInValidation(Ref<Device> device);

}  // namespace halyard::hal
