// SPDX-License-Identifier: Apache-2.0
#include "base/dylib.h"

#include <dlfcn.h>

#include <cstdlib>

namespace halyard {

Result<DynamicLibrary> DynamicLibrary::Open(const std::string& path) {
  DynamicLibrary library;
  library.path_ = path;
  library.handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library.handle_) {
    const char* error = dlerror();
    std::string_view reason = error ? error : "no reason given";
    // The system names the library too, or another that it needs.
    if (reason.starts_with(path + ": ")) reason.remove_prefix(path.size() + 2);
    return Unavailable("Library '{}' cannot be opened: {}.", path, reason);
  }
  return library;
}

Result<DynamicLibrary> DynamicLibrary::OpenFirst(std::span<const std::string> paths) {
  std::string answers;
  for (const std::string& path : paths) {
    Result<DynamicLibrary> library = Open(path);
    if (library.ok()) return library;
    if (!answers.empty()) answers += " ";
    answers += library.status().message();
  }
  return Unavailable("None of {} libraries can be opened. {}", paths.size(), answers);
}

Result<void*> DynamicLibrary::FindSymbol(const std::string& name) const {
  if (!handle_)
    return FailedPrecondition("Symbol '{}' was asked of a library that is not open.", name);
  dlerror();
  void* address = dlsym(handle_, name.c_str());
  if (!address) return NotFound("Library '{}' has no symbol '{}'.", path_, name);
  return address;
}

Result<std::string> FolderOfBinary(const void* address) {
  Dl_info info = {};
  if (dladdr(address, &info) == 0 || !info.dli_fname) {
    return Unavailable("The loader does not know which file holds address {}.", address);
  }
  // Absolute and free of links: the working folder may change later.
  char* resolved = realpath(info.dli_fname, nullptr);
  std::string path = resolved ? resolved : info.dli_fname;
  std::free(resolved);
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string(".") : path.substr(0, slash);
}

}  // namespace halyard
