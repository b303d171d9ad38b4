// SPDX-License-Identifier: Apache-2.0
// Where the tests find NVRTC: as any user does, else in the Python packages of the tests.
#pragma once

#include <glob.h>

#include <cstdlib>
#include <string>

#include "compiler/codegen/cuda/nvrtc.h"

namespace halyard::testing {

// Call before the first compilation. Without NVRTC the tests that need it fail.
inline void PlaceNvrtc() {
  if (std::getenv("HALYARD_NVRTC_LIBRARY") != nullptr) return;
  glob_t found{};
  const std::string pattern =
      HALYARD_SOURCE_DIR "/.venv/lib/python3*/site-packages/nvidia/cu*/lib/libnvrtc.so.1[0-9]";
  if (!cuda::OpenNvrtc().ok() && glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    ::setenv("HALYARD_NVRTC_LIBRARY", found.gl_pathv[0], 1);
  }
  globfree(&found);
}

}  // namespace halyard::testing
