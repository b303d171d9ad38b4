// SPDX-License-Identifier: Apache-2.0
// Poison: an object out of whose change something was thrown, a failed check above all, may be half
// changed. It is then not used again: its calls fail with the first failure, and only releasing it
// works.
#pragma once

#include <new>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace halyard::runtime {

enum class AfterBadAlloc { kPoisoned, kUsable };

// One thread at a time, as the object that holds it.
class Poison {
 public:
  // The body's result; what it throws goes on to the root. FAILED_PRECONDITION without running it
  // when an earlier one threw. `what` names the object: "session".
  template <typename Body>
  auto Run(std::string_view what, AfterBadAlloc after_bad_alloc, Body&& body) -> decltype(body()) {
    if (!failure_.ok()) {
      return FailedPrecondition("This {} failed inside and can only be released: {}", what,
                                failure_.message());
    }
    try {
      return body();
    } catch (const std::bad_alloc&) {
      if (after_bad_alloc == AfterBadAlloc::kPoisoned) failure_ = StatusFromCurrentException();
      throw;
    } catch (...) {
      failure_ = StatusFromCurrentException();
      throw;
    }
  }

 private:
  Status failure_;
};

}  // namespace halyard::runtime
