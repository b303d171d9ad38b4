// SPDX-License-Identifier: Apache-2.0
// What LLVM was working on when an exception left it: a fatal error, or no memory. LLVM is built
// without exceptions, so its tables may be half grown and its passes half run, and its destructors
// must not see them: they stay for good. Private to this folder.
#pragma once

#include <memory>

namespace halyard::cpu {

struct Abandonable {
  virtual ~Abandonable() = default;
  Abandonable* next = nullptr;
};

// Keeps the object, reachable, until the process ends. Takes no memory; any thread.
void Abandon(std::unique_ptr<Abandonable> object) noexcept;

// Runs `body` on the object, which is abandoned when an exception leaves it.
template <typename T, typename Body>
auto OrAbandon(std::unique_ptr<T>& object, Body&& body) -> decltype(body(*object)) {
  try {
    return body(*object);
  } catch (...) {
    Abandon(std::move(object));
    throw;
  }
}

}  // namespace halyard::cpu
