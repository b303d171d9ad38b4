// SPDX-License-Identifier: Apache-2.0
// Devices that tests of placement choose between: nothing runs on them.
#pragma once

#include <vector>

#include "compiler/program/program.h"

namespace halyard::pipeline {

// The host's slow CPU, and a strong device with a memory of its own.
inline std::vector<program::Device> TwoDevices() {
  std::vector<program::Device> devices(2);
  devices[0].name = "cpu:0";
  devices[0].is_host = true;
  devices[1].name = "cpu:1";
  devices[1].target.worker_count = 64;
  devices[1].target.vector_bytes = 64;
  return devices;
}

}  // namespace halyard::pipeline
