// SPDX-License-Identifier: Apache-2.0
// Comparison of results, on tensors whose differences are known.
#include "tools/halyard/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace halyard::tools {
namespace {

Tensor F32(const std::vector<float>& values) {
  Tensor tensor;
  tensor.dtype = HY_DTYPE_F32;
  tensor.dims = {static_cast<int64_t>(values.size())};
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  tensor.bytes.assign(bytes, bytes + values.size() * sizeof(float));
  return tensor;
}

TEST(Compare, AbsoluteAndRelativeTolerancesAddUp) {
  const Tensor expected = F32({100, 1});
  EXPECT_TRUE(Compare(F32({100.9f, 1}), expected, 1e-2, 0).is_equal);
  EXPECT_FALSE(Compare(F32({101.1f, 1}), expected, 1e-2, 0).is_equal);
  EXPECT_TRUE(Compare(F32({101.1f, 1}), expected, 1e-2, 0.2).is_equal);
  EXPECT_EQ(Compare(F32({100, 2}), expected, 1e-2, 0).difference,
            "element 1 is 2; 1 is expected (rtol 0.01, atol 0)");
}

TEST(Compare, TheLargestMagnitudeIsOfFiniteElements) {
  EXPECT_EQ(LargestMagnitude(F32({1, -3, 2})), 3);
  EXPECT_EQ(LargestMagnitude(F32({1, -INFINITY, NAN, 2})), 2);
  EXPECT_EQ(LargestMagnitude(F32({})), 0);
}

}  // namespace
}  // namespace halyard::tools
