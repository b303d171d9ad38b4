// SPDX-License-Identifier: Apache-2.0
// A CPU image of hand-assembled kernels for the conformance suite, and pieces to build broken ones.
// It depends on no compiler, so that the HAL can be judged alone. x86-64 only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace halyard::cts {

struct ImageEntry {
  std::string name;
  std::vector<uint8_t> code;
  uint64_t workgroup_memory_bytes = 0;
  uint32_t binding_count = 0;
  uint32_t scalar_count = 0;
};

std::vector<uint8_t> BuildImage(const std::vector<ImageEntry>& entries, uint64_t features = 0);

// "add_scalar": out[x] = in[x] + s; bindings in, out; scalar s; all i64.
// "gather": out[x] = data[index[x]]; bindings data, index, out; scalar extent. An index outside
//   [0, extent) is reported at site 1 and leaves out[x] alone.
// "grid": out[(z * gy + y) * gx + x] += x + 1000 y + 1000000 z; binding out; scalars gx, gy.
// "scratch": out[x] = 2 x by way of 4096 bytes of workgroup memory, plus a million times its
// misalignment.
std::vector<uint8_t> TestImage();

}  // namespace halyard::cts
