// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/onednn_api.h"

#include "base/env.h"

namespace halyard::tools {

std::string OneDnnApi::Name() const {
  const OneDnnVersion& version = *dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version.major, version.minor, version.patch);
}

Result<std::shared_ptr<const OneDnnApi>> OneDnnApi::Load() {
  auto api = std::make_shared<OneDnnApi>();
  const std::string named = EnvString(EnvVar::kOneDnnLibrary);
  if (!named.empty()) {
    HY_ASSIGN(api->library, DynamicLibrary::Open(named));
  } else {
    const std::string candidates[] = {"libdnnl.so.3", "libdnnl.so.2"};
    auto library = DynamicLibrary::OpenFirst(candidates);
    if (!library.ok()) {
      return Unavailable(
          "oneDNN was not found; install it, or name it in HALYARD_ONEDNN_LIBRARY. Tried: {}.",
          fmt::join(candidates, ", "));
    }
    api->library = std::move(*library);
  }
#define HY_ONEDNN_FIND(result, name, parameters)                                                \
  {                                                                                             \
    Result<void*> symbol = api->library.FindSymbol(#name);                                      \
    if (!symbol.ok()) return Unavailable("Library '{}' lacks {}.", api->library.path(), #name); \
    api->name = reinterpret_cast<decltype(api->name)>(*symbol);                                 \
  }
  HY_ONEDNN_SHARED(HY_ONEDNN_FIND)
  const int major = api->dnnl_version()->major;
  if (major == 2) {
    HY_ONEDNN_2(HY_ONEDNN_FIND)
  } else if (major == 3) {
    HY_ONEDNN_3(HY_ONEDNN_FIND)
  } else {
    return Unavailable("Library '{}' is {}; Halyard knows releases 2 and 3.", api->library.path(),
                       api->Name());
  }
#undef HY_ONEDNN_FIND
  return std::shared_ptr<const OneDnnApi>(std::move(api));
}

}  // namespace halyard::tools
