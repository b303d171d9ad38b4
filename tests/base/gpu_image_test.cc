// SPDX-License-Identifier: Apache-2.0
// GPU images: what is written is read back, and whatever byte is damaged the reader stays inside
// the bytes.
#include "base/gpu_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace halyard {
namespace {

std::vector<uint8_t> MakeImage() {
  static const std::vector<uint8_t> first = {1, 2, 3, 4, 5}, second(40, 7);
  GpuImage image;
  image.kind = GpuModuleKind::kCubin;
  image.target = 90;
  image.kernels.push_back({"add", first, 3, 1, {256, 1, 1}, 0, 0});
  image.kernels.push_back({"mul", first, 3, 1, {128, 2, 1}, 32, 0});
  image.kernels.push_back({"gemm", second, 4, 0, {384, 1, 1}, 32, 200 << 10, kGpuEntryWaitsItself});
  return WriteGpuImage(image);
}

TEST(GpuImageTest, IsReadAsWritten) {
  const std::vector<uint8_t> bytes = MakeImage();
  const auto image = ReadGpuImage(bytes);
  ASSERT_TRUE(image.ok()) << image.status().ToString();
  EXPECT_EQ(image->kind, GpuModuleKind::kCubin);
  EXPECT_EQ(image->target, 90u);
  ASSERT_EQ(image->kernels.size(), 3u);
  EXPECT_EQ(image->kernels[0].name, "add");
  EXPECT_THAT(image->kernels[0].module, testing::ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(image->kernels[0].module.data(), image->kernels[1].module.data());  // stored once
  EXPECT_THAT(image->kernels[1].workgroup_size, testing::ElementsAre(128, 2, 1));
  EXPECT_EQ(image->kernels[2].binding_count, 4u);
  EXPECT_EQ(image->kernels[2].dynamic_workgroup_bytes, 200u << 10);
  EXPECT_EQ(image->kernels[2].module.size(), 40u);
  EXPECT_EQ(image->kernels[1].flags, 0u);
  EXPECT_EQ(image->kernels[2].flags, kGpuEntryWaitsItself);
}

TEST(GpuImageTest, LibraryRecordsFollowTheirKernels) {
  GpuLibraryCall call;
  call.matmul.m = 7;
  const auto bytes = AddLibraryCalls(MakeImage(), {{1, call}});
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  const auto image = ReadGpuImage(*bytes);
  ASSERT_TRUE(image.ok()) << image.status().ToString();
  ASSERT_EQ(image->kernels.size(), 3u);
  EXPECT_TRUE(image->kernels[0].library.empty());
  EXPECT_TRUE(image->kernels[2].library.empty());
  GpuLibraryCall read;
  ASSERT_EQ(image->kernels[1].library.size(), sizeof(read));
  std::memcpy(&read, image->kernels[1].library.data(), sizeof(read));
  EXPECT_EQ(read, call);
  EXPECT_FALSE(AddLibraryCalls(MakeImage(), {{3, call}}).ok());
  // One without its kernel before it: the flags of the first entry say that it is one.
  std::vector<uint8_t> bad = MakeImage();
  const uint32_t flag = kGpuEntryLibraryCall;
  std::memcpy(&bad[32 + 52], &flag, sizeof(flag));
  const auto refused = ReadGpuImage(bad);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(),
              testing::HasSubstr("library record 'add' of a GPU image does not follow its kernel"));
}

TEST(GpuImageTest, RefusesWhatIsDamaged) {
  const std::vector<uint8_t> good = MakeImage();
  const auto error = [&](size_t offset, uint32_t value) {
    std::vector<uint8_t> bytes = good;
    std::memcpy(&bytes[offset], &value, sizeof(value));
    const auto image = ReadGpuImage(bytes);
    return image.ok() ? std::string("OK") : image.status().message();
  };
  EXPECT_THAT(error(0, 1), testing::HasSubstr("starts with 0x1"));
  EXPECT_THAT(error(4, 9), testing::HasSubstr("version 9"));
  EXPECT_THAT(error(8, 9), testing::HasSubstr("says that it has 9"));
  EXPECT_THAT(error(16, 5), testing::HasSubstr("unknown kind 5"));
  EXPECT_THAT(error(20, 1 << 19), testing::HasSubstr("says that it has 524288 entries"));
  EXPECT_THAT(error(32, 1 << 30),
              testing::HasSubstr("Entry 0 of a GPU image has its name outside"));
  EXPECT_THAT(error(40, 1 << 30),
              testing::HasSubstr("Entry 0 of a GPU image has its module outside"));
  EXPECT_THAT(error(84, 4), testing::HasSubstr("'add' of a GPU image has the unknown flags 0x4"));
  EXPECT_THAT(error(64, 0), testing::HasSubstr("'add' of a GPU image has a workgroup of size 0"));
}

TEST(GpuImageTest, NeverReadsOutsideDamagedBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::vector<uint8_t> bytes = MakeImage();
    bytes.resize(random() % (bytes.size() + 1));
    for (int i = 0; i < 3 && !bytes.empty(); ++i) bytes[random() % bytes.size()] = random() & 0xff;
    const auto image = ReadGpuImage(bytes);
    if (!image.ok()) continue;
    for (const GpuKernel& kernel : image->kernels) {
      EXPECT_GE(kernel.module.data(), bytes.data());
      EXPECT_LE(kernel.module.data() + kernel.module.size(), bytes.data() + bytes.size());
    }
  }
}

}  // namespace
}  // namespace halyard
