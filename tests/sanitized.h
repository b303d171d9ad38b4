// SPDX-License-Identifier: Apache-2.0
// HALYARD_SANITIZED: 1 in a test that is built with ASan or TSan, otherwise 0. Random sweeps take
// fewer draws there, from the same seed; every kind of draw stays among them.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HALYARD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HALYARD_SANITIZED 1
#endif
#endif
#ifndef HALYARD_SANITIZED
#define HALYARD_SANITIZED 0
#endif

namespace halyard {

// Whether this call is to do the work: always, but under a sanitizer one call in `n`, the first
// among them.
inline bool IsTurn(int n) {
  static int calls = 0;
  return !HALYARD_SANITIZED || calls++ % n == 0;
}

}  // namespace halyard
