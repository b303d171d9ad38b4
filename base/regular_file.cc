// SPDX-License-Identifier: Apache-2.0
#include "base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace halyard {

Result<int> OpenRegularFile(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const int error = errno;
    if (error == ENOENT) return NotFound("There is no file '{}'.", path);
    return Unavailable("Opening '{}' fails: {}.", path, std::strerror(error));
  }
  struct stat info = {};
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(descriptor);
    return InvalidArgument("'{}' is not a regular file.", path);
  }
  return descriptor;
}

Result<std::string> ReadRegularFile(const std::string& path, size_t most_bytes) {
  HY_ASSIGN(const int descriptor, OpenRegularFile(path));
  std::string bytes;
  char piece[1 << 14];
  while (bytes.size() <= most_bytes) {
    const ssize_t got = read(descriptor, piece, sizeof(piece));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int error = errno;
      close(descriptor);
      return Unavailable("Reading '{}' fails: {}.", path, std::strerror(error));
    }
    if (got == 0) break;
    bytes.append(piece, static_cast<size_t>(got));
  }
  close(descriptor);
  if (bytes.size() > most_bytes) {
    return OutOfRange("The file '{}' has more than {} bytes.", path, most_bytes);
  }
  return bytes;
}

bool RemoveUnlessRegular(const std::string& path) {
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) return false;
  std::error_code error;  // what stays is refused by those who open it
  std::filesystem::remove_all(path, error);
  return true;
}

}  // namespace halyard
