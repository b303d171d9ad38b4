// SPDX-License-Identifier: Apache-2.0
// Tensor: a concrete tensor in host memory for reference evaluation, constant folding and the text
// form. Not a runtime buffer: it owns its bytes and favours obvious code over speed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

namespace halyard::graph {

// Row-major, packed, little-endian. dtype kInvalid: no tensor (an absent optional operand).
struct Tensor {
  DType dtype = DType::kInvalid;
  std::vector<int64_t> dims;
  std::vector<uint8_t> bytes;
  int64_t elements() const;  // product of dims; the dims of a Tensor never overflow
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

// Product of dims. OUT_OF_RANGE when a dim is negative or the product overflows int64.
Result<int64_t> CountElements(std::span<const int64_t> dims);
// A tensor of zeros. OUT_OF_RANGE as above; `max_bytes` guards against sizes that an input lied
// about.
Result<Tensor> MakeTensor(DType dtype, std::vector<int64_t> dims,
                          int64_t max_bytes = int64_t{1} << 36);

// Element access by flat index, for every dtype. LoadFloat of an integer converts; LoadInt of a
// float is not meant (use ConvertElement). u64 travels as the int64 of the same bits. StoreFloat
// rounds to nearest even into the dtype (overflow to infinity, f8e4m3 to NaN); StoreInt keeps the
// low bits; bool stores != 0.
double LoadFloat(const Tensor& tensor, int64_t index);
int64_t LoadInt(const Tensor& tensor, int64_t index);
void StoreFloat(Tensor& tensor, int64_t index, double value);
void StoreInt(Tensor& tensor, int64_t index, int64_t value);
// The `cast` op on one element: float to integer truncates and saturates, NaN becomes 0; integer to
// integer keeps the low bits; to bool is != 0.
void ConvertElement(const Tensor& from, int64_t from_index, Tensor& to, int64_t to_index);
// Copies one element's bits between tensors of one dtype.
void CopyElement(const Tensor& from, int64_t from_index, Tensor& to, int64_t to_index);

// Row-major strides in elements.
std::vector<int64_t> RowMajorStrides(std::span<const int64_t> dims);
// Steps a multi-index through `dims` in row-major order; false after the last. An empty shape has
// no elements, so callers test the element count first.
bool NextIndex(std::span<const int64_t> dims, std::vector<int64_t>& index);

// "f32[2, 2]{1, 2, 3, 4}", scalars "i64[]{5}". Floats print with the fewest digits that read back
// the same; NaNs with a payload print as "nan(0x...)". ParseTensor is the exact inverse and also
// reads less canonical spellings.
std::string FormatTensor(const Tensor& tensor);
Result<Tensor> ParseTensor(std::string_view text);
std::string FormatElement(const Tensor& tensor, int64_t index);

// Builds a tensor from values; for tests, importers and passes. Each value is stored as by
// StoreFloat or StoreInt.
Tensor TensorOfFloats(DType dtype, std::vector<int64_t> dims, std::span<const double> values);
Tensor TensorOfInts(DType dtype, std::vector<int64_t> dims, std::span<const int64_t> values);

}  // namespace halyard::graph
