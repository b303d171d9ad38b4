// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

namespace halyard {
namespace {

struct DTypeRow {
  std::string_view name;
  int bits;
  DTypeKind kind;
};

constexpr DTypeRow kRows[kDTypeCount] = {
    {"invalid", 0, DTypeKind::kInvalid}, {"bool", 8, DTypeKind::kBool},
    {"i8", 8, DTypeKind::kSigned},       {"u8", 8, DTypeKind::kUnsigned},
    {"i16", 16, DTypeKind::kSigned},     {"u16", 16, DTypeKind::kUnsigned},
    {"i32", 32, DTypeKind::kSigned},     {"u32", 32, DTypeKind::kUnsigned},
    {"i64", 64, DTypeKind::kSigned},     {"u64", 64, DTypeKind::kUnsigned},
    {"f16", 16, DTypeKind::kFloat},      {"bf16", 16, DTypeKind::kFloat},
    {"f32", 32, DTypeKind::kFloat},      {"f64", 64, DTypeKind::kFloat},
    {"f8e4m3", 8, DTypeKind::kFloat},    {"f8e5m2", 8, DTypeKind::kFloat},
    {"i4", 4, DTypeKind::kSigned},       {"u4", 4, DTypeKind::kUnsigned},
};

const DTypeRow& RowOf(DType dtype) {
  const int index = static_cast<int>(dtype);
  return kRows[index < kDTypeCount ? index : 0];
}

}  // namespace

int BitWidth(DType dtype) { return RowOf(dtype).bits; }
DTypeKind KindOf(DType dtype) { return RowOf(dtype).kind; }
std::string_view FormatDType(DType dtype) { return RowOf(dtype).name; }

Result<DType> ParseDType(std::string_view text) {
  for (int i = 1; i < kDTypeCount; ++i) {
    if (kRows[i].name == text) return static_cast<DType>(i);
  }
  return InvalidArgument("'{}' is not a dtype; the dtypes are bool, i8 to i64, u8 to u64, f16, bf16, f32, "
                         "f64, f8e4m3, f8e5m2, i4 and u4.", text);
}

Result<int64_t> StorageBytes(DType dtype, int64_t elements) {
  if (elements < 0) return OutOfRange("A tensor has {} elements; the least is 0.", elements);
  int64_t bits = 0;
  if (__builtin_mul_overflow(elements, static_cast<int64_t>(BitWidth(dtype)), &bits) ||
      __builtin_add_overflow(bits, int64_t{7}, &bits)) {
    return OutOfRange("A tensor of {} elements of {} is larger than 2^63 bits.", elements,
                      FormatDType(dtype));
  }
  return bits / 8;
}

}  // namespace halyard
