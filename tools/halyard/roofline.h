// SPDX-License-Identifier: Apache-2.0
// Roofs of a device as its probes measured them, and what they say of a kernel's time.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace halyard::tools {

using Json = nlohmann::ordered_json;

struct Roofs {
  struct Level {
    std::string name;        // "L2", "memory"
    double bytes = 0;        // that were streamed to measure it
    double bytes_per_s = 0;  // of the triad, or of the stream where that is missing
  };
  bool is_probed = false;
  std::map<std::string, double>
      product_flops;          // per second, by dtype: the best product of matrices
  std::vector<Level> levels;  // by bytes, the memory last
  double dispatch_s = 0;      // of one small kernel after another; 0: not measured
  // Best of all sizes, by what is copied: "pinned -> device", "device -> pageable", "device ->
  // gpu:1".
  std::map<std::string, double> copy_bytes_per_s;

  // The level that holds a working set of `bytes`: the smallest that was streamed whole with as
  // many; the memory for more. Null when none was measured.
  const Level* LevelFor(double bytes) const;
};

// `probes`: the report of hy_devices_probe. A device that is not in it is not probed.
Roofs ReadRoofs(const Json& probes, const std::string& device);

// {"product_flops": {dtype: per second}, "levels": [{"name", "bytes", "bytes_per_s"}],
// "dispatch_s"}
Json RoofsJson(const Roofs& roofs);

// What a kernel does; -1: not known.
struct KernelFigures {
  double seconds = 0;  // of one execution
  double flops = -1, bytes = -1;
  int dispatches = 1;
  std::string product;  // dtype of the factors; empty: no product
};

// {"level", "compute_s", "memory_s", "dispatch_s": the least that each takes by the roofs, as far
// as known; "share": the largest of compute and memory over the time; "bound": "compute", "memory"
// or "dispatch", whichever is largest}. Null when the device is not probed or nothing is known.
Json JudgeKernel(const Roofs& roofs, const KernelFigures& kernel);

}  // namespace halyard::tools
