// SPDX-License-Identifier: Apache-2.0
#include "drivers/cpu/code_name.h"

#include <algorithm>
#include <iterator>

namespace halyard::drivers::cpu {
namespace {

constexpr uint32_t kAnyStepping = ~0u;

struct Model {
  uint32_t family, model;
  const char* name;
  uint32_t last_stepping = kAnyStepping;  // of those with these numbers; the first row that fits
};

constexpr Model kIntel[] = {
    {6, 42, "Sandy Bridge"},
    {6, 45, "Sandy Bridge-EP"},
    {6, 58, "Ivy Bridge"},
    {6, 62, "Ivy Bridge-EP"},
    {6, 60, "Haswell"},
    {6, 69, "Haswell"},
    {6, 70, "Haswell"},
    {6, 63, "Haswell-EP"},
    {6, 61, "Broadwell"},
    {6, 71, "Broadwell"},
    {6, 79, "Broadwell-EP"},
    {6, 86, "Broadwell-DE"},
    {6, 78, "Skylake"},
    {6, 94, "Skylake"},
    {6, 85, "Skylake-SP", 4},
    {6, 85, "Cascade Lake", 7},
    {6, 85, "Cooper Lake", 11},
    {6, 87, "Knights Landing"},
    {6, 133, "Knights Mill"},
    {6, 142, "Kaby Lake or a successor"},  // one number for four of them
    {6, 158, "Kaby Lake or Coffee Lake"},
    {6, 165, "Comet Lake"},
    {6, 166, "Comet Lake"},
    {6, 125, "Ice Lake (Sunny Cove)"},
    {6, 126, "Ice Lake (Sunny Cove)"},
    {6, 106, "Ice Lake-SP (Sunny Cove)"},
    {6, 108, "Ice Lake-D (Sunny Cove)"},
    {6, 140, "Tiger Lake (Willow Cove)"},
    {6, 141, "Tiger Lake (Willow Cove)"},
    {6, 167, "Rocket Lake (Cypress Cove)"},
    {6, 151, "Alder Lake"},
    {6, 154, "Alder Lake"},
    {6, 190, "Alder Lake-N (Gracemont)"},
    {6, 183, "Raptor Lake"},
    {6, 186, "Raptor Lake"},
    {6, 191, "Raptor Lake"},
    {6, 170, "Meteor Lake"},
    {6, 172, "Meteor Lake"},
    {6, 189, "Lunar Lake"},
    {6, 197, "Arrow Lake"},
    {6, 198, "Arrow Lake"},
    {6, 143, "Sapphire Rapids (Golden Cove)"},
    {6, 207, "Emerald Rapids (Raptor Cove)"},
    {6, 173, "Granite Rapids (Redwood Cove)"},
    {6, 174, "Granite Rapids-D (Redwood Cove)"},
    {6, 175, "Sierra Forest (Crestmont)"},
};

constexpr Model kAmd[] = {
    {0x17, 0x01, "Naples or Summit Ridge (Zen)"},
    {0x17, 0x08, "Pinnacle Ridge (Zen+)"},
    {0x17, 0x11, "Raven Ridge (Zen)"},
    {0x17, 0x18, "Picasso (Zen+)"},
    {0x17, 0x20, "Dali (Zen)"},
    {0x17, 0x31, "Rome or Castle Peak (Zen 2)"},
    {0x17, 0x60, "Renoir (Zen 2)"},
    {0x17, 0x68, "Lucienne (Zen 2)"},
    {0x17, 0x71, "Matisse (Zen 2)"},
    {0x17, 0x90, "Van Gogh (Zen 2)"},
    {0x17, 0xa0, "Mendocino (Zen 2)"},
    {0x19, 0x01, "Milan (Zen 3)"},
    {0x19, 0x08, "Chagall (Zen 3)"},
    {0x19, 0x21, "Vermeer (Zen 3)"},
    {0x19, 0x44, "Rembrandt (Zen 3+)"},
    {0x19, 0x50, "Cezanne (Zen 3)"},
    {0x19, 0x11, "Genoa (Zen 4)"},
    {0x19, 0x18, "Storm Peak (Zen 4)"},
    {0x19, 0x61, "Raphael (Zen 4)"},
    {0x19, 0x74, "Phoenix (Zen 4)"},
    {0x19, 0x75, "Hawk Point (Zen 4)"},
    {0x19, 0xa0, "Bergamo or Siena (Zen 4c)"},
    {0x1a, 0x02, "Turin (Zen 5)"},
    {0x1a, 0x11, "Turin Dense (Zen 5c)"},
    {0x1a, 0x24, "Strix Point (Zen 5)"},
    {0x1a, 0x44, "Granite Ridge (Zen 5)"},
    {0x1a, 0x60, "Krackan Point (Zen 5)"},
    {0x1a, 0x70, "Strix Halo (Zen 5)"},
};

// Models of family 6 with AMX.
constexpr uint32_t kWithTiles[] = {143, 207, 173, 174};

// A hypervisor may give the numbers of another chip, with the features of its own.
bool IsAnotherChip(const CpuId& id) {
  return (id.features & static_cast<uint64_t>(CpuFeature::kAmxTile)) != 0 &&
         std::ranges::find(kWithTiles, id.model) == std::end(kWithTiles);
}

template <size_t kCount>
std::string Find(const Model (&models)[kCount], const CpuId& id) {
  for (const Model& model : models) {
    if (model.family == id.family && model.model == id.model && id.stepping <= model.last_stepping)
      return model.name;
  }
  return {};
}

}  // namespace

std::string CodeNameOf(const CpuId& id) {
  if (id.vendor == "GenuineIntel") return IsAnotherChip(id) ? "" : Find(kIntel, id);
  if (id.vendor == "AuthenticAMD") return Find(kAmd, id);
  return {};
}

}  // namespace halyard::drivers::cpu
