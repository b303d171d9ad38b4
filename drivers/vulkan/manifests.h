// SPDX-License-Identifier: Apache-2.0
// The driver files ("ICD manifests") that the Vulkan loader reads, read before it: the loader dies
// of some that are damaged (1.3.239 does), and of the rest it says at most that none works.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace halyard::drivers::vulkan {

// UNAVAILABLE names a file over which the loader may crash; then it must not be started.
Status CheckManifests();

// What is wrong with the files, a sentence for each that is no manifest or whose library cannot be
// opened, which this tries.
std::vector<std::string> ManifestProblems();

// Of the text of one manifest, for tests.
struct Manifest {
  std::string library;     // as it is written there
  std::string why_broken;  // "it is no JSON"; empty for a whole one
  bool is_deadly = false;  // the loader must not see it
};
Manifest ReadManifest(std::string_view text);

}  // namespace halyard::drivers::vulkan
