// SPDX-License-Identifier: Apache-2.0
// The cache folder under everything that happens to folders: several processes, a full disk, a
// process that dies while it writes, and torn lines.
#include "runtime/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utime.h>

#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "tests/program/random_program.h"

namespace halyard::runtime {
namespace {

class CacheTest : public testing::Test {
 protected:
  CacheTest() {
    std::string name = testing::TempDir() + "/halyard_cache_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~CacheTest() override { std::filesystem::remove_all(folder_); }

  std::shared_ptr<Cache> Open() const {
    auto cache = Cache::Open(folder_);
    EXPECT_TRUE(cache.ok()) << cache.status().ToString();
    return *cache;
  }
  static program::Program ProgramFor(uint64_t key) {
    program::Program program = program::RandomProgram(static_cast<uint32_t>(key));
    program.content_hash = key;
    return program;
  }
  size_t FileCount() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  // Runs `body` in a process of its own; returns its wait status.
  template <typename Body>
  static int InChild(const Body& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }
  // Limits the size of files that this process may write; what goes beyond fails.
  static void LimitFileSize(rlim_t bytes) {
    const rlimit limit = {bytes, bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  std::string folder_;
};

TEST_F(CacheTest, KeepsProgramsByKey) {
  const auto cache = Open();
  EXPECT_EQ(cache->FindProgram(1).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(cache->StoreProgram(1, ProgramFor(1)).ok());
  const auto found = Open()->FindProgram(1);
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(program::Format(*found), program::Format(ProgramFor(1)));
  // An entry under another key is not taken.
  std::filesystem::copy(cache->ProgramPath(1), cache->ProgramPath(2));
  EXPECT_EQ(cache->FindProgram(2).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(cache->FindProgram(2).status().code(), StatusCode::kNotFound) << "it was removed";
}

TEST_F(CacheTest, ProcessesFillOneFolder) {
  constexpr int kProcesses = 4, kRounds = 30, kKeys = 5;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto cache = Cache::Open(folder_);
      bool is_good = cache.ok();
      for (uint64_t round = 0; is_good && round < kRounds; ++round) {
        const uint64_t key = 1 + (round + static_cast<uint64_t>(p)) % kKeys;
        const auto found = (*cache)->FindProgram(key);
        // Each time whole, or not there yet.
        is_good = found.ok() ? program::Format(*found) == program::Format(ProgramFor(key))
                             : found.status().code() == StatusCode::kNotFound;
        is_good = is_good && (*cache)->StoreProgram(key, ProgramFor(key)).ok();
        (*cache)->StoreTiming(static_cast<uint64_t>(p), round, "record", 1e-3);
      }
      _exit(is_good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  const auto cache = Open();
  for (uint64_t key = 1; key <= kKeys; ++key) {
    EXPECT_TRUE(cache->FindProgram(key).ok()) << key;
  }
  for (uint64_t p = 0; p < kProcesses; ++p) {
    for (uint64_t round = 0; round < kRounds; ++round) {
      EXPECT_EQ(cache->FindTiming(p, round), "record") << p << " " << round;
    }
  }
  EXPECT_EQ(FileCount(), size_t{kKeys} + 1) << "no temporary file is left";
}

TEST_F(CacheTest, AFullDiskIsAnErrorAndLeavesNothing) {
  const int status = InChild([&] {
    const auto cache = Cache::Open(folder_);
    LimitFileSize(512);
    if ((*cache)->StoreProgram(1, ProgramFor(1)).code() != StatusCode::kUnavailable) return 1;
    if ((*cache)->FindProgram(1).status().code() != StatusCode::kNotFound) return 2;
    // What does not reach the disk is still known to this process.
    for (uint64_t key = 0; key < 40; ++key) (*cache)->StoreTiming(1, key, "record", 1);
    for (uint64_t key = 0; key < 40; ++key) {
      if ((*cache)->FindTiming(1, key) != "record") return 3;
    }
    return 0;
  });
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
  EXPECT_EQ(FileCount(), 1u) << "the timings alone";
  EXPECT_LE(std::filesystem::file_size(folder_ + "/timings"), 512u);
  const auto cache = Open();
  EXPECT_EQ(cache->FindTiming(1, 0), "record");
  EXPECT_EQ(cache->FindTiming(1, 39), std::nullopt);
  // The torn line at the end harms no later one.
  cache->StoreTiming(1, 39, "later", 1);
  EXPECT_EQ(Open()->FindTiming(1, 39), "later");
  EXPECT_EQ(Open()->FindTiming(1, 0), "record");
}

TEST_F(CacheTest, AProcessThatDiesWhileItWritesLeavesNoEntry) {
  const int status = InChild([&] {
    const auto cache = Cache::Open(folder_);
    // The data section lies in memory that cannot be read: saving ends the process in its middle.
    program::Program program = ProgramFor(1);
    const size_t size = program.data.size() + 4096;
    void* unreadable = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    program.mapping = std::shared_ptr<const void>(unreadable, [](const void*) {});
    program.mapped_data = {static_cast<const uint8_t*>(unreadable), size};
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would turn it into an exit
    (*cache)->StoreProgram(1, program).Ignore();
    return 0;
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(FileCount(), 1u) << "what the process had written";
  const std::string abandoned = std::filesystem::directory_iterator(folder_)->path();
  const auto cache = Open();
  EXPECT_EQ(cache->FindProgram(1).status().code(), StatusCode::kNotFound);
  // It may still be at work: only what is old is removed, when something is stored.
  ASSERT_TRUE(cache->StoreProgram(1, ProgramFor(1)).ok());
  EXPECT_TRUE(cache->FindProgram(1).ok());
  EXPECT_EQ(FileCount(), 2u);
  const utimbuf old = {time(nullptr) - 7200, time(nullptr) - 7200};
  ASSERT_EQ(utime(abandoned.c_str(), &old), 0);
  ASSERT_EQ(utime(cache->ProgramPath(1).c_str(), &old), 0);
  ASSERT_TRUE(cache->StoreProgram(2, ProgramFor(2)).ok());
  EXPECT_FALSE(std::filesystem::exists(abandoned));
  EXPECT_TRUE(cache->FindProgram(1).ok()) << "an entry is no temporary file";
}

TEST_F(CacheTest, TimingsAreKeptByDeviceAndKey) {
  const auto cache = Open();
  cache->StoreTiming(1, 2, "tile=8 vector=[1, 4]", 1e-3);
  cache->StoreTiming(1, 3, "other", 1e-3);
  cache->StoreTiming(1, 2, "newer", 1e-3);
  cache->StoreTiming(1, 4, "two\nlines", 1e-3);
  EXPECT_EQ(cache->FindTiming(2, 2), std::nullopt);
  for (const auto& reader : {cache, Open()}) {
    EXPECT_EQ(reader->FindTiming(1, 2), "newer");
    EXPECT_EQ(reader->FindTiming(1, 3), "other");
    EXPECT_EQ(reader->FindTiming(1, 4), std::nullopt);
  }
}

TEST_F(CacheTest, ChangedTimingLinesAreSkipped) {
  Open()->StoreTiming(1, 2, "first", 1e-3);
  Open()->StoreTiming(1, 3, "second", 1e-3);
  std::string text;
  {
    std::ifstream file(folder_ + "/timings");
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  const size_t at = text.find("first");
  text[at] = 'F';
  std::ofstream(folder_ + "/timings") << "noise\n" << text << std::string(100, '\0');
  const auto cache = Open();
  EXPECT_EQ(cache->FindTiming(1, 2), std::nullopt);
  EXPECT_EQ(cache->FindTiming(1, 3), "second");
}

TEST_F(CacheTest, PipesInPlaceOfEntriesAreMisses) {
  ASSERT_EQ(mkfifo((folder_ + "/0000000000000005.hyp").c_str(), 0600), 0);
  ASSERT_EQ(mkfifo((folder_ + "/timings").c_str(), 0600), 0);
  const auto cache = Open();
  EXPECT_FALSE(cache->FindProgram(5).ok());
  EXPECT_TRUE(cache->StoreProgram(5, ProgramFor(5)).ok());
  EXPECT_TRUE(cache->FindProgram(5).ok());
  EXPECT_FALSE(cache->FindTiming(1, 2).has_value());
  cache->StoreTiming(1, 2, "row 3", 1e-3);
  EXPECT_EQ(cache->FindTiming(1, 2), "row 3");
}

TEST_F(CacheTest, FoldersThatCannotBeUsedAreRefused) {
  EXPECT_EQ(Cache::Open("").status().code(), StatusCode::kInvalidArgument);
  std::ofstream(folder_ + "/file").flush();
  EXPECT_FALSE(Cache::Open(folder_ + "/file").ok());
  EXPECT_FALSE(Cache::Open(folder_ + "/file/below").ok());
  chmod(folder_.c_str(), 0770);
  EXPECT_THAT(Cache::Open(folder_).status().ToLine(),
              testing::HasSubstr("(mode 770); 0700 is needed"));
  chmod(folder_.c_str(), 0700);
  const auto nested = Cache::Open(folder_ + "/a/b/c");
  ASSERT_TRUE(nested.ok()) << nested.status().ToString();
  struct stat info;
  ASSERT_EQ(stat((folder_ + "/a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

}  // namespace
}  // namespace halyard::runtime
