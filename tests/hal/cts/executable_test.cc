// SPDX-License-Identifier: Apache-2.0
// Loading code: entries by name and number, and images that must be refused.
#include <cstring>
#include <random>

#include "base/cpu_kernel_abi.h"
#include "tests/hal/cts/cts.h"
#include "tests/hal/cts/test_image.h"

namespace halyard::cts {
namespace {

hal::ExecutableSource Source(std::span<const uint8_t> code,
                             std::span<const hal::ExecutableEntry> entries = {}) {
  hal::ExecutableSource source;
  source.format = "cpu-image";
  source.code = code;
  source.name = "under test";
  source.entries = entries;
  return source;
}

HAL_CASE(ExecutableEntries) {
  std::vector<uint8_t> image = TestImage();
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
  other.format = "cubin";
  EXPECT_FAILS(device_->LoadExecutable(other), kIncompatible, "'cubin'");
}

template <typename T>
std::vector<uint8_t> With(std::vector<uint8_t> image, size_t offset, T value) {
  std::memcpy(image.data() + offset, &value, sizeof(value));
  return image;
}

HAL_CASE(ExecutableBadImagesAreRefused) {
  const std::vector<uint8_t> good = TestImage();
  auto load = [&](const std::vector<uint8_t>& image) {
    return device_->LoadExecutable(Source(image));
  };
  ASSERT_OK(load(good));
  EXPECT_FAILS(load({}), kDataLoss, "0 bytes");
  EXPECT_FAILS(load({good.begin(), good.begin() + 31}), kDataLoss, "31 bytes");
  EXPECT_FAILS(load({good.begin(), good.end() - 1}), kDataLoss, "says that it has");
  EXPECT_FAILS(load(With(good, 0, uint32_t{1})), kDataLoss, "starts with");
  EXPECT_FAILS(load(With(good, 4, uint32_t{99})), kIncompatible, "version 99");
  EXPECT_FAILS(load(With(good, 8, uint64_t{1} << 60)), kDataLoss, "says that it has");
  EXPECT_FAILS(load(With(good, 16, uint64_t{1} << 63)), kIncompatible, "bit 63");
  EXPECT_FAILS(load(With(good, 24, uint32_t{0})), kDataLoss, "0 entries");
  EXPECT_FAILS(load(With(good, 24, UINT32_MAX)), kDataLoss, "4294967295 entries");
  EXPECT_FAILS(load(With(good, 28, uint32_t{5})), kDataLoss, "reserved");
  size_t entry = sizeof(CpuImageHeader) + sizeof(CpuImageEntry);  // the second
  EXPECT_FAILS(load(With(good, entry + 0, uint32_t{8})), kDataLoss, "The name of entry 1");
  EXPECT_FAILS(load(With(good, entry + 0, UINT32_MAX)), kDataLoss, "The name of entry 1");
  EXPECT_FAILS(load(With(good, entry + 4, uint32_t{0})), kDataLoss, "The name of entry 1");
  EXPECT_FAILS(load(With(good, entry + 4, UINT32_MAX)), kDataLoss, "The name of entry 1");
  EXPECT_FAILS(load(With(good, entry + 8, uint64_t{good.size()})), kDataLoss,
               "The code of entry 'gather'");
  EXPECT_FAILS(load(With(good, entry + 8, uint64_t{40})), kDataLoss, "The code of entry 'gather'");
  EXPECT_FAILS(load(With(good, entry + 16, uint64_t{1} << 40)), kDataLoss, "workgroup memory");
  EXPECT_FAILS(load(With(good, entry + 24, uint32_t{1} << 20)), kDataLoss, "bindings");
  EXPECT_FAILS(load(With(good, entry + 28, uint32_t{1} << 20)), kDataLoss, "scalars");
  uint32_t first_name;
  std::memcpy(&first_name, good.data() + sizeof(CpuImageHeader), sizeof(first_name));
  std::vector<uint8_t> twice = With(good, entry + 0, first_name);
  twice = With(twice, entry + 4, uint32_t{10});
  EXPECT_FAILS(load(twice), kDataLoss, "two entries named 'add_scalar'");
}

HAL_CASE(ExecutableMissingInstructionSetsAreNamed) {
  uint64_t have = device_->capabilities().compute.cpu_features.ValueOr(0);
  constexpr CpuFeature kAll[] = {
      CpuFeature::kSse42,      CpuFeature::kAvx2,       CpuFeature::kAvx512,
      CpuFeature::kAvx512Vnni, CpuFeature::kAvx512Bf16, CpuFeature::kAvx512Fp16,
      CpuFeature::kAmxTile,    CpuFeature::kAmxInt8,    CpuFeature::kAmxBf16};
  for (CpuFeature feature : kAll) {
    uint64_t bit = static_cast<uint64_t>(feature);
    std::vector<uint8_t> image = BuildImage({{"nothing", {0xc3}, 0, 0, 0}}, bit);
    Result<Ref<hal::Executable>> result = device_->LoadExecutable(Source(image));
    if (have & bit) {
      EXPECT_OK(result);
    } else {
      EXPECT_FAILS(result, kIncompatible, "this device lacks");
    }
  }
}

// Whatever the header and table say, loading answers and touches nothing outside the image.
HAL_CASE(ExecutableMutatedTablesNeverCrash) {
  const std::vector<uint8_t> good = TestImage();
  size_t table_bytes = sizeof(CpuImageHeader) + 4 * sizeof(CpuImageEntry);
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
