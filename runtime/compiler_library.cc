// SPDX-License-Identifier: Apache-2.0
// dlopen of the compiler library.
#include "runtime/compiler_library.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>
#include <string>

#include "base/env.h"
#include <halyard_build.h>

namespace halyard::runtime {
namespace {

constexpr const char* kFileName = "libhalyard_compiler.so";
std::atomic<const CompilerTable*> open_table{nullptr};

// The path beside the library (or the program) that holds this code.
std::string DefaultPath() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&OpenCompilerLibrary), &info) == 0 ||
      info.dli_fname == nullptr) {
    return kFileName;
  }
  const std::string self = info.dli_fname;
  const size_t slash = self.rfind('/');
  return slash == std::string::npos ? kFileName : self.substr(0, slash + 1) + kFileName;
}

}  // namespace

const char* BuildIdentity() { return HALYARD_BUILD_IDENTITY; }

bool IsCompilerLibraryOpen() { return open_table.load(std::memory_order_acquire) != nullptr; }

Result<const CompilerTable*> OpenCompilerLibrary() {
  if (const CompilerTable* table = open_table.load(std::memory_order_acquire)) return table;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (const CompilerTable* table = open_table.load(std::memory_order_acquire)) return table;
  std::string path = EnvString(EnvVar::kCompilerLibrary);
  if (path.empty()) path = DefaultPath();
  // NODELETE: threads and thread-local objects of LLVM must not lose their code.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* reason = dlerror();
    return Unavailable(
        "The compiler library cannot be opened, so models cannot be compiled here; saved "
        "programs still run: {}.",
        reason != nullptr ? reason : path.c_str());
  }
  using GetFunction = const CompilerTable* (*)(uint32_t, const char*);
  const auto get = reinterpret_cast<GetFunction>(dlsym(library, "hy_compiler_get"));
  if (get == nullptr) {
    dlclose(library);
    return Unavailable("The file '{}' is no Halyard compiler: it has no function hy_compiler_get.",
                       path);
  }
  const CompilerTable* table = get(kCompilerAbiVersion, BuildIdentity());
  if (table == nullptr) {
    dlclose(library);
    return Unavailable("The compiler library '{}' comes from another build than this runtime ({}).",
                       path, BuildIdentity());
  }
  open_table.store(table, std::memory_order_release);
  return table;
}

}  // namespace halyard::runtime
