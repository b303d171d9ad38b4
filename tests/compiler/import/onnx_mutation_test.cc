// SPDX-License-Identifier: Apache-2.0
// A thousand damaged models: each is imported or refused with one line, and no single allocation
// passes 1 GiB, whatever sizes the damage makes the file claim.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <random>
#include <string>
#include <vector>

#include "compiler/graph/verifier.h"
#include "compiler/import/onnx_import.h"
#include "tests/compiler/import/seed_models.h"
#include "tests/sanitized.h"

namespace halyard::onnx {
namespace {

// Copies one stretch over another, flips bits, inserts and removes, and sets bytes to telling
// values.
void Mutate(std::string& bytes, std::mt19937_64& random) {
  const int edits = 1 + static_cast<int>(random() % 2);
  for (int i = 0; i < edits && !bytes.empty(); ++i) {
    const size_t at = random() % bytes.size();
    switch (random() % 8) {
      case 0:
      case 6:
      case 7:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
        break;
      case 1:
        bytes[at] = static_cast<char>(random());
        break;
      case 2:
        bytes[at] = "\x00\x01\x7f\x80\xff"[random() % 5];
        break;
      case 3:
        bytes.erase(at, 1 + random() % 8);
        break;
      case 4:
        bytes.insert(at, std::string(1 + random() % 10, static_cast<char>(0xff)));
        break;
      default: {
        const size_t from = random() % bytes.size();
        const std::string piece = bytes.substr(from, 1 + random() % 16);
        bytes.replace(at, piece.size(), piece);
      }
    }
  }
}

TEST(OnnxMutation, SeedsAreSound) {
  for (const std::string& seed : testing::SeedModels()) {
    auto module = ImportOnnxBytes({reinterpret_cast<const uint8_t*>(seed.data()), seed.size()});
    ASSERT_TRUE(module.ok()) << module.status().ToString();
    const Status verified = graph::VerifyModule(*module);
    EXPECT_TRUE(verified.ok()) << verified.ToString();
  }
}

TEST(OnnxMutation, DamageGivesAModuleOrOneLine) {
#if !HALYARD_SANITIZED
  // Sanitizers reserve more address space than any limit; they have a limit of their own on
  // allocations.
  // A lie about a size that reached an allocation would meet this limit and fail as OUT_OF_MEMORY.
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  rlimit low = before;
  low.rlim_cur = rlim_t{3} << 30;
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &low), 0);
#endif
  const std::vector<std::string> seeds = testing::SeedModels();
  int imported = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    std::mt19937_64 random(i);
    std::string bytes = seeds[i % seeds.size()];
    Mutate(bytes, random);
    auto module = ImportOnnxBytes({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    if (!module.ok()) {
      const std::string line = module.status().ToLine();
      EXPECT_EQ(line.find('\n'), std::string::npos) << "seed " << i;
      EXPECT_EQ(line.rfind("model: ", 0), 0u) << "seed " << i << ": " << line;
      EXPECT_NE(module.status().code(), StatusCode::kInternal) << "seed " << i << ": " << line;
      EXPECT_NE(module.status().code(), StatusCode::kOutOfMemory) << "seed " << i << ": " << line;
      continue;
    }
    ++imported;
    const Status verified = graph::VerifyModule(*module);
    EXPECT_TRUE(verified.ok()) << "seed " << i << ": " << verified.ToString();
  }
  // Names and values of weights can change without harm, but most damage is seen.
  EXPECT_GT(imported, 50);
  EXPECT_LT(imported, 800);
#if !HALYARD_SANITIZED
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
#endif
}

}  // namespace
}  // namespace halyard::onnx
