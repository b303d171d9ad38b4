// SPDX-License-Identifier: Apache-2.0
// The list of drivers in this build.
#pragma once

#include "hal/registry.h"

namespace halyard {

// Registers every driver; opens none.
Status RegisterAllDrivers(hal::DriverRegistry* registry);

}  // namespace halyard
