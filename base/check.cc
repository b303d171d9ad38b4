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

Status StatusFromCurrentException() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory, "The host is out of memory.");
  } catch (const CheckFailure& failure) {
    return Status(StatusCode::kInternal, failure.message);
  } catch (const std::exception& error) {
    return Internal("A library threw: {}.", error.what());
  } catch (...) {
    return Status(StatusCode::kInternal, "A library threw something that is not an exception.");
  }
}

}  // namespace halyard
