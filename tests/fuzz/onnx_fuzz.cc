// SPDX-License-Identifier: Apache-2.0
// libFuzzer target of the ONNX importer: any bytes give a module that verifies, or one sentence.
#include <cstdint>
#include <cstdlib>

#include "compiler/graph/verifier.h"
#include "compiler/import/onnx_import.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto module = halyard::onnx::ImportOnnxBytes({data, size});
  if (!module.ok()) {
    if (module.status().ToLine().find('\n') != std::string::npos) std::abort();
    return 0;
  }
  if (!halyard::graph::VerifyModule(*module).ok()) std::abort();
  return 0;
}
