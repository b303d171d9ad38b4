// SPDX-License-Identifier: Apache-2.0
// Where the bytes of constants are: owned memory, borrowed memory, files, and ranges of these.
// Files are read on demand with pread and never mapped, because another process may truncate them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "compiler/graph/graph.h"

namespace halyard::graph {

std::shared_ptr<const ByteSource> OwnBytes(std::vector<uint8_t> bytes);
// `keep_alive` holds whatever owns the bytes; when it is null the caller keeps them for the
// source's life.
std::shared_ptr<const ByteSource> BorrowBytes(std::span<const uint8_t> bytes,
                                              std::shared_ptr<const void> keep_alive = nullptr);
// A whole regular file, of the size it has now; reads fail with DATA_LOSS when it has become
// shorter. NOT_FOUND, or INVALID_ARGUMENT when it is a folder, a pipe or a device.
Result<std::shared_ptr<const ByteSource>> OpenFile(const std::string& path);
// The same for an open file descriptor, which the source then owns. `name` is for messages.
Result<std::shared_ptr<const ByteSource>> OwnFile(int descriptor, std::string name);
// Bytes [offset, offset + size) of another source. OUT_OF_RANGE unless they lie inside it.
Result<std::shared_ptr<const ByteSource>> RangeOf(std::shared_ptr<const ByteSource> whole,
                                                  int64_t offset, int64_t size_bytes);
// Stands for bytes that are not here (IR text read without its data): Read fails with NOT_FOUND.
std::shared_ptr<const ByteSource> MissingBytes(std::string name, int64_t size_bytes);
// All bytes of a source; OUT_OF_RANGE when there are more than `max_bytes`.
Result<std::vector<uint8_t>> ReadAll(const ByteSource& source, int64_t max_bytes);

}  // namespace halyard::graph
