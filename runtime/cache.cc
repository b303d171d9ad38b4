// SPDX-License-Identifier: Apache-2.0
// The cache folder: "<key>.hyp" per program, and one file of timings.
#include "runtime/cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <sstream>

#include "base/hash.h"
#include "base/output_file.h"
#include "base/regular_file.h"
#include "compiler/program/file.h"

namespace halyard::runtime {
namespace {

constexpr const char* kTimingsName = "/timings";
constexpr size_t kMostTimingBytes = size_t{1} << 30;
constexpr time_t kAbandonedSeconds = 3600;

// What processes that died while they wrote an entry left: "<key>.hyp.<letters>", long untouched.
void RemoveAbandoned(const std::string& folder) {
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    struct stat info;
    if (file.path().filename().string().find(".hyp.") == std::string::npos ||
        lstat(file.path().c_str(), &info) != 0 || !S_ISREG(info.st_mode) ||
        info.st_mtime > time(nullptr) - kAbandonedSeconds) {
      continue;
    }
    unlink(file.path().c_str());
  }
}

// Each missing folder of the path, private to the user.
Status MakeFolders(const std::string& folder) {
  for (size_t end = folder.find('/', 1);; end = folder.find('/', end + 1)) {
    const std::string part = folder.substr(0, end);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      const int error = errno;
      struct stat info;
      if (stat(part.c_str(), &info) != 0) {
        return Unavailable("Making the cache folder '{}' fails: {}.", part, std::strerror(error));
      }
    }
    if (end == std::string::npos) return OkStatus();
  }
}

}  // namespace

Result<std::shared_ptr<Cache>> Cache::Open(const std::string& folder,
                                           std::vector<std::string>* notes) {
  if (folder.empty()) return InvalidArgument("The cache folder has no name.");
  HY_TRY(MakeFolders(folder));
  struct stat info;
  if (stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return FailedPrecondition("The cache folder '{}' is not a folder.", folder);
  }
  if (info.st_uid != geteuid()) {
    return FailedPrecondition("The cache folder '{}' belongs to user {}; this process runs as {}.",
                              folder, info.st_uid, geteuid());
  }
  if ((info.st_mode & 022) != 0) {
    return FailedPrecondition(
        "Others can write to the cache folder '{}' (mode {:o}); 0700 is needed.", folder,
        info.st_mode & 0777);
  }
  if (notes != nullptr && RemoveUnlessRegular(folder + kTimingsName)) {
    notes->push_back(
        fmt::format("'{}{}' was no regular file and was removed; schedules are timed anew", folder,
                    kTimingsName));
  }
  return std::shared_ptr<Cache>(new Cache(folder));
}

std::string Cache::ProgramPath(uint64_t key) const {
  return fmt::format("{}/{:016x}.hyp", folder_, key);
}

Result<program::Program> Cache::FindProgram(uint64_t key) const {
  const std::string path = ProgramPath(key);
  if (RemoveUnlessRegular(path)) {
    return DataLoss("The cache entry '{}' was no regular file and was removed.", path);
  }
  auto program = program::Load(path);
  if (program.ok() && program->content_hash == key) return program;
  if (!program.ok() && program.status().code() == StatusCode::kNotFound) return program.status();
  // Another process may have replaced it meanwhile; then a good entry goes, and is made again.
  unlink(path.c_str());
  if (program.ok()) return DataLoss("The cache entry '{}' is for another key.", path);
  return program.status();
}

Status Cache::StoreProgram(uint64_t key, const program::Program& program) const {
  RemoveAbandoned(folder_);
  RemoveUnlessRegular(ProgramPath(key));
  return program::Save(program, ProgramPath(key));
}

// Lines "<hash> <device> <key> <seconds> <record>"; the hash covers the rest, so that a torn line
// is skipped.
void Cache::LoadTimings() {
  if (has_loaded_timings_) return;
  has_loaded_timings_ = true;
  RemoveUnlessRegular(folder_ + kTimingsName);
  const Result<std::string> text = ReadRegularFile(folder_ + kTimingsName, kMostTimingBytes);
  if (!text.ok()) return;  // a miss
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() < 17 || line[16] != ' ') continue;
    const std::string_view rest = std::string_view(line).substr(17);
    uint64_t hash = 0, device = 0, key = 0;
    const auto number = [](std::string_view text, uint64_t& out) {
      return std::from_chars(text.data(), text.data() + text.size(), out, 16).ptr ==
             text.data() + text.size();
    };
    if (!number(std::string_view(line).substr(0, 16), hash) || HashString(rest) != hash ||
        rest.size() < 34)
      continue;
    if (!number(rest.substr(0, 16), device) || !number(rest.substr(17, 16), key)) continue;
    const size_t record = rest.find(' ', 34);
    if (record == std::string_view::npos) continue;
    timings_[{device, key}] = rest.substr(record + 1);
  }
}

std::optional<std::string> Cache::FindTiming(uint64_t device, uint64_t key) {
  const std::lock_guard lock(mutex_);
  LoadTimings();
  const auto found = timings_.find({device, key});
  if (found == timings_.end()) return std::nullopt;
  return found->second;
}

void Cache::StoreTiming(uint64_t device, uint64_t key, std::string_view record, double seconds) {
  if (record.find('\n') != std::string_view::npos) return;  // one line each
  const std::lock_guard lock(mutex_);
  LoadTimings();
  timings_[{device, key}] = record;
  const std::string rest = fmt::format("{:016x} {:016x} {:.9e} {}", device, key, seconds, record);
  // Begins on a line of its own, also after one that a full disk cut off.
  const std::string line = fmt::format("\n{:016x} {}\n", HashString(rest), rest);
  // A torn line is skipped when read; what does not reach the disk is a miss for other processes
  // only.
  AppendToFile(folder_ + kTimingsName, line).Ignore();
}

}  // namespace halyard::runtime
