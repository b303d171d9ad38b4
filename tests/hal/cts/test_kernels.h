// SPDX-License-Identifier: Apache-2.0
// The conformance suite's kernels, once per executable format, and images that a driver must judge.
// A driver with another format adds one implementation of TestKernels and names it in its backends
// (cts.cc). No implementation depends on a code generator, so that the HAL can be judged alone.
//
// Every test image holds four entries, in this order; elements are i64:
// "add_scalar": out[x] = in[x] + s; bindings in, out; scalar s.
// "gather": out[x] = data[index[x]]; bindings data, index, out; scalar extent. An index outside
//   [0, extent) is reported at site 1 and leaves out[x] alone.
// "grid": out[(z * gy + y) * gx + x] += x + 1000 y + 1000000 z; binding out; scalars gx, gy.
// "scratch": out[x] = 2 x by way of 4096 bytes of workgroup memory, plus a million times its
//   misalignment; binding out.
// x, y and z are the workgroup's id; a workgroup has one workitem.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "hal/capabilities.h"

namespace halyard::cts {

// An image and what loading it answers: OK, or a failure whose sentence contains `part`.
struct ImageCase {
  std::vector<uint8_t> code;
  StatusCode expected = StatusCode::kOk;
  std::string part;
};

class TestKernels {
 public:
  virtual ~TestKernels() = default;
  virtual std::string_view format() const = 0;
  virtual std::vector<uint8_t> Image(const hal::Capabilities& capabilities) const = 0;
  // Bytes from the start of Image that are header and table; mutations of them must be judged.
  virtual size_t table_bytes() const = 0;
  // Malformed images, each with one thing wrong.
  virtual std::vector<ImageCase> BadImages(const hal::Capabilities& capabilities) const = 0;
  // Sound images that need one feature each, some of which a device with `capabilities` may lack.
  virtual std::vector<ImageCase> FeatureImages(const hal::Capabilities& capabilities) const = 0;
};

// A copy of `image` with `value` at `offset`.
template <typename T>
std::vector<uint8_t> With(std::vector<uint8_t> image, size_t offset, T value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  for (size_t i = 0; i < sizeof(T); ++i) image.at(offset + i) = bytes[i];
  return image;
}

const TestKernels& CpuKernels();   // x86-64 machine code
const TestKernels& CudaKernels();  // PTX; Kernel IR where the device takes that
// The same, for programmatic dependent launch where the device has it.
const TestKernels& CudaWaitingKernels();
const TestKernels& SpirvKernels();  // SPIR-V with physical addresses

}  // namespace halyard::cts
