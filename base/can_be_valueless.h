// SPDX-License-Identifier: Apache-2.0
// An alternative for variants whose copies may throw. libstdc++ takes a variant of strings, vectors
// and trivial types as one that always has a value, and destroys as one of them what a constructor
// that throws has not made yet: a jump to anywhere, where memory ends. One alternative of another
// kind makes it look first.
#pragma once

namespace halyard {

// Nobody makes one.
struct CanBeValueless {
  CanBeValueless() = delete;
  CanBeValueless(const CanBeValueless&) noexcept {}
  CanBeValueless& operator=(const CanBeValueless&) noexcept { return *this; }
  friend bool operator==(const CanBeValueless&, const CanBeValueless&) { return true; }
  friend bool operator<(const CanBeValueless&, const CanBeValueless&) { return false; }
};

}  // namespace halyard
