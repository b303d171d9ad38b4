// SPDX-License-Identifier: Apache-2.0
// Golden texts of capabilities: exact, rewritten by HALYARD_BLESS=1.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "base/env.h"
#include "hal/capabilities.h"

namespace halyard::drivers {

// `path` below the source folder.
inline void ExpectGolden(const std::string& path, const std::string& text) {
  const std::string full = std::string(HALYARD_SOURCE_DIR "/") + path;
  if (EnvFlag(EnvVar::kBless)) std::ofstream(full) << text;
  std::ifstream file(full);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(golden.str(), text) << "HALYARD_BLESS=1 rewrites " << full;
}

// Every known field, one a line, but for those of the machine that runs the test.
template <typename Keep>
std::string FormatFields(const hal::Capabilities& capabilities, const Keep& keep) {
  std::string text;
  hal::VisitFields(capabilities, [&](const hal::FieldView& field) {
    if (field.source == hal::Source::kUnknown || !keep(field)) return;
    text += std::string(field.name) + " = " + std::string(field.text) + " (" +
            std::string(hal::FormatSource(field.source)) + ")\n";
  });
  return text;
}

}  // namespace halyard::drivers
