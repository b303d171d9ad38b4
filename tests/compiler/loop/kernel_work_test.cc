// SPDX-License-Identifier: Apache-2.0
// What kernels of Loop IR do, counted by hand.
#include <gtest/gtest.h>

#include "compiler/loop/kernel_work.h"
#include "compiler/loop/text.h"

namespace halyard::loop {
namespace {

// Column sums of a product with a bias and an activation, rows picked from a table, and a triangle.
constexpr std::string_view kKernels = R"(function {
  symbol n in [1, 64]
  buffer a: f16[10*n] input
  buffer b: f16[60] input
  buffer bias: f32[6] constant 0
  buffer ids: i64[n] input
  buffer table: f32[8000] input
  buffer wide: FACTOR[10*n] input
  buffer whole: i8[60] input
  buffer mask: f32[64] input
  buffer scores: f32[n*10] temp
  buffer c: f32[6*n] temp
  buffer d: f32[8*n] output
  buffer e: f32[n] output
  kernel mm contraction(m: i; n: j; k: k; product: %2, %4; sum: %0) {
    parallel i < n {
      parallel j < 6 {
        %0 = reduce sum k < 10 {
          %1 = load a[10*i + k]
          %2 = convert.f32 %1
          %3 = load b[j + 6*k]
          %4 = convert.f32 %3
          %5 = mul %2, %4
          yield %5
        }
        %6 = load bias[j]
        %7 = add %0, %6
        %8 = exp %7
        store c[6*i + j], %8
      }
    }
  }
  kernel pick {
    site "gather" "index of gather"
    parallel p < n {
      %0 = load ids[p]
      indirect q = %0 < 1000 site 0
      parallel r < 8 {
        %1 = load table[8*q + r]
        store d[8*p + r], %1
      }
    }
  }
  kernel window {
    parallel p < n {
      %0 = reduce sum r < 3 {
        %1 = reduce sum s < 5 {
          %2 = load c[p + r + s]
          %3 = mul %2, %2
          yield %3
        }
        yield %1
      }
      store e[p], %0
    }
  }
  kernel narrowed contraction(m: i; n: j; k: k; product: %2, %4; sum: %0) {
    parallel i < n {
      parallel j < 6 {
        %0 = reduce sum k < 10 {
          %1 = load wide[10*i + k]
          %2 = convert.f32 %1
          %3 = load whole[j + 6*k]
          %4 = convert.f32 %3
          %5 = mul %2, %4
          yield %5
        }
        store c[6*i + j], %0
      }
    }
  }
  kernel attend attention(m: i) {
    parallel i < n {
      parallel j < 6 {
        %0 = reduce sum k < 10 {
          %1 = load wide[10*i + k]
          %2 = convert.f32 %1
          %3 = load b[j + 6*k]
          %4 = convert.f32 %3
          %5 = mul %2, %4
          yield %5
        }
        %6 = load mask[j]
        %7 = add %0, %6
        store scores[10*i + j], %7
      }
      parallel x < 6 {
        %8 = reduce sum r < 6 {
          %9 = load scores[10*i + r]
          %10 = load b[6*x + r]
          %11 = convert.f32 %10
          %12 = mul %9, %11
          yield %12
        }
        store c[6*i + x], %8
      }
    }
  }
  kernel padded contraction(m: i; n: j; k: k; product: %5, %7; sum: %0) {
    parallel i < n {
      parallel j < 6 {
        %0 = reduce sum k < 10 {
          %1 = const.f32 0.0
          %2 = load a[10*i + k]
          %3 = convert.f32 %2
          %4 = ne %3, %3
          %5 = select %4, %1, %3
          %6 = load b[j + 6*k]
          %7 = convert.f32 %6
          %8 = mul %5, %7
          yield %8
        }
        store c[6*i + j], %0
      }
    }
  }
  kernel triangle {
    parallel p < n {
      %0 = reduce sum r < p + 1 {
        %1 = load c[r]
        yield %1
      }
      store e[p], %0
    }
  }
}
)";

class KernelWorkTest : public testing::Test {
 protected:
  KernelWorkTest() { Parse("f64"); }
  // The first factor of `narrowed` is stored as that.
  void Parse(const std::string& factor) {
    std::string text(kKernels);
    text.replace(text.find("FACTOR"), 6, factor);
    auto parsed = ParseFunction(text, exprs_);
    EXPECT_TRUE(parsed.ok()) << parsed.status().ToLine();
    if (parsed.ok()) function_ = std::move(*parsed);
  }
  int64_t At(Expr expr, int64_t n) {
    const auto value = exprs_.Evaluate(expr, [&](Expr) -> std::optional<int64_t> { return n; });
    EXPECT_TRUE(value.ok());
    return value.ok() ? *value : -1;
  }
  ExprArena exprs_;
  Function function_;
};

TEST_F(KernelWorkTest, AProductWithItsEpilogue) {
  const KernelCounts counts = CountKernel(function_, 0);
  for (const int64_t n : {1, 5, 64}) {
    EXPECT_EQ(At(counts.flops, n), n * 6 * (10 * 2 + 2));
    EXPECT_EQ(At(counts.read_bytes, n), 2 * 10 * n + 2 * 60 + 4 * 6) << "each byte once";
    EXPECT_EQ(At(counts.written_bytes, n), 4 * 6 * n);
  }
  EXPECT_EQ(counts.product, DType::kF16) << "as the factors are stored";
}

TEST_F(KernelWorkTest, RowsOfATableAreNotTheTable) {
  const KernelCounts counts = CountKernel(function_, 1);
  EXPECT_EQ(At(counts.flops, 7), 0);
  EXPECT_EQ(At(counts.read_bytes, 7), 8 * 7 + 4 * 8 * 7);
  EXPECT_EQ(At(counts.written_bytes, 7), 4 * 8 * 7);
  EXPECT_EQ(counts.product, DType::kInvalid);
}

TEST_F(KernelWorkTest, LoopsOverPartsOfAnIndexAddEachElementOnce) {
  EXPECT_EQ(At(CountKernel(function_, 2).flops, 9), 9 * 3 * 5 * 2);
}

TEST_F(KernelWorkTest, TheProductIsOfTheArithmetic) {
  EXPECT_EQ(CountKernel(function_, 3).product, DType::kF32) << "an f64 that was narrowed";
  EXPECT_EQ(At(CountKernel(function_, 3).read_bytes, 3), 8 * 10 * 3 + 60);
  for (const char* factor : {"f16", "i8"}) {
    Parse(factor);
    EXPECT_EQ(CountKernel(function_, 3).product, DType::kF32) << "an integer becomes an f32";
  }
}

TEST_F(KernelWorkTest, AttentionIsOfItsFactors) {
  Parse("f16");
  EXPECT_EQ(CountKernel(function_, 4).product, DType::kF16) << "whatever mask and scores are";
  Parse("f32");
  EXPECT_EQ(CountKernel(function_, 4).product, DType::kF32) << "the wider factor";
}

TEST_F(KernelWorkTest, APaddedFactorIsWhatItWasStoredIn) {
  EXPECT_EQ(CountKernel(function_, 5).product, DType::kF16);
}

TEST_F(KernelWorkTest, LoopsThatDependOnEachOtherAreNotCounted) {
  const KernelCounts counts = CountKernel(function_, 6);
  EXPECT_FALSE(counts.flops.valid());
  EXPECT_FALSE(counts.read_bytes.valid());
}

}  // namespace
}  // namespace halyard::loop
