// SPDX-License-Identifier: Apache-2.0
// A library of others that computes what an op of `halyard bench --op` does, to be timed beside it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/halyard/tensor_io.h"

namespace halyard::tools {

// One op on given inputs in host memory, which outlive it. One thread at a time.
class Rival {
 public:
  virtual ~Rival() = default;
  // Seconds from call to return: inputs in host memory to the result in host memory. Throws
  // hy::Error or CommandError.
  virtual double Run() = 0;
  // Of the last run.
  virtual Tensor Result() const = 0;
  // Seconds that its kernels take on the device, apart from copies; 0: nobody tells.
  virtual double KernelSeconds() { return 0; }
  // Threads and implementation, for people: "OpenMP, 2 threads; brgemm:avx512_core".
  virtual std::string Describe() const = 0;
};

struct RivalOffer {
  std::string library;           // "oneDNN 2.6.3"
  std::unique_ptr<Rival> rival;  // null: `why_not` is a sentence
  std::string why_not;
};

}  // namespace halyard::tools
