// SPDX-License-Identifier: Apache-2.0
// HashBytes: the 64-bit content hash of files, sections, constants and cache keys (the public XXH64
// algorithm). It finds corruption and names content; it resists no attacker.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace halyard {

uint64_t HashBytes(std::span<const uint8_t> bytes, uint64_t seed = 0);
uint64_t HashString(std::string_view text, uint64_t seed = 0);

// Order-sensitive combination of two hashes.
uint64_t HashCombine(uint64_t a, uint64_t b);

// The same hash of bytes that arrive in pieces; the cut points do not matter.
class Hasher {
 public:
  explicit Hasher(uint64_t seed = 0);
  void Update(std::span<const uint8_t> bytes);
  uint64_t Finish() const;  // of everything so far; more may follow

 private:
  uint64_t lanes_[4];
  uint8_t pending_[32];
  uint32_t pending_bytes_ = 0;
  uint64_t total_bytes_ = 0;
  uint64_t seed_;
};

}  // namespace halyard
