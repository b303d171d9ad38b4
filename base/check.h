// SPDX-License-Identifier: Apache-2.0
// HY_CHECK guards invariants of our own code, never user input. A failed check aborts in debug and test
// builds (HALYARD_ABORT_ON_CHECK); in release it throws CheckFailure, which the roots (C API calls and
// library threads) turn into INTERNAL with file and line.
#pragma once

#include <string>

#include "base/status.h"

namespace halyard {

// Thrown by a failed check in release builds only. Caught by the roots and by nothing else.
struct CheckFailure {
  std::string message;  // "file:line: check 'condition' failed: detail"
};

[[noreturn]] void FailCheck(const char* file, int line, const char* condition, const std::string& detail);

#define HY_CHECK(condition, ...)                                                       \
  do {                                                                                 \
    if (!(condition)) [[unlikely]]                                                     \
      ::halyard::FailCheck(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)

#ifdef NDEBUG
#define HY_DCHECK(condition, ...) ((void)0)
#else
#define HY_DCHECK(condition, ...) HY_CHECK(condition, __VA_ARGS__)
#endif

#define HY_UNREACHABLE(...) ::halyard::FailCheck(__FILE__, __LINE__, "unreachable", ::fmt::format("" __VA_ARGS__))

// Runs `body` (returning Status or Result<T>) and turns whatever is thrown into a Status: bad_alloc into
// OUT_OF_MEMORY, CheckFailure and anything else into INTERNAL. The one place where exceptions end.
Status StatusFromCurrentException();
template <typename Body>
auto CatchAll(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    return StatusFromCurrentException();
  }
}

}  // namespace halyard
