// SPDX-License-Identifier: Apache-2.0
// NullDriver: the skeleton of a driver, to copy. Its device can be opened, asked and waited on;
// whatever would need hardware answers UNIMPLEMENTED. Replace the answers one by one, following
// tests/hal/cts.
#pragma once

#include "hal/driver.h"

namespace halyard::drivers::null {

// A real driver opens its vendor's library here and says what is missing.
Result<Ref<hal::Driver>> OpenNullDriver();

}  // namespace halyard::drivers::null
