// SPDX-License-Identifier: Apache-2.0
#include "compiler/place/options.h"

#include "base/hash.h"

namespace halyard::place {

std::string_view FormatStrength(Strength strength) {
  switch (strength) {
    case Strength::kRequire:
      return "require";
    case Strength::kPrefer:
      return "prefer";
    case Strength::kForbid:
      return "forbid";
  }
  return "require";
}

bool MatchesPattern(std::string_view pattern, std::string_view text) {
  // The usual walk with one place to return to: the last '*' and how much it has taken.
  size_t p = 0, t = 0, star = std::string_view::npos, taken = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

Result<Affinity> ParseAffinity(std::string_view text) {
  // Node names may hold '=', device names do not.
  const size_t cut = text.rfind('=');
  if (cut == std::string_view::npos || cut == 0 || cut + 1 == text.size()) {
    return InvalidArgument(
        "The affinity '{}' is not of the form PATTERN=DEVICE, PATTERN=prefer:DEVICE, "
        "PATTERN=require:DEVICE or PATTERN=forbid:DEVICE.",
        text);
  }
  Affinity affinity;
  affinity.pattern = std::string(text.substr(0, cut));
  std::string_view device = text.substr(cut + 1);
  for (const Strength strength : {Strength::kRequire, Strength::kPrefer, Strength::kForbid}) {
    const std::string prefix = fmt::format("{}:", FormatStrength(strength));
    if (!device.starts_with(prefix)) continue;
    affinity.strength = strength;
    device.remove_prefix(prefix.size());
    break;
  }
  if (device.empty()) return InvalidArgument("The affinity '{}' names no device.", text);
  affinity.device = std::string(device);
  return affinity;
}

std::string FormatAffinity(const Affinity& affinity) {
  const std::string strength = affinity.strength == Strength::kRequire
                                   ? ""
                                   : fmt::format("{}:", FormatStrength(affinity.strength));
  return fmt::format("{}={}{}", affinity.pattern, strength, affinity.device);
}

uint64_t Options::Hash() const {
  std::string text;
  const auto add = [&text](std::string_view part) {
    text += fmt::format("{}:{}|", part.size(), part);
  };
  for (const Affinity& affinity : affinities) {
    add(affinity.pattern);
    add(affinity.device);
    add(FormatStrength(affinity.strength));
  }
  text += '/';
  for (const MemoryCap& cap : memory_caps) {
    add(cap.device);
    text += fmt::format("{}|", cap.bytes);
  }
  text += '/';
  for (const std::string& device : last_resort) add(device);
  text += fmt::format("/{}|{}|{}|{}/", preference, hysteresis, explained_items, keeps_previous);
  add(previous_plan);
  return HashString(text);
}

}  // namespace halyard::place
