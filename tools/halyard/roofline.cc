// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/roofline.h"

#include <algorithm>

namespace halyard::tools {
namespace {

double RateOf(const Json& reading) { return reading.value("rate", 0.0); }

}  // namespace

const Roofs::Level* Roofs::LevelFor(double bytes) const {
  for (const Level& level : levels) {
    if (bytes <= level.bytes) return &level;
  }
  return levels.empty() ? nullptr : &levels.back();
}

Roofs ReadRoofs(const Json& probes, const std::string& device) {
  Roofs roofs;
  if (!probes.is_object() || !probes.contains("devices")) return roofs;
  std::map<std::string, Roofs::Level> triads, streams;
  for (const Json& probe : probes["devices"]) {
    if (probe.value("path", "") != device) continue;
    for (const Json& reading : probe.at("readings")) {
      const std::string kind = reading.value("kind", "");
      if (kind == "matmul") {
        double& best = roofs.product_flops[reading.value("dtype", "")];
        best = std::max(best, RateOf(reading));
      } else if (kind == "triad" || kind == "stream") {
        const std::string name = reading.value("level", "");
        Roofs::Level& level = (kind == "triad" ? triads : streams)[name];
        level = {name, reading.value("bytes", 0.0), RateOf(reading)};
      } else if (kind == "copy") {
        double& best =
            roofs.copy_bytes_per_s[reading.value("from", "") + " -> " + reading.value("to", "")];
        best = std::max(best, RateOf(reading));
      } else if (kind == "dispatch") {
        roofs.dispatch_s = reading.at("seconds").value("median", 0.0);
      }
    }
  }
  triads.merge(streams);
  for (const auto& [name, level] : triads) {
    if (level.bytes_per_s > 0) roofs.levels.push_back(level);
  }
  std::sort(roofs.levels.begin(), roofs.levels.end(),
            [](const Roofs::Level& a, const Roofs::Level& b) { return a.bytes < b.bytes; });
  roofs.is_probed = !roofs.levels.empty() || !roofs.product_flops.empty();
  return roofs;
}

Json RoofsJson(const Roofs& roofs) {
  Json json = {{"product_flops", Json::object()}, {"levels", Json::array()}};
  for (const auto& [dtype, flops] : roofs.product_flops) json["product_flops"][dtype] = flops;
  for (const Roofs::Level& level : roofs.levels) {
    json["levels"].push_back(
        {{"name", level.name}, {"bytes", level.bytes}, {"bytes_per_s", level.bytes_per_s}});
  }
  json["dispatch_s"] = roofs.dispatch_s;
  return json;
}

Json JudgeKernel(const Roofs& roofs, const KernelFigures& kernel) {
  if (!roofs.is_probed || kernel.seconds <= 0) return nullptr;
  Json out = Json::object();
  double compute = 0, memory = 0;
  const auto peak = roofs.product_flops.find(kernel.product.empty() ? "f32" : kernel.product);
  if (kernel.flops > 0) {
    // A roof that was not measured could be the one that bounds.
    if (peak == roofs.product_flops.end() || peak->second <= 0) return nullptr;
    compute = kernel.flops / peak->second;
    out["compute_s"] = compute;
  }
  if (kernel.bytes > 0) {
    const Roofs::Level* level = roofs.LevelFor(kernel.bytes);
    if (level == nullptr) return nullptr;
    memory = kernel.bytes / level->bytes_per_s;
    out["level"] = level->name;
    out["memory_s"] = memory;
  }
  if (compute <= 0 && memory <= 0) return nullptr;
  const double dispatch = roofs.dispatch_s * kernel.dispatches;
  if (dispatch > 0) out["dispatch_s"] = dispatch;
  out["share"] = std::max(compute, memory) / kernel.seconds;
  out["bound"] = dispatch > std::max(compute, memory) ? "dispatch"
                 : compute > memory                   ? "compute"
                                                      : "memory";
  return out;
}

}  // namespace halyard::tools
