// SPDX-License-Identifier: Apache-2.0
// CpuDriver: always there, with one device over all NUMA nodes; `cpu:I?numa=N` opens one over that
// node, under any number.
#pragma once

#include "hal/driver.h"

namespace halyard::drivers::cpu {

Result<Ref<hal::Driver>> OpenCpuDriver();

}  // namespace halyard::drivers::cpu
