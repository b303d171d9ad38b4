// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/bench_memory.h"

namespace halyard::tools {
namespace {

// The peak of a device of the program. One that placement fell back on is open under its path.
int64_t PeakOf(const Model& model, const std::vector<hy::Device>& devices,
               const std::string& path) {
  for (const hy::Device& device : devices) {
    if (hy::ToString(device.info().path) == path) return device.memory().allocated_peak_bytes;
  }
  return model.instance.Open(path).memory().allocated_peak_bytes;
}

}  // namespace

Json MeasureMemory(const Model& model, const Inputs& inputs,
                   const std::vector<hy::Device>& devices) {
  std::vector<hy_symbol_value> symbols;
  for (const hy_symbol_info& symbol : model.program.Symbols()) {
    const auto found = inputs.symbols().find(hy::ToString(symbol.name));
    if (found != inputs.symbols().end()) symbols.push_back({symbol.name, found->second});
  }
  constexpr const char* kSums[] = {"constant_bytes", "activation_bytes", "io_bytes",
                                   "staging_bytes",  "total_bytes",      "peak_bytes"};
  Json out = Json::object();
  for (const char* name : kSums) out[name] = 0;
  out["devices"] = Json::array();
  for (const hy_memory_info& memory : model.program.Memory(symbols)) {
    const std::string path = hy::ToString(memory.device);
    const Json device = {{"device", path},
                         {"constant_bytes", memory.constant_bytes},
                         {"activation_bytes", memory.activation_bytes},
                         {"io_bytes", memory.io_bytes},
                         {"staging_bytes", memory.staging_bytes},
                         {"total_bytes", memory.constant_bytes + memory.activation_bytes +
                                             memory.io_bytes + memory.staging_bytes},
                         {"peak_bytes", PeakOf(model, devices, path)}};
    for (const char* name : kSums) {
      out[name] = out[name].get<int64_t>() + device[name].get<int64_t>();
    }
    out["devices"].push_back(device);
  }
  return out;
}

void AddConcurrentPeaks(const Model& model, const std::vector<hy::Device>& devices, Json* memory) {
  for (Json& device : (*memory)["devices"]) {
    device["concurrent_peak_bytes"] = PeakOf(model, devices, device["device"]);
  }
}

}  // namespace halyard::tools
