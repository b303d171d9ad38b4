// SPDX-License-Identifier: Apache-2.0
#include "runtime/random_bytes.h"

#include <algorithm>
#include <cstring>

namespace halyard::runtime {
namespace {

// Integers of a dtype that are at least 0 and less than `below`, one after the other.
void FillIntegers(std::mt19937& random, DType dtype, uint64_t below, std::span<uint8_t> bytes) {
  const bool is_packed = BitWidth(dtype) < 8;  // two in a byte; the other one is 0
  const int bits = std::min(BitWidth(dtype), 32) - 1;
  below = std::min(below, uint64_t{1} << bits);
  const size_t width = is_packed ? 1 : static_cast<size_t>(BitWidth(dtype)) / 8;
  for (size_t i = 0; i + width <= bytes.size(); i += width) {
    const uint64_t value = random() % below;
    for (size_t b = 0; b < width; ++b) bytes[i + b] = static_cast<uint8_t>(value >> (8 * b));
  }
}

void FillRandomBlock(std::mt19937& random, DType dtype, int64_t below, std::span<uint8_t> bytes) {
  const auto unit = [&] { return static_cast<float>(random()) / 2147483648.0f - 1.0f; };
  switch (dtype) {
    case DType::kF32:
      for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
        const float value = unit();
        std::memcpy(&bytes[i], &value, 4);
      }
      break;
    case DType::kF64:
      for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
        const double value = unit();
        std::memcpy(&bytes[i], &value, 8);
      }
      break;
    case DType::kF16:
    case DType::kBF16:
      for (size_t i = 1; i < bytes.size(); i += 2) {
        bytes[i - 1] = random() & 0xff;
        bytes[i] = dtype == DType::kF16 ? 0x38 + (random() & 3) : 0x3f;
      }
      break;
    case DType::kBool:
      for (uint8_t& byte : bytes) byte = random() & 1;
      break;
    default:
      FillIntegers(random, dtype, static_cast<uint64_t>(below), bytes);
      break;
  }
}

}  // namespace

void FillRandom(std::mt19937& random, DType dtype, std::span<uint8_t> bytes, int64_t below) {
  constexpr size_t kBlockBytes = 64 << 10;
  FillRandomBlock(random, dtype, std::max<int64_t>(below, 1),
                  bytes.first(std::min(bytes.size(), kBlockBytes)));
  for (size_t done = kBlockBytes; done < bytes.size(); done += kBlockBytes) {
    std::memcpy(&bytes[done], bytes.data(), std::min(kBlockBytes, bytes.size() - done));
  }
}

}  // namespace halyard::runtime
