// SPDX-License-Identifier: Apache-2.0
// Loading code: entries by name and number, and images that must be refused.
#include <random>

#include "tests/hal/cts/cts.h"

namespace halyard::cts {
namespace {

HAL_CASE(ExecutableEntries) {
  std::vector<uint8_t> image = kernels().Image(device_->capabilities());
  Result<Ref<hal::Executable>> all = device_->LoadExecutable(Source(image));
  ASSERT_OK(all);
  ASSERT_EQ((*all)->entries().size(), 4u);
  EXPECT_EQ((*all)->device(), device_.get());
  EXPECT_EQ((*all)->entries()[1].name, "gather");
  EXPECT_EQ((*all)->entries()[1].binding_count, 3u);
  EXPECT_EQ((*all)->FindEntry("scratch").value(), 3u);
  EXPECT_FAILS((*all)->FindEntry("scratches"), kNotFound,
               "it has: add_scalar, gather, grid, scratch");

  const hal::ExecutableEntry kTwo[] = {{"scratch", 1, 0, {}}, {"grid", 1, 2, {"site"}}};
  Result<Ref<hal::Executable>> two = device_->LoadExecutable(Source(image, kTwo));
  ASSERT_OK(two);
  EXPECT_EQ((*two)->FindEntry("grid").value(), 1u);
  EXPECT_EQ((*two)->entries()[1].sites.size(), 1u);

  const hal::ExecutableEntry kMissing[] = {{"conv", 1, 0, {}}};
  EXPECT_FAILS(device_->LoadExecutable(Source(image, kMissing)), kNotFound, "'conv'");
  const hal::ExecutableEntry kOther[] = {{"grid", 2, 2, {}}};
  EXPECT_FAILS(device_->LoadExecutable(Source(image, kOther)), kDataLoss,
               "1 bindings and 2 scalars");
  hal::ExecutableSource other = Source(image);
  other.format = "abacus";
  EXPECT_FAILS(device_->LoadExecutable(other), kIncompatible, "'abacus'");
}

HAL_CASE(ExecutableBadImagesAreRefused) {
  const std::vector<ImageCase> cases = kernels().BadImages(device_->capabilities());
  EXPECT_GE(cases.size(), 10u);
  for (const ImageCase& bad : cases) {
    Result<Ref<hal::Executable>> result = device_->LoadExecutable(Source(bad.code));
    EXPECT_EQ(result.status().code(), bad.expected) << bad.part;
    EXPECT_NE(result.status().ToString().find(bad.part), std::string::npos)
        << result.status().ToString() << " should contain: " << bad.part;
  }
}

HAL_CASE(ExecutableMissingFeaturesAreNamed) {
  for (const ImageCase& image : kernels().FeatureImages(device_->capabilities())) {
    Result<Ref<hal::Executable>> result = device_->LoadExecutable(Source(image.code));
    EXPECT_EQ(result.status().code(), image.expected) << result.status().ToString();
    if (result.ok()) continue;
    EXPECT_NE(result.status().ToString().find(image.part), std::string::npos)
        << result.status().ToString() << " should contain: " << image.part;
  }
}

// Whatever the header and table say, loading answers and touches nothing outside the image.
HAL_CASE(ExecutableMutatedTablesNeverCrash) {
  const std::vector<uint8_t> good = kernels().Image(device_->capabilities());
  size_t table_bytes = kernels().table_bytes();
  std::mt19937 random(GetParam().is_validated ? 1 : 2);
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    std::vector<uint8_t> image = good;
    int changes = 1 + static_cast<int>(random() % 3);
    for (int c = 0; c < changes; ++c)
      image[random() % table_bytes] = static_cast<uint8_t>(random());
    if (random() % 4 == 0) image.resize(random() % image.size());
    Result<Ref<hal::Executable>> result = device_->LoadExecutable(Source(image));
    if (!result.ok()) {
      ++refused;
      StatusCode code = result.status().code();
      EXPECT_TRUE(code == StatusCode::kDataLoss || code == StatusCode::kIncompatible)
          << result.status().ToString();
    }
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace halyard::cts
