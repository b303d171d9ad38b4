// SPDX-License-Identifier: Apache-2.0
// The binary form of the tables of a Program: one visit per struct serves writing and reading, so
// each field is stated once. Little-endian; strings and lists carry a 64-bit count. No sections, no
// hashes.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "compiler/program/file.h"
#include "compiler/program/program.h"

namespace halyard::program {

class ArchiveWriter {
 public:
  template <typename... Fields>
  void operator()(Fields&... fields) {
    (Put(fields), ...);
  }
  std::vector<uint8_t> TakeBytes() { return std::move(bytes_); }

 private:
  template <typename T>
  void Put(T& value);
  void PutRaw(const void* from, size_t size) {
    const auto* p = static_cast<const uint8_t*>(from);
    bytes_.insert(bytes_.end(), p, p + size);
  }
  std::vector<uint8_t> bytes_;
};

// Sticky failure: after the first one every field stays as it is.
class ArchiveReader {
 public:
  explicit ArchiveReader(std::span<const uint8_t> bytes) : rest_(bytes) {}
  template <typename... Fields>
  void operator()(Fields&... fields) {
    (Get(fields), ...);
  }
  // DATA_LOSS when something was missing, out of range, or left over.
  Status Finish() const;

 private:
  template <typename T>
  void Get(T& value);
  bool GetRaw(void* to, size_t size) {
    if (failed_ || size > rest_.size()) {
      failed_ = true;
      return false;
    }
    std::memcpy(to, rest_.data(), size);
    rest_ = rest_.subspan(size);
    return true;
  }
  std::span<const uint8_t> rest_;
  bool failed_ = false;
};

// The tables: everything but code, data and requirements.
void VisitTables(ArchiveWriter& archive, Program& program);
void VisitTables(ArchiveReader& archive, Program& program);
void VisitRequirements(ArchiveWriter& archive, std::vector<Requirement>& requirements);
void VisitRequirements(ArchiveReader& archive, std::vector<Requirement>& requirements);

}  // namespace halyard::program
