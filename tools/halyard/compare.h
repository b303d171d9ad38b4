// SPDX-License-Identifier: Apache-2.0
// Comparison of a result with its expectation, element by element.
#pragma once

#include <string>

#include "tools/halyard/tensor_io.h"

namespace halyard::tools {

struct Comparison {
  bool is_equal = false;
  double max_absolute = 0;
  double max_relative = 0;
  std::string
      difference;  // one sentence about the first element that differs, or about type and shape
};

// |actual - expected| <= atol + rtol * |expected| for every element; NaN equals NaN only,
// infinities themselves only. Integers and booleans are compared the same way.
Comparison Compare(const Tensor& actual, const Tensor& expected, double rtol, double atol);

// Element `index` as a double; of F16 and BF16 too.
double ElementAsDouble(const Tensor& tensor, size_t index);

}  // namespace halyard::tools
