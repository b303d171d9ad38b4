// SPDX-License-Identifier: Apache-2.0
// Program files: the binary form of a Program. A file is a header, a table of sections with offsets
// and hashes, then the sections: tables, target requirements and code, and the constants' bytes,
// 64-byte aligned so that a mapped file is used in place. The hashes find corruption; a program
// file is trusted like a shared library.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "compiler/program/program.h"

namespace halyard::program {

inline constexpr uint32_t kFileVersion = 5;
inline constexpr uint64_t kMaxFileBytes = 1ull << 46;

// What the code of one file section needs, readable without the tables.
struct Requirement {
  std::string format;  // of the executable: "cpu-image"
  TargetKind kind = TargetKind::kCpu;
  std::string triple;
  uint64_t features = 0;  // CpuFeature bits
};

// Receives the pieces of a file in order.
using Sink = std::function<Status(std::span<const uint8_t>)>;

// Verifies the program, then writes it piece by piece.
Status Write(const Program& program, const Sink& sink);
// As base/output_file.h does, to the disk: a reader sees the old file or the new one, and a pipe is
// written through. UNAVAILABLE when the system refuses.
Status Save(const Program& program, const std::string& path);

struct LoadOptions {
  // Whether the constants' bytes are hashed, as all others are: every page of them is read then.
  bool verify_data = true;
};

// Maps the file: all is checked, tables and code are copied, the constants' bytes stay in the
// mapping.
// NOT_FOUND or UNAVAILABLE when it cannot be opened, INCOMPATIBLE for another version, DATA_LOSS
// for everything that is wrong inside.
Result<Program> Load(const std::string& path, const LoadOptions& options = {});
// The same from memory that `keep_alive` owns. Constants are used in place when `bytes` starts at a
// multiple of kDataAlignment, else they are copied.
Result<Program> LoadFromMemory(std::span<const uint8_t> bytes,
                               std::shared_ptr<const void> keep_alive,
                               const LoadOptions& options = {});
// What the code needs, of a file's head in memory; reads no code and no tables.
Result<std::vector<Requirement>> ReadRequirements(std::span<const uint8_t> bytes);

// The features that the executable's own code needs: what a CPU image says of itself, else its
// target's.
uint64_t NeededFeatures(const Executable& executable, const Target& target);

// OK when `available` can run code made for `needed`; INCOMPATIBLE naming what is missing.
Status CheckTarget(const Target& needed, const Target& available);

}  // namespace halyard::program
