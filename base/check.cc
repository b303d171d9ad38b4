// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

namespace halyard {

void FailCheck(const char* file, int line, const char* condition, const std::string& detail) {
  std::string message = fmt::format("{}:{}: check '{}' failed{}{}", file, line, condition,
                                    detail.empty() ? "" : ": ", detail);
#ifdef HALYARD_ABORT_ON_CHECK
  std::fprintf(stderr, "%s\n", message.c_str());
  std::abort();
#else
  throw CheckFailure{std::move(message)};
#endif
}

namespace {

// Made when the library is loaded: without memory there is none for a failure either.
const Status* const kNoMemory = new Status(StatusCode::kOutOfMemory, "The host is out of memory.");
const Status* const kNoMemoryToExplain =
    new Status(StatusCode::kInternal, "A check failed, and the host has no memory to say which.");

Status Describe() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return *kNoMemory;
  } catch (const CheckFailure& failure) {
    return Status(StatusCode::kInternal, failure.message);
  } catch (const std::exception& error) {
    return Internal("A library threw: {}.", error.what());
  } catch (...) {
    return Status(StatusCode::kInternal, "A library threw something that is not an exception.");
  }
}

}  // namespace

Status StatusFromCurrentException() {
  try {
    return Describe();
  } catch (...) {
    return *kNoMemoryToExplain;
  }
}

}  // namespace halyard
