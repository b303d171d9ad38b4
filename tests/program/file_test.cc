// SPDX-License-Identifier: Apache-2.0
// Program files: round trips, mapping in place, mutations, and file systems that refuse.
#include "compiler/program/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/cpu_kernel_abi.h"
#include "random_program.h"
#include "tests/program/repair_hashes.h"

namespace halyard::program {
namespace {

std::vector<uint8_t> ToBytes(const Program& program) {
  std::vector<uint8_t> bytes;
  const Status status = Write(program, [&](std::span<const uint8_t> part) {
    bytes.insert(bytes.end(), part.begin(), part.end());
    return OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status.ToString();
  return bytes;
}

class ProgramFileTest : public testing::Test {
 protected:
  ProgramFileTest() {
    std::string name = testing::TempDir() + "/halyard_file_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~ProgramFileTest() override { std::filesystem::remove_all(folder_); }
  std::string Path(const char* name) const { return folder_ + "/" + name; }
  size_t FileCount() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  std::string folder_;
};

TEST_F(ProgramFileTest, RoundTripKeepsEverything) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const Program program = RandomProgram(seed);
    ASSERT_TRUE(Save(program, Path("p")).ok());
    const auto loaded = Load(Path("p"));
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    EXPECT_EQ(Format(*loaded), Format(program));
    ASSERT_EQ(loaded->executables.size(), program.executables.size());
    for (size_t i = 0; i < program.executables.size(); ++i) {
      EXPECT_EQ(loaded->executables[i].code, program.executables[i].code);
    }
    EXPECT_THAT(loaded->DataBytes(), testing::ElementsAreArray(program.data));
    EXPECT_EQ(ToBytes(*loaded), ToBytes(program));
    EXPECT_EQ(FileCount(), 1u);
  }
}

TEST_F(ProgramFileTest, ConstantsStayInTheMapping) {
  Program program = RandomProgram(3);
  ASSERT_FALSE(program.data.empty());
  ASSERT_TRUE(Save(program, Path("p")).ok());
  const auto loaded = Load(Path("p"));
  ASSERT_TRUE(loaded.ok());
  EXPECT_TRUE(loaded->data.empty());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(loaded->mapped_data.data()) % kDataAlignment, 0u);
  // A replaced file leaves the old mapping whole.
  ASSERT_TRUE(Save(RandomProgram(4), Path("p")).ok());
  EXPECT_THAT(loaded->DataBytes(), testing::ElementsAreArray(program.data));
}

TEST_F(ProgramFileTest, MissingAndForeignFiles) {
  EXPECT_EQ(Load(Path("none")).status().code(), StatusCode::kNotFound);
  std::ofstream(Path("empty")).flush();
  EXPECT_EQ(Load(Path("empty")).status().code(), StatusCode::kDataLoss);
  std::ofstream(Path("text")) << std::string(1000, 'x');
  EXPECT_THAT(Load(Path("text")).status().ToLine(), testing::HasSubstr("not a Halyard program"));
  EXPECT_EQ(Load(folder_).status().code(), StatusCode::kDataLoss);
  auto bytes = ToBytes(RandomProgram(0));
  bytes[8] = 99;
  const Status version = LoadFromMemory(bytes, nullptr).status();
  EXPECT_EQ(version.code(), StatusCode::kIncompatible);
  EXPECT_THAT(version.ToLine(), testing::HasSubstr("has version 99; this Halyard reads version 5"));
}

TEST_F(ProgramFileTest, RefusedByTheFileSystem) {
  EXPECT_EQ(Save(RandomProgram(0), Path("no/such/folder/p")).code(), StatusCode::kUnavailable);
  // A full disk, imitated by the limit of file sizes: the write fails, nothing is left behind.
  struct rlimit old_limit;
  getrlimit(RLIMIT_FSIZE, &old_limit);
  const struct rlimit small = {512, old_limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const Status status = Save(RandomProgram(0), Path("p"));
  setrlimit(RLIMIT_FSIZE, &old_limit);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
  EXPECT_EQ(FileCount(), 0u);
}

TEST(ProgramMutationTest, EveryTruncationIsRefused) {
  const auto bytes = ToBytes(RandomProgram(5));
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + static_cast<long>(size));
    ASSERT_FALSE(LoadFromMemory(cut, nullptr).ok()) << size;
  }
}

TEST(ProgramMutationTest, EveryChangedByteIsFound) {
  const Program program = RandomProgram(6);
  const auto bytes = ToBytes(program);
  for (size_t at = 0; at < bytes.size(); ++at) {
    auto changed = bytes;
    changed[at] ^= 0x40;
    const auto loaded = LoadFromMemory(changed, nullptr);
    // Padding between sections is no content; everything else is hashed.
    if (loaded.ok()) {
      EXPECT_EQ(Format(*loaded), Format(program)) << at;
      EXPECT_EQ(bytes[at], 0) << at;
    }
  }
}

TEST(ProgramMutationTest, MutationsBehindGoodHashesNeverCrash) {
  std::mt19937 random(11);
  int accepted = 0, refused = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const auto bytes = ToBytes(RandomProgram(seed));
    for (int round = 0; round < 300; ++round) {
      auto changed = bytes;
      for (uint32_t i = 1 + random() % 4; i > 0; --i) {
        const size_t at = random() % changed.size();
        const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff, static_cast<uint8_t>(random())};
        changed[at] = values[random() % 6];
      }
      RepairHashes(changed);
      const auto loaded = LoadFromMemory(changed, nullptr);
      if (loaded.ok()) {
        ++accepted;
        EXPECT_TRUE(Verify(*loaded).ok());
        const std::string text = Format(*loaded);
        const auto parsed = Parse(text);
        ASSERT_TRUE(parsed.ok()) << parsed.status().ToString() << "\n" << text;
        ASSERT_EQ(Format(*parsed), text);
      } else {
        ++refused;
        EXPECT_FALSE(loaded.status().message().empty());
      }
    }
  }
  EXPECT_GT(accepted, 0);  // the mutations reach past the hashes
  EXPECT_GT(refused, 0);
}

TEST(ProgramRequirementTest, AreReadWithoutTheTablesAndComeFromTheImage) {
  uint32_t seed = 2;
  Program program = RandomProgram(seed);
  while (program.executables.size() < 2) program = RandomProgram(++seed);
  for (Device& device : program.devices) device.target.cpu_features = 7;
  CpuImageHeader header = {};
  header.magic = kCpuImageMagic;
  header.features = 3;
  program.executables[0].code.assign(reinterpret_cast<uint8_t*>(&header),
                                     reinterpret_cast<uint8_t*>(&header + 1));
  const auto requirements = ReadRequirements(ToBytes(program));
  ASSERT_TRUE(requirements.ok()) << requirements.status().ToString();
  ASSERT_EQ(requirements->size(), program.executables.size());
  EXPECT_EQ((*requirements)[0].features, 3u);
  EXPECT_EQ((*requirements)[0].format, "cpu-image");
  ASSERT_GT(requirements->size(), 1u);
  EXPECT_EQ((*requirements)[1].features, 7u);
}

TEST(ProgramRequirementTest, CheckTargetNamesWhatIsMissing) {
  Target needed, available;
  needed.cpu_features = 5;
  available.cpu_features = 7;
  EXPECT_TRUE(CheckTarget(needed, available).ok());
  available.cpu_features = 1;
  const Status status = CheckTarget(needed, available);
  EXPECT_EQ(status.code(), StatusCode::kIncompatible);
  EXPECT_THAT(status.ToLine(), testing::HasSubstr("0x4"));
  available.triple = "aarch64-unknown-linux-gnu";
  EXPECT_THAT(CheckTarget(needed, available).ToLine(), testing::HasSubstr("aarch64"));
  available.kind = TargetKind::kCuda;
  EXPECT_FALSE(CheckTarget(needed, available).ok());
}

TEST(ProgramRequirementTest, CheckTargetNamesWhatAGpuLacks) {
  const Target needed = *ParseTarget("vulkan-8");
  Target available = needed;
  EXPECT_TRUE(CheckTarget(needed, available).ok());
  available.gpu.features &= ~uint64_t{1};
  EXPECT_THAT(CheckTarget(needed, available).ToLine(), testing::HasSubstr("bits 0x1"));
  available = needed;
  available.gpu.subgroup_size = 16;
  EXPECT_THAT(CheckTarget(needed, available).ToLine(), testing::HasSubstr("subgroups of 8"));
  available = needed;
  available.gpu.workgroup_memory_bytes = 1024;
  EXPECT_THAT(CheckTarget(needed, available).ToLine(), testing::HasSubstr("allows 1024 and 1024"));
  const Target ends_loops = *ParseTarget("llvmpipe-8");
  EXPECT_THAT(CheckTarget(needed, ends_loops).ToLine(),
              testing::HasSubstr("device 'llvmpipe-8' ends those of a workitem after 65535"));
  EXPECT_TRUE(CheckTarget(ends_loops, needed).ok());
  EXPECT_THAT(CheckTarget(*ParseTarget("cuda-sm80"), *ParseTarget("cuda-sm90")).ToLine(),
              testing::HasSubstr("made for sm_80"));
}

}  // namespace
}  // namespace halyard::program
