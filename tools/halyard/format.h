// SPDX-License-Identifier: Apache-2.0
// Text by a format of printf, at most 600 bytes of it.
#pragma once

#include <cstdio>
#include <string>

namespace halyard::tools {

std::string Format(const char* format, auto... values) {
  char text[600];
  std::snprintf(text, sizeof(text), format, values...);
  return text;
}

}  // namespace halyard::tools
