// SPDX-License-Identifier: Apache-2.0
// The implementations of ByteSource.
#include "compiler/graph/constants.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace halyard::graph {
namespace {

Status CheckRange(int64_t offset, size_t count, int64_t size) {
  if (offset < 0 || offset > size || static_cast<uint64_t>(size - offset) < count) {
    return OutOfRange("Bytes {} to {} + {} are asked for; there are {}.", offset, offset, count,
                      size);
  }
  return OkStatus();
}

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::vector<uint8_t> bytes) : owned_(std::move(bytes)), bytes_(owned_) {}
  MemorySource(std::span<const uint8_t> bytes, std::shared_ptr<const void> keep_alive)
      : bytes_(bytes), keep_alive_(std::move(keep_alive)) {}

  int64_t size_bytes() const override { return static_cast<int64_t>(bytes_.size()); }
  Status Read(int64_t offset, std::span<uint8_t> out) const override {
    HY_TRY(CheckRange(offset, out.size(), size_bytes()));
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return OkStatus();
  }
  std::span<const uint8_t> InMemory() const override { return bytes_; }

 private:
  std::vector<uint8_t> owned_;
  std::span<const uint8_t> bytes_;
  std::shared_ptr<const void> keep_alive_;
};

class FileSource final : public ByteSource {
 public:
  FileSource(int descriptor, std::string name, int64_t size)
      : descriptor_(descriptor), name_(std::move(name)), size_(size) {}
  ~FileSource() override { ::close(descriptor_); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  int64_t size_bytes() const override { return size_; }
  Status Read(int64_t offset, std::span<uint8_t> out) const override {
    HY_TRY_CONTEXT(CheckRange(offset, out.size(), size_), "reading file '{}'", name_);
    while (!out.empty()) {
      const ssize_t count = ::pread(descriptor_, out.data(), out.size(), offset);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        return DataLoss("File '{}' cannot be read at byte {}: {}.", name_, offset,
                        std::strerror(errno));
      }
      if (count == 0) {
        return DataLoss("File '{}' ends at byte {}; it had {} bytes when it was opened.", name_,
                        offset, size_);
      }
      out = out.subspan(static_cast<size_t>(count));
      offset += count;
    }
    return OkStatus();
  }

 private:
  int descriptor_;
  std::string name_;
  int64_t size_;
};

class RangeSource final : public ByteSource {
 public:
  RangeSource(std::shared_ptr<const ByteSource> whole, int64_t offset, int64_t size)
      : whole_(std::move(whole)), offset_(offset), size_(size) {}

  int64_t size_bytes() const override { return size_; }
  Status Read(int64_t offset, std::span<uint8_t> out) const override {
    HY_TRY(CheckRange(offset, out.size(), size_));
    return whole_->Read(offset_ + offset, out);
  }
  std::span<const uint8_t> InMemory() const override {
    const std::span<const uint8_t> bytes = whole_->InMemory();
    if (bytes.empty()) return {};
    return bytes.subspan(static_cast<size_t>(offset_), static_cast<size_t>(size_));
  }

 private:
  std::shared_ptr<const ByteSource> whole_;
  int64_t offset_;
  int64_t size_;
};

class MissingSource final : public ByteSource {
 public:
  MissingSource(std::string name, int64_t size) : name_(std::move(name)), size_(size) {}
  int64_t size_bytes() const override { return size_; }
  Status Read(int64_t, std::span<uint8_t>) const override {
    return NotFound("The data of constant '{}' is not here.", name_);
  }

 private:
  std::string name_;
  int64_t size_;
};

}  // namespace

std::shared_ptr<const ByteSource> OwnBytes(std::vector<uint8_t> bytes) {
  return std::make_shared<MemorySource>(std::move(bytes));
}

std::shared_ptr<const ByteSource> BorrowBytes(std::span<const uint8_t> bytes,
                                              std::shared_ptr<const void> keep_alive) {
  return std::make_shared<MemorySource>(bytes, std::move(keep_alive));
}

Result<std::shared_ptr<const ByteSource>> OpenFile(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    return InvalidArgument("A file name with a zero byte cannot be opened.");
  }
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const std::string reason = std::strerror(errno);
    return NotFound("File '{}' cannot be opened: {}.", path, reason);
  }
  return OwnFile(descriptor, path);
}

Result<std::shared_ptr<const ByteSource>> OwnFile(int descriptor, std::string name) {
  struct stat info = {};
  if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(descriptor);
    return InvalidArgument("'{}' is not a regular file.", name);
  }
  return std::shared_ptr<const ByteSource>(std::make_shared<FileSource>(
      descriptor, std::move(name), static_cast<int64_t>(info.st_size)));
}

Result<std::shared_ptr<const ByteSource>> RangeOf(std::shared_ptr<const ByteSource> whole,
                                                  int64_t offset, int64_t size_bytes) {
  if (size_bytes < 0) return OutOfRange("A range has {} bytes.", size_bytes);
  HY_TRY(CheckRange(offset, static_cast<size_t>(size_bytes), whole->size_bytes()));
  return std::shared_ptr<const ByteSource>(
      std::make_shared<RangeSource>(std::move(whole), offset, size_bytes));
}

std::shared_ptr<const ByteSource> MissingBytes(std::string name, int64_t size_bytes) {
  return std::make_shared<MissingSource>(std::move(name), size_bytes);
}

Result<std::vector<uint8_t>> ReadAll(const ByteSource& source, int64_t max_bytes) {
  const int64_t size = source.size_bytes();
  if (size < 0 || size > max_bytes) {
    return OutOfRange("{} bytes are to be read; the limit is {}.", size, max_bytes);
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  HY_TRY(source.Read(0, bytes));
  return bytes;
}

}  // namespace halyard::graph
