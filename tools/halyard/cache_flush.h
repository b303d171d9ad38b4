// SPDX-License-Identifier: Apache-2.0
// Empties the caches of devices, for runs that find none of their weights and inputs there
// (`bench --cold-cache`): each device reads and writes more than its last cache holds.
#pragma once

#include <vector>

#include "tools/halyard/command.h"
#include "tools/halyard/roofline.h"

namespace halyard::tools {

// Bytes that a flush reads, and as many that it writes, for a last cache of `cache_bytes`; 0: not
// known.
int64_t FlushBytes(int64_t cache_bytes);

class CacheFlush {
 public:
  // Compiles a small program for each device and takes twice FlushBytes of its memory. Throws
  // hy::Error, and CommandError when a device does not write what it should.
  CacheFlush(const hy::Instance& instance, const std::vector<hy::Device>& devices);
  // On one device after the other; returns when all are done.
  void Run();
  // For each device {"device", "cache_bytes" where it is known, "bytes": read, and as many written,
  // "sweeps": calls of Run}.
  Json Report() const;

 private:
  struct Sweep {
    hy::Buffer from, to;
    hy::Session session;
    std::vector<hy_tensor> inputs, outputs;
  };
  std::vector<Sweep> sweeps_;
  Json report_ = Json::array();
  int64_t runs_ = 0;
};

}  // namespace halyard::tools
