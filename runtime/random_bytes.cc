// SPDX-License-Identifier: Apache-2.0
#include "runtime/random_bytes.h"

#include <algorithm>
#include <cstring>

namespace halyard::runtime {
namespace {

void FillRandomBlock(std::mt19937& random, DType dtype, std::span<uint8_t> bytes) {
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
    default: {
      const size_t width = std::max<size_t>(1, static_cast<size_t>(BitWidth(dtype)) / 8);
      for (size_t i = 0; i < bytes.size(); i += width) bytes[i] = random() & 3;
      break;
    }
  }
}

}  // namespace

void FillRandom(std::mt19937& random, DType dtype, std::span<uint8_t> bytes) {
  constexpr size_t kBlockBytes = 64 << 10;
  FillRandomBlock(random, dtype, bytes.first(std::min(bytes.size(), kBlockBytes)));
  for (size_t done = kBlockBytes; done < bytes.size(); done += kBlockBytes) {
    std::memcpy(&bytes[done], bytes.data(), std::min(kBlockBytes, bytes.size() - done));
  }
}

}  // namespace halyard::runtime
