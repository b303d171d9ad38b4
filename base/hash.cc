// SPDX-License-Identifier: Apache-2.0
// XXH64 after its published specification (Collet, xxhash_spec.md, section XXH64).
#include "base/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace halyard {
namespace {

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87ull;
constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4Full;
constexpr uint64_t kPrime3 = 0x165667B19E3779F9ull;
constexpr uint64_t kPrime4 = 0x85EBCA77C2B2AE63ull;
constexpr uint64_t kPrime5 = 0x27D4EB2F165667C5ull;
// How far ahead bytes are fetched that come from memory; decision 28 has what it wins.
constexpr size_t kPrefetchBytes = 2048;
static_assert(std::endian::native == std::endian::little, "Halyard's files are little-endian.");

template <typename T>
uint64_t LoadAs(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

uint64_t Round(uint64_t lane, uint64_t word) {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

}  // namespace

Hasher::Hasher(uint64_t seed)
    : lanes_{seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1}, seed_(seed) {}

void Hasher::Update(std::span<const uint8_t> bytes) {
  total_bytes_ += bytes.size();
  const auto stripe = [this](const uint8_t* p) {
    for (int i = 0; i < 4; ++i) lanes_[i] = Round(lanes_[i], LoadAs<uint64_t>(p + 8 * i));
  };
  if (pending_bytes_ > 0) {
    const size_t take = std::min<size_t>(32 - pending_bytes_, bytes.size());
    if (take > 0) std::memcpy(pending_ + pending_bytes_, bytes.data(), take);
    pending_bytes_ += static_cast<uint32_t>(take);
    bytes = bytes.subspan(take);
    if (pending_bytes_ < 32) return;
    stripe(pending_);
    pending_bytes_ = 0;
  }
  // In registers: bytes may be those of the lanes, as far as a compiler knows.
  uint64_t a = lanes_[0], b = lanes_[1], c = lanes_[2], d = lanes_[3];
  for (; bytes.size() >= 32; bytes = bytes.subspan(32)) {
    const uint8_t* p = bytes.data();
    __builtin_prefetch(p + std::min(kPrefetchBytes, bytes.size() - 1));
    a = Round(a, LoadAs<uint64_t>(p));
    b = Round(b, LoadAs<uint64_t>(p + 8));
    c = Round(c, LoadAs<uint64_t>(p + 16));
    d = Round(d, LoadAs<uint64_t>(p + 24));
  }
  lanes_[0] = a, lanes_[1] = b, lanes_[2] = c, lanes_[3] = d;
  if (!bytes.empty()) std::memcpy(pending_, bytes.data(), bytes.size());
  pending_bytes_ = static_cast<uint32_t>(bytes.size());
}

uint64_t Hasher::Finish() const {
  uint64_t hash = seed_ + kPrime5;
  if (total_bytes_ >= 32) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
           std::rotl(lanes_[3], 18);
    for (const uint64_t lane : lanes_) hash = (hash ^ Round(0, lane)) * kPrime1 + kPrime4;
  }
  hash += total_bytes_;
  const uint8_t* p = pending_;
  const uint8_t* end = pending_ + pending_bytes_;
  for (; end - p >= 8; p += 8) {
    hash = std::rotl(hash ^ Round(0, LoadAs<uint64_t>(p)), 27) * kPrime1 + kPrime4;
  }
  if (end - p >= 4) {
    hash = std::rotl(hash ^ (LoadAs<uint32_t>(p) * kPrime1), 23) * kPrime2 + kPrime3;
    p += 4;
  }
  for (; p < end; ++p) hash = std::rotl(hash ^ (*p * kPrime5), 11) * kPrime1;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

uint64_t HashBytes(std::span<const uint8_t> bytes, uint64_t seed) {
  Hasher hasher(seed);
  hasher.Update(bytes);
  return hasher.Finish();
}

uint64_t HashString(std::string_view text, uint64_t seed) {
  return HashBytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, seed);
}

uint64_t HashCombine(uint64_t a, uint64_t b) {
  const uint64_t words[2] = {a, b};
  return HashBytes({reinterpret_cast<const uint8_t*>(words), sizeof(words)});
}

}  // namespace halyard
