// SPDX-License-Identifier: Apache-2.0
// The one exported function of libhalyard_compiler.so. Nothing thrown leaves the library.
#include "compiler/abi.h"

#include <cstring>

#include "base/check.h"
#include "compiler/compile.h"
#include <halyard_build.h>

namespace halyard {
namespace {

constexpr CompilerTable kTable = {
    [](const CompileRequest& request) -> Result<CompileResult> {
      return CatchAll([&] { return Compile(request); });
    },
    [](const InterpretRequest& request) -> Status {
      return CatchAll([&] { return InterpretNode(request); });
    },
    [](const CompileRequest& request) -> Status {
      return CatchAll([&] { return VerifyGraph(request); });
    },
};

}  // namespace
}  // namespace halyard

extern "C" __attribute__((visibility("default"))) const halyard::CompilerTable* hy_compiler_get(
    uint32_t abi_version, const char* build_identity) {
  if (abi_version != halyard::kCompilerAbiVersion || build_identity == nullptr ||
      std::strcmp(build_identity, HALYARD_BUILD_IDENTITY) != 0) {
    return nullptr;
  }
  return &halyard::kTable;
}
