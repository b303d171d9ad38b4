// SPDX-License-Identifier: Apache-2.0
// DType: the element types of tensors, and the one function that computes storage sizes from them.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace halyard {

// The numbers are stable: they stand in program files and in the C API.
// Sub-byte types are packed, lowest bits first; every innermost row starts where the last ended.
enum class DType : uint8_t {
  kInvalid = 0,
  kBool = 1,  // one byte, 0 or 1
  kI8 = 2,
  kU8 = 3,
  kI16 = 4,
  kU16 = 5,
  kI32 = 6,
  kU32 = 7,
  kI64 = 8,
  kU64 = 9,
  kF16 = 10,
  kBF16 = 11,
  kF32 = 12,
  kF64 = 13,
  kF8E4M3 = 14,
  kF8E5M2 = 15,
  kI4 = 16,
  kU4 = 17,
};
inline constexpr int kDTypeCount = 18;

enum class DTypeKind : uint8_t { kInvalid, kBool, kSigned, kUnsigned, kFloat };

// Storage bits of one element: kBool 8, kI4 4, kF32 32. 0 for kInvalid.
int BitWidth(DType dtype);
DTypeKind KindOf(DType dtype);
inline bool IsFloat(DType d) { return KindOf(d) == DTypeKind::kFloat; }
inline bool IsSigned(DType d) { return KindOf(d) == DTypeKind::kSigned; }
inline bool IsInteger(DType d) {
  return KindOf(d) == DTypeKind::kSigned || KindOf(d) == DTypeKind::kUnsigned;
}

// "f32", "i64", "bool", ... Parse is the exact inverse.
std::string_view FormatDType(DType dtype);
Result<DType> ParseDType(std::string_view text);

// Bytes that `elements` packed elements occupy, rounded up to a whole byte. Fails with OUT_OF_RANGE on a
// negative count or when the size does not fit int64.
Result<int64_t> StorageBytes(DType dtype, int64_t elements);

}  // namespace halyard
