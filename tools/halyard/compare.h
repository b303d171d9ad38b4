// SPDX-License-Identifier: Apache-2.0
// Comparison of a result with its expectation, element by element.
#pragma once

#include <string>

#include "tools/halyard/tensor_io.h"

namespace halyard::tools {

struct Comparison {
  bool is_equal = false;
  double max_absolute = 0;  // of the elements that are finite on both sides
  double max_relative = 0;
  bool is_finite = true;  // NaN and infinities stand where they are expected, and nowhere else
  std::string
      difference;  // one sentence about the first element that differs, or about type and shape
};

// |actual - expected| <= atol + rtol * |expected| for every element; a NaN, of any sign and bits,
// equals a NaN only, an infinity itself only. Integers and booleans are compared the same way.
Comparison Compare(const Tensor& actual, const Tensor& expected, double rtol, double atol);

// Of the finite elements; 0 where there is none.
double LargestMagnitude(const Tensor& tensor);

// Element `index` as a double; of F16 and BF16 too.
double ElementAsDouble(const Tensor& tensor, size_t index);

}  // namespace halyard::tools
