// SPDX-License-Identifier: Apache-2.0
// DynamicLibrary: a shared library opened at run time. A missing library or symbol is a Status that
// says which file, which symbol and what the loader answered.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace halyard {

// Never unloaded: vendor libraries and LLVM register things that outlive any owner. Copying is
// cheap.
class DynamicLibrary {
 public:
  DynamicLibrary() = default;

  // UNAVAILABLE when it cannot be opened. `path` with a slash is a file, without one a soname to
  // look up.
  static Result<DynamicLibrary> Open(const std::string& path);
  // The first that opens; the failure lists what each answered.
  static Result<DynamicLibrary> OpenFirst(std::span<const std::string> paths);

  const std::string& path() const { return path_; }
  // NOT_FOUND when the library lacks it.
  Result<void*> FindSymbol(const std::string& name) const;
  // The same as a function pointer of type T.
  template <typename T>
  Result<T> FindFunction(const std::string& name) const {
    HY_ASSIGN(void* address, FindSymbol(name));
    return reinterpret_cast<T>(address);
  }

 private:
  std::string path_;
  void* handle_ = nullptr;
};

// The folder of the binary (program or shared library) that holds `address`; UNAVAILABLE when
// unknown.
Result<std::string> FolderOfBinary(const void* address);

}  // namespace halyard
