// SPDX-License-Identifier: Apache-2.0
// Cache: compiled programs and timings on disk, shared by all processes of one user. A cache never
// fails a compile: what cannot be read is a miss, what cannot be written is a log line.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compiler/program/program.h"

namespace halyard::runtime {

// Thread-safe, also against other processes: entries appear by rename, and timings by appending
// whole lines.
class Cache {
 public:
  // Makes the folder with mode 0700 when it is missing. FAILED_PRECONDITION when another user owns
  // it or can write to it; UNAVAILABLE when it cannot be made. `notes`, where given: what was in
  // place of the file of timings and was removed.
  static Result<std::shared_ptr<Cache>> Open(const std::string& folder,
                                             std::vector<std::string>* notes = nullptr);

  // NOT_FOUND when there is none. A corrupted or older entry is removed and reported as what it is.
  Result<program::Program> FindProgram(uint64_t key) const;
  // UNAVAILABLE when the disk refuses. Also removes what processes that died left half written.
  Status StoreProgram(uint64_t key, const program::Program& program) const;
  std::string ProgramPath(uint64_t key) const;

  // Winners of schedule races, per device identity and key.
  std::optional<std::string> FindTiming(uint64_t device, uint64_t key);
  void StoreTiming(uint64_t device, uint64_t key, std::string_view record, double seconds);

 private:
  explicit Cache(std::string folder) : folder_(std::move(folder)) {}
  void LoadTimings();

  const std::string folder_;
  std::mutex mutex_;
  bool has_loaded_timings_ = false;
  std::map<std::pair<uint64_t, uint64_t>, std::string> timings_;
};

}  // namespace halyard::runtime
