// SPDX-License-Identifier: Apache-2.0
// The files of drivers ("ICD manifests") and layers that the Vulkan loader reads, read before it:
// the loader dies of some that are damaged (1.3.239 does), and of the rest it says at most that no
// driver works.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace halyard::drivers::vulkan {

// UNAVAILABLE names a file, of a driver or a layer, over which the loader may crash; then it must
// not be started.
Status CheckManifests();

// What is wrong with the files, a sentence for each that is no manifest, and of drivers each whose
// library cannot be opened, which this tries.
std::vector<std::string> ManifestProblems();

// Of the text of one manifest, for tests.
struct Manifest {
  std::string library;     // as it is written there
  std::string why_broken;  // "it is no JSON"; empty for a whole one
  bool is_json = false;
  bool is_deadly = false;  // the loader must not see it
};
Manifest ReadManifest(std::string_view text);

}  // namespace halyard::drivers::vulkan
